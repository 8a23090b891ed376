// Matrices between host and device memory.
#include "core/transfer.hpp"

#include <cstring>
#include <limits>

#include "core/csr.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/simulated_device.hpp"
#include "core/words.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/copy.hpp"
#include "core/device/read_rows.hpp"
#endif

namespace protean {
namespace detail {
namespace {

void require_simulated(const SimulatedDevice& device, const void* data, Space space) {
  if (device.owns(data) != (space == Space::device))
    throw WrongSpace("an address given to a copy should lie in " + std::string(to_string(space)) +
                     " memory, but does not");
}

std::size_t free_bytes([[maybe_unused]] const Context& context) {
#if defined(PROTEAN_HAVE_CUDA)
  if (!context.simulated()) return device::free_bytes(context);
#endif
  return std::numeric_limits<std::size_t>::max();
}

void require_device([[maybe_unused]] const Context& context) {
#if !defined(PROTEAN_HAVE_CUDA)
  if (!context.simulated())
    throw NotAvailable("this build has no GPU code, so there is no device memory to copy to or from");
#endif
}

}  // namespace

void copy_bytes(const Context& context, void* to, Space to_space, const void* from, Space from_space,
                std::size_t bytes) {
  if (bytes == 0) return;
  if (SimulatedDevice* device = context.simulated()) {
    require_simulated(*device, to, to_space), require_simulated(*device, from, from_space);
    const DeviceWork work(context);
    std::memcpy(to, from, bytes);
    return;
  }
  require_device(context);
  const DeviceScope scope(context);
#if defined(PROTEAN_HAVE_CUDA)
  if (from_space == Space::host)
    device::copy_in(context, to, from, bytes);
  else if (to_space == Space::host)
    device::copy_out(context, to, from, bytes);
  else
    device::copy_within(context, to, from, bytes);
#endif
}

namespace {

// Row pointers and columns, copied to arrays in other memory; `device` as below.
void move_pattern(const Context& device, const SparsityPattern& from, Space space, std::int32_t* narrow,
                  std::int64_t* wide, std::int32_t* col) {
  const auto rows = static_cast<std::size_t>(from.rows + 1),
             entries = static_cast<std::size_t>(from.nonzeros);
  if (from.row_ptr.p32)
    copy_bytes(device, narrow, space, from.row_ptr.p32, from.space, rows * 4);
  else
    copy_bytes(device, wide, space, from.row_ptr.p64, from.space, rows * 8);
  copy_bytes(device, col, space, from.col, from.space, entries * 4);
}

void require_download(const Context& host, const Context& device, const SparsityPattern& pattern) {
  require_device(device);
  if (host.space() != Space::host || device.space() != Space::device || pattern.space != Space::device)
    throw WrongSpace("download() takes a host context, and a device matrix with its context");
}

// All arrays of a matrix in the memory of `context`; `device` is the one of the two contexts that is a
// device.
template <class T>
CsrMatrix<T> moved(const ContextPtr& context, const Context& device, const CsrMatrix<T>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  CsrBuilder<T> builder(context, p.rows, p.cols, p.nonzeros, p.row_ptr.p64 != nullptr);
  move_pattern(device, p, context->space(), builder.row_ptr32(), builder.row_ptr64(), builder.col());
  copy_bytes(device, builder.values(), context->space(), matrix.values, p.space,
             static_cast<std::size_t>(p.nonzeros) * sizeof(T));
  return builder.freeze();
}

}  // namespace
}  // namespace detail

template <class T>
CsrMatrix<T> upload(const ContextPtr& context, const CsrMatrix<T>& matrix) {
  detail::require_device(*context);
  if (context->space() != Space::device || matrix.pattern.space != Space::host)
    throw WrongSpace("upload() takes a host matrix and a device context");
  if (const std::size_t free = detail::free_bytes(*context); matrix.bytes() > free)
    throw OutOfMemory("the matrix needs " + human_bytes(matrix.bytes()) + " of GPU memory; " +
                          human_bytes(free) + " are free",
                      matrix.bytes());
  return detail::moved(context, *context, matrix);
}

template <class T>
CsrMatrix<T> download(const ContextPtr& host, const Context& context, const CsrMatrix<T>& matrix) {
  detail::require_download(*host, context, matrix.pattern);
  return detail::moved(host, context, matrix);
}

SparsityPattern detail::download_pattern(const ContextPtr& host, const Context& context,
                                         const SparsityPattern& pattern) {
  detail::require_download(*host, context, pattern);
  struct Arrays {
    Buffer<std::int32_t> narrow;
    Buffer<std::int64_t> wide;
    Buffer<std::int32_t> col;
  };
  const bool is_wide = pattern.row_ptr.p32 == nullptr;
  const auto arrays = std::make_shared<Arrays>();
  if (is_wide)
    arrays->wide = Buffer<std::int64_t>(host, pattern.rows + 1);
  else
    arrays->narrow = Buffer<std::int32_t>(host, pattern.rows + 1);
  arrays->col = Buffer<std::int32_t>(host, pattern.nonzeros);
  detail::move_pattern(context, pattern, Space::host, arrays->narrow.data(), arrays->wide.data(),
                       arrays->col.data());
  SparsityPattern copied = pattern;
  copied.row_ptr = {is_wide ? nullptr : arrays->narrow.data(), is_wide ? arrays->wide.data() : nullptr};
  copied.col = arrays->col.data(), copied.owner = arrays, copied.space = Space::host;
  return copied;
}

void detail::read_rows(const Context& context, const SparsityPattern& pattern,
                       std::span<const std::int32_t> rows, RowsRead& to) {
#if defined(PROTEAN_HAVE_CUDA)
  if (context.space() == Space::device && !context.simulated()) {
    const DeviceScope device_scope(context);
    device::read_rows(context, pattern, rows, to);
    return;
  }
#endif
  const DeviceWork open(context, {pattern.col});
  to.begin.assign(1, 0), to.columns.clear();
  for (const std::int32_t row : rows) {
    const std::span<const std::int32_t> columns = pattern.row(row);
    to.columns.insert(to.columns.end(), columns.begin(), columns.end());
    to.begin.push_back(static_cast<std::int64_t>(to.columns.size()));
  }
}

#define PROTEAN_INSTANTIATE(T)                                             \
  template CsrMatrix<T> upload<T>(const ContextPtr&, const CsrMatrix<T>&); \
  template CsrMatrix<T> download<T>(const ContextPtr&, const Context&, const CsrMatrix<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
