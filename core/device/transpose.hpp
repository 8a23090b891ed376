// The device side of transpose() of core/csr.hpp. Private; CUDA builds only.
#pragma once
#include <cstdint>

#include "core/context.hpp"
#include "core/csr.hpp"

namespace protean::device {

// A^T, sorted. row_ptr has A.cols() + 1 entries; col and values have one for each entry of A. All in device memory,
// queued on the context's stream; the same input gives the same output. Throws DeviceError, OutOfMemory (workspace).
template <class T, class Pointer>
void transpose(const Context& context, const CsrMatrix<T>& A, Pointer* row_ptr, std::int32_t* col, T* values);

}  // namespace protean::device
