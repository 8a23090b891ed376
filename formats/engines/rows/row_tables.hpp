// What the host and the device side of formats on csr's arrays have in common: limits, parameters and bytes. Private to
// formats/.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// The bytes of csr, which formats with tables in addition to the caller's arrays predict first.
inline std::size_t csr_bytes(const SparsityPattern& pattern, std::size_t value_bytes) {
  return pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes;
}

// Limits of a row block, see row_blocks() in rows.hpp.
constexpr std::int64_t block_rows_most = 256, block_section = 4096, block_entries_most = 2048;
// Why csr-stream refuses.
std::string stream_refusal(std::int64_t longest, std::int64_t most_entries);
constexpr ParamDoc block_entries_param{.name = "S",
                                       .doc = "most entries of a block of several rows",
                                       .default_value = "1024",
                                       .smallest = 1,
                                       .largest = block_entries_most};

constexpr int most_ranges = 256;  // partial sums of a product lie on the stack
constexpr ParamDoc ranges_param{
    .name = "parts",
    .doc = "ranges of rows; 0: one for each thread, on a device eight for each processor",
    .default_value = "0",
    .smallest = 0,
    .largest = most_ranges};

// csr-wang: rows of a group, of which each except the last has a stored length, and whether a length has two bytes.
constexpr std::int64_t wang_group = 32;
constexpr std::int64_t wang_groups(std::int64_t rows) noexcept {
  return (rows + wang_group - 1) / wang_group;
}
constexpr std::int64_t wang_lengths(std::int64_t rows) noexcept { return rows - wang_groups(rows); }
struct WangPlan {
  bool narrow;
};
inline Admission admit_wang(const SparsityPattern& pattern, std::int64_t longest, std::size_t value_bytes) {
  const bool narrow = longest < 65536;
  Admission admission =
      Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 4) +
                            static_cast<std::size_t>(wang_lengths(pattern.rows)) * (narrow ? 2 : 4) +
                            static_cast<std::size_t>(wang_groups(pattern.rows) + 1) * pattern.row_ptr.width(),
                        pattern.nonzeros);
  keep_plan(admission, std::make_shared<const WangPlan>(WangPlan{narrow}));
  return admission;
}

// The matrix as products see it, and the view of row_view.hpp.
template <class T>
struct WangView {
  const T* values;
  const std::int32_t* col;
  const std::int32_t* group32;  // one of the two is null, and one of the next two
  const std::int64_t* group64;
  const std::uint16_t* narrow;
  const std::uint32_t* wide;
  std::int64_t rows;

  PROTEAN_HOST_DEVICE std::int64_t group(std::int64_t g) const { return group32 ? group32[g] : group64[g]; }
  // The length of row i of group g, which is not its last row.
  PROTEAN_HOST_DEVICE std::int64_t stored(std::int64_t g, std::int64_t i) const {
    const std::int64_t at = g * (wang_group - 1) + i;
    return narrow ? narrow[at] : wide[at];
  }
  PROTEAN_HOST_DEVICE bool last_of_group(std::int64_t r) const {
    return r % wang_group == wang_group - 1 || r + 1 == rows;
  }
  PROTEAN_HOST_DEVICE std::int64_t begin(std::int64_t r) const {
    const std::int64_t g = r / wang_group;
    std::int64_t k = group(g);
    for (std::int64_t i = 0; i < r % wang_group; ++i) k += stored(g, i);
    return k;
  }

  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    const std::int64_t g = p / wang_group;
    return last_of_group(p) ? group(g + 1) - begin(p) : stored(g, p % wang_group);
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t first = begin(p), count = length(p);
    for (std::int64_t k = first; k < first + count; ++k) f(col[k], k);
  }
};

}  // namespace protean::formats
