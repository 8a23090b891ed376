// Format split: the rule that cuts, with machines of known speeds; the cut of a pattern; the matrix on a fake device
// and on a GPU. The contract of all formats (test_formats.cpp) runs on a GPU only, so products, new values, diagonals
// and the way back are tested here on both.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "core/permutation.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "formats/engines/split/split.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/multi_product.hpp"
#include "operators/parts.hpp"
#include "operators/policy/cost_model.hpp"
#include "operators/tuning.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/split_link.hpp"

namespace protean::test {
namespace {

CsrMatrix<double> tridiagonal(std::int32_t n) {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < n; ++i)
    for (std::int32_t j = std::max(0, i - 1); j <= std::min(n - 1, i + 1); ++j)
      entries.push_back({i, j, i == j ? 2.0 + 0.25 * (i % 5) : -1.0});
  return csr_from_triplets<double>(test_context(), n, n, entries);
}

using formats::SplitBalance;
using formats::SplitSpeed;
using formats::SplitTimes;

// A machine of known speeds.
struct Machine {
  SplitSpeed device, host;
  double joining = 0;
  std::int64_t entries = 0;
  SplitTimes product(std::int64_t on_device) const {
    SplitTimes times;
    if (on_device > 0) times.device = device.seconds(on_device);
    if (on_device < entries) times.host = host.seconds(entries - on_device);
    times.total = std::max(times.device, times.host) + (on_device < entries ? joining : 0);
    return times;
  }
  double best() const {
    double least = std::numeric_limits<double>::infinity();
    for (int k = 0; k <= 2000; ++k)
      least = std::min(least, product(std::llround(static_cast<double>(entries) * k / 2000)).total);
    return least;
  }
};

// Runs products until the cut is settled. Returns how many.
int run(
    SplitBalance& balance, const Machine& machine,
    const std::function<double()>& noise = [] { return 1.0; }) {
  balance.divided(balance.wanted());
  std::int64_t now = balance.wanted();
  int count = 0;
  for (; !balance.settled() && count < 1000; ++count) {
    SplitTimes times = machine.product(now);
    times.device *= noise(), times.host *= noise();
    times.total = std::max({times.total, times.device, times.host});
    if (balance.measured(times)) balance.divided(now = balance.wanted());
  }
  EXPECT_TRUE(balance.settled());
  EXPECT_EQ(balance.wanted(), now);
  return count;
}

constexpr int trial = SplitBalance::warm_up + SplitBalance::products;

TEST(SplitBalance, WithoutFixedTimesTheShareIsCorrectedAsTheSourceDoes) {
  // f' = (f / T_gpu) / (f / T_gpu + (1 - f) / T_host)
  const Machine machine{{0, 2e-9}, {0, 6e-9}, 0, 8'000'000};
  SplitBalance balance(machine.entries, {0, 4e-9}, {0, 4e-9}, {}, 3);
  EXPECT_EQ(balance.wanted(), 4'000'000) << "equal speeds as predicted";
  const double f = 0.5, T_gpu = machine.product(4'000'000).device, T_host = machine.product(4'000'000).host;
  const double next = (f / T_gpu) / (f / T_gpu + (1 - f) / T_host);
  EXPECT_EQ(run(balance, machine), 2 * trial);
  EXPECT_NEAR(static_cast<double>(balance.wanted()), next * 8e6, 1);
  EXPECT_EQ(balance.corrections(), 1);
  EXPECT_NEAR(balance.predicted_seconds(), machine.best(), 1e-3 * machine.best());
  EXPECT_NEAR(balance.measured_seconds(), balance.predicted_seconds(), 1e-6 * machine.best());
}

TEST(SplitBalance, AFastGpuGetsAllRowsAndASlowOneNone) {
  const Machine fast{{2e-6, 4e-12}, {3e-5, 1e-9}, 2e-6, 1'000'000};
  SplitBalance balance(fast.entries, {2e-6, 4e-12}, {3e-5, 1e-9}, {}, 3);
  EXPECT_EQ(balance.wanted(), fast.entries - (fast.entries / 64 + 1)) << "the host's speed is measured, too";
  run(balance, fast);
  EXPECT_EQ(balance.wanted(), fast.entries);
  EXPECT_NEAR(balance.predicted_seconds(), fast.product(fast.entries).total, 1e-9);
  const Machine slow{{1e-2, 4e-12}, {0, 1e-9}, 0, 1'000'000};
  SplitBalance other(slow.entries, {2e-6, 4e-12}, {3e-5, 1e-9}, {}, 3);
  run(other, slow);
  EXPECT_EQ(other.wanted(), 0);
}

// What it is judged by: after at most three corrections the predicted time is within 10 percent of the measured one,
// and the cut is nearly the best. Predictions before the solve are wrong by up to five times.
TEST(SplitBalance, ThreeCorrectionsAreEnoughForRandomMachines) {
  std::mt19937 random(7);
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(random));
  };
  const auto wrong = [&](SplitSpeed speed) {
    return SplitSpeed{speed.fixed * between(0.2, 5), speed.per_entry * between(0.2, 5)};
  };
  int off = 0, slow = 0;
  constexpr int machines = 3000;
  for (int k = 0; k < machines; ++k) {
    const Machine machine{{between(1e-6, 1e-5), between(5e-12, 2e-10)},
                          {between(5e-6, 1e-4), between(5e-11, 2e-9)},
                          between(1e-6, 5e-6),
                          std::llround(between(1e4, 1e9))};
    SplitBalance balance(machine.entries, wrong(machine.device), wrong(machine.host), {}, 3);
    run(balance, machine, [&] { return std::uniform_real_distribution<>(0.98, 1.02)(random); });
    EXPECT_LE(balance.corrections(), 3);
    EXPECT_LE(balance.measurements(), 4 * SplitBalance::products);
    const double measured = balance.measured_seconds();
    off += std::fabs(balance.predicted_seconds() - measured) > 0.1 * measured;
    slow += machine.product(balance.wanted()).total > 1.05 * machine.best();
  }
  EXPECT_LE(off, machines / 500);
  EXPECT_LE(slow, machines / 100);
}

