// The device side of validate() of a matrix (core/csr_check.cpp), of hash_of() of a pattern (core/pattern_mark.cpp) and
// of what float holds (operators/narrow_values.cpp). Private; CUDA builds only.
#pragma once
#include <cstdint>

#include "core/csr.hpp"

namespace protean::device {

// The first row r with row_ptr[r] < 0, row_ptr[r + 1] < row_ptr[r] or row_ptr[r + 1] > nonzeros, or `rows`. Waits.
std::int64_t first_bad_row(const Context& context, const SparsityPattern& pattern);
// The first row whose columns do not strictly ascend, or `rows`. Row pointers must be valid. Waits.
std::int64_t first_unsorted_row(const Context& context, const SparsityPattern& pattern);
// The first entry whose column is not in 0 .. cols - 1 or whose value is not finite, or `count`. Either array may be
// null. Waits.
template <class T>
std::int64_t first_bad_entry(const Context& context, std::int64_t count, std::int64_t cols,
                             const std::int32_t* col, const T* values);
// Whether detail::is_exact_in_float() holds for all values. Waits.
bool all_exact_in_float(const Context& context, std::int64_t count, const double* values);
// The first value with detail::is_beyond_float(), or `count`. Waits.
std::int64_t first_beyond_float(const Context& context, std::int64_t count, const double* values);
// The number that the host finds for the same pattern. Waits.
std::uint64_t hash_of(const Context& context, const SparsityPattern& pattern);

}  // namespace protean::device
