// The device side of core/permutation.hpp. Private; CUDA builds only.
#pragma once
#include <cstdint>

#include "core/context.hpp"
#include "core/csr.hpp"
#include "core/multi_vector.hpp"

namespace protean::device {

// to[i] := from[index[i]] for i < size; device memory, queued on the context's stream.
template <class T, class Index>
void gather(const Context& context, const T* from, const Index* index, std::int64_t size, T* to);

// to(i, j) := from(index[i], j) for all rows and columns of `to`, in the same way.
template <class T>
void gather_rows(const Context& context, const MultiVectorView<const T>& from, const std::int32_t* index,
                 const MultiVectorView<T>& to);

// P A P^T: place k has row order[k], and the rows of A are at place[...]. row_ptr has rows + 1 entries of the width of
// A's; col and values have one item for each entry; entry[e] is where in A entry e was. Rows come out sorted. All in
// device memory, queued on the context's stream. Throws DeviceError, OutOfMemory (workspace).
template <class T, class Pointer, class Entry>
void permute(const Context& context, const CsrMatrix<T>& A, const std::int32_t* order,
             const std::int32_t* place, Pointer* row_ptr, std::int32_t* col, T* values, Entry* entry);

}  // namespace protean::device
