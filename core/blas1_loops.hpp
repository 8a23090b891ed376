// The loops of BLAS-1 over one contiguous range, serial, in SIMD, for a part of the vectors each. Private to
// core/.
#pragma once
#include <cstdint>

namespace protean::detail {

// One table for each instruction set; n entries everywhere. Sums are written, not added to.
template <class T>
struct Blas1Loops {
  using Size = std::int64_t;
  void (*copy)(Size n, const T* x, T* y);
  void (*fill)(Size n, T value, T* x);
  // d := 1 ./ d, 1 if that is not finite or d is zero; returns how many those were
  T (*reciprocal)(Size n, T* d);
  T (*dot)(Size n, const T* x, const T* y);
  // sums = {x . y, x . z}
  void (*dot_pair)(Size n, const T* x, const T* y, const T* z, T* sums);
  // The largest |x_i|; NaN when one of them is NaN.
  T (*max_abs)(Size n, const T* x);
  // y := a x
  void (*scale)(Size n, T a, const T* x, T* y);
  // y := a x + y
  void (*axpy)(Size n, T a, const T* x, T* y);
  // y := a x + b y
  void (*axpby)(Size n, T a, const T* x, T b, T* y);
  // z := x .* y
  void (*multiply)(Size n, const T* x, const T* y, T* z);
  // y := a x + y; returns y . y
  T (*axpy_dot)(Size n, T a, const T* x, T* y);
  // y := a x + y, z := d .* y; returns y . y
  T (*axpy_dot_scaled)(Size n, T a, const T* x, T* y, const T* d, T* z);
  // y := d .* x + b y
  void (*multiply_add)(Size n, const T* d, const T* x, T b, T* y);
  // r := r - a q; sums = {r . r, r . (d .* r)}; d may be null (ones, one sum computed)
  void (*cg_residual)(Size n, T a, const T* q, const T* d, T* r, T* sums);
  // x := x + a p, p := d .* z + b p; d may be null (ones)
  void (*cg_direction)(Size n, T a, const T* d, const T* z, T b, T* x, T* p);
  // p := r + b (p - w v), and z := d .* p unless d is null
  void (*bicgstab_direction)(Size n, const T* r, T b, T w, const T* v, const T* d, T* p, T* z);
  // x := x + a p + w s, r := r - w t; sums = {r . r, r0 . r}
  void (*bicgstab_update)(Size n, T a, const T* p, T w, const T* s, const T* t, const T* r0, T* x, T* r,
                          T* sums);
  // sums[j] += V_j . w for j < columns, column j at V + j * stride
  void (*block_dot)(Size n, const T* V, Size stride, Size columns, const T* w, T* sums);
  // w := w + factor * sum_j h[j] V_j; returns w . w
  T (*block_axpy)(Size n, T factor, const T* V, Size stride, Size columns, const T* h, T* w);
};

// The table for the processor this runs on.
template <class T>
const Blas1Loops<T>& blas1_loops() noexcept;

}  // namespace protean::detail
