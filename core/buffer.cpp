#include "core/buffer.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <string>

#include "core/allocation_hook.hpp"
#include "core/background.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/words.hpp"

namespace protean {
namespace {

std::atomic<std::size_t> allocated{0}, peak{0};  // host memory
constexpr int populate_write = 23;               // MADV_POPULATE_WRITE, which older headers do not name
constexpr std::size_t small_alignment = 64, huge_page = std::size_t{2} << 20, page = 4096;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

void count(std::size_t bytes) noexcept {
  const std::size_t now = allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t seen = peak.load(std::memory_order_relaxed);
  while (seen < now && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {}
}

}  // namespace

std::size_t allocated_bytes() noexcept { return allocated.load(std::memory_order_relaxed); }
std::size_t peak_allocated_bytes() noexcept { return peak.load(std::memory_order_relaxed); }

namespace detail {

#if defined(PROTEAN_HAVE_CUDA)
void* allocate_device(const Context& context, std::size_t bytes);  // core/device/context.cu
void deallocate_device(const Context& context, void* data) noexcept;
std::size_t allocated_on_device(const Context& context);
#endif

std::size_t bytes_of(std::int64_t size, std::size_t item_bytes) {
  if (size < 0) throw BadArgument("a buffer of " + std::to_string(size) + " items; it must be 0 or more");
  const auto items = static_cast<std::size_t>(size);
  if (items > std::numeric_limits<std::ptrdiff_t>::max() / item_bytes)
    throw OutOfMemory("a buffer of " + std::to_string(size) + " items of " + std::to_string(item_bytes) +
                          " bytes is larger than any address space",
                      std::numeric_limits<std::size_t>::max());
  return items * item_bytes;
}

void* allocate(const Context& context, std::size_t bytes) {
  about_to_allocate(context.space(), bytes);
  checkpoint(bytes);
  if (context.simulated()) return context.simulated()->allocate(bytes);
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device) return allocate_device(context, bytes);
#endif
  const bool large = bytes >= huge_page / 4 * 3;
  const std::size_t alignment = large ? huge_page : small_alignment;
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - alignment)
    throw OutOfMemory("a buffer of " + human_bytes(bytes) + " is larger than any address space", bytes);
  // The size is rounded up to whole huge pages if that wastes at most a third.
  const bool all_huge = large && rounded_up(bytes, huge_page) - bytes <= bytes / 3;
  const std::size_t rounded = rounded_up(bytes, all_huge ? huge_page : large ? page : small_alignment);
  void* data = nullptr;
  if (posix_memalign(&data, alignment, rounded) != 0)
    throw OutOfMemory("no memory for a buffer of " + human_bytes(bytes), bytes);
  if (large) {
    // If the system refuses, ordinary pages are used.
    (void)madvise(data, rounded, MADV_HUGEPAGE);
    const auto touch = [&](int part, int parts) {
      const Range range = even_range(static_cast<std::int64_t>(rounded), part, parts, page);
      // One call for all pages if the system has it (Linux 5.14). Otherwise each page costs a page fault,
      // which takes several times as long.
      char* const begin = static_cast<char*>(data) + range.begin;
      if (madvise(begin, static_cast<std::size_t>(range.size()), populate_write) == 0) return;
      for (std::int64_t i = range.begin; i < range.end; i += page) static_cast<volatile char*>(data)[i] = 0;
    };
    try {
      parallel(context, touch);
    } catch (...) {  // background work was cancelled
      std::free(data);
      throw;
    }
  }
  count(bytes);
  return data;
}

void deallocate(const Context& context, void* data, std::size_t bytes) noexcept {
  if (context.simulated()) return context.simulated()->deallocate(data, bytes);
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device) return deallocate_device(context, data);
#endif
  allocated.fetch_sub(bytes, std::memory_order_relaxed);
  std::free(data);
}

}  // namespace detail

std::size_t allocated_bytes(const Context& context) {
  if (context.simulated()) return context.simulated()->held();
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device) return detail::allocated_on_device(context);
#endif
  return allocated_bytes();
}

}  // namespace protean
