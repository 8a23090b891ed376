// Builds of the next storage: failures, memory, cancelling.
#include <chrono>
#include <thread>

#include "adaptive.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "operators/matrix/matrix.hpp"

namespace protean::test {
namespace {

TEST_P(Adaptive, FaultsLeaveTheRunningMatrixUntouched) {
  const auto A = make({.memory_limit = 3 * csr_.bytes()});
  const void* matrix = &A->current();
  std::size_t count = 0;
  struct Fault {
    FormatSpec spec;
    SwitchFailure why;
  };
  FormatSpec bad_parameter = spec("sell-c-sigma"), bad_kernel = spec("csr"), large = spec("ell");
  bad_parameter.params.set("C", 7777777);
  bad_kernel.kernel = "abacus";
  const Fault faults[] = {{spec(refusing_format()), SwitchFailure::refused},
                          {bad_parameter, SwitchFailure::refused},
                          {bad_kernel, SwitchFailure::refused},
                          {{}, SwitchFailure::refused},
                          {spec(rounded_format()), SwitchFailure::refused},
                          {spec(throwing_format()), SwitchFailure::failed},
                          {spec(throwing_a_number_format()), SwitchFailure::failed},
                          {spec(null_format()), SwitchFailure::failed},
                          {spec(wrong_format()), SwitchFailure::wrong_product},
                          {spec(not_a_number_format()), SwitchFailure::wrong_product}};
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.spec.name());
    const std::size_t bytes = allocated_bytes();
    EXPECT_FALSE(A->switch_to(fault.spec, 4, "why not"));
    expect_untouched(*A, matrix, ++count, fault.why);
    EXPECT_EQ(A->failures().back().iteration, 4);
    EXPECT_EQ(A->failures().back().reason, "why not");
    A->prepare(fault.spec, "why not");
    (void)A->wait_prepared();
    EXPECT_FALSE(A->adopt_prepared(6));
    expect_untouched(*A, matrix, ++count, fault.why);
    EXPECT_EQ(A->failures().back().iteration, 6);
    EXPECT_EQ(allocated_bytes(), bytes);
  }
}

// A solve may take a while until it looks at a build that has failed.
TEST_P(Adaptive, ABuildThatHasFailedHoldsNoPermutedMatrix) {
  const auto A = make();
  FormatSpec in_order = spec(refusing_format());
  in_order.order = "rcm";
  const std::size_t bytes = allocated_bytes();
  A->prepare(in_order);
  while (A->preparation() == Preparation::running) std::this_thread::yield();
  EXPECT_EQ(A->preparation(), Preparation::failed);
  // Its order is kept, for another change to it.
  EXPECT_LT(allocated_bytes(), bytes + csr_.bytes() / 2);
  EXPECT_FALSE(A->adopt_prepared(1));
  ASSERT_EQ(A->failures().size(), 1u);
  EXPECT_EQ(A->failures()[0].failure, SwitchFailure::refused) << A->failures()[0].why;
}

TEST_P(Adaptive, RefusesWhatDoesNotFitBesideSourceAndRunningMatrix) {
  const auto fits = make({.memory_limit = csr_.bytes() * 4});
  EXPECT_TRUE(fits->switch_to(spec("coo"), 0)) << fits->failures().back().why;
  const auto tight = make({.memory_limit = csr_.bytes() + csr_.bytes() / 2});
  EXPECT_FALSE(tight->switch_to(spec("coo"), 0));
  expect_untouched(*tight, &tight->current(), 1, SwitchFailure::out_of_memory);
  EXPECT_NE(tight->failures()[0].why.find("coo"), std::string::npos) << tight->failures()[0].why;
  const auto none = make({.memory_limit = 1});
  EXPECT_FALSE(none->switch_to(spec("coo"), 0));
  expect_untouched(*none, &none->current(), 1, SwitchFailure::out_of_memory);
}

TEST_P(Adaptive, GoingBackToTheSourceNeedsNoMemoryOfItsOwn) {
  const auto A = make({.memory_limit = csr_.bytes() * 3}, "coo");
  EXPECT_TRUE(A->switch_to(spec("csr"), 0)) << A->failures().back().why;
  EXPECT_LT(A->history()[0].bytes_peak, csr_.bytes() + A->history()[0].bytes_before + csr_.bytes() / 2);
}

