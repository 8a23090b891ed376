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

// The layout of the array of scalars, for a basis of m + 1 vectors.
template <class T>
struct GmresScalars {
  T* data = nullptr;
  std::int64_t m = 0;
  // Of minres, else null: the largest squared norm of a column since begin(), and 1, or 0 where the last column was
  // dropped.
  T* null_test = nullptr;

  PROTEAN_HOST_DEVICE static std::int64_t size(std::int64_t m) { return (m + 1) * m + 5 * (m + 1) + 4; }

  PROTEAN_HOST_DEVICE T* column(std::int64_t j) const {
    return data + j * (m + 1);
  }                                                                     // h_0j .. h_j+1,j; R after rotation
  PROTEAN_HOST_DEVICE T* g() const { return data + (m + 1) * m; }       // m + 1: rotated right-hand side
  PROTEAN_HOST_DEVICE T* cosines() const { return g() + (m + 1); }      // m
  PROTEAN_HOST_DEVICE T* sines() const { return cosines() + (m + 1); }  // m
  PROTEAN_HOST_DEVICE T* correction() const { return sines() + (m + 1); }  // m: second pass of Gram-Schmidt
  PROTEAN_HOST_DEVICE T* y() const { return correction() + (m + 1); }      // m
  PROTEAN_HOST_DEVICE T* residual_squared() const { return y() + (m + 1); }
  PROTEAN_HOST_DEVICE T* w_squared() const { return residual_squared() + 1; }       // after orthogonalisation
  PROTEAN_HOST_DEVICE T* next() const { return residual_squared() + 2; }            // h_j+1,j
  PROTEAN_HOST_DEVICE T* column_squared() const { return residual_squared() + 3; }  // ||A M^-1 v_j||^2

  // From w_squared = ||r||^2: g = ||r|| e_1; next = ||r||.
  PROTEAN_HOST_DEVICE void begin() const {
    *next() = g()[0] = std::sqrt(*w_squared());
    *residual_squared() = *w_squared();
    if (null_test) null_test[0] = T(0), null_test[1] = T(1);
  }

  // On entry column j holds h_0j .. h_jj, and w_squared holds h_j+1,j^2. Applies the former rotations to the
  // column, computes rotation j and applies it to the column and to g. `corrected`: correction() is added to
  // the column first.
  PROTEAN_HOST_DEVICE void rotate(std::int64_t j, bool corrected) const {
    T* const h = column(j);
    T squares = *w_squared();
    for (std::int64_t i = 0; i <= j; ++i) {
      if (corrected) h[i] += correction()[i];
      squares += h[i] * h[i];
    }
    *column_squared() = squares;
    *next() = h[j + 1] = std::sqrt(*w_squared());
    for (std::int64_t i = 0; i < j; ++i) {
      const T upper = cosines()[i] * h[i] + sines()[i] * h[i + 1];
      h[i + 1] = cosines()[i] * h[i + 1] - sines()[i] * h[i];
      h[i] = upper;
    }
    const T length = std::hypot(h[j], h[j + 1]);
    // A zero column (a singular matrix) does not reduce the residual: |g_j+1| := |g_j|.
    const bool null_vector = null_test && residual_is_null_vector(j, squares);
    const bool dropped = null_vector || length == T(0);
    const T c = dropped ? T(0) : h[j] / length, s = dropped ? T(-1) : h[j + 1] / length;
    cosines()[j] = c, sines()[j] = s;
    h[j] = length;
    g()[j + 1] = -s * g()[j];
    g()[j] = c * g()[j];
    *residual_squared() = g()[j + 1] * g()[j + 1];
  }

  // Of minres (the formulas are there), before rotation j, whose column has this squared norm.
  PROTEAN_HOST_DEVICE bool residual_is_null_vector(std::int64_t j, T squares) const {
    constexpr T epsilon = std::numeric_limits<T>::epsilon(), few = sizeof(T) == 4 ? 16 : 1000;
    null_test[0] = squares > null_test[0] ? squares : null_test[0];
    const T size = std::sqrt(null_test[0]), before = cosines()[j - 1], *const h = column(j);
    // Where squares overflow nothing is known of ||A||.
    const bool found = null_test[0] <= std::numeric_limits<T>::max() &&
                       std::abs(before * h[j]) <= few * epsilon * size &&
                       std::hypot(h[j], before * h[j + 1]) <= std::sqrt(few / 10 * epsilon) * size;
    null_test[1] = found ? T(0) : T(1);
    return found;
  }

