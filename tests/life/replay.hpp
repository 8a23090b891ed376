// Runs random steps by seed, finds the fewest that still fail, and prints how to repeat them. Environment:
//
//   PROTEAN_LIFE_SEED=7         that seed instead of the usual ones
//   PROTEAN_LIFE_STEPS=5000     this many steps of each seed, or
//   PROTEAN_LIFE_STEPS=3,14-20  these steps alone
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace protean::test::life {

using StepList = std::vector<int>;

// "500" are the first 500 steps, "3,14-20" eight steps by number.
StepList parse_steps(const std::string& text);

struct Failure {
  int step = 0;
  std::string text;
  std::vector<std::string> notes;  // what was done, the failing step last
};

// A new world from the seed that goes through these steps.
using Life = std::function<std::optional<Failure>(std::uint64_t seed, const StepList& steps)>;

// The steps on one world; step(number) returns what is wrong, or nothing.
template <class World, class Step>
std::optional<Failure> live(World& world, const StepList& steps, Step&& step) {
  for (const int number : steps) {
    std::string text;
    try {
      text = step(number);
    } catch (const std::exception& error) { text = fmt::format("an unexpected exception: {}", error.what()); }
    if (!text.empty()) return Failure{number, text, world.notes()};
  }
  return {};
}

// Fails the running test for the first seed whose life fails. The environment overrides seeds and count.
void expect_good_lives(std::vector<std::uint64_t> seeds, int count, const Life& life);
// The same for these steps of one seed, whatever the environment says.
void expect_a_good_life(std::uint64_t seed, const StepList& steps, const Life& life);
// True if the environment names seeds or steps.
bool chosen_by_environment();

}  // namespace protean::test::life
