// Factors of subdomains and solves with them, one subdomain after another in a thread of a host. Private to
// subdomain_factors.cpp: static functions, which the compiler puts into their callers.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/csr.hpp"
#include "core/multi_vector.hpp"
#include "core/parallel.hpp"
#include "preconditioners/factors/factorization.hpp"
#include "preconditioners/subdomains/device_subdomains.hpp"

namespace protean::detail {

// What a thread of a host needs to factor subdomains.
template <class T>
struct SubdomainWorkspace {
  std::vector<T*> where;  // of each place the value of the row that is factored
};

// Factors subdomain s and adds what it found to `status`.
template <class T, class Index>
static void factor_subdomain(const SubdomainView<T, Index>& view, std::int64_t s, const CsrMatrix<T>& csr,
                             const FactorRules& rules, SubdomainWorkspace<T>& work, SubdomainStatus& status) {
  const SubdomainRows<T, Index> one = view.of(s);
  const T smallest_part = 64 * std::numeric_limits<T>::epsilon();
  const auto clear = [](T* values, std::int64_t size) { std::fill_n(values, size, T(0)); };
  unsigned trouble = 0;
  double least = std::numeric_limits<double>::infinity(), difference = 0;
  int shift = 0;
  std::int32_t bad = -1;
  for (;; ++shift) {
    clear(one.l, view.lower.first[s + 1] - view.lower.first[s]);
    clear(one.u, view.upper.first[s + 1] - view.upper.first[s]);
    clear(one.d, one.rows);
    csr.pattern.row_ptr.visit([&](const auto* ptr) {
      for (std::int32_t k = 0; k < one.rows; ++k) {
        double largest = 0;
        trouble |= one.load_row(ptr, csr.pattern.col, csr.values, k, 0, 1, largest);
        least = std::min(least, largest);
      }
    });
    if (shift == 0 && rules.symmetric)
      for (std::int32_t p = 0; p < one.rows; ++p)
        difference = std::max(difference, one.difference_of_row(p, 0, 1));
    bad = -1;
    for (std::int32_t p = 0; p < one.rows; ++p) {
      const auto note = [&](bool set) {
        for (std::int32_t e = one.lower[p]; e < one.lower[p + 1]; ++e)
          work.where[one.lower_col[e]] = set ? one.l + e : nullptr;
        for (std::int32_t e = one.upper[p]; e < one.upper[p + 1]; ++e)
          work.where[one.upper_col[e]] = set ? one.u + e : nullptr;
      };
      note(true);
      bool good = true;
      trouble |= one.factor_row(
          rules, p, static_cast<T>(subdomain_shift(shift)), smallest_part, 0, 1,
          [&](std::int32_t e) { return one.mirror(p, e); },
          [&](std::int32_t other, std::int32_t) { return work.where[other]; }, [] {}, good);
      note(false);
      if (!good) {
        const auto* const number = std::find(one.place, one.place + one.rows, static_cast<Index>(p));
        const std::int32_t row = one.global(static_cast<std::int32_t>(number - one.place));
        if (bad < 0 || row < bad) bad = row;
      }
    }
    constexpr unsigned no_matrix = entry_not_finite | diagonal_unusable | diagonal_negative;
    if (bad < 0 || (trouble & no_matrix) != 0 || shift + 1 == most_shifts) break;
  }
  for (std::int32_t p = 0; p < one.rows; ++p) trouble |= one.finish_row(rules, p, 0, 1);
  status.trouble |= trouble;
  status.shift = std::max(status.shift, shift), status.shifted += shift > 0 ? 1 : 0;
  if (bad >= 0)
    status.broken = std::min(status.broken,
                             static_cast<unsigned long long>(bad) << 32 | static_cast<unsigned long long>(s));
  status.least_row = std::min(status.least_row, std::bit_cast<unsigned long long>(least));
  status.largest_difference =
      std::max(status.largest_difference, std::bit_cast<unsigned long long>(difference));
}

// Z := alpha M_s^-1 R + beta Z for the own rows of subdomain s and `columns` columns from column j on. x: a value for
// each place and column.
template <int columns, class T, class Index>
static void solve_subdomain(const SubdomainView<T, Index>& view, std::int64_t s, std::int64_t j, T alpha,
                            const MultiVectorView<const T>& R, T beta, const MultiVectorView<T>& Z, T* x) {
  const SubdomainRows<T, Index> one = view.of(s);
  for (std::int32_t k = 0; k < one.rows; ++k)
    for (int c = 0; c < columns; ++c) x[one.place[k] * columns + c] = R(one.global(k), j + c);
  for (std::int32_t p = 0; p < one.rows; ++p) {
    T sum[columns];
    for (int c = 0; c < columns; ++c) sum[c] = x[p * columns + c];
    for (std::int32_t e = one.lower[p]; e < one.lower[p + 1]; ++e)
      for (int c = 0; c < columns; ++c) sum[c] -= one.l[e] * x[one.lower_col[e] * columns + c];
    for (int c = 0; c < columns; ++c) x[p * columns + c] = sum[c];
  }
  for (std::int32_t p = one.rows; p-- > 0;) {
    T sum[columns];
    for (int c = 0; c < columns; ++c) sum[c] = one.d[p] * x[p * columns + c];
    for (std::int32_t e = one.upper[p]; e < one.upper[p + 1]; ++e)
      for (int c = 0; c < columns; ++c) sum[c] -= one.u[e] * x[one.upper_col[e] * columns + c];
    for (int c = 0; c < columns; ++c) x[p * columns + c] = sum[c];
  }
  for (std::int32_t k = 0; k < one.rows; ++k) {
    if (one.row[k] < 0) continue;
    for (int c = 0; c < columns; ++c) {
      T& to = Z(one.row[k], j + c);
      const T value = alpha * x[one.place[k] * columns + c];
      to = beta == T(0) ? value : value + beta * to;
    }
  }
}
inline constexpr std::int64_t most_columns = 8;  // at once, on a host

template <class T, class Index>
static void solve_some(const SubdomainView<T, Index>& view, Range subdomains, T alpha,
                       const MultiVectorView<const T>& R, T beta, const MultiVectorView<T>& Z, T* x) {
  for (std::int64_t s = subdomains.begin; s < subdomains.end; ++s)
    for (std::int64_t j = 0; j < R.columns;) {
      const std::int64_t left = R.columns - j;
      if (left >= 8)
        solve_subdomain<8>(view, s, j, alpha, R, beta, Z, x), j += 8;
      else if (left >= 4)
        solve_subdomain<4>(view, s, j, alpha, R, beta, Z, x), j += 4;
      else if (left >= 2)
        solve_subdomain<2>(view, s, j, alpha, R, beta, Z, x), j += 2;
      else
        solve_subdomain<1>(view, s, j, alpha, R, beta, Z, x), j += 1;
    }
}

}  // namespace protean::detail
