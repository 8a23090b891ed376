#include "count_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> count{0}, live{0};
std::atomic<std::int64_t> fails_in{0};  // calls; 0 and less: none fails
std::atomic<bool> failed{false};

// Whether this call is the one to fail.
bool is_due() noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  if (fails_in.load(std::memory_order_relaxed) <= 0 || fails_in.fetch_sub(1) != 1) return false;
  failed = true;
  return true;
}

// As the standard operator new does.
[[noreturn]] void throw_bad_alloc() {
  if (const std::new_handler handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}

void* counted(void* memory) noexcept {
  if (memory) live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
void give_back(void* memory) noexcept {
  if (memory) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}
}  // namespace

namespace protean::test {
std::int64_t count_of_new() noexcept { return count.load(std::memory_order_relaxed); }
void fail_new(std::int64_t n) noexcept { failed = false, fails_in = n; }
bool new_has_failed() noexcept { return failed; }
std::int64_t live_news() noexcept { return live.load(std::memory_order_relaxed); }
}  // namespace protean::test

// Every form of new whose memory a plain delete may free is replaced here. Under a sanitizer, a form that is
// missing would not reach these.
void* operator new(std::size_t size) {
  if (is_due()) throw_bad_alloc();
  if (void* memory = counted(std::malloc(size > 0 ? size : 1))) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (is_due()) return nullptr;
  return counted(std::malloc(size > 0 ? size : 1));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  if (is_due()) throw_bad_alloc();
  const auto step = static_cast<std::size_t>(alignment);
  if (void* memory = counted(std::aligned_alloc(step, (size + step) / step * step))) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }
