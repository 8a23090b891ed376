// The promises of a storage format beyond a right product, for every format and kernel on the host: any
// number of threads, several callers at once, no memory allocated by a product, and refusals of matrices that
// it cannot hold.
#include <atomic>
#include <barrier>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "count_new.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

struct Way {
  const FormatEntry* format;
  const Kernel* kernel;
};

std::vector<Way> ways() {
  std::vector<Way> list;
  for (const FormatEntry* format : layouts())
    for (const Kernel& kernel : format->kernels) list.push_back({format, &kernel});
  return list;
}

// Matrices large enough for every thread to get a part (most of the battery are too small), with dominant
// rows, gaps, and a wide spread of columns.
struct Large {
  std::string name;
  CsrMatrix<double> matrix;
};

CsrMatrix<double> random_rows(std::int64_t rows, std::int64_t cols, unsigned seed,
                              const std::function<std::int64_t(std::int64_t)>& length) {
  std::mt19937 random(seed);
  std::vector<Triplet<double>> triplets;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0, n = length(r); k < n; ++k) {
      // Each entry has its own range of columns, so that no column is drawn twice.
      const std::int64_t low = cols * k / n, high = cols * (k + 1) / n;
      triplets.push_back({static_cast<std::int32_t>(r),
                          static_cast<std::int32_t>(low + random() % (high - low)),
                          (static_cast<int>(random() % 63) - 31.5) / 8.0});
    }
  return csr_from_triplets<double>(test_context(), rows, cols, triplets);
}

const std::vector<Large>& large_matrices() {
  static const std::vector<Large> list = {
      {"stencil", battery_matrix("stencil_7point_12")},
      {"one row of half the entries",
       random_rows(2000, 2000, 1, [](std::int64_t r) { return r == 1300 ? 2000 : r % 3; })},
      {"entries at both ends only",
       random_rows(5000, 900, 2, [](std::int64_t r) { return r < 150 || r > 4800 ? 30 : 0; })},
      {"last row only", random_rows(40, 9000, 3, [](std::int64_t r) { return r == 39 ? 8000 : 0; })},
      {"even rows", random_rows(1500, 1500, 4, [](std::int64_t r) { return 5 + r % 4; })}};
  return list;
}

class Promises : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
  }
  // Null when the format refuses the matrix.
  std::unique_ptr<AssembledMatrix<double>> make(const CsrMatrix<double>& csr, const ContextPtr& context) {
    try {
      return make_matrix(*GetParam().format, csr, context, {}, GetParam().kernel->name);
    } catch (const FormatRefused&) { return nullptr; }
  }
};

TEST_P(Promises, AnyNumberOfThreads) {
  for (const auto& [name, csr] : large_matrices())
    for (const int threads : {1, 2, 3, 7}) {
      const auto matrix = make(csr, Context::host(threads));
      if (!matrix) continue;
      SCOPED_TRACE(name + ", threads " + std::to_string(threads));
      const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
      std::vector<double> y(y0.size(), std::numeric_limits<double>::quiet_NaN()), again = y;
      matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y0, y));
      matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {again.data(), csr.rows()});
      if (GetParam().format->traits.deterministic) { EXPECT_EQ(y, again); }
      y = y0;
      matrix->apply(-0.5, {x.data(), csr.cols()}, 2.0, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y));
      if (GetParam().format->traits.exact_values) { EXPECT_TRUE(identical(csr, matrix->to_csr())); }
      if (GetParam().kernel->name == "native") {
        const Context& context = *matrix->context();
        EXPECT_EQ(matrix->bytes(), admit(*GetParam().format, context, csr.pattern, matrix->params(),
                                         matrix->float_values() ? 4 : 8)
                                       .bytes);
      }
      std::vector<double> expected(std::min(csr.rows(), csr.cols())), found(expected.size(), -1e300);
      extract_diagonal(*test_context(), csr, expected.data());
      matrix->diagonal({found.data(), static_cast<std::int64_t>(found.size())});
      EXPECT_EQ(expected, found);
      if (csr.rows() != csr.cols()) continue;
      double dot = 0, reference = 0, magnitude = 0;
      apply_dot<double>(*matrix, {x.data(), csr.cols()}, {y.data(), csr.rows()}, &dot);
      EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y0, y));
      for (std::size_t i = 0; i < x.size(); ++i) reference += x[i] * y[i], magnitude += std::abs(x[i] * y[i]);
      EXPECT_NEAR(dot, reference, 1e-11 * magnitude);
    }
}

TEST_P(Promises, NewValuesWithAnyNumberOfThreads) {
  for (const auto& [name, csr] : large_matrices())
    for (const int threads : {1, 3}) {
      const auto matrix = make(csr, Context::host(threads));
      if (!matrix) continue;
      SCOPED_TRACE(name + ", threads " + std::to_string(threads));
      const CsrMatrix<double> changed = deep_copy(test_context(), csr);
      for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
        const_cast<double*>(changed.values)[k] = csr.values[k] * 2 - 1;
      const Revision before = matrix->revision();
      matrix->update_values(changed);
      EXPECT_GT(matrix->revision().values, before.values);
      if (GetParam().format->traits.exact_values) { EXPECT_TRUE(identical(changed, matrix->to_csr())); }
      std::vector<double> expected(std::min(csr.rows(), csr.cols())), found(expected.size(), -1e300);
      extract_diagonal(*test_context(), changed, expected.data());
      matrix->diagonal({found.data(), static_cast<std::int64_t>(found.size())});
      EXPECT_EQ(expected, found);
      const auto x = sample_vector<double>(csr.cols(), 1);
      std::vector<double> y(csr.rows());
      matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
      EXPECT_TRUE(product_is_right(changed, 1.0, x, 0.0, y, y));
    }
}

