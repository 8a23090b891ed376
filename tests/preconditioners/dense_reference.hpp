// Dense computations in long double of what preconditioners should be, and small matrices for them.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {

template <class Exception, class F>
std::string message(F f) {
  try {
    f();
  } catch (const Exception& e) { return e.what(); }
  return "nothing was thrown";
}
#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// The nonzeros of a dense matrix.
template <class T = double>
CsrMatrix<T> sparse(const Dense& A) {
  std::vector<Triplet<T>> entries;
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j)
      if (A(i, j) != 0)
        entries.push_back(
            {static_cast<std::int32_t>(i), static_cast<std::int32_t>(j), static_cast<T>(A(i, j))});
  return csr_from_triplets<T>(test_context(), A.n, A.n, entries);
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> assembled(const CsrMatrix<T>& csr,
                                              const ContextPtr& context = test_context(),
                                              const char* format = "csr") {
  return make_matrix(find_format(format), csr, context);
}
template <class T>
std::unique_ptr<Preconditioner<T>> ready(std::string_view id, const LinearOperator<T>& A,
                                         const PreconditionerOptions& options = {}) {
  auto M = make_preconditioner<T>(id, A, options);
  M->ensure(A);
  return M;
}
// The same with the options that it reads.
template <class T>
std::unique_ptr<Preconditioner<T>> ready_with_read(std::string_view id, const LinearOperator<T>& A,
                                                   const PreconditionerOptions& options) {
  return ready(id, A, preconditioner_options_read_by(id, options));
}
inline double figure(const Preconditioner<double>& M, std::string_view name) {
  for (const PreconditionerFigure& one : M.figures())
    if (one.name == name) return one.value;
  ADD_FAILURE() << "no figure " << name;
  return 0;
}

inline std::vector<double> applied(const Preconditioner<double>& M, const std::vector<double>& r) {
  std::vector<double> z(r.size(), std::numeric_limits<double>::quiet_NaN());
  M.apply(view(r), view(z));
  return z;
}
// M^-1, column after column.
inline Dense dense_inverse(const Preconditioner<double>& M) {
  Dense result(M.rows());
  std::vector<double> e(static_cast<std::size_t>(M.rows()));
  for (std::int64_t j = 0; j < result.n; ++j) {
    e[j] = 1;
    const std::vector<double> column = applied(M, e);
    e[j] = 0;
    for (std::int64_t i = 0; i < result.n; ++i) result(i, j) = column[i];
  }
  return result;
}

// Gauss-Jordan elimination with row pivoting.
inline Dense inverse(Dense A) {
  const std::int64_t n = A.n;
  Dense result(n);
  for (std::int64_t i = 0; i < n; ++i) result(i, i) = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < n; ++i)
      if (std::abs(A(i, k)) > std::abs(A(pivot, k))) pivot = i;
    const long double divisor = A(pivot, k);
    for (std::int64_t j = 0; j < n; ++j) {
      std::swap(A(k, j), A(pivot, j)), std::swap(result(k, j), result(pivot, j));
      A(k, j) /= divisor, result(k, j) /= divisor;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const long double factor = A(i, k);
      if (i == k || factor == 0) continue;
      for (std::int64_t j = 0; j < n; ++j) A(i, j) -= factor * A(k, j), result(i, j) -= factor * result(k, j);
    }
  }
  return result;
}
inline void expect_same(const Dense& a, const Dense& b, long double tolerance) {
  long double largest = 0, difference = 0;
  for (std::size_t k = 0; k < a.a.size(); ++k)
    largest = std::max(largest, std::abs(b.a[k])),
    difference = std::max(difference, std::abs(a.a[k] - b.a[k]));
  EXPECT_LE(difference, tolerance * largest);
}

// Poisson's equation on trilinear hexahedra: no entry is larger than a sixteenth of the diagonal, so that the strength
// of 0.08 leaves every node alone.
inline CsrMatrix<double> trilinear(std::int64_t n) {
  const double stiffness[] = {-1, 2, -1}, mass[] = {1.0 / 6, 4.0 / 6, 1.0 / 6};
  std::vector<Triplet<double>> entries;
  const auto row = [n](std::int64_t x, std::int64_t y, std::int64_t z) {
    return static_cast<std::int32_t>((z * n + y) * n + x);
  };
  const auto inside = [n](std::int64_t x) { return x >= 0 && x < n; };
  for (std::int64_t i = 0; i < n * n * n; ++i)
    for (int k = 0; k < 27; ++k) {
      const std::int64_t x = i % n, y = i / n % n, z = i / (n * n);
      const int a = k % 3, b = k / 3 % 3, c = k / 9;
      if (!inside(x + a - 1) || !inside(y + b - 1) || !inside(z + c - 1)) continue;
      const double value = stiffness[a] * mass[b] * mass[c] + mass[a] * stiffness[b] * mass[c] +
                           mass[a] * mass[b] * stiffness[c];
      entries.push_back({static_cast<std::int32_t>(i), row(x + a - 1, y + b - 1, z + c - 1), value});
    }
  return csr_from_triplets<double>(test_context(), n * n * n, n * n * n, entries);
}

