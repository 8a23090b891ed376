// Format split: the rule that cuts, with machines of known speeds; the cut of a pattern; the matrix on a fake device
// and on a GPU. The contract of all formats (test_formats.cpp) runs on a GPU only, so products, new values, diagonals
// and the way back are tested here on both.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
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
#include "split_machine.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

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
          std::pair{"coo", "sell-packed"},
          std::pair{gpu() ? "sell-packed[values=double]" : "sell-packed", "csr@naive"}}) {
      SCOPED_TRACE(std::string(matrix) + " " + device + " + " + host);
      life<double>(battery_matrix(matrix), {{"share", "60"}, {"device", device}, {"host", host}});
    }
}

// The first rows to the GPU, the others to the host, each row whole; a row more or less if a half would be cut.
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

// As a format of a running solve, built in the foreground and next to it.
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
    return message_of([&] { (void)make(csr, params); });
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

}  // namespace
}  // namespace protean::test
