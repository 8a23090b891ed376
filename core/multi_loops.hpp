// The loops of multi_blas1.hpp over rows [begin, end) of interleaved vectors without gaps, serial, in SIMD: w vectors,
// so entry (i, j) at i w + j. Private to core/.
#pragma once
#include <cstdint>

namespace protean::detail {

// One table for each instruction set. Sums are written, not added to.
template <class T>
struct MultiLoops {
  using Size = std::int64_t;
  // sums[j] = x_j . y_j
  void (*dot)(Size begin, Size end, Size w, const T* x, const T* y, T* sums);
  // sums[j] = x_j . y_j, sums[w + j] = x_j . x_j
  void (*dot_pair)(Size begin, Size end, Size w, const T* x, const T* y, T* sums);
  // In what follows, vectors j with run[j] = 0 stay as they are, bit for bit; run may be null (all run).
  // y_j := a[j] x_j + b[j] y_j; unless sums is null, sums[j] = y_j . y_j. a or b may be null (zeros): its vectors are
  // not read then. x may be y.
  void (*axpby)(Size begin, Size end, Size w, const T* run, const T* a, const T* x, const T* b, T* y,
                T* sums);
  // r_j := r_j - a[j] q_j; sums[j] = r_j . r_j, sums[w + j] = r_j . (d .* r_j). d may be null: the second sums are not
  // written then.
  void (*cg_residual)(Size begin, Size end, Size w, const T* run, const T* a, const T* q, const T* d, T* r,
                      T* sums);
  // x_j := x_j + a[j] p_j, p_j := d .* z_j + b[j] p_j; d may be null (ones).
  void (*cg_direction)(Size begin, Size end, Size w, const T* run, const T* a, const T* b, const T* d,
                       const T* z, T* x, T* p);
  // r_j := r_j + a[j] v_j, z_j := d .* r_j unless d is null; sums[j] = r_j . r_j
  void (*bicgstab_half)(Size begin, Size end, Size w, const T* run, const T* a, const T* v, const T* d, T* r,
                        T* z, T* sums);
  // x_j := x_j + a[j] p_j + o[j] s_j, r_j := r_j - o[j] t_j; sums[j] = r_j . r_j, sums[w + j] = r0_j . r_j; s may be r
  void (*bicgstab_update)(Size begin, Size end, Size w, const T* run, const T* a, const T* o, const T* p,
                          const T* s, const T* t, const T* r0, T* x, T* r, T* sums);
  // p_j := r_j + b[j] (p_j - o[j] v_j), z_j := d .* p_j unless d is null
  void (*bicgstab_direction)(Size begin, Size end, Size w, const T* run, const T* b, const T* o, const T* r,
                             const T* v, const T* d, T* p, T* z);
  // Group i of V begins at v + i stride. sums[i w + j] = v_ij . x_j
  void (*block_dot)(Size begin, Size end, Size w, const T* v, Size stride, Size count, const T* x, T* sums);
  // x_j := x_j + sum_i h[i w + j] v_ij; unless sums is null, sums[j] = x_j . x_j
  void (*block_axpy)(Size begin, Size end, Size w, const T* run, const T* h, const T* v, Size stride,
                     Size count, T* x, T* sums);
  // v_j := a[j] v_j, and 0 for vectors with run[j] = 0; run may be null (all run).
  void (*scale)(Size begin, Size end, Size w, const T* run, const T* a, T* v);
};

template <class T>
const MultiLoops<T>& multi_loops() noexcept;

}  // namespace protean::detail
