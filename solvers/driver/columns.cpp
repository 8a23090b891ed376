#include "solvers/driver/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "operators/kernel_loading.hpp"
#include "solvers/driver/column_residuals.hpp"
#include "solvers/driver/course.hpp"
#include "solvers/driver/followed_order.hpp"
#include "solvers/driver/rounding.hpp"

namespace protean::detail {
namespace {

// A column and its course.
template <class T>
struct Column final : Course<T> {
  using Course<T>::Course;
  bool in_lane() const noexcept { return lane >= 0; }
  // Columns that have not ended run, or wait for the others.
  bool runs() const noexcept { return in_lane() && !this->waits(); }

  std::int32_t number = 0;
  std::int32_t lane = -1;  // -1: it has ended
  bool first = true;       // no step since begin()
  LaneScalars<T> scalars{};
  std::vector<double> history;  // residuals of the steps since the last look
  std::int64_t begun_at = 0;  // MultiMethod::steps() at begin(), and the steps of others that it missed since
};

template <class T>
class ColumnsRun final : private Inquiry<T> {
 public:
  ColumnsRun(const SolverOptions& options, const MultiSystem<T>& callers, MultiWorkspace<T>& workspace,
             MultiSolveObserver* observer, std::span<const StoppingRule> rules,
             const VectorBlock<const T>& null_space)
      : callers_(callers),
        workspace_(workspace),
        method_(*workspace.method),
        observer_(observer),
        in_order_(callers, null_space, workspace.in_an_order, {method_}),
        residuals_(in_order_, workspace),
        findings_{.method = method_.traits().id,
                  .preconditioner = callers.M ? callers.M->name() : std::string_view()} {
    const auto k = static_cast<std::size_t>(callers.B.columns);
    columns_.reserve(k), shown_.resize(k), relative_.resize(k), runs_.resize(k), reasons_.resize(k);
    for (std::size_t c = 0; c < k; ++c)
      columns_.emplace_back(rules.empty() ? options.stopping : rules[c], findings_).number =
          static_cast<std::int32_t>(c);
  }
  ColumnsRun(const ColumnsRun&) = delete;
  ColumnsRun& operator=(const ColumnsRun&) = delete;

  MultiSolveReport operator()() {
    in_order_.begin();
    report_.product = in_words(system().A);
    if (system().M) report_.preconditioner = system().d.size > 0 ? "diagonal" : in_words(*system().M);
    if (context().space() == Space::device && !workspace_.batches)
      workspace_.batches = make_batches<T>(method_.context(), method_.most());
    batches_ = workspace_.batches.get();
    if (batches_) batches_->attach(system());
    if (!columns_.empty()) begin();
    while (running() > 0) {
      advance();
      look();
    }
    report_.iterations = iteration();
    report_.steps = batches_ ? batches_->name() : context().simulated() ? "simulated" : "host";
    // The last format may have another product than the first.
    if (const std::string product = in_words(system().A); product != report_.product)
      report_.product += "; then " + product;
    return report();
  }

 private:
  using Columns = std::vector<Column<T>*>;

