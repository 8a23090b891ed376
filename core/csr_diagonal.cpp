// The diagonal of CSR. Compiled once for each instruction set by Highway.
#include "core/simd.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/csr_diagonal.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>

#include <hwy/cache_control.h>

#include "core/csr.hpp"
#include "core/parallel.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The place of `wanted` among n columns in any order; n when it is absent.
HWY_INLINE std::int64_t find_any(const std::int32_t* col, std::int64_t n, std::int32_t wanted) {
  const hn::ScalableTag<std::int32_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto value = hn::Set(d, wanted);
  std::int64_t k = 0;
  for (; k + lanes <= n; k += lanes)
    if (const std::intptr_t found = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, col + k), value)); found >= 0)
      return k + found;
  while (k < n && col[k] != wanted) ++k;
  return k;
}

template <class T>
void diagonal_of(const CsrMatrix<T>& matrix, std::int64_t begin, std::int64_t end, T* diagonal) {
  const SparsityPattern& p = matrix.pattern;
  // The diagonal entry is often at the same place as in the row before, or near it. So the next rows are
  // prefetched at that place.
  constexpr std::int64_t ahead = 16, steps = 3, long_row = 512;
  std::int64_t at = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t first = p.row_ptr[r], n = p.row_ptr[r + 1] - first;
    if (n == 0) {
      diagonal[r] = T(0);
      continue;
    }
    if (r + ahead < end) {
      const std::int64_t near = std::min(p.row_ptr[r + ahead] + at, p.nonzeros - 1);
      hwy::Prefetch(p.col + near);
      hwy::Prefetch(matrix.values + near);
    }
    const std::int32_t* const col = p.col + first;
    const auto own = static_cast<std::int32_t>(r);
    at = std::min(at, n - 1);
    for (std::int64_t s = 0; s < steps && col[at] < own && at + 1 < n; ++s) ++at;
    for (std::int64_t s = 0; s < steps && col[at] > own && at > 0; ++s) --at;
    if (col[at] != own) {
      at = n;
      if (n > long_row) at = std::lower_bound(col, col + n, own) - col;
      // A shorter row, one in another order, or one without the entry.
      if (at == n || col[at] != own) at = find_any(col, n, own);
    }
    diagonal[r] = at < n ? matrix.values[first + at] : T(0);
  }
}

void diagonal_f64(const CsrMatrix<double>& matrix, std::int64_t begin, std::int64_t end, double* diagonal) {
  diagonal_of(matrix, begin, end, diagonal);
}
void diagonal_f32(const CsrMatrix<float>& matrix, std::int64_t begin, std::int64_t end, float* diagonal) {
  diagonal_of(matrix, begin, end, diagonal);
}

}  // namespace
}  // namespace protean::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean {
namespace {
HWY_EXPORT(diagonal_f64);
HWY_EXPORT(diagonal_f32);
}  // namespace

template <>
void extract_diagonal<double>(const Context& context, const CsrMatrix<double>& matrix, double* diagonal) {
  parallel(useful_parts(context, matrix.rows()), [&](int part, int parts) {
    const Range range = even_range(std::min(matrix.rows(), matrix.cols()), part, parts);
    HWY_DYNAMIC_DISPATCH(diagonal_f64)(matrix, range.begin, range.end, diagonal);
  });
}
template <>
void extract_diagonal<float>(const Context& context, const CsrMatrix<float>& matrix, float* diagonal) {
  parallel(useful_parts(context, matrix.rows()), [&](int part, int parts) {
    const Range range = even_range(std::min(matrix.rows(), matrix.cols()), part, parts);
    HWY_DYNAMIC_DISPATCH(diagonal_f32)(matrix, range.begin, range.end, diagonal);
  });
}

}  // namespace protean
#endif
