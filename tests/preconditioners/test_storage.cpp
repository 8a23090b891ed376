// Preconditioners in float for solves in double precision, on the host, on a simulated device, and on a GPU if there
// is one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "operators/multi_product.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/stored_types.hpp"
#include "solvers/systems.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

double dot_of(const std::vector<double>& x, const std::vector<double>& y) {
  long double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<long double>(x[i]) * y[i];
  return static_cast<double>(sum);
}

class Storage : public InSpace {};
INSTANTIATE_TEST_SUITE_P(Spaces, Storage, testing::Values(Where::host, Where::simulated, Where::gpu),
                         name_of_space);

// It computes what the same type computes in single precision, of the rounded entries and the rounded vector, to the
// bit.
TEST_P(Storage, IsTheTypeInFloat) {
  for (const std::string& id : stored_ids())
    for (const Dense& A : matrices_for(id)) {
      const auto M = ready<double>(id, *matrix(sparse(A)), options_of(id, single));
      EXPECT_EQ(M->storage(), "float");
      EXPECT_EQ(M->name(), id);
      EXPECT_EQ(M->symmetric(), is_symmetric_type(id));
      const auto in_float = ready<float>(id, *matrix(sparse<float>(A)), options_of(id, twice));
      const std::vector<double> r = random_vector(A.n, 5), z = apply(*M, r);
      const std::vector<float> expected = apply(*in_float, std::vector<float>(r.begin(), r.end()));
      for (std::size_t i = 0; i < r.size(); ++i) ASSERT_EQ(z[i], expected[i]) << id << ' ' << i;
      EXPECT_EQ(apply(*M, r), z) << id;
    }
}

TEST_P(Storage, IsCloseToTheDoubleOneAndSymmetric) {
  for (const std::string& id : stored_ids())
    for (const Dense& A : matrices_for(id)) {
      const auto A_here = matrix(sparse(A));
      const auto M = ready<double>(id, *A_here, options_of(id, single));
      const auto in_double = ready<double>(id, *A_here, options_of(id, twice));
      EXPECT_EQ(in_double->storage(), "double");
      expect_same(dense(*M), dense(*in_double), 2e-5);
      if (!M->symmetric() || A.n == 1) continue;
      const std::vector<double> r = random_vector(A.n, 1), s = random_vector(A.n, 2), Mr = apply(*M, r),
                                Ms = apply(*M, s);
      const double size = std::sqrt(dot_of(s, s) * dot_of(Mr, Mr));
      EXPECT_NEAR(dot_of(r, Ms), dot_of(s, Mr), 1e-6 * size) << id;
    }
}

TEST_P(Storage, AlphaAndBetaAndNaNsInTheResult) {
  const Dense A = thirds(poisson_2d(8));
  const auto A_here = matrix(sparse(A));
  for (const std::string& id : stored_ids()) {
    const auto M = make_preconditioner<double>(id, *A_here, options_of(id, single));
    const std::vector<double> r = right_hand_side<double>(64);
    const Placed<double> x(context_, r);
    Placed<double> y(context_, std::vector<double>(64, 2.0));
    EXPECT_SAYS(message<BadArgument>([&] { M->apply(x.read(), y.view()); }),
                "the " + id + " preconditioner is applied before ensure(A)");
    M->ensure(*A_here);
    const std::vector<double> z = apply(*M, r);  // over NaNs
    M->apply(3, x.read(), -2, y.view());
    std::vector<double> got = y.fetch();
    for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(got[i], 3 * z[i] - 4, 1e-13) << id;
    M->apply(0, x.read(), -0.5, y.view());
    got = y.fetch();
    for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(got[i], 2 - 1.5 * z[i], 1e-13) << id;
    // What is not finite passes, and leaves nothing behind.
    for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      std::vector<double> with = r;
      with[17] = bad;
      EXPECT_FALSE(std::isfinite(apply(*M, with)[17])) << id;
      EXPECT_EQ(apply(*M, r), z) << id;
    }
  }
}

