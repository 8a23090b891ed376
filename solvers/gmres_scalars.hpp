// The small dense part of GMRES: Hessenberg columns, Givens rotations, the triangular solve. It works in
// place on one array of scalars, so that it can run where that array lies, on the host or on a device.
// Private to solvers/.
//
// Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., SIAM 2003, section 6.5.3.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/context.hpp"
#include "core/host_device.hpp"
#include "core/vector.hpp"

namespace protean::detail {

// The layout of the array of scalars, for a basis of m + 1 vectors. Of k lanes side by side, number i of all lanes lies
// at data + i step, with step = k; number i of a group, such as g(), lies i steps after the pointer to it.
template <class T>
struct GmresScalars {
  using Size = std::int64_t;
  T* data = nullptr;
  Size m = 0, step = 1;
  // For minres (else null): the largest squared norm of a column since begin(), and 1, or 0 if the last column was
  // dropped.
  T* null_test = nullptr;

  PROTEAN_HOST_DEVICE static Size size(Size m) { return (m + 1) * m + 5 * (m + 1) + 4; }

  PROTEAN_HOST_DEVICE T* group(Size i) const { return data + i * (m + 1) * step; }
  PROTEAN_HOST_DEVICE T* column(Size j) const { return group(j); }    // h_0j .. h_j+1,j; R after rotation
  PROTEAN_HOST_DEVICE T* g() const { return group(m); }               // m + 1: rotated right-hand side
  PROTEAN_HOST_DEVICE T* cosines() const { return group(m + 1); }     // m
  PROTEAN_HOST_DEVICE T* sines() const { return group(m + 2); }       // m
  PROTEAN_HOST_DEVICE T* correction() const { return group(m + 3); }  // m: second pass of Gram-Schmidt
  PROTEAN_HOST_DEVICE T* y() const { return group(m + 4); }           // m
  PROTEAN_HOST_DEVICE T* residual_squared() const { return group(m + 5); }
  PROTEAN_HOST_DEVICE T* w_squared() const { return group(m + 5) + step; }  // after orthogonalisation
  PROTEAN_HOST_DEVICE T* next() const { return group(m + 5) + 2 * step; }   // h_j+1,j
  PROTEAN_HOST_DEVICE T* column_squared() const { return group(m + 5) + 3 * step; }  // ||A M^-1 v_j||^2

  // The scalars of one lane.
  PROTEAN_HOST_DEVICE GmresScalars of(Size lane) const {
    return {data + lane, m, step, null_test ? null_test + lane : nullptr};
  }

  // From w_squared = ||r||^2: g = ||r|| e_1; next = ||r||.
  PROTEAN_HOST_DEVICE void begin() const {
    *next() = g()[0] = std::sqrt(*w_squared());
    *residual_squared() = *w_squared();
    if (null_test) null_test[0] = T(0), null_test[step] = T(1);
  }

  // On entry column j holds h_0j .. h_jj, and w_squared holds h_j+1,j^2. Applies the former rotations to the
  // column, computes rotation j and applies it to the column and to g. `corrected`: correction() is added to
  // the column first.
  PROTEAN_HOST_DEVICE void rotate(Size j, bool corrected) const {
    T* const h = column(j);
    T squares = *w_squared();
    for (Size i = 0; i <= j; ++i) {
      T& entry = h[i * step];
      if (corrected) entry += correction()[i * step];
      squares += entry * entry;
    }
    *column_squared() = squares;
    *next() = h[(j + 1) * step] = std::sqrt(*w_squared());
    for (Size i = 0; i < j; ++i) {
      const T turn = cosines()[i * step], sine = sines()[i * step];
      T &high = h[i * step], &low = h[(i + 1) * step];
      const T upper = turn * high + sine * low;
      low = turn * low - sine * high;
      high = upper;
    }
    T &pivot = h[j * step], below = h[(j + 1) * step];
    const T length = std::hypot(pivot, below);
    // A zero column (a singular matrix) does not reduce the residual: |g_j+1| := |g_j|.
    const bool null_vector = null_test && residual_is_null_vector(j, squares);
    const bool dropped = null_vector || length == T(0);
    const T c = dropped ? T(0) : pivot / length, s = dropped ? T(-1) : below / length;
    cosines()[j * step] = c, sines()[j * step] = s;
    pivot = length;
    T &now = g()[j * step], &later = g()[(j + 1) * step];
    later = -s * now;
    now = c * now;
    *residual_squared() = later * later;
  }

  // Of minres (the formulas are there), before rotation j, whose column has this squared norm.
  PROTEAN_HOST_DEVICE bool residual_is_null_vector(Size j, T squares) const {
    constexpr T epsilon = std::numeric_limits<T>::epsilon(), few = sizeof(T) == 4 ? 16 : 1000;
    null_test[0] = squares > null_test[0] ? squares : null_test[0];
    const T size = std::sqrt(null_test[0]), before = cosines()[(j - 1) * step], pivot = column(j)[j * step],
            below = column(j)[(j + 1) * step];
    // If squares overflow, nothing is known of ||A||.
    const bool found = null_test[0] <= std::numeric_limits<T>::max() &&
                       std::abs(before * pivot) <= few * epsilon * size &&
                       std::hypot(pivot, before * below) <= std::sqrt(few / 10 * epsilon) * size;
    null_test[step] = found ? T(0) : T(1);
    return found;
  }

  // y := R^-1 g. Only the leading columns that are finite are used; y is 0 for the others and if the pivot of R counts
  // as zero (a singular matrix).
  PROTEAN_HOST_DEVICE void solve(Size columns) const {
    Size k = 0;
    T largest = 0;
    for (; k < columns && std::isfinite(column(k)[k * step]) && std::isfinite(g()[k * step]); ++k)
      largest = std::max(largest, std::abs(column(k)[k * step]));
    for (Size i = k; i < columns; ++i) y()[i * step] = T(0);
    for (Size i = k - 1; i >= 0; --i) {
      T sum = g()[i * step];
      for (Size j = i + 1; j < k; ++j) sum -= column(j)[i * step] * y()[j * step];
      const T pivot = column(i)[i * step];
      y()[i * step] = std::abs(pivot) > 4 * std::numeric_limits<T>::epsilon() * largest ? sum / pivot : T(0);
    }
  }
};

// Which lanes have scalars, all in the memory space of the context: those with running[lane] != 0; null: one lane.
template <class T>
struct GmresLanes {
  std::int64_t width = 1;
  const T* running = nullptr;

  PROTEAN_HOST_DEVICE bool run(std::int64_t lane) const { return !running || running[lane] != T(0); }
};

// begin(), rotate() and solve() of these lanes, queued after the other work of the context. Other lanes stay as they
// are.
template <class T>
void gmres_begin(const Context& context, const GmresScalars<T>& scalars, const GmresLanes<T>& lanes = {});
template <class T>
void gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j, bool corrected,
                  const GmresLanes<T>& lanes = {});
template <class T>
void gmres_solve(const Context& context, const GmresScalars<T>& scalars, std::int64_t columns,
                 const GmresLanes<T>& lanes = {});

}  // namespace protean::detail
