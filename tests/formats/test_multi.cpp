// Products with several vectors: every format that computes them in one pass, and one that does not, on every matrix of
// the battery. Each column is checked with Wilkinson's bound, row by row.
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "gtest/gtest.h"
#include "operators/multi_product.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

// The formats with a product of several vectors. One that loses it fails OnePass.
const std::set<std::string_view> on_host = {
    "csr",  "sell-packed",   "ell",       "sell-c-sigma", "sell-variable", "hll",      "bin-csr",
    "bcsr", "sliced-ellr-t", "bcsr-choi", "bcoo",         "bsellpack",     "bin-bcsr", "bcsr-verschoor"};
const std::set<std::string_view> on_device = {"csr", "sell-c-sigma", "sell-packed", "bcsr"};

bool one_pass(const FormatEntry& format, Space space) {
  return (space == Space::host ? on_host : on_device).count(format.id) > 0;
}

struct Case {
  const FormatEntry* format;
  Space space;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const FormatEntry* format : catalogue())
    for (const Space space : {Space::host, Space::device})
      if ((one_pass(*format, space) || format->id == "csr5") && !kernels_in(*format, space).empty())
        list.push_back({format, space});
  return list;
}

std::string words(std::string_view id) {
  std::string name(id);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

// 150 columns are more than a GPU takes in one pass; they are tried on one matrix.
const std::vector<std::int64_t> counts = {0, 1, 2, 3, 8, 17};
constexpr std::int64_t many_columns = 150;

class Multi : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam().space);
    if (!context_) GTEST_SKIP() << no_device;
  }

  template <class T>
  std::unique_ptr<AssembledMatrix<T>> make(const CsrMatrix<T>& csr, const ContextPtr& context) const {
    FormatParams params;
    for (const ParamDoc& doc : GetParam().format->params)
      if (doc.name == "max_fill")
        params.set("max_fill", "1000000");
      else if (doc.name == "percent")
        params.set("percent", "100000");
    try {
      return make_matrix(*GetParam().format, placed(context, csr), context, params);
    } catch (const FormatRefused&) { return nullptr; }
  }
  template <class T>
  static CsrMatrix<T> scalar(const BatteryMatrix& matrix) {
    if constexpr (sizeof(T) == 8)
      return matrix.matrix;
    else
      return convert_values<float>(test_context(), matrix.matrix);
  }

  template <class T>
  void check_products() {
    int made = 0;
    for (const BatteryMatrix& one : battery()) {
      SCOPED_TRACE(one.name);
      const CsrMatrix<T> csr = scalar<T>(one);
      const auto A = make(csr, context_);
      if (!A) continue;
      ++made;
      for (const std::int64_t k : counts)
        for (const MultiShape& shape : multi_shapes()) {
          SCOPED_TRACE(std::to_string(k) + " vectors, " + shape.name());
          check_one<T>(*A, csr, k, shape);
          if (HasFailure()) return;
        }
    }
    EXPECT_GT(made, 10) << "the battery hardly suits this format";
  }

  template <class T>
  void check_one(const AssembledMatrix<T>& A, const CsrMatrix<T>& csr, std::int64_t k,
                 const MultiShape& shape) {
    const auto x = sample_columns<T>(csr.cols(), k, 1), y0 = sample_columns<T>(csr.rows(), k, 2);
    const Columns<T> poison(static_cast<std::size_t>(k), std::vector<T>(static_cast<std::size_t>(csr.rows()),
                                                                        std::numeric_limits<T>::quiet_NaN()));
    PlacedColumns<T> px(context_, x, csr.cols(), shape);
    for (const auto& [alpha, beta] : {std::pair{T(1), T(0)}, {T(-0.75), T(2.5)}, {T(0), T(1)}}) {
      PlacedColumns<T> y(context_, beta == T(0) ? poison : y0, csr.rows(), shape);
      const std::int64_t before = A.products();
      multi_apply<T>(A, alpha, px.read(), beta, y.view());
      EXPECT_EQ(A.products() - before, k);
      const Columns<T> found = y.fetch();
      for (std::size_t j = 0; j < found.size(); ++j)
        EXPECT_TRUE(product_is_right(csr, alpha, x[j], beta, y0[j], found[j]))
            << "vector " << j << ", alpha " << alpha << ", beta " << beta;
      EXPECT_TRUE(y.gaps_are_untouched());
    }
    EXPECT_TRUE(px.gaps_are_untouched());
    EXPECT_EQ(px.fetch(), x);
  }

  ContextPtr context_;
};