TEST(SplitBalance, AShareThatIsAskedForStays) {
  const Machine machine{{0, 2e-9}, {0, 6e-9}, 0, 1000};
  for (const double share : {0.0, 0.3, 1.0}) {
    SplitBalance balance(machine.entries, {0, 1e-9}, {0, 1e-9}, share, 3);
    EXPECT_EQ(run(balance, machine), trial);
    EXPECT_EQ(balance.wanted(), std::llround(1000 * share));
    EXPECT_EQ(balance.corrections(), 0);
    EXPECT_NEAR(balance.measured_seconds(), machine.product(balance.wanted()).total, 1e-12);
  }
}

TEST(SplitBalance, OneSlowProductChangesNothing) {
  const Machine machine{{0, 2e-9}, {0, 2e-9}, 0, 1000};
  SplitBalance balance(machine.entries, machine.device, machine.host, {}, 3);
  balance.divided(balance.wanted());
  for (int k = 0; k < trial; ++k) {
    SplitTimes times = machine.product(500);
    if (k % 3 == 0) times.host *= 100, times.total *= 100;  // three of nine, the first of them not measured
    EXPECT_FALSE(balance.measured(times));
  }
  EXPECT_TRUE(balance.settled());
  EXPECT_EQ(balance.corrections(), 0);
  EXPECT_NEAR(balance.measured_seconds(), 1e-6, 1e-12);
}

TEST(SplitBalance, NothingToDivide) {
  for (const std::int64_t entries : {0, 1, 2}) {
    SplitBalance balance(entries, {1e-6, 1e-9}, {1e-6, 1e-9}, {}, 3);
    EXPECT_GE(balance.wanted(), 0);
    EXPECT_LE(balance.wanted(), entries);
  }
}

// The forecast follows the built-in table: times that are its own are reproduced.
TEST(SplitForecast, IsThatOfTheTableAndTheLink) {
  const auto csr = generate(test_context(), "poisson-3d", {{"n", 40}});
  const auto slow = formats::split_forecast({1e-5, 1e9}, csr.pattern, 8),
             quick = formats::split_forecast({1e-6, 1e12}, csr.pattern, 8);
  for (const auto& [space, speed] :
       {std::pair{Space::device, quick.device}, std::pair{Space::host, quick.host}}) {
    const double table = CostModel(space).csr_seconds({csr.rows(), csr.nonzeros(), csr.bytes()});
    EXPECT_GT(table, 0);
    EXPECT_GE(speed.per_entry, 0);
    EXPECT_GE(speed.fixed, 0);
    EXPECT_NEAR(speed.seconds(csr.nonzeros()), table, 0.01 * table + 1e-5);
  }
  const double copies = 16.0 * static_cast<double>(csr.rows());
  EXPECT_NEAR(slow.host.seconds(csr.nonzeros()) - quick.host.seconds(csr.nonzeros()),
              2e-5 - 2e-6 + copies * (1e-9 - 1e-12), 1e-9);
}

