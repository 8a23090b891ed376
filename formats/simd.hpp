// See core/simd.hpp.
#pragma once
#include "core/simd.hpp"
