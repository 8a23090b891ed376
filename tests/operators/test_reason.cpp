// The texts of the reasons of the policy.
#include "operators/policy/reason.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace protean::test {
namespace {

// Each reason has a text of its own, in which its numbers and names are; numbers alone do not make another reason.
TEST(Reasons, HaveEachATextOfTheirOwn) {
  EXPECT_EQ(text_of({}), "");
  std::set<std::string> texts;
  int named = 0, others = 0, numbered = 0;
  for (int r = 1; r <= static_cast<int>(Reason::solve_ended); ++r) {
    Why why{.reason = static_cast<Reason>(r), .name = "NAME", .other = "OTHER SAID SO"};
    const std::string text = text_of(why);
    EXPECT_GT(text.size(), 12u) << r;
    EXPECT_TRUE(texts.insert(text).second || why.reason == Reason::change_failed) << r << ": " << text;
    EXPECT_EQ(text.find_first_of("{}"), std::string::npos) << text;
    named += text.find("NAME") != std::string::npos,
        others += text.find("OTHER SAID SO") != std::string::npos;
    Why again = why;
    again.gain_seconds = 0.25, again.cost_seconds = 0.5, again.allowed_seconds = 0.75, again.iterations = 31;
    again.more_iterations = 37, again.share = 0.41, again.least_share = 0.43, again.count = 47;
    EXPECT_TRUE(same_but_for_numbers(why, again));
    numbered += text_of(again) != text;
    again.name = "ANOTHER";
    EXPECT_FALSE(same_but_for_numbers(why, again));
    again = why, again.reason = why.reason == Reason::ready ? Reason::building : Reason::ready;
    EXPECT_FALSE(same_but_for_numbers(why, again));
  }
  EXPECT_EQ(named, 17);
  EXPECT_EQ(others, 11);
  EXPECT_EQ(numbered, 15);
  EXPECT_EQ(
      text_of({.reason = Reason::does_not_pay,
               .name = "dia",
               .gain_seconds = 0.25,
               .cost_seconds = 2e-3,
               .iterations = 31,
               .more_iterations = 7}),
      "dia would save 250 ms an iteration and cost 2 ms: that pays after 31 iterations, and about 7 remain");
  EXPECT_EQ(
      text_of({.reason = Reason::order_small_gain, .other = "lines", .share = 0.021, .least_share = 0.03}),
      "the order of the rows stays: lines, so a product of csr would save 2.1 % of its time; at least 3 % "
      "are wanted");
  EXPECT_EQ(
      text_of({.reason = Reason::beyond_account,
               .name = "dia",
               .cost_seconds = 2e-3,
               .record_seconds = 1e-3,
               .allowed_seconds = 1e-4}),
      "dia may cost 2 ms (1 ms of it to record the steps anew); the account allows 100 us so far, and the "
      "forecast does not justify more");
  EXPECT_EQ(
      text_of({.reason = Reason::beyond_account,
               .name = "dia",
               .cost_seconds = 1e-2,
               .load_seconds = 8e-3,
               .allowed_seconds = 1e-4}),
      "dia may cost 10 ms (8 ms of it to load kernels for the first time); the account allows 100 us so "
      "far, and the forecast does not justify more");
  EXPECT_EQ(
      text_of({.reason = Reason::beyond_account,
               .name = "dia",
               .cost_seconds = 1e-2,
               .record_seconds = 1e-3,
               .load_seconds = 8e-3,
               .allowed_seconds = 1e-4}),
      "dia may cost 10 ms (1 ms of it to record the steps anew, 8 ms to load kernels for the first time); "
      "the account allows 100 us so far, and the forecast does not justify more");
  EXPECT_EQ(text_of({.reason = Reason::small_gain, .least_share = 0.7}),
            "no format is expected to be faster by 70 % of an iteration");
}

}  // namespace
}  // namespace protean::test