// Two threads of a caller begin each product together. Also in a deterministic context, in which a product with the old
// y may need memory of the matrix.
TEST_P(Promises, SeveralCallersAtOnce) {
  constexpr int rounds = 60;
  std::vector<ContextPtr> contexts{test_context()};
  if (GetParam().kernel->ordered) contexts.push_back(Context::host(2, {.deterministic = true}));
  for (const ContextPtr& context : contexts)
    for (const auto& [name, csr] : large_matrices()) {
      const auto matrix = make(csr, context);
      if (!matrix) continue;
      SCOPED_TRACE(name + (context->deterministic() ? ", deterministic" : ""));
      std::atomic<int> wrong{0};
      std::barrier together(2);
      const auto caller = [&matrix = *matrix, &csr = csr, &wrong, &together](unsigned seed) {
        const auto x = sample_vector<double>(csr.cols(), seed),
                   y0 = sample_vector<double>(csr.rows(), seed + 20);
        const VectorView<const double> from{x.data(), csr.cols()};
        auto y = y0;
        const VectorView<double> to{y.data(), csr.rows()};
        double dot = 0;
        for (int i = 0; i < rounds; ++i) {
          const double alpha = i % 3 == 1 ? 1 : -0.5, beta = i % 3 == 0 ? 2 : 0;
          y = y0;
          together.arrive_and_wait();
          if (i % 3 == 1 && csr.rows() == csr.cols())
            apply_dot<double>(matrix, from, to, &dot);
          else
            matrix.apply(alpha, from, beta, to);
          if (!product_is_right(csr, alpha, x, beta, y0, y)) ++wrong;
        }
      };
      const std::int64_t before = matrix->products();
      std::thread other(caller, 7);
      caller(8);
      other.join();
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(matrix->products() - before, 2 * rounds);
    }
}

TEST_P(Promises, AProductTakesNoMemory) {
  for (const auto& [name, csr] : large_matrices()) {
    const auto matrix = make(csr, test_context());
    if (!matrix) continue;
    SCOPED_TRACE(name);
    const auto x = sample_vector<double>(csr.cols(), 1);
    std::vector<double> y(csr.rows());
    const VectorView<const double> from{x.data(), csr.cols()};
    const VectorView<double> to{y.data(), csr.rows()};
    double dot = 0;
    matrix->apply(from, to);  // the threads are started here
    const std::size_t buffers = allocated_bytes();
    const std::int64_t news = count_of_new();
    matrix->apply(from, to);
    matrix->apply(2.0, from, 0.5, to);
    if (csr.rows() == csr.cols()) apply_dot<double>(*matrix, from, to, &dot);
    // Libraries may use operator new.
    if (GetParam().kernel->name == "native") { EXPECT_EQ(count_of_new() - news, 0); }
    EXPECT_EQ(allocated_bytes(), buffers);
  }
}

TEST_P(Promises, ValuesOfAnotherShapeAreRefusedAndNothingChanges) {
  const CsrMatrix<double>& csr = battery_matrix("stencil_7point_12");
  const auto matrix = make(csr, test_context());
  if (!matrix) return;
  const Revision before = matrix->revision();
  EXPECT_THROW(matrix->update_values(battery_matrix("band_asymmetric_67")), ShapeMismatch);
  EXPECT_THROW(matrix->update_values(battery_matrix("rows_0x5")), ShapeMismatch);
  // The same shape with one entry less.
  std::vector<std::int64_t> row_ptr;
  for (std::int64_t r = 0; r <= csr.rows(); ++r)
    row_ptr.push_back(csr.pattern.row_ptr[r] - (r == csr.rows()));
  EXPECT_THROW(matrix->update_values(
                   csr_view<double>(csr.rows(), csr.cols(), row_ptr.data(), csr.pattern.col, csr.values)),
               ShapeMismatch);
  EXPECT_EQ(matrix->revision(), before);
  EXPECT_TRUE(identical(csr, matrix->to_csr()));
}

TEST_P(Promises, VectorsThatDoNotFitAreRefused) {
  const CsrMatrix<double>& csr = battery_matrix("blocks_3x3_60");
  const auto matrix = make(csr, test_context());
  if (!matrix) return;
  std::vector<double> x(61), y(61);
  const auto apply = [&](std::int64_t cols, std::int64_t rows, double* to) {
    matrix->apply(VectorView<const double>{x.data(), cols}, {to, rows});
  };
  EXPECT_THROW(apply(61, 60, y.data()), ShapeMismatch);
  EXPECT_THROW(apply(60, 59, y.data()), ShapeMismatch);
  EXPECT_THROW(apply(60, 60, x.data() + 1), BadArgument);
  EXPECT_NO_THROW(apply(60, 60, y.data()));
}

TEST_P(Promises, RectangularIsRefusedWhereOnlySquareIsHeld) {
  for (const char* name : {"band_wide_rect_30x90", "band_tall_rect_90x30", "rows_0x5", "cols_5x0"}) {
    const auto matrix = make(battery_matrix(name), test_context());
    if (GetParam().format->traits.square_only) { EXPECT_EQ(matrix, nullptr) << name; }
  }
  if (GetParam().format->traits.symmetric_only) {
    EXPECT_EQ(make(battery_matrix("band_asymmetric_67"), test_context()), nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Promises, testing::ValuesIn(ways()), [](const auto& instance) {
  std::string name = std::string(instance.param.format->id) + "__" + std::string(instance.param.kernel->name);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace protean::test
