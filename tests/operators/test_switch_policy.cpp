// The policy: single decisions and their reasons.
#include "operators/policy/switch_policy.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace protean::test {
namespace {

// csr with a product of 1 s and a format that takes 0.7 s and 10 s to build.
struct Situation {
  std::array<SwitchCandidate, 2> candidates;
  PolicyState state;
  PolicyOptions options;
  Situation() {
    candidates[0].name = "csr", candidates[0].product_seconds = 1, candidates[0].measured = true;
    candidates[1].name = "dia", candidates[1].product_seconds = 0.7, candidates[1].convert_seconds = 10;
    options.overlapped = false;
    state.iteration = 100, state.seconds = state.stay_seconds = 130, state.iteration_seconds = 1.3;
    state.remaining = {500, 1000, 4000, true};
  }
  SwitchDecision decide() {
    state.candidates = candidates;
    return protean::decide(options, state);
  }
};

TEST(SwitchPolicy, ADecisionHasTheTextOfItsReason) {
  Situation s;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.reason, text_of(decision.why));
  EXPECT_EQ(decision.why.reason, Reason::by_forecast);
  EXPECT_GT(decision.why.allowed_seconds, 0);
  EXPECT_LE(decision.why.allowed_seconds, s.state.remaining.low * decision.why.gain_seconds);
  EXPECT_EQ(decision.why.name, "dia");
}

TEST(SwitchPolicy, ALongSolveChangesOnTheForecast) {
  const SwitchDecision decision = Situation().decide();
  EXPECT_EQ(decision.action, SwitchAction::begin);
  EXPECT_EQ(decision.candidate, 1U);
  EXPECT_EQ(decision.granted, 1.5);
  EXPECT_NEAR(decision.gain_seconds, 0.3, 1e-12);
  EXPECT_NEAR(decision.cost_seconds, 11.7, 1e-12);  // and two products of the check
  EXPECT_NE(decision.reason.find("500 iterations remain"), std::string::npos) << decision.reason;
}

// A format with values in float, whose product takes 0.5 s, and which needs more iterations: 1.1 times, before it has
// been measured.
struct InFloat : Situation {
  InFloat() {
    candidates[1].name = "dia in float", candidates[1].product_seconds = 0.5;
    candidates[1].stretch = 1.1, candidates[1].stretch_uncertainty = 0.1;
    state.trial_iterations = 30;
  }
  // It is the present one, and has been measured.
  SwitchDecision in_it(double stretch) {
    candidates[1].measured = true, candidates[1].stretch = stretch, candidates[1].stretch_uncertainty = 0;
    state.current = 1, state.switches = 1, state.iteration_seconds = 0.8;
    return decide();
  }
};

TEST(SwitchPolicy, MoreIterationsInFloatAreAPartOfItsPrice) {
  InFloat s;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::begin);
  // An iteration of 1.3 s becomes 1.1 of 0.8 s.
  EXPECT_NEAR(decision.gain_seconds, 1.3 - 1.1 * 0.8, 1e-12);
  // 0.3 times a trial of 30 iterations is added to the upper bound, and nothing to the cost.
  Situation plain;
  plain.candidates[1].product_seconds = 0.5;
  const SwitchDecision without = plain.decide();
  EXPECT_NEAR(decision.worst_seconds - without.worst_seconds, 0.3 * 30 * 1.3, 1e-9);
  EXPECT_EQ(decision.cost_seconds, without.cost_seconds);
  // Nothing is gained if as many more iterations are needed as each is shorter.
  s.candidates[1].stretch = 1.3 / 0.8;
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
  // How long a trial takes is not known.
  InFloat unknown;
  unknown.state.trial_iterations = INFINITY;
  EXPECT_EQ(unknown.decide().action, SwitchAction::stay);
}

