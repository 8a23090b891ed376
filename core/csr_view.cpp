#include "core/csr_view.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/first_index.hpp"
#include "core/parallel.hpp"

namespace protean {

#if defined(PROTEAN_HAVE_CUDA)
namespace device {  // core/device/indices.cu
void subtract_one(const Context& context, const std::int32_t* from, std::int64_t size, std::int32_t* to);
void subtract_one(const Context& context, const std::int64_t* from, std::int64_t size, std::int64_t* to);
}  // namespace device
#endif

namespace {

constexpr std::int64_t largest_index = std::numeric_limits<std::int32_t>::max();

template <class Index>
Buffer<Index> less_one(const ContextPtr& context, const Index* from, std::int64_t size) {
  Buffer<Index> to(context, size);
#if defined(PROTEAN_HAVE_CUDA)
  if (context->space() == Space::device) {
    const detail::DeviceScope scope(*context);
    device::subtract_one(*context, from, size, to.data());
    return to;
  }
#endif
  parallel(useful_parts(*context, size), [&](int part, int parts) {
    const Range range = even_range(size, part, parts);
    for (std::int64_t i = range.begin; i < range.end; ++i) to[i] = detail::less_one(from[i]);
  });
  return to;
}

template <class T, class Pointer>
CsrMatrix<T> view_in(const ContextPtr& context, std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
                     const Pointer* row_ptr, const std::int32_t* col, const T* values, IndexBase base) {
  if (!row_ptr) throw BadArgument("the row pointers are a null pointer");
  // With indices from 1 the last row pointer is one more than the entries.
  if (rows < 0 || cols < 0 || nonzeros < 0 || rows > largest_index || cols > largest_index ||
      nonzeros == std::numeric_limits<std::int64_t>::max())
    throw BadArgument(
        fmt::format("a matrix of {} x {} with {} entries: sizes are 0 or more, rows and columns at "
                    "most {}, entries below 2^63 - 1",
                    rows, cols, nonzeros, largest_index));
  if (nonzeros > 0 && (!col || !values)) throw BadArgument("columns or values are a null pointer");
  if (sizeof(Pointer) == 4 && nonzeros > largest_index)
    throw BadArgument(fmt::format("{} entries need 64-bit row pointers", nonzeros));
  const int first = base == IndexBase::one ? 1 : 0;
  if (context->space() == Space::host && (row_ptr[0] != first || row_ptr[rows] != nonzeros + first))
    throw BadArgument(fmt::format(
        "the row pointers begin with {} and end with {}; with indices from {} and {} entries it must "
        "be {} and {}",
        row_ptr[0], row_ptr[rows], first, nonzeros, first, nonzeros + first));
  CsrMatrix<T> result;
  SparsityPattern& pattern = result.pattern;
  pattern.rows = rows, pattern.cols = cols, pattern.nonzeros = nonzeros, pattern.space = context->space();
  if (base == IndexBase::one) {
    struct Copies {
      Buffer<Pointer> row_ptr;
      Buffer<std::int32_t> col;
    };
    auto copies = std::make_shared<Copies>(
        Copies{less_one(context, row_ptr, rows + 1), less_one(context, col, nonzeros)});
    row_ptr = copies->row_ptr.data(), col = copies->col.data();
    pattern.owner = std::move(copies);
  }
  if constexpr (sizeof(Pointer) == 4)
    pattern.row_ptr.p32 = row_ptr;
  else
    pattern.row_ptr.p64 = row_ptr;
  pattern.col = col, result.values = values;
  return result;
}

}  // namespace

template <class T>
CsrMatrix<T> csr_view(const ContextPtr& context, std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
                      const std::int32_t* row_ptr, const std::int32_t* col, const T* values, IndexBase base) {
  return view_in(context, rows, cols, nonzeros, row_ptr, col, values, base);
}
template <class T>
CsrMatrix<T> csr_view(const ContextPtr& context, std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
                      const std::int64_t* row_ptr, const std::int32_t* col, const T* values, IndexBase base) {
  return view_in(context, rows, cols, nonzeros, row_ptr, col, values, base);
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template CsrMatrix<T> csr_view<T>(const ContextPtr&, std::int64_t, std::int64_t, std::int64_t,    \
                                    const std::int32_t*, const std::int32_t*, const T*, IndexBase); \
  template CsrMatrix<T> csr_view<T>(const ContextPtr&, std::int64_t, std::int64_t, std::int64_t,    \
                                    const std::int64_t*, const std::int32_t*, const T*, IndexBase);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
