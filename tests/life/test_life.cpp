// The life of the objects: one solver, one adaptive operator, one context and their like go through hundreds of
// random steps, and after each step they agree with fresh objects, to the bit where the contract gives that.
//
//   systems.hpp     the linear systems
//   world.hpp       the objects that are kept
//   solve.hpp       one solve, with kept or with fresh objects
//   steps.hpp       the random steps
//   comparison.hpp  how closely kept and fresh objects must agree
//
// A failure prints the last steps and the fewest that fail. Environment:
//
//   PROTEAN_LIFE_SEED=7         that seed instead of the usual ones
//   PROTEAN_LIFE_STEPS=5000     so many steps of each seed, or
//   PROTEAN_LIFE_STEPS=3,14-20  these steps alone
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "life/steps.hpp"
#include "life/world.hpp"
#include "support/space.hpp"

namespace protean::test::life {
namespace {

using StepList = std::vector<int>;

StepList first_steps(int count) {
  StepList steps(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) steps[i] = i;
  return steps;
}

// "500" or "3,14-20"
StepList parse_steps(const std::string& text) {
  if (text.find_first_of(",-") == std::string::npos) return first_steps(std::stoi(text));
  StepList steps;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    const std::size_t dash = one.find('-');
    const int first = std::stoi(one),
              last = dash == std::string::npos ? first : std::stoi(one.substr(dash + 1));
    for (int i = first; i <= last; ++i) steps.push_back(i);
  }
  return steps;
}

std::string list(const StepList& steps) {
  std::string text;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1) ++last;
    if (i > 0) text += ',';
    // A single number would be a number of steps.
    text += last == i && steps.size() > 1 ? fmt::to_string(steps[i])
                                          : fmt::format("{}-{}", steps[i], steps[last]);
    i = last;
  }
  return text;
}

struct Failure {
  int step;
  std::string text;
  std::vector<std::string> notes;
};

using Counts = std::map<std::string, std::int64_t>;

template <class T>
std::optional<Failure> live(std::string_view space, std::uint64_t seed, const StepList& steps,
                            Counts* counts = nullptr) {
  World<T> world(space, seed);
  for (const int number : steps) {
    std::string text;
    try {
      text = carry_out(world, draw_step(seed, number));
    } catch (const std::exception& error) { text = fmt::format("an unexpected exception: {}", error.what()); }
    if (!text.empty()) return Failure{number, text, world.notes()};
  }
  if (counts)
    for (const auto& [name, count] : world.counts) (*counts)[name] += count;
  return {};
}

// Fewer steps that still fail: drops stretches of them, ever shorter ones, for at most half a minute.
template <class T>
StepList shrunk(std::string_view space, std::uint64_t seed, StepList steps, int failed) {
  const auto begin = std::chrono::steady_clock::now();
  const auto enough = [&] { return std::chrono::steady_clock::now() - begin > std::chrono::seconds(30); };
  while (!steps.empty() && steps.back() != failed) steps.pop_back();
  for (std::size_t length = (steps.size() + 1) / 2; length > 0; length /= 2)
    for (std::size_t at = 0; at < steps.size() && !enough();) {
      StepList fewer(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t end = std::min(at + length, steps.size());
      fewer.insert(fewer.end(), steps.begin() + static_cast<std::ptrdiff_t>(end), steps.end());
      if (!fewer.empty() && live<T>(space, seed, fewer))
        steps = fewer;
      else
        at = end;
    }
  return steps;
}

template <class T>
void expect_a_good_life(std::string_view space, std::uint64_t seed, const StepList& steps,
                        Counts* counts = nullptr) {
  const auto failure = live<T>(space, seed, steps, counts);
  if (!failure) return;
  std::string text =
      fmt::format("seed {}, step {}: {}\nThe last steps:\n", seed, failure->step, failure->text);
  const std::size_t shown = std::min<std::size_t>(failure->notes.size(), 12);
  for (std::size_t i = failure->notes.size() - shown; i < failure->notes.size(); ++i)
    text += fmt::format("  {}\n", failure->notes[i]);
  const StepList fewer = shrunk<T>(space, seed, steps, failure->step);
  if (const auto again = live<T>(space, seed, fewer)) {
    text += fmt::format("Fewer steps fail, too: {}\n", again->text);
    for (const std::string& note : again->notes) text += fmt::format("  {}\n", note);
  } else {
    text += "The same steps did not fail again, so time plays a part.\n";
  }
  ADD_FAILURE() << text << "Repeat it with PROTEAN_LIFE_SEED=" << seed
                << " PROTEAN_LIFE_STEPS=" << list(fewer);
}

bool skipped(std::string_view space) { return space == "device" && !test_context(Space::device); }

struct Case {
  const char* space;
  bool single;
};

class Life : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (skipped(GetParam().space)) GTEST_SKIP() << no_device;
  }
  void expect_a_good_life_of(std::uint64_t seed, const StepList& steps, Counts* counts = nullptr) {
    if (GetParam().single)
      expect_a_good_life<float>(GetParam().space, seed, steps, counts);
    else
      expect_a_good_life<double>(GetParam().space, seed, steps, counts);
  }
};

TEST_P(Life, KeptObjectsAgreeWithFreshOnes) {
  const char* const seed = std::getenv("PROTEAN_LIFE_SEED");
  const char* const steps = std::getenv("PROTEAN_LIFE_STEPS");
  std::vector<std::uint64_t> seeds = {1, 2, 3, 4, 5, 6};
  if (seed) seeds = {std::stoull(seed)};
  const std::size_t before = allocated_bytes();
  Counts counts;
  for (const std::uint64_t one : seeds) {
    expect_a_good_life_of(one, steps ? parse_steps(steps) : first_steps(100), &counts);
    if (HasFailure()) return;
  }
  // Systems that are still cached hold memory of the host.
  forget_numbers<float>(), forget_numbers<double>();
  EXPECT_EQ(allocated_bytes(), before) << "memory is still held";
  for (const auto& [name, count] : counts) RecordProperty(name, std::to_string(count));
  if (seed || steps) return;
  for (const char* name :
       {"converged", "interrupted", "exceptions of the observer", "exceptions of a callback",
        "solves ended by an allocation that failed", "new values in a solve",
        "changes of format by a schedule", "changes of format built beside the solve",
        "changes of format by an AutoSwitcher", "pairs of solves in two threads"})
    EXPECT_GT(counts[name], 0) << "the steps do not reach this: " << name;
}

INSTANTIATE_TEST_SUITE_P(Spaces, Life,
                         testing::Values(Case{"host", false}, Case{"host", true}, Case{"simulated", false},
                                         Case{"simulated", true}, Case{"device", false},
                                         Case{"device", true}),
                         [](const auto& one) {
                           return std::string(one.param.space) + (one.param.single ? "_float" : "_double");
                         });

}  // namespace
}  // namespace protean::test::life
