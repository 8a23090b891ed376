// The number of calls of operator new in this program so far, by all threads. Link count_new.cpp into the
// program itself.
#pragma once
#include <cstdint>

namespace protean::test {
std::int64_t count_of_new() noexcept;
}
