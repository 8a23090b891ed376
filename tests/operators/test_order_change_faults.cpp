// A change of order that fails leaves the solve as it was.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "core/parallel.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "operators/matrix/matrix.hpp"
#include "order_change.hpp"
#include "order_changes.hpp"
#include "solving.hpp"

namespace protean::test {
namespace {

// Everything that can go wrong leaves the solve as it was, to the last bit.
TEST_P(OrderChange, FailuresLeaveTheSolveAsItWas) {
  std::atomic<int> waiting{0};
  const auto faulty = [&](std::string_view id, const Context& context,
                          const SparsityPattern& pattern) -> std::vector<std::int32_t> {
    std::vector<std::int32_t> order = reversed(pattern);
    if (id == "throws") throw std::runtime_error("no luck");
    if (id == "short") order.pop_back();
    if (id == "twice") order[0] = order[1];
    if (id == "endless") {
      ++waiting;
      for (int k = 0; k < 5000; ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        parallel(2, [](int, int) {});
      }
    }
    if (id == "rmc") return make_order(id, context, pattern);
    return order;
  };
  const struct {
    const char* id;
    SwitchFailure failure;
    const char* why;
  } faults[] = {{"throws", SwitchFailure::failed, "no luck"},
                {"short", SwitchFailure::refused, "rows"},
                {"twice", SwitchFailure::refused, "once"},
                {"rmc", SwitchFailure::refused, "rcm"}};
  const std::size_t bytes = allocated_bytes();
  for (const bool overlapped : {false, true}) {
    const auto A = adaptive(csr_, {.find_order = faulty});
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration >= 4) return;
      const auto& fault = faults[info.iteration];
      SCOPED_TRACE(fault.id);
      const FormatSpec to = both("sell-c-sigma", fault.id);
      if (overlapped) {
        A->prepare(to, "", info.iteration);
        (void)A->wait_prepared();
        EXPECT_FALSE(A->adopt_prepared(info.iteration));
      } else {
        EXPECT_FALSE(A->switch_to(to, info.iteration));
      }
      ASSERT_EQ(static_cast<std::int64_t>(A->failures().size()), info.iteration + 1);
      EXPECT_EQ(A->failures().back().failure, fault.failure) << A->failures().back().why;
      EXPECT_NE(A->failures().back().why.find(fault.why), std::string::npos) << A->failures().back().why;
      EXPECT_EQ(A->failures().back().order, fault.id);
    });
    expect_same_bits(solved, plain_);
    EXPECT_TRUE(A->history().empty());
    EXPECT_EQ(A->order_id(), "none");
    EXPECT_EQ(A->current().entry().id, "csr");
  }
  {  // cancelled while the order is searched
    const auto A = adaptive(csr_, {.find_order = faulty});
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration == 2) {
        A->prepare(order_only("endless"), "", 2);
        while (waiting == 0) std::this_thread::yield();
      }
      if (info.iteration == 4) A->cancel(4, "the weather");
    });
    expect_same_bits(solved, plain_);
    ASSERT_EQ(A->failures().size(), 1u);
    EXPECT_EQ(A->failures()[0].failure, SwitchFailure::cancelled);
    EXPECT_EQ(A->failures()[0].why, "the weather");
  }
  {  // no memory for the matrix in that order
    const auto A = adaptive(csr_, {.memory_limit = csr_.bytes() + csr_.bytes() / 2});
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration == 2) { EXPECT_FALSE(A->switch_to(order_only("rcm"), 2)); }
    });
    expect_same_bits(solved, plain_);
    ASSERT_EQ(A->failures().size(), 1u);
    EXPECT_EQ(A->failures()[0].failure, SwitchFailure::out_of_memory);
    EXPECT_NE(A->failures()[0].why.find("rcm"), std::string::npos) << A->failures()[0].why;
  }
  EXPECT_EQ(allocated_bytes(), bytes);
}

// Each allocation of a change fails once, including the allocations of the solve's own vectors.
std::atomic<int> countdown{-1};

void fail_when_due(Space, std::size_t bytes) {
  if (countdown.fetch_sub(1) == 0) throw OutOfMemory("a test let this allocation fail", bytes);
}

TEST_P(OrderChange, FailedAllocationsLeaveTheSolveAsItWas) {
  int failed = 0;
  for (int which = 0; which < 100; ++which) {
    SCOPED_TRACE(which);
    const auto A = adaptive(csr_);
    bool changed = false;
    const Solved solved = solve(*A, [&](const IterationInfo& info) {
      if (info.iteration != 3) return;
      countdown = which;
      detail::allocation_hook = fail_when_due;
      changed = A->switch_to(order_only("rcm"), 3);
      detail::allocation_hook = nullptr;
    });
    if (changed) {
      EXPECT_GT(failed, 5);
      expect_course_of_plain(solved);
      return;
    }
    ++failed;
    expect_same_bits(solved, plain_);
    EXPECT_EQ(A->order_id(), "none");
    ASSERT_EQ(A->failures().size(), 1u);
    EXPECT_EQ(A->failures()[0].failure, SwitchFailure::out_of_memory) << A->failures()[0].why;
  }
  FAIL() << "the change never succeeded";
}