enum class Where { fake, gpu };

class Split : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (gpu() && !test_context(Space::device)) GTEST_SKIP() << no_device;
    context_ = gpu() ? test_context(Space::device) : fake_device_context();
  }
  static bool gpu() { return GetParam() == Where::gpu; }
  static const FormatEntry& format(std::string_view id) { return gpu() ? find_format(id) : fake_format(id); }
  template <class T>
  std::unique_ptr<AssembledMatrix<T>> make(const CsrMatrix<T>& csr, const FormatParams& params) const {
    return make_matrix(format("split"), placed(context_, csr), context_, params);
  }
  static std::vector<PartShare> shares_of(const AssembledMatrix<double>& A) {
    return dynamic_cast<const HasParts&>(A).part_shares();
  }
  static Tuning tuning_of(const AssembledMatrix<double>& A) {
    return dynamic_cast<const HasTuning&>(A).tuning();
  }

  template <class T>
  void expect_right(const AssembledMatrix<T>& A, const CsrMatrix<T>& csr) const {
    const auto x = sample_vector<T>(csr.cols(), 1), y0 = sample_vector<T>(csr.rows(), 2);
    const Placed<T> px(context_, x);
    for (const T alpha : {T(1), T(-0.75)})
      for (const T beta : {T(0), T(1), T(2.5)}) {
        Placed<T> y(context_,
                    beta == T(0) ? std::vector<T>(y0.size(), std::numeric_limits<T>::quiet_NaN()) : y0);
        A.apply(alpha, px.read(), beta, y.view());
        EXPECT_TRUE(product_is_right(csr, alpha, x, beta, y0, y.fetch())) << alpha << ' ' << beta;
      }
    std::vector<T> expected(static_cast<std::size_t>(std::min(csr.rows(), csr.cols())));
    extract_diagonal(*test_context(), csr, expected.data());
    Placed<T> found(context_, std::vector<T>(expected.size(), std::numeric_limits<T>::quiet_NaN()));
    A.diagonal(found.view());
    EXPECT_EQ(expected, found.fetch());
    EXPECT_TRUE(identical(fetched(context_, A.to_csr()), csr));
  }

  template <class T>
  void life(const CsrMatrix<T>& csr, const FormatParams& params) const {
    const CsrMatrix<T> source = placed(context_, csr);
    const Admission admission = admit(format("split"), *context_, source.pattern, params, sizeof(T));
    if (!admission.ok) {
      EXPECT_NE(admission.reason.find("part"), std::string::npos) << admission.reason;
      EXPECT_THROW((void)make_matrix(format("split"), source, context_, params), FormatRefused);
      return;
    }
    const std::size_t before = allocated_bytes(*context_);
    {
      const auto A = make_matrix(format("split"), source, context_, params);
      EXPECT_EQ(A->bytes(), admission.bytes);
      EXPECT_EQ(A->bytes(), allocated_bytes(*context_) - before + source.bytes());
      std::int64_t entries = 0;
      for (const PartShare& share : dynamic_cast<const HasParts&>(*A).part_shares()) entries += share.entries;
      EXPECT_EQ(entries, csr.nonzeros());
      expect_right(*A, csr);
      CsrMatrix<T> changed = deep_copy(test_context(), csr);
      for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
        const_cast<T*>(changed.values)[k] = csr.values[k] * 2 + 1;
      const Revision old = A->revision();
      const Recording recorded = A->recording();
      A->update_values(placed(context_, changed));
      EXPECT_GT(A->revision().values, old.values);
      EXPECT_NE(A->recording().version, recorded.version);
      expect_right(*A, changed);
    }
    context_->synchronize();
    EXPECT_EQ(allocated_bytes(*context_), before);
  }

  ContextPtr context_;
};

