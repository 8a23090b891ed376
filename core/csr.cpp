#include "core/csr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/device_checks.hpp"
#include "core/parallel.hpp"
#include "core/simulated_device.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/transpose.hpp"
#endif

namespace protean {
namespace {

constexpr std::int64_t largest_index = std::numeric_limits<std::int32_t>::max();

void check_sizes(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) {
  if (rows < 0 || cols < 0 || nonzeros < 0)
    throw BadArgument(
        fmt::format("a matrix of {} x {} with {} entries: sizes cannot be negative", rows, cols, nonzeros));
  if (rows > largest_index || cols > largest_index)
    throw BadArgument(
        fmt::format("a matrix of {} x {}: rows and columns are limited to {}", rows, cols, largest_index));
}

template <class T, class Pointer>
CsrMatrix<T> view_of(std::int64_t rows, std::int64_t cols, const Pointer* row_ptr, const std::int32_t* col,
                     const T* values) {
  if (!row_ptr) throw BadArgument("the row pointers are a null pointer");
  check_sizes(rows, cols, 0);  // before `rows` says where to read
  check_sizes(rows, cols, row_ptr[rows]);
  if (row_ptr[rows] > 0 && (!col || !values)) throw BadArgument("columns or values are a null pointer");
  CsrMatrix<T> result;
  result.pattern.rows = rows, result.pattern.cols = cols, result.pattern.nonzeros = row_ptr[rows];
  if constexpr (sizeof(Pointer) == 4)
    result.pattern.row_ptr.p32 = row_ptr;
  else
    result.pattern.row_ptr.p64 = row_ptr;
  result.pattern.col = col, result.values = values;
  return result;
}

// Appends one sorted row without duplicates, from (column, position) pairs in input order.
struct Entry {
  std::int32_t col;
  std::int64_t position;
};

}  // namespace

void detail::require_lengths(std::int64_t rows, std::size_t row_ptr, std::size_t col, std::size_t values,
                             std::int64_t last) {
  if (rows < 0 || row_ptr != static_cast<std::size_t>(rows) + 1)
    throw ShapeMismatch(fmt::format("there are {} row pointers; {} rows need {}", row_ptr, rows,
                                    std::max<std::int64_t>(rows, 0) + 1));
  if (last < 0 || col != static_cast<std::size_t>(last) || values != col)
    throw ShapeMismatch(fmt::format(
        "there are {} columns and {} values; the last row pointer says {} of each", col, values, last));
}

template <class T>
CsrMatrix<T> csr_view(std::int64_t rows, std::int64_t cols, const std::int32_t* row_ptr,
                      const std::int32_t* col, const T* values) {
  return view_of(rows, cols, row_ptr, col, values);
}
template <class T>
CsrMatrix<T> csr_view(std::int64_t rows, std::int64_t cols, const std::int64_t* row_ptr,
                      const std::int32_t* col, const T* values) {
  return view_of(rows, cols, row_ptr, col, values);
}

template <class T>
CsrBuilder<T>::CsrBuilder(ContextPtr context, std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
                          bool force_wide)
    : rows_(rows), cols_(cols), nonzeros_(nonzeros), narrow_(nonzeros <= largest_index && !force_wide) {
  check_sizes(rows, cols, nonzeros);
  if (narrow_)
    ptr32_ = Buffer<std::int32_t>(context, rows + 1);
  else
    ptr64_ = Buffer<std::int64_t>(context, rows + 1);
  col_ = Buffer<std::int32_t>(context, nonzeros);
  values_ = Buffer<T>(context, nonzeros);
  space_ = context->space();
  if (space_ == Space::host) set_row_ptr(0, 0);
}

template <class T>
CsrMatrix<T> CsrBuilder<T>::freeze() {
  struct Index {
    Buffer<std::int32_t> ptr32;
    Buffer<std::int64_t> ptr64;
    Buffer<std::int32_t> col;
  };
  auto index = std::make_shared<Index>(Index{std::move(ptr32_), std::move(ptr64_), std::move(col_)});
  auto values = std::make_shared<Buffer<T>>(std::move(values_));
  CsrMatrix<T> result;
  result.pattern.rows = rows_, result.pattern.cols = cols_, result.pattern.nonzeros = nonzeros_;
  result.pattern.row_ptr.p32 = narrow_ ? index->ptr32.data() : nullptr;
  result.pattern.row_ptr.p64 = narrow_ ? nullptr : index->ptr64.data();
  result.pattern.col = index->col.data();
  result.values = values->data();
  result.pattern.space = space_;
  result.pattern.owner = std::move(index);
  result.values_owner = std::move(values);
  return result;
}

void validate_sorted(const Context& context, const SparsityPattern& pattern) {
  if (pattern.row_ptr[0] != 0)
    throw BadMatrix(fmt::format("row_ptr[0] is {}; it must be 0 (indices count from 0)", pattern.row_ptr[0]));
  if (pattern.row_ptr[pattern.rows] != pattern.nonzeros)
    throw BadMatrix(fmt::format("row_ptr[{}] is {}; the last row pointer must be the number of entries, {}",
                                pattern.rows, pattern.row_ptr[pattern.rows], pattern.nonzeros));
  parallel(useful_parts(context, pattern.nonzeros), [&](int part, int parts) {
    const Range range = even_range(pattern.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const std::int64_t begin = pattern.row_ptr[r], end = pattern.row_ptr[r + 1];
      // A thread may begin in the middle, so no earlier row has shown that `begin` is in range.
      if (begin < 0 || end < begin || end > pattern.nonzeros)
        throw BadMatrix(
            fmt::format("row_ptr[{}] = {} follows row_ptr[{}] = {}; row pointers must not decrease", r + 1,
                        end, r, begin));
      for (std::int64_t k = begin; k < end; ++k) {
        const std::int32_t c = pattern.col[k];
        if (c < 0 || c >= pattern.cols)
          throw BadMatrix(
              fmt::format("row {}, entry {}: column {} is outside 0..{}", r, k - begin, c, pattern.cols - 1));
        if (k > begin && c <= pattern.col[k - 1])
          throw BadMatrix(fmt::format(
              "row {}, entry {}: column {} after column {}; columns must ascend without duplicates "
              "(sorted_copy() sorts)",
              r, k - begin, c, pattern.col[k - 1]));
      }
    }
  });
}

template <class T>
void require_finite(const Context& context, const CsrMatrix<T>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  const std::int64_t none = p.nonzeros;
  std::atomic<std::int64_t> first{none};
  parallel(useful_parts(context, p.nonzeros), [&](int part, int parts) {
    const Range range = even_range(p.nonzeros, part, parts);
    for (std::int64_t begin = range.begin; begin < range.end && begin < first.load(); begin += 4096) {
      const std::int64_t end = std::min<std::int64_t>(range.end, begin + 4096);
      T sum = 0;
      for (std::int64_t k = begin; k < end; ++k) sum += matrix.values[k] * T(0);  // NaN if one is not finite
      if (sum == 0) continue;
      std::int64_t k = begin;
      while (std::isfinite(matrix.values[k])) ++k;
      std::int64_t known = first.load();
      while (k < known && !first.compare_exchange_weak(known, k)) {}
      break;
    }
  });
  if (first == none) return;
  throw BadMatrix(fmt::format("entry ({}, {}), counted from 0, is {}; every value must be finite",
                              detail::row_of_entry(p.row_ptr, p.rows, first), p.col[first],
                              matrix.values[first]));
}

namespace {

// Sorts rows given as (column, position of its value) lists and adds duplicates.
template <class T, class ValueAt>
CsrMatrix<T> sort_rows(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                       const std::vector<std::int64_t>& ptr, std::vector<Entry>& entries, ValueAt&& value_at,
                       Duplicates duplicates) {
  std::vector<std::int64_t> length(static_cast<std::size_t>(rows) + 1, 0);
  const int workers = useful_parts(*context, static_cast<std::int64_t>(entries.size()));
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const auto begin = entries.begin() + ptr[r], end = entries.begin() + ptr[r + 1];
      if (!std::is_sorted(begin, end, [](const Entry& a, const Entry& b) { return a.col < b.col; }))
        std::stable_sort(begin, end, [](const Entry& a, const Entry& b) { return a.col < b.col; });
      std::int64_t distinct = 0;
      for (auto e = begin; e != end; ++e) {
        if (e == begin || e->col != (e - 1)->col)
          ++distinct;
        else if (duplicates == Duplicates::refuse)
          throw BadMatrix(fmt::format(
              "entry ({}, {}) is given twice (counted from 0); sum duplicates if that is what is meant", r,
              e->col));
      }
      length[r + 1] = distinct;
    }
  });
  std::partial_sum(length.begin(), length.end(), length.begin());
  CsrBuilder<T> builder(context, rows, cols, length[rows]);
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      builder.set_row_ptr(r + 1, length[r + 1]);
      std::int64_t out = length[r] - 1;
      for (std::int64_t k = ptr[r]; k < ptr[r + 1]; ++k) {
        if (k == ptr[r] || entries[k].col != entries[k - 1].col) {
          builder.col()[++out] = entries[k].col;
          builder.values()[out] = value_at(entries[k].position);
          continue;
        }
        const T before = builder.values()[out], more = value_at(entries[k].position);
        builder.values()[out] = before + more;
        if (!std::isfinite(before + more) && std::isfinite(before) && std::isfinite(more))
          throw BadMatrix(
              fmt::format("entry ({}, {}), counted from 0, is given more than once; its values add up to {}",
                          r, entries[k].col, before + more));
      }
    }
  });
  return builder.freeze();
}

}  // namespace

