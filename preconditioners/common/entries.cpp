#include "preconditioners/common/entries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/bisect.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"

namespace protean::detail {

template <class T>
std::int64_t first_not_finite(const Context& host, const T* numbers, std::int64_t size) {
  std::atomic<std::int64_t> first{size};
  parallel(useful_parts(host, size), [&](int part, int parts) {
    const Range mine = even_range(size, part, parts);
    // Pieces of which only the exponents are looked at, which has no branches.
    using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
    constexpr std::int64_t piece = 1024;
    for (std::int64_t begin = mine.begin; begin < mine.end; begin += piece) {
      const std::int64_t end = std::min(begin + piece, mine.end);
      Bits bad = 0;
      for (std::int64_t k = begin; k < end; ++k)
        bad |= (std::bit_cast<Bits>(numbers[k]) & exponent) == exponent;
      if (bad == 0) continue;
      std::int64_t at = begin;
      while (std::isfinite(numbers[at])) ++at;
      for (std::int64_t seen = first.load(); at < seen && !first.compare_exchange_weak(seen, at);) {}
      return;
    }
  });
  return first;
}

template <class T>
void refuse_entry(std::string_view name, std::int64_t row, std::int64_t column, T value) {
  throw BadMatrix(fmt::format(
      "{} needs finite entries, but the entry of row {}, column {} is {} (both count from 0); correct "
      "the matrix",
      name, row, column, value));
}

template <class T>
void require_finite_entries(const Context& host, const CsrMatrix<T>& csr, std::string_view name) {
  const std::int64_t at = first_not_finite<T>(host, csr.values, csr.nonzeros());
  if (at == csr.nonzeros()) return;
  const std::int64_t row = first_where(std::int64_t{0}, csr.rows(),
                                       [&](std::int64_t i) { return csr.pattern.row_ptr[i + 1] > at; });
  refuse_entry<T>(name, row, csr.pattern.col[at], csr.values[at]);
}

template <class T>
CsrMatrix<T> finite_rows(const LinearOperator<T>& A, const ContextPtr& host, std::string_view name) {
  CsrMatrix<T> csr = rows_on_host(A, host, name);
  require_finite_entries<T>(*host, csr, name);
  return csr;
}

template <class T>
void require_no_overflow(const Context& host, std::string_view name, const T* numbers, std::int64_t size) {
  if (first_not_finite<T>(host, numbers, size) < size) refuse_overflow<T>(name);
}

template <class T>
void refuse_overflow(std::string_view name) {
  throw BadMatrix(fmt::format(
      "{}: the quotients of entries of this matrix are too large for {} precision; scale the "
      "matrix (D A D with d_i = 1 / sqrt |a_ii|), {}or use another preconditioner",
      name, sizeof(T) == 8 ? "double" : "single", sizeof(T) == 8 ? "" : "solve in double precision, "));
}

#define PROTEAN_INSTANTIATE(T)                                                                         \
  template std::int64_t first_not_finite<T>(const Context&, const T*, std::int64_t);                   \
  template void refuse_entry<T>(std::string_view, std::int64_t, std::int64_t, T);                      \
  template CsrMatrix<T> finite_rows<T>(const LinearOperator<T>&, const ContextPtr&, std::string_view); \
  template void require_finite_entries<T>(const Context&, const CsrMatrix<T>&, std::string_view);      \
  template void refuse_overflow<T>(std::string_view);                                                  \
  template void require_no_overflow<T>(const Context&, std::string_view, const T*, std::int64_t);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
