#include "life/columns.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "life/comparison.hpp"

namespace protean::test::life {
namespace {

struct Seen {
  std::int64_t iteration, running;
  std::vector<double> residuals, relative;
};

template <class T>
struct ColumnsOutcome {
  std::string thrown;
  bool out_of_memory = false;
  MultiSolveReport report;
  std::vector<Seen> seen;
  std::vector<std::vector<T>> x;
  std::int64_t event_iteration = -1;  // -1: it did not happen
  std::size_t changes = 0, orders = 0;

  // Like the result of a separate solve.
  Outcome<T> column(std::size_t j) const {
    Outcome<T> one;
    one.report = report.columns[j], one.x = x[j];
    return one;
  }
};

template <class T>
class ColumnsWatcher final : public MultiSolveObserver {
 public:
  ColumnsWatcher(const SolvePlan& plan, Operator<T>& A, ColumnsOutcome<T>& outcome)
      : plan_(plan), A_(A), outcome_(outcome) {}

  bool on_iteration(const MultiIterationInfo& info) override {
    outcome_.seen.push_back({info.iteration,
                             info.running,
                             {info.residuals.begin(), info.residuals.end()},
                             {info.relative_residuals.begin(), info.relative_residuals.end()}});
    change(info.iteration);
    if (plan_.event == Event::none || outcome_.event_iteration >= 0 || info.iteration < plan_.event_at)
      return true;
    outcome_.event_iteration = info.iteration;
    if (plan_.event == Event::exception) throw Thrown("the observer throws");
    if (plan_.event == Event::new_values) A_.set_values(plan_.generation);
    return plan_.event != Event::interrupt;
  }

 private:
  void change(std::int64_t iteration) {
    Matrix<T>* const A = A_.adaptive();
    if (!A || iteration < plan_.change_at) return;
    if (!begun_) {
      begun_ = true;
      const FormatSpec to = pick_change(A_.spec().place, plan_.format);
      if (plan_.change == Change::now) (void)A->switch_to(to, iteration, "the test");
      if (plan_.change == Change::beside || plan_.change == Change::left)
        A->prepare(to, "the test", iteration), building_ = plan_.change == Change::beside;
    } else if (building_ && iteration >= plan_.change_at + 2) {
      building_ = false;
      (void)A->wait_prepared(), (void)A->adopt_prepared(iteration);
    }
  }

  const SolvePlan& plan_;
  Operator<T>& A_;
  ColumnsOutcome<T>& outcome_;
  bool begun_ = false, building_ = false;
};

// Numbers of the host in the memory of the columns, and back.
template <class T>
void put(const Context& context, const std::vector<std::vector<T>>& from, MultiVector<T>& to) {
  std::vector<T> all(static_cast<std::size_t>(to.rows() * to.columns()));
  const MultiVectorView<T> place = to.view();
  const MultiVectorView<T> on_host{all.data(), place.rows, place.columns, place.stride, place.layout};
  for (std::int64_t j = 0; j < place.columns; ++j)
    for (std::int64_t i = 0; i < place.rows; ++i) on_host(i, j) = from[j][i];
  const auto size = static_cast<std::int64_t>(all.size());
  copy<T>(context, VectorView<const T>{all.data(), size}, VectorView<T>{to.data(), size, to.space()});
}
template <class T>
std::vector<std::vector<T>> taken(const Context& context, MultiVector<T>& from) {
  std::vector<T> all(static_cast<std::size_t>(from.rows() * from.columns()));
  const auto size = static_cast<std::int64_t>(all.size());
  copy<T>(context, VectorView<const T>{from.data(), size, from.space()}, VectorView<T>{all.data(), size});
  const MultiVectorView<T> place = from.view();
  const MultiVectorView<T> on_host{all.data(), place.rows, place.columns, place.stride, place.layout};
  std::vector<std::vector<T>> columns(static_cast<std::size_t>(place.columns));
  for (std::int64_t j = 0; j < place.columns; ++j)
    for (std::int64_t i = 0; i < place.rows; ++i) columns[j].push_back(on_host(i, j));
  return columns;
}

template <class T>
struct With {
  Operator<T>& A;
  MultiSolver<T>& solver;
  Preconditioner<T>* M;
  MultiVector<T>&B, &X;
};

// Never throws.
template <class T>
ColumnsOutcome<T> carry_out(const SolvePlan& plan, const With<T>& with, const std::vector<std::vector<T>>& b,
                            const std::vector<std::vector<T>>& x0, const std::vector<StoppingRule>& rules) {
  ColumnsOutcome<T> outcome;
  const Context& context = *with.A.context();
  Matrix<T>* const adaptive = with.A.adaptive();
  const std::size_t before = adaptive ? adaptive->history().size() : 0;
  seed_made_up_clock(plan.numbers);
  try {
    put(context, b, with.B), put(context, x0, with.X);
    if (with.M) with.M->ensure(with.A.get());
    with.A.throw_at_product(plan.throw_at_product);
    ColumnsWatcher<T> watcher(plan, with.A, outcome);
    outcome.report =
        with.solver.solve(with.A.get(), std::as_const(with.B).view(), with.X.view(), with.M, &watcher, rules);
  } catch (const OutOfMemory& error) {
    outcome.thrown = error.what(), outcome.out_of_memory = true;
  } catch (const std::exception& error) { outcome.thrown = error.what(); }
  with.A.throw_at_product(0);
  if (adaptive)
    for (const SwitchRecord& one : adaptive->history().subspan(before))
      ++outcome.changes, outcome.orders += one.from_order != one.to_order;
  outcome.x = taken(context, with.X);
  return outcome;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return a.size() == b.size();
}
std::string seen_difference(const std::vector<Seen>& a, const std::vector<Seen>& b) {
  if (a.size() != b.size())
    return fmt::format("the observer was called {} times and {} times with fresh objects", a.size(),
                       b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].iteration != b[i].iteration || a[i].running != b[i].running ||
        !same(a[i].residuals, b[i].residuals) || !same(a[i].relative, b[i].relative))
      return fmt::format("call {} of the observer, iteration {}, is another one with fresh objects", i,
                         a[i].iteration);
  return {};
}

template <class T>
class ColumnsTrial {
 public:
  ColumnsTrial(World<T>& world, const SolvePlan& plan, const ColumnsPlan& columns)
      : world_(world), plan_(plan), columns_(columns), before_(world.op(plan.op).spec()) {
    const auto k = static_cast<std::size_t>(columns.count);
    const auto n = static_cast<std::size_t>(world.op(plan.op).size());
    for (std::size_t j = 0; j < k; ++j) {
      const bool zero = plan.rhs == Rhs::zero && j == k / 2,
                 infinite = plan.rhs == Rhs::infinite_entry && j == 0;
      std::vector<T> b(n), x(n, T(0));
      for (std::size_t i = 0; i < n; ++i)
        b[i] = zero ? T(0) : static_cast<T>(2 * uniform(mixed(plan.numbers, 1), i, j) - 1);
      if (infinite) b[n / 2] = std::numeric_limits<T>::infinity();
      if (plan.guess != Guess::zero)
        for (std::size_t i = 0; i < n; ++i)
          x[i] = static_cast<T>(2 * uniform(mixed(plan.numbers, 2), i, j) - 1);
      b_.push_back(std::move(b)), x0_.push_back(std::move(x));
      StoppingRule rule = solver().options().stopping;
      if (columns.own_rules) rule.relative_tolerance *= std::pow(10.0, static_cast<double>(j % 4));
      rules_.push_back(rule);
    }
  }

