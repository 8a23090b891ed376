// Whether a solve over ranks ends for a reason that a single rank may have.
#pragma once
#include <petscsys.h>  // MPI as PETSc has it

#include <cstdint>

#include "solvers/stopping.hpp"

namespace protean::apps::ranks {

// Asks all ranks for signals (InterruptGuard) and for the time. The next iteration at which they are asked follows from
// numbers that all ranks have, and is about a twentieth of a second later, so that the reduction costs nothing and an
// interrupted solve ends soon.
class Asking {
 public:
  Asking(MPI_Comm comm, double max_seconds) : comm_(comm), max_seconds_(max_seconds) {}
  // seconds: since the solve began, on this rank. `running`, or why the solve ends on all ranks. Collective.
  StopReason operator()(std::int64_t iteration, double seconds);
  // Of the signal, the exit code of the command; 0: there was none.
  int signal_code() const noexcept { return signal_code_; }

 private:
  const MPI_Comm comm_;
  const double max_seconds_;
  std::int64_t next_ = 1, last_ = 0;  // iterations
  double asked_at_ = 0;               // seconds
  int signal_code_ = 0;
};

}  // namespace protean::apps::ranks
