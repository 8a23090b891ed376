// Small systems with known answers, and operators that are not storage formats.
#pragma once
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operators/callback_operator.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"

namespace protean::test {

// A dense matrix in long double, row by row: the reference.
struct Dense {
  std::int64_t n = 0;
  std::vector<long double> a;
  explicit Dense(std::int64_t size) : n(size), a(static_cast<std::size_t>(size * size), 0.0L) {}
  long double& operator()(std::int64_t i, std::int64_t j) { return a[i * n + j]; }
  long double operator()(std::int64_t i, std::int64_t j) const { return a[i * n + j]; }
};

// Gaussian elimination with row pivoting.
inline std::vector<long double> direct_solution(Dense A, std::vector<long double> b) {
  const std::int64_t n = A.n;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < n; ++i)
      if (std::abs(A(i, k)) > std::abs(A(pivot, k))) pivot = i;
    for (std::int64_t j = 0; j < n; ++j) std::swap(A(k, j), A(pivot, j));
    std::swap(b[k], b[pivot]);
    for (std::int64_t i = k + 1; i < n; ++i) {
      const long double f = A(i, k) / A(k, k);
      for (std::int64_t j = k; j < n; ++j) A(i, j) -= f * A(k, j);
      b[i] -= f * b[k];
    }
  }
  for (std::int64_t i = n - 1; i >= 0; --i) {
    for (std::int64_t j = i + 1; j < n; ++j) b[i] -= A(i, j) * b[j];
    b[i] /= A(i, i);
  }
  return b;
}

// An operator of a user: dense rows, with a hook that may change the result of each product.
template <class T>
class DenseOperator : public LinearOperator<T>, public HasDiagonal<T> {
 public:
  explicit DenseOperator(Dense matrix, ContextPtr context = test_context())
      : LinearOperator<T>(std::move(context), {matrix.n, matrix.n}), matrix_(std::move(matrix)) {}
  std::string_view name() const noexcept override { return "dense"; }
  Revision revision() const noexcept override { return revision_; }
  void diagonal(VectorView<T> d) const override {
    for (std::int64_t i = 0; i < matrix_.n; ++i) d[i] = static_cast<T>(matrix_(i, i));
  }
  const Dense& matrix() const { return matrix_; }

  // Called after each product as after(number, y); the first product has number 1.
  std::function<void(std::int64_t, VectorView<T>)> after;
  Revision revision_;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    for (std::int64_t i = 0; i < matrix_.n; ++i) {
      T sum = 0;
      for (std::int64_t j = 0; j < matrix_.n; ++j) sum += static_cast<T>(matrix_(i, j)) * x[j];
      y[i] = beta == T(0) ? alpha * sum : alpha * sum + beta * y[i];
    }
    if (after) after(this->products(), y);
  }

 private:
  Dense matrix_;
};

inline Dense poisson_1d(std::int64_t n) {
  Dense A(n);
  for (std::int64_t i = 0; i < n; ++i) {
    A(i, i) = 2;
    if (i > 0) A(i, i - 1) = A(i - 1, i) = -1;
  }
  return A;
}
// Laplacian on an m x m grid with upwinded convection c in direction x; not symmetric for c != 0.
inline Dense convection_2d(std::int64_t m, long double c) {
  Dense A(m * m);
  for (std::int64_t y = 0; y < m; ++y)
    for (std::int64_t x = 0; x < m; ++x) {
      const std::int64_t i = y * m + x;
      A(i, i) = 4 + c;
      if (x > 0) A(i, i - 1) = -1 - c;
      if (x + 1 < m) A(i, i + 1) = -1;
      if (y > 0) A(i, i - m) = -1;
      if (y + 1 < m) A(i, i + m) = -1;
    }
  return A;
}
inline Dense diagonal_matrix(const std::vector<long double>& d) {
  Dense A(static_cast<std::int64_t>(d.size()));
  for (std::int64_t i = 0; i < A.n; ++i) A(i, i) = d[i];
  return A;
}
// A full matrix with the eigenvalues d: Q D Q with the Householder reflection Q of a fixed vector.
inline Dense rotated(const std::vector<long double>& d) {
  const auto n = static_cast<std::int64_t>(d.size());
  std::vector<long double> v(d.size());
  long double vv = 0;
  for (std::int64_t i = 0; i < n; ++i) v[i] = 1 + (i * 7 % 5), vv += v[i] * v[i];
  Dense Q(n), A(n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) Q(i, j) = (i == j) - 2 * v[i] * v[j] / vv;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t k = 0; k < n; ++k) A(i, j) += Q(i, k) * d[k] * Q(k, j);
  return A;
}

// b = 1, 1/2, 1/3, ... with alternating signs
template <class T>
std::vector<T> right_hand_side(std::int64_t n) {
  std::vector<T> b(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) b[i] = static_cast<T>((i % 2 ? -1.0 : 1.0) / (1 + i % 7));
  return b;
}

template <class T>
VectorView<T> view(std::vector<T>& v) {
  return {v.data(), static_cast<std::int64_t>(v.size()), Space::host};
}
template <class T>
VectorView<const T> view(const std::vector<T>& v) {
  return {v.data(), static_cast<std::int64_t>(v.size()), Space::host};
}

// ||b - A x|| in long double
template <class T>
long double residual_norm(const Dense& A, const std::vector<T>& b, const std::vector<T>& x) {
  long double sum = 0;
  for (std::int64_t i = 0; i < A.n; ++i) {
    long double r = b[i];
    for (std::int64_t j = 0; j < A.n; ++j) r -= A(i, j) * x[j];
    sum += r * r;
  }
  return std::sqrt(sum);
}

// The ids of all methods.
inline std::vector<const char*> all_methods() {
  std::vector<const char*> ids;
  for (const SolverEntry& entry : solvers()) ids.push_back(entry.id.data());
  return ids;
}

struct History final : SolveObserver {
  std::vector<IterationInfo> seen;
  std::function<bool(const IterationInfo&)> then;
  bool on_iteration(const IterationInfo& info) override {
    seen.push_back(info);
    return !then || then(info);
  }
};

}  // namespace protean::test
