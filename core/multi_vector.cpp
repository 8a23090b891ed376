// The sizes and the memory of several vectors: what is refused.
#include "core/multi_vector.hpp"

#include <fmt/format.h>

#include <functional>
#include <limits>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"

namespace protean {
namespace {

constexpr std::int64_t largest_array = std::numeric_limits<std::ptrdiff_t>::max();  // bytes

}  // namespace

namespace detail {

std::int64_t entries_of(std::int64_t rows, std::int64_t columns, std::size_t entry_bytes) {
  if (rows < 0 || columns < 0)
    throw BadArgument(fmt::format("{} vectors of {} entries; both numbers must be 0 or more", columns, rows));
  const std::int64_t most = largest_array / static_cast<std::int64_t>(entry_bytes);
  if (columns > 0 && rows > most / columns)
    throw OutOfMemory(fmt::format("{} vectors of {} entries are larger than any address space; compute with "
                                  "fewer at a time",
                                  columns, rows),
                      std::numeric_limits<std::size_t>::max());
  return rows * columns;
}

}  // namespace detail

template <class T>
void require(const MultiVectorView<const T>& view, std::int64_t rows, std::int64_t columns, Space space,
             std::string_view what) {
  if (view.rows != rows || view.columns != columns || columns < 0)
    throw ShapeMismatch(
        fmt::format("{} is {} x {}; {} x {} is needed", what, view.rows, view.columns, rows, columns));
  if (rows == 0 || columns == 0) return;
  const bool by_columns = view.layout == VectorLayout::columns;
  if (view.stride < (by_columns ? rows : columns))
    throw ShapeMismatch(fmt::format("{} is {} x {} and {} with stride {}, which must be {} or more", what,
                                    rows, columns, by_columns ? "lies by columns" : "is interleaved",
                                    view.stride, by_columns ? rows : columns));
  // The last entry is (long - 1) stride + short - 1; its address must not wrap around.
  const std::int64_t lines = by_columns ? columns : rows,
                     most = largest_array / static_cast<std::int64_t>(sizeof(T));
  if (lines > 1 && view.stride > (most - (by_columns ? rows : columns)) / (lines - 1))
    throw BadArgument(fmt::format(
        "{} is {} x {} with stride {}, in entries: its last entry lies beyond any address space; give the "
        "stride and the number of columns that the memory has",
        what, rows, columns, view.stride));
  if (view.space != space)
    throw WrongSpace(fmt::format("{} lies in {} memory; the operation needs {} memory (use copy())", what,
                                 to_string(view.space), to_string(space)));
  if (!view.data) throw BadArgument(fmt::format("{} is a null pointer", what));
}

template <class T>
void detail::require_apart(const MultiVectorView<const T>& a, const MultiVectorView<const T>& b,
                           std::string_view names) {
  const std::less<const T*> before;
  if (a.extent() > 0 && b.extent() > 0 && before(a.data, b.data + b.extent()) &&
      before(b.data, a.data + a.extent()))
    throw BadArgument(fmt::format("{} overlap; use separate memory", names));
}

#define PROTEAN_INSTANTIATE(T)                                                                             \
  template void require<T>(const MultiVectorView<const T>&, std::int64_t, std::int64_t, Space,             \
                           std::string_view);                                                              \
  template void detail::require_apart<T>(const MultiVectorView<const T>&, const MultiVectorView<const T>&, \
                                         std::string_view);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
