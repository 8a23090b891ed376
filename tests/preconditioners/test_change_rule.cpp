// The rule by which preconditioner auto changes in the middle of a solve, with given numbers in the place of measured
// ones.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "preconditioners/choice/change_rule.hpp"
#include "preconditioners/dense_reference.hpp"
#include "solvers/solver.hpp"

namespace protean::test {
namespace {

using detail::ChangeCandidate;
using detail::ChangeOrder;
using detail::ChangeRule;
using detail::ChangeSituation;
using detail::ChangeStep;
using detail::ChoiceTraits;

// What a candidate takes in truth.
struct Truth {
  double setup = 250, application = 5;  // in iterations of jacobi; all applications of an iteration
  double digits = 0.3;                  // each iteration, on average over a cycle of the method
  bool fails = false;
};

// A solve in which an iteration of jacobi takes 1 ms.
struct Course {
  explicit Course(ChangeSituation situation = {}) : rule(situation), products(situation.products) {}
  ChangeRule rule;
  double products;  // and applications in an iteration
  ChoiceTraits traits{.symmetric = true, .diffusion = true};
  std::function<Truth(const std::string&)> truth = [](const std::string&) { return Truth{}; };
  // Digits that jacobi has reached after this many iterations.
  std::function<double(std::int64_t)> jacobi = [](std::int64_t k) { return 0.005 * static_cast<double>(k); };
  std::function<void()> after_each = [] {};
  double unit = 1e-3, look = 4e-3;
  // Digits that a candidate has reached after this many iterations, for one digit an iteration.
  std::function<double(std::int64_t)> shape = [](std::int64_t k) { return static_cast<double>(k); };
  bool becomes_bad = false, bad = false;  // after its trial a candidate reduces the residual no further

  double seconds = 0, digits = 0;
  std::int64_t iterations = 0, of_jacobi = 0;
  std::vector<int> trials;         // their iterations
  std::vector<std::string> story;  // "set up amg", "change to amg", "back from amg" ...

  bool run(double goal = 8, std::int64_t most = 20000) {
    rule.begin_part(seconds);
    std::int64_t part = 0;
    double begin = digits;
    std::int64_t offset = 0;
    std::string used = "jacobi";
    for (; iterations <= most; ++iterations, ++part) {
      if (part > 0 && used == "jacobi") {
        seconds += unit, ++of_jacobi;
        digits = std::max(begin, begin + jacobi(offset + part) - jacobi(offset));
      } else if (part > 0) {
        const Truth t = truth(used);
        seconds += unit * (1 + t.application);
        digits += bad ? 0 : t.digits * (shape(part) - shape(part - 1));
      }
      if (digits >= goal) return true;
      ChangeOrder order = rule.on_iteration(part, std::pow(10.0, -digits), seconds);
      bool another = false;
      for (; order.step != ChangeStep::go_on && !another;
           rule.resume(seconds), order = another ? order : rule.again()) {
        if (order.step == ChangeStep::look) {
          seconds += look, rule.note_traits(traits, look);
        } else if (order.step == ChangeStep::go_back) {
          story.push_back("back from " + used), bad = false;
          rule.note_way_back(), used = "jacobi", offset = of_jacobi, another = true;
        } else {
          another = set_up(order);
          if (another) used = order.candidate->id;
        }
      }
      after_each();
      if (another) rule.begin_part(seconds), part = -1, begin = digits;
    }
    return false;
  }
  bool set_up(const ChangeOrder& order) {
    const std::string id(order.candidate->id);
    const Truth t = truth(id);
    story.push_back("set up " + id);
    const double setup = t.setup * unit;
    if (t.fails || setup > order.limit) {
      const double took = std::min(setup, order.limit);
      seconds += took;
      rule.note_failure(took, "no", !t.fails);
      return false;
    }
    const double application = t.application * unit / products, all = setup + 2 * application;
    seconds += all;
    if (!rule.note_setup(setup, application, all)) return false;
    const double trial = rule.iterations_of_trial() * unit * (1 + t.application);
    seconds += trial;
    story.push_back("trial of " + id);
    trials.push_back(rule.iterations_of_trial());
    if (!rule.note_trial(shape(trials.back()) * t.digits * std::log(10.0), trial, trial)) return false;
    story.push_back("change to " + id);
    if (becomes_bad) bad = true;
    rule.note_change();
    return true;
  }
  bool did(const std::string& what) const {
    return std::find(story.begin(), story.end(), what) != story.end();
  }
};

TEST(ChangeRule, AShortSolveIsNotEvenLookedAt) {
  Course course({.needs_symmetric = true});
  course.jacobi = [](std::int64_t k) { return 0.08 * static_cast<double>(k); };  // 100 iterations
  EXPECT_TRUE(course.run());
  EXPECT_TRUE(course.story.empty());
  EXPECT_EQ(course.rule.spent(), 0);
  EXPECT_FALSE(course.rule.has_traits());
}

TEST(ChangeRule, ALongDiffusionProblemEndsWithAmg) {
  Course course({.needs_symmetric = true});
  course.jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k); };  // 4000 iterations
  EXPECT_TRUE(course.run());
  EXPECT_EQ(course.story, (std::vector<std::string>{"set up amg", "trial of amg", "change to amg"}));
  EXPECT_LT(course.seconds, 0.5 * 4000 * course.unit);
  EXPECT_GT(course.rule.gained(), 0);
  EXPECT_SAYS(course.rule.reason(), "with amg");
}

