// Rows that move between the GPU and the host while products run.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/choose.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/multi_product.hpp"
#include "operators/parts.hpp"
#include "operators/tuning.hpp"
#include "solvers/solver.hpp"
#include "split_machine.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/split_link.hpp"

namespace protean::test {
namespace {

using formats::SplitBalance;
using formats::SplitSpeed;

using formats::SplitTimes;

// Products on a fake device, whose clock simulates a machine of known speeds: the rows that each part has, and the
// results while they move.
class SplitMoves : public testing::Test {
 protected:
  // Rows of 3 entries except the first and the last, so that rows give entries.
  static constexpr std::int64_t rows = 6000;
  SplitMoves() : csr_(tridiagonal(rows)), context_(fake_device_context()) {}

  // Seconds of a row in each part.
  static SplitClock::Times machine(SplitSpeed device, SplitSpeed host) {
    return [=](std::size_t host_bytes) {
      const auto of_host = static_cast<std::int64_t>(host_bytes / sizeof(double));
      SplitTimes times;
      if (of_host < rows) times.device = device.seconds(rows - of_host);
      if (of_host > 0) times.host = host.seconds(of_host);
      times.total = std::max(times.device, times.host);
      return times;
    };
  }
  std::unique_ptr<AssembledMatrix<double>> make(const FormatParams& params = {}) const {
    return make_matrix(fake_format("split"), upload(context_, csr_), context_, params);
  }
  double share_of(const AssembledMatrix<double>& A) const {
    return static_cast<double>(dynamic_cast<const HasParts&>(A).part_shares().at(0).entries) /
           static_cast<double>(csr_.nonzeros());
  }
  // Checks each product. Returns how many different cuts there were.
  int products(const AssembledMatrix<double>& A, int count) const {
    const auto x = sample_vector<double>(rows, 1), y0 = sample_vector<double>(rows, 2);
    const Placed<double> px(context_, x);
    double before = share_of(A);
    int cuts = 1;
    for (int k = 0; k < count; ++k) {
      const double beta = k % 2;
      Placed<double> y(
          context_,
          beta == 0 ? std::vector<double>(y0.size(), std::numeric_limits<double>::quiet_NaN()) : y0);
      A.apply(1.0, px.read(), beta, y.view());
      EXPECT_TRUE(product_is_right(csr_, 1.0, x, beta, y0, y.fetch())) << "product " << k;
      if (share_of(A) != before) before = share_of(A), ++cuts;
    }
    return cuts;
  }