TEST(SwitchPolicy, FloatIsUndoneIfItCostsMoreIterationsThanItSaves) {
  EXPECT_EQ(InFloat().in_it(1).action, SwitchAction::stay);
  EXPECT_EQ(InFloat().in_it(1.6).action, SwitchAction::stay)
      << "1.6 iterations of 0.8 s are shorter than 1.3 s";
  const SwitchDecision back = InFloat().in_it(1.7);
  EXPECT_EQ(back.action, SwitchAction::go_back);
  EXPECT_EQ(back.candidate, 0U);
  EXPECT_EQ(back.why.reason, Reason::rounding_slows);
  EXPECT_EQ(back.why.share, 1.7);
  EXPECT_NEAR(back.why.least_share, 1.3 / 0.8, 1e-12);
  EXPECT_NEAR(back.gain_seconds, 0.8 - 1.3 / 1.7, 1e-12);
  InFloat late;
  late.state.remaining = {1, 2, 8, true};
  EXPECT_EQ(late.in_it(1.7).action, SwitchAction::stay) << "the way back does not pay any more";
  // As long as it has not been measured, it stays.
  InFloat unknown;
  unknown.candidates[1].measured = true, unknown.candidates[1].stretch = 1.7;
  unknown.state.current = 1, unknown.state.iteration_seconds = 0.8;
  EXPECT_EQ(unknown.decide().action, SwitchAction::stay);
}

// Without any time, also while another format is being built.
TEST(SwitchPolicy, FloatIsUndoneAtOnceIfItDoesHarm) {
  for (const BuildState build : {BuildState::none, BuildState::running}) {
    InFloat jumps;
    jumps.state.jump = 0.02, jumps.state.build = build;
    const SwitchDecision wrong = jumps.in_it(1);
    EXPECT_EQ(wrong.action, SwitchAction::go_back);
    EXPECT_EQ(wrong.why.reason, Reason::rounding_jumps);
    EXPECT_EQ(wrong.why.share, 0.02);
    InFloat left;
    left.state.left_rounding = "stagnation", left.state.build = build;
    const SwitchDecision gone = left.in_it(1);
    EXPECT_EQ(gone.action, SwitchAction::go_back);
    EXPECT_EQ(gone.why.other, "stagnation");
  }
  InFloat little;
  little.state.jump = 1e-3;
  EXPECT_EQ(little.in_it(1).action, SwitchAction::stay);
}

TEST(SwitchPolicy, TheAccountIsEnoughWithoutAForecast) {
  Situation s;
  s.state.remaining = {0, 0, INFINITY, false};
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
  s.state.iteration = 400, s.state.seconds = s.state.stay_seconds = 520;  // 5 % of it: 26 s
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::begin);
  EXPECT_EQ(decision.granted, 1.05);
}

TEST(SwitchPolicy, StaysWhenFewIterationsRemainWhateverTheAccountAllows) {
  Situation s;
  s.state.iteration = 4000, s.state.seconds = s.state.stay_seconds = 5200;
  s.state.remaining = {10, 20, 80, true};
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::stay);
  EXPECT_NE(decision.reason.find("that pays after 39 iterations, and about 20 remain"), std::string::npos)
      << decision.reason;
}

TEST(SwitchPolicy, AGoodForecastDoesNotBeginBeforeTheSecondBoundAllowsIt) {
  Situation s;
  s.state.iteration = 20, s.state.seconds = s.state.stay_seconds = 26;  // half: 13 s
  s.state.remaining = {1e6, 1e6, 1e6, true};
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
}

TEST(SwitchPolicy, SmallGainsAreNotWorthAChange) {
  Situation s;
  s.candidates[1].product_seconds = 0.97;
  s.state.iteration = 100000, s.state.seconds = s.state.stay_seconds = 130000;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::stay);
  EXPECT_NE(decision.reason.find("no format is expected to be faster"), std::string::npos) << decision.reason;
}

// If no change may begin, the reason names a format that would gain and not one that is merely cheap to build.
TEST(SwitchPolicy, TheReasonIsThatOfAFormatThatWouldGain) {
  for (const bool gainful_first : {true, false}) {
    std::array<SwitchCandidate, 3> candidates;
    candidates[0].name = "csr", candidates[0].product_seconds = 1, candidates[0].measured = true;
    SwitchCandidate &gainful = candidates[gainful_first ? 1 : 2], &cheap = candidates[gainful_first ? 2 : 1];
    gainful.name = "dia", gainful.product_seconds = 0.5, gainful.convert_seconds = 100;
    cheap.name = "ell", cheap.product_seconds = 0.99, cheap.convert_seconds = 0.1;
    Situation s;
    s.state.remaining = {5, 10, 40, true}, s.state.candidates = candidates;
    const SwitchDecision decision = decide(s.options, s.state);
    EXPECT_EQ(decision.action, SwitchAction::stay);
    EXPECT_TRUE(decision.reason.starts_with("dia would save 500 ms an iteration and cost"))
        << decision.reason;
  }
}

