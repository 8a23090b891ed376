// Compiled without -fsanitize=thread also in a ThreadSanitizer build: the OpenMP run time is not
// instrumented, so its fork and join are told to the sanitizer here, by hand, and everything inside a part is
// checked.
#include "core/parallel.hpp"

#include <omp.h>

#include <exception>
#include <vector>

#include "core/background.hpp"

#if defined(PROTEAN_THREAD_SANITIZER)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#else
static void __tsan_acquire(void*) {}
static void __tsan_release(void*) {}
#endif

namespace protean {

int available_threads() noexcept { return std::max(1, omp_get_max_threads()); }

namespace detail {

void run_parallel(int parts, ParallelBody body, void* closure) {
  const Background* const behind = background();
  const int threads = behind ? std::min(parts, behind->workers) : parts;
  // Serial inside a parallel region, so that nested calls neither oversubscribe nor lose parts.
  if (threads == 1 || omp_in_parallel()) {
    for (int part = 0; part < parts; ++part) {
      checkpoint();
      body(closure, part, parts);
    }
    return;
  }
  checkpoint();
  std::exception_ptr error;
  int error_part = parts;
  char fork = 0, join = 0;
  __tsan_release(&fork);
#pragma omp parallel num_threads(threads)
  {
    __tsan_acquire(&fork);
    // The run time may give fewer threads than asked for; every part still runs.
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
      try {
        body(closure, part, parts);
      } catch (...) {
#pragma omp critical(protean_parallel_error)
        if (part < error_part) error = std::current_exception(), error_part = part;
      }
    }
    __tsan_release(&join);
  }
  __tsan_acquire(&join);
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace protean
