#include "count_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> count{0};
std::atomic<std::int64_t> fails_in{0};  // calls; 0 and less: none fails
std::atomic<bool> failed{false};

void count_one() {
  count.fetch_add(1, std::memory_order_relaxed);
  if (fails_in.load(std::memory_order_relaxed) <= 0 || fails_in.fetch_sub(1) != 1) return;
  failed = true;
  throw std::bad_alloc();
}
}  // namespace

namespace protean::test {
std::int64_t count_of_new() noexcept { return count.load(std::memory_order_relaxed); }
void fail_new(std::int64_t n) noexcept { failed = false, fails_in = n; }
bool new_has_failed() noexcept { return failed; }
}  // namespace protean::test

// Every form of new whose memory a plain delete may free is replaced here. Under a sanitizer, a form that is
// missing would not reach these.
void* operator new(std::size_t size) {
  count_one();
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size > 0 ? size : 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  count_one();
  const auto step = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(step, (size + step) / step * step)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
