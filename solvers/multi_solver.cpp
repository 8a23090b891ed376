// The driver of solves with several right-hand sides. For each column it does what solver.cpp does for one.
#include "solvers/multi_solver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"
#include "operators/kernel_loading.hpp"
#include "solvers/advice.hpp"
#include "solvers/diagnosis.hpp"
#include "solvers/iteration_control.hpp"
#include "solvers/lane_judge.hpp"
#include "solvers/methods.hpp"
#include "solvers/multi_diagnosis.hpp"
#include "solvers/multi_method.hpp"
#include "solvers/null_space.hpp"
#include "solvers/ordered_solve.hpp"
#include "solvers/steering_observer.hpp"

namespace protean {
namespace detail {

template <class T>
struct MultiWorkspace {
  MultiWorkspace(MakeMultiMethod<T> make, const SolverOptions& options, const WorkspaceLayout& of,
                 std::int64_t most)
      : layout(of), method(make(options, of, most)), number(of.context, 1), squares(of.context, most) {}
  ~MultiWorkspace() {
    const DeviceScope scope(*method->context());
    device_steps.reset();
  }
  bool fits(const WorkspaceLayout& of, std::int64_t most) const {
    return layout == of && method->most() >= most;
  }
  const WorkspaceLayout layout;
  const std::unique_ptr<MultiMethod<T>> method;
  Vector<T> number;                // norms are left there
  Vector<T> squares;               // of norms, one for each lane
  Vector<T> column;                // made when a norm is out of the range of squares
  Vector<T> constant, components;  // of a null space
  std::unique_ptr<MultiDeviceSteps<T>> device_steps;
  Vector<T> ordered_b, ordered_x, ordered_null_space;  // in the order of the operator
};

namespace {

template <class T>
class MultiRun {
 public:
  MultiRun(const MultiSystem<T>& system, MultiWorkspace<T>& workspace, MultiSolveObserver* observer,
           std::span<const StoppingRule> rules, const StoppingRule& rule, const MultiSystem<T>& callers,
           const VectorBlock<const T>& null_space, const OrderedPreconditioner<T>* ordered_M = nullptr)
      : system_(system),
        callers_(callers),
        workspace_(workspace),
        method_(*workspace.method),
        observer_(observer),
        steering_(dynamic_cast<SteeringObserver*>(observer)),
        null_space_(method_.context(), null_space, workspace.components, workspace.number),
        ordered_M_(ordered_M) {
    const std::int64_t k = system.B.columns;
    columns_.resize(static_cast<std::size_t>(k));
    residuals_.resize(columns_.size()), relative_.resize(columns_.size());
    for (std::size_t c = 0; c < columns_.size(); ++c) columns_[c].rule = rules.empty() ? rule : rules[c];
  }

  // What it keeps of k columns, beside the vectors.
  static void require_memory_of(std::int64_t k) {
    constexpr std::size_t each = sizeof(Column) + sizeof(SolveReport) + 2 * sizeof(double);
    const bool possible = static_cast<std::size_t>(k) <= unlimited_memory / each;
    detail::require_memory(possible ? static_cast<std::size_t>(k) * each : unlimited_memory,
                           fmt::format("the results of {} right-hand sides", k));
  }

  MultiSolveReport operator()() {
    report_.product = in_words(system_.A);
    if (system_.M) report_.preconditioner = system_.d.size > 0 ? "diagonal" : in_words(*system_.M);
    const bool on_gpu = context().space() == Space::device && !context().simulated();
    report_.steps = on_gpu ? "queued" : context().simulated() ? "simulated" : "host";
#if defined(PROTEAN_HAVE_CUDA)
    if (on_gpu) {
      if (!workspace_.device_steps)
        workspace_.device_steps = make_multi_device_steps<T>(method_.context(), method_.most());
      steps_ = workspace_.device_steps.get();
    }
#endif
    if (context().simulated() && context().simulated()->steps_ahead() > 0) {
      if (!workspace_.device_steps)
        workspace_.device_steps = std::make_unique<SimulatedMultiSteps<T>>(context());
      steps_ = workspace_.device_steps.get();
    }
    if (!columns_.empty()) {
      begin();
      while (running() > 0) {
        advance();
        look();
      }
    }
    report_.iterations = iteration();
    // The last format may have another product than the first.
    if (const std::string product = in_words(system_.A); product != report_.product)
      report_.product += "; then " + product;
    for (Column& c : columns_) report_.columns.push_back(std::move(c.report));
    report_.seconds = seconds();
    detail::count_solve(context(), report_.seconds);
    return std::move(report_);
  }