TEST(ChangeRule, WhatTheMatrixDoesNotSuitIsNotSetUp) {
  for (const bool symmetric : {false, true}) {
    Course course({.needs_symmetric = symmetric});
    course.traits = {.symmetric = false, .diffusion = false};
    course.jacobi = [](std::int64_t k) { return 0.0005 * static_cast<double>(k); };
    (void)course.run();
    EXPECT_FALSE(course.did("set up amg"));
    EXPECT_FALSE(course.did("set up ic0"));
    EXPECT_EQ(course.did("set up ilu0"), !symmetric);
  }
  Course none({.needs_symmetric = true});
  none.traits = {.entries = false};
  none.jacobi = [](std::int64_t k) { return 0.0005 * static_cast<double>(k); };
  (void)none.run();
  EXPECT_TRUE(none.story.empty());
}

// What earlier solves took lets it begin when the first iterations have been measured.
TEST(ChangeRule, ExpectedIterationsLetItBeginAtOnce) {
  const auto jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k); };
  Course told({.needs_symmetric = true, .expected = 4000}), untold({.needs_symmetric = true});
  told.jacobi = untold.jacobi = jacobi;
  EXPECT_TRUE(told.run());
  EXPECT_TRUE(untold.run());
  EXPECT_TRUE(told.did("change to amg"));
  EXPECT_LE(told.of_jacobi, 40);
  EXPECT_GT(untold.of_jacobi, 150);
}

TEST(ChangeRule, WhatDoesNotPassItsTrialChangesNothing) {
  Course course({.needs_symmetric = true});
  course.jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k); };
  course.truth = [](const std::string&) { return Truth{.digits = 0.001}; };
  EXPECT_TRUE(course.run());
  EXPECT_EQ(std::count(course.story.begin(), course.story.end(), "trial of amg"), 1);
  EXPECT_FALSE(course.did("change to amg"));
  EXPECT_EQ(course.of_jacobi, 4000);
  EXPECT_LT(course.seconds, 1.5 * 4000 * course.unit);
}

TEST(ChangeRule, WhatFallsMoreSlowlyThanInItsTrialIsTakenBackOnce) {
  Course course({.needs_symmetric = true});
  course.jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k); };
  course.becomes_bad = true;
  EXPECT_TRUE(course.run());
  EXPECT_EQ(std::count(course.story.begin(), course.story.end(), "change to amg"), 1);
  EXPECT_EQ(std::count(course.story.begin(), course.story.end(), "back from amg"), 1);
  EXPECT_LT(course.seconds, 1.5 * 4000 * course.unit);
}

TEST(ChangeRule, AnApplicationThatIsTooSlowChangesNothing) {
  Course course({.needs_symmetric = true});
  course.jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k); };
  course.truth = [](const std::string&) { return Truth{.setup = 100, .application = 300}; };
  EXPECT_TRUE(course.run());
  EXPECT_TRUE(course.did("set up amg"));
  EXPECT_FALSE(course.did("change to amg"));
  EXPECT_EQ(course.of_jacobi, 4000);
}

