// The rows of icsr: each begins at a multiple of `align` and is padded to one. Padding repeats the last column of the
// row with the value 0, so it is known by its columns. The view of row_view.hpp, for host and device memory. Private to
// formats/.
#pragma once
#include <cstdint>

#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

template <class T>
struct AlignedRows {
  const T* values;
  const std::int32_t* col;
  const std::int64_t* row_ptr;
  std::int64_t rows;

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    const std::int64_t begin = row_ptr[p];
    std::int64_t end = row_ptr[p + 1];
    while (end - begin > 1 && col[end - 1] == col[end - 2]) --end;
    return end - begin;
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t begin = row_ptr[p], end = begin + length(p);
    for (std::int64_t k = begin; k < end; ++k) f(col[k], k);
  }
};

PROTEAN_HOST_DEVICE constexpr std::int64_t aligned_length(std::int64_t length, std::int64_t align) {
  return (length + align - 1) / align * align;
}

inline std::size_t aligned_bytes(std::int64_t rows, std::int64_t slots, std::size_t value_bytes) {
  return static_cast<std::size_t>(slots) * (value_bytes + 4) + static_cast<std::size_t>(rows + 1) * 8;
}
// Accepts these slots, or refuses by max_fill. icsr.cpp
Admission admit_aligned(const SparsityPattern& pattern, const FormatParams& params, std::int64_t slots,
                        std::size_t value_bytes);

}  // namespace protean::formats
