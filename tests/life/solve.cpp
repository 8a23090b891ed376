#include "life/solve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "core/allocation_hook.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "support/engines.hpp"
#include "support/fake_device.hpp"

namespace protean::test::life {
namespace {

std::atomic<std::int64_t> allocations{0}, fails_at{0};

// The observer of all solves here: records what it sees and does what the plan says.
template <class T>
class Watcher final : public SolveObserver {
 public:
  Watcher(const SolvePlan& plan, Operator<T>& A, Outcome<T>& outcome)
      : plan_(plan), A_(A), outcome_(outcome) {}

  bool on_iteration(const IterationInfo& info) override {
    outcome_.seen.push_back(info);
    prepare_or_cancel(info.iteration);
    if (plan_.event == Event::none || outcome_.event_happened || info.iteration < plan_.event_at) return true;
    outcome_.event_happened = true;
    if (plan_.event == Event::exception) throw Thrown("the observer throws");
    if (plan_.event == Event::new_values) A_.set_values(plan_.generation);
    return plan_.event != Event::interrupt;
  }
  std::int64_t next_stop() const noexcept override {
    return plan_.event != Event::none && plan_.exact ? plan_.event_at
                                                     : std::numeric_limits<std::int64_t>::max();
  }

 private:
  void prepare_or_cancel(std::int64_t iteration) {
    Matrix<T>* const A = A_.adaptive();
    // Most builds next to the solve are waited for, since these solves are short.
    if (A && plan_.change == Change::beside && plan_.format % 4 != 0 && iteration == plan_.change_at + 2)
      (void)A->wait_prepared();
    if (!A || (plan_.change != Change::cancelled && plan_.change != Change::left)) return;
    if (!begun_ && iteration >= plan_.change_at) {
      begun_ = true;
      A->prepare(pick_change(A_.spec().place, plan_.format), "the test", iteration);
    } else if (plan_.change == Change::cancelled && iteration >= plan_.change_at + 3) {
      A->cancel(iteration, "the test");
    }
  }

  const SolvePlan& plan_;
  Operator<T>& A_;
  Outcome<T>& outcome_;
  bool begun_ = false;
};

// The formats an AutoSwitcher may choose from. Products of about half of them are said to be faster than those
// of the format that runs.
template <class T>
class Choices {
 public:
  Choices(const SolvePlan& plan, Operator<T>& A) : place_(A.spec().place), A_(A) {
    const OperatorSpec spec = A.spec();
    csr_ = numbers<T>(spec.system, spec.generation);
    MeasuredMatrix measured{"made up", A.context()->space(), A.size(), csr_->csr.nonzeros(), {}};
    const auto add = [&](std::string_view name, double product, double convert) {
      measured.formats.push_back({std::string(name), csr_->csr.bytes(), product, convert});
    };
    for (const FormatEntry* entry : layouts_of_any_matrix())
      add(entry->id,
          entry->id == "csr" ? 1e-3 : 2e-3 * uniform(plan.numbers, static_cast<unsigned char>(entry->id[0])),
          1e-3);
    for (const char* name : {"lma-atomic", "lma-coloured", "lma-gather"}) add(name, 1.5e-3, 0);
    add("assembly", 1e-3, 2e-3);
    table_.matrices = {measured};
  }
  CostModel model() const { return {table_, A_.context()->space()}; }
  std::vector<SwitchTarget> survey() const {
    if (A_.adaptive()->elements()) return survey_formats(*A_.adaptive()->elements());
    auto targets =
        survey_formats(csr_->csr.pattern, A_.context()->space(), A_.context()->deterministic(), sizeof(T));
    if (place_ != Place::simulated) return targets;
    // In a build without CUDA no format has kernels for a device, so the survey is one of the host.
    targets = survey_formats(csr_->csr.pattern, Space::host, false, sizeof(T));
    std::erase_if(targets, [](const SwitchTarget& target) { return !target.spec.kernel.empty(); });
    for (SwitchTarget& target : targets) target.spec.entry = &fake_format(target.spec.entry->id);
    return targets;
  }

