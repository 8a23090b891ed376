// The one place where threads are started. Everything parallel on the host is a body(part, parts) run once
// for each part of a context's threads, so work is split by the caller, not by a scheduler: the thread that
// touched a part of a vector first is the one that works on it, and sums over parts are the same in every
// run.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <protean/core/context.hpp>

namespace protean {

int available_threads() noexcept;

namespace detail {
using ParallelBody = void (*)(void* closure, int part, int parts);
// Runs body for part 0 .. parts-1 on `parts` threads and waits. An exception in a part is rethrown here (the
// one of the lowest part); the other parts finish first. Inside another parallel region it runs serially,
// and inside background work on that work's threads only.
void run_parallel(int parts, ParallelBody body, void* closure);
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

// Threads worth starting for this much work: 1 below `smallest` items, where a fork costs more than it saves.
inline int useful_parts(const Context& context, std::int64_t items, std::int64_t smallest = 4096) noexcept {
  return items < smallest ? 1 : context.threads();
}

}  // namespace protean