  CsrMatrix<double> csr_;
  ContextPtr context_;
};

TEST_F(SplitMoves, ToWhereBothPartsTakeTheSameTime) {
  const SplitClock clock(machine({1e-5, 1e-8}, {2e-5, 3e-8}));
  const auto A = make();
  const std::uint64_t version = A->recording().version;
  EXPECT_FALSE(A->recording().allowed);
  const int cuts = products(*A, 60);
  EXPECT_GE(cuts, 2);
  EXPECT_LE(cuts, 4);
  // 1e-5 + 1e-8 n = 2e-5 + 3e-8 (rows - n)
  EXPECT_NEAR(share_of(*A), (2e-5 + 3e-8 * rows - 1e-5) / 4e-8 / rows, 0.01);
  const Tuning tuning = dynamic_cast<const HasTuning&>(*A).tuning();
  EXPECT_TRUE(tuning.settled);
  EXPECT_LE(tuning.corrections, 3);
  EXPECT_GE(tuning.corrections, cuts - 1);
  EXPECT_NEAR(tuning.predicted_seconds, tuning.measured_seconds, 0.1 * tuning.measured_seconds);
  EXPECT_NEAR(tuning.measured_seconds, 1e-5 + 1e-8 * share_of(*A) * rows, 2e-7);
  ASSERT_EQ(tuning.choices.size(), 1u);
  EXPECT_EQ(tuning.choices[0].option, "share");
  EXPECT_EQ(tuning.choices[0].by, "time");
  EXPECT_NEAR(std::stod(tuning.choices[0].value), 100 * share_of(*A), 0.01);
  EXPECT_NE(A->recording().version, version);
  EXPECT_FALSE(A->recording().allowed) << "the host computes a part";
}

// As on a machine with a fast GPU: the host is left out, and the product is the product of the GPU's format, which is
// recorded.
TEST_F(SplitMoves, AllRowsToAFastGpu) {
  const SplitClock clock(machine({1e-6, 1e-10}, {5e-5, 1e-7}));
  const auto A = make();
  EXPECT_LT(share_of(*A), 1);
  products(*A, 40);
  EXPECT_EQ(share_of(*A), 1);
  EXPECT_TRUE(A->recording().allowed);
  EXPECT_TRUE(A->recording().heeds_stop);
  const Tuning tuning = dynamic_cast<const HasTuning&>(*A).tuning();
  EXPECT_TRUE(tuning.settled);
  EXPECT_NEAR(tuning.predicted_seconds, tuning.measured_seconds, 0.1 * tuning.measured_seconds);
  products(*A, 3);
  // Several vectors in one pass, and a dot product with the product, as the format of the GPU does.
  EXPECT_EQ(column_by_column<double>(*A), "");
  const auto x = sample_vector<double>(2 * rows, 1);
  const Placed<double> X(context_, x);
  Placed<double> Y(context_, x), y(context_, x), product(context_, {0});
  multi_apply<double>(*A, {X.read().data, rows, 2, 2, VectorLayout::interleaved, Space::device},
                      {Y.view().data, rows, 2, 2, VectorLayout::interleaved, Space::device});
  const std::vector<double> found = Y.fetch();
  for (std::size_t j = 0; j < 2; ++j) {
    std::vector<double> own, its;
    for (std::size_t i = 0; i < rows; ++i) own.push_back(x[2 * i + j]), its.push_back(found[2 * i + j]);
    EXPECT_TRUE(product_is_right(csr_, 1.0, own, 0.0, own, its)) << j;
  }
  apply_dot<double>(*A, {X.read().data, rows, Space::device}, {y.view().data, rows, Space::device},
                    product.data());
  const std::vector<double> first(x.begin(), x.begin() + rows), last = y.fetch();
  EXPECT_TRUE(product_is_right(csr_, 1.0, first, 0.0, first, {last.begin(), last.begin() + rows}));
  double expected = 0;
  for (std::size_t i = 0; i < rows; ++i) expected += first[i] * last[i];
  EXPECT_NEAR(product.fetch()[0], expected, 1e-9 * std::fabs(expected) + 1e-9);
}

TEST_F(SplitMoves, AllRowsFromASlowGpu) {
  const SplitClock clock(machine({1e-2, 1e-7}, {1e-6, 1e-9}));
  const auto A = make();
  products(*A, 40);
  EXPECT_EQ(share_of(*A), 0);
}

TEST_F(SplitMoves, OnlyAsOftenAsAllowed) {
  // A host that is slower the more rows it has misleads every correction.
  const SplitClock clock([](std::size_t host_bytes) {
    const double of_host = static_cast<double>(host_bytes) / sizeof(double);
    const SplitTimes times{1e-8 * (rows - of_host), 1e-11 * of_host * of_host, 0};
    return SplitTimes{times.device, times.host, std::max(times.device, times.host)};
  });
  const auto none = make({{"corrections", "0"}});
  EXPECT_EQ(products(*none, 30), 1);
  EXPECT_EQ(dynamic_cast<const HasTuning&>(*none).tuning().corrections, 0);
  const auto one = make({{"corrections", "1"}});
  EXPECT_LE(products(*one, 60), 2);
  EXPECT_EQ(dynamic_cast<const HasTuning&>(*one).tuning().corrections, 1);
}

TEST_F(SplitMoves, NewValuesWhileRowsMove) {
  const SplitClock clock(machine({1e-5, 1e-8}, {2e-5, 3e-8}));
  const auto A = make();
  for (int round = 0; round < 8; ++round) {
    csr_ = deep_copy(test_context(), csr_);
    for (std::int64_t k = 0; k < csr_.nonzeros(); ++k) const_cast<double*>(csr_.values)[k] += 0.5;
    A->update_values(upload(context_, csr_));
    products(*A, 5);
    EXPECT_TRUE(identical(download(test_context(), *context_, A->to_csr()), csr_));
  }
  EXPECT_TRUE(dynamic_cast<const HasTuning&>(*A).tuning().settled);
}

// The solve goes on with the cut that it has.
TEST_F(SplitMoves, MemoryThatIsMissingForAMoveIsNoted) {
  const SplitClock clock(machine({1e-5, 1e-8}, {2e-5, 3e-8}));
  const auto A = make();
  products(*A, SplitBalance::warm_up + SplitBalance::products);
  const double share = share_of(*A);
  const auto x = sample_vector<double>(rows, 1);
  const Placed<double> px(context_, x);
  Placed<double> y(context_, x);
  detail::allocation_hook = [](Space, std::size_t bytes) {
    if (bytes > 1000) throw OutOfMemory("the test's allocation failed", bytes);
  };
  A->apply(px.read(), y.view());
  detail::allocation_hook = nullptr;
  EXPECT_TRUE(product_is_right(csr_, 1.0, x, 0.0, x, y.fetch()));
  EXPECT_EQ(share_of(*A), share);
  const Tuning tuning = dynamic_cast<const HasTuning&>(*A).tuning();
  EXPECT_TRUE(tuning.settled);
  EXPECT_NE(tuning.note.find("the test's allocation failed"), std::string::npos) << tuning.note;
  EXPECT_EQ(products(*A, 30), 1);
}

// The cut of before stays, and rows may move later.
TEST_F(SplitMoves, AnyOtherFailureOfAMoveIsThrown) {
  const SplitClock clock(machine({1e-5, 1e-8}, {2e-5, 3e-8}));
  const auto A = make();
  products(*A, SplitBalance::warm_up + SplitBalance::products);
  const double share = share_of(*A);
  const auto x = sample_vector<double>(rows, 1);
  const Placed<double> px(context_, x);
  Placed<double> y(context_, x);
  detail::allocation_hook = [](Space, std::size_t bytes) {
    if (bytes > 1000) throw DeviceError("the test's device has failed");
  };
  EXPECT_THROW(A->apply(px.read(), y.view()), DeviceError);
  detail::allocation_hook = nullptr;
  EXPECT_EQ(share_of(*A), share);
  EXPECT_GE(products(*A, 60), 2);
  EXPECT_TRUE(dynamic_cast<const HasTuning&>(*A).tuning().settled);
  EXPECT_TRUE(dynamic_cast<const HasTuning&>(*A).tuning().note.empty());
}

// In a solve with steps that run after its end, as recorded ones do.
TEST_F(SplitMoves, WithinASolve) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  const ContextPtr device = fake_device_context({.steps_ahead = 2, .steps_after_end = 7});
  const SplitClock clock([&](std::size_t host_bytes) {
    const double of_host = static_cast<double>(host_bytes) / sizeof(double),
                 all = static_cast<double>(csr.rows());
    const double there = 1e-8 * (all - of_host), here = 1e-6 + 2e-8 * of_host;
    return SplitTimes{there, here, std::max(there, here)};
  });
  const auto A = make_matrix(fake_format("split"), upload(device, csr), device);
  const std::vector<double> right(static_cast<std::size_t>(csr.rows()), 1.0);
  const Placed<double> b(device, right);
  std::vector<double> first;
  for (int round = 0; round < 2; ++round) {
    Placed<double> x(device, std::vector<double>(right.size(), 0.0));
    const SolveReport report = make_solver<double>("cg")->solve(*A, b.read(), x.view(), nullptr);
    EXPECT_TRUE(report.converged());
    const std::vector<double> found = x.fetch();
    if (round == 0) first = found;
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], first[i], 1e-6);
  }
  const Tuning tuning = dynamic_cast<const HasTuning&>(*A).tuning();
  EXPECT_TRUE(tuning.settled);
  EXPECT_GE(tuning.corrections, 1);
  EXPECT_NEAR(tuning.predicted_seconds, tuning.measured_seconds, 0.1 * tuning.measured_seconds);
}

}  // namespace
}  // namespace protean::test
