#include "core/parallel.hpp"

#include <omp.h>
#include <pthread.h>

#include <cstdlib>
#include <utility>

#include "core/background.hpp"
#include "core/processors.hpp"
#include "core/thread_team.hpp"

namespace protean {
namespace detail {
namespace {

// What a calling thread has. The team ends with the thread; a region that a destructor of a static object runs
// after that is serial.
struct Caller {
  ThreadTeam* team;
  bool in_region;
  bool ended;
};
constinit thread_local Caller caller{nullptr, false, false};

// Ends the calling thread's team when the thread ends. While a thread has one, the system keeps a library
// loaded by dlopen() in memory, so no worker runs code that is gone.
struct TeamEnd {
  bool armed = false;
  ~TeamEnd() {
    delete caller.team;
    caller = {nullptr, false, true};
  }
};
thread_local TeamEnd team_end;

// The workers of a team stay in the parent of a fork(). The child drops the team, which cannot end without them,
// and makes another one when it needs it. Dropped teams stay in a list, so that they are not leaks.
ThreadTeam* dropped = nullptr;

void after_fork_in_child() {
  if (!caller.team) return;
  caller.team->next_dropped = std::exchange(dropped, caller.team);
  caller.team = nullptr;
}

ThreadTeam& team_of(int workers, int parts) {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
  if (caller.team && caller.team->fits(workers, parts)) return *caller.team;
  team_end.armed = true;
  delete std::exchange(caller.team, nullptr);
  return *(caller.team = new ThreadTeam(workers, parts));
}

class RegionScope {
 public:
  RegionScope() noexcept { caller.in_region = true; }
  ~RegionScope() { caller.in_region = false; }
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;
};

}  // namespace

void become_worker() noexcept { caller.in_region = true; }

void run_parallel(int parts, ParallelBody body, void* closure) {
  const Background* const behind = background();
  const int threads = behind ? std::min(parts, behind->workers) : parts;
  // Serial inside of a parallel region, ours or one of the program's OpenMP: its threads are busy already.
  if (threads == 1 || caller.in_region || caller.ended || omp_in_parallel()) {
    for (int part = 0; part < parts; ++part) {
      checkpoint();
      body(closure, part, parts);
    }
    return;
  }
  checkpoint();
  ThreadTeam& team = team_of(threads - 1, parts);
  const RegionScope scope;
  team.run(body, closure, parts, threads - 1, behind);
}

}  // namespace detail

int available_threads() {
  const int asked = omp_get_max_threads();
  if (detail::first_number_of_threads(std::getenv("OMP_NUM_THREADS")) > 0) return std::max(1, asked);
  return std::max(1, std::min(asked, detail::usable_processors()));
}

}  // namespace protean