// Vectors of any size: their scale is a power of two, which rounds nothing.
TEST_P(Storage, VectorsOfAnySize) {
  const Dense A = thirds(poisson_2d(8));
  for (const double unit : {1.0, 0x1p100, 0x1p-100, 0x1p37}) {
    Dense scaled = A;
    for (long double& a : scaled.a) a *= unit;
    const auto A_here = matrix(sparse(scaled));
    for (const std::string& id : stored_ids()) {
      const auto M = ready<double>(id, *A_here, options_of(id, single));
      const std::vector<double> r = right_hand_side<double>(64), z = apply(*M, r);
      for (const int power : {-900, -150, -60, -20, 10, 40, 200, 850}) {
        std::vector<double> other = r, expected = z;
        for (double& x : other) x = std::ldexp(x, power);
        for (double& x : expected) x = std::ldexp(x, power);
        EXPECT_EQ(apply(*M, other), expected) << id << ' ' << power << ' ' << unit;
      }
      EXPECT_EQ(apply(*M, std::vector<double>(64, 0.0)), std::vector<double>(64, 0.0));
      // The smallest numbers that there are.
      std::vector<double> least(64, 0.0);
      least[5] = 5e-324;
      const std::vector<double> tiny = apply(*M, least);
      EXPECT_TRUE(std::all_of(tiny.begin(), tiny.end(), [](double x) { return std::isfinite(x); })) << id;
    }
  }
}

// Random sequences of new values, other patterns, and matrices that are refused: the bits of an object made anew, and
// of the last one that was set up.
TEST_P(Storage, RenewedAsMadeAnewAlsoAfterFailures) {
  std::mt19937 random(29);
  std::vector<CsrMatrix<double>> patterns;
  for (const Dense& A : {poisson_2d(8), poisson_1d(64), full(64)}) patterns.push_back(sparse(thirds(A)));
  for (const std::string& id : stored_ids())
    for (const PreconditionerStorage storage : {single, automatic}) {
      const PreconditionerOptions options = options_of(id, storage);
      std::vector<std::unique_ptr<AssembledMatrix<double>>> matrices;
      for (const CsrMatrix<double>& csr : patterns) matrices.push_back(matrix(csr));
      const auto M = make_preconditioner<double>(id, *matrices[0], options);
      const std::vector<double> r = right_hand_side<double>(64);
      std::vector<double> last;
      std::uint64_t version = 0;
      std::size_t which_was = patterns.size();
      for (int step = 0; step < 20; ++step) {
        const std::size_t which =
            random() % 3 == 0 ? random() % patterns.size() : which_was % patterns.size();
        const CsrMatrix<double>& csr = patterns[which];
        std::vector<double> values(csr.values, csr.values + csr.nonzeros());
        const double factor = 1 + static_cast<double>(random() % 1000) / 300;
        for (double& a : values) a *= factor;
        // 0: an entry that float does not have; 1: one that no type takes; else a good matrix.
        const unsigned trouble = random() % 6;
        if (trouble == 0) values[3] = -1e60;
        if (trouble == 1) values[3] = std::numeric_limits<double>::infinity();
        const CsrMatrix<double> next = with_values(csr, values.data());
        matrices[which]->update_values(placed(context_, next));
        const bool refused = trouble == 1 || (trouble == 0 && storage == single);
        if (refused) {
          EXPECT_THROW(M->ensure(*matrices[which]), BadMatrix) << id;
          // amg multiplies by the matrix of its last setup, which may be this one.
          if (!last.empty() && !(id == "amg" && which == which_was)) {
            EXPECT_EQ(apply(*M, r), last) << id << ' ' << step;
          }
          continue;
        }
        try {
          M->ensure(*matrices[which]);
        } catch (const BadMatrix&) {
          // What double refuses, too: a matrix that -1e60 has made indefinite or not symmetric.
          ASSERT_EQ(trouble, 0u) << id;
          EXPECT_THROW(ready<double>(id, *matrices[which], options_of(id, twice)), BadMatrix) << id;
          continue;
        }
        last = apply(*M, r);
        const auto anew =
            ready<double>(id, *matrix(next), options_of(id, M->storage() == "float" ? single : twice));
        EXPECT_EQ(last, apply(*anew, r)) << id << ' ' << step;
        EXPECT_EQ(M->storage_reason().empty(), M->storage() == "float") << M->storage_reason();
        if (trouble == 0) { EXPECT_EQ(M->storage(), "double") << id; }
        // Steps that a solver has recorded stay right, as with doubles.
        const bool keeps = id.starts_with("i") && !id.starts_with("isai");
        if (keeps && which == which_was && GetParam() != Where::host && trouble > 1 &&
            M->storage() == "float") {
          EXPECT_EQ(M->recording().version, version) << id << ' ' << step;
        }
        EXPECT_TRUE(M->recording().allowed) << id;
        version = M->recording().version, which_was = which;
      }
    }
}

