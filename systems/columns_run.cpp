// A solve with several right-hand sides.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "solvers/driver/columns.hpp"
#include "solvers/steering_observer.hpp"
#include "systems/run.hpp"

namespace protean {

template <class T>
class SystemSolver<T>::ColumnsRun final : public SystemSolver<T>::Run {
 public:
  using Run::report;
  ColumnsRun(SystemSolver& of, SystemMatrix<T>& matrix, Changes changes, const MultiVectorView<const T>& B,
             const MultiVectorView<T>& X, MultiSolveObserver* observer, std::vector<StoppingRule> rules,
             SolveOutcome& outcome)
      : Run(of, matrix, changes, X, std::move(rules), true, outcome),
        B_(B),
        numbered_(
            with_schedule(observer), [this](StopReason reason) { return this->ends_all(reason); },
            [this] { return_x(); }) {}

 private:
  using Run::matrix_;
  using Run::of_;
  using Run::part_;
  using Run::X_;
  using typename Run::ColumnNumbers;
  using typename Run::Trial;

  MultiSolveObserver* with_schedule(MultiSolveObserver* observer) {
    FormatSchedule<T>* const schedule = this->make_schedule(nullptr);
    return schedule ? &scheduled_.emplace(*schedule, observer) : observer;
  }

  MultiSolveReport not_begun(StopReason ended) override {
    class Stop final : public MultiSolveObserver {
     public:
      bool on_iteration(const MultiIterationInfo&) override { return false; }
    } stop;
    std::vector<StoppingRule> rules = this->rules_;
    for (StoppingRule& rule : rules) rule.max_seconds = 0;
    MultiSolveObserver* const none = nullptr;
    return of_.multi_solver_->solve(matrix_.A(), B_, X_, nullptr,
                                    ended == StopReason::interrupted ? &stop : none, rules);
  }

  // If not all columns are left, their vectors are copied, and x is copied back.
  MultiSolveReport solve_part(std::vector<StoppingRule> rules) override {
    part_b_ = B_, part_x_ = X_;
    MultiVector<T> b, x;
    if (std::ssize(part_) < B_.columns) {
      const ContextPtr& context = matrix_.context();
      b = MultiVector<T>(context, B_.rows, std::ssize(part_));
      x = MultiVector<T>(context, B_.rows, std::ssize(part_));
      const std::vector<ColumnPair> pairs = packed(part_);
      copy_columns<T>(*context, B_, b, pairs);
      copy_columns<T>(*context, MultiVectorView<const T>(X_), x, pairs);
      part_b_ = b.view(), part_x_ = x.view();
    }
    of_.make_method(2);
    SolverOptions options = of_.multi_solver_->options();
    options.stopping = steering_rule(rules);
    MultiSolveReport part = this->steered(
        nullptr, options, trial_of(rules), [this] { return numbered_.relative_residual(); },
        [&](SolveObserver* steering) {
          std::optional<detail::SlowestColumn> slowest;
          MultiSolveObserver* observer = &numbered_;
          if (steering)
            observer = &slowest.emplace(*steering, observer, rules,
                                        [this](std::int64_t running) { this->columns_left(running); });
          return of_.multi_solver_->solve(matrix_.A(), part_b_, part_x_, of_.used_preconditioner(), observer,
                                          rules);
        });
    return_x();
    return part;
  }
  void return_x() {
    if (part_x_.data == X_.data) return;
    std::vector<ColumnPair> pairs = packed(part_);
    for (ColumnPair& pair : pairs) std::swap(pair.from, pair.to);
    copy_columns<T>(*matrix_.context(), MultiVectorView<const T>(part_x_), X_, pairs);
  }
  // Column columns[i] becomes number i.
  static std::vector<ColumnPair> packed(const ColumnNumbers& columns) {
    std::vector<ColumnPair> pairs;
    for (const std::size_t c : columns)
      pairs.push_back({static_cast<std::int32_t>(c), static_cast<std::int32_t>(pairs.size())});
    return pairs;
  }

  void number_part(const ColumnNumbers& columns, double since_begin) override {
    std::vector<double> baselines;
    for (const std::size_t c : columns)
      baselines.push_back(detail::baseline_of(this->rules_[c], report.columns[c]));
    numbered_.go_on(this->iterations_before_, since_begin, columns, std::move(baselines));
  }
  bool stopped() const override { return numbered_.stopped(); }

