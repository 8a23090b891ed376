// The contract of Matrix, without a solver.
#include <thread>

#include "adaptive.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "gtest/gtest.h"
#include "odd_formats.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/product_check.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solving.hpp"
#include "support/engines.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

INSTANTIATE_TEST_SUITE_P(All, Adaptive, testing::Values(Space::host, Space::device),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(Adaptive, ComputesInEveryFormatItIsSwitchedTo) {
  const auto A = make();
  const Revision revision = A->revision();
  std::uint64_t form = 0;
  for (const FormatEntry* entry : layouts_of_any_matrix()) {
    if (kernels_in(*entry, GetParam()).empty()) continue;
    ASSERT_TRUE(A->switch_to(spec_of(*entry), 5, "to see")) << entry->id << ": " << A->failures().back().why;
    EXPECT_EQ(A->current().entry().id, entry->id);
    EXPECT_EQ(A->name(), entry->id);
    EXPECT_EQ(A->form(), ++form);
    EXPECT_TRUE(A->runs(spec_of(*entry)));
    EXPECT_TRUE(product_is_good(*A)) << entry->id;
    EXPECT_TRUE(product_is_good(*A, true)) << entry->id;
    EXPECT_TRUE(identical(csr_, fetched(context_, A->current().to_csr())));
    Placed<double> d(context_, std::vector<double>(A->rows(), 0.0));
    A->diagonal(d.view());
    EXPECT_EQ(d.fetch(), std::vector<double>(A->rows(), 4.0)) << entry->id;
  }
  EXPECT_EQ(A->revision(), revision);
  ASSERT_EQ(A->history().size(), form);
  for (std::size_t i = 1; i < A->history().size(); ++i) {
    const SwitchRecord& record = A->history()[i];
    EXPECT_EQ(record.from, A->history()[i - 1].to);
    EXPECT_EQ(record.iteration, 5);
    EXPECT_EQ(record.reason, "to see");
    EXPECT_EQ(record.to_kernel, "native");
    EXPECT_FALSE(record.overlapped);
    EXPECT_GT(record.convert_seconds, 0);
    EXPECT_GE(record.wait_seconds, record.convert_seconds);
    EXPECT_GE(record.bytes_peak, std::max(record.bytes_before, record.bytes_after));
  }
}

TEST_P(Adaptive, ComputesInFloat) {
  const auto csr = convert_values<float>(test_context(), csr_);
  const auto source = placed(context_, csr);
  Matrix<float> A(source, make_matrix(find_format("csr"), source, context_));
  ASSERT_TRUE(A.switch_to(spec("sell-c-sigma"), 0)) << A.failures().back().why;
  const auto x = sample_vector<float>(A.cols(), 3);
  const Placed<float> px(context_, x);
  Placed<float> y(context_, x);
  A.apply(px.read(), y.view());
  EXPECT_TRUE(product_is_right(csr, 1.0f, x, 0.0f, x, y.fetch()));
}

TEST_P(Adaptive, AdoptsWhatWasPreparedBeside) {
  const auto A = make();
  EXPECT_EQ(A->preparation(), Preparation::none);
  EXPECT_FALSE(A->adopt_prepared(0)) << "no build was begun";
  A->prepare(spec("sell-c-sigma"), "to see", 3);
  EXPECT_TRUE(product_is_good(*A));
  EXPECT_EQ(A->wait_prepared(), Preparation::ready);
  EXPECT_EQ(A->current().entry().id, "csr") << "only adopt_prepared() changes the format";
  EXPECT_GT(A->preparation_seconds(), 0);
  ASSERT_TRUE(A->adopt_prepared(9));
  EXPECT_EQ(A->preparation(), Preparation::none);
  EXPECT_EQ(A->current().entry().id, "sell-c-sigma");
  EXPECT_TRUE(product_is_good(*A));
  ASSERT_EQ(A->history().size(), 1u);
  const SwitchRecord& record = A->history()[0];
  EXPECT_TRUE(record.overlapped);
  EXPECT_EQ(record.begun_iteration, 3);
  EXPECT_EQ(record.iteration, 9);
  EXPECT_EQ(record.from, "csr");
  EXPECT_EQ(record.to, "sell-c-sigma");
  const FormatEntry& to = find_format("sell-c-sigma");
  EXPECT_TRUE(record.parameters == resolve_params(to, {}, &kernels_in(to, GetParam()).front()));
  EXPECT_FALSE(A->adopt_prepared(10)) << "it has been adopted already";
}

TEST_P(Adaptive, ABuiltMatrixHasThePartsItIsUsedWith) {
  // A matrix built by one thread must compute the same bits as one built by all threads.
  const auto blocking = make(), beside = make();
  const auto x = sample_vector<double>(csr_.cols(), 4);
  const Placed<double> px(context_, x);
  for (const FormatEntry* entry : layouts_of_any_matrix()) {
    if (kernels_in(*entry, GetParam()).empty()) continue;
    ASSERT_TRUE(blocking->switch_to(spec_of(*entry), 0));
    beside->prepare(spec_of(*entry));
    (void)beside->wait_prepared();
    ASSERT_TRUE(beside->adopt_prepared(0));
    Placed<double> a(context_, x), b(context_, x), dots(context_, {0.0, 0.0});
    apply_dot<double>(*blocking, px.read(), a.view(), dots.data());
    apply_dot<double>(*beside, px.read(), b.view(), dots.data() + 1);
    if (entry->traits.deterministic) {
      EXPECT_EQ(a.fetch(), b.fetch()) << entry->id;
      EXPECT_EQ(dots.fetch()[0], dots.fetch()[1]) << entry->id;
    }
  }
}

// The values may differ by a thousandth. By two thousandths they differ in every row, however small x is there.
TEST(ProductCheck, BoundsAreThoseOfTheTerms) {
  constexpr int n = 200;
  std::vector<Triplet<double>> entries, larger;
  for (int i = 0; i < n; ++i) entries.push_back({i, i, 3.0}), larger.push_back({i, i, 3.0 * 1.002});
  const ContextPtr context = test_context();
  const auto csr = csr_from_triplets<double>(context, n, n, entries);
  const auto made = [&](const CsrMatrix<double>& of) { return make_matrix(find_format("csr"), of, context); };
  detail::ProductCheck<double> check(context, csr, 1e-3);
  EXPECT_FALSE(check.has_kept());
  check.keep(*made(csr));
  EXPECT_TRUE(check.has_kept());
  EXPECT_EQ(check.differing_rows(*made(csr)), 0);
  EXPECT_EQ(check.differing_rows(*made(csr_from_triplets<double>(context, n, n, larger))), n);
  for (Triplet<double>& one : larger) one.value = 3.0 * 1.0009;
  EXPECT_EQ(check.differing_rows(*made(csr_from_triplets<double>(context, n, n, larger))), 0);
}

// No sum has terms of both signs, so the values differ as much as the sums do. Rows of a usual length decide how many
// threads of a GPU take a row; some rows are much longer, two of them side by side.
TEST_P(Adaptive, BoundsOfRowsOfVaryingLength) {
  constexpr std::int32_t rows = 3000, cols = 20000;
  for (const int usual : {3, 30, 80, 150}) {
    SCOPED_TRACE(usual);
    const auto length = [&](std::int32_t row) {
      switch (row) {
        case 10:
          return 0;
        case 11:
          return 1;
        case 500:
          return 300;
        case 501:
          return cols;
        case 1200:
        case 1201:
          return 2500;
        case rows - 1:
          return 1100;
        default:
          return usual;
      }
    };
    const auto scaled = [&](double scale) {
      std::vector<Triplet<double>> entries;
      for (std::int32_t row = 0; row < rows; ++row)
        for (std::int32_t k = 0; k < length(row); ++k) {
          const std::int32_t col = (row + k * 7) % cols;  // 7 and cols have no common divisor
          entries.push_back({row, col, scale * (detail::sample_value<double>(col) > 0 ? 3 : -3)});
        }
      return placed(context_, csr_from_triplets<double>(test_context(), rows, cols, entries));
    };
    const auto made = [&](const CsrMatrix<double>& of) {
      return make_matrix(find_format("csr"), of, context_);
    };
    const CsrMatrix<double> csr = scaled(1);
    detail::ProductCheck<double> check(context_, csr, 1e-3);
    check.keep(*made(csr));
    EXPECT_EQ(check.differing_rows(*made(csr)), 0);
    EXPECT_EQ(check.differing_rows(*made(scaled(1.0009))), 0);
    EXPECT_EQ(check.differing_rows(*made(scaled(1.002))), rows - 1);  // all but the one without entries
  }
}

TEST_P(Adaptive, NewValuesChangeTheRevisionAndTheNextFormat) {
  const auto A = make();
  const Revision before = A->revision();
  auto values = deep_copy(test_context(), csr_);
  for (std::int64_t k = 0; k < values.nonzeros(); ++k) const_cast<double*>(values.values)[k] *= 3;
  A->update_values(placed(context_, values));
  EXPECT_EQ(A->revision().pattern, before.pattern);
  EXPECT_NE(A->revision().values, before.values);
  csr_ = values;
  EXPECT_TRUE(product_is_good(*A));
  ASSERT_TRUE(A->switch_to(spec("sell-c-sigma"), 0)) << A->failures().back().why;
  EXPECT_TRUE(product_is_good(*A));
  A->prepare(spec("ell"));
  (void)A->wait_prepared();
  ASSERT_TRUE(A->adopt_prepared(1));
  EXPECT_TRUE(product_is_good(*A));
  const auto other = placed(context_, generate(test_context(), "poisson-2d", {{"n", 10}}));
  EXPECT_THROW(A->update_values(other), ShapeMismatch);
  EXPECT_TRUE(product_is_good(*A));
}

TEST_P(Adaptive, AStartThatIsNotMadeFromTheSourceIsFoundOut) {
  auto values = deep_copy(test_context(), csr_);
  const_cast<double*>(values.values)[100] += 0.5;
  const auto other = placed(context_, values);
  Matrix<double> A(source_, make_matrix(find_format("csr"), other, context_));
  EXPECT_FALSE(A.switch_to(spec("ell"), 0));
  EXPECT_EQ(A.failures()[0].failure, SwitchFailure::wrong_product);
  EXPECT_NE(A.failures()[0].why.find("1 of 1600 rows"), std::string::npos) << A.failures()[0].why;
}

TEST_P(Adaptive, AJacobiPreconditionerStaysThroughAChangeOfFormat) {
  const auto A = make();
  const auto M = make_preconditioner<double>("jacobi", *A);
  M->ensure(*A);
  const double* d = M->inverse_diagonal().data;
  ASSERT_TRUE(A->switch_to(spec("sell-c-sigma"), 0));
  M->ensure(*A);
  EXPECT_EQ(M->inverse_diagonal().data, d);
}

TEST_P(Adaptive, BrokenArgumentsAreErrors) {
  EXPECT_THROW(Matrix<double>(source_, nullptr), BadArgument);
  EXPECT_THROW(make({.background_workers = 0}), BadArgument);
  EXPECT_THROW(make({.memory_fraction = 0}), BadArgument);
  EXPECT_THROW(make({.memory_fraction = 1.5}), BadArgument);
  const auto other = placed(context_, generate(test_context(), "poisson-2d", {{"n", 10}}));
  EXPECT_THROW(Matrix<double>(other, make_matrix(find_format("csr"), source_, context_)), ShapeMismatch);
  // The caller keeps the matrix if the constructor throws.
  auto start = make_matrix(find_format("csr"), source_, context_);
  EXPECT_THROW(Matrix<double>(other, std::move(start)), ShapeMismatch);
  EXPECT_THROW(Matrix<double>(source_, std::move(start), {.memory_fraction = 0}), BadArgument);
  ASSERT_NE(start, nullptr);
  EXPECT_TRUE(product_is_good(Matrix<double>(source_, std::move(start))));
}

class AdaptiveHost : public Adaptive {};

INSTANTIATE_TEST_SUITE_P(All, AdaptiveHost, testing::Values(Space::host),
                         [](const auto&) { return std::string("host"); });

TEST_P(AdaptiveHost, MeasuresItsProducts) {
  // With this clock a product takes one second, later three.
  double now = 0, step = 1;
  const auto A = make({.clock = [&] { return now += step; }});
  EXPECT_EQ(A->seconds_per_product(), 0);
  for (int k = 0; k < 12; ++k) EXPECT_TRUE(product_is_good(*A));
  EXPECT_EQ(A->seconds_per_product(), 1);
  step = 3;
  for (int k = 0; k < 12; ++k) EXPECT_TRUE(product_is_good(*A));
  EXPECT_EQ(A->seconds_per_product(), 3) << "the median of the last products";
  ASSERT_TRUE(A->switch_to(spec("ell"), 0));
  EXPECT_EQ(A->seconds_per_product(), 0) << "products of the old format do not count";
}

TEST_P(AdaptiveHost, ProductsOfSeveralThreadsWhileAFormatIsPrepared) {
  const auto A = make();
  for (const char* next : {"sell-c-sigma", "ell", "coo", "csc", "csr", "sell-packed"}) {
    A->prepare(spec(next));
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        do {
          EXPECT_TRUE(product_is_good(*A));
          EXPECT_TRUE(product_is_good(*A, true));
        } while (A->preparation() == Preparation::running);
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(A->wait_prepared() == Preparation::ready && A->adopt_prepared(0));
  }
  EXPECT_TRUE(product_is_good(*A));
}

// Its product is computed when it is adopted, not by the thread that builds it.
TEST_P(AdaptiveHost, AKernelOfALibraryIsCheckedToo) {
  const auto A = make();
  for (const bool overlapped : {false, true}) {
    if (overlapped) A->prepare(spec(foreign_kernel_format(false)), "", 3), (void)A->wait_prepared();
    EXPECT_TRUE(overlapped ? A->adopt_prepared(3) : A->switch_to(spec(foreign_kernel_format(false)), 3))
        << A->failures().back().why;
    EXPECT_EQ(A->current().kernel(), "foreign");
    EXPECT_TRUE(product_is_good(*A));
    ASSERT_TRUE(A->switch_to(spec("csr"), 4)) << A->failures().back().why;
  }
  ASSERT_TRUE(A->failures().empty());
  EXPECT_FALSE(A->switch_to(spec(foreign_kernel_format(true)), 5));
  ASSERT_EQ(A->failures().size(), 1u);
  EXPECT_EQ(A->failures()[0].failure, SwitchFailure::wrong_product) << A->failures()[0].why;
}

TEST_P(AdaptiveHost, InexactValuesOnlyWherePermittedAndAsNewValues) {
  const auto A = make({.allow_inexact = true});
  const Revision before = A->revision();
  ASSERT_TRUE(A->switch_to(spec(rounded_format()), 0)) << A->failures().back().why;
  EXPECT_NE(A->revision().values, before.values);
  EXPECT_EQ(A->revision().pattern, before.pattern);
  const Revision rounded = A->revision();
  ASSERT_TRUE(A->switch_to(spec("csr"), 0)) << A->failures().back().why;
  EXPECT_NE(A->revision().values, rounded.values) << "back to the exact values";
}

}  // namespace
}  // namespace protean::test
