// The same for tests that read reports.
#pragma once
#include <nlohmann/json.hpp>

#include "tests/precompiled.hpp"