inline Dense poisson_2d(std::int64_t m) { return convection_2d(m, 0); }
// Not symmetric, in values and pattern, diagonally dominant.
inline Dense scattered(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  Dense A(n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < 4; ++k) A(i, random() % n) = static_cast<int>(random() % 17) - 8.25L;
    long double sum = 1;
    for (std::int64_t j = 0; j < n; ++j) sum += j == i ? 0 : std::abs(A(i, j));
    A(i, i) = i % 2 ? sum : -sum;
  }
  return A;
}
inline Dense symmetric_part(Dense A) {
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < i; ++j) A(i, j) = A(j, i) = A(i, j) + A(j, i);
  for (std::int64_t i = 0; i < A.n; ++i) {
    A(i, i) = 1;
    for (std::int64_t j = 0; j < A.n; ++j) A(i, i) += j == i ? 0 : std::abs(A(i, j));
  }
  return A;
}

// L strictly below, the pivots on and the rows of U above the diagonal, for the entries whose level of fill is at most
// `fill`; algorithm 10.5 of Saad on dense arrays.
inline Dense incomplete_factors(const Dense& A, int fill) {
  const std::int64_t n = A.n;
  std::vector<int> level(static_cast<std::size_t>(n * n), 1000);
  for (std::int64_t k = 0; k < n * n; ++k)
    if (A.a[k] != 0 || k / n == k % n) level[k] = 0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < i; ++k)
      if (level[i * n + k] <= fill)
        for (std::int64_t j = k + 1; j < n; ++j)
          if (level[k * n + j] <= fill)
            level[i * n + j] = std::min(level[i * n + j], level[i * n + k] + level[k * n + j] + 1);
  Dense F = A;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < i; ++k) {
      if (level[i * n + k] > fill) continue;
      F(i, k) /= F(k, k);
      for (std::int64_t j = k + 1; j < n; ++j)
        if (level[i * n + j] <= fill && level[k * n + j] <= fill) F(i, j) -= F(i, k) * F(k, j);
    }
  for (std::int64_t k = 0; k < n * n; ++k)
    if (level[k] > fill) F.a[k] = 0;
  return F;
}
// (I + L) (P + row of U), P the pivots
inline Dense incomplete_product(const Dense& A, int fill) {
  const Dense F = incomplete_factors(A, fill);
  Dense product(A.n);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j)
      for (std::int64_t k = 0; k <= std::min(i, j); ++k) product(i, j) += (k == i ? 1 : F(i, k)) * F(k, j);
  return product;
}
inline Dense product(const Dense& A, const Dense& B) {
  Dense result(A.n);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t k = 0; k < A.n; ++k)
      if (A(i, k) != 0)
        for (std::int64_t j = 0; j < A.n; ++j) result(i, j) += A(i, k) * B(k, j);
  return result;
}
// S(U) P^-1 S(L), S(N) = I - N + N^2 - ... + (-N)^sweeps, for the factors (I + L) P (I + U).
inline Dense swept_inverse(const Dense& A, int fill, int sweeps) {
  const Dense F = incomplete_factors(A, fill);
  const auto series = [&](bool upper) {
    Dense minus(A.n), power(A.n), sum(A.n);
    for (std::int64_t i = 0; i < A.n; ++i) {
      power(i, i) = sum(i, i) = 1;
      for (std::int64_t j = 0; j < A.n; ++j)
        if (upper ? j > i : j < i) minus(i, j) = -F(i, j) / (upper ? F(i, i) : 1);
    }
    for (int k = 0; k < sweeps; ++k) {
      power = product(power, minus);
      for (std::size_t e = 0; e < sum.a.size(); ++e) sum.a[e] += power.a[e];
    }
    return sum;
  };
  Dense lower = series(false);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j) lower(i, j) /= F(i, i);
  return product(series(true), lower);
}

// Colours as the comment at preconditioners() says: row after row the smallest that no coupled row has.
inline std::vector<int> greedy_colours(const Dense& A) {
  std::vector<int> colour;
  for (std::int64_t i = 0; i < A.n; ++i) {
    int own = 0;
    for (bool taken = true; taken;) {
      taken = false;
      for (std::int64_t j = 0; j < i; ++j) taken |= colour[j] == own && (A(i, j) != 0 || A(j, i) != 0);
      own += taken;
    }
    colour.push_back(own);
  }
  return colour;
}

// D + L in the order of the colours.
inline Dense gauss_seidel_matrix(const Dense& A) {
  const std::vector<int> colour = greedy_colours(A);
  Dense lower(A.n);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j)
      if (j == i || colour[j] < colour[i]) lower(i, j) = A(i, j);
  return lower;
}
// (D + w L) D^-1 (D + w U) / (w (2 - w)) in the order of the colours.
inline Dense ssor_matrix(const Dense& A, double omega) {
  const std::vector<int> colour = greedy_colours(A);
  const long double w = omega;
  Dense M(A.n);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j)
      for (std::int64_t k = 0; k < A.n; ++k) {
        const long double left = k == i ? A(i, i) : colour[k] < colour[i] ? w * A(i, k) : 0;
        const long double right = k == j ? A(j, j) : colour[k] < colour[j] ? w * A(k, j) : 0;
        M(i, j) += left / A(k, k) * right / (w * (2 - w));
      }
  return M;
}

}  // namespace protean::test
