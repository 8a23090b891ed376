// Headers that most sources include, parsed once for each room (protean_precompiled() in ProteanCompiler.cmake).
// Sources include what they use all the same: the presets asan, tsan and fuzz build without this
// (CMAKE_DISABLE_PRECOMPILE_HEADERS).
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>