 private:
  Place place_;
  Operator<T>& A_;
  std::shared_ptr<const Numbers<T>> csr_;
  MachineTable table_;
};

template <class T>
SolveReport with_auto_switcher(const SolvePlan& plan, const Participants<T>& with, SolveObserver& watcher) {
  const Choices<T> choices(plan, with.A);
  AutoSwitchOptions options;
  options.policy.worst_factor = 4, options.policy.forecast_factor = 5;
  options.policy.overlapped = plan.overlapped;
  options.goal = with.solver.options().stopping.relative_tolerance;
  options.max_iterations = with.solver.options().stopping.max_iterations;
  AutoSwitcher<T> switcher(
      *with.A.adaptive(), choices.model(), [&choices] { return choices.survey(); }, options, &watcher);
  SolveReport report = with.solver.solve(with.A.get(), with.b, with.x, with.M, &switcher);
  switcher.finish();
  return report;
}

template <class T>
SolveReport with_schedule(const SolvePlan& plan, const Participants<T>& with, SolveObserver& watcher) {
  const bool overlapped = plan.change == Change::beside;
  // A build that an earlier solve left behind would be adopted at some iteration.
  if (!overlapped) with.A.adaptive()->cancel(0, "the test");
  std::vector<SchedulePoint> points;
  const auto add = [&](std::int64_t at, unsigned number) {
    points.push_back({.trigger = ScheduleTrigger::iteration,
                      .at = static_cast<double>(at),
                      .to = pick_change(with.A.spec().place, number),
                      .overlapped = overlapped});
  };
  add(plan.change_at, plan.format);
  // Half of the schedules go on, so that one order follows another.
  if (plan.format % 2 == 0)
    add(plan.change_at + 3, plan.format + 1), add(plan.change_at + 8, plan.format + 2);
  FormatSchedule<T> schedule(*with.A.adaptive(), std::move(points), &watcher);
  SolveReport report = with.solver.solve(with.A.get(), with.b, with.x, with.M, &schedule);
  schedule.finish();
  return report;
}

template <class T>
SolveReport solve(const SolvePlan& plan, const Participants<T>& with, SolveObserver& watcher) {
  if (with.A.adaptive() && plan.change == Change::automatic) return with_auto_switcher(plan, with, watcher);
  if (with.A.adaptive() && (plan.change == Change::now || plan.change == Change::beside))
    return with_schedule(plan, with, watcher);
  // Small systems on a GPU are then solved by one kernel that keeps the rows.
  if (with.A.adaptive()) with.A.adaptive()->show_rows(plan.numbers % 2 == 0);
  return with.solver.solve(with.A.get(), with.b, with.x, with.M, &watcher);
}

}  // namespace

ContextPtr context_of_fresh_objects(const OperatorSpec& before, const ContextPtr& kept, unsigned numbers) {
  if (on_gpu(before.place) && numbers % 8 != 0) return kept;
  return make_context(before.place, 1 + static_cast<int>(numbers % 3));
}

OperatorSpec spec_of_fresh_operator(const OperatorSpec& before, bool order_changed, SolvePlan& plan) {
  OperatorSpec spec = before;
  if (spec.place != Place::ordered || order_changed) return spec;
  plan.change = Change::none;
  spec.format = {.entry = &find_format("csr"),
                 .params = {},
                 .kernel = {},
                 .elements = false,
                 .order = before.format.order};
  return spec;
}

FailingAllocation::FailingAllocation(std::int64_t n) {
  if (n == 0) return;
  allocations = 0, fails_at = n;
  detail::allocation_hook = [](Space, std::size_t bytes) {
    if (++allocations == fails_at) throw OutOfMemory("the test's allocation failed", bytes);
  };
}
FailingAllocation::~FailingAllocation() { detail::allocation_hook = nullptr; }

template <class T>
Outcome<T> carry_out(const SolvePlan& plan, const Participants<T>& with, const std::vector<T>& b,
                     const std::vector<T>& x0) {
  Outcome<T> outcome;
  const Context& context = *with.A.context();
  const auto n = static_cast<std::int64_t>(b.size());
  const std::size_t changes_before = with.A.adaptive() ? with.A.adaptive()->history().size() : 0;
  seed_made_up_clock(plan.numbers);
  try {
    copy<T>(context, {b.data(), n}, with.b);
    copy<T>(context, {x0.data(), n}, with.x);
    // Products of a setup do not count: kept preconditioners may be set up already.
    if (with.M) with.M->ensure(with.A.get());
    with.A.throw_at_product(plan.throw_at_product);
    Watcher<T> watcher(plan, with.A, outcome);
    outcome.report = solve(plan, with, watcher);
  } catch (const OutOfMemory& error) {
    outcome.thrown = error.what(), outcome.out_of_memory = true;
  } catch (const std::exception& error) { outcome.thrown = error.what(); }
  with.A.throw_at_product(0);
  if (with.A.adaptive()) {
    with.A.adaptive()->show_rows(false);
    const auto adopted = with.A.adaptive()->history().subspan(changes_before);
    outcome.changes_adopted = adopted.size();
    for (const SwitchRecord& one : adopted) {
      const bool changed = one.from_order != one.to_order;
      outcome.orders_adopted += changed, outcome.orders_left += changed && one.to_order == "none";
    }
  }
  outcome.x.resize(b.size());
  copy<T>(context, with.x, {outcome.x.data(), n});
  return outcome;
}

std::string describe(const SolvePlan& plan) {
  constexpr const char* rhs[] = {"a random b", "b = 0", "b with an infinite entry"};
  constexpr const char* guesses[] = {"x0 = 0", "a random x0", "x0 the last solution there"};
  constexpr const char* overlaps[] = {" that waits for its builds", " that builds beside the solve"};
  std::string text = fmt::format("solver {} solves with operator {}, {}, {}, {}, vectors {}", plan.solver,
                                 plan.op, to_string(plan.preconditioning), rhs[static_cast<int>(plan.rhs)],
                                 guesses[static_cast<int>(plan.guess)], to_string(plan.memory));
  const auto at = fmt::format("at iteration {}", plan.change_at);
  if (plan.change == Change::now) text += fmt::format("; a schedule changes the format {}", at);
  if (plan.change == Change::beside)
    text += fmt::format("; a schedule begins a build beside the solve {}", at);
  if (plan.change == Change::automatic) text += fmt::format("; an AutoSwitcher{}", overlaps[plan.overlapped]);
  if (plan.change == Change::cancelled)
    text += fmt::format("; a build is begun {} and cancelled three iterations later", at);
  if (plan.change == Change::left) text += fmt::format("; a build is begun {} and left behind", at);
  const auto event_at =
      fmt::format("at iteration {}{}", plan.event_at, plan.exact ? "" : ", which is not named beforehand");
  if (plan.event == Event::interrupt) text += fmt::format("; the observer ends the solve {}", event_at);
  if (plan.event == Event::exception) text += fmt::format("; the observer throws {}", event_at);
  if (plan.event == Event::new_values)
    text += fmt::format("; the operator gets values {} {}", plan.generation, event_at);
  if (plan.throw_at_product > 0)
    text += fmt::format("; a callback would throw in product {}", plan.throw_at_product);
  if (plan.failing_allocation > 0) text += fmt::format("; allocation {} fails", plan.failing_allocation);
  return text;
}

template Outcome<float> carry_out(const SolvePlan&, const Participants<float>&, const std::vector<float>&,
                                  const std::vector<float>&);
template Outcome<double> carry_out(const SolvePlan&, const Participants<double>&, const std::vector<double>&,
                                   const std::vector<double>&);

}  // namespace protean::test::life