TEST(OrderChanges, OfTwoSolvesAtOnceAreRefused) {
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr);
  const Solved plain = solve_with(*A, csr, cg, nullptr);
  Solved inner;
  Between outside([&](const IterationInfo& info) {
    if (info.iteration != 4) return;
    Between inside([&](const IterationInfo& i) {
      if (i.iteration == 2) { EXPECT_FALSE(A->switch_to(order_only("rcm"), 2)); }
    });
    inner = solve_with(*A, csr, cg, &inside);
    EXPECT_TRUE(A->switch_to(order_only("rcm"), 4)) << "only one solve runs now";
  });
  const Solved outer = solve_with(*A, csr, cg, &outside);
  expect_same_bits(inner, plain);
  expect_same_course(outer, plain);
  ASSERT_EQ(A->failures().size(), 1u);
  EXPECT_EQ(A->failures()[0].failure, SwitchFailure::refused);
  EXPECT_NE(A->failures()[0].why.find("2 solves"), std::string::npos) << A->failures()[0].why;
}

// New values that memory is short for: the operator has the old ones, whatever it does afterwards.
TEST(OrderChanges, NewValuesWithoutMemoryLeaveTheOldOnes) {
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr, {.allow_inexact = true});
  FormatSpec copies{.entry = &rounded_format()};  // it allocates for new values
  copies.order = "rcm";
  ASSERT_TRUE(A->switch_to(copies, 0)) << A->failures().back().why;
  std::vector<double> old(csr.values, csr.values + csr.nonzeros());
  for (double& v : old) v = static_cast<float>(v);
  CsrMatrix<double> rounded = csr, doubled = csr;
  rounded.values = old.data();
  std::vector<double> twice(csr.values, csr.values + csr.nonzeros());
  for (double& v : twice) v *= 2;
  doubled.values = twice.data();
  int failed = 0;
  for (bool done = false; !done && failed < 50;) {
    SCOPED_TRACE(failed);
    const Revision before = A->revision();
    countdown = failed;
    detail::allocation_hook = fail_when_due;
    try {
      A->update_values(doubled);
      done = true;
    } catch (const OutOfMemory&) { ++failed; }
    detail::allocation_hook = nullptr;
    if (done) break;
    EXPECT_EQ(A->revision(), before);
    expect_callers_order(*A, rounded);
    ASSERT_TRUE(A->switch_to(both("csr", "rcm"), 1)) << A->failures().back().why;
    expect_callers_order(*A, csr);
    expect_reordered(*A, csr);
    ASSERT_TRUE(A->switch_to(copies, 2)) << A->failures().back().why;
  }
  EXPECT_GT(failed, 1);
  for (double& v : old) v *= 2;
  expect_callers_order(*A, rounded);
  ASSERT_TRUE(A->switch_to(both("csr", "length"), 3)) << A->failures().back().why;
  expect_callers_order(*A, doubled);
}

// Who follows the order gets a change ready first, and may refuse it.
TEST(OrderChanges, MayBeRefusedByWhoFollows) {
  struct Follower final : OrderFollower {
    int prepared = 0, adopted = 0, refusal = 0;
    std::int64_t rows = -1;
    Permuted permuted() const override { return {}; }
    void prepare_order(const Permutation& next) override {
      if (refusal == 1) throw std::bad_alloc();
      if (refusal == 2) throw NotAvailable("not now");
      if (refusal == 3) throw std::runtime_error("no luck");
      ++prepared, rows = next.size();
    }
    void adopt_order() noexcept override { ++adopted; }
  } follower;
  const CsrMatrix<double> csr = system_matrix(cg);
  const auto A = adaptive(csr);
  A->follow(follower);
  const SwitchFailure failures[] = {SwitchFailure::out_of_memory, SwitchFailure::refused,
                                    SwitchFailure::failed};
  for (follower.refusal = 1; follower.refusal <= 3; ++follower.refusal) {
    EXPECT_FALSE(A->switch_to(both("ell", "rcm"), 0));
    EXPECT_EQ(A->failures().back().failure, failures[follower.refusal - 1]) << A->failures().back().why;
    EXPECT_EQ(A->order_id(), "none");
    EXPECT_EQ(A->current().entry().id, "csr");
  }
  EXPECT_EQ(follower.adopted, 0);
  follower.refusal = 0;
  EXPECT_TRUE(A->switch_to(both("ell", "rcm"), 1));
  EXPECT_TRUE(A->switch_to(both("coo", ""), 2));
  EXPECT_EQ(follower.prepared, 1) << "a format alone is no change of order";
  EXPECT_EQ(follower.rows, csr.rows());
  EXPECT_TRUE(A->switch_to(order_only("none"), 3));
  EXPECT_EQ(follower.rows, 0);
  EXPECT_EQ(follower.adopted, 2);
  A->unfollow(follower);
  EXPECT_TRUE(A->switch_to(order_only("rcm"), 4));
  EXPECT_EQ(follower.prepared, 2);
  EXPECT_EQ(A->history().size(), 4u);
}

}  // namespace
}  // namespace protean::test