template <class T>
CsrMatrix<T> csr_from_triplets(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                               std::span<const Triplet<T>> triplets, Duplicates duplicates) {
  check_sizes(rows, cols, static_cast<std::int64_t>(triplets.size()));
  std::vector<std::int64_t> ptr(static_cast<std::size_t>(rows) + 1, 0);
  for (const auto& t : triplets) {
    if (t.row < 0 || t.row >= rows || t.col < 0 || t.col >= cols)
      throw BadMatrix(fmt::format("entry ({}, {}) is outside the {} x {} matrix (counted from 0)", t.row,
                                  t.col, rows, cols));
    ++ptr[t.row + 1];
  }
  std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
  std::vector<Entry> entries(triplets.size());
  std::vector<std::int64_t> next(ptr.begin(), ptr.end() - 1);
  for (std::size_t k = 0; k < triplets.size(); ++k)
    entries[next[triplets[k].row]++] = {triplets[k].col, static_cast<std::int64_t>(k)};
  return sort_rows<T>(
      context, rows, cols, ptr, entries, [&](std::int64_t k) { return triplets[k].value; }, duplicates);
}

template <class T>
CsrMatrix<T> sorted_copy(const ContextPtr& context, const CsrMatrix<T>& matrix, Duplicates duplicates) {
  const SparsityPattern& p = matrix.pattern;
  std::vector<std::int64_t> ptr(static_cast<std::size_t>(p.rows) + 1);
  for (std::int64_t r = 0; r <= p.rows; ++r) ptr[r] = p.row_ptr[r];
  std::vector<Entry> entries(static_cast<std::size_t>(p.nonzeros));
  for (std::int64_t k = 0; k < p.nonzeros; ++k) entries[k] = {p.col[k], k};
  return sort_rows<T>(
      context, p.rows, p.cols, ptr, entries, [&](std::int64_t k) { return matrix.values[k]; }, duplicates);
}