// A setup ends when the account is empty, and is tried once more when there is more in it.
TEST(ChangeRule, ASetupThatWasEndedByTheAccountHasASecondTry) {
  Course course({.needs_symmetric = true});
  course.traits = {.symmetric = true, .diffusion = false};
  course.jacobi = [](std::int64_t k) { return 0.001 * static_cast<double>(k); };
  course.truth = [](const std::string&) { return Truth{.setup = 110, .application = 2, .digits = 0.05}; };
  EXPECT_TRUE(course.run());
  EXPECT_EQ(course.story,
            (std::vector<std::string>{"set up ic0", "set up ic0", "trial of ic0", "change to ic0"}));
}

// The residual of idr with s 4 falls at the end of a cycle of five iterations. A trial that ends within the second
// cycle would see five eighths of what the candidate gains.
TEST(ChangeRule, ATrialHasWholeCyclesOfTheMethod) {
  for (const bool becomes_bad : {false, true}) {
    Course course({.needs_symmetric = true, .cycle = 5});
    course.traits.diffusion = false;
    course.jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k / 5 * 5); };
    course.truth = [](const std::string&) { return Truth{.setup = 40, .application = 2, .digits = 0.0075}; };
    course.shape = [](std::int64_t k) { return static_cast<double>(k / 5 * 5); };
    course.becomes_bad = becomes_bad;
    EXPECT_TRUE(course.run());
    ASSERT_FALSE(course.trials.empty());
    for (const int trial : course.trials) EXPECT_EQ(trial % 5, 0) << trial;
    EXPECT_TRUE(course.did("change to ic0")) << course.rule.reason();
    EXPECT_EQ(course.did("back from ic0"), becomes_bad);
  }
}

// After a restart the residual of gmres falls slowly at first. A trial lasts until the end of a long cycle if the
// account pays for it, and is not given up for the price of its rest if the account does not.
TEST(ChangeRule, ATrialLastsToTheEndOfALongCycleIfTheAccountPays) {
  for (const std::int64_t cycle : {16, 60}) {
    Course course({.needs_symmetric = true, .cycle = cycle});
    course.rule.exclude("ic0");
    course.jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k); };
    course.truth = [](const std::string&) { return Truth{.setup = 100, .application = 5, .digits = 0.1}; };
    course.shape = [=](std::int64_t k) {
      const double done = static_cast<double>(k % cycle) / static_cast<double>(cycle);
      return static_cast<double>(cycle) * (static_cast<double>(k / cycle) + std::max(0.0, 4 * done - 3));
    };
    EXPECT_TRUE(course.run());
    ASSERT_EQ(course.trials.size(), 1u);
    EXPECT_EQ(course.trials[0] == 16, cycle == 16) << course.trials[0];
    EXPECT_GE(course.trials[0], 8);
    EXPECT_LT(course.trials[0], 45);
    EXPECT_EQ(course.did("change to amg"), cycle == 16) << course.rule.reason();
  }
}

// Every method says its cycle.
TEST(ChangeRule, MethodsSayTheirCycles) {
  SolverOptions options;
  options.s = 7, options.restart = 23;
  for (const SolverEntry& entry : solvers()) {
    const std::int64_t cycle = entry.id == "idr" ? 8 : entry.id == "gmres" || entry.id == "fgmres" ? 23 : 1;
    EXPECT_EQ(entry.cycle(options), cycle) << entry.id;
  }
}