TEST(SwitchPolicy, RefusedAndLostCandidatesAreLeftAlone) {
  for (const bool lost : {true, false}) {
    Situation s;
    (lost ? s.candidates[1].lost : s.candidates[1].admitted) = lost;
    const SwitchDecision decision = s.decide();
    EXPECT_EQ(decision.action, SwitchAction::stay);
    EXPECT_EQ(decision.reason, "there is no other format to change to");
  }
}

TEST(SwitchPolicy, AtMostSoManySwitches) {
  Situation s;
  s.state.switches = s.options.most_switches;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::stay);
  EXPECT_NE(decision.reason.find("changed 3 times"), std::string::npos) << decision.reason;
}

TEST(SwitchPolicy, TheBestOfSeveralIsTaken) {
  std::array<SwitchCandidate, 4> candidates;
  const double product[] = {1, 0.8, 0.6, 0.55}, convert[] = {0, 4, 10, 400};
  for (std::size_t i = 0; i < 4; ++i)
    candidates[i].name = fmt::format("f{}", i), candidates[i].product_seconds = product[i],
    candidates[i].convert_seconds = convert[i];
  candidates[0].measured = true;
  PolicyState state;
  state.iteration = 1000, state.seconds = state.stay_seconds = 1300, state.iteration_seconds = 1.3;
  state.remaining = {500, 1000, 2000, true}, state.candidates = candidates;
  PolicyOptions options;
  options.overlapped = false;
  EXPECT_EQ(decide(options, state).candidate, 2U);
}

TEST(SwitchPolicy, AnUnmeasuredPresentFormatIsNotJudged) {
  Situation s;
  s.candidates[0].measured = false;
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
}

TEST(SwitchPolicy, GoesBackFromAFormatThatIsSlower) {
  Situation s;
  s.state.current = 1, s.state.switches = 1;
  s.candidates[1].product_seconds = 1.02, s.candidates[1].measured = true;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::go_back);
  EXPECT_EQ(decision.candidate, 0U);
}

TEST(SwitchPolicy, WatchesABuildAndCancelsItWhenItBecomesTooDear) {
  Situation s;
  s.options.overlapped = true;
  s.state.build = BuildState::running, s.state.building = 1, s.state.granted = 1.05;
  s.state.seconds = s.state.stay_seconds + 2;
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
  s.state.seconds = s.state.stay_seconds + 6;  // 5 % are 6.5 s, and the check takes 1.7 s
  EXPECT_EQ(s.decide().action, SwitchAction::cancel);
  s.state.granted = 1.25;
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
  s.state.price = 5, s.state.excess_before = 2;
  EXPECT_EQ(s.decide().action, SwitchAction::stay) << "it has cost 4 of at most 5 s";
  s.state.excess_before = 0;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::cancel);
  EXPECT_NE(decision.reason.find("has cost 6 s; at most 5 s were predicted"), std::string::npos)
      << decision.reason;
  s.state.granted = 1.05, s.state.seconds = s.state.stay_seconds + 3, s.state.price = 2;
  EXPECT_EQ(s.decide().action, SwitchAction::stay)
      << "begun on the account, which allows 6.5 s including the check";
}

// The more pessimistic the predicted product, the more iterations the forecast must promise.
TEST(SwitchPolicy, AnUncertainProductNeedsABetterForecast) {
  Situation s;
  s.candidates[1].uncertainty = 0.2;
  s.state.remaining = {80, 1000, 4000, true};  // they save 24 s as predicted, 18 s at half the uncertainty
  EXPECT_EQ(s.decide().action, SwitchAction::begin);
  s.options.pessimism = 2;  // at twice the uncertainty the format is hardly faster
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
}