namespace {

template <class T>
CsrMatrix<T> transpose_on_device(const ContextPtr& context, const CsrMatrix<T>& matrix) {
#if defined(PROTEAN_HAVE_CUDA)
  if (!context->simulated()) {
    const detail::DeviceScope scope(*context);
    CsrBuilder<T> builder(context, matrix.cols(), matrix.rows(), matrix.nonzeros());
    if (builder.row_ptr32())
      device::transpose(*context, matrix, builder.row_ptr32(), builder.col(), builder.values());
    else
      device::transpose(*context, matrix, builder.row_ptr64(), builder.col(), builder.values());
    return builder.freeze();
  }
#endif
  const ContextPtr host = Context::host(1);
  return upload(context, transpose(host, download(host, *context, matrix)));
}

}  // namespace

template <class T>
CsrMatrix<T> transpose(const ContextPtr& context, const CsrMatrix<T>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  if (p.space != context->space())
    throw WrongSpace(
        fmt::format("the matrix lies in {} memory and is to be transposed in {} memory; upload() or "
                    "download() it first",
                    to_string(p.space), to_string(context->space())));
  if (p.space == Space::device) return transpose_on_device(context, matrix);
  // Each thread counts and places the entries of its rows. The counts of all take no more memory than the matrix.
  const int most = useful_parts(*context, p.nonzeros);
  const auto workers = static_cast<int>(std::clamp<std::int64_t>(p.nonzeros / (p.cols + 1), 1, most));
  std::vector<std::vector<std::int64_t>> next(static_cast<std::size_t>(workers));
  const auto each_entry = [&](auto f) {
    parallel(workers, [&](int part, int parts) {
      const Range rows = even_range(p.rows, part, parts);
      std::vector<std::int64_t>& mine = next[static_cast<std::size_t>(part)];
      if (mine.empty()) mine.resize(static_cast<std::size_t>(p.cols), 0);
      for (std::int64_t r = rows.begin; r < rows.end; ++r)
        for (std::int64_t k = p.row_ptr[r]; k < p.row_ptr[r + 1]; ++k) f(r, k, mine[p.col[k]]);
    });
  };
  each_entry([](std::int64_t, std::int64_t, std::int64_t& count) { ++count; });
  CsrBuilder<T> builder(context, p.cols, p.rows, p.nonzeros);
  std::int64_t begin = 0;
  for (std::int64_t c = 0; c < p.cols; ++c) {
    for (std::vector<std::int64_t>& one : next)
      begin += std::exchange(one[static_cast<std::size_t>(c)], begin);
    builder.set_row_ptr(c + 1, begin);
  }
  each_entry([&](std::int64_t r, std::int64_t k, std::int64_t& place) {
    const std::int64_t out = place++;
    builder.col()[out] = static_cast<std::int32_t>(r);
    builder.values()[out] = matrix.values[k];
  });
  return builder.freeze();
}

