// Operations on several vectors: each against sums in long double, vectors that do not run keep their bits, and the
// same bits for any number of threads.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "gtest/gtest.h"
#include "multi_blas1_sizes.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

// A vector that does not run, or whose number is 0, becomes 0, whatever it holds.
TEST_P(MultiBlas1, Divided) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::int64_t n : {1, 77, 1500})
    for (const std::int64_t w : {1, 3, 8, 13}) {
      auto v = sample_columns<double>(n, w, 1);
      std::vector<double> s;
      for (std::int64_t j = 0; j < w; ++j) s.push_back(j == 2 ? 0 : 4);
      if (w > 2) v[1][0] = v[2][0] = inf;
      PlacedColumns<double> V(context_, v, n, interleaved);
      Placed<double> running(context_, all_but<double>(w, 1)), ps(context_, s);
      multi_divide<double>(*context_, ps.data(), V.view(), running.data());
      const auto divided = V.fetch();
      for (std::size_t j = 0; j < static_cast<std::size_t>(w); ++j)
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
          ASSERT_EQ(divided[j][i], j == 1 || j == 2 ? 0 : v[j][i] / 4);
    }
}

// Updates with a coefficient for each vector: all uses of the two, with and without the squares. What a coefficient of
// 0 belongs to holds NaN, and so does a vector that does not run.
template <class T>
void check_axpby(const ContextPtr& context) {
  const T nan = std::numeric_limits<T>::quiet_NaN(), eps = std::numeric_limits<T>::epsilon();
  for (const std::int64_t n : sizes)
    for (const std::int64_t w : widths)
      for (const bool with_x : {false, true})
        for (const bool with_y : {false, true})
          for (const bool in_place : {false, true}) {
            if (in_place && (with_x || !with_y)) continue;
            SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(w) + " vectors" +
                         (with_x ? ", x" : "") + (with_y ? ", y" : "") + (in_place ? ", X is Y" : ""));
            constexpr std::int64_t dead = 1;
            auto x = sample_columns<T>(n, w, 1), y = sample_columns<T>(n, w, 2);
            const Columns<T> all_nan(static_cast<std::size_t>(w),
                                     std::vector<T>(static_cast<std::size_t>(n), nan));
            if (!with_x && !in_place) x = all_nan;
            if (!with_y) y = all_nan;
            std::vector<T> top, bottom, factor;
            for (std::int64_t j = 0; j < w; ++j) {
              top.push_back(j == dead ? nan : static_cast<T>(3 + j));
              bottom.push_back(j == dead ? nan : static_cast<T>(j == 2 ? 0 : j == 3 ? -2 : 8));
              factor.push_back(j == dead ? nan : static_cast<T>(j == 4 ? -1 : 0.75));
            }
            Placed<T> ptop(context, top), pbottom(context, bottom), pfactor(context, factor),
                running(context, all_but<T>(w, dead)),
                squares(context, std::vector<T>(static_cast<std::size_t>(w), T(7)));
            PlacedColumns<T> X(context, x, n, interleaved), Y(context, y, n, interleaved),
                same(context, y, n, interleaved);
            const Coefficient<T> a = with_x
                                         ? Coefficient<T>{-2, ptop.data(), pbottom.data(), Demand::positive}
                                         : Coefficient<T>(0);
            const Coefficient<T> b = with_y ? Coefficient<T>{1, pfactor.data()} : Coefficient<T>(0);
            multi_axpby<T>(*context, a, in_place ? Y.read() : X.read(), b, Y.view(), running.data(),
                           squares.data());
            multi_axpby<T>(*context, a, in_place ? same.read() : X.read(), b, same.view(), running.data());
            const auto found = Y.fetch(), without = same.fetch();
            const auto found_squares = squares.fetch();
            for (std::size_t j = 0; j < static_cast<std::size_t>(w); ++j) {
              if (static_cast<std::int64_t>(j) == dead) {
                EXPECT_EQ(found_squares[j], T(7));
                for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
                  EXPECT_TRUE(with_y ? found[j][i] == y[j][i] : std::isnan(found[j][i]));
                continue;
              }
              EXPECT_EQ(without[j], found[j]) << "with and without the squares";
              const T aj = with_x && bottom[j] > 0 ? -2 * top[j] / bottom[j] : T(0);
              long double square = 0;
              for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
                const long double ax = with_x ? static_cast<long double>(aj) * x[j][i] : 0,
                                  by = with_y ? static_cast<long double>(factor[j]) * y[j][i] : 0;
                EXPECT_LE(std::fabs(found[j][i] - (ax + by)), 4 * eps * (std::fabs(ax) + std::fabs(by)));
                square += static_cast<long double>(found[j][i]) * found[j][i];
              }
              EXPECT_TRUE(near<T>(found_squares[j], square, square, n));
            }
            if (testing::Test::HasFailure()) return;
          }
}