TEST_P(Split, EveryMatrixOfTheBatteryInEveryShare) {
  for (const BatteryMatrix& one : battery())
    for (const char* share : {"0", "37.5", "50", "100", "auto"}) {
      SCOPED_TRACE(one.name + ", share " + share);
      life<double>(one.matrix, {{"share", share}, {"threads", "2"}});
      life<float>(convert_values<float>(test_context(), one.matrix), {{"share", share}, {"threads", "2"}});
    }
}

TEST_P(Split, PartsInOtherFormats) {
  for (const char* matrix : {"t8", "power_law_500", "random_257", "empty_rows_50", "row_1x100", "cols_5x0"})
    for (const auto& [device, host] :
         {std::pair{"sell-c-sigma[C=4,sigma=8]", "csr"}, std::pair{"csr", "ell"},
          std::pair{"coo", "sell-packed"}, std::pair{"sell-packed", "csr@naive"}}) {
      SCOPED_TRACE(std::string(matrix) + " " + device + " + " + host);
      life<double>(battery_matrix(matrix), {{"share", "60"}, {"device", device}, {"host", host}});
    }
}

// The first rows to the GPU, the others to the host, each row whole; a row more or less where a half would be cut.
TEST_P(Split, RowsAreCutByEntries) {
  const CsrMatrix<double> csr = battery_matrix("t8");  // rows of 2 4 1 0 4 6 3 4 entries, or the like
  const auto there = placed(context_, csr);
  std::int64_t last = 0;
  for (std::int64_t wanted = 0; wanted <= csr.nonzeros(); ++wanted) {
    const std::int64_t border = formats::split_border(*context_, there.pattern, wanted);
    ASSERT_GE(border, last);
    ASSERT_LE(border, csr.rows());
    last = border;
    const std::int64_t got = csr.pattern.row_ptr[border];
    if (wanted == 0) {
      EXPECT_EQ(border, 0);
    } else if (wanted == csr.nonzeros()) {
      EXPECT_EQ(border, csr.rows());
    } else {
      EXPECT_GT(got, 0) << wanted;
      EXPECT_LT(got, csr.nonzeros()) << wanted;
      if (got != csr.pattern.row_ptr[1] && got != csr.pattern.row_ptr[csr.rows() - 1]) {
        for (std::int64_t r = 0; r <= csr.rows(); ++r)
          EXPECT_LE(std::abs(got - wanted), std::abs(csr.pattern.row_ptr[r] - wanted)) << wanted;
      }
    }
  }
}

TEST_P(Split, TheHostReadsARangeOfXOrTheColumnsWithEntries) {
  const ContextPtr& host = test_context();
  // Rows 5 to 8 of a band read x from 4 on; an arrow reads its first column and its own.
  const auto band = placed(context_, tridiagonal(9));
  const auto of_band = formats::split_rows(host, *context_, band.pattern, 5);
  EXPECT_EQ(of_band.first, 4);
  EXPECT_TRUE(of_band.columns.empty());
  EXPECT_EQ(of_band.pattern.cols, 5);
  EXPECT_EQ(of_band.pattern.rows, 4);
  EXPECT_EQ(of_band.first_entry, band.nonzeros() - of_band.pattern.nonzeros);
  EXPECT_EQ(of_band.pattern.row(0)[0], 0) << "column 4";
  EXPECT_EQ(of_band.pattern.row(3)[1], 4) << "column 8";

  const std::vector<Triplet<double>> entries = [] {
    std::vector<Triplet<double>> list;
    for (std::int32_t i = 0; i < 100; ++i) {
      list.push_back({i, i, 2.0});
      if (i > 0) list.push_back({i, 0, 1.0});
    }
    return list;
  }();
  const auto arrow = placed(context_, csr_from_triplets<double>(host, 100, 100, entries));
  const auto of_arrow = formats::split_rows(host, *context_, arrow.pattern, 97);
  EXPECT_EQ(of_arrow.columns, (std::vector<std::int32_t>{0, 97, 98, 99}));
  EXPECT_EQ(of_arrow.pattern.cols, 4);
  for (std::int64_t r = 0; r < 3; ++r) {
    EXPECT_EQ(of_arrow.pattern.row(r)[0], 0);
    EXPECT_EQ(of_arrow.pattern.row(r)[1], r + 1);
  }
  life<double>(fetched(context_, arrow), {{"share", "97"}});
  life<double>(fetched(context_, band), {{"share", "50"}});
}