TEST_P(Adaptive, APreparationEndsWhenItIsCancelled) {
  const std::size_t bytes = allocated_bytes();
  {
    const auto A = make();
    const void* matrix = &A->current();
    const int before = endless_builds();
    A->prepare(spec(endless_format()));
    while (endless_builds() == before) std::this_thread::yield();
    EXPECT_EQ(A->preparation(), Preparation::running);
    EXPECT_FALSE(A->adopt_prepared(1)) << "it is not ready";
    EXPECT_EQ(A->preparation(), Preparation::running);
    A->cancel(2, "the weather");
    expect_untouched(*A, matrix, 1, SwitchFailure::cancelled);
    EXPECT_EQ(A->failures()[0].why, "the weather");
    EXPECT_EQ(A->failures()[0].iteration, 2);
    A->cancel();
    EXPECT_EQ(A->failures().size(), 1u) << "there was nothing to cancel";
    // Cancelled by another change, by new values, and by the destructor.
    A->prepare(spec(endless_format()));
    A->prepare(spec("coo"));
    (void)A->wait_prepared();
    EXPECT_TRUE(A->adopt_prepared(3));
    A->prepare(spec(endless_format()));
    A->update_values(source_);
    EXPECT_EQ(A->preparation(), Preparation::none);
    EXPECT_EQ(A->failures().size(), 3u);
    A->prepare(spec("ell"));
    (void)A->wait_prepared();
    A->prepare(spec(endless_format()));
    EXPECT_EQ(A->failures().size(), 4u) << "a build that was ready and not adopted";
  }
  EXPECT_EQ(allocated_bytes(), bytes);
}

// Holds builds until the test releases them or the scope ends.
struct Held {
  Held() { hold_stubborn_builds(true); }
  ~Held() { let_go(); }
  void let_go() { hold_stubborn_builds(false); }
};

TEST_P(Adaptive, ACancelledBuildIsNotWaitedFor) {
  const std::size_t bytes = allocated_bytes();
  {
    const auto A = make();
    const void* matrix = &A->current();
    Held held;
    const auto abandon = [&] {
      const int before = stubborn_builds();
      A->prepare(spec(stubborn_format()));
      while (stubborn_builds() == before) std::this_thread::yield();
      A->cancel(2, "the weather");
    };
    EXPECT_FALSE(A->abandoned());
    abandon();
    EXPECT_TRUE(A->abandoned());
    expect_untouched(*A, matrix, 1, SwitchFailure::cancelled);
    EXPECT_EQ(A->failures()[0].why, "the weather");
    EXPECT_EQ(A->failures()[0].iteration, 2);
    EXPECT_EQ(A->preparation_seconds(), 0);
    // The next build begins when the cancelled one has ended, and can be cancelled before that.
    const int before = endless_builds();
    A->prepare(spec(endless_format()));
    EXPECT_EQ(A->preparation(), Preparation::running);
    EXPECT_FALSE(A->adopt_prepared(3));
    A->prepare(spec(endless_format()));
    A->cancel(4, "snow");
    expect_untouched(*A, matrix, 3, SwitchFailure::cancelled);
    EXPECT_EQ(A->failures()[2].why, "snow");
    A->prepare(spec("ell"), "", 5);
    // A change while the caller waits does not wait for the cancelled build.
    ASSERT_TRUE(A->switch_to(spec("coo"), 6)) << A->failures().back().why;
    EXPECT_TRUE(product_is_good(*A));
    EXPECT_TRUE(A->abandoned());
    EXPECT_EQ(endless_builds(), before) << "two builds ran beside the solve";
    A->prepare(spec("ell"), "", 7);
    held.let_go();
    EXPECT_EQ(A->wait_prepared(), Preparation::ready);
    EXPECT_FALSE(A->abandoned());
    ASSERT_TRUE(A->adopt_prepared(8)) << A->failures().back().why;
    EXPECT_EQ(A->current().entry().id, "ell") << "the cancelled build was adopted";
    EXPECT_TRUE(product_is_good(*A));
    for (const FailedSwitch& failed : A->failures()) EXPECT_EQ(failed.failure, SwitchFailure::cancelled);

    // New values and the destructor wait for it.
    hold_stubborn_builds(true);
    abandon();
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      held.let_go();
    });
    A->update_values(source_);
    EXPECT_FALSE(A->abandoned());
    later.join();
    hold_stubborn_builds(true);
    abandon();
    held.let_go();
  }
  EXPECT_EQ(allocated_bytes(), bytes);
}

TEST_P(Adaptive, WhatACancelledBuildTookCountsUntilItHasEnded) {
  const auto A = make({.memory_limit = 1000000});
  Held held;
  const int before = stubborn_builds();
  A->prepare(spec(stubborn_format()));
  while (stubborn_builds() == before) std::this_thread::yield();
  A->cancel();
  EXPECT_FALSE(A->switch_to(spec("coo"), 0));
  EXPECT_EQ(A->failures().back().failure, SwitchFailure::out_of_memory);
  held.let_go();
  (void)A->wait_prepared();
  EXPECT_TRUE(A->switch_to(spec("coo"), 1)) << A->failures().back().why;
  EXPECT_LT(A->history()[0].bytes_peak, 1000000u);
}

}  // namespace
}  // namespace protean::test