template <class To, class From>
CsrMatrix<To> convert_values(const ContextPtr& context, const CsrMatrix<From>& matrix) {
  auto values = std::make_shared<Buffer<To>>(context, matrix.nonzeros());
  parallel(useful_parts(*context, matrix.nonzeros()), [&](int part, int parts) {
    const Range range = even_range(matrix.nonzeros(), part, parts);
    for (std::int64_t k = range.begin; k < range.end; ++k) (*values)[k] = static_cast<To>(matrix.values[k]);
  });
  CsrMatrix<To> result;
  result.pattern = matrix.pattern, result.values = values->data(), result.values_owner = std::move(values);
  return result;
}

template <class T>
CsrMatrix<T> deep_copy(const ContextPtr& context, const CsrMatrix<T>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  CsrBuilder<T> builder(context, p.rows, p.cols, p.nonzeros, p.row_ptr.p64 != nullptr);
  const auto borders = balanced_row_borders(p, useful_parts(*context, p.nonzeros));
  parallel(static_cast<int>(borders.size()) - 1, [&](int part, int) {
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r)
      builder.set_row_ptr(r + 1, p.row_ptr[r + 1]);
    const std::int64_t begin = p.row_ptr[borders[part]], end = p.row_ptr[borders[part + 1]];
    std::copy(p.col + begin, p.col + end, builder.col() + begin);
    std::copy(matrix.values + begin, matrix.values + end, builder.values() + begin);
  });
  return builder.freeze();
}

bool same_pattern(const SparsityPattern& a, const SparsityPattern& b) {
  if (a.rows != b.rows || a.cols != b.cols || a.nonzeros != b.nonzeros) return false;
  for (std::int64_t r = 0; r <= a.rows; ++r)
    if (a.row_ptr[r] != b.row_ptr[r]) return false;
  return a.col == b.col || std::equal(a.col, a.col + a.nonzeros, b.col);
}

std::int64_t detail::row_of_entry(const RowPointers& row_ptr, std::int64_t rows, std::int64_t k) {
  return row_ptr.visit([&](const auto* p) { return std::upper_bound(p + 1, p + rows, k) - p - 1; });
}

std::vector<std::int64_t> balanced_row_borders(const SparsityPattern& pattern, int parts,
                                               std::int64_t grain) {
  std::vector<std::int64_t> borders(static_cast<std::size_t>(parts) + 1, pattern.rows);
  borders[0] = 0;
  const std::int64_t total = pattern.rows + pattern.nonzeros;
  for (int part = 1; part < parts; ++part) {
    const std::int64_t share = total / parts * part + total % parts * part / parts;
    const std::int64_t at = pattern.row_ptr.visit([&](const auto* p) {
      return std::partition_point(p + borders[part - 1], p + pattern.rows,
                                  [&](const auto& begin) { return begin + (&begin - p) < share; }) -
             p;
    });
    borders[part] = std::max(borders[part - 1], std::min(pattern.rows, (at + grain / 2) / grain * grain));
  }
  return borders;
}

#define PROTEAN_INSTANTIATE(T)                                                                            \
  template CsrMatrix<T> csr_view<T>(std::int64_t, std::int64_t, const std::int32_t*, const std::int32_t*, \
                                    const T*);                                                            \
  template CsrMatrix<T> csr_view<T>(std::int64_t, std::int64_t, const std::int64_t*, const std::int32_t*, \
                                    const T*);                                                            \
  template class CsrBuilder<T>;                                                                           \
  template CsrMatrix<T> csr_from_triplets<T>(const ContextPtr&, std::int64_t, std::int64_t,               \
                                             std::span<const Triplet<T>>, Duplicates);                    \
  template CsrMatrix<T> sorted_copy<T>(const ContextPtr&, const CsrMatrix<T>&, Duplicates);               \
  template void require_finite<T>(const Context&, const CsrMatrix<T>&);                                   \
  template CsrMatrix<T> transpose<T>(const ContextPtr&, const CsrMatrix<T>&);                             \
  template CsrMatrix<T> deep_copy<T>(const ContextPtr&, const CsrMatrix<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE
template CsrMatrix<float> convert_values<float, double>(const ContextPtr&, const CsrMatrix<double>&);
template CsrMatrix<double> convert_values<double, float>(const ContextPtr&, const CsrMatrix<float>&);

}  // namespace protean
