// A solve with one right-hand side.
#include <algorithm>
#include <utility>

#include "solvers/lanes.hpp"
#include "systems/run.hpp"

namespace protean {

template <class T>
class SystemSolver<T>::OneRun final : public SystemSolver<T>::Run {
 public:
  using Run::report;
  OneRun(SystemSolver& of, SystemMatrix<T>& matrix, Changes changes, VectorView<const T> b, VectorView<T> x,
         SolveObserver* observer, std::vector<StoppingRule> rules, SolveOutcome& outcome)
      : Run(of, matrix, changes, detail::as_column(x), std::move(rules), false, outcome),
        b_(b),
        x_(x),
        numbered_(first_of(this->make_schedule(observer), observer)) {}

 private:
  using Run::matrix_;
  using Run::of_;
  using typename Run::ColumnNumbers;
  using typename Run::Trial;

  static SolveObserver* first_of(SolveObserver* schedule, SolveObserver* observer) {
    return schedule ? schedule : observer;
  }
  static MultiSolveReport as_several(SolveReport one) {
    MultiSolveReport report;
    report.iterations = one.iterations, report.seconds = one.seconds;
    report.columns.push_back(std::move(one));
    return report;
  }

  MultiSolveReport not_begun(StopReason ended) override {
    class Stop final : public SolveObserver {
     public:
      bool on_iteration(const IterationInfo&) override { return false; }
    } stop;
    StoppingRule rule = this->rules_.front();
    rule.max_seconds = 0;
    of_.solver_->set_stopping(rule);
    return as_several(
        of_.solver_->solve(matrix_.A(), b_, x_, nullptr, ended == StopReason::interrupted ? &stop : nullptr));
  }

  MultiSolveReport solve_part(std::vector<StoppingRule> rules) override {
    of_.make_method(1);
    Solver<T>& solver = *of_.solver_;
    solver.set_stopping(rules.front());
    const SolverOptions& options = solver.options();
    return this->steered(numbered_.observer(), options, trial_of(options), {}, [&](SolveObserver* observer) {
      return as_several(solver.solve(matrix_.A(), b_, x_, of_.used_preconditioner(), observer));
    });
  }
  void number_part(const ColumnNumbers&, double since_begin) override {
    numbered_.go_on(this->rules_.front(), report.columns.front(), since_begin);
  }
  bool stopped() const override { return numbered_.stopped(); }
  StoppingRule steering_rule(const std::vector<StoppingRule>& rules) const override { return rules.front(); }

  // A solver of its own keeps the vectors of the present one as they are.
  Trial trial_of(const SolverOptions& options) {
    return [this, options](const Preconditioner<T>& M, detail::KeptColumns<T>& x, std::int64_t iterations,
                           SolveObserver& observer) {
      x.take(matrix_.context(), this->X_, {0}, ColumnNumbers{0});
      SolverOptions trial = options;
      trial.stopping.max_iterations = iterations;
      const std::unique_ptr<Solver<T>> solver = make_solver<T>(of_.method_, trial);
      solver->set_null_space(of_.null_space_);
      SolveReport tried = solver->solve(matrix_.A(), b_, x.x().column(0), &M, &observer);
      x.norms.front().residual = tried.true_residual;
      return tried;
    };
  }

  const VectorView<const T> b_;
  const VectorView<T> x_;
  detail::Numbered numbered_;
};

template <class T>
SolveResult SystemSolver<T>::solve(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                                   SolveObserver* observer) {
  require_idle("solve()");
  const Busy busy(busy_);
  if (!observer) observer = settings_.observer;
  if (detail::OverDevices<T>* const devices = sequence_->devices_of(*this))
    return devices->solve(matrix, settings_, b, x, observer);
  auto preparing = matrix.preparing();
  const Changes changes = set_up_matrix(matrix, 1);
  const typename SystemMatrix<T>::Use use(matrix);
  preparing.unlock();
  SolveResult result;
  OneRun run(*this, matrix, changes, b, x, observer, set_up_within(matrix, {settings_.solver.stopping}),
             result);
  run();
  result.report = std::move(run.report.columns.front());
  return result;
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template SolveResult SystemSolver<T>::solve(SystemMatrix<T>&, VectorView<const T>, VectorView<T>, \
                                              SolveObserver*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
