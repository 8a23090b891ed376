// Rows of spai0, on either side. Private to preconditioners/.
#pragma once
#include <cstdint>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "core/vector.hpp"
#include "preconditioners/factors/device/device_factors.hpp"

namespace protean::detail {

// m_i = a_ii / sum_j a_ij^2. Scaled by the largest entry, so that no square overflows or underflows. A row of zeros,
// for whose diagonal 1 was asked, has m_i = 1. Returns the FactorTrouble that it finds.
template <class T, class Pointer>
PROTEAN_HOST_DEVICE unsigned spai0_row(const Pointer* ptr, const std::int32_t* col, const T* a,
                                       std::int64_t i, bool one_for_zero, T& m) {
  const auto finite = [](T value) { return value - value == T(0); };
  const std::int64_t begin = ptr[i], end = ptr[i + 1];
  unsigned trouble = 0;
  T diagonal = 0, largest = 0;
  for (std::int64_t p = begin; p < end; ++p) {
    const T value = a[p], size = value < T(0) ? -value : value;
    if (!finite(value)) trouble |= entry_not_finite;
    if (size > largest) largest = size;
    if (col[p] == i) diagonal = value;
  }
  if (!finite(diagonal) || !finite(T(1) / diagonal)) {
    if (!one_for_zero) trouble |= diagonal_unusable;
    diagonal = 1;
  }
  T sum = 0;
  for (std::int64_t p = begin; p < end; ++p) {
    const T scaled = a[p] / largest;
    sum += scaled * scaled;
  }
  m = largest > T(0) ? diagonal / largest / sum / largest : diagonal;
  return trouble;
}

}  // namespace protean::detail

// Defined in device_spai0.cu. CUDA builds only.
namespace protean::device {

// spai0_row() of all rows of a matrix on the device, which *trouble collects.
template <class T>
void spai0_rows(const Context& context, const CsrMatrix<T>& csr, bool one_for_zero, VectorView<T> m,
                unsigned* trouble);

}  // namespace protean::device
