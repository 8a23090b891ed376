// The options of the methods.
#pragma once
#include <cstdint>
#include <string>

#include <protean/core/export.hpp>
#include <protean/solvers/stopping.hpp>

namespace PROTEAN_EXPORT protean {

// The options of all methods. solver_options() of solvers/options.hpp and `protean help problem solver` say which
// method reads which option, and in which range.
struct SolverOptions {
  StoppingRule stopping = {};
  std::int64_t restart = 30;               // gmres, fgmres: basis vectors before a restart
  std::string orthogonalization = "cgs2";  // gmres, fgmres: cgs2 | mgs
  std::int64_t directions = 5;  // fcg: last directions to which a new one is made conjugate, 1 to 100
  std::int64_t s = 4;           // idr: dimension of the shadow space, 1 to 16
  // cg, fcg, minres: none | constant. constant says that the null space of A has the vectors with equal entries and no
  // others, as in Neumann problems and graph Laplacians. set_null_space() gives another null space.
  std::string null_space = "none";
  // On a device: auto | graph | resident. On a host solve() throws BadArgument for any value except auto.
  // - graph: some steps are recorded into a CUDA graph, which is replayed from the first step on; for any method and
  //   operator.
  // - resident: one kernel does many steps and keeps matrix and vectors in the shared memory of the processors. For cg
  //   without preconditioner or with a diagonal one, if the operator has HasRowArrays and all fits; otherwise solve()
  //   throws BadArgument.
  // - auto: resident if possible. Otherwise steps are queued one by one, and as a graph when the solve, or the last
  //   solve of this solver, has become so long that a recording pays: 64 steps as a rule, four cycles of gmres.
  // Each way gives the same bits in every run, and so do steps in and before a graph; a solve by resident steps differs
  // by rounding.
  std::string device_steps = "auto";
  // euclidean | diagonal: the norm of b, of b - A x and of the recurrence residual in tolerances, limits and reports
  // (docs/methods.md). diagonal is ||D^-1 v||. D is the diagonal of A as the solve begins, with 1 for an entry that is
  // 0 or whose inverse is not finite. It needs HasDiagonal, two vectors (gmres, fgmres, and minres without M: three),
  // and in each iteration a pass over three vectors and one over one. Of several right-hand sides each is measured so.
  std::string residual_norm = "euclidean";
};

}  // namespace protean
