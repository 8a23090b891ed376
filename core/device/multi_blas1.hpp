// The device side of core/multi_blas1.hpp: the same operations on device memory, arguments already checked. Private;
// CUDA builds only.
#pragma once
#include "core/multi_blas1.hpp"

namespace protean::device {

template <class T>
void copy_columns(const Context&, MultiVectorView<const T> from, MultiVectorView<T> to,
                  std::span<const ColumnPair> pairs);
template <class T>
void multi_scale(const Context&, T a, MultiVectorView<T> V);
template <class T>
void multi_residual(const Context&, MultiVectorView<const T> B, MultiVectorView<T> R,
                    std::span<const ColumnPair> pairs, T* result);
template <class T>
void multi_multiply(const Context&, VectorView<const T> d, MultiVectorView<const T> X, MultiVectorView<T> Y,
                    const T* running);
template <class T>
void multi_dot(const Context&, MultiVectorView<const T> X, MultiVectorView<const T> Y, const T* running,
               T* result);
template <class T>
void multi_dot_pair(const Context&, MultiVectorView<const T> X, MultiVectorView<const T> Y, const T* running,
                    T* xy, T* xx);
template <class T>
void multi_scalar_product(const Context&, std::int64_t vectors, Coefficient<T> a, Coefficient<T> b,
                          const T* running, T* result);
// read_x, read_y: whether the coefficient is another one than Coefficient(0).
template <class T>
void multi_axpby(const Context&, Coefficient<T> a, bool read_x, MultiVectorView<const T> X, Coefficient<T> b,
                 bool read_y, MultiVectorView<T> Y, const T* running, T* result);
template <class T>
void multi_bicgstab_direction(const Context&, MultiVectorView<const T> R, Coefficient<T> b, Coefficient<T> w,
                              MultiVectorView<const T> V, VectorView<const T> d, MultiVectorView<T> P,
                              MultiVectorView<T> Z, const T* running);
template <class T>
void multi_bicgstab_half(const Context&, Coefficient<T> a, MultiVectorView<const T> V, VectorView<const T> d,
                         MultiVectorView<T> R, MultiVectorView<T> Z, const T* running, T* rr);
template <class T>
void multi_bicgstab_update(const Context&, Coefficient<T> a, MultiVectorView<const T> P, Coefficient<T> w,
                           MultiVectorView<const T> S, MultiVectorView<const T> Tv,
                           MultiVectorView<const T> R0, MultiVectorView<T> X, MultiVectorView<T> R,
                           const T* running, T* rr, T* next);
template <class T>
void multi_cg_residual(const Context&, Coefficient<T> a, MultiVectorView<const T> Q, VectorView<const T> d,
                       MultiVectorView<T> R, const T* running, T* rr, T* next);
template <class T>
void multi_cg_direction(const Context&, Coefficient<T> a, VectorView<const T> d, MultiVectorView<const T> Z,
                        Coefficient<T> b, MultiVectorView<T> X, MultiVectorView<T> P, const T* running);
template <class T>
void multi_block_dot(const Context&, MultiVectorBlock<const T> V, MultiVectorView<const T> W,
                     const T* running, T* result);
template <class T>
void multi_block_axpy(const Context&, T factor, MultiVectorBlock<const T> V, const T* h, MultiVectorView<T> W,
                      const T* running, T* result);
template <class T>
void multi_divide(const Context&, const T* s, MultiVectorView<T> V, const T* running);

}  // namespace protean::device
