// What a V-cycle does on a device besides products of its matrices: each is one kernel, which heeds the stop. Private
// to preconditioners/.
#pragma once
#include <cstdint>

#include "core/vector.hpp"

namespace protean::detail {

// z := d .* r, rest := r: the first sweep of l1-jacobi from z = 0, and what r - A z is then computed in.
template <class T>
void first_sweep(const Context& context, VectorView<const T> d, VectorView<const T> r, VectorView<T> z,
                 VectorView<T> rest);
// z := z + d .* (r - product): a sweep of l1-jacobi, where product is A z.
template <class T>
void next_sweep(const Context& context, VectorView<const T> d, VectorView<const T> r,
                VectorView<const T> product, VectorView<T> z);
// z := X r for a dense n x n matrix X, row after row.
template <class T>
void dense_product(const Context& context, VectorView<const T> X, VectorView<const T> r, VectorView<T> z);

}  // namespace protean::detail

// Defined in device_cycle.cu. CUDA builds only.
namespace protean::device {

template <class T>
void first_sweep(const Context& context, VectorView<const T> d, VectorView<const T> r, VectorView<T> z,
                 VectorView<T> rest);
template <class T>
void next_sweep(const Context& context, VectorView<const T> d, VectorView<const T> r,
                VectorView<const T> product, VectorView<T> z);
template <class T>
void dense_product(const Context& context, VectorView<const T> X, VectorView<const T> r, VectorView<T> z);

}  // namespace protean::device
