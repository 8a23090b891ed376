// The rule behind preconditioner auto, with given numbers in the place of measured ones.
#include <functional>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/transfer.hpp"
#include "gtest/gtest.h"
#include "preconditioners/choice/choice.hpp"
#include "preconditioners/choice/chosen.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"

namespace protean::test {
namespace {

using detail::ChoiceCandidate;
using detail::ChoiceSituation;
using detail::ChoiceTraits;
using detail::PreconditionerChoice;

// A program that solves again and again; an iteration of jacobi takes 1 ms.
struct Program {
  explicit Program(ChoiceSituation situation) : choice(situation) {}
  ChoiceTraits traits{.symmetric = true, .diffusion = true};
  double jacobi = 150;  // iterations
  // Of the others: the time of a setup and of a solve, in solves of jacobi.
  std::function<double(const std::string&)> setup = [](const std::string&) { return 1.0; },
                                            solve = [](const std::string&) { return 0.3; };
  bool jacobi_converges = true, others_converge = true;
  PreconditionerChoice choice;
  std::string last = "jacobi";
  std::vector<std::string> used;
  double seconds = 0;  // of all solves and setups

  void step() {
    const std::string id(choice.decide([&] { return traits; }));
    if (id != last) {
      const double took = id == "jacobi" ? 0 : setup(id) * jacobi * 1e-3;
      choice.note_setup(took), seconds += took;
    }
    last = id;
    used.push_back(id);
    const bool own = id == "jacobi";
    const double took = (own ? 1 : solve(id)) * jacobi * 1e-3;
    seconds += took;
    choice.note_solve(static_cast<std::int64_t>(own ? jacobi : 20), took,
                      own ? jacobi_converges : others_converge);
  }
  double of_jacobi() const { return static_cast<double>(used.size()) * jacobi * 1e-3; }
  std::size_t first(const std::string& id) const {
    return static_cast<std::size_t>(std::find(used.begin(), used.end(), id) - used.begin());
  }
};

TEST(Choice, BeginsWithJacobiAndStaysForShortSolves) {
  Program program({.needs_symmetric = true});
  program.jacobi = 60;
  program.traits = {.symmetric = false, .diffusion = true};  // amg alone, in at least 90 iterations of jacobi
  for (int step = 0; step < 300; ++step) {
    program.step();
    ASSERT_EQ(program.used.back(), "jacobi") << step;
  }
  EXPECT_SAYS(program.choice.reason(), "no candidate is predicted to pay");
}

TEST(Choice, TriesAndKeepsWhatIsFaster) {
  Program program({.needs_symmetric = true});
  program.traits = {.symmetric = false, .diffusion = true};
  for (int step = 0; step < 50; ++step) program.step();
  const std::size_t at = program.first("amg");
  ASSERT_LT(at, 25u) << program.choice.reason();
  ASSERT_GE(at, 2u);
  for (std::size_t step = at; step < 50; ++step) EXPECT_EQ(program.used[step], "amg");
  EXPECT_LT(program.seconds, program.of_jacobi() / 1.5);
  EXPECT_SAYS(program.choice.reason(), "amg: it takes 45 ms a solve with its later setups");
}

// With the number of solves the budget is known, so it tries sooner.
TEST(Choice, ExpectedSolvesLetItTrySooner) {
  Program told({.needs_symmetric = true, .expected = 50}), untold({.needs_symmetric = true});
  for (int step = 0; step < 50; ++step) told.step(), untold.step();
  EXPECT_LT(told.first("amg"), untold.first("amg"));
  EXPECT_EQ(told.first("amg"), 1u) << "when jacobi's iterations are known";
  // With the iterations, too, at once.
  Program both({.needs_symmetric = true, .expected = 50, .iterations = 150});
  both.step();
  EXPECT_EQ(both.used[0], "amg");
}

// One application is measured after the setup. One that is too slow costs its setup, and no solve.
TEST(Choice, AnApplicationThatIsTooSlowCostsNoSolve) {
  constexpr double unit = 1e-3, jacobi = 150;
  const auto symmetric = [] { return ChoiceTraits{.symmetric = true, .diffusion = false}; };
  // Until ic0 is tried, whose applications take this many iterations of jacobi.
  const auto tried = [&](double application, PreconditionerChoice& choice) {
    for (int step = 0; step < 100; ++step) {
      if (choice.decide(symmetric) == "ic0") {
        EXPECT_FALSE(choice.on_trial());
        choice.note_setup(40 * unit);
        EXPECT_TRUE(choice.on_trial());
        choice.note_application(application * unit, 2 * application * unit);
        return;
      }
      EXPECT_FALSE(choice.on_trial());
      choice.note_solve(static_cast<std::int64_t>(jacobi), jacobi * unit, true);
    }
    FAIL() << "ic0 was never tried";
  };
  PreconditionerChoice slow({.needs_symmetric = true}), fast({.needs_symmetric = true});
  tried(3.5, slow), tried(1.5, fast);
  EXPECT_EQ(fast.current(), "ic0");
  EXPECT_EQ(slow.current(), "jacobi");
  EXPECT_SAYS(slow.reason(), "one application of ic0 takes as long as 3.5 iterations of jacobi");
  for (int step = 0; step < 100; ++step) {
    EXPECT_EQ(slow.decide(symmetric), "jacobi") << "not a second time";
    slow.note_solve(static_cast<std::int64_t>(jacobi), jacobi * unit, true);
  }
  // If jacobi does not solve the system, nothing is too slow.
  PreconditionerChoice needed({.needs_symmetric = true});
  needed.note_solve(1000, 1, false);
  EXPECT_EQ(needed.decide(symmetric), "ic0");
  needed.note_setup(0.04), needed.note_application(1, 2);
  EXPECT_EQ(needed.current(), "ic0");
}

// An elastic body is no diffusion problem; its rigid body modes make amg a candidate.
TEST(Choice, NearNullSpaceMakesMultigridACandidate) {
  for (const bool given : {false, true}) {
    PreconditionerChoice choice(
        {.needs_symmetric = true, .expected = 50, .iterations = 400, .near_null_space = given});
    EXPECT_EQ(choice.decide([] { return ChoiceTraits{.symmetric = false, .diffusion = false}; }),
              given ? "amg" : "jacobi");
  }
}

// What is slower than jacobi is used once, and the solves together lose at most 10 %.
TEST(Choice, GoesBackAndLosesLittle) {
  for (const double slow : {1.01, 1.1, 1.25})
    for (const std::int64_t expected : {0, 40, 200}) {
      Program program({.needs_symmetric = true, .expected = expected});
      program.solve = [&](const std::string&) { return slow; };
      program.setup = [](const std::string& id) { return id == "amg" ? 1.3 : 0.25; };
      for (int step = 0; step < 200; ++step) {
        program.step();
        if (expected == 0) { EXPECT_LE(program.seconds, 1.1 * program.of_jacobi() + 1e-12) << step; }
      }
      int others = 0;
      for (const std::string& id : program.used) others += id != "jacobi";
      EXPECT_GT(others, 0) << "it never tried, so this shows nothing";
      EXPECT_LE(others, 2) << "each of amg and ic0 once";
      EXPECT_LE(program.seconds, 1.1 * program.of_jacobi());
    }
}

// ic0 may be tried early, and amg when it has gained what that risks; the worse one of the two is left.
TEST(Choice, AStrongerOneFollows) {
  for (const double with_amg : {0.2, 0.9}) {
    Program program({.needs_symmetric = true});
    program.jacobi = 400;
    program.solve = [&](const std::string& id) { return id == "amg" ? with_amg : 0.6; };
    program.setup = [](const std::string& id) { return id == "amg" ? 0.5 : 0.1; };
    for (int step = 0; step < 80; ++step) program.step();
    EXPECT_LT(program.first("ic0"), program.first("amg"));
    EXPECT_LT(program.first("amg"), 80u);
    EXPECT_EQ(program.used.back(), with_amg < 0.6 ? "amg" : "ic0") << program.choice.reason();
    EXPECT_LT(program.seconds, 0.8 * program.of_jacobi());
  }
}

TEST(Choice, MatrixAndMethodDecideWhatIsTried) {
  const auto tried = [](ChoiceSituation situation, ChoiceTraits traits) {
    Program program(situation);
    program.traits = traits, program.jacobi = 2000;
    program.solve = [](const std::string&) { return 1.1; };
    program.setup = [](const std::string&) { return 0.01; };
    std::vector<std::string> ids;
    for (int step = 0; step < 400; ++step) {
      program.step();
      if (program.used.back() != "jacobi") ids.push_back(program.used.back());
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  using Ids = std::vector<std::string>;
  for (const Space space : {Space::host, Space::device}) {
    const auto on_host = [&](Ids factors, Ids others) {
      if (space == Space::device) factors.clear();
      others.insert(others.end(), factors.begin(), factors.end());
      return others;
    };
    EXPECT_EQ(tried({.space = space, .needs_symmetric = true}, {.symmetric = true, .diffusion = true}),
              on_host({"ic0"}, {"amg"}));
    EXPECT_EQ(tried({.space = space, .needs_symmetric = true}, {.symmetric = true}), on_host({"ic0"}, {}));
    EXPECT_EQ(tried({.space = space, .needs_symmetric = false}, {.symmetric = false}), on_host({"ilu0"}, {}));
    EXPECT_EQ(tried({.space = space, .needs_symmetric = false}, {.diffusion = true}),
              on_host({"ilu0"}, {"amg"}));
    EXPECT_EQ(tried({.space = space}, {.entries = false}), Ids{}) << "an operator without entries";
    EXPECT_EQ(tried({.space = space, .needs_symmetric = true, .deterministic = true},
                    {.symmetric = true, .diffusion = true}),
              Ids{});
  }
}

TEST(Choice, ARefusedOneAndOneThatDoesNotConvergeAreLeft) {
  Program program({.needs_symmetric = true});
  program.others_converge = false;
  for (int step = 0; step < 100; ++step) program.step();
  int others = 0;
  for (const std::string& id : program.used) others += id != "jacobi";
  EXPECT_GT(others, 0);
  EXPECT_LE(others, 2);

  PreconditionerChoice choice({.needs_symmetric = true, .expected = 1000, .iterations = 1000});
  const auto diffusion = [] { return ChoiceTraits{.symmetric = true, .diffusion = true}; };
  EXPECT_EQ(choice.decide(diffusion), "amg");
  choice.refuse("it has a hole");
  EXPECT_EQ(choice.current(), "jacobi");
  EXPECT_EQ(choice.reason(), "jacobi: amg was refused: it has a hole");
  EXPECT_EQ(choice.decide(diffusion), "ic0") << "the next one, and amg no more";
}

// If jacobi does not solve the system, nothing can be lost by a trial.
TEST(Choice, AnotherIsTriedAtOnceWhereJacobiFails) {
  Program program({.needs_symmetric = true});
  program.jacobi_converges = false;
  program.step(), program.step();
  EXPECT_EQ(program.used[1], "amg");
  EXPECT_SAYS(program.choice.reason(), "amg");
}

// Every setup after the first counts: one that must be set up for each solve may be too dear.
TEST(Choice, LaterSetupsCount) {
  PreconditionerChoice choice({.needs_symmetric = true, .expected = 1000, .iterations = 1000});
  const auto diffusion = [] { return ChoiceTraits{.symmetric = true, .diffusion = true}; };
  PreconditionerChoice fresh({.needs_symmetric = true});
  (void)fresh.decide(diffusion);
  fresh.note_solve(1000, 1.0, true);  // jacobi: 1 s
  for (int step = 0; fresh.current() == "jacobi" && step < 100; ++step) {
    if (fresh.decide(diffusion) == "jacobi") fresh.note_solve(1000, 1.0, true);
  }
  ASSERT_EQ(fresh.current(), "amg");
  fresh.note_setup(0.8), fresh.note_solve(20, 0.4, true);
  EXPECT_EQ(fresh.current(), "amg");
  fresh.note_setup(1.3), fresh.note_solve(20, 0.4, true);
  EXPECT_EQ(fresh.current(), "jacobi") << "(0.4 + 1.3 + 0.4) / 2 is more than 1";
}

TEST(Choice, TraitsOfMatrices) {
  const Context& host = *test_context();
  const auto of = [&](const CsrMatrix<double>& csr) { return detail::choice_traits<double>(host, csr); };
  const ChoiceTraits poisson = of(generate(test_context(), "poisson-3d", {{"n", 9}}));
  EXPECT_TRUE(poisson.symmetric && poisson.diffusion && poisson.entries);
  const ChoiceTraits elastic = of(generate(test_context(), "elasticity-3d", {{"n", 5}}));
  EXPECT_TRUE(elastic.symmetric);
  EXPECT_FALSE(elastic.diffusion);
  const ChoiceTraits convection = of(sparse(convection_2d(9, 1)));
  EXPECT_FALSE(convection.symmetric);
  EXPECT_TRUE(convection.diffusion);
  Dense negative = poisson_2d(5);
  negative(3, 3) = -4;
  EXPECT_FALSE(of(sparse(negative)).diffusion);
  negative(3, 3) = 0;
  EXPECT_FALSE(of(sparse(negative)).diffusion);
}

// A sample of the rows of a matrix on a device.
TEST(Choice, SampledTraits) {
  const ContextPtr device = fake_device_context();
  const auto of = [&](const CsrMatrix<double>& csr) {
    return detail::sampled_traits<double>(*device, upload(device, csr)).diffusion;
  };
  for (const char* kind : {"poisson-2d", "poisson-3d", "elasticity-3d"})
    for (const double n : {6.0, 24.0}) {  // all rows, and a part of them
      const CsrMatrix<double> csr = generate(test_context(), kind, {{"n", n}});
      EXPECT_EQ(of(csr), detail::choice_traits<double>(*test_context(), csr).diffusion) << kind << ' ' << n;
    }
  Dense negative = poisson_2d(5);
  negative(3, 3) = -4;
  EXPECT_FALSE(of(sparse(negative)));
  EXPECT_TRUE(of(csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{})));
}

// On a device an iteration has a length in seconds, so that small systems stay with jacobi and large ones do not.
TEST(Choice, OnADeviceMultigridIsForLargeSystems) {
  const auto diffusion = [] { return ChoiceTraits{.symmetric = true, .diffusion = true}; };
  const auto ends_with = [&](std::int64_t iterations, double seconds_of_iteration, std::int64_t expected) {
    PreconditionerChoice choice({.space = Space::device, .needs_symmetric = true, .expected = expected});
    for (int step = 0; step < 40; ++step) {
      if (choice.decide(diffusion) == "amg") return step;
      choice.note_solve(iterations, static_cast<double>(iterations) * seconds_of_iteration, true);
    }
    return -1;
  };
  EXPECT_EQ(ends_with(140, 127e-6, 50), 1) << "a million rows, 50 solves";
  const int unknown = ends_with(140, 127e-6, 0);
  EXPECT_GT(unknown, 5);
  EXPECT_LT(unknown, 30);
  EXPECT_EQ(ends_with(140, 6e-6, 50), -1) << "a small system";
  EXPECT_EQ(ends_with(60, 127e-6, 50), -1) << "few iterations";
}

TEST(Choice, EveryCandidateCanBeMade) {
  const auto A = assembled(sparse(poisson_2d(6)));
  for (const ChoiceCandidate& one : detail::choice_candidates()) {
    const auto M = make_preconditioner<double>(one.id, *A);
    EXPECT_EQ(M->symmetric(), one.symmetric) << one.id;
    EXPECT_GT(one.price, 1) << one.id;
    EXPECT_GT(one.least + one.factor, 0) << one.id;
  }
}

// The object: jacobi at first, and what it takes is as if made alone.
TEST(Chosen, IsWhatItTook) {
  const auto A = assembled(sparse(poisson_2d(9)));
  const std::vector<double> r = right_hand_side<double>(81);
  detail::Chosen<double> M(*A, {.zero_diagonal = ZeroDiagonal::one});
  EXPECT_EQ(M.taken(), "jacobi");
  M.ensure(*A);
  EXPECT_EQ(M.inverse_diagonal().size, 81);
  EXPECT_EQ(applied(M, r), applied(*ready<double>("jacobi", *A), r));
  const std::uint64_t version = M.recording().version;
  M.take("ic0", *A);
  M.ensure(*A);
  EXPECT_EQ(M.inverse_diagonal().size, 0);
  EXPECT_NE(M.recording().version, version);
  EXPECT_EQ(applied(M, r), applied(*ready<double>("ic0", *A), r));
  EXPECT_EQ(figure(M, "shift"), 0);
  M.take("ilu0", *A);
  EXPECT_FALSE(M.symmetric());
}

}  // namespace
}  // namespace protean::test
