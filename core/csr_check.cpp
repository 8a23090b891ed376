// Whether arrays are a matrix that products can use, in either space.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "core/csr.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/check_matrix.hpp"
#endif

namespace protean {
namespace {

using detail::DeviceWork;

#if defined(PROTEAN_HAVE_CUDA)
bool on_device(const Context& context, const SparsityPattern& pattern) {
  return pattern.space == Space::device && !context.simulated();
}
#endif

template <class Index>
Index read(const Context& context, const Index* from, Space space) {
  Index value{};
  detail::copy_bytes(context, &value, Space::host, from, space, sizeof value);
  return value;
}

std::int64_t row_pointer(const Context& context, const SparsityPattern& p, std::int64_t r) {
  return p.row_ptr.visit([&](const auto* row_ptr) {
    return static_cast<std::int64_t>(p.space == Space::device ? read(context, row_ptr + r, p.space)
                                                              : row_ptr[r]);
  });
}

// The first row whose pointers are out of order or range, or `rows`.
std::int64_t first_bad_row(const Context& context, const SparsityPattern& p) {
#if defined(PROTEAN_HAVE_CUDA)
  if (on_device(context, p)) return device::first_bad_row(context, p);
#endif
  std::atomic<std::int64_t> first{p.rows};
  parallel(useful_parts(context, p.rows), [&](int part, int parts) {
    const Range range = even_range(p.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const std::int64_t begin = p.row_ptr[r], end = p.row_ptr[r + 1];
      if (begin >= 0 && end >= begin && end <= p.nonzeros) continue;
      std::int64_t known = first.load();
      while (r < known && !first.compare_exchange_weak(known, r)) {}
      return;
    }
  });
  return first;
}

// The first entry whose column is out of range, or whose value is not finite, or the number of entries. Either array
// may be null.
template <class T>
std::int64_t first_bad_entry(const Context& context, const SparsityPattern& p, const std::int32_t* col,
                             const T* values) {
#if defined(PROTEAN_HAVE_CUDA)
  if (on_device(context, p)) return device::first_bad_entry(context, p.nonzeros, p.cols, col, values);
#endif
  std::atomic<std::int64_t> first{p.nonzeros};
  parallel(useful_parts(context, p.nonzeros), [&](int part, int parts) {
    const Range range = even_range(p.nonzeros, part, parts);
    for (std::int64_t begin = range.begin; begin < range.end && begin < first.load(); begin += 4096) {
      const std::int64_t end = std::min<std::int64_t>(range.end, begin + 4096);
      T sum = 0;
      bool outside = false;
      if (values)
        for (std::int64_t k = begin; k < end; ++k) sum += values[k] * T(0);  // NaN if one is not finite
      if (col)
        for (std::int64_t k = begin; k < end; ++k)
          outside |= static_cast<std::uint32_t>(col[k]) >= static_cast<std::uint32_t>(p.cols);
      if (sum == 0 && !outside) continue;
      std::int64_t k = begin;
      const auto good = [&] {
        return (!values || std::isfinite(values[k])) && (!col || (col[k] >= 0 && col[k] < p.cols));
      };
      while (good()) ++k;
      std::int64_t known = first.load();
      while (k < known && !first.compare_exchange_weak(known, k)) {}
      return;
    }
  });
  return first;
}

// A row whose columns are in any order may still have none twice. On the host; sorted rows are only read.
void check_distinct(const Context& context, const SparsityPattern& p) {
  if (p.space == Space::device || is_sorted(context, p)) return;
  parallel(useful_parts(context, p.nonzeros), [&](int part, int parts) {
    const Range range = even_range(p.rows, part, parts);
    std::vector<std::int32_t> row;
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      row.assign(p.row(r).begin(), p.row(r).end());
      std::sort(row.begin(), row.end());
      const auto twice = std::adjacent_find(row.begin(), row.end());
      if (twice != row.end())
        throw BadMatrix(fmt::format(
            "row {} has column {} twice; add such entries up (csr_from_triplets() and sorted_copy() do)", r,
            *twice));
    }
  });
}

void check_row_pointers(const Context& context, const SparsityPattern& p) {
  const std::int64_t begin = row_pointer(context, p, 0), end = row_pointer(context, p, p.rows);
  if (begin != 0)
    throw BadMatrix(fmt::format("row_ptr[0] is {}; it must be 0 (indices count from 0)", begin));
  if (end != p.nonzeros)
    throw BadMatrix(fmt::format("row_ptr[{}] is {}; the last row pointer must be the number of entries, {}",
                                p.rows, end, p.nonzeros));
  const std::int64_t r = first_bad_row(context, p);
  if (r == p.rows) return;
  throw BadMatrix(fmt::format("row_ptr[{}] = {} follows row_ptr[{}] = {}; row pointers must not decrease",
                              r + 1, row_pointer(context, p, r + 1), r, row_pointer(context, p, r)));
}

template <class T>
void check_entries(const Context& context, const CsrMatrix<T>& m, const std::int32_t* col) {
  const SparsityPattern& p = m.pattern;
  const std::int64_t k = first_bad_entry(context, p, col, m.values);
  if (k == p.nonzeros) return;
  const std::int64_t r = detail::row_of_entry(context, p, k);
  const bool there = p.space == Space::device;
  const std::int32_t c = there ? read(context, p.col + k, p.space) : p.col[k];
  if (c < 0 || c >= p.cols)
    throw BadMatrix(fmt::format("row {}, entry {}: column {} is outside 0..{}", r,
                                k - row_pointer(context, p, r), c, p.cols - 1));
  throw BadMatrix(fmt::format("entry ({}, {}), counted from 0, is {}; every value must be finite", r, c,
                              there ? read(context, m.values + k, p.space) : m.values[k]));
}

}  // namespace