TEST_P(Multi, ProductsAreRightInDouble) { check_products<double>(); }
TEST_P(Multi, ProductsAreRightInFloat) { check_products<float>(); }

TEST_P(Multi, ManyColumns) {
  const CsrMatrix<double>& csr = battery_matrix("random_257");
  const auto A = make(csr, context_);
  ASSERT_TRUE(A);
  for (const MultiShape& shape : multi_shapes()) {
    SCOPED_TRACE(shape.name());
    check_one<double>(*A, csr, many_columns, shape);
  }
}

// What is said before there is a matrix (the policy prices formats by it), of every format and kernel of this build.
TEST(MultiProduct, IsKnownBeforeTheMatrix) {
  int in_one_pass = 0, by_columns = 0;
  for (const Space space : {Space::host, Space::device}) {
    const ContextPtr context = test_context(space);
    if (!context) continue;
    const auto csr = placed(context, generate(test_context(), "poisson-2d", {{"n", 9}}));
    for (const FormatEntry* format : catalogue())
      for (const Kernel& kernel : kernels_in(*format, space)) {
        if (!kernel.unavailable.empty() || format->id == "split") continue;
        SCOPED_TRACE(std::string(format->id) + "/" + std::string(kernel.name));
        FormatParams params;
        for (const ParamDoc& doc : format->params)
          if (doc.name.starts_with("max_fill")) params.set(std::string(doc.name), doc.largest);
        std::unique_ptr<AssembledMatrix<double>> A;
        try {
          A = make_matrix(*format, csr, context, params, kernel.name);
        } catch (const FormatRefused&) { continue; }
        const bool known = several_bandwidth(*format, kernel.name, space) > 0;
        EXPECT_EQ(known, column_by_column<double>(*A).empty());
        ++(known ? in_one_pass : by_columns);
      }
  }
  EXPECT_GE(in_one_pass, 14);
  EXPECT_GE(by_columns, 14);
}

TEST_P(Multi, OnePass) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 9}});
  const auto A = make(csr, context_);
  ASSERT_TRUE(A);
  const std::string why = column_by_column<double>(*A);
  if (one_pass(*GetParam().format, GetParam().space))
    EXPECT_EQ(why, "");
  else
    EXPECT_NE(why.find(GetParam().format->id), std::string::npos) << why;
}

// What is written for a column depends on that column alone: not on its neighbours, whatever they hold, nor on how many
// there are.
TEST_P(Multi, AColumnKeepsItsBitsInAnyCompany) {
  if (!one_pass(*GetParam().format, GetParam().space)) return;  // each column is a separate product
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string, CsrMatrix<double>>> matrices;
  for (const char* name : {"random_257", "power_law_500", "empty_rows_50"})
    matrices.emplace_back(name, battery_matrix(name));
  // On a GPU several threads may share a row of these.
  for (const int width : {8, 15, 150})
    matrices.emplace_back(
        std::to_string(2 * width + 1) + " diagonals",
        generate(test_context(), "banded", {{"n", 310.0}, {"lower", width * 1.0}, {"upper", width * 1.0}}));
  for (const auto& [name, csr_of_name] : matrices) {
    SCOPED_TRACE(name);
    const CsrMatrix<double>& csr = csr_of_name;
    const auto A = make(csr, context_);
    if (!A) continue;
    const auto x = sample_columns<double>(csr.cols(), 17, 5);
    const MultiShape shape{VectorLayout::interleaved, 0};
    const auto product = [&](const Columns<double>& of) {
      PlacedColumns<double> px(context_, of, csr.cols(), shape),
          y(context_, sample_columns<double>(csr.rows(), std::ssize(of), 6), csr.rows(), shape);
      multi_apply<double>(*A, px.read(), y.view());
      return y.fetch();
    };
    const Columns<double> all = product(x);
    for (const std::size_t k : {2u, 3u, 5u, 11u})
      for (std::size_t first = 0; first + k <= 17; first += k) {
        Columns<double> some(x.begin() + static_cast<std::ptrdiff_t>(first),
                             x.begin() + static_cast<std::ptrdiff_t>(first + k));
        // The neighbours of the middle one are poison.
        const std::size_t middle = k / 2;
        for (std::size_t j = 0; j < k; ++j)
          if (j != middle) some[j].assign(some[j].size(), j % 2 ? nan : inf);
        EXPECT_EQ(product(some)[middle], all[first + middle]) << k << " from " << first;
      }
  }
}