  // y := R^-1 g. Only the leading columns that are finite are used; y is 0 for the others and where the pivot
  // of R counts as zero (a singular matrix).
  PROTEAN_HOST_DEVICE void solve(std::int64_t columns) const {
    std::int64_t k = 0;
    T largest = 0;
    for (; k < columns && std::isfinite(column(k)[k]) && std::isfinite(g()[k]); ++k)
      largest = std::max(largest, std::abs(column(k)[k]));
    std::fill_n(y(), columns, T(0));
    for (std::int64_t i = k - 1; i >= 0; --i) {
      T sum = g()[i];
      for (std::int64_t j = i + 1; j < k; ++j) sum -= column(j)[i] * y()[j];
      const T pivot = column(i)[i];
      y()[i] = std::abs(pivot) > 4 * std::numeric_limits<T>::epsilon() * largest ? sum / pivot : T(0);
    }
  }
};

// The scalars of several columns side by side. Each lane has GmresScalars of its own, one after another in `records`.
// What vector operations and the driver read and write has one number for each lane, side by side.
template <class T>
struct GmresLanes {
  T* records = nullptr;
  std::int64_t m = 0, width = 0;
  T *h = nullptr, *correction = nullptr;  // (m + 1) x width: the sums of Gram-Schmidt; h also y
  T *residual_squared = nullptr, *w_squared = nullptr, *column_squared = nullptr, *next = nullptr;  // width

  PROTEAN_HOST_DEVICE GmresScalars<T> of(std::int64_t lane) const {
    return {records + lane * GmresScalars<T>::size(m), m};
  }
  PROTEAN_HOST_DEVICE void begin(std::int64_t lane) const {
    const GmresScalars<T> own = of(lane);
    *own.w_squared() = w_squared[lane];
    own.begin();
    residual_squared[lane] = *own.residual_squared(), next[lane] = *own.next();
  }
  PROTEAN_HOST_DEVICE void rotate(std::int64_t lane, std::int64_t j, bool corrected) const {
    const GmresScalars<T> own = of(lane);
    for (std::int64_t i = 0; i <= j; ++i) {
      own.column(j)[i] = h[i * width + lane];
      if (corrected) own.correction()[i] = correction[i * width + lane];
    }
    *own.w_squared() = w_squared[lane];
    own.rotate(j, corrected);
    residual_squared[lane] = *own.residual_squared(), next[lane] = *own.next();
    column_squared[lane] = *own.column_squared();
  }
  PROTEAN_HOST_DEVICE void solve(std::int64_t lane, std::int64_t columns) const {
    const GmresScalars<T> own = of(lane);
    own.solve(columns);
    for (std::int64_t i = 0; i < columns; ++i) h[i * width + lane] = own.y()[i];
  }
};

// begin(), rotate() and solve() in the memory space of the context, queued after its other work.
template <class T>
void gmres_begin(const Context& context, const GmresScalars<T>& scalars);
template <class T>
void gmres_rotate(const Context& context, const GmresScalars<T>& scalars, std::int64_t j, bool corrected);
template <class T>
void gmres_solve(const Context& context, const GmresScalars<T>& scalars, std::int64_t columns);

// The same for all lanes with running[lane] != 0; others stay as they are.
template <class T>
void gmres_begin(const Context& context, const GmresLanes<T>& lanes, const T* running);
template <class T>
void gmres_rotate(const Context& context, const GmresLanes<T>& lanes, std::int64_t j, bool corrected,
                  const T* running);
template <class T>
void gmres_solve(const Context& context, const GmresLanes<T>& lanes, std::int64_t columns, const T* running);

}  // namespace protean::detail