TEST_P(MultiBlas1, UpdatesInDouble) { check_axpby<double>(context_); }

TEST_P(MultiBlas1, UpdatesInFloat) { check_axpby<float>(context_); }

TEST_P(MultiBlas1, ProductsOfScalars) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t w : {1, 2, 3, 8, 17, 70}) {
    const auto at = [](std::int64_t j) { return static_cast<double>(j); };
    std::vector<double> top, bottom, other;
    for (std::int64_t j = 0; j < w; ++j) {
      top.push_back(j == 1 ? nan : 1 + at(j)), bottom.push_back(j == 2 ? 0 : j == 3 ? nan : 4);
      other.push_back(j == 1 ? nan : 0.5 - at(j));
    }
    Placed<double> ptop(context_, top), pbottom(context_, bottom), pother(context_, other),
        running(context_, all_but<double>(w, 1)),
        result(context_, std::vector<double>(static_cast<std::size_t>(w), 7.0));
    multi_scalar_product<double>(*context_, w, {2, ptop.data(), pbottom.data(), Demand::nonzero},
                                 {1, pother.data()}, running.data(), result.data());
    // In place.
    multi_scalar_product<double>(*context_, w, {1, pother.data()}, {1, pother.data()}, running.data(),
                                 pother.data());
    const auto found = result.fetch(), squares = pother.fetch();
    for (std::size_t j = 0; j < static_cast<std::size_t>(w); ++j) {
      EXPECT_EQ(found[j], j == 1 ? 7 : j == 2 || j == 3 ? 0 : 2 * top[j] / 4 * other[j]) << j;
      if (j != 1) { EXPECT_EQ(squares[j], other[j] * other[j]) << j; }
    }
    if (w > 1) { EXPECT_TRUE(std::isnan(squares[1])); }
  }
}

// Vectors, except sums, have the bits of the operation for one vector.
TEST(MultiUpdates, OfOneVectorHaveTheBitsOfTheSingleOperation) {
  const ContextPtr context = test_context();
  const std::int64_t n = 1501;
  const auto x = sample_columns<double>(n, 1, 1), y = sample_columns<double>(n, 1, 2);
  const std::vector<double> numbers = {0.3, 7, -1.7};
  const Coefficient<double> a{-1, &numbers[0], &numbers[1], Demand::positive}, b{1, &numbers[2]};
  const std::vector<double> running = {1};
  for (const Coefficient<double>& of_y : {b, Coefficient<double>(1), Coefficient<double>(0)}) {
    PlacedColumns<double> X(context, x, n, interleaved), Y(context, y, n, interleaved);
    multi_axpby<double>(*context, a, X.read(), of_y, Y.view(), running.data());
    std::vector<double> single = y[0];
    axpby<double>(*context, a, {x[0].data(), n}, of_y, {single.data(), n});
    EXPECT_EQ(Y.fetch()[0], single);
  }
  double product = 0, same = 0;
  multi_scalar_product<double>(*context, 1, a, b, running.data(), &product);
  scalar_product<double>(*context, a, b, &same);
  EXPECT_EQ(product, same);
}

TEST_P(MultiBlas1, ColumnsAreCopiedBetweenLayouts) {
  for (const std::int64_t n : {0, 1, 513, 2000})
    for (const MultiShape& from : multi_shapes())
      for (const MultiShape& to : multi_shapes()) {
        SCOPED_TRACE(from.name() + " to " + to.name());
        const auto source = sample_columns<double>(n, 5, 1);
        const auto before = sample_columns<double>(n, 4, 9);
        PlacedColumns<double> in(context_, source, n, from), out(context_, before, n, to);
        const std::vector<ColumnPair> pairs = {{4, 0}, {1, 3}, {-1, 2}};
        copy_columns<double>(*context_, in.read(), out.view(), pairs);
        const auto found = out.fetch();
        EXPECT_EQ(found[0], source[4]);
        EXPECT_EQ(found[1], before[1]) << "was not asked for";
        EXPECT_EQ(found[2], std::vector<double>(static_cast<std::size_t>(n), 0.0));
        EXPECT_EQ(found[3], source[1]);
        EXPECT_TRUE(out.gaps_are_untouched());
      }
}