TEST_P(Split, SeveralVectorsAndAnOrder) {
  const CsrMatrix<double> csr = generate(test_context(), "convection-diffusion-3d", {{"n", 7}});
  const auto A = make(csr, {{"share", "40"}});
  EXPECT_FALSE(column_by_column<double>(*A).empty());
  constexpr std::int64_t k = 3;
  const auto x = sample_vector<double>(csr.cols() * k, 3);
  for (const VectorLayout layout : {VectorLayout::columns, VectorLayout::interleaved}) {
    const bool columns = layout == VectorLayout::columns;
    const std::int64_t stride = columns ? csr.rows() : k;
    const Placed<double> X(context_, x);
    Placed<double> Y(context_, std::vector<double>(x.size(), std::numeric_limits<double>::quiet_NaN()));
    multi_apply<double>(*A, {X.read().data, csr.cols(), k, stride, layout, Space::device},
                        {Y.view().data, csr.rows(), k, stride, layout, Space::device});
    const std::vector<double> found = Y.fetch();
    for (std::int64_t j = 0; j < k; ++j) {
      std::vector<double> own(static_cast<std::size_t>(csr.cols())), result(own.size());
      for (std::int64_t i = 0; i < csr.rows(); ++i) {
        const std::size_t at = static_cast<std::size_t>(columns ? j * stride + i : i * stride + j);
        own[static_cast<std::size_t>(i)] = x[at], result[static_cast<std::size_t>(i)] = found[at];
      }
      EXPECT_TRUE(product_is_right(csr, 1.0, own, 0.0, own, result)) << j;
    }
  }
  const CsrMatrix<double> there = placed(context_, csr);
  PermutedMatrix<double> permuted(test_context(), there,
                                  Permutation(context_, make_order("rcm", *test_context(), csr.pattern)));
  auto B = make_matrix(format("split"), permuted.matrix(), context_, {{"share", "40"}});
  const Matrix<double> ordered(there, "rcm", std::move(permuted), std::move(B), {.changes = false});
  const auto v = sample_vector<double>(csr.cols(), 5);
  const Placed<double> px(context_, v);
  Placed<double> y(context_, v);
  ordered.apply(px.read(), y.view());
  EXPECT_TRUE(product_is_right(csr, 1.0, v, 0.0, v, y.fetch()));
}

// Solves with the host taking part, and again with other values: recorded steps would repeat an old x'.
TEST_P(Split, SolvesAndSolvesAgain) {
  CsrMatrix<double> csr = deep_copy(test_context(), generate(test_context(), "poisson-2d", {{"n", 24}}));
  for (const char* share : {"25", "75", "auto"})
    for (const char* method : {"cg", "gmres", "bicgstab"}) {
      SCOPED_TRACE(std::string(share) + " " + method);
      const auto A = make(csr, {{"share", share}});
      const auto M = make_preconditioner<double>("jacobi", *A);
      const auto solver = make_solver<double>(method);
      CsrMatrix<double> values = deep_copy(test_context(), csr);
      for (int round = 0; round < 3; ++round) {
        M->ensure(*A);
        const auto right = sample_vector<double>(csr.rows(), static_cast<unsigned>(round + 1));
        const Placed<double> b(context_, right);
        Placed<double> x(context_, std::vector<double>(right.size(), 0.0));
        const SolveReport report = solver->solve(*A, b.read(), x.view(), M.get());
        EXPECT_TRUE(report.converged()) << to_string(report.reason);
        const std::vector<double> found = x.fetch();
        double error = 0, size = 0;
        for (std::int64_t i = 0; i < csr.rows(); ++i) {
          double r = right[static_cast<std::size_t>(i)];
          for (std::int64_t p = values.pattern.row_ptr[i]; p < values.pattern.row_ptr[i + 1]; ++p)
            r -= values.values[p] * found[static_cast<std::size_t>(values.pattern.col[p])];
          error += r * r, size += right[static_cast<std::size_t>(i)] * right[static_cast<std::size_t>(i)];
        }
        EXPECT_LE(std::sqrt(error / size), 1e-7);
        for (std::int64_t p = 0; p < csr.nonzeros(); ++p) const_cast<double*>(values.values)[p] *= 1.5;
        A->update_values(placed(context_, values));
      }
      if (std::string_view(share) != "auto") { EXPECT_FALSE(A->recording().allowed); }
    }
}

