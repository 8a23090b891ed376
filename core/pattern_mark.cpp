#include "core/pattern_mark.hpp"

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <cstring>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/pattern_words.hpp"
#include "core/simulated_device.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/check_matrix.hpp"
#endif

namespace protean {
namespace {

const void* address_of(const RowPointers& row_ptr) {
  return row_ptr.visit([](const auto* p) { return static_cast<const void*>(p); });
}

// word_of() in one load.
static_assert(std::endian::native == std::endian::little);
std::uint64_t loaded(const std::int32_t* two) {
  std::uint64_t word;
  std::memcpy(&word, two, sizeof word);
  return word;
}

}  // namespace

std::uint64_t hash_of(const Context& context, const SparsityPattern& pattern) {
#if defined(PROTEAN_HAVE_CUDA)
  if (pattern.space == Space::device && !context.simulated()) return device::hash_of(context, pattern);
#endif
  const detail::DeviceWork open(context,
                                {pattern.space == Space::device ? address_of(pattern.row_ptr) : nullptr});
  std::atomic<std::uint64_t> all{0};
  const std::int64_t pointers = pattern.rows + 1;
  const std::int64_t of_columns = detail::terms_of(pattern.nonzeros, detail::columns_of_term);
  const std::int64_t of_pointers = detail::terms_of(pointers, detail::row_pointers_of_term);
  parallel(useful_parts(context, pattern.rows + pattern.nonzeros, 1 << 15), [&](int part, int parts) {
    const Range columns = even_range(of_columns, part, parts), rows = even_range(of_pointers, part, parts);
    std::uint64_t sum =
        detail::sum_of_columns(pattern.col, pattern.nonzeros, columns.begin, columns.end, 1, loaded);
    pattern.row_ptr.visit([&](const auto* row_ptr) {
      if (row_ptr)  // a matrix without rows may have none
        sum += detail::sum_of_row_pointers(row_ptr, pointers, rows.begin, rows.end, 1);
    });
    all.fetch_add(sum, std::memory_order_relaxed);
  });
  return all;
}

bool detail::same_arrays(const SparsityPattern& a, const SparsityPattern& b) noexcept {
  return a.row_ptr.p32 == b.row_ptr.p32 && a.row_ptr.p64 == b.row_ptr.p64 && a.col == b.col;
}

PatternMark::PatternMark(const Context& context, const SparsityPattern& pattern)
    : rows_(pattern.rows),
      cols_(pattern.cols),
      nonzeros_(pattern.nonzeros),
      hash_(hash_of(context, pattern)),
      row_ptr_(address_of(pattern.row_ptr)),
      col_(pattern.col),
      owner_(pattern.owner) {}

bool PatternMark::is(const Context& context, const SparsityPattern& pattern) const {
  if (pattern.rows != rows_ || pattern.cols != cols_ || pattern.nonzeros != nonzeros_) return false;
  const bool here = address_of(pattern.row_ptr) == row_ptr_ && pattern.col == col_;
  // Another owner may have got the memory of the first one.
  if (here && pattern.owner && pattern.owner == owner_.lock()) return true;
  return hash_of(context, pattern) == hash_;
}

void PatternMark::require(const Context& context, const SparsityPattern& pattern) const {
  if (is(context, pattern)) return;
  throw ShapeMismatch(
      "the new values belong to another pattern with the same numbers of rows, columns and entries; the "
      "entries must have the rows and columns with which the matrix was made, in the same order (make a new "
      "matrix for another pattern)");
}

}  // namespace protean