// In deterministic mode the bits equal the bits of the product of one vector, in every format and with any number of
// threads.
TEST_P(Multi, DeterministicBitsAreThoseOfOneVector) {
  if (GetParam().space == Space::device) GTEST_SKIP() << "a GPU promises the same bits in every run only";
  for (int threads : {1, 3}) {
    const ContextPtr context = Context::host(threads, {.deterministic = true});
    for (const BatteryMatrix& one : battery()) {
      SCOPED_TRACE(one.name);
      const auto A = make(one.matrix, context);
      if (!A) continue;
      const auto x = sample_columns<double>(one.matrix.cols(), 7, 3),
                 y0 = sample_columns<double>(one.matrix.rows(), 7, 4);
      for (const MultiShape& shape : multi_shapes()) {
        PlacedColumns<double> px(context, x, one.matrix.cols(), shape),
            y(context, y0, one.matrix.rows(), shape);
        multi_apply<double>(*A, 1.0 / 3, px.read(), 0.7, y.view());
        const Columns<double> found = y.fetch();
        for (std::size_t j = 0; j < x.size(); ++j) {
          std::vector<double> alone = y0[j];
          A->apply(1.0 / 3, {x[j].data(), one.matrix.cols()}, 0.7, {alone.data(), one.matrix.rows()});
          ASSERT_EQ(found[j].size(), alone.size());
          for (std::size_t i = 0; i < alone.size(); ++i)
            ASSERT_EQ(std::bit_cast<std::uint64_t>(found[j][i]), std::bit_cast<std::uint64_t>(alone[i]))
                << "vector " << j << ", row " << i << ", " << shape.name();
        }
      }
    }
  }
}

// A NaN in x reaches the rows that use it, and no others: neither rows without entries nor padding. Blocks store fill,
// which multiplies it.
TEST_P(Multi, NotANumberStaysInTheRowsThatUseIt) {
  if (!one_pass(*GetParam().format, GetParam().space) || GetParam().format->engine == "blocks") return;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* name : {"empty_rows_50", "random_257", "power_law_500"}) {
    SCOPED_TRACE(name);
    const CsrMatrix<double>& csr = battery_matrix(name);
    const auto A = make(csr, context_);
    if (!A) continue;
    auto x = sample_columns<double>(csr.cols(), 3, 1);
    x[1][0] = nan;
    for (const MultiShape& shape : multi_shapes()) {
      PlacedColumns<double> px(context_, x, csr.cols(), shape),
          y(context_, sample_columns<double>(csr.rows(), 3, 2), csr.rows(), shape);
      multi_apply<double>(*A, px.read(), y.view());
      const Columns<double> found = y.fetch();
      for (std::int64_t r = 0; r < csr.rows(); ++r) {
        bool uses = false;
        for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
          uses = uses || csr.pattern.col[k] == 0;
        for (std::size_t j = 0; j < 3; ++j)
          EXPECT_EQ(std::isnan(found[j][static_cast<std::size_t>(r)]), uses && j == 1)
              << "row " << r << ", vector " << j;
      }
    }
  }
}

