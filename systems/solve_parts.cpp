// The parts of a solve with one right-hand side after the first one (systems/continued.hpp).
#include <utility>

#include "systems/continued.hpp"
#include "systems/seconds.hpp"
#include "systems/sequence.hpp"
#include "systems/system_matrix.hpp"

namespace protean {

// New values may make an old M useless, as that of amg where entries have grown. The solve, which has broken down with
// it, goes on with a new one. Returns the seconds without those of the setup.
template <class T>
double SystemSolver<T>::go_on(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                              detail::Numbered& observer, Changes changes, const StoppingRule& rule,
                              SolveResult& result) {
  const SolveReport first = std::move(result.report);
  const bool old = has_old_preconditioner(matrix.A());
  double since_begin = first.seconds;
  StopReason limit = detail::used_up(rule, first, since_begin);
  if (limit == StopReason::running) {
    Sequence& now = *sequence_;
    now.used_seconds = since_begin;
    since_begin += set_up_preconditioner(matrix, true);
    limit = std::exchange(now.ended, StopReason::running);
    if (limit == StopReason::running) limit = detail::used_up(rule, first, since_begin);
  }
  if (limit != StopReason::running) {
    result.report = detail::ended_by(limit, rule, first, since_begin, old);
    return 0;
  }
  return next_part(matrix, b, x, observer, changes, rule, first, since_begin, result);
}

// The part of a solve after `first`, which has taken since_begin seconds together with what was done after it. rule: of
// the whole solve, with what the first setup has left of the time.
template <class T>
double SystemSolver<T>::next_part(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                                  detail::Numbered& observer, Changes changes, const StoppingRule& rule,
                                  const SolveReport& first, double since_begin, SolveResult& result) {
  stage("solving");
  SolverOptions options = options_of_method();
  options.stopping = detail::rest_of(rule, first, since_begin);
  solver_.reset();  // before the new one, so that memory holds one of them at most
  const std::unique_ptr<Solver<T>> solver = make_solver<T>(method_, options);
  solver->set_null_space(null_space_);
  observer.go_on(rule, first, since_begin);
  Stopwatch clock;
  SolveReport second = run(*solver, matrix, b, x, observer, changes, result);
  since_begin += second.seconds;
  result.report = detail::joined(rule, first, std::move(second), since_begin);
  matrix.context()->synchronize();
  return clock.lap();
}

#define PROTEAN_INSTANTIATE(T)                                                                           \
  template double SystemSolver<T>::go_on(SystemMatrix<T>&, VectorView<const T>, VectorView<T>,           \
                                         detail::Numbered&, Changes, const StoppingRule&, SolveResult&); \
  template double SystemSolver<T>::next_part(SystemMatrix<T>&, VectorView<const T>, VectorView<T>,       \
                                             detail::Numbered&, Changes, const StoppingRule&,            \
                                             const SolveReport&, double, SolveResult&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