  const Context& context() const noexcept { return callers_.context(); }
  const MultiSystem<T>& system() const noexcept { return in_order_.system(); }
  static std::string in_words(const LinearOperator<T>& A) {
    const std::string why = column_by_column(A);
    return why.empty() ? "in one pass" : "column by column: " + why;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  std::int64_t running() const {
    return std::count_if(columns_.begin(), columns_.end(), [](const Column<T>& c) { return c.in_lane(); });
  }
  // Of the column with the most.
  std::int64_t iteration() const {
    std::int64_t most = 0;
    for (const Column<T>& c : columns_) most = std::max(most, c.report().iterations);
    return most;
  }
  // Pairs (lane, lane) of the columns that run.
  std::vector<ColumnPair> lanes() const {
    std::vector<ColumnPair> pairs;
    for (const Column<T>& c : columns_)
      if (c.runs()) pairs.push_back({c.lane, c.lane});
    return pairs;
  }

  void begin() {
    method_.reset(multi_width(system().B.columns));
    const ColumnNorms norms_of_b = residuals_.norms_of_b();
    std::vector<typename Course<T>::Beginning> beginnings(columns_.size());
    Columns started;
    for (Column<T>& c : columns_) {
      typename Course<T>::Beginning& of = beginnings[static_cast<std::size_t>(c.number)];
      const auto number = static_cast<std::size_t>(c.number);
      of.two_rhs_norm = norms_of_b.two[number], of.rhs_norm = norms_of_b.measured[number];
      of.largest_inverse_weight = system().largest_inverse_weight;
      if (of.two_rhs_norm != 0) {
        c.lane = c.number;
        started.push_back(&c);
        continue;
      }
      const ColumnPair zero{-1, c.number};
      copy_columns<T>(context(), residuals_.vectors(), system().X, {&zero, 1});
      c.end_with_zero();
      leave(c);
    }
    if (!started.empty()) {
      copy_columns<T>(context(), system().X, method_.x(), lanes());
      const std::int32_t first = started.front()->number;
      residuals_.check_null_space(first, norms_of_b.two[static_cast<std::size_t>(first)]);
      for (const Column<T>* c : started) residuals_.project(method_.x(), c->lane);
      const ColumnNorms norms = compute_truth(started);
      Columns continued;
      for (std::size_t i = 0; i < started.size(); ++i) {
        Column<T>* const c = started[i];
        typename Course<T>::Beginning& of = beginnings[static_cast<std::size_t>(c->number)];
        of.two_initial_residual = norms.two[i], of.initial_residual = norms.measured[i];
        of.in_null_space = residuals_.in_null_space(c->number);
        const bool goes_on = c->begin(of);
        remember(*c, of.initial_residual);
        if (goes_on)
          continued.push_back(c);
        else
          give_back(*c);
      }
      begin_methods(continued);
      // The state after begin() is judged as a step is.
      for (Column<T>* c : continued) {
        c->stepped(0, verdict_of(*c));
        c->history.assign(1, c->verdict().residual);
      }
      pack();
    }
    in_order_.method_begins();
    look();
  }

  // b - A x of these columns. Other lanes of the free vectors are lost.
  ColumnNorms compute_truth(const Columns& of) {
    std::vector<ColumnPair> pairs;
    for (const Column<T>* c : of) pairs.push_back({c->number, c->lane});
    ColumnNorms norms = residuals_.compute(pairs);
    ++report_.products;
    for (std::size_t i = 0; i < of.size(); ++i) of[i]->report().true_residual = norms.measured[i];
    return norms;
  }

  // The method begins in the lanes of these columns from b - A x, as compute_truth() left it.
  void begin_methods(const Columns& of) {
    if (of.empty()) return;
    std::vector<ColumnPair> pairs;
    for (const Column<T>* c : of) pairs.push_back({residuals_.lane_of(c->number), c->lane});
    method_.mark(method_.chosen(), pairs);
    method_.begin(system(), residuals_.vectors(), pairs);
    const std::vector<LaneScalars<T>> now = read_scalars();
    for (Column<T>* c : of) {
      c->begun();
      c->first = true, c->begun_at = method_.steps();
      c->scalars = now[static_cast<std::size_t>(c->lane)];
    }
  }

  // The scalars of all lanes; of lanes that have ended they are old.
  std::vector<LaneScalars<T>> read_scalars() {
    std::vector<LaneScalars<T>> lanes(static_cast<std::size_t>(method_.width()));
    for (int s = 0; s < method_.scalar_count(); ++s) {
      std::vector<T> numbers(lanes.size());
      copy<T>(context(), VectorView<const T>{method_.scalars(s), method_.width(), context().space()},
              {numbers.data(), method_.width(), Space::host});
      for (std::size_t l = 0; l < lanes.size(); ++l) lanes[l][static_cast<std::size_t>(s)] = numbers[l];
    }
    return lanes;
  }

  Verdict verdict_of(const Column<T>& c) const {
    const auto at = [&](int place) {
      return place < 0 ? nullptr : &c.scalars[static_cast<std::size_t>(place)];
    };
    std::array<Guard<T>, most_lane_guards> guards{};
    std::size_t count = 0;
    for (const LaneGuard& guard : method_.traits().guards)
      if (guard.at_begin || !c.first) guards[count++] = guard.of<T>(at);
    return c.control().read(
        Signals<T>{.residual_squared = at(method_.residual_scalar()), .guards = {guards.data(), count}});
  }

  // The next step of all columns that run; on a GPU the next steps.
  void advance() {
    const std::vector<ColumnPair> of = lanes();
    if (batches_) {
      batches_->next(system(), method_, of, room(), done_);
      return take(done_);
    }
    method_.step(system(), of);
    report_.products += method_.traits().products;
    const std::vector<LaneScalars<T>> now = read_scalars();
    const auto residual = static_cast<std::size_t>(method_.residual_scalar());
    for (Column<T>& c : columns_)
      if (c.runs()) {
        const LaneScalars<T>& scalars = now[static_cast<std::size_t>(c.lane)];
        stepped(c, scalars, {static_cast<double>(scalars[residual])});
      }
  }
  // How many steps may be computed before the next stop of the observer.
  std::int64_t room() const {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const std::int64_t stop = observer_ ? observer_->next_stop() : most;
    return stop > iteration() ? stop - iteration() : most;
  }
  void take(const typename Batches<T>::Done& done) {
    std::size_t most = 0;
    for (Column<T>& c : columns_)
      if (c.runs()) {
        const auto lane = static_cast<std::size_t>(c.lane);
        most = std::max(most, done.residual_squared[lane].size());
        stepped(c, done.last[lane], done.residual_squared[lane]);
      }
    report_.products += method_.traits().products * static_cast<std::int64_t>(most);
  }
  void stepped(Column<T>& c, const LaneScalars<T>& scalars, const std::vector<double>& squares) {
    if (squares.empty()) return;
    c.first = false, c.scalars = scalars;
    for (const double square : squares) c.history.push_back(std::sqrt(square));
    c.stepped(std::ssize(squares), verdict_of(c));
  }

  // Between two steps: the observer, the verdicts, and what follows from them.
  void look() {
    const bool go_on = observe();
    const bool new_values = system().A.revision() != revision_;
    const auto stops = [&](const Column<T>& c) { return new_values || c.asks_for_truth(cycle_ended(c)); };
    bool any = false;
    for (Column<T>& c : columns_) {
      if (!c.in_lane()) continue;
      judge(c, go_on);
      any = any || stops(c);
    }
    if (!any) return;
    if (batches_) {
      // What is in flight has changed the columns, so it counts.
      batches_->settle(done_);
      take(done_);
      for (Column<T>& c : columns_)
        if (c.in_lane()) judge(c, go_on);
    }
    // If nobody runs on, columns that wait begin again, too.
    const bool together = std::none_of(columns_.begin(), columns_.end(),
                                       [&](const Column<T>& c) { return c.runs() && !stops(c); });
    Columns looked_at, again;
    for (Column<T>& c : columns_)
      if (c.in_lane() && (stops(c) || (c.waits() && together))) looked_at.push_back(&c);
    form_iterates(looked_at);
    for (const Column<T>* c : looked_at) residuals_.project(method_.x(), c->lane);
    (void)compute_truth(looked_at);
    if (new_values) {
      revision_ = system().A.revision();
      in_order_.refresh_preconditioner();
    }
    for (Column<T>* c : looked_at) {
      const Next next = c->follow(new_values, cycle_ended(*c), *this);
      if (next == Next::end) give_back(*c);
      if (next == Next::begin) again.push_back(c);
    }
    // Otherwise they wait.
    if (!method_.traits().cycles || together) begin_methods(again);
    pack();
  }
  bool cycle_ended(const Column<T>& c) const { return c.runs() && c.steps_since_begin() == method_.period(); }
  void form_iterates(const Columns& of) {
    if (!method_.traits().finishes) return;
    std::vector<LaneSteps> steps;
    for (const Column<T>* c : of)
      if (c->runs()) steps.push_back({c->lane, c->steps_since_begin()});
    method_.finish(system(), steps);
  }
  void judge(Column<T>& c, bool go_on) {
    if (!c.history.empty()) remember(c, c.history.back());
    c.judge(c.history, go_on, seconds());
    c.history.clear();
  }

  // On a device it may have stopped some steps before the others.
  bool resumes(const Course<T>& of) override {
    if (method_.traits().cycles) return false;
    Column<T>& c = columns_[static_cast<std::size_t>(static_cast<const Column<T>&>(of).number)];
    const std::int64_t missed = method_.steps() - c.begun_at - c.steps_since_begin();
    c.begun_at += missed;
    return method_.go_on(c.lane, missed);
  }

  bool leaves_rounding(const std::string& why) override { return leave_rounding(system().A, why); }

  Evidence<T> evidence(const Course<T>& of) override {
    const auto& c = static_cast<const Column<T>&>(of);
    TakenOut<T>& out = taken_out();
    copy_column<T>(context(), system().B, c.number, out.b);
    copy_column<T>(context(), method_.x(), c.lane, out.x);
    copy_column<T>(context(), residuals_.vectors(), residuals_.lane_of(c.number), out.residual);
    return evidence_of(system(), out);
  }
  Evidence<T> evidence_for_caller() override { return evidence_of(callers_, taken_out()); }
  TakenOut<T>& taken_out() {
    if (!taken_out_) taken_out_.emplace(method_.context(), method_.rows());
    return *taken_out_;
  }
  Evidence<T> evidence_of(const MultiSystem<T>& s, TakenOut<T>& out) {
    return {{s.A, out.b.view(), out.x.view(), s.M, s.d},
            out.residual,
            {out.spare[0].view(), out.spare[1].view()},
            workspace_.number};
  }

  // Returns a column that has ended to the caller.
  void give_back(Column<T>& c) {
    const ColumnPair pair{c.lane, c.number};
    copy_columns<T>(context(), method_.x(), system().X, {&pair, 1});
    leave(c);
  }
  void leave(Column<T>& c) {
    c.lane = -1;
    const StopReason reason = c.report().reason;
    broken_ += reason == StopReason::breakdown || reason == StopReason::indefinite_preconditioner;
    c.report().seconds = seconds();
  }

  // The columns that run, in as few lanes as hold them; which lanes run, and their scalars. Then the limits of a GPU.
  void pack() {
    const std::int64_t left = running();
    if (left == 0) return;
    if (const std::int64_t width = multi_width(left); width < method_.width()) {
      std::vector<ColumnPair> keep;
      std::int32_t next = 0;
      for (Column<T>& c : columns_)
        if (c.in_lane()) keep.push_back({c.lane, next}), c.lane = next++;
      method_.pack(width, keep);
    }
    // On a GPU a lane may have stopped some steps before the others, whose scalars may lie in other places by now.
    for (int place = 0; place < method_.scalar_count(); ++place) {
      std::vector<T> numbers(static_cast<std::size_t>(method_.width()));
      for (const Column<T>& c : columns_)
        if (c.in_lane())
          numbers[static_cast<std::size_t>(c.lane)] = c.scalars[static_cast<std::size_t>(place)];
      copy<T>(context(), VectorView<const T>{numbers.data(), method_.width(), Space::host},
              {method_.scalars(place), method_.width(), context().space()});
    }
    method_.mark(method_.running(), lanes());
    if (!batches_) return;
    std::vector<typename Batches<T>::Limits> limits(static_cast<std::size_t>(method_.width()));
    for (const Column<T>& c : columns_)
      if (c.in_lane())
        limits[static_cast<std::size_t>(c.lane)] = {c.control().goal(), c.control().too_large(),
                                                    c.rule().max_iterations - c.report().iterations};
    batches_->start(limits);
  }

  MultiSolveReport report() {
    in_order_.bring_back();
    const std::vector<BadEntry> bad =
        columns_not_finite<T>(method_.context(), callers_.X, workspace_.number, workspace_.column);
    auto next = bad.begin();
    for (Column<T>& c : columns_) {
      std::optional<BadEntry> entry;
      if (next != bad.end() && next->column == c.number) entry = *next++;
      c.conclude(c.report().iterations > 0 ? entry : std::nullopt, *this);
      c.report().steps = report_.steps;
      // Each is a graph of its own.
      if (batches_) c.report().graphs_recorded = c.report().graphs_made = batches_->recorded();
      report_.columns.push_back(std::move(c.report()));
    }
    report_.seconds = seconds();
    count_solve(context(), report_.seconds);
    return std::move(report_);
  }

  bool observe() {
    if (!observer_) return true;
    for (const Column<T>& c : columns_) {
      if (c.in_lane() && !c.history.empty()) remember(c, c.history.back());
      runs_[static_cast<std::size_t>(c.number)] = c.in_lane();
      reasons_[static_cast<std::size_t>(c.number)] = c.report().reason;
    }
    const MultiIterationInfo info{.iteration = iteration(),
                                  .running = running(),
                                  .broken = broken_,
                                  .residuals = shown_,
                                  .relative_residuals = relative_,
                                  .runs = runs_,
                                  .reasons = reasons_,
                                  .seconds = seconds()};
    if (observer_->reads_solution(info)) show_solution();
    const bool go_on = observer_->on_iteration(info);
    in_order_.require_change();
    return go_on;
  }
  void show_solution() {
    std::vector<ColumnPair> pairs;
    for (const Column<T>& c : columns_)
      if (c.in_lane()) pairs.push_back({c.lane, c.number});
    if (!pairs.empty()) copy_columns<T>(context(), method_.x(), system().X, pairs);
    in_order_.show_solution();
  }
  // For the observer.
  void remember(const Column<T>& c, double residual) {
    const auto number = static_cast<std::size_t>(c.number);
    shown_[number] = residual, relative_[number] = c.relative(residual);
  }

  const MultiSystem<T>& callers_;
  MultiWorkspace<T>& workspace_;
  MultiMethod<T>& method_;
  MultiSolveObserver* const observer_;
  FollowedOrder<ColumnsInOrder<T>> in_order_;
  ColumnResiduals<T> residuals_;

  Findings findings_;
  std::int64_t broken_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Revision revision_ = callers_.A.revision();
  MultiSolveReport report_;
  std::vector<Column<T>> columns_;
  std::vector<double> shown_, relative_;  // residuals, for the observer
  std::vector<unsigned char> runs_;
  std::vector<StopReason> reasons_;
  std::optional<TakenOut<T>> taken_out_;  // made when a column is looked at
  Batches<T>* batches_ = nullptr;         // of a device
  typename Batches<T>::Done done_;
};

}  // namespace

template <class T>
void require_memory_of_columns(std::int64_t k) {
  constexpr std::size_t each = sizeof(Column<T>) + sizeof(SolveReport) + 2 * sizeof(double) + 1;
  const bool possible = static_cast<std::size_t>(k) <= unlimited_memory / each;
  require_memory(possible ? static_cast<std::size_t>(k) * each : unlimited_memory,
                 fmt::format("the results of {} right-hand sides", k));
}

template <class T>
MultiSolveReport solve_columns(const SolverOptions& options, const MultiSystem<T>& given,
                               MultiWorkspace<T>& workspace, MultiSolveObserver* observer,
                               std::span<const StoppingRule> rules, const VectorBlock<const T>& null_space) {
  MultiSystem<T> system = given;
  for (const BadEntry& bad :
       columns_not_finite<T>(system.A.context(), system.X, workspace.number, workspace.column))
    throw BadArgument(guess_text(fmt::format("the initial guess of column {}", bad.column), bad));
  if (weighs_residuals(options)) {
    system.largest_inverse_weight = make_weights<T>(system.A, options, workspace.weights, workspace.number);
    system.weights = workspace.weights;
  }
  return ColumnsRun<T>(options, system, workspace, observer, rules, null_space)();
}

#define PROTEAN_INSTANTIATE(T)                                                            \
  template void require_memory_of_columns<T>(std::int64_t);                               \
  template MultiSolveReport solve_columns<T>(const SolverOptions&, const MultiSystem<T>&, \
                                             MultiWorkspace<T>&, MultiSolveObserver*,     \
                                             std::span<const StoppingRule>, const VectorBlock<const T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
