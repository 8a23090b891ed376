// The preconditioner between two parts of a solve (systems/run.hpp): set up again for new values, or another one of
// type auto.
#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "solvers/switcher/columns.hpp"
#include "systems/run.hpp"

namespace protean {
namespace {

// The time of an iteration of cg for several columns / that for one, by the bytes of the matrix and of 10 passes over
// vectors (solvers/cg.cpp). Two of these are x and y of the product.
double iteration_of_columns(std::size_t bytes, std::int64_t rows, std::int64_t columns, bool one_pass) {
  constexpr double other_passes = 8, value = 8;
  const auto seconds = [&](const detail::ProductColumns& of) {
    return of.traffic(bytes, rows, one_pass) +
           other_passes * value * static_cast<double>(rows) * static_cast<double>(of.width);
  };
  return seconds(detail::ProductColumns::of_solve(columns)) / seconds({});
}

}  // namespace

template <class T>
std::unique_ptr<detail::PreconditionerWatch<T>> SystemSolver<T>::Run::watch_preconditioner(
    const ColumnNumbers& columns) const {
  const Sequence& now = *of_.sequence_;
  const LinearOperator<T>& A = matrix_.A();
  // Element matrices would have to be assembled for it, and another operator may have no entries.
  if (!now.chosen || now.chosen->taken() != "jacobi" || matrix_.of_elements() || !A.abilities().rows)
    return nullptr;
  const ContextPtr& context = A.context();
  const SolveSettings& settings = of_.settings_;
  std::vector<StoppingRule> rests;
  for (const std::size_t c : columns)
    rests.push_back(report.columns.empty() ? rules_[c]
                                           : detail::rest_of(rules_[c], report.columns[c], report.seconds));
  // What is expected is of the method that the solve began with.
  const bool other_method = now.methods && now.methods->changed();
  const auto k = static_cast<std::int64_t>(columns.size());
  const detail::ChangeSituation situation{
      .space = context->space(),
      .needs_symmetric = make_solver<double>(of_.method_)->needs_symmetric_preconditioner(),
      .near_null_space = settings.preconditioning.near_null_space != nullptr,
      .deterministic = context->deterministic(),
      .cycle = find_solver(of_.method_).cycle(of_.options_of_method()),
      .products = static_cast<double>(find_solver(of_.method_).products),
      .expected = other_method                       ? 0
                  : settings.expected_iterations > 0 ? settings.expected_iterations
                                                     : now.iterations,
      .columns = k,
      .iteration_of_columns =
          k == 1 ? 1 : iteration_of_columns(matrix_.bytes(), A.rows(), k, column_by_column<T>(A).empty())};
  auto watch = std::make_unique<detail::PreconditionerWatch<T>>(A, *now.chosen, of_.preconditioner_options(),
                                                                situation, steering_rule(rests), now.choice);
  watch->on_change = settings.on_note;
  return watch;
}

// New values may make an old M useless, such as an M of amg after entries have grown. The columns, which have broken
// down with it or were interrupted therefore, go on with a new one.
template <class T>
void SystemSolver<T>::Run::renew(ColumnNumbers columns) {
  const bool old = of_.has_old_preconditioner(matrix_.A());
  Sequence& now = *of_.sequence_;
  double since_begin = report.seconds;
  const auto end_used_up = [&](StopReason ended) {
    std::erase_if(columns, [&](std::size_t c) {
      SolveReport& one = report.columns[c];
      const StopReason limit =
          ended != StopReason::running ? ended : detail::used_up(rules_[c], one, since_begin);
      if (limit == StopReason::running) return false;
      one = detail::ended_by(limit, rules_[c], std::move(one), since_begin, old);
      return true;
    });
  };
  end_used_up(StopReason::running);
  if (!columns.empty()) {
    now.used_seconds = since_begin;
    since_begin += of_.set_up_preconditioner(matrix_, true);
    end_used_up(std::exchange(now.ended, StopReason::running));
  }
  part_ = columns;
  if (!columns.empty()) next_part(columns, since_begin);
}

// Goes on from the present x with the preconditioner that the watch wants.
template <class T>
void SystemSolver<T>::Run::change_preconditioner() {
  detail::PreconditionerWatch<T>& watch = *of_.sequence_->watch;
  const ColumnNumbers left = columns_of_part([&](const SolveReport& one) {
    return one.reason == StopReason::interrupted || (watch.in_use() && detail::has_failed(one.reason));
  });
  const double since_begin = report.seconds;
  double spent = 0;
  const auto part = [&] {
    Stopwatch clock;
    watch.carry_out(report.columns, X_, iterations_of(left));
    spent += clock.lap();
    next_part(left, since_begin + spent);
  };
  try {
    part();
  } catch (const OutOfMemory&) {
    // With a candidate the method may have more vectors.
    if (!watch.in_use()) throw;
    watch.give_up("there is not enough memory for the vectors of the method with it");
    part();
  }
  seconds_ += spent;
}

// Returns whether type auto has changed, or tried to, in the middle of the solve.
template <class T>
bool SystemSolver<T>::Run::learn_of_change(double seconds) {
  Sequence& now = *of_.sequence_;
  if (!now.watch->teach(now.choice, seconds, report.columns)) return false;
  if (now.watch->in_use()) now.refresh.note_setup(now.watch->setup_seconds());
  for (PreconditionerChange& one : now.watch->take_changes())
    outcome_.preconditioner_changes.push_back(std::move(one));
  return true;
}

#define PROTEAN_INSTANTIATE(T)                                                                         \
  template std::unique_ptr<detail::PreconditionerWatch<T>> SystemSolver<T>::Run::watch_preconditioner( \
      const ColumnNumbers&) const;                                                                     \
  template void SystemSolver<T>::Run::renew(ColumnNumbers);                                            \
  template void SystemSolver<T>::Run::change_preconditioner();                                         \
  template bool SystemSolver<T>::Run::learn_of_change(double);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