// A change pays for its own price in the iterations that the forecast promises, whatever earlier changes have
// saved; time that was lost before must be saved, too.
TEST(SwitchPolicy, OnTheForecastAChangePaysForItselfAndForTimeLostBefore) {
  Situation s;
  const auto begins = [&](double excess, double low) {
    s.state.seconds = s.state.stay_seconds + excess, s.state.remaining = {low, 1000, 4000, true};
    const SwitchDecision decision = s.decide();
    EXPECT_TRUE(decision.action != SwitchAction::begin || decision.granted == s.options.forecast_factor);
    return decision.action == SwitchAction::begin;
  };
  // The price is at most 14.34 s (1.25 x 10 s, and the check), and an iteration saves at least 0.265 s.
  EXPECT_FALSE(begins(0, 54));
  EXPECT_TRUE(begins(0, 55));
  EXPECT_FALSE(begins(-2, 54)) << "what was saved before is not spent";
  EXPECT_TRUE(begins(-2, 55));
  EXPECT_FALSE(begins(2, 61)) << "16.34 s are to be saved";
  EXPECT_TRUE(begins(2, 62));
}

// Check and trial with a product that is slower than predicted by twice its uncertainty, and the way back.
TEST(SwitchPolicy, ThePriceHasATrialTwoUncertaintiesAboveThePrediction) {
  Situation s;
  s.options.trial_products = 8;
  s.candidates[0].convert_seconds = 4;
  for (const double uncertainty : {0.0, 0.1, 0.5, 1.0}) {
    s.candidates[1].uncertainty = uncertainty;
    const double slow = 0.7 * (1 + 2 * uncertainty);
    const double expected = 1.25 * 10 + (1 + slow) + 8 * std::max(0.0, slow - 1) + 1.25 * 4;
    EXPECT_NEAR(s.decide().worst_seconds, expected, 1e-12) << uncertainty;
    EXPECT_NEAR(s.decide().cost_seconds, 11.7, 1e-12) << "what is predicted has no margin";
  }
  // What was measured is certain.
  s.candidates[1].measured = true;
  EXPECT_NEAR(s.decide().worst_seconds, 1.25 * 10 + 1.7 + 1.25 * 4, 1e-12);
}

// The first format is a way back, which the measured products decide, and no format to change to.
TEST(SwitchPolicy, TheFirstFormatIsNoTarget) {
  Situation s;
  s.state.current = 1, s.state.switches = 1, s.candidates[1].measured = true;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::stay);
  EXPECT_EQ(decision.candidate, 1U);
  EXPECT_EQ(decision.reason, "there is no other format to change to");
}

// A change pays after 39 iterations. If the forecast is unknown, as many are expected as have been done.
TEST(SwitchPolicy, WithoutAForecastASolveLastsAsLongAgain) {
  Situation s;
  s.state.seconds = s.state.stay_seconds = 5200;  // the account would allow any change
  s.state.remaining = {0, 0, INFINITY, false};
  s.state.iteration = 38;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::stay);
  EXPECT_NE(decision.reason.find("that pays after 39 iterations, and about 38 remain"), std::string::npos)
      << decision.reason;
  s.state.iteration = 40;
  EXPECT_EQ(s.decide().action, SwitchAction::begin);
}

