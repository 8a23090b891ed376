// The ranges of the options of the policy.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "operators/policy/switch_policy.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

TEST(PolicyOptions, NumbersOutOfRangeAreNamed) {
  const auto complaint = [](const PolicyOptions& options) {
    return message_of<BadArgument>([&] { check_policy(options); });
  };
  EXPECT_EQ(complaint({}), "");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  struct Number {
    const char* name;
    double PolicyOptions::*member;
    std::vector<double> bad, good;
  };
  for (const Number& one :
       {Number{"worst_factor", &PolicyOptions::worst_factor, {0.999, 0, -1}, {1, 1000}},
        Number{"forecast_factor", &PolicyOptions::forecast_factor, {0.999, 0, -5}, {1, 1000}},
        Number{"pessimism", &PolicyOptions::pessimism, {-1e-9}, {0, 3}},
        Number{"payback", &PolicyOptions::payback, {-1}, {0, 100}},
        Number{"convert_margin", &PolicyOptions::convert_margin, {0.999, -3}, {1, 10}},
        Number{"hysteresis", &PolicyOptions::hysteresis, {-0.1}, {0, 1}},
        Number{"overlap_slowdown", &PolicyOptions::overlap_slowdown, {-0.1}, {0, 1}},
        Number{"overlap_stretch", &PolicyOptions::overlap_stretch, {0, -1}, {0.5, 8}}}) {
    const auto with = [&](double value) {
      PolicyOptions options;
      options.*one.member = value;
      return complaint(options);
    };
    for (const double value : one.good) EXPECT_EQ(with(value), "") << one.name << ' ' << value;
    std::vector<double> bad = one.bad;
    bad.insert(bad.end(), {std::nan(""), infinity, -infinity});
    for (const double value : bad)
      EXPECT_EQ(with(value).find(std::string(one.name) + " is "), 0U) << one.name << ' ' << value;
  }
  EXPECT_EQ(complaint({.most_switches = 0, .trial_products = 1}), "");
  EXPECT_EQ(complaint({.most_switches = -1}),
            "most_switches is -1; it must be a whole number from 0 to 1000000.");
  EXPECT_EQ(complaint({.trial_products = 0}),
            "trial_products is 0; it must be a whole number from 1 to 1000000.");
}

}  // namespace
}  // namespace protean::test
