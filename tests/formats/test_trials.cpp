// Which formats are tried before a long solve.
#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/choose.hpp"
#include "formats/trials.hpp"
#include "gtest/gtest.h"
#include "operators/policy/builtin_machine.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Prospect = Trials::Prospect;

TEST(Trials, TheMostPromisingFormatComesFirst) {
  // A sure gain, a larger one, one that nobody knows, and a loss.
  Trials trials({{0.9, 10, 0.05}, {0.5, 10, 0.05}, {0.9, 10, 0.8}, {1.5, 10, 0.05}}, 1e5);
  EXPECT_EQ(trials.next(), 1);
  trials.tried(1, 0.6, 10);
  EXPECT_EQ(trials.best(), 1);
  EXPECT_EQ(trials.product(), 0.6);
  // 0.9 for certain is no gain any more, but what is uncertain may be.
  EXPECT_EQ(trials.next(), 2);
  trials.tried(2, 0.4, 10);
  EXPECT_EQ(trials.best(), 2);
  EXPECT_EQ(trials.next(), std::nullopt);
  EXPECT_EQ(trials.count(), 2);
}

TEST(Trials, CsrStaysWhereNothingIsFaster) {
  Trials trials({{0.5, 10, 0.1}, {0.6, 10, 0.1}}, 1e5);
  trials.tried(trials.next().value(), 1.2, 10);
  EXPECT_EQ(trials.best(), std::nullopt);
  trials.tried(trials.next().value(), 0.99, 10);  // within noise
  EXPECT_EQ(trials.best(), std::nullopt);
  EXPECT_EQ(trials.product(), 1);
}

TEST(Trials, ShortSolvesAndDearConversionsAreLeftAlone) {
  EXPECT_EQ(Trials({{0.5, 10, 0.1}}, products_worth_trials - 1).next(), std::nullopt);
  EXPECT_TRUE(Trials({{0.5, 10, 0.1}}, products_worth_trials).next());
  EXPECT_EQ(Trials({{0.5, 0.02 * products_worth_trials, 0.1}}, products_worth_trials).next(), std::nullopt);
  // A conversion that took five times as long as predicted: the next one may, too.
  Trials trials({{0.5, 20, 0.1}, {0.51, 30, 0.5}}, products_worth_trials);
  EXPECT_EQ(trials.next(), 0);
  trials.tried(0, 0.9, 100);
  EXPECT_EQ(trials.next(), std::nullopt);
}

TEST(Trials, WhatIsRefusedOrUnknownIsNotTried) {
  Trials trials({{0, 0, 0}, {0.5, 10, 0.1}, {0.6, 10, 0.1}}, 1e5);
  EXPECT_EQ(trials.next(), 1);
  trials.refused(1);
  EXPECT_EQ(trials.next(), 2);
  trials.refused(2);
  EXPECT_EQ(trials.next(), std::nullopt);
  EXPECT_EQ(Trials({}, 1e5).next(), std::nullopt);
}

// Whatever the formats are like: each is tried once, the fastest of the tried stays, and if conversions take at most
// 2.5 times as long as predicted, all tries together take at most 2 % of the solve.
TEST(Trials, RandomFormatsCostLittle) {
  std::mt19937 random(1);
  const auto between = [&](double a, double b) { return std::uniform_real_distribution(a, b)(random); };
  int tries = 0, gained = 0;
  for (int solve = 0; solve < 20000; ++solve) {
    const double products = std::pow(10, between(2, 7));
    std::vector<Prospect> prospects(1 + random() % 8), truth;
    for (Prospect& one : prospects) {
      one = {std::exp(between(-1.5, 0.5)), std::exp(between(0, 5)), between(0.05, 0.6)};
      truth.push_back(
          {one.product * std::exp(between(-2, 2) * one.uncertainty), one.conversion * between(0.2, 2.5), 0});
    }
    Trials trials(prospects, products);
    double spent = 0, fastest = 1;
    std::set<std::size_t> seen;
    while (const auto which = trials.next()) {
      ASSERT_TRUE(seen.insert(*which).second);
      if (random() % 8 == 0) {
        trials.refused(*which);
        continue;
      }
      const Prospect& one = truth[*which];
      trials.tried(*which, one.product, one.conversion);
      // Measuring is cheap, but not bounded by the prediction of the product.
      spent += one.conversion;
      fastest = std::min(fastest, one.product);
    }
    EXPECT_LE(spent, 0.02 * products);
    EXPECT_LE(trials.count(), 6);
    EXPECT_LE(trials.product(), 1);
    EXPECT_LE(0.97 * trials.product(), fastest);
    EXPECT_EQ(trials.product(), trials.best() ? truth[*trials.best()].product : 1);
    EXPECT_TRUE(products >= products_worth_trials || trials.count() == 0);
    tries += trials.count(), gained += trials.best().has_value();
  }
  EXPECT_GT(tries, 10000);
  EXPECT_GT(gained, 5000);
}