  std::string compared() {
    Operator<T>& A = world_.op(plan_.op);
    {
      auto& [B, X] = world_.columns(plan_.op);
      const auto has_memory = [&](MultiVector<T>& v) {
        if (plan_.memory == Memory::moved || v.rows() != A.size() || v.columns() != columns_.count ||
            v.layout() != columns_.layout)
          v = MultiVector<T>(A.context(), A.size(), columns_.count, columns_.layout);
      };
      has_memory(B), has_memory(X);
      Preconditioner<T>* const M = world_.preconditioner(plan_.preconditioning, plan_.op);
      const FailingAllocation fault(plan_.failing_allocation);
      kept_ = carry_out<T>(plan_, {A, solver(), M, B, X}, b_, x0_, rules_);
    }
    count();
    if (std::string text = A.complaint(plan_.failing_allocation > 0); !text.empty()) return text;
    if (kept_.out_of_memory && plan_.failing_allocation > 0) return {};
    if (std::string text = lies(); !text.empty()) return text;
    const bool short_of_memory = plan_.failing_allocation > 0 && plan_.change != Change::none;
    const Owed exactly = short_of_memory ? Owed::rounding : owed(before_, plan_, A.context()->threads());
    SolvePlan plan = plan_;
    plan.failing_allocation = 0;
    const ContextPtr context = context_of_fresh_objects(before_, A.context(), plan.numbers);
    Operator<T> fresh(context, spec_of_fresh_operator(before_, kept_.orders > 0, plan));
    MultiSolver<T> again(solver().name(), solver().options());
    const auto M = make_preconditioning<T>(plan.preconditioning, fresh.get());
    MultiVector<T> B(context, A.size(), columns_.count, columns_.layout);
    MultiVector<T> X(context, A.size(), columns_.count, columns_.layout);
    const ColumnsOutcome<T> outcome = carry_out<T>(plan, {fresh, again, M.get(), B, X}, b_, x0_, rules_);
    if (std::string text = difference_from(outcome, exactly); !text.empty()) return text;
    return compared_with_one_alone();
  }

 private:
  MultiSolver<T>& solver() { return world_.multi_solver(columns_.solver); }

  // The values that column j ended with; {false, ...}: it may have ended just before the new ones came.
  std::pair<bool, unsigned> generation(std::size_t j) {
    const bool new_values = plan_.event == Event::new_values && kept_.event_iteration >= 0;
    if (!new_values) return {true, before_.generation};
    return {kept_.report.columns[j].iterations > kept_.event_iteration,
            world_.op(plan_.op).spec().generation};
  }
  Solved<T> solved(std::size_t j, unsigned generation) {
    return {before_.system, generation, b_[j], solver().name(), rules_[j]};
  }

