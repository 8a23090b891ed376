// Element matrices in all variants, against the sum over elements.
#pragma once
#include <cmath>
#include <limits>

#include "count_new.hpp"
#include "gtest/gtest.h"
#include "support/elements.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {

struct Variant {
  ElementScatter scatter;
  bool symmetric;
  Space space;
};

template <class T>
std::vector<T> only(const std::vector<T>& all, std::span<const std::int32_t> chosen) {
  std::vector<T> some;
  for (const std::int32_t u : chosen) some.push_back(all[u]);
  return some;
}

class Elements : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!test_context(GetParam().space)) GTEST_SKIP() << no_device;
  }
  std::vector<ContextPtr> contexts() const {
    if (GetParam().space == Space::device) return {test_context(Space::device)};
    return {Context::host(1), Context::host(3)};
  }
  ContextPtr context() const { return test_context(GetParam().space); }
  ElementOptions options(const ElementMesh& mesh) const {
    ElementOptions o;
    o.scatter = GetParam().scatter, o.symmetric = GetParam().symmetric;
    o.components = mesh.components, o.allow_unused_nodes = mesh.unused;
    return o;
  }
  template <class T>
  void check_product(const ElementOperator<T>& A, const ElementReference<T>& reference, T alpha, T beta) {
    const auto n = static_cast<std::int64_t>(reference.rows.size());
    const auto x = sample_vector<T>(n, 1);
    auto y0 = sample_vector<T>(n, 2);
    const auto rows = A.free_unknowns();
    const bool reduced = !rows.empty();
    if (beta == T(0)) std::fill(y0.begin(), y0.end(), std::numeric_limits<T>::quiet_NaN());
    Placed<T> there_x(A.context(), reduced ? only(x, rows) : x),
        there_y(A.context(), reduced ? only(y0, rows) : y0);
    A.apply(alpha, there_x.read(), beta, there_y.view());
    EXPECT_TRUE(elements_are_right(reference, alpha, x, beta, y0, expanded(A, there_y.fetch(), y0, beta, x)));
    check_columns(A, reference, alpha, beta);
    check_transposed(A, reference, alpha, beta);
    if (beta != T(0) || alpha != T(1)) return;
    const auto y = there_y.fetch();
    // The dot product in the same pass.
    Placed<T> result(A.context(), std::vector<T>{T(-1)});
    Placed<T> again(A.context(), y0.size() == y.size() ? y0 : only(y0, rows));
    apply_dot<T>(A, there_x.read(), again.view(), result.data());
    EXPECT_TRUE(elements_are_right(reference, alpha, x, beta, y0, expanded(A, again.fetch(), y0, beta, x)));
    long double dot = 0, magnitude = 0;
    const auto xs = there_x.fetch();
    for (std::size_t i = 0; i < y.size(); ++i) dot += static_cast<long double>(xs[i]) * y[i];
    for (std::size_t r = 0; r < reference.rows.size(); ++r)
      for (const auto& term : reference.rows[r])
        magnitude += std::fabs(static_cast<long double>(x[r]) * term.value * x[term.col]);
    EXPECT_LE(std::fabs(static_cast<double>(dot - static_cast<long double>(result.fetch()[0]))),
              20 * std::numeric_limits<T>::epsilon() * std::sqrt(static_cast<double>(n) + 20) *
                  static_cast<double>(magnitude));
    if (A.scatter() != ElementScatter::atomic) {
      Placed<T> third(A.context(), y);
      A.apply(T(1), there_x.read(), T(0), third.view());
      EXPECT_EQ(y, third.fetch()) << "the bits differ between runs";
    }
  }
  // A^T, whose terms are the terms of A with rows and columns exchanged.
  template <class T>
  void check_transposed(const ElementOperator<T>& A, const ElementReference<T>& reference, T alpha, T beta) {
    ElementReference<T> columns;
    columns.rows.resize(reference.rows.size());
    for (std::size_t r = 0; r < reference.rows.size(); ++r)
      for (const auto& term : reference.rows[r])
        columns.rows[term.col].push_back({static_cast<std::int32_t>(r), term.value});
    const auto n = static_cast<std::int64_t>(columns.rows.size());
    const auto x = sample_vector<T>(n, 3);
    auto y0 = sample_vector<T>(n, 4);
    const auto rows = A.free_unknowns();
    if (beta == T(0)) std::fill(y0.begin(), y0.end(), std::numeric_limits<T>::quiet_NaN());
    Placed<T> there_x(A.context(), rows.empty() ? x : only(x, rows)),
        there_y(A.context(), rows.empty() ? y0 : only(y0, rows));
    apply_transposed<T>(A, alpha, there_x.read(), beta, there_y.view());
    EXPECT_TRUE(elements_are_right(columns, alpha, x, beta, y0, expanded(A, there_y.fetch(), y0, beta, x)))
        << "transposed";
    EXPECT_EQ(A.transposed_bytes(), 0u);
  }
  // The same for several vectors: a group of four and one that is left over.
  template <class T>
  void check_columns(const ElementOperator<T>& A, const ElementReference<T>& reference, T alpha, T beta) {
    const auto n = static_cast<std::int64_t>(reference.rows.size());
    const auto rows = A.free_unknowns();
    const auto chosen = [&](const Columns<T>& all) {
      Columns<T> some;
      for (const auto& column : all) some.push_back(rows.empty() ? column : only(column, rows));
      return some;
    };
    const auto x = sample_columns<T>(n, 5, 1);
    auto y0 = sample_columns<T>(n, 5, 2);
    if (beta == T(0))
      for (auto& column : y0) std::fill(column.begin(), column.end(), std::numeric_limits<T>::quiet_NaN());
    EXPECT_EQ(column_by_column<T>(A).empty(), A.scatter() != ElementScatter::gather);
    for (const MultiShape& shape : {multi_shapes()[1], multi_shapes()[3]}) {
      PlacedColumns<T> X(A.context(), chosen(x), A.rows(), shape),
          Y(A.context(), chosen(y0), A.rows(), shape);
      multi_apply<T>(A, alpha, X.read(), beta, Y.view());
      const Columns<T> y = Y.fetch();
      for (std::size_t j = 0; j < y.size(); ++j)
        EXPECT_TRUE(
            elements_are_right(reference, alpha, x[j], beta, y0[j], expanded(A, y[j], y0[j], beta, x[j])))
            << "vector " << j << ", " << shape.name();
      EXPECT_TRUE(Y.gaps_are_untouched());
    }
  }
  // Eliminated rows are compared as rows of the identity.
  template <class T>
  static std::vector<T> expanded(const ElementOperator<T>& A, const std::vector<T>& y,
                                 const std::vector<T>& y0, T beta, const std::vector<T>& x, T alpha = T(1)) {
    const auto rows = A.free_unknowns();
    if (rows.empty() && y.size() == x.size()) return y;
    std::vector<T> all(x.size());
    for (std::size_t u = 0; u < all.size(); ++u) all[u] = alpha * x[u] + (beta == T(0) ? T(0) : beta * y0[u]);
    for (std::size_t i = 0; i < rows.size(); ++i) all[rows[i]] = y[i];
    return all;
  }
};

}  // namespace protean::test