  // Of what SlowestColumn shows: multiples of the tolerance.
  StoppingRule steering_rule(const std::vector<StoppingRule>& rules) const override {
    StoppingRule rule = rules.empty() ? of_.settings_.solver.stopping : rules.front();
    for (const StoppingRule& one : rules) {
      rule.max_iterations = std::max(rule.max_iterations, one.max_iterations);
      rule.max_seconds = std::max(rule.max_seconds, one.max_seconds);
    }
    rule.relative_tolerance = 1, rule.absolute_tolerance = 0;
    return rule;
  }

  // A solver of its own keeps the vectors of the present one as they are.
  Trial trial_of(const std::vector<StoppingRule>& rules) {
    return [this, rules](const Preconditioner<T>& M, detail::KeptColumns<T>& x, std::int64_t iterations,
                         SolveObserver& observer) {
      const ContextPtr& context = matrix_.context();
      const ColumnNumbers running = numbered_.running();
      ColumnNumbers columns;
      std::vector<StoppingRule> tried_rules;
      for (const std::size_t i : running) {
        columns.push_back(part_[i]), tried_rules.push_back(rules[i]);
        tried_rules.back().max_iterations = iterations;
      }
      x.take(context, MultiVectorView<const T>(part_x_), running, columns);
      MultiVectorView<const T> b = part_b_;
      MultiVector<T> some;
      if (running.size() < part_.size()) {
        some = MultiVector<T>(context, b.rows, std::ssize(running));
        copy_columns<T>(*context, b, some, packed(running));
        b = some.view();
      }
      MultiSolver<T> solver(of_.method_, of_.options_of_method());
      solver.set_null_space(of_.null_space_);
      detail::SlowestColumn slowest(observer, nullptr, tried_rules, {});
      const MultiSolveReport tried = solver.solve(matrix_.A(), b, x.x(), &M, &slowest, tried_rules);
      for (std::size_t i = 0; i < columns.size(); ++i) x.norms[i].residual = tried.columns[i].true_residual;
      return Run::worst_of(tried);
    };
  }

  const MultiVectorView<const T> B_;
  std::optional<detail::SlowestColumn> scheduled_;
  detail::NumberedColumns numbered_;
  // Of the part.
  MultiVectorView<const T> part_b_;
  MultiVectorView<T> part_x_;
};

template <class T>
MultiSolveResult SystemSolver<T>::multi_solve(SystemMatrix<T>& matrix, MultiVectorView<const T> B,
                                              MultiVectorView<T> X, MultiSolveObserver* observer,
                                              std::span<const StoppingRule> rules) {
  require_idle("multi_solve()");
  const Busy busy(busy_);
  if (settings_.observer)
    throw BadArgument(
        "the observer of the settings is for one right-hand side; give an observer of columns to multi_solve(), or "
        "solve the columns one after another");
  if (sequence_->devices_of(*this))
    throw BadArgument(
        "several devices take one right-hand side; solve the columns one after another, or leave the devices out");
  auto preparing = matrix.preparing();
  const Changes changes = set_up_matrix(matrix, std::max<std::int64_t>(B.columns, 2));
  const typename SystemMatrix<T>::Use use(matrix);
  preparing.unlock();
  if (B.columns < 0 || (!rules.empty() && std::ssize(rules) != B.columns))
    return {{}, multi_solver_->solve(matrix.A(), B, X, nullptr, nullptr, rules)};  // refuses it
  detail::require_memory_of_columns<T>(B.columns);
  std::vector<StoppingRule> left(rules.begin(), rules.end());
  if (rules.empty()) left.assign(static_cast<std::size_t>(B.columns), settings_.solver.stopping);
  MultiSolveResult result;
  ColumnsRun run(*this, matrix, changes, B, X, observer, set_up_within(matrix, std::move(left)), result);
  run();
  result.report = std::move(run.report);
  return result;
}

#define PROTEAN_INSTANTIATE(T)                                                                       \
  template MultiSolveResult SystemSolver<T>::multi_solve(SystemMatrix<T>&, MultiVectorView<const T>, \
                                                         MultiVectorView<T>, MultiSolveObserver*,    \
                                                         std::span<const StoppingRule>);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