 private:
  struct Column {
    StoppingRule rule;
    SolveReport report;
    std::optional<IterationControl> control;
    std::int32_t lane = -1;  // -1: it has ended
    Verdict verdict;
    LaneScalars<T> scalars{};
    std::vector<double> history;  // residuals of the steps since the last look
    StopReason reason = StopReason::running;
    std::string detail;
    bool first = true;     // no step since begin()
    bool waiting = false;  // for the others, to begin again together; its x is the iterate
    std::int64_t steps_since_begin = 0;
    // MultiMethod::steps() at begin(), and the steps of others that it missed since
    std::int64_t begun_at = 0;
    double begun_from = 0;  // the true residual at begin()
    bool asked = false;     // whether x exists at all, between two cycles
    double smallest_restart = std::numeric_limits<double>::infinity();
    int fruitless = 0;
  };

  const Context& context() const noexcept { return system_.context(); }
  static std::string in_words(const LinearOperator<T>& A) {
    const std::string why = column_by_column(A);
    return why.empty() ? "in one pass" : "column by column: " + why;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  std::int64_t running() const {
    return std::count_if(columns_.begin(), columns_.end(), [](const Column& c) { return c.lane >= 0; });
  }
  std::int32_t number_of(const Column& c) const { return static_cast<std::int32_t>(&c - columns_.data()); }
  // Columns that have not ended run, or wait for the others.
  static bool runs(const Column& c) { return c.lane >= 0 && !c.waiting; }
  // Pairs (lane, lane) of the columns that run.
  std::vector<ColumnPair> lanes() const {
    std::vector<ColumnPair> pairs;
    for (const Column& c : columns_)
      if (runs(c)) pairs.push_back({c.lane, c.lane});
    return pairs;
  }

  // Numbers of all lanes, in the space of the solve.
  void write(T* where, const std::vector<T>& numbers) {
    const auto size = static_cast<std::int64_t>(numbers.size());
    copy<T>(context(), VectorView<const T>{numbers.data(), size, Space::host},
            {where, size, context().space()});
  }
  std::vector<T> read(const T* where, std::int64_t size) {
    std::vector<T> numbers(static_cast<std::size_t>(size));
    copy<T>(context(), VectorView<const T>{where, size, context().space()},
            {numbers.data(), size, Space::host});
    return numbers;
  }

  // The norm of a lane of V from its square, or anew where the square is out of range.
  double norm_of(T square, const MultiVectorView<T>& V, std::int32_t lane) {
    constexpr T smallest_safe = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
    if (std::isfinite(square) && square > smallest_safe) return std::sqrt(static_cast<double>(square));
    Vector<T>& v = workspace_.column;
    if (v.size() != V.rows) v = Vector<T>(method_.context(), V.rows);
    take_out(V, lane, v);
    return norm<T>(context(), v, workspace_.number);
  }
  void take_out(const MultiVectorView<const T>& V, std::int32_t lane, VectorView<T> to) {
    const ColumnPair pair{lane, 0};
    copy_columns<T>(context(), V,
                    MultiVectorView<T>{to.data, to.size, 1, to.size, VectorLayout::columns, to.space},
                    {&pair, 1});
  }

  void begin() {
    method_.reset(multi_width(system_.B.columns));
    std::vector<ColumnPair> all;
    for (Column& c : columns_) c.lane = number_of(c), all.push_back({c.lane, c.lane});
    // ||b||
    const MultiVectorView<T> b = method_.free(method_.width());
    copy_columns<T>(context(), system_.B, b, all);
    method_.mark(method_.chosen(), all);
    multi_dot<T>(context(), b, b, method_.chosen(), workspace_.squares.data());
    const std::vector<T> squares = read(workspace_.squares.data(), method_.width());
    std::vector<Column*> started;
    for (Column& c : columns_) {
      c.report.rhs_norm = norm_of(squares[static_cast<std::size_t>(c.lane)], b, c.lane);
      if (c.report.rhs_norm == 0) {
        const ColumnPair zero{-1, number_of(c)};
        copy_columns<T>(context(), b, system_.X, {&zero, 1});
        c.lane = -1;
        finish(c, StopReason::zero_right_hand_side, {});
      } else {
        started.push_back(&c);
      }
    }
    if (!started.empty()) {
      copy_columns<T>(context(), system_.X, method_.x(), lanes());
      null_space_.check(system_.A, system_.B, number_of(*started.front()), started.front()->report.rhs_norm);
      for (const Column* c : started) null_space_.project(method_.x(), c->lane);
      compute_truth(started);
      std::vector<Column*> continued;
      for (Column* c : started)
        if (begins(*c)) continued.push_back(c);
      begin_again(continued);
      pack();
    }
    look();
  }
  // False: it has ended with its guess.
  bool begins(Column& c) {
    SolveReport& r = c.report;
    r.initial_residual = r.recurrence_residual = r.true_residual;
    c.control.emplace(c.rule, r.rhs_norm, r.initial_residual);
    remember(c, r.true_residual);
    if (!std::isfinite(r.rhs_norm) || !std::isfinite(r.initial_residual))
      return end(c, StopReason::not_finite,
                 fmt::format("||b|| = {}, ||b - A x0|| = {}", r.rhs_norm, r.initial_residual));
    if (const StopReason good = c.control->satisfied(r.true_residual); converged(good))
      return end(c, good, {});
    const double in_null_space = null_space_.part(system_.B, number_of(c)),
                 tolerance = c.control->tolerance();
    if (in_null_space <= tolerance) return true;
    return end(c, StopReason::inconsistent, inconsistent_detail(in_null_space, tolerance));
  }

  // at_ := b - A x in some lanes, and its norms. Other lanes of the free vectors are lost.
  void compute_truth(const std::vector<Column*>& of) {
    const std::int64_t width = method_.width(), narrow = multi_width(std::ssize(of));
    std::vector<ColumnPair> own, from_b;
    truth_index_.assign(columns_.size(), -1);
    const bool packed = 2 * narrow <= width;
    std::int32_t next = 0;
    for (Column* c : of) {
      const std::int32_t index = packed ? next++ : c->lane;
      truth_index_[static_cast<std::size_t>(number_of(*c))] = index;
      own.push_back({c->lane, index}), from_b.push_back({number_of(*c), index});
    }
    MultiVectorView<const T> x = method_.x();
    truth_ = method_.free(width);
    if (packed) {
      const MultiVectorView<T> copies = method_.free(narrow);
      fill<T>(context(), T(0), VectorView<T>{copies.data, copies.rows * narrow, copies.space});
      copy_columns<T>(context(), method_.x(), copies, own);
      x = copies, truth_ = method_.free(narrow, true);
    }
    std::vector<ColumnPair> at;
    for (const ColumnPair pair : own) at.push_back({pair.to, pair.to});
    method_.product(system_.A, x, truth_, at);
    ++report_.products;
    multi_residual<T>(context(), system_.B, truth_, from_b, workspace_.squares.data());
    const std::vector<T> squares = read(workspace_.squares.data(), truth_.columns);
    for (const ColumnPair pair : from_b)
      columns_[static_cast<std::size_t>(pair.from)].report.true_residual =
          norm_of(squares[static_cast<std::size_t>(pair.to)], truth_, pair.to);
    // A column begins without the part that no step can reduce.
    for (const ColumnPair pair : from_b) null_space_.project(truth_, pair.to);
  }

  // These columns begin from b - A x, as compute_truth() left it.
  void begin_again(const std::vector<Column*>& of) {
    if (of.empty()) return;
    std::vector<ColumnPair> pairs;
    for (Column* c : of) pairs.push_back({truth_index_[static_cast<std::size_t>(number_of(*c))], c->lane});
    method_.mark(method_.chosen(), pairs);
    method_.begin(system_, truth_, pairs);
    const std::vector<LaneScalars<T>> now = read_scalars();
    for (Column* c : of) {
      c->first = true, c->waiting = false, c->steps_since_begin = 0, c->begun_at = method_.steps();
      c->begun_from = c->report.true_residual;
      c->scalars = now[static_cast<std::size_t>(c->lane)];
      c->history.assign(1, std::sqrt(static_cast<double>(c->scalars[0])));
      c->verdict = verdict_of(*c);
    }
  }

  // The scalars of all lanes; of lanes that have ended they are old.
  std::vector<LaneScalars<T>> read_scalars() {
    std::vector<LaneScalars<T>> lanes(static_cast<std::size_t>(method_.width()));
    for (int s = 0; s < method_.traits().scalars; ++s) {
      const std::vector<T> numbers = read(method_.scalars(s), method_.width());
      for (std::size_t l = 0; l < lanes.size(); ++l) lanes[l][static_cast<std::size_t>(s)] = numbers[l];
    }
    return lanes;
  }

  Verdict verdict_of(const Column& c) const {
    const auto at = [&](int place) {
      return place < 0 ? nullptr : &c.scalars[static_cast<std::size_t>(place)];
    };
    std::vector<Guard<T>> guards;
    for (const LaneGuard& guard : method_.traits().guards)
      if (guard.at_begin || !c.first)
        guards.push_back(
            {at(guard.value), guard.test, guard.reason, guard.meaning,
             static_cast<T>(guard.factor(static_cast<double>(std::numeric_limits<T>::epsilon()))),
             at(guard.scale_a), at(guard.scale_b)});
    return c.control->read(Signals<T>{.residual_squared = at(0), .guards = guards});
  }

  // The next step of all columns that run; on a GPU the next steps.
  void advance() {
    const std::vector<ColumnPair> of = lanes();
    if (steps_) {
      steps_->next(system_, method_, of, room(), done_);
      return take(done_);
    }
    method_.step(system_, of);
    report_.products += method_.traits().products;
    const std::vector<LaneScalars<T>> now = read_scalars();
    for (Column& c : columns_)
      if (runs(c)) {
        const LaneScalars<T>& scalars = now[static_cast<std::size_t>(c.lane)];
        stepped(c, scalars, {static_cast<double>(scalars[0])});
      }
  }
  // How many steps may be computed before the next stop of the observer.
  std::int64_t room() const {
    const std::int64_t stop = steering_ ? steering_->next_stop() : SteeringObserver::no_stop;
    return stop > iteration() ? stop - iteration() : SteeringObserver::no_stop;
  }
  // Of the column with the most.
  std::int64_t iteration() const {
    std::int64_t most = 0;
    for (const Column& c : columns_) most = std::max(most, c.report.iterations);
    return most;
  }
  void take(const typename MultiDeviceSteps<T>::Done& done) {
    std::size_t most = 0;
    for (Column& c : columns_)
      if (runs(c)) {
        const auto lane = static_cast<std::size_t>(c.lane);
        most = std::max(most, done.residual_squared[lane].size());
        stepped(c, done.last[lane], done.residual_squared[lane]);
      }
    report_.products += method_.traits().products * static_cast<std::int64_t>(most);
  }
  void stepped(Column& c, const LaneScalars<T>& scalars, const std::vector<double>& squares) {
    if (squares.empty()) return;
    c.report.iterations += std::ssize(squares), c.steps_since_begin += std::ssize(squares);
    c.first = false, c.scalars = scalars;
    for (const double square : squares) c.history.push_back(std::sqrt(square));
    c.verdict = verdict_of(c);
  }

  // Between two steps: the observer, the verdicts, and what follows from them.
  void look() {
    const bool go_on = observe();
    const bool new_values = system_.A.revision() != revision_;
    const auto stops = [&](const Column& c) {
      return new_values || c.reason != StopReason::running || c.verdict.reached || cycle_ended(c);
    };
    bool any = false;
    for (Column& c : columns_) {
      if (c.lane < 0) continue;
      judge(c, go_on);
      any = any || stops(c);
    }
    if (!any) return;
    if (steps_) {
      // What is in flight has changed the columns, so it counts.
      steps_->settle(done_);
      take(done_);
      for (Column& c : columns_)
        if (c.lane >= 0) judge(c, go_on);
    }
    // Where nobody runs on, those that wait begin again, too.
    const bool together =
        std::none_of(columns_.begin(), columns_.end(), [&](const Column& c) { return runs(c) && !stops(c); });
    std::vector<Column*> looked_at, again;
    for (Column& c : columns_)
      if (c.lane >= 0 && (stops(c) || (c.waiting && together))) looked_at.push_back(&c);
    form_iterates(looked_at);
    for (const Column* c : looked_at) null_space_.project(method_.x(), c->lane);
    compute_truth(looked_at);
    if (new_values) {
      revision_ = system_.A.revision();
      if (ordered_M_) ordered_M_->refresh();
    }
    for (Column* c : looked_at)
      if (act(*c, new_values)) again.push_back(c);
    if (!method_.traits().cycles || together)
      begin_again(again);
    else
      for (Column* c : again)
        c->waiting = true, c->verdict.reached = false, c->verdict.event = StopReason::running;
    pack();
  }
  bool cycle_ended(const Column& c) const { return runs(c) && c.steps_since_begin == method_.period(); }
  void form_iterates(const std::vector<Column*>& of) {
    if (!method_.traits().finishes) return;
    std::vector<LaneSteps> steps;
    for (const Column* c : of)
      if (runs(*c)) steps.push_back({c->lane, c->steps_since_begin});
    method_.finish(system_, steps);
  }

  void judge(Column& c, bool go_on) {
    for (const double residual : c.history) {
      c.report.recurrence_residual = residual;
      remember(c, residual);
    }
    if (c.reason == StopReason::running) c.reason = c.verdict.event, c.detail = c.verdict.detail;
    if (!go_on && c.reason == StopReason::running) c.reason = StopReason::interrupted;
    std::int64_t iteration = c.report.iterations - std::ssize(c.history);
    for (const double residual : c.history) {
      ++iteration;
      if (c.reason != StopReason::running) break;
      c.reason = c.control->limit(IterationInfo{.iteration = iteration,
                                                .residual = residual,
                                                .relative_residual = c.control->relative(residual),
                                                .seconds = seconds(),
                                                .restarts = c.report.restarts},
                                  c.detail);
    }
    c.history.clear();
  }

  // What follows from b - A x. True: the column begins again from it.
  bool act(Column& c, bool new_values) {
    const double truth = c.report.true_residual;
    if (const StopReason good = c.control->satisfied(truth); converged(good)) return end(c, good, {});
    if (c.reason == StopReason::inconsistent) look_at_least_squares(c);
    if (c.waiting && c.reason == StopReason::running) {
      if (new_values) c.control->restart(truth, c.report.iterations);
      return true;
    }
    const bool broke = c.reason == StopReason::breakdown && c.report.iterations < c.rule.max_iterations &&
                       (c.steps_since_begin > 1 || truth < 0.9 * c.begun_from);
    // At the limit it does not go on for that reason.
    if (c.reason == StopReason::breakdown && !broke && c.steps_since_begin > 1)
      c.reason = StopReason::max_iterations, c.detail = fmt::format("{} iterations", c.report.iterations);
    if (c.reason != StopReason::running && !broke) return end_of(c, c.reason, std::move(c.detail));
    const bool planned = cycle_ended(c) && !c.verdict.reached && !broke;
    c.reason = StopReason::running;
    const std::string detail = std::exchange(c.detail, {});
    if (new_values) {
      ++c.report.restarts;
      c.control->restart(truth, c.report.iterations);
      return true;
    }
    if (planned) {
      if (truth > 0.9 * c.begun_from && !std::exchange(c.asked, true)) {
        ThreeVectors<T> vectors(method_.context(), method_.rows());
        if (auto none = no_solution(c, vectors)) return end(c, none->reason, std::move(none->detail));
      }
      ++c.report.restarts;
      return true;
    }
    if (c.verdict.reached && truth <= 2 * c.verdict.residual && can_go_on(c)) {
      c.control->aim_lower(c.verdict.residual, truth);
      return false;
    }
    // Of two restarts at least one must reduce the true residual by a tenth or more.
    c.fruitless = truth < 0.9 * c.smallest_restart ? 0 : c.fruitless + 1;
    c.smallest_restart = std::min(c.smallest_restart, truth);
    if (c.fruitless >= 2)
      return end_of(
          c, broke ? StopReason::breakdown : StopReason::stagnation,
          fmt::format(
              "{}{}the residual of the recurrence is {:.3g}, that of b - A x is {:.3g}, and restarts no "
              "longer help",
              detail, detail.empty() ? "" : "; ", c.verdict.residual, truth));
    ++c.report.restarts;
    c.control->restart(truth, c.report.iterations);
    return true;
  }

  // Whether its next step may follow its last one. On a device it may have stopped some steps before the others.
  bool can_go_on(Column& c) {
    if (method_.traits().cycles) return false;
    const std::int64_t missed = method_.steps() - c.begun_at - c.steps_since_begin;
    c.begun_at += missed;
    return method_.go_on(c.lane, missed);
  }

  // Solver: the recurrences say that b - A x is a null vector of A.
  void look_at_least_squares(Column& c) {
    ThreeVectors<T> vectors(method_.context(), method_.rows());
    Vector<T> x(method_.context(), method_.rows());
    take_out(truth_, truth_index_[static_cast<std::size_t>(number_of(c))], vectors.scratch());
    take_out(method_.x(), c.lane, x);
    const System<T> system{system_.A, vectors.scratch(), x.view(), system_.M, system_.d};
    const double residual = norm<T>(context(), vectors.scratch(), workspace_.number);
    Diagnosis found = check_least_squares<T>(vectors, system, workspace_.number, residual, c.report.rhs_norm);
    c.reason = found.reason, c.detail = std::move(found.detail);
  }

  std::optional<Diagnosis> no_solution(const Column& c, ThreeVectors<T>& vectors) {
    Vector<T> b(method_.context(), method_.rows());
    take_out(system_.B, number_of(c), b);
    const System<T> system{system_.A, b.view(), vectors.scratch(), nullptr, {}};
    return find_inconsistent<T>(vectors, system, workspace_.number, c.control->tolerance());
  }

  bool end_of(Column& c, StopReason reason, std::string detail) {
    const bool first = c.report.iterations <= 1 && c.report.restarts == 0;
    const bool looks = reason == StopReason::divergence || reason == StopReason::indefinite_operator ||
                       reason == StopReason::indefinite_preconditioner || reason == StopReason::stagnation ||
                       reason == StopReason::breakdown || reason == StopReason::not_finite;
    // Found out once for all columns.
    const bool asks =
        depends_on_symmetry(reason) && find_solver(method_.traits().id).symmetric && !symmetric_;
    std::string_view fault;
    if (looks || asks || may_be_inconsistent(reason) || blames_preconditioner(reason)) {
      ThreeVectors<T> vectors(method_.context(), method_.rows());
      Vector<T> x(method_.context(), method_.rows()), b(method_.context(), method_.rows());
      take_out(system_.B, number_of(c), b);
      take_out(truth_, truth_index_[static_cast<std::size_t>(number_of(c))], vectors.scratch());
      take_out(method_.x(), c.lane, x);
      const System<T> system{system_.A, b.view(), x.view(), system_.M, system_.d};
      Diagnosis found = diagnose<T>(vectors, system, workspace_.number, c.verdict, first,
                                    c.report.initial_residual, reason, std::move(detail));
      if (may_be_inconsistent(found.reason))
        if (auto none = no_solution(c, vectors)) {
          if (!found.detail.empty()) none->detail += "; " + found.detail;
          found = std::move(*none);
        }
      reason = found.reason, detail = std::move(found.detail);
      if (blames_preconditioner(reason)) {
        const System<T> callers{callers_.A, b.view(), x.view(), callers_.M, callers_.d};
        if (!fault_) fault_ = fault_of_preconditioner<T>(vectors, callers, workspace_.number);
        fault = *fault_;
      }
      if (asks && depends_on_symmetry(reason)) {
        symmetric_ = is_symmetric<T>(vectors, system, workspace_.number, detail);
        positive_diagonal_ = has_positive_diagonal<T>(vectors, system);
      }
    }
    return end(c, reason, std::move(detail), fault);
  }

  // Returns the column to the caller.
  bool end(Column& c, StopReason reason, std::string detail, std::string_view fault = {}) {
    const ColumnPair pair{c.lane, number_of(c)};
    copy_columns<T>(context(), method_.x(), system_.X, {&pair, 1});
    c.lane = -1;
    finish(c, reason, std::move(detail), fault);
    return false;
  }
  // Its X is as the caller gets it.
  void finish(Column& c, StopReason reason, std::string detail, std::string_view fault = {}) {
    c.lane = -1;
    SolveReport& r = c.report;
    broken_ += reason == StopReason::breakdown || reason == StopReason::indefinite_preconditioner;
    r.reason = reason, r.detail = std::move(detail);
    r.advice = advice_for(reason, {.method = method_.traits().id,
                                   .preconditioner = system_.M ? system_.M->name() : std::string_view(),
                                   .symmetric = symmetric_,
                                   .positive_diagonal = positive_diagonal_,
                                   .preconditioner_fault = fault});
    if (c.control) {
      r.recurrence_relative = c.control->relative(r.recurrence_residual);
      r.true_relative = c.control->relative(r.true_residual);
    }
    r.steps = report_.steps, r.seconds = seconds();
  }

  // The columns that run, in as few lanes as hold them; which lanes run, and their scalars. Then the limits of a GPU.
  void pack() {
    const std::int64_t left = running();
    if (left == 0) return;
    if (const std::int64_t width = multi_width(left); width < method_.width()) {
      std::vector<ColumnPair> keep;
      std::int32_t next = 0;
      for (Column& c : columns_)
        if (c.lane >= 0) keep.push_back({c.lane, next}), c.lane = next++;
      method_.pack(width, keep);
    }
    // On a GPU a lane may have stopped some steps before the others, whose scalars may lie in other places by now.
    for (int place = 0; place < method_.traits().scalars; ++place) {
      std::vector<T> numbers(static_cast<std::size_t>(method_.width()));
      for (const Column& c : columns_)
        if (c.lane >= 0)
          numbers[static_cast<std::size_t>(c.lane)] = c.scalars[static_cast<std::size_t>(place)];
      write(method_.scalars(place), numbers);
    }
    method_.mark(method_.running(), lanes());
    if (!steps_) return;
    std::vector<typename MultiDeviceSteps<T>::Limits> limits(static_cast<std::size_t>(method_.width()));
    for (const Column& c : columns_)
      if (c.lane >= 0)
        limits[static_cast<std::size_t>(c.lane)] = {c.control->goal(), c.control->too_large(),
                                                    c.rule.max_iterations - c.report.iterations};
    steps_->start(limits);
  }

  bool observe() {
    if (!observer_) return true;
    for (Column& c : columns_)
      if (c.lane >= 0 && !c.history.empty()) remember(c, c.history.back());
    if (steering_) {
      runs_.resize(columns_.size());
      for (std::size_t c = 0; c < columns_.size(); ++c) runs_[c] = columns_[c].lane >= 0;
      steering_->columns_that_run(runs_);
    }
    return observer_->on_iteration({iteration(), running(), broken_, residuals_, relative_, seconds()});
  }
  // For the observer.
  void remember(const Column& c, double residual) {
    const auto number = static_cast<std::size_t>(number_of(c));
    residuals_[number] = residual, relative_[number] = c.control->relative(residual);
  }

  const MultiSystem<T>& system_;
  const MultiSystem<T>& callers_;  // the same in the caller's order
  MultiWorkspace<T>& workspace_;
  MultiMethod<T>& method_;
  MultiSolveObserver* observer_;
  SteeringObserver* steering_;  // the same, if it is one
  std::vector<unsigned char> runs_;
  LanesNullSpace<T> null_space_;
  const OrderedPreconditioner<T>*
      ordered_M_;  // system_.M, where the solve is in another order than the caller's
  std::int64_t broken_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Revision revision_ = system_.A.revision();
  MultiSolveReport report_;
  std::vector<Column> columns_;
  std::vector<double> residuals_, relative_;
  MultiVectorView<T> truth_;  // b - A x of some columns; truth_index_: the lane of each there
  std::vector<std::int32_t> truth_index_;
  // Of the matrix, as far as a failed column has found out.
  std::optional<bool> symmetric_, positive_diagonal_;
  std::optional<std::string> fault_;  // of the preconditioner, as well
  MultiDeviceSteps<T>* steps_ = nullptr;
  typename MultiDeviceSteps<T>::Done done_;
};

// The solve in the order that A has now: B and X are permuted once, and X once back, also when the solve throws.
template <class T>
MultiSolveReport solve_in_order(const MultiSystem<T>& callers, const HasOrder<T>& ordered,
                                MultiWorkspace<T>& workspace, MultiSolveObserver* observer,
                                std::span<const StoppingRule> rules, const StoppingRule& rule,
                                const VectorBlock<const T>& callers_null_space) {
  const ContextPtr& context = callers.A.context();
  const std::int64_t n = callers.B.rows, k = callers.B.columns;
  const InOrder<T> A(callers.A, ordered);
  const auto packed = [&](Vector<T>& memory, VectorLayout layout) {
    if (memory.size() < n * k) memory = {}, memory = Vector<T>(context, entries_of(n, k, sizeof(T)));
    return MultiVectorView<T>{memory.data(),   n, k, layout == VectorLayout::columns ? n : k, layout,
                              context->space()};
  };
  const MultiVectorView<T> b = packed(workspace.ordered_b, callers.B.layout),
                           x = packed(workspace.ordered_x, callers.X.layout);
  std::optional<OrderedPreconditioner<T>> M;
  if (callers.M) {
    M.emplace(*callers.M, A.permutation());
    M->refresh();
  }
  VectorBlock<const T> null_space = callers_null_space;
  if (Vector<T>& memory = workspace.ordered_null_space; null_space.count > 0) {
    if (memory.size() != null_space.count * n) memory = Vector<T>(context, null_space.count * n);
    null_space = in_order(A.permutation(), callers_null_space, memory);
  }
  A.permutation().template multi_apply<T>(callers.B, b);
  A.permutation().template multi_apply<T>(MultiVectorView<const T>(callers.X), x);
  struct BringBack {
    const Permutation& permutation;
    MultiVectorView<const T> from;
    MultiVectorView<T> to;
    ~BringBack() {
      try {
        permutation.template multi_apply_inverse<T>(from, to);
      } catch (...) {}  // a broken device, of which the solve tells
    }
  } const bring_back{A.permutation(), x, callers.X};
  const MultiSystem<T> system{A, b, x, M ? &*M : nullptr, M ? M->inverse_diagonal() : VectorView<const T>{}};
  return MultiRun<T>(system, workspace, observer, rules, rule, callers, null_space, M ? &*M : nullptr)();
}

constexpr const MultiMethodEntry* entries[] = {
    &cg_of_columns,        &fcg_of_columns, &minres_of_columns, &bicgstab_of_columns,
    &bicgstab2_of_columns, &idr_of_columns, &gmres_of_columns,  &fgmres_of_columns};

}  // namespace
}  // namespace detail

bool MultiSolveReport::converged() const noexcept {
  return std::all_of(columns.begin(), columns.end(), [](const SolveReport& c) { return c.converged(); });
}

std::span<const std::string_view> multi_methods() noexcept {
  static const auto names = [] {
    std::array<std::string_view, std::size(detail::entries)> all;
    std::transform(std::begin(detail::entries), std::end(detail::entries), all.begin(),
                   [](const detail::MultiMethodEntry* entry) { return entry->traits.id; });
    return all;
  }();
  return names;
}

template <class T>
MultiSolver<T>::MultiSolver(std::string_view method, const SolverOptions& options) : options_(options) {
  (void)make_solver<T>(method, options);  // refuses names and numbers
  for (const detail::MultiMethodEntry* entry : detail::entries)
    if (entry->traits.id == method) entry_ = entry;
  if (detail::weighs_residuals(options))
    throw BadArgument(
        fmt::format("residual_norm is {}; solves with several right-hand sides take the 2-norm alone: take "
                    "euclidean, or solve the columns one after another",
                    options.residual_norm));
  if (options.device_steps != "auto")
    throw BadArgument(
        fmt::format("device_steps is {}; with several right-hand sides steps are queued: take auto",
                    options.device_steps));
}
template <class T>
MultiSolver<T>::~MultiSolver() = default;

template <class T>
std::string_view MultiSolver<T>::name() const noexcept {
  return entry_->traits.id;
}

template <class T>
MultiSolveReport MultiSolver<T>::solve(const LinearOperator<T>& A, MultiVectorView<const T> B,
                                       MultiVectorView<T> X, const Preconditioner<T>* M,
                                       MultiSolveObserver* observer, std::span<const StoppingRule> rules) {
  const std::int64_t n = A.rows(), k = B.columns;
  const ContextPtr& context = A.context();
  const Space space = context->space();
  if (A.cols() != n)
    throw ShapeMismatch(fmt::format("the operator is {} x {}; {} needs a square one", n, A.cols(), name()));
  require<T>(B, n, k, space, "B");
  require<T>(X, n, k, space, "X");
  detail::require_device_memory(*context, B.data, "B");
  detail::require_device_memory(*context, X.data, "X");
  detail::require_apart<T>(B, X, "B and X of a solve");
  if (!rules.empty() && std::ssize(rules) != k)
    throw ShapeMismatch(
        fmt::format("{} stopping rules for {} columns; give one for each, or none", rules.size(), k));
  for (const StoppingRule& rule : rules) {
    SolverOptions one = options_;
    one.stopping = rule;
    (void)make_solver<T>(name(), one);
  }
  if (context->vector_kernels() != VectorKernels::native)
    throw BadArgument(
        fmt::format("the vector operations of the context are those of {}, which has none for several "
                    "vectors; take native",
                    to_string(context->vector_kernels())));
  constexpr std::int64_t most_on_gpu = 256;
  if (space == Space::device && !context->simulated() && k > most_on_gpu)
    throw BadArgument(fmt::format("{} right-hand sides; a GPU takes up to {} at a time", k, most_on_gpu));
  VectorView<const T> d;
  if (M) {
    if (M->rows() != n || M->cols() != n)
      throw ShapeMismatch(
          fmt::format("the preconditioner is {} x {}; the operator is {} x {}", M->rows(), M->cols(), n, n));
    if (M->context()->space() != space)
      throw WrongSpace(fmt::format("the preconditioner works on {} memory, the operator on {} memory",
                                   to_string(M->context()->space()), to_string(space)));
    d = M->inverse_diagonal();
    if (d.size > 0) require<T>(d, n, space, "the preconditioner's diagonal");
    if (entry_->traits.symmetric_preconditioner && !M->symmetric())
      throw BadArgument(
          fmt::format("{} needs a symmetric preconditioner, and {} is not symmetric even if the matrix is",
                      name(), M->name()));
  }
  const detail::DeviceScope scope(*context);
  A.check_arrays();
  if (busy_.exchange(true))
    throw BadArgument("this solver is solving already; give each thread its own solver");
  struct Release {
    std::atomic<bool>& flag;
    ~Release() { flag.store(false); }
  } release{busy_};
  const detail::MultiSystem<T> system{A, B, X, M, d};
  detail::MultiRun<T>::require_memory_of(k);
  const std::int64_t most = std::max<std::int64_t>(1, detail::multi_width(k));
  const detail::WorkspaceLayout layout{context, n, system.preconditioning()};
  if (!workspace_ || !workspace_->fits(layout, most)) {
    workspace_.reset();  // before the new one, so that memory holds one of them at most
    workspace_ =
        std::make_unique<detail::MultiWorkspace<T>>(entry_->template make<T>(), options_, layout, most);
  }
  const VectorBlock<const T> N = detail::null_space_of<T>(options_, null_space_, context, n,
                                                          workspace_->constant, workspace_->components);
  const Ability<HasOrder<T>> ordered = A.abilities().order;
  detail::require_finite_guesses<T>(system, workspace_->number, workspace_->column);
  MultiSolveReport report =
      ordered && ordered->order().size() > 0 && k > 0
          ? detail::solve_in_order<T>(system, *ordered, *workspace_, observer, rules, options_.stopping, N)
          : detail::MultiRun<T>(system, *workspace_, observer, rules, options_.stopping, system, N)();
  detail::look_at_solutions<T>(system, name(), workspace_->number, workspace_->column, report);
  return report;
}

template <class T>
void MultiSolver<T>::set_null_space(VectorBlock<const T> N) {
  if (N.count > 0) detail::require_null_space_method(name());
  null_space_ = N;
}

template class MultiSolver<float>;
template class MultiSolver<double>;

}  // namespace protean
