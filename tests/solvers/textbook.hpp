// Methods of textbooks in long double, and solves whose history is compared with them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "solvers/systems.hpp"
#include "support/battery.hpp"

namespace protean::test {

using Real = long double;
using Column = std::vector<Real>;

inline Column product(const Dense& A, const Column& x) {
  Column y(x.size(), 0);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j) y[i] += A(i, j) * x[j];
  return y;
}
inline Real dot_of(const Column& x, const Column& y) {
  Real sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}
inline Real length(const Column& x) { return std::sqrt(dot_of(x, x)); }
inline void add(Column& y, Real a, const Column& x) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += a * x[i];
}
inline Column residual(const Dense& A, const Column& b, const Column& x) {
  Column r = b;
  add(r, -1, product(A, x));
  return r;
}

// M^-1 r in step k = 0, 1, 2 ... of a method
using Varying = std::function<Column(std::int64_t k, const Column& r)>;
inline Column same(std::int64_t, const Column& r) { return r; }

// The smallest ||b - A x|| over x in span(Z), by normal equations of an orthonormal basis of A Z.
struct Smallest {
  std::vector<Column> Z, Q;
  std::vector<Column> R;
  void append(const Dense& A, Column z) {
    Column q = product(A, z), r(Q.size() + 1, 0);
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t i = 0; i < Q.size(); ++i) {
        const Real h = dot_of(Q[i], q);
        r[i] += h, add(q, -h, Q[i]);
      }
    r.back() = length(q);
    for (Real& v : q) v /= r.back();
    Z.push_back(std::move(z)), Q.push_back(std::move(q)), R.push_back(std::move(r));
  }
  Column solution(const Column& b) const {
    const std::size_t k = Z.size();
    Column y(k), x(b.size(), 0);
    for (std::size_t i = 0; i < k; ++i) y[i] = dot_of(Q[i], b);
    for (std::size_t i = k; i-- > 0;) {
      for (std::size_t j = i + 1; j < k; ++j) y[i] -= R[j][i] * y[j];
      y[i] /= R[i][i];
    }
    for (std::size_t i = 0; i < k; ++i) add(x, y[i], Z[i]);
    return x;
  }
};

// Flexible GMRES without restart, from x = 0: v_j by Arnoldi, the smallest residual over span(M_j^-1 v_j). Returns x_k.
inline std::vector<Column> flexible_gmres(const Dense& A, const Column& b, int steps,
                                          const Varying& M = same) {
  std::vector<Column> V{b}, result{Column(b.size(), 0)};
  for (Real& v : V[0]) v /= length(b);
  Smallest smallest;
  for (int k = 0; k < steps; ++k) {
    const Column z = M(k, V[k]);
    Column w = product(A, z);
    for (int pass = 0; pass < 2; ++pass)
      for (const Column& v : V) add(w, -dot_of(v, w), v);
    const Real norm = length(w);
    for (Real& v : w) v /= norm;
    V.push_back(w);
    smallest.append(A, z);
    result.push_back(smallest.solution(b));
  }
  return result;
}

// A preconditioner that is another one in each call of a solve: reset() begins again.
class VaryingPreconditioner final : public Preconditioner<double> {
 public:
  VaryingPreconditioner(std::int64_t n, Varying apply)
      : Preconditioner<double>(test_context(), {n, n}), apply_(std::move(apply)) {}
  std::string_view name() const noexcept override { return "varying"; }
  void reset() { calls_ = 0; }

 protected:
  void setup(const LinearOperator<double>&, bool) override {}
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    const Column z = apply_(calls_++, Column(x.data, x.data + x.size));
    for (std::int64_t i = 0; i < x.size; ++i)
      y[i] = alpha * static_cast<double>(z[i]) + (beta == 0 ? 0 : beta * y[i]);
  }

 private:
  Varying apply_;
  mutable std::int64_t calls_ = 0;
};

// Positive definite in each step, but the weights of even and odd unknowns change places.
inline Column alternating(std::int64_t k, const Column& r) {
  Column z = r;
  for (std::size_t i = 0; i < z.size(); ++i) z[i] *= (static_cast<std::int64_t>(i) + k) % 2 ? 1 : 8;
  return z;
}

struct Solved {
  SolveReport report;
  std::vector<double> x;
  History history;
};
inline Solved solve(const char* method, const Dense& matrix, const std::vector<double>& b,
                    const SolverOptions& options = {}, const Preconditioner<double>* M = nullptr) {
  const DenseOperator<double> A(matrix);
  Solved result;
  result.x.assign(b.size(), 0.0);
  result.report = make_solver<double>(method, options)->solve(A, view(b), view(result.x), M, &result.history);
  return result;
}
inline Column wide(const std::vector<double>& b) { return {b.begin(), b.end()}; }

// Keeps what it is multiplied with: without M these are the vectors of the basis.
class Recording final : public DenseOperator<double> {
 public:
  using DenseOperator<double>::DenseOperator;
  mutable std::vector<std::vector<double>> inputs;

 protected:
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    inputs.emplace_back(x.data, x.data + x.size);
    DenseOperator<double>::do_apply(alpha, x, beta, y);
  }
};

// The first `steps` residuals agree relative to ||b||.
inline void expect_history(const History& history, const std::vector<Real>& norms, double tolerance) {
  ASSERT_GE(history.seen.size(), norms.size());
  for (std::size_t k = 0; k < norms.size(); ++k)
    EXPECT_NEAR(history.seen[k].residual, static_cast<double>(norms[k]),
                tolerance * static_cast<double>(norms[0]))
        << "iteration " << k;
}

}  // namespace protean::test