TEST_P(Storage, EntriesThatFloatDoesNotHave) {
  const Dense good = thirds(poisson_1d(6));
  struct Case {
    std::int64_t row;
    std::vector<std::pair<std::int64_t, long double>> entries;  // column, value
  };
  const std::vector<Case> cases = {{2, {{2, 1e60L}}},                             // too large
                                   {4, {{3, 1e-45L}, {4, 2e-45L}, {5, 1e-45L}}},  // a row of zeros in float
                                   {1, {{0, 3e-39L}, {1, 8e-39L}, {2, 3e-39L}}},  // a row that loses digits
                                   {3, {{3, 1e-300L}}}};  // a diagonal entry that is lost
  for (const Case& one : cases) {
    Dense A = good;
    for (const auto& [j, value] : one.entries) A(one.row, j) = value, A(j, one.row) = value;
    std::int64_t first = one.row;
    // The mirrored entries leave their rows with larger ones.
    const auto A_here = matrix(sparse(A));
    for (const std::string& id : stored_ids()) {
      const std::string text =
          message<BadMatrix>([&] { ready<double>(id, *A_here, options_of(id, single)); });
      EXPECT_SAYS(text, id + " with storage float needs entries from 1.2e-38 to 8.5e+37");
      EXPECT_SAYS(text, "the entries of row " + std::to_string(first));
      EXPECT_SAYS(text, "storage: double");
      std::string in_double = message<BadMatrix>([&] { ready<double>(id, *A_here, options_of(id, twice)); });
      if (in_double == "nothing was thrown") {
        const auto M = ready<double>(id, *A_here, options_of(id, automatic));
        EXPECT_EQ(M->storage(), "double");
        EXPECT_SAYS(M->storage_reason(), "the entries of row " + std::to_string(first));
        const std::vector<double> r = right_hand_side<double>(6);
        EXPECT_EQ(apply(*M, r), apply(*ready<double>(id, *A_here, options_of(id, twice)), r)) << id;
      } else {
        EXPECT_EQ(message<BadMatrix>([&] { ready<double>(id, *A_here, options_of(id, automatic)); }),
                  in_double);
      }
    }
  }
  // Entries at the ends of the range, and small ones next to larger ones, are taken.
  Dense A = good;
  A(0, 0) = 0x1p126L, A(5, 4) = A(4, 5) = 1e-60L, A(5, 5) = 0x1p-126L;
  EXPECT_EQ(ready<double>("ilu0", *matrix(sparse(A)), options_of("ilu0", single))->storage(), "float");
}

// Positive definite in double and singular in float: what needs no shift in double needs one in float.
TEST_P(Storage, AFactorizationThatBreaksDownInFloatAlone) {
  Dense A = diagonal_matrix({1, 1, 4});
  A(0, 1) = A(1, 0) = 1 - 1e-10L;
  const auto A_here = matrix(sparse(A));
  for (const char* id : {"ic0", "ic", "ilu0", "ilu", "isai", "isai-lu"}) {
    const auto in_double = ready<double>(id, *A_here, options_of(id, twice));
    EXPECT_EQ(figure(*in_double, "shift"), 0) << id;
    const auto in_float = ready<double>(id, *A_here, options_of(id, single));
    EXPECT_EQ(in_float->storage(), "float");
    EXPECT_GT(figure(*in_float, "shift"), 0) << id;
    const auto either = ready<double>(id, *A_here, options_of(id, automatic));
    EXPECT_EQ(either->storage(), "double") << id;
    EXPECT_SAYS(either->storage_reason(), "in float the factorization needs A + 0.001 D instead of A");
    const std::vector<double> r = right_hand_side<double>(3);
    EXPECT_EQ(apply(*either, r), apply(*in_double, r)) << id;
  }
  // Blocks that are singular in float are refused there.
  const auto blocks = [&](PreconditionerStorage storage) {
    return ready<double>("block-jacobi", *A_here,
                         {.storage = storage, .block_size = 3, .blocks = DiagonalBlocks::equal});
  };
  EXPECT_SAYS(message<BadMatrix>([&] { blocks(single); }),
              "the entries were rounded to float, since storage is float");
  EXPECT_EQ(blocks(automatic)->storage(), "double");
}