// Whatever the candidates do, what is spent on them stays within the account: half of the useful time and of what the
// forecast says is left, which is at most 1.5 times the iterations done.
TEST(ChangeRule, RandomSolvesNeverOverdrawTheAccount) {
  std::mt19937 random(7);
  const auto number = [&](double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random);
  };
  int changes = 0, ways_back = 0, failures = 0, looks = 0;
  for (int run = 0; run < 1500; ++run) {
    constexpr std::int64_t cycles[] = {1, 1, 5, 17, 30};
    Course course({.needs_symmetric = number(0, 1) < 0.5, .cycle = cycles[run % 5]});
    course.traits = {.symmetric = number(0, 1) < 0.7, .diffusion = number(0, 1) < 0.5};
    const double all = std::exp(number(std::log(20), std::log(8000))), bend = number(0.3, 3),
                 noise = number(0, 1);
    const double phase = number(0, 7);
    course.jacobi = [=](std::int64_t k) {
      const auto at = static_cast<double>(k);
      return k == 0 ? 0 : 9 * std::pow(at / all, bend) + noise * std::sin(phase + 12.9898 * at);
    };
    Truth truths[3];
    for (Truth& one : truths)
      one = {.setup = std::exp(number(0, 7)),
             .application = std::exp(number(-2, 3)),
             .digits = number(0, 1) < 0.3 ? 0 : std::exp(number(-7, 0)),
             .fails = number(0, 1) < 0.2};
    course.truth = [&](const std::string& id) { return truths[id == "amg" ? 0 : id == "ic0" ? 1 : 2]; };
    course.becomes_bad = number(0, 1) < 0.3;
    double application = 0;
    for (const Truth& one : truths) application = std::max(application, one.application);
    course.after_each = [&] {
      // What ends between two looks, or within a short cycle.
      const double over = 9 * (1 + application) * course.unit + course.look;
      ASSERT_LE(course.rule.spent(), 1.25 * course.rule.useful() + over) << "run " << run;
    };
    (void)course.run();
    if (HasFatalFailure()) return;
    changes += course.did("change to amg") + course.did("change to ic0") + course.did("change to ilu0");
    ways_back += course.did("back from amg") + course.did("back from ic0") + course.did("back from ilu0");
    failures += static_cast<int>(course.story.size()) > 2;
    looks += course.rule.has_traits();
  }
  // The sequences have reached all of it.
  EXPECT_GT(changes, 100);
  EXPECT_GT(ways_back, 30);
  EXPECT_GT(failures, 30);
  EXPECT_GT(looks, changes / 3);
}

// An iteration of bicgstab has two products and two applications. A solve whose iterations are twice as long and half
// as many is judged as one of cg is: what passes there passes here, and an M that is too slow for the one is too slow
// for the other.
TEST(ChangeRule, AnIterationMayHaveSeveralProducts) {
  for (const bool deterministic : {false, true})
    for (const double application : {2.0, 12.0, 300.0}) {
      SCOPED_TRACE(application);
      std::vector<std::string> of_one;
      double seconds_of_one = 0;
      for (const double products : {1.0, 2.0, 4.0}) {
        Course course({.needs_symmetric = true, .deterministic = deterministic, .products = products});
        course.unit = 1e-3 * products;
        course.jacobi = [=](std::int64_t k) { return 0.002 * products * static_cast<double>(k); };
        course.truth = [=](const std::string&) {
          return Truth{.setup = 250 / products, .application = application, .digits = 0.3 * products};
        };
        EXPECT_TRUE(course.run());
        if (products == 1) of_one = course.story, seconds_of_one = course.seconds;
        EXPECT_EQ(course.story, of_one) << products;
        // Looks and trials have a least number of iterations, which are longer here.
        EXPECT_NEAR(course.seconds, seconds_of_one, (products == 4 ? 0.7 : 0.3) * seconds_of_one) << products;
        EXPECT_EQ(course.did("change to amg"), deterministic || application < 100) << course.rule.reason();
        if (!deterministic && course.did("change to amg")) {
          EXPECT_NEAR(course.rule.application(), 1e-3 * application, 1e-12) << "of one M^-1 r";
        }
      }
    }
}

// Residuals of bicgstab go up and down by more than a digit.
TEST(ChangeRule, BumpsOfTheResidualAreNotTakenForProgress) {
  for (const bool good : {true, false}) {
    Course course({.products = 2});
    course.traits = {.symmetric = false, .diffusion = false};
    course.unit = 2e-3;
    course.jacobi = [](std::int64_t k) {
      const auto at = static_cast<double>(k);
      return k == 0 ? 0 : 0.004 * at + 1.2 * std::sin(12.9898 * at);
    };
    course.truth = [=](const std::string&) {
      return Truth{.setup = 20, .application = 1.5, .digits = good ? 0.05 : 0.002};
    };
    EXPECT_TRUE(course.run());
    EXPECT_TRUE(course.did("trial of ilu0")) << course.rule.reason();
    EXPECT_EQ(course.did("change to ilu0"), good) << course.rule.reason();
    EXPECT_LT(course.seconds, 1.3 * 2000 * course.unit);
  }
}

