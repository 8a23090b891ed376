// The driver of a solve of A x = b for k >= 1 right-hand sides. It is written once, over what computes: one vector
// (one_vector.cpp), or columns in the lanes of interleaved vectors (columns.cpp). Each right-hand side is a column with
// a course of its own, which decides (course.hpp); the driver carries out what the courses decide, and calls the
// observer. Private to solvers/driver.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/communicator.hpp"
#include "core/error.hpp"
#include "operators/kernel_loading.hpp"
#include "solvers/driver/arguments.hpp"
#include "solvers/driver/course.hpp"
#include "solvers/driver/followed_order.hpp"
#include "solvers/driver/rounding.hpp"
#include "solvers/null_space.hpp"

namespace protean::detail {

// A right-hand side and its course.
template <class Form>
struct ColumnOf final : Course<typename Form::Number> {
  using T = typename Form::Number;
  using Course<T>::Course;
  bool in_lane() const noexcept { return lane >= 0; }
  // Columns that have not ended run, or wait for the others.
  bool runs() const noexcept { return in_lane() && !this->waits(); }

  std::int32_t number = 0;
  std::int32_t lane = -1;  // -1: it has ended
  typename Course<T>::Beginning beginning{};
  double two_norm = 0;                           // 2-norm of the b - A x that is in the report
  double residual = 0;                           // of the last step, for the observer
  typename Form::template List<double> history;  // residuals of the steps since the last look
  // With several lanes:
  bool first = true;  // no step since begin()
  LaneScalars<T> scalars{};
  std::int64_t begun_at = 0;  // MultiMethod::steps() at begin(), and the steps of others that it missed since
};

// Self computes, and is derived from Driver<Self, Form>; followed_order.hpp has the forms. Functions of Self:
//   attach()            gets ready for steps of system()
//   measure_rhs()       writes the norms of b to the columns' beginnings
//   b_of(c)             a vector with b of the column
//   check_null_space(c) of null_space.hpp, with its b; project_x(c): project() of its x
//   compute_truth(of)   b - A x of columns, without its part in the null space, and its norms
//   begin(of)           the method begins from that b - A x
//   verdict_of(c)       on the state after it
//   advance()           the next step of all columns that run, or the next steps: calls stepped() of each
//   settle(stops)       waits for what is in flight. True: these steps are to be judged, too. stops: a column ends, or
//                       A has new values
//   finish(of)          makes x the iterate of these columns
//   correct()           between two steps: replaces the residual of a recurrence with rounded products by b - A x if
//                       it is time to
//   renew(c)            does so with the b - A x that was computed
//   pack()              the columns that are left may lie in fewer lanes
//   give_back_x(c)      x of a column that has ended becomes the caller's
//   observe()           calls the observer
//   report()            of the solve
template <class Self, class Form>
class Driver : protected Inquiry<typename Form::Number> {
 public:
  using T = typename Form::Number;
  using System = typename Form::System;
  using Column = ColumnOf<Form>;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  auto operator()() {
    require_options_of_space(options_, context());
    for (const BadEntry& bad : not_finite()) throw BadArgument(guess_text(Form::guess(bad), bad));
    if (weighs_residuals(options_)) {
      const double largest = make_weights<T>(callers_.A, options_, own_.weights, own_.number);
      for (Column& c : columns_) c.beginning.largest_inverse_weight = largest;
      callers_.weights = own_.weights;
    }
    in_order_.begin();
    self().attach();
    if (!columns_.empty()) begin();
    while (running() > 0) {
      self().advance();
      look();
    }
    conclude();
    now_ = seconds();
    count_solve(context(), now_);
    return self().report();
  }

 protected:
  using Columns = typename Form::template List<Column*>;

  // own: what the solver keeps. rules: of each column, of which there are k; empty: all have the rule of the options.
  // cycle: the steps after which the method must begin again, if there is such a number.
  Driver(std::string_view method, const SolverOptions& options, const System& callers,
         const VectorBlock<const T>& null_space, WorkspaceParts<T>& own, Form form, std::size_t k,
         std::span<const StoppingRule> rules, std::int64_t cycle)
      : options_(options),
        callers_(callers),
        own_(own),
        findings_{.method = method, .preconditioner = callers.M ? callers.M->name() : std::string_view()},
        in_order_(callers_, null_space, own.in_an_order, form),
        cycle_(cycle) {
    columns_.reserve(k);
    for (std::size_t c = 0; c < k; ++c)
      columns_.emplace_back(rules.empty() ? options.stopping : rules[c], findings_).number =
          static_cast<std::int32_t>(c);
  }
  ~Driver() = default;

  const Context& context() const noexcept { return callers_.context(); }
  const System& system() const noexcept { return in_order_.system(); }
  std::int64_t running() const {
    return std::count_if(columns_.begin(), columns_.end(), [](const Column& c) { return c.in_lane(); });
  }
  // Of the column with the most.
  std::int64_t iteration() const {
    std::int64_t most = 0;
    for (const Column& c : columns_) most = std::max(most, c.report().iterations);
    return most;
  }
  // How many steps may be computed before the next stop of the observer.
  template <class Observer>
  std::int64_t room(const Observer* observer) const {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const std::int64_t stop = observer ? observer->next_stop() : most, now = iteration();
    return stop > now ? stop - now : most;
  }
  void stepped(Column& c, std::int64_t steps, Verdict verdict) {
    c.residual = verdict.residual;
    c.stepped(steps, std::move(verdict));
  }
  // Returns a column that has ended to the caller.
  void give_back(Column& c) {
    self().give_back_x(c);
    leave(c);
  }
  bool leaves_rounding(const std::string& why) override { return leave_rounding(system().A, why); }