// All columns at once, each with a scale of its own.
TEST_P(Storage, SeveralColumns) {
  const std::int64_t n = 64, k = 4;
  const auto A_here = matrix(sparse(thirds(poisson_2d(8))));
  std::int64_t at_once = 0;
  for (const std::string& id : stored_ids()) {
    const auto M = ready<double>(id, *A_here, options_of(id, single));
    at_once += column_by_column(*M).empty();
    std::vector<std::vector<double>> columns, expected;
    for (const int power : {0, -700, 800, 3}) {
      columns.push_back(random_vector(n, static_cast<unsigned>(power + 1000)));
      for (double& x : columns.back()) x = std::ldexp(x, power);
    }
    columns[3][9] = std::nan("");
    for (const auto& r : columns) expected.push_back(apply(*M, r));
    for (const VectorLayout layout : {VectorLayout::columns, VectorLayout::interleaved}) {
      const std::int64_t rows_step = layout == VectorLayout::columns ? 1 : k,
                         step = layout == VectorLayout::columns ? n : 1;
      std::vector<double> all(static_cast<std::size_t>(n * k));
      for (std::int64_t j = 0; j < k; ++j)
        for (std::int64_t i = 0; i < n; ++i) all[i * rows_step + j * step] = columns[j][i];
      const Placed<double> X(context_, all);
      Placed<double> Y(context_, std::vector<double>(all.size(), std::nan("")));
      const std::int64_t stride = layout == VectorLayout::columns ? n : k;
      const MultiVectorView<const double> from{X.read().data, n, k, stride, layout, context_->space()};
      const MultiVectorView<double> to{Y.data(), n, k, stride, layout, context_->space()};
      for (const double beta : {0.0, 2.0}) {
        multi_apply<double>(*M, 1 - beta, from, beta, to);
        const std::vector<double> got = Y.fetch();
        // z, then -z + 2 z
        for (std::int64_t j = 0; j < 3; ++j) {
          double largest = 0, error = 0;
          for (std::int64_t i = 0; i < n; ++i) {
            largest = std::max(largest, std::abs(expected[j][i]));
            error = std::max(error, std::abs(got[i * rows_step + j * step] - expected[j][i]));
          }
          EXPECT_LE(error, 1e-6 * largest) << id << ' ' << j << ' ' << beta;
          EXPECT_GT(largest, 0);
        }
        EXPECT_TRUE(std::isnan(got[9 * rows_step + 3 * step])) << id;
      }
    }
  }
  if (GetParam() == Where::host) { EXPECT_GE(at_once, 4) << "ic0, ic, ilu0 and ilu"; }
}

// Half of the bytes, the entries of float are gone after the setup, and all buffers are counted.
TEST_P(Storage, Bytes) {
  const auto A_here = matrix(generate(test_context(), "poisson-3d", {{"n", 12}}));
  for (const std::string& id : stored_ids()) {
    const std::size_t before = allocated_bytes(*context_);
    const auto M = ready<double>(id, *A_here, options_of(id, single));
    const std::size_t now = allocated_bytes(*context_);
    EXPECT_GE(M->bytes() + 64, now - before) << id;
    const auto in_double = ready<double>(id, *A_here, options_of(id, twice));
    // amg also has the rounded matrix; a block of one row is smaller than the vectors.
    if (id == "block-jacobi") continue;
    EXPECT_LT(M->bytes(), in_double->bytes() + (id == "amg" ? A_here->bytes() : 0)) << id;
  }
}

}  // namespace
}  // namespace protean::test
