// PCSR: what host and device share. The head of pcsr.cpp describes the arrays. Private to formats/.
#pragma once
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// Limits of the kernel on a device: eight rows for each of its 16 groups of threads, and x in shared memory.
constexpr int most_panel_rows = 128, most_partition_cols = 4096;
constexpr std::int32_t no_column = 0x7fffffff;  // columns are smaller

struct PanelShape {
  std::int64_t panel, partition,
      align;  // rows of a panel, columns of a partition, slots of a row are a multiple
  PROTEAN_HOST_DEVICE std::int64_t panels(std::int64_t rows) const { return (rows + panel - 1) / panel; }
  PROTEAN_HOST_DEVICE std::int64_t padded(std::int64_t entries) const {
    return (entries + align - 1) / align * align;
  }
};
inline PanelShape panel_shape(const FormatParams& params) {
  return {params.integer("panel"), params.integer("partition"), params.integer("align")};
}

// The matrix as kernels see it, and the view of row_view.hpp.
template <class T>
struct PcsrView {
  const T* values;
  const std::uint16_t* col;
  const std::int64_t* panel_ptr;
  const std::int32_t* first_col;
  const std::int32_t* width;
  const std::int64_t* block_ptr;
  const std::int32_t* row_end;
  std::int64_t rows, panel;

  // The slots of row r of block b are block_ptr[b] + [begin, end).
  PROTEAN_HOST_DEVICE std::int32_t begin_of(std::int64_t b, std::int64_t r) const {
    return r > 0 ? row_end[b * panel + r - 1] : 0;
  }
  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  // Padding repeats a column.
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t r = p % panel;
    for (std::int64_t b = panel_ptr[p / panel], last = panel_ptr[p / panel + 1]; b < last; ++b) {
      std::int32_t before = -1;
      for (std::int64_t k = block_ptr[b] + begin_of(b, r), end = block_ptr[b] + row_end[b * panel + r];
           k < end && col[k] > before; ++k) {
        before = col[k];
        f(first_col[b] + before, k);
      }
    }
  }
};

// The answer of admit() for a matrix with this many blocks and slots.
Admission admit_panels(const SparsityPattern& pattern, const FormatParams& params, std::int64_t blocks,
                       std::int64_t slots, std::size_t value_bytes);

}  // namespace protean::formats