// The long solve measures: what is taken is one of the tried formats or csr, multiplies rightly, and says what it took.
TEST(ChosenMatrix, ForManyIterationsProductsAreMeasured) {
  const MachineTable& machine = builtin_machine(BuiltinHost::avx512);
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 60}});
  const ChoiceOptions many{.expected_iterations = 1000000, .machine = &machine};
  const auto chosen = make_chosen_matrix(csr, test_context(), many);
  EXPECT_NE(chosen.reason.find("products measured, csr 100 %, "), std::string::npos) << chosen.reason;
  EXPECT_EQ(chosen.choice.taken, chosen.matrix->name());
  EXPECT_EQ(chosen.reason.find(chosen.choice.taken + ":"), 0u) << chosen.reason;
  // The wanted format need not be tried: tries end when nothing can be faster than the measured ones.
  EXPECT_NE(chosen.choice.wanted, "csr");
  std::vector<double> x(static_cast<std::size_t>(csr.cols()), 1.25),
      y(static_cast<std::size_t>(csr.rows()), NAN);
  chosen.matrix->apply(VectorView<const double>{x.data(), csr.cols()},
                       VectorView<double>{y.data(), csr.rows()});
  EXPECT_TRUE(product_is_right<double>(csr, 1, x, 0, {}, y));

  // Not if the same bits are asked for, for few iterations, or for several columns, about which one product says
  // little.
  const auto same = Context::host(2, {.deterministic = true});
  for (const std::string& reason :
       {make_chosen_matrix(csr, same, many).reason,
        make_chosen_matrix(csr, test_context(), {.expected_iterations = 500, .machine = &machine}).reason,
        make_chosen_matrix<double>(csr, test_context(), many, nullptr, true).reason})
    EXPECT_EQ(reason.find("measured"), std::string::npos) << reason;
}

// 20 iterations of a small matrix take less time than the look at the formats.
TEST(ChosenMatrix, ForAFewIterationsNothingIsLookedAt) {
  const MachineTable& machine = builtin_machine(BuiltinHost::avx512);
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 60}});
  const auto few = make_chosen_matrix(csr, test_context(), {.expected_iterations = 20, .machine = &machine});
  EXPECT_EQ(few.matrix->name(), "csr");
  EXPECT_EQ(few.reason.find("20 iterations are too few for a look at other formats"), 0u) << few.reason;
  const auto large = generate(test_context(), "poisson-3d", {{"n", 60}});
  const auto more =
      make_chosen_matrix(large, test_context(), {.expected_iterations = 300, .machine = &machine});
  EXPECT_EQ(more.reason.find("too few"), std::string::npos) << more.reason;
  EXPECT_NE(more.matrix->name(), "csr");
  // A table without times of this space is said to be one.
  const MachineTable empty;
  const auto unknown =
      make_chosen_matrix(csr, test_context(), {.expected_iterations = 20, .machine = &empty});
  EXPECT_NE(unknown.reason.find("no measurement"), std::string::npos) << unknown.reason;
}

}  // namespace
}  // namespace protean::test