// As a format of a running solve, built in the foreground and beside it.
TEST_P(Split, ASolveChangesToItAndAway) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 12}});
  const CsrMatrix<double> source = placed(context_, csr);
  Matrix<double> A(source, make_matrix(format("csr"), source, context_));
  const auto x = sample_vector<double>(csr.cols(), 1);
  const Placed<double> px(context_, x);
  const auto expect_product = [&] {
    Placed<double> y(context_, x);
    A.apply(px.read(), y.view());
    EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, x, y.fetch()));
  };
  const FormatSpec split{&format("split"), {{"share", "50"}}};
  ASSERT_TRUE(A.switch_to(split, 1, "the test"));
  EXPECT_EQ(A.current().entry().id, "split");
  expect_product();
  ASSERT_TRUE(A.switch_to({&format("sell-c-sigma")}, 2, "the test"));
  expect_product();
  A.prepare(split, "the test", 3);
  ASSERT_EQ(A.wait_prepared(), Preparation::ready);
  ASSERT_TRUE(A.adopt_prepared(3));
  EXPECT_EQ(A.current().entry().id, "split");
  for (int k = 0; k < 12; ++k) expect_product();
}

TEST_P(Split, RefusalsNameThePartAndWhatIsAllowed) {
  const CsrMatrix<double> csr = battery_matrix("t8");
  const auto message = [&](const FormatParams& params) {
    try {
      (void)make(csr, params);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("nothing was thrown");
  };
  EXPECT_NE(message({{"share", "101"}}).find("0 to 100"), std::string::npos) << message({{"share", "101"}});
  EXPECT_NE(message({{"share", "half"}}).find("auto or"), std::string::npos);
  EXPECT_NE(message({{"share", "-1"}}).find("0 to 100"), std::string::npos);
  EXPECT_NE(message({{"share", "nan"}}).find("0 to 100"), std::string::npos);
  EXPECT_NE(message({{"device", "csrr"}}).find("'csr'"), std::string::npos);
  EXPECT_NE(message({{"device", "csr + coo"}}).find("device"), std::string::npos);
  EXPECT_NE(message({{"host", "split"}}).find("host"), std::string::npos) << "no part is composed of others";
  EXPECT_NE(message({{"host", "csr[nonsense=1]"}}).find("nonsense"), std::string::npos);
  // A part is a rectangle.
  const std::string refused = message({{"host", "sss"}, {"share", "50"}});
  EXPECT_NE(refused.find("the host's part, sss"), std::string::npos) << refused;
  EXPECT_NE(message({{"device", "sss"}, {"share", "50"}}).find("the GPU's part, sss"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Places, Split, testing::Values(Where::fake, Where::gpu),
                         [](const auto& one) { return one.param == Where::fake ? "fake" : "gpu"; });

TEST(SplitFormat, IsRefusedOnAHostWithTheReason) {
  try {
    (void)make_matrix(find_format("split"), t8(), test_context());
    FAIL();
  } catch (const FormatRefused& error) {
    EXPECT_NE(error.reason().find("needs a GPU"), std::string::npos) << error.what();
  }
  const Admission admission = admit(find_format("split"), *test_context(), t8().pattern, {}, 8);
  EXPECT_FALSE(admission.ok);
  EXPECT_NE(admission.reason.find("needs a GPU"), std::string::npos);
}

TEST(SplitFormat, IsTakenByNameOnly) {
  EXPECT_TRUE(find_format("split").traits.chosen_by_name);
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 30}});
  for (const Space space : {Space::host, Space::device})
    for (const RankedFormat& ranked : rank_formats(csr.pattern, CostModel(space), {.space = space}))
      EXPECT_NE(ranked.entry->id, "split");
}

// Products on a fake device, whose clock is that of a machine of known speeds: the rows that each part has, and the
// results while they move.
class SplitMoves : public testing::Test {
 protected:
  // Rows of 3 entries but the first and the last, so that rows tell entries.
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

// As on a machine with a fast GPU: the host is left out, and the product is that of the GPU's format, which is
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
