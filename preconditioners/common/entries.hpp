// The entries of a matrix, checked for those who compute with them. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <string_view>

#include "core/csr.hpp"
#include "operators/rows.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// rows_on_host(). Throws BadMatrix for an entry that is not finite, with the first such row and its column.
template <class T>
CsrMatrix<T> finite_rows(const LinearOperator<T>& A, const ContextPtr& host, std::string_view name);

// The check of finite_rows() alone.
template <class T>
void require_finite_entries(const Context& host, const CsrMatrix<T>& csr, std::string_view name);

// The BadMatrix of finite_rows(). `name` is the preconditioner.
template <class T>
[[noreturn]] void refuse_entry(std::string_view name, std::int64_t row, std::int64_t column, T value);

// The first of the numbers in host memory that is not finite; `size` if there is none.
template <class T>
std::int64_t first_not_finite(const Context& host, const T* numbers, std::int64_t size);

// Throws BadMatrix if one of the numbers that `name` has computed of finite ones is too large for T.
template <class T>
void require_no_overflow(const Context& host, std::string_view name, const T* numbers, std::int64_t size);
// Its BadMatrix.
template <class T>
[[noreturn]] void refuse_overflow(std::string_view name);

}  // namespace protean::detail
