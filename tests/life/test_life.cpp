// The life of the objects: solvers, adaptive operators, contexts and their like go through hundreds of random
// steps, and after each step they agree with fresh objects, to the bit if the contract promises that.
//
//   systems.hpp     the linear systems
//   world.hpp       the objects that are kept
//   solve.hpp       one solve, with kept or with fresh objects
//   columns.hpp     one with several right-hand sides
//   steps.hpp       the random steps
//   comparison.hpp  how closely kept and fresh objects must agree
//   replay.hpp      seeds, and how to repeat a failure
//
// A failure prints the last steps in words, the fewest steps that fail, and the environment variables that
// repeat them. A seed that has found a fault becomes a row of the table `found`.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "life/replay.hpp"
#include "life/steps.hpp"
#include "life/world.hpp"
#include "support/space.hpp"

namespace protean::test::life {
namespace {

struct Case {
  const char* space;  // World
  bool single;        // precision
};

bool missing(std::string_view space) { return space == "device" && !test_context(Space::device); }

using Counts = std::map<std::string, std::int64_t>;

template <class T>
std::optional<Failure> live_in(const Case& where, std::uint64_t seed, const StepList& steps, Counts* counts) {
  World<T> world(where.space, seed);
  auto failure = live(world, steps, [&](int number) { return carry_out(world, draw_step(seed, number)); });
  if (counts)
    for (const auto& [name, count] : world.counts) (*counts)[name] += count;
  return failure;
}

Life life_in(const Case& where, Counts* counts = nullptr) {
  return [where, counts](std::uint64_t seed, const StepList& steps) {
    return where.single ? live_in<float>(where, seed, steps, counts)
                        : live_in<double>(where, seed, steps, counts);
  };
}

class LifeOfObjects : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (missing(GetParam().space)) GTEST_SKIP() << no_device;
  }
};

TEST_P(LifeOfObjects, KeptObjectsAgreeWithFreshOnes) {
  forget_numbers<float>(), forget_numbers<double>();  // of a test before
  const std::size_t before = allocated_bytes();
  Counts counts;
  // The simulated device takes ten times as long for a step.
  std::vector<std::uint64_t> seeds = {1, 2, 3, 4, 5, 6, 7, 8};
  if (GetParam().space == std::string_view("simulated")) seeds.resize(2);
  expect_good_lives(seeds, 100, life_in(GetParam(), &counts));
  // The values of systems are cached in memory of the host.
  forget_numbers<float>(), forget_numbers<double>();
  EXPECT_EQ(allocated_bytes(), before) << "memory is still held";
  for (const auto& [name, count] : counts) RecordProperty(name, std::to_string(count));
  if (chosen_by_environment() || HasFailure()) return;
  for (const char* name :
       {"converged", "interrupted", "exceptions of the observer", "exceptions of a callback",
        "solves ended by an allocation that failed", "new values in a solve",
        "changes of format by a schedule", "changes of format built next to the solve",
        "pairs of solves in two threads", "solves with a matrix that stays in an order",
        "changes of order by a schedule", "changes of order outside of a solve",
        "solves that begin in another order", "solves with several right-hand sides", "columns converged",
        "columns compared with a solve of one", "changes of format with several right-hand sides"})
    EXPECT_GT(counts[name], 0) << "the steps do not reach this: " << name;
  // Elsewhere a few steps in a life are one of these, too few to count on.
  if (GetParam().space != std::string_view("host")) return;
  for (const char* name :
       {"changes of order built next to the solve", "changes back to the order before",
        "changes of order with several right-hand sides", "new values with several right-hand sides"})
    EXPECT_GT(counts[name], 0) << "the steps do not reach this: " << name;
}

INSTANTIATE_TEST_SUITE_P(Spaces, LifeOfObjects,
                         testing::Values(Case{"host", false}, Case{"host", true}, Case{"simulated", false},
                                         Case{"simulated", true}, Case{"device", false},
                                         Case{"device", true}),
                         [](const auto& one) {
                           return std::string(one.param.space) + (one.param.single ? "_float" : "_double");
                         });

}  // namespace
}  // namespace protean::test::life