TEST_P(MultiBlas1, ManyPairsAreCopied) {
  const std::int64_t n = 30, k = 150;
  const auto source = sample_columns<double>(n, k, 1);
  PlacedColumns<double> in(context_, source, n, {VectorLayout::columns, 0}),
      out(context_, sample_columns<double>(n, k, 2), n, interleaved);
  std::vector<ColumnPair> pairs;
  for (std::int32_t j = 0; j < k; ++j) pairs.push_back({static_cast<std::int32_t>(k - 1 - j), j});
  copy_columns<double>(*context_, in.read(), out.view(), pairs);
  const auto found = out.fetch();
  for (std::size_t j = 0; j < static_cast<std::size_t>(k); ++j)
    EXPECT_EQ(found[j], source[static_cast<std::size_t>(k) - 1 - j]);
}

TEST_P(MultiBlas1, ResidualsOfSomeColumns) {
  for (const std::int64_t n : sizes) {
    const auto b = sample_columns<double>(n, 6, 1), r = sample_columns<double>(n, 4, 2);
    for (const MultiShape& shape : multi_shapes()) {
      PlacedColumns<double> B(context_, b, n, shape), R(context_, r, n, interleaved);
      Placed<double> result(context_, std::vector<double>(4, -1.0));
      const std::vector<ColumnPair> pairs = {{5, 1}, {0, 3}};
      multi_residual<double>(*context_, B.read(), R.view(), pairs, result.data());
      const auto found = R.fetch();
      const auto sums = result.fetch();
      EXPECT_EQ(found[0], r[0]);
      EXPECT_EQ(found[2], r[2]);
      EXPECT_EQ(sums[0], -1);
      EXPECT_EQ(sums[2], -1);
      for (const ColumnPair pair : pairs) {
        const auto from = static_cast<std::size_t>(pair.from), to = static_cast<std::size_t>(pair.to);
        long double sum = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
          EXPECT_EQ(found[to][i], b[from][i] - r[to][i]);
          sum += static_cast<long double>(found[to][i]) * found[to][i];
        }
        EXPECT_TRUE(near<double>(sums[to], sum, sum, n));
      }
    }
  }
}

TEST_P(MultiBlas1, ScaledAndMultiplied) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t n = 1500, w = 5;
  const auto v = sample_columns<double>(n, w, 1), y = sample_columns<double>(n, w, 3);
  const auto d = sample_vector<double>(n, 2);
  for (const MultiShape& shape : multi_shapes()) {
    PlacedColumns<double> V(context_, v, n, shape),
        poison(context_, Columns<double>(w, std::vector<double>(n, nan)), n, shape);
    multi_scale<double>(*context_, 0.5, V.view());
    multi_scale<double>(*context_, 0.0, poison.view());
    const auto scaled = V.fetch(), zero = poison.fetch();
    for (std::size_t j = 0; j < static_cast<std::size_t>(w); ++j)
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        ASSERT_EQ(scaled[j][i], 0.5 * v[j][i]);
        ASSERT_EQ(zero[j][i], 0.0);
      }
    EXPECT_TRUE(V.gaps_are_untouched());
    EXPECT_TRUE(poison.gaps_are_untouched());
  }
  PlacedColumns<double> X(context_, v, n, interleaved), Y(context_, y, n, interleaved);
  const Placed<double> pd(context_, d);
  Placed<double> running(context_, all_but<double>(w, 1));
  multi_multiply<double>(*context_, pd.read(), X.read(), Y.view(), running.data());
  const auto found = Y.fetch();
  for (std::size_t j = 0; j < static_cast<std::size_t>(w); ++j)
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
      ASSERT_EQ(found[j][i], j == 1 ? y[j][i] : d[i] * v[j][i]);
}

TEST_P(MultiBlas1, WhatDoesNotFitIsRefused) {
  MultiVector<double> a(context_, 10, 3, VectorLayout::interleaved),
      b(context_, 9, 3, VectorLayout::interleaved), c(context_, 10, 3);
  Vector<double> number(context_, 3);
  EXPECT_THROW(multi_dot<double>(*context_, a, b.view(), number.data(), number.data()), ShapeMismatch);
  EXPECT_THROW(multi_dot<double>(*context_, c, c.view(), number.data(), number.data()), BadArgument)
      << "layout";
  EXPECT_THROW(multi_axpby<double>(*context_, 1.0, a, 1.0, b.view(), number.data()), ShapeMismatch);
  EXPECT_THROW(multi_axpby<double>(*context_, 1.0, c, 1.0, c.view(), number.data()), BadArgument);
  const ColumnPair pair{0, 0};
  EXPECT_THROW(copy_columns<double>(*context_, a, b.view(), {&pair, 1}), ShapeMismatch);
  const auto block = [&](std::int64_t rows, std::int64_t stride) {
    return MultiVectorBlock<const double>{a.data(), rows, 3, stride, 2, a.space()};
  };
  EXPECT_THROW(multi_block_dot<double>(*context_, block(9, 30), a, number.data(), number.data()),
               ShapeMismatch);
  EXPECT_THROW(multi_block_dot<double>(*context_, block(10, 29), a, number.data(), number.data()),
               BadArgument);
}