  const SolverOptions& options_;
  System callers_;
  WorkspaceParts<T>& own_;
  Findings findings_;
  typename Form::template List<Column> columns_;
  FollowedOrder<Form> in_order_;
  double now_ = 0;  // seconds since the solve began, at the last look

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void begin() {
    self().measure_rhs();
    Columns started, continued;
    for (Column& c : columns_) {
      if (c.beginning.two_rhs_norm != 0) {
        c.lane = c.number;
        started.push_back(&c);
        continue;
      }
      const ColumnPair zero{-1, c.number};
      copy_columns<T>(context(), as_columns(system().x), as_columns(system().x), {&zero, 1});
      c.end_with_zero();
      leave(c);
    }
    if (!started.empty()) {
      const VectorBlock<const T>& N = in_order_.null_space();
      if (N.count > 0) self().check_null_space(*started.front());
      project_x(started);
      self().compute_truth(started);
      for (Column* c : started) {
        typename Course<T>::Beginning& of = c->beginning;
        c->residual = of.initial_residual = c->report().true_residual, of.two_initial_residual = c->two_norm;
        if (N.count > 0)
          of.in_null_space = part_in_null_space<T>(context(), N, self().b_of(*c), own_.components);
        if (c->begin(of))
          continued.push_back(c);
        else
          give_back(*c);
      }
      begin_methods(continued);
      // The state after begin() is judged as a step is.
      for (Column* c : continued) {
        stepped(*c, 0, self().verdict_of(*c));
        c->history.push_back(c->residual);
      }
      self().pack();
    }
    in_order_.method_begins();
    look();
  }

  void begin_methods(const Columns& of) {
    if (of.empty()) return;
    self().begin(of);
    for (Column* c : of) c->begun();
  }

  // Between two steps: the observer, the verdicts, and what follows from them.
  void look() {
    now_ = agreed(context(), seconds());  // so that all parts of a system end at the same iteration
    const bool go_on = self().observe();
    const bool new_values = system().A.revision() != revision_;
    const auto asks = [&](const Column& c) { return new_values || c.asks_for_truth(cycle_ended(c)); };
    bool any = false, stops = new_values;
    for (Column& c : columns_) {
      if (!c.in_lane()) continue;
      judge(c, go_on);
      any = any || asks(c), stops = stops || c.stops();
    }
    if (!any) return self().correct();
    // What is in flight has changed the columns, so it counts.
    if (self().settle(stops))
      for (Column& c : columns_)
        if (c.in_lane()) judge(c, go_on);
    // If nobody runs on, columns that wait begin again, too.
    const bool together =
        std::none_of(columns_.begin(), columns_.end(), [&](const Column& c) { return c.runs() && !asks(c); });
    Columns looked_at, again;
    for (Column& c : columns_)
      if (c.in_lane() && (asks(c) || (c.waits() && together))) looked_at.push_back(&c);
    self().finish(looked_at);
    project_x(looked_at);
    self().compute_truth(looked_at);
    if (new_values) {
      revision_ = system().A.revision();
      in_order_.refresh_preconditioner();
    }
    for (Column* c : looked_at) {
      const Next next = c->follow(new_values, cycle_ended(*c), *this);
      if (next == Next::end) give_back(*c);
      if (next == Next::begin) again.push_back(c);
      if (next == Next::renew) self().renew(*c);
    }
    // Otherwise they wait.
    if (!has_cycles() || together) begin_methods(again);
    self().pack();
  }
  bool has_cycles() const noexcept { return cycle_ != std::numeric_limits<std::int64_t>::max(); }
  bool cycle_ended(const Column& c) const { return c.runs() && c.steps_since_begin() == cycle_; }
  void judge(Column& c, bool go_on) {
    c.judge(c.history, go_on, now_);
    c.history.clear();
  }

  void leave(Column& c) {
    c.lane = -1;
    c.report().seconds = seconds();
  }

  void project_x(const Columns& of) {
    if (in_order_.null_space().count == 0) return;
    for (const Column* c : of) self().project_x(*c);
  }
  // Of the caller's x: one entry of each column that has one.
  std::vector<BadEntry> not_finite() {
    return columns_not_finite<T>(callers_.A.context(), as_columns(callers_.x), own_.number, own_.column);
  }

  void conclude() {
    in_order_.bring_back();
    const std::vector<BadEntry> bad = iteration() > 0 ? not_finite() : std::vector<BadEntry>();
    auto next = bad.begin();
    for (Column& c : columns_) {
      std::optional<BadEntry> entry;
      if (next != bad.end() && next->column == c.number) entry = *next++;
      c.conclude(c.report().iterations > 0 ? entry : std::nullopt, *this);
    }
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Revision revision_ = callers_.A.revision();
  const std::int64_t cycle_;
};

}  // namespace protean::detail
