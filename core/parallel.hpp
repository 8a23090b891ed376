// The only place where threads are started. Everything parallel on the host is a body(part, parts), run once for each
// part. The caller splits the work into a fixed number of parts, so sums over parts are the same in every run. Which
// thread runs a part is not fixed: see thread_team.hpp. A part usually runs on the same thread as in the regions
// before, which has its data in its caches. Parts must not wait for each other: one thread may run several of them, one
// after another.
//
// Each thread that calls parallel() has its own workers, which are started when first needed and end with it. After
// fork() the child starts its own.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <protean/core/context.hpp>

namespace protean {

// The threads of a context that is asked for 0: OMP_NUM_THREADS if it is set; otherwise the processors that
// this process may run on, or fewer if its control group grants less time (containers), or if the program has called
// omp_set_num_threads().
int available_threads();

namespace detail {
using ParallelBody = void (*)(void* closure, int part, int parts);
// Runs body for part 0 .. parts-1 on up to `parts` threads and waits. An exception in a part is rethrown here
// (the one of the lowest part); the other parts finish first. Inside another parallel region, ours or one of
// OpenMP, all parts run on the calling thread, one after another, up to the first exception. Inside background
// work they run on that work's threads only.
void run_parallel(int parts, ParallelBody body, void* closure);
// The calling thread is a worker from now on: regions inside of the parts that it runs are serial.
void become_worker() noexcept;
void checkpoint();  // background.hpp
}  // namespace detail

template <class Body>
void parallel(int parts, Body&& body) {
  if (parts <= 1) {
    detail::checkpoint();
    body(0, 1);
    return;
  }
  using Plain = std::remove_reference_t<Body>;
  detail::run_parallel(
      parts, [](void* closure, int part, int count) { (*static_cast<Plain*>(closure))(part, count); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// body(part, parts) on all threads of a host context.
template <class Body>
void parallel(const Context& context, Body&& body) {
  parallel(context.threads(), std::forward<Body>(body));
}

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const noexcept { return end - begin; }
};

// Part `part` of 0 .. size-1 cut into `parts` nearly equal pieces whose borders are multiples of `grain`.
inline Range even_range(std::int64_t size, int part, int parts, std::int64_t grain = 1) noexcept {
  const std::int64_t grains = (size + grain - 1) / grain;
  const auto border = [&](std::int64_t p) { return std::min(size, grains * p / parts * grain); };
  return {border(part), border(part + 1)};
}

// Parts worth having for this much work: 1 below `smallest` items, for which a region costs more than it saves.
inline int useful_parts(const Context& context, std::int64_t items, std::int64_t smallest = 4096) noexcept {
  return items < smallest ? 1 : context.threads();
}

}  // namespace protean
