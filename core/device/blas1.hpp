// The device side of core/blas1.hpp: the same operations on device memory, arguments already checked.
// Private; CUDA builds only.
#pragma once
#include "core/blas1.hpp"

namespace protean::device {

template <class T>
void copy(const Context&, VectorView<const T> from, VectorView<T> to);  // any two spaces
template <class T>
void fill(const Context&, T value, VectorView<T> x);
template <class T>
void axpby(const Context&, Coefficient<T> a, VectorView<const T> x, Coefficient<T> b, bool read_y,
           VectorView<T> y);
template <class T>
void multiply(const Context&, VectorView<const T> x, VectorView<const T> y, VectorView<T> z);
template <class T>
void reciprocal(const Context&, VectorView<T> d, T* result);
template <class T>
void max_abs(const Context&, VectorView<const T> x, T* result);
template <class T>
void scalar_product(const Context&, Coefficient<T> a, Coefficient<T> b, T* result);
template <class T>
void dot(const Context&, VectorView<const T> x, VectorView<const T> y, T* result);
template <class T>
void dot_pair(const Context&, VectorView<const T> x, VectorView<const T> y, VectorView<const T> z, T* result);
template <class T>
void axpy_dot(const Context&, Coefficient<T> a, VectorView<const T> x, VectorView<T> y, T* result);
template <class T>
void multiply_add(const Context&, VectorView<const T> d, VectorView<const T> x, Coefficient<T> b,
                  VectorView<T> y);
template <class T>
void cg_residual(const Context&, Coefficient<T> a, VectorView<const T> q, VectorView<const T> d,
                 VectorView<T> r, T* result);
template <class T>
void cg_direction(const Context&, Coefficient<T> a, VectorView<const T> d, VectorView<const T> z,
                  Coefficient<T> b, VectorView<T> x, VectorView<T> p);
template <class T>
void bicgstab_direction(const Context&, VectorView<const T> r, Coefficient<T> b, Coefficient<T> w,
                        VectorView<const T> v, VectorView<const T> d, VectorView<T> p, VectorView<T> z);
template <class T>
void bicgstab_half(const Context&, Coefficient<T> a, VectorView<const T> v, VectorView<const T> d,
                   VectorView<T> r, VectorView<T> z, T* result);
template <class T>
void bicgstab_update(const Context&, Coefficient<T> a, VectorView<const T> p, Coefficient<T> w,
                     VectorView<const T> s, VectorView<const T> t, VectorView<const T> r0, VectorView<T> x,
                     VectorView<T> r, T* result);
template <class T>
void block_dot(const Context&, VectorBlock<const T> V, VectorView<const T> w, T* result);
template <class T>
void block_axpy(const Context&, T factor, VectorBlock<const T> V, const T* h, VectorView<T> w, T* result);

}  // namespace protean::device