// The address of the last entry would wrap around; the memory asked for, too.
TEST(MultiVectors, BeyondTheAddressSpaceAreRefused) {
  constexpr std::int64_t one = 1;
  const auto view = [](std::int64_t rows, std::int64_t columns, std::int64_t stride, VectorLayout layout) {
    static const double somewhere = 0;  // nothing is read
    return MultiVectorView<const double>{&somewhere, rows, columns, stride, layout, Space::host};
  };
  for (const int power : {60, 61, 62}) {
    const std::int64_t stride = one << power;
    EXPECT_THROW(require<double>(view(5, 4, stride, VectorLayout::columns), 5, 4, Space::host, "X"),
                 BadArgument);
    EXPECT_THROW(require<double>(view(4, 5, stride, VectorLayout::interleaved), 4, 5, Space::host, "X"),
                 BadArgument);
    EXPECT_THROW(require<double>(view(5, stride, 5, VectorLayout::columns), 5, stride, Space::host, "X"),
                 BadArgument);
    EXPECT_NO_THROW(require<double>(view(5, 1, stride, VectorLayout::columns), 5, 1, Space::host, "X"));
    EXPECT_THROW(MultiVector<double>(test_context(), stride, 4), OutOfMemory);
    EXPECT_THROW(MultiVector<double>(test_context(), 4, stride), OutOfMemory);
    EXPECT_THROW(Vector<double>(test_context(), stride), OutOfMemory);
  }
  // The last stride that fits: bytes up to 2^63 - 1.
  const std::int64_t most = (std::numeric_limits<std::int64_t>::max() / 8 - 5) / 3;
  EXPECT_NO_THROW(require<double>(view(5, 4, most, VectorLayout::columns), 5, 4, Space::host, "X"));
  EXPECT_THROW(require<double>(view(5, 4, most + 1, VectorLayout::columns), 5, 4, Space::host, "X"),
               BadArgument);
  EXPECT_THROW(MultiVector<double>(test_context(), one << 32, one << 32), OutOfMemory) << "0 modulo 2^64";
  EXPECT_THROW(MultiVector<double>(test_context(), -1, 3), BadArgument);
  EXPECT_THROW(Vector<double>(test_context(), -1), BadArgument);
}

TEST(MultiSums, HaveTheSameBitsForAnyNumberOfThreads) {
  const std::int64_t n = 20000, w = 6;
  const auto x = sample_columns<double>(n, w, 1), y = sample_columns<double>(n, w, 2);
  std::vector<double> first, squares, update_squares;
  Columns<double> vectors, updates;
  for (const int threads : {1, 2, 5}) {
    const ContextPtr context = Context::host(threads);
    PlacedColumns<double> X(context, x, n, interleaved), Y(context, y, n, interleaved);
    Placed<double> running(context, all_but<double>(w, w)),
        sums(context, std::vector<double>(static_cast<std::size_t>(w)));
    multi_dot<double>(*context, X.read(), Y.read(), running.data(), sums.data());
    if (first.empty()) first = sums.fetch();
    EXPECT_EQ(sums.fetch(), first) << threads;
    // y - (x . y) x with its squares.
    Placed<double> of_update(context, std::vector<double>(static_cast<std::size_t>(w)));
    PlacedColumns<double> updated(context, y, n, interleaved);
    multi_axpby<double>(*context, {-1, sums.data()}, X.read(), 1.0, updated.view(), running.data(),
                        of_update.data());
    if (update_squares.empty()) update_squares = of_update.fetch(), updates = updated.fetch();
    EXPECT_EQ(of_update.fetch(), update_squares) << threads;
    EXPECT_EQ(updated.fetch(), updates) << threads;
    // For the groups of GMRES: X as a separate group, so the same dot products, and vectors from them.
    Placed<double> dots(context, std::vector<double>(static_cast<std::size_t>(w)));
    const MultiVectorBlock<const double> group{X.view().data, n, w, n * w, 1, Space::host};
    multi_block_dot<double>(*context, group, Y.read(), running.data(), dots.data());
    multi_block_axpy<double>(*context, -1, group, dots.data(), Y.view(), running.data(), sums.data());
    if (squares.empty()) squares = sums.fetch(), vectors = Y.fetch();
    EXPECT_EQ(sums.fetch(), squares) << threads;
    EXPECT_EQ(Y.fetch(), vectors) << threads;
  }
}

}  // namespace
}  // namespace protean::test