  std::string lies() {
    if (!kept_.thrown.empty()) return {};
    if (kept_.report.columns.size() != b_.size())
      return fmt::format("{} columns were given, {} reported", b_.size(), kept_.report.columns.size());
    for (std::size_t j = 0; j < b_.size(); ++j) {
      const auto [sure, latest] = generation(j);
      std::string text = lie(kept_.column(j), solved(j, latest));
      if (!text.empty() && !sure) text = lie(kept_.column(j), solved(j, before_.generation));
      if (!text.empty()) return fmt::format("column {}: {}", j, text);
    }
    return {};
  }

  std::string difference_from(const ColumnsOutcome<T>& fresh, Owed exactly) {
    if (kept_.thrown != fresh.thrown) {
      if (exactly == Owed::rounding && (kept_.thrown.empty() || fresh.thrown.empty())) return {};
      return fmt::format("thrown was '{}' and '{}' with fresh objects", kept_.thrown, fresh.thrown);
    }
    if (exactly == Owed::bits)
      if (std::string text = seen_difference(kept_.seen, fresh.seen); !text.empty()) return text;
    if (!kept_.thrown.empty()) return {};
    for (std::size_t j = 0; j < b_.size(); ++j) {
      const auto [sure, latest] = generation(j);
      if (exactly == Owed::rounding && !sure) continue;
      const std::string text = difference(exactly, kept_.column(j), fresh.column(j), solved(j, latest));
      if (!text.empty()) return fmt::format("column {}: {}", j, text);
    }
    return {};
  }

  // Columns share the passes over A and over the vectors, and nothing else.
  std::string compared_with_one_alone() {
    if (!kept_.thrown.empty() || plan_.event != Event::none || plan_.throw_at_product > 0 || b_.empty())
      return {};
    const std::size_t j = plan_.numbers % b_.size();
    SolverOptions options = solver().options();
    options.stopping = rules_[j];
    SolvePlan plan = plan_;
    plan.change = Change::none, plan.failing_allocation = 0;
    const ContextPtr context = context_of_fresh_objects(before_, world_.op(plan_.op).context(), plan.numbers);
    Operator<T> fresh(context, before_);
    const auto alone = make_solver<T>(solver().name(), options);
    const auto M = make_preconditioning<T>(plan.preconditioning, fresh.get());
    Vector<T> b(context, fresh.size()), x(context, fresh.size());
    const Outcome<T> outcome =
        life::carry_out<T>(plan, {fresh, *alone, M.get(), b.view(), x.view()}, b_[j], x0_[j]);
    if (!outcome.thrown.empty()) return fmt::format("column {} alone throws '{}'", j, outcome.thrown);
    if (!outcome.report.converged() || !kept_.report.columns[j].converged()) return {};
    ++world_.counts["columns compared with a solve of one"];
    const std::string text =
        difference(Owed::rounding, kept_.column(j), outcome, solved(j, before_.generation));
    return text.empty() ? text : fmt::format("column {}, compared with a solve of its own: {}", j, text);
  }

  void count() {
    auto& counts = world_.counts;
    ++counts["solves with several right-hand sides"];
    if (kept_.out_of_memory) ++counts["such solves ended by an allocation that failed"];
    if (!kept_.thrown.empty()) return;
    counts["changes of format with several right-hand sides"] += static_cast<std::int64_t>(kept_.changes);
    counts["changes of order with several right-hand sides"] += static_cast<std::int64_t>(kept_.orders);
    if (plan_.event == Event::new_values && kept_.event_iteration >= 0)
      ++counts["new values with several right-hand sides"];
    for (const SolveReport& column : kept_.report.columns)
      ++counts[column.converged() ? "columns converged" : "columns ended without convergence"];
  }

  World<T>& world_;
  SolvePlan plan_;
  ColumnsPlan columns_;
  OperatorSpec before_;
  std::vector<std::vector<T>> b_, x0_;
  std::vector<StoppingRule> rules_;
  ColumnsOutcome<T> kept_;
};

}  // namespace

ColumnsPlan draw_columns(Draw& draw) {
  return {draw.below(World<double>::multi_solvers), draw.one_in(20) ? 0 : 1 + draw.below(7),
          draw.one_in(2) ? VectorLayout::columns : VectorLayout::interleaved, draw.one_in(2)};
}

std::string describe(const SolvePlan& plan, const ColumnsPlan& columns) {
  return fmt::format("{} right-hand sides ({}, {} for all), multi solver {}; as if it were: {}",
                     columns.count, columns.layout == VectorLayout::columns ? "columns" : "interleaved",
                     columns.own_rules ? "no rule" : "one rule", columns.solver, describe(plan));
}

template <class T>
std::string solve_columns(World<T>& world, const SolvePlan& plan, const ColumnsPlan& columns) {
  return ColumnsTrial<T>(world, plan, columns).compared();
}

template std::string solve_columns(World<float>&, const SolvePlan&, const ColumnsPlan&);
template std::string solve_columns(World<double>&, const SolvePlan&, const ColumnsPlan&);

}  // namespace protean::test::life