// The vectors of the solve are permuted at the change, and on the way back from an order that disappoints.
TEST(SwitchPolicy, AChangeOfOrderPermutesTheVectorsThereAndBack) {
  Situation s;
  s.state.permute_seconds = 3;
  const SwitchDecision same = s.decide();
  s.candidates[1].order = "rcm";
  const SwitchDecision other = s.decide();
  EXPECT_NEAR(other.cost_seconds - same.cost_seconds, 3, 1e-12);
  EXPECT_NEAR(other.worst_seconds - same.worst_seconds, 6, 1e-12);
  // From one format to another in the new order: nothing is permuted, but on the way back.
  std::array<SwitchCandidate, 3> candidates{s.candidates[0], s.candidates[1], s.candidates[1]};
  candidates[1].measured = true, candidates[2].product_seconds = 0.4;
  s.state.current = 1, s.state.switches = 1, s.state.candidates = candidates;
  const SwitchDecision there = decide(s.options, s.state);
  for (SwitchCandidate& candidate : candidates) candidate.order = "none";
  const SwitchDecision without = decide(s.options, s.state);
  EXPECT_EQ(there.candidate, 2U);
  EXPECT_NEAR(there.cost_seconds - without.cost_seconds, 0, 1e-12);
  EXPECT_NEAR(there.worst_seconds - without.worst_seconds, 3, 1e-12);
  // What is ready is adopted only if the rest of the solve pays for the permutations.
  s.state.current = 0, s.state.build = BuildState::ready, s.state.building = 1, s.state.granted = 1.25;
  s.state.remaining = {10, 10, 10, true};  // they save 3 s; the comparison of the products takes 1.7
  s.candidates[1].order = "none";
  EXPECT_EQ(s.decide().action, SwitchAction::adopt);
  s.candidates[1].order = "rcm";
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
}

// Steps that are recorded are recorded anew after the change, and after the way back.
TEST(SwitchPolicy, ThePriceHasARecordingThereAndBack) {
  Situation s;
  s.candidates[0].convert_seconds = 4;
  const SwitchDecision without = s.decide();
  s.state.record_seconds = 2;
  const SwitchDecision with = s.decide();
  EXPECT_NEAR(with.cost_seconds - without.cost_seconds, 2, 1e-12);
  EXPECT_NEAR(with.worst_seconds - without.worst_seconds, 4, 1e-12);
  EXPECT_EQ(with.why.reason, Reason::by_forecast);
  EXPECT_NEAR(with.why.cost_seconds, with.worst_seconds, 1e-12);
  EXPECT_NEAR(with.why.record_seconds, 4, 1e-12);
  EXPECT_EQ(without.why.record_seconds, 0);
  EXPECT_EQ(without.reason.find("record"), std::string::npos) << without.reason;
  EXPECT_TRUE(with.reason.ends_with(" (4 s of it to record the steps anew)")) << with.reason;
  // From one format to another, too: on the way back it is the recording of the first format.
  std::array<SwitchCandidate, 3> candidates{s.candidates[0], s.candidates[1], s.candidates[1]};
  candidates[1].measured = true, candidates[2].product_seconds = 0.4;
  s.state.current = 1, s.state.switches = 1, s.state.candidates = candidates;
  const SwitchDecision next = decide(s.options, s.state);
  s.state.record_seconds = 0;
  const SwitchDecision next_without = decide(s.options, s.state);
  EXPECT_EQ(next.candidate, 2U);
  EXPECT_NEAR(next.cost_seconds - next_without.cost_seconds, 2, 1e-12);
  EXPECT_NEAR(next.worst_seconds - next_without.worst_seconds, 4, 1e-12);
}

// Kernels that the driver must load are a part of the conversion, with its margin.
TEST(SwitchPolicy, TheReasonNamesTheLoadingOfKernels) {
  Situation s;
  s.candidates[1].load_seconds = s.candidates[1].convert_seconds / 2;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.why.reason, Reason::by_forecast);
  EXPECT_NEAR(decision.why.load_seconds, s.options.convert_margin * s.candidates[1].convert_seconds / 2,
              1e-12);
  EXPECT_TRUE(decision.reason.ends_with(" of it to load kernels for the first time)")) << decision.reason;
  s.candidates[1].load_seconds = 0;
  EXPECT_EQ(s.decide().reason.find("load"), std::string::npos);
}

// Conversion and check are 14.34 s at most, and an iteration saves at least 0.265 s.
TEST(SwitchPolicy, AGainThatDoesNotPayForTwoRecordingsIsRefused) {
  Situation s;
  const auto decision = [&](double record_seconds, double low) {
    s.state.record_seconds = record_seconds, s.state.remaining = {low, 1000, 4000, true};
    return s.decide();
  };
  EXPECT_EQ(decision(0, 54).action, SwitchAction::stay);
  EXPECT_EQ(decision(0, 55).action, SwitchAction::begin);
  EXPECT_EQ(decision(1, 58).action, SwitchAction::stay) << "they pay for one recording only";
  EXPECT_EQ(decision(1, 61).action, SwitchAction::stay) << "16.34 s are to be saved";
  EXPECT_TRUE(s.decide().reason.starts_with("dia may cost 16.3 s (2 s of it to record the steps anew); "))
      << s.decide().reason;
  EXPECT_EQ(decision(1, 62).action, SwitchAction::begin);
  EXPECT_EQ(decision(0, 61).action, SwitchAction::begin);
}