TEST_P(Multi, NewValuesAreUsed) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 12}});
  const auto A = make(csr, context_);
  ASSERT_TRUE(A);
  const CsrMatrix<double> changed = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
    const_cast<double*>(changed.values)[k] = csr.values[k] * 3 + 1;
  A->update_values(placed(context_, changed));
  const MultiShape shape{VectorLayout::interleaved, 0};
  const auto x = sample_columns<double>(csr.cols(), 5, 1);
  PlacedColumns<double> px(context_, x, csr.cols(), shape), y(context_, x, csr.rows(), shape);
  multi_apply<double>(*A, px.read(), y.view());
  const Columns<double> found = y.fetch();
  for (std::size_t j = 0; j < x.size(); ++j)
    EXPECT_TRUE(product_is_right(changed, 1.0, x[j], 0.0, x[j], found[j]));
}

TEST_P(Multi, WhatDoesNotFitIsRefused) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 5}});
  const auto A = make(csr, context_);
  ASSERT_TRUE(A);
  MultiVector<double> X(context_, 25, 4), Y(context_, 25, 4),
      wide(context_, 25, 4, VectorLayout::interleaved);
  const auto apply = [&](MultiVectorView<const double> x, MultiVectorView<double> y) {
    multi_apply<double>(*A, x, y);
  };
  const std::int64_t before = A->products();
  EXPECT_THROW(apply(X, X), BadArgument) << "the same memory";
  MultiVectorView<double> shifted = X.view();
  shifted.data += 30, shifted.columns = 2;
  EXPECT_THROW(apply(X.view().part(0, 2), shifted), BadArgument) << "overlap";
  EXPECT_NO_THROW(apply(X.view().part(0, 2), X.view().part(2, 2))) << "columns side by side do not overlap";
  EXPECT_THROW(apply(X, Y.view().part(0, 3)), ShapeMismatch);
  EXPECT_THROW(apply(X, wide), BadArgument) << "layouts";
  MultiVectorView<double> narrow = Y.view();
  narrow.stride = 24;
  EXPECT_THROW(apply(X, narrow), ShapeMismatch) << "stride";
  MultiVectorView<double> elsewhere = Y.view();
  elsewhere.space = context_->space() == Space::host ? Space::device : Space::host;
  EXPECT_THROW(apply(X, elsewhere), WrongSpace);
  MultiVectorView<double> negative = Y.view();
  negative.columns = -1;
  EXPECT_THROW(apply(negative, negative), ShapeMismatch);
  EXPECT_EQ(A->products() - before, 2) << "refused products do not count";
}

INSTANTIATE_TEST_SUITE_P(Formats, Multi, testing::ValuesIn(cases()), [](const auto& instance) {
  return words(instance.param.format->id) + "_" + std::string(to_string(instance.param.space));
});

// Rows in any order of their columns, which csr allows on a host.
TEST(MultiCsr, UnsortedRows) {
  const std::vector<std::int32_t> row_ptr = {0, 3, 3, 5}, col = {3, 0, 2, 1, 0};
  const std::vector<double> values = {1, 2, 3, 4, 5};
  const auto csr = csr_view<double>(test_context(), 3, 4, 5, row_ptr.data(), col.data(), values.data());
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  const auto x = sample_columns<double>(4, 5, 1);
  for (const MultiShape& shape : multi_shapes()) {
    PlacedColumns<double> px(test_context(), x, 4, shape),
        y(test_context(), sample_columns<double>(3, 5, 2), 3, shape);
    multi_apply<double>(*A, px.read(), y.view());
    const Columns<double> found = y.fetch();
    for (std::size_t j = 0; j < x.size(); ++j)
      EXPECT_TRUE(product_is_right(csr, 1.0, x[j], 0.0, x[j], found[j]));
  }
}

}  // namespace
}  // namespace protean::test
