// CMRS: what host and device share. The head of cmrs.cpp describes the arrays. Private to formats/.
#pragma once
#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// The matrix as kernels see it, and the view of row_view.hpp.
template <class T>
struct CmrsView {
  const T* values;
  const std::uint32_t* packed;
  const std::int64_t* strip_ptr;
  std::int64_t rows;
  int height_bits;  // a strip has 2^height_bits rows

  PROTEAN_HOST_DEVICE int row_in_strip(std::uint32_t entry) const {
    return static_cast<int>(std::uint64_t{entry} >> (32 - height_bits));
  }
  PROTEAN_HOST_DEVICE std::int32_t col(std::uint32_t entry) const {
    return static_cast<std::int32_t>(entry & (0xffffffffu >> height_bits));
  }
  PROTEAN_HOST_DEVICE static std::uint32_t pack(std::int32_t col, std::int64_t row, int height_bits) {
    const auto in_strip = static_cast<std::uint64_t>(row & ((std::int64_t{1} << height_bits) - 1));
    return static_cast<std::uint32_t>(in_strip << (32 - height_bits)) | static_cast<std::uint32_t>(col);
  }

  // The first entry of the strip of row p that belongs to row p or a later one.
  PROTEAN_HOST_DEVICE std::int64_t begin_of(std::int64_t p, int in_strip) const {
    return first_where(strip_ptr[p >> height_bits], strip_ptr[(p >> height_bits) + 1],
                       [&](std::int64_t k) { return row_in_strip(packed[k]) >= in_strip; });
  }
  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE int in_strip(std::int64_t p) const {
    return static_cast<int>(p & ((std::int64_t{1} << height_bits) - 1));
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    return begin_of(p, in_strip(p) + 1) - begin_of(p, in_strip(p));
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t end = begin_of(p, in_strip(p) + 1);
    for (std::int64_t k = begin_of(p, in_strip(p)); k < end; ++k) f(col(packed[k]), k);
  }
};

// log2 of the height of strips. 0 for the parameter takes the smallest height whose strips have 128 entries on average,
// four for each lane of a warp, but at most 16, and no more than the columns leave bits for.
inline int cmrs_height_bits(const SparsityPattern& pattern, const FormatParams& params) {
  const std::int64_t height = params.integer("height");
  int bits = 0;
  if (height > 0) {
    while (std::int64_t{1} << bits < height) ++bits;
    return bits;
  }
  while (bits < 4 && (pattern.nonzeros << bits) / 128 < pattern.rows &&
         pattern.cols <= std::int64_t{1} << (31 - bits))
    ++bits;
  return bits;
}
inline std::int64_t cmrs_strips(std::int64_t rows, int height_bits) {
  return (rows + (std::int64_t{1} << height_bits) - 1) >> height_bits;
}

Admission admit_cmrs(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                     std::size_t value_bytes);

}  // namespace protean::formats