// Also where the account allows the change: what the likely iterations save is to be more than what it costs.
TEST(SwitchPolicy, ARecordingCountsWhereTheAccountAllowsTheChange) {
  Situation s;
  s.state.seconds = s.state.stay_seconds = 5200;
  s.state.remaining = {20, 42, 160, true};  // they save 12.6 s
  EXPECT_EQ(s.decide().action, SwitchAction::begin) << "for 11.7 s";
  EXPECT_EQ(s.decide().granted, 1.05);
  s.state.record_seconds = 1;
  const SwitchDecision decision = s.decide();
  EXPECT_EQ(decision.action, SwitchAction::stay);
  EXPECT_NE(decision.reason.find("cost 12.7 s (1 s of it to record the steps anew): that pays after 42 "),
            std::string::npos)
      << decision.reason;
  s.state.remaining.likely = 43;
  EXPECT_EQ(s.decide().action, SwitchAction::begin);
  // The account itself.
  s.state.remaining = {0, 0, INFINITY, false};
  s.state.iteration = 400, s.state.seconds = s.state.stay_seconds = 320;  // 5 % of it: 16 s
  EXPECT_EQ(s.decide().action, SwitchAction::stay) << "16.34 s";
  s.state.record_seconds = 0.8;
  EXPECT_EQ(s.decide().action, SwitchAction::begin) << "15.94 s";
}

TEST(SwitchPolicy, ABuildBesideTheSolveLeavesRoomForTheRecordings) {
  Situation s;
  s.options.overlapped = true;
  s.state.build = BuildState::running, s.state.building = 1, s.state.granted = 1.05;
  s.state.seconds = s.state.stay_seconds + 3;  // 5 % are 6.5 s, and the check takes 1.84 s
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
  s.state.record_seconds = 0.8;
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
  s.state.record_seconds = 0.9;
  EXPECT_EQ(s.decide().action, SwitchAction::cancel);
  // What is ready is adopted only if the rest of the solve pays for the recording that follows.
  s.state.build = BuildState::ready, s.state.seconds = s.state.stay_seconds;
  s.state.remaining = {8, 8, 8, true};  // they save 2.4 s; the comparison of the products takes 1.7
  s.state.record_seconds = 0.6;
  EXPECT_EQ(s.decide().action, SwitchAction::adopt);
  s.state.record_seconds = 0.8;
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
}

TEST(SwitchPolicy, AdoptsWhatIsReadyUnlessTheEndIsNear) {
  Situation s;
  s.state.build = BuildState::ready, s.state.building = 1, s.state.granted = 1.25;
  EXPECT_EQ(s.decide().action, SwitchAction::adopt);
  s.state.remaining = {1, 3, 12, true};
  EXPECT_EQ(s.decide().action, SwitchAction::stay);
}

TEST(SwitchPolicy, BesideTheSolveOnlyTheSlowdownIsCharged) {
  Situation s;
  const double waiting = s.decide().cost_seconds;
  s.options.overlapped = true, s.options.overlap_slowdown = 0.15, s.options.overlap_stretch = 1;
  EXPECT_NEAR(s.decide().cost_seconds - 1.7, (waiting - 1.7) * 0.15 / 1.15, 1e-9);
}

TEST(SwitchPolicy, LooksAtGrowingIntervals) {
  std::int64_t k = 8;
  int looks = 0;
  for (; k < 10000; ++looks) {
    EXPECT_GT(detail::next_look(k), k);
    k = detail::next_look(k);
  }
  EXPECT_LT(looks, 70);
}

}  // namespace
}  // namespace protean::test
