// Checks that two matrices have the same product, up to rounding errors. Private to operators/.
#pragma once
#include <cstdint>
#include <limits>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "operators/elements/element_operator.hpp"
#include "operators/linear_operator.hpp"

namespace protean::detail {

// For A given as CSR in the context's space: a vector x of fixed pseudo-random numbers of magnitude 1/2 to 1,
// and for each row the largest difference that two products A x may have.
template <class T>
class ProductCheck {
 public:
  // `relative` is the relative difference that the values of the two matrices may have, 0 if they are the
  // same. The bound of row i is (2 (n_i + 2) eps + relative) sum_j |a_ij x_j|. Throws OutOfMemory.
  ProductCheck(const ContextPtr& context, const CsrMatrix<T>& csr, double relative);
  // Widens the bounds for a product with the element matrices that csr was assembled from: adds the bounds of
  // the rounding errors of that product and of the assembly.
  void allow_rounding_of(const ElementOperator<T>& elements) {
    elements.add_rounding_bounds(2 * std::numeric_limits<T>::epsilon(), bounds_.view());
  }

  // Computes and stores the product of the first matrix.
  void keep(const LinearOperator<T>& matrix);
  bool has_kept() const noexcept { return kept_.size() > 0; }
  // Number of rows in which the product of the other matrix differs from the stored one by more than the
  // bound. Rows whose bound is not finite are ignored. Waits for the result. Throws OutOfMemory.
  std::int64_t differing_rows(const LinearOperator<T>& other) const;

 private:
  ContextPtr context_;
  Vector<T> x_, bounds_, kept_;
};

// For arrays in device memory; defined in product_check.cu.
template <class T>
void device_sample(const Context& context, VectorView<T> x);
template <class T>
void device_bounds(const Context& context, const CsrMatrix<T>& csr, VectorView<const T> x, double relative,
                   VectorView<T> bounds);
// result[0] := number of rows that differ; result is in the context's space
template <class T>
void device_count_differing(const Context& context, VectorView<const T> a, VectorView<const T> b,
                            VectorView<const T> bounds, T* result);

// x_i of the sample: a hash (splitmix64) of i, in [-1, -1/2] or [1/2, 1].
template <class T>
#if defined(__CUDACC__)
__host__ __device__
#endif
    inline T
    sample_value(std::int64_t i) {
  std::uint64_t z = 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(i) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  const T magnitude = T(0.5) + static_cast<T>(z >> 41) * T(0x1p-24);
  return z & 1 ? magnitude : -magnitude;
}

}  // namespace protean::detail