// A residual that does not fall says that many iterations are left: the account need not wait until a trial is a tenth
// of them. What is tried in vain stays within the bound of a change by a forecast.
TEST(ChangeRule, AResidualThatDoesNotFallIsAForecast) {
  for (const bool good : {true, false}) {
    Course course({.deterministic = true, .products = 2});
    course.traits = {.symmetric = false, .diffusion = false};
    course.jacobi = [](std::int64_t k) { return k < 2000 ? 0 : 0.05 * static_cast<double>(k - 2000); };
    course.truth = [=](const std::string&) {
      return Truth{.setup = 20, .application = 1.5, .digits = good ? 0.5 : 0};
    };
    EXPECT_TRUE(course.run());
    EXPECT_TRUE(course.did("trial of ilu0")) << course.rule.reason();
    EXPECT_EQ(course.did("change to ilu0"), good) << course.rule.reason();
    if (good) {
      EXPECT_LT(course.of_jacobi, 200);
    } else {
      EXPECT_LT(course.seconds, 1.1 * 2160 * course.unit);
    }
  }
}

// In deterministic mode the clock of the machine decides nothing.
TEST(ChangeRule, DeterministicModeDecidesByCounts) {
  const auto story = [](double unit, double setup) {
    Course course({.needs_symmetric = true, .deterministic = true});
    course.unit = unit;
    course.jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k); };
    course.truth = [=](const std::string&) { return Truth{.setup = setup, .application = setup}; };
    EXPECT_TRUE(course.run());
    // What is shown was measured.
    EXPECT_EQ(course.rule.setup_seconds(), setup * unit);
    EXPECT_EQ(course.rule.application(), setup * unit);
    EXPECT_EQ(course.rule.gained(), 0);
    return std::pair(course.story, course.of_jacobi);
  };
  const auto expected = story(1e-3, 250);
  EXPECT_EQ(expected.first, (std::vector<std::string>{"set up amg", "trial of amg", "change to amg"}));
  EXPECT_EQ(story(5, 1), expected);
  EXPECT_EQ(story(1e-9, 1e9), expected);
  EXPECT_EQ(story(0, 0), expected);
}

// Relative residuals of cg for poisson-2d with n 1200 and b = A x of a random x: each twelfth of 1,684 iterations.
constexpr double of_a_grid[] = {
    1,        0.00314,  0.000622, 0.000232, 0.000116, 6.66e-05, 4.33e-05, 3e-05,    2.16e-05, 1.61e-05,
    1.25e-05, 9.87e-06, 7.93e-06, 6.4e-06,  5.3e-06,  4.4e-06,  3.68e-06, 3.06e-06, 2.62e-06, 2.27e-06,
    2.04e-06, 1.82e-06, 1.62e-06, 1.44e-06, 1.26e-06, 1.1e-06,  9.75e-07, 8.74e-07, 7.96e-07, 7.15e-07,
    6.59e-07, 6.2e-07,  5.95e-07, 5.71e-07, 5.38e-07, 4.97e-07, 4.68e-07, 4.44e-07, 4.22e-07, 4e-07,
    3.81e-07, 3.59e-07, 3.4e-07,  3.29e-07, 3.15e-07, 2.99e-07, 2.87e-07, 2.76e-07, 2.62e-07, 2.56e-07,
    2.52e-07, 2.44e-07, 2.31e-07, 2.19e-07, 2e-07,    1.9e-07,  1.8e-07,  1.76e-07, 1.65e-07, 1.57e-07,
    1.48e-07, 1.37e-07, 1.27e-07, 1.17e-07, 1.08e-07, 1.02e-07, 9.48e-08, 8.93e-08, 8.29e-08, 7.71e-08,
    7.14e-08, 6.55e-08, 6.02e-08, 5.47e-08, 5.02e-08, 4.73e-08, 4.37e-08, 4.12e-08, 3.95e-08, 3.75e-08,
    3.66e-08, 3.57e-08, 3.47e-08, 3.28e-08, 3.11e-08, 2.95e-08, 2.84e-08, 2.77e-08, 2.77e-08, 2.79e-08,
    2.75e-08, 2.71e-08, 2.64e-08, 2.56e-08, 2.52e-08, 2.45e-08, 2.36e-08, 2.23e-08, 2.17e-08, 2.18e-08,
    2.19e-08, 2.14e-08, 2.09e-08, 2.07e-08, 2.09e-08, 2.16e-08, 2.21e-08, 2.18e-08, 2.19e-08, 2.18e-08,
    2.17e-08, 2.13e-08, 2.06e-08, 2e-08,    1.95e-08, 1.91e-08, 1.89e-08, 1.76e-08, 1.68e-08, 1.61e-08,
    1.55e-08, 1.53e-08, 1.51e-08, 1.46e-08, 1.43e-08, 1.39e-08, 1.32e-08, 1.28e-08, 1.27e-08, 1.24e-08,
    1.22e-08, 1.18e-08, 1.13e-08, 1.11e-08, 1.1e-08,  1.09e-08, 1.07e-08, 1.08e-08, 1.06e-08, 1.03e-08,
    1.01e-08};

