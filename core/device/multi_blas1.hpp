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
void multi_bicgstab_half(const Context&, const T* rho, const T* r0v, MultiVectorView<const T> V,
                         VectorView<const T> d, MultiVectorView<T> R, MultiVectorView<T> Z, const T* running,
                         T* ss);
template <class T>
void multi_bicgstab_update(const Context&, const T* rho, const T* r0v, const T* ts, const T* tt,
                           MultiVectorView<const T> P, MultiVectorView<const T> S,
                           MultiVectorView<const T> Tv, MultiVectorView<const T> R0, MultiVectorView<T> X,
                           MultiVectorView<T> R, const T* running, T* rr, T* next);
template <class T>
void multi_bicgstab_direction(const Context&, const T* rho, const T* r0v, const T* ts, const T* tt,
                              MultiVectorView<const T> R, MultiVectorView<const T> V, VectorView<const T> d,
                              MultiVectorView<T> P, MultiVectorView<T> Z, const T* running);
template <class T>
void multi_cg_residual(const Context&, const T* rz, const T* pq, MultiVectorView<const T> Q,
                       VectorView<const T> d, MultiVectorView<T> R, const T* running, T* rr, T* next);
template <class T>
void multi_cg_direction(const Context&, const T* rz, const T* pq, const T* next, VectorView<const T> d,
                        MultiVectorView<const T> Z, MultiVectorView<T> X, MultiVectorView<T> P,
                        const T* running);
template <class T>
void multi_block_dot(const Context&, MultiVectorBlock<const T> V, MultiVectorView<const T> W,
                     const T* running, T* result);
template <class T>
void multi_block_axpy(const Context&, T factor, MultiVectorBlock<const T> V, const T* h, MultiVectorView<T> W,
                      const T* running, T* result);
template <class T>
void multi_divide(const Context&, const T* s, MultiVectorView<T> V, const T* running);
template <class T>
void multi_add_product(const Context&, VectorView<const T> d, MultiVectorView<const T> U,
                       MultiVectorView<T> X, const T* running);

}  // namespace protean::device
