#include "life/replay.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <sstream>

namespace protean::test::life {
namespace {

constexpr const char *seed_variable = "PROTEAN_LIFE_SEED", *steps_variable = "PROTEAN_LIFE_STEPS";

StepList first_steps(int count) {
  StepList steps(static_cast<std::size_t>(count));
  std::iota(steps.begin(), steps.end(), 0);
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

// Fewer steps that still fail: drops stretches of them, ever shorter ones, for at most half a minute.
StepList shrunk(const Life& life, std::uint64_t seed, StepList steps, int failed) {
  const auto begin = std::chrono::steady_clock::now();
  const auto enough = [&] { return std::chrono::steady_clock::now() - begin > std::chrono::seconds(30); };
  while (!steps.empty() && steps.back() != failed) steps.pop_back();
  for (std::size_t length = (steps.size() + 1) / 2; length > 0; length /= 2)
    for (std::size_t at = 0; at < steps.size() && !enough();) {
      const std::size_t end = std::min(at + length, steps.size());
      StepList fewer(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(at));
      fewer.insert(fewer.end(), steps.begin() + static_cast<std::ptrdiff_t>(end), steps.end());
      if (!fewer.empty() && life(seed, fewer))
        steps = fewer;
      else
        at = end;
    }
  return steps;
}

}  // namespace

StepList parse_steps(const std::string& text) {
  if (text.find_first_of(",-") == std::string::npos) return first_steps(std::stoi(text));
  StepList steps;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = std::stoi(part);
    const int last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
    for (int i = first; i <= last; ++i) steps.push_back(i);
  }
  return steps;
}

void expect_a_good_life(std::uint64_t seed, const StepList& steps, const Life& life) {
  const auto failure = life(seed, steps);
  if (!failure) return;
  std::string text =
      fmt::format("seed {}, step {}: {}\nThe last steps:\n", seed, failure->step, failure->text);
  const std::size_t shown = std::min<std::size_t>(failure->notes.size(), 12);
  for (std::size_t i = failure->notes.size() - shown; i < failure->notes.size(); ++i)
    text += fmt::format("  {}\n", failure->notes[i]);
  const StepList fewer = shrunk(life, seed, steps, failure->step);
  if (const auto again = life(seed, fewer)) {
    text += fmt::format("The fewest steps found that fail: {}\n", again->text);
    for (const std::string& note : again->notes) text += fmt::format("  {}\n", note);
  } else {
    text += "The same steps did not fail again, so time plays a part.\n";
  }
  ADD_FAILURE() << text << "Repeat it with " << seed_variable << '=' << seed << ' ' << steps_variable << '='
                << list(fewer);
}

void expect_good_lives(std::vector<std::uint64_t> seeds, int count, const Life& life) {
  const char* const seed = std::getenv(seed_variable);
  const char* const steps = std::getenv(steps_variable);
  if (seed) seeds = {std::stoull(seed)};
  for (const std::uint64_t one : seeds) {
    expect_a_good_life(one, steps ? parse_steps(steps) : first_steps(count), life);
    if (testing::Test::HasFailure()) return;
  }
}

bool chosen_by_environment() { return std::getenv(seed_variable) || std::getenv(steps_variable); }

}  // namespace protean::test::life
