// The number of calls of operator new in this program so far, by all threads. Link count_new.cpp into the
// program itself.
#pragma once
#include <cstdint>

namespace protean::test {
std::int64_t count_of_new() noexcept;
// From now on the n-th call fails, once: it throws std::bad_alloc, or returns null if it is the form that does so. 0:
// no call fails.
void fail_new(std::int64_t n) noexcept;
// Whether it has come to that since the last fail_new().
bool new_has_failed() noexcept;
// Blocks of operator new that nobody has given back yet.
std::int64_t live_news() noexcept;
}  // namespace protean::test
