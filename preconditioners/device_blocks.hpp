// z := M^-1 r of block Jacobi on a device: one kernel, a thread for each row. Private to preconditioners/.
#pragma once
#include <cstdint>

#include "core/host_device.hpp"
#include "core/vector.hpp"

namespace protean::detail {

// The inverses of the diagonal blocks. Entry j of a row of its block's inverse lies at values[j n + row], so that
// neighbouring threads read neighbouring memory. shape: of a row its number within the block, plus 256 times the rows
// of the block; null where all blocks have `size` rows, but the last one may have fewer.
template <class T>
struct BlockInverses {
  std::int64_t n;
  int size;  // the most rows of a block
  const T* values;
  const std::uint16_t* shape;

  // z_row. The entries of a block are added in ascending order, as on a host.
  PROTEAN_HOST_DEVICE T solve(std::int64_t row, const T* r) const {
    std::int64_t first = row - static_cast<std::int32_t>(row) % size;
    int count = static_cast<int>(n - first < size ? n - first : size);
    if (shape) first = row - shape[row] % 256, count = shape[row] / 256;
    const T* value = values + row;
    T sum = 0;
    for (int j = 0; j < count; ++j, value += n) sum += *value * r[first + j];
    return sum;
  }
};

}  // namespace protean::detail

namespace protean::device {

// In device_blocks.cu. r and z do not overlap.
template <class T>
void solve_blocks(const Context& context, const detail::BlockInverses<T>& blocks, VectorView<const T> r,
                  VectorView<T> z);

}  // namespace protean::device
