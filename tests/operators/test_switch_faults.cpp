// Random schedules of changes of format with faults: every solve converges to the right answer, no memory is
// lost, nothing hangs.
#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "core/allocation_hook.hpp"
#include "core/background.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "solving.hpp"

namespace protean::test {
namespace {

constexpr int schedules = 500;

// Makes one allocation of a build fail: number `countdown` of the allocations in this thread while `armed`, or in
// background work.
std::atomic<int> countdown{-1};
std::atomic<int> failed_allocations{0};
thread_local bool armed = false;

void fail_when_due(Space, std::size_t bytes) {
  if (!armed && !detail::background()) return;
  if (countdown.fetch_sub(1) == 0) {
    ++failed_allocations;
    throw OutOfMemory("a test let this allocation fail", bytes);
  }
}

struct FailingAllocations {
  FailingAllocations() { detail::allocation_hook = fail_when_due; }
  ~FailingAllocations() {
    detail::allocation_hook = nullptr;
    countdown = -1;
  }
};

struct Action {
  enum class Kind { switch_to, prepare, cancel, abandon, new_values } kind;
  std::int64_t iteration;
  const FormatEntry* to;
  int failing_allocation;  // -1: none
};

std::vector<Action> random_schedule(std::mt19937& random, Space space, std::int64_t iterations) {
  static const FormatEntry* const odd[] = {
      &refusing_format(), &throwing_format(), &throwing_a_number_format(), &null_format(),
      &wrong_format(),    &endless_format(),  &stubborn_format()};
  const std::vector<const FormatEntry*> of_engines = one_of_each_engine(space);
  std::vector<Action> actions;
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  for (std::int64_t count = 1 + below(6); count > 0; --count) {
    Action action{Action::Kind::switch_to, below(static_cast<std::uint32_t>(iterations)), nullptr, -1};
    const std::int64_t kind = below(20);
    action.kind = kind < 8    ? Action::Kind::switch_to
                  : kind < 17 ? Action::Kind::prepare
                  : kind < 19 ? Action::Kind::cancel
                              : Action::Kind::new_values;
    // Each engine as often as another, however many layouts it has.
    const std::string_view engine = of_engines[below(static_cast<std::uint32_t>(of_engines.size()))]->engine;
    do action.to = layouts()[below(static_cast<std::uint32_t>(layouts().size()))];
    while (action.to->engine != engine || kernels_in(*action.to, space).empty());
    if (below(4) == 0) action.to = odd[below(std::size(odd))];
    if (action.to == &endless_format()) action.kind = Action::Kind::prepare;
    if (below(4) == 0) action.failing_allocation = static_cast<int>(below(12));
    actions.push_back(action);
    // Some builds are cancelled soon. Endless ones are cancelled while they run, by the next change.
    if (action.kind == Action::Kind::prepare && below(3) == 0)
      actions.push_back({Action::Kind::cancel, action.iteration + below(3), nullptr, -1});
    if (below(8) == 0) actions.push_back({Action::Kind::abandon, action.iteration, nullptr, -1});
  }
  return actions;
}

void run_schedules(Space space) {
  const ContextPtr context = test_context(space);
  if (!context) GTEST_SKIP() << no_device;
  std::vector<CsrMatrix<double>> matrices, sources;
  std::vector<Solved> plain;
  for (const SwitchedSystem& system : switched_systems) {
    matrices.push_back(matrix_of(test_context(), system));
    sources.push_back(placed(context, matrices.back()));
    plain.push_back(solve_with(*make_matrix(find_format("csr"), sources.back(), context), matrices.back(),
                               system, nullptr));
  }
  const FailingAllocations hook;
  int switches = 0, failures = 0, overlapped = 0, abandoned = 0;
  std::map<SwitchFailure, int> kinds;
  {  // what background work keeps for its next time is there afterwards
    Matrix<double> first(sources[0], make_matrix(find_format("csr"), sources[0], context));
    first.prepare(spec_of(find_format("ell")));
    (void)first.wait_prepared();
  }
  context->synchronize();
  const std::size_t before = allocated_bytes(*context);
  for (int seed = 0; seed < schedules; ++seed) {
    SCOPED_TRACE(testing::Message() << "schedule " << seed);
    std::mt19937 random(seed);
    const std::size_t s = random() % std::size(switched_systems);
    const SwitchedSystem& system = switched_systems[s];
    const std::vector<Action> actions = random_schedule(random, space, plain[s].report.iterations);
    const bool waits = random() % 2 == 0;
    {
      Matrix<double> A(sources[s], make_matrix(find_format("csr"), sources[s], context));
      bool new_values = false, endless = false;
      Between observer([&](const IterationInfo& info) {
        for (const Action& action : actions) {
          if (action.iteration != info.iteration) continue;
          armed = true;
          countdown = action.failing_allocation;
          switch (action.kind) {
            case Action::Kind::switch_to:
              A.switch_to(spec_of(*action.to), info.iteration);
              break;
            case Action::Kind::prepare:
              A.prepare(spec_of(*action.to), "", info.iteration);
              endless = action.to == &endless_format();
              break;
            case Action::Kind::cancel:
              A.cancel(info.iteration);
              break;
            case Action::Kind::abandon: {
              if (endless) A.cancel(info.iteration);
              (void)A.wait_prepared();  // what is held must be the next
              hold_stubborn_builds(true);
              const int begun = stubborn_builds();
              A.prepare(spec_of(stubborn_format()), "", info.iteration);
              while (stubborn_builds() == begun && A.preparation() == Preparation::running)
                std::this_thread::yield();
              A.cancel(info.iteration);
              abandoned += A.abandoned();
              hold_stubborn_builds(false);
              endless = false;
              break;
            }
            case Action::Kind::new_values:
              countdown = -1;  // of these a failure is the caller's
              A.update_values(sources[s]);
              new_values = true;
              break;
          }
          armed = false;
        }
        // An endless build continues until the next change, or the end, cancels it.
        if (waits && info.iteration % 7 == 0 && !endless) (void)A.wait_prepared();
        armed = true;
        (void)A.adopt_prepared(info.iteration);
        armed = false;
      });
      const Solved solved = solve_with(A, matrices[s], system, &observer);
      if (new_values) {  // the method begins again
        EXPECT_TRUE(solved.report.converged()) << to_string(solved.report.reason) << solved.report.detail;
        EXPECT_LE(solved.residual, 1e-9 * 1.001);
      } else {
        expect_same_course(solved, plain[s]);
      }
      switches += static_cast<int>(A.history().size()), failures += static_cast<int>(A.failures().size());
      for (const SwitchRecord& record : A.history()) overlapped += record.overlapped;
      for (const FailedSwitch& failed : A.failures()) ++kinds[failed.failure];
    }
    countdown = -1;
    context->synchronize();
    EXPECT_EQ(allocated_bytes(*context), before);
  }
  // All kinds of failures must have occurred.
  EXPECT_GT(switches, schedules / 2);
  EXPECT_GT(overlapped, schedules / 10);
  EXPECT_GT(failures, schedules / 4);
  EXPECT_GT(abandoned, schedules / 50);
  EXPECT_GT(failed_allocations.load(), schedules / 50);
  for (const SwitchFailure failure :
       {SwitchFailure::refused, SwitchFailure::out_of_memory, SwitchFailure::failed,
        SwitchFailure::wrong_product, SwitchFailure::cancelled})
    EXPECT_GT(kinds[failure], 0) << to_string(failure);
}

TEST(SwitchFaults, RandomSchedulesOnTheHost) { run_schedules(Space::host); }
TEST(SwitchFaults, RandomSchedulesOnADevice) { run_schedules(Space::device); }

}  // namespace
}  // namespace protean::test