std::int64_t detail::row_of_entry(const Context& context, const SparsityPattern& p, std::int64_t k) {
  std::int64_t low = 0, high = p.rows;  // row_ptr[low] <= k < row_ptr[high]
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (row_pointer(context, p, middle) <= k ? low : high) = middle;
  }
  // Empty rows may begin at the same entry.
  return low;
}

bool is_sorted(const Context& context, const SparsityPattern& pattern) {
#if defined(PROTEAN_HAVE_CUDA)
  if (on_device(context, pattern)) return device::first_unsorted_row(context, pattern) == pattern.rows;
#endif
  const DeviceWork work(context);
  std::atomic<bool> sorted{true};
  parallel(useful_parts(context, pattern.nonzeros), [&](int part, int parts) {
    const Range range = even_range(pattern.rows, part, parts);
    // First all entries in one loop without branches, then the borders of rows, at which columns may descend.
    const std::int64_t begin = pattern.row_ptr[range.begin], end = pattern.row_ptr[range.end];
    std::int64_t descents = 0;
    for (std::int64_t k = begin + 1; k < end;) {
      const std::int64_t stop = std::min<std::int64_t>(end, k + 4096);
      std::int32_t some = 0;
      for (; k < stop; ++k) some += pattern.col[k] <= pattern.col[k - 1];
      descents += some;
    }
    for (std::int64_t r = range.begin; r < range.end; ++r)
      if (const std::int64_t k = pattern.row_ptr[r]; k > begin && k < pattern.row_ptr[r + 1])
        descents -= pattern.col[k] <= pattern.col[k - 1];
    if (descents != 0) sorted.store(false, std::memory_order_relaxed);
  });
  return sorted;
}

template <class T>
void detail::require_arrays(const CsrMatrix<T>& matrix) {
  const RowPointers& row_ptr = matrix.pattern.row_ptr;
  if (matrix.rows() > 0 && !row_ptr.p32 && !row_ptr.p64)
    throw BadArgument("row_ptr of the matrix is a null pointer");
  if (matrix.nonzeros() > 0 && !matrix.pattern.col) throw BadArgument("col of the matrix is a null pointer");
  if (matrix.nonzeros() > 0 && !matrix.values) throw BadArgument("values of the matrix is a null pointer");
}
template void detail::require_arrays<float>(const CsrMatrix<float>&);
template void detail::require_arrays<double>(const CsrMatrix<double>&);

template <class T>
void validate(const ContextPtr& context, const CsrMatrix<T>& matrix) {
  detail::require_arrays(matrix);
  const DeviceWork open(*context, {matrix.pattern.space == Space::device ? matrix.pattern.col : nullptr});
  check_row_pointers(*context, matrix.pattern);
  check_entries(*context, matrix, matrix.pattern.col);
  check_distinct(*context, matrix.pattern);
}

template <class T>
void validate_values(const ContextPtr& context, const CsrMatrix<T>& matrix) {
  const DeviceWork open(*context, {matrix.pattern.space == Space::device ? matrix.pattern.col : nullptr});
  check_entries<T>(*context, matrix, nullptr);
}

template void validate<float>(const ContextPtr&, const CsrMatrix<float>&);
template void validate<double>(const ContextPtr&, const CsrMatrix<double>&);
template void validate_values<float>(const ContextPtr&, const CsrMatrix<float>&);
template void validate_values<double>(const ContextPtr&, const CsrMatrix<double>&);

}  // namespace protean