// With the times of one H200 (29 November 2026): 68 us an iteration, 20 ms a setup of amg, and 1.13 ms one application,
// with which an iteration reduces the residual by 0.4 digits. The device reports its iterations in bursts.
TEST(ChangeRule, ALongSolveOnADeviceEndsWithAmg) {
  constexpr double unit = 68e-6, setup = 20e-3, application = 1.13e-3, digits = 0.4;
  constexpr std::int64_t apart = 12, all = apart * (std::ssize(of_a_grid) - 1);
  for (const std::int64_t burst : {1, 16}) {
    ChangeRule rule({.space = Space::device, .needs_symmetric = true});
    rule.begin_part(0);
    double waited = 0, at_change = 0;
    std::int64_t changed = 0;
    for (std::int64_t k = 0; k <= all && changed == 0; ++k) {
      const auto before = static_cast<std::size_t>(k / apart),
                 after = std::min<std::size_t>(before + 1, all / apart);
      const double residual = of_a_grid[before] * std::pow(of_a_grid[after] / of_a_grid[before],
                                                           static_cast<double>(k % apart) / apart);
      const double now = waited + unit * static_cast<double>((k + burst - 1) / burst * burst);
      ChangeOrder order = rule.on_iteration(k, residual, now);
      for (; order.step != ChangeStep::go_on && changed == 0; order = rule.again()) {
        if (order.step == ChangeStep::look) {
          rule.note_traits({.diffusion = true}, 2e-3), waited += 2e-3;
          continue;
        }
        ASSERT_EQ(order.step, ChangeStep::set_up);
        ASSERT_EQ(order.candidate->id, "amg");
        EXPECT_GE(order.limit, setup) << "the account ends it before it is ready";
        ASSERT_TRUE(rule.note_setup(setup, application, setup + 2 * application)) << rule.reason();
        const int trial = rule.iterations_of_trial();
        const double took = trial * (unit + application);
        ASSERT_TRUE(rule.note_trial(trial * digits * std::log(10.0), took, took)) << rule.reason();
        const double left = std::max((std::log10(residual) + 8) / digits - trial, 0.0);
        changed = k, at_change = now + setup + 2 * application + took + left * (unit + application);
      }
      rule.resume(now);
    }
    EXPECT_GT(changed, 0) << "stays with jacobi";
    EXPECT_LT(changed, all / 2);
    EXPECT_LT(at_change, 0.75 * unit * static_cast<double>(all));
  }
}

// poisson-3d with n 150 takes 362 iterations of 248 us there, and amg 95 ms with its setup.
TEST(ChangeRule, ASolveOnADeviceThatIsAsLongAsASetupStays) {
  ChangeRule rule({.space = Space::device, .needs_symmetric = true});
  rule.begin_part(0);
  for (std::int64_t k = 0; k <= 362; ++k) {
    const double now = 248e-6 * static_cast<double>(k);
    ChangeOrder order = rule.on_iteration(k, std::pow(10, -8 * static_cast<double>(k) / 362), now);
    for (; order.step == ChangeStep::look; order = rule.again()) rule.note_traits({.diffusion = true}, 2e-3);
    ASSERT_EQ(order.step, ChangeStep::go_on) << k;
    rule.resume(now);
  }
}

TEST(ChangeRule, WhatIsExcludedIsNotTried) {
  Course course({.needs_symmetric = true});
  course.jacobi = [](std::int64_t k) { return 0.002 * static_cast<double>(k); };
  course.rule.exclude("amg"), course.rule.exclude("ic0");
  EXPECT_TRUE(course.run());
  EXPECT_TRUE(course.story.empty());
}

}  // namespace
}  // namespace protean::test
