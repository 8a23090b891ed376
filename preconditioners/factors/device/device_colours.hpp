// Colours or levels of the rows of a matrix that lies on a device, found there, and the rows in the order of the
// colours or levels with their entries cut into L and U. Private to preconditioners/.
//
// The colours are the same as in colours.hpp: row after row, the smallest one that no coupled row has. The level of a
// row is one more than the highest of the coupled rows before it, so an elimination level after level is one in natural
// order. So the factors are the same as on the host. A row waits for the rows before it with which it is coupled, in
// one kernel. If rows follow each other in long chains (a tridiagonal matrix has one of all rows) that takes too long,
// and the host goes on; so it does for more than 64 colours, for an unsymmetric pattern, for rows that are not sorted
// and for rows of more than 8192 entries, whose order takes the square of that here.
//
// Workspace: 28 bytes a row; the arrays belong to DeviceFactors.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/host_device.hpp"

namespace protean::detail {

inline constexpr int most_colours_on_device = 64;
inline constexpr std::int64_t longest_row_on_device = 8192;

// The rows of FactorView by colours or levels, on a device.
struct ColouredRows {
  std::int64_t rows = 0;
  // For each colour, and behind the last one: its first place, and the entries of L and of U before that.
  std::vector<std::int64_t> first, lower_first, upper_first;
  Buffer<std::int32_t> row, place, col, key, mirror;
  Buffer<std::int64_t> lower, upper;
  std::int64_t colours() const noexcept { return static_cast<std::int64_t>(first.size()) - 1; }
};

// with_upper: U has the entries of later colours; else it has none. At most `most` colours. Nothing if the host must
// colour. Waits for the device. The pattern lies there.
std::optional<ColouredRows> colour_on_device(const ContextPtr& device, const SparsityPattern& pattern,
                                             bool with_upper, int most);
// The same by levels; U has the entries of later ones.
std::optional<ColouredRows> levels_on_device(const ContextPtr& device, const SparsityPattern& pattern);

// What the coupled rows before a row leave to it.
struct FreeColour {
  std::uint64_t taken = 0;
  PROTEAN_HOST_DEVICE void see(std::int32_t colour) { taken |= std::uint64_t{1} << colour; }
  // -1 if all have been taken.
  PROTEAN_HOST_DEVICE std::int32_t own() const {
    std::int32_t colour = 0;
    while (colour < 64 && (taken >> colour & 1) != 0) ++colour;
    return colour < 64 ? colour : -1;
  }
};
struct NextLevel {
  std::int32_t next = 0;
  PROTEAN_HOST_DEVICE void see(std::int32_t level) { next = level < next ? next : level + 1; }
  PROTEAN_HOST_DEVICE std::int32_t own() const { return next; }
};

// What is done with one row, by some lanes.
template <class Pointer>
struct ColouringRows {
  std::int64_t rows = 0;
  const Pointer* ptr = nullptr;
  const std::int32_t* columns = nullptr;
  const std::int32_t* colour = nullptr;  // of each row
  const std::int32_t *row = nullptr, *place = nullptr;
  bool with_upper = true;

  // Whether the columns of row i ascend, are not too many, and each entry has its mirrored one.
  PROTEAN_HOST_DEVICE bool is_mirrored(std::int64_t i, int lane, int lanes) const {
    const std::int64_t begin = ptr[i], end = ptr[i + 1];
    if (end - begin > longest_row_on_device) return false;
    for (std::int64_t e = begin + lane; e < end; e += lanes) {
      const std::int32_t j = columns[e];
      if (e > begin && columns[e - 1] >= j) return false;
      std::int64_t low = ptr[j];
      const std::int64_t last = ptr[j + 1];
      for (std::int64_t high = last; low < high;) {
        const std::int64_t middle = low + (high - low) / 2;
        if (columns[middle] < i)
          low = middle + 1;
        else
          high = middle;
      }
      if (low == last || columns[low] != i) return false;
    }
    return true;
  }

  PROTEAN_HOST_DEVICE bool in_lower(std::int64_t i, std::int32_t j) const { return colour[j] < colour[i]; }

  // Entries of L and of U in the row at place k: the entries that this lane has seen.
  PROTEAN_HOST_DEVICE void count(std::int64_t k, std::int64_t& in_l, std::int64_t& in_u, int lane,
                                 int lanes) const {
    const std::int64_t i = row[k];
    in_l = in_u = 0;
    for (std::int64_t e = ptr[i] + lane; e < static_cast<std::int64_t>(ptr[i + 1]); e += lanes) {
      const std::int32_t j = columns[e];
      if (j == i) continue;
      if (in_lower(i, j))
        ++in_l;
      else if (with_upper)
        ++in_u;
    }
  }

  // The columns of the row at place k to col and key, by their places.
  PROTEAN_HOST_DEVICE void fill(std::int64_t k, const std::int64_t* lower, const std::int64_t* upper,
                                std::int32_t* col, std::int32_t* key, int lane, int lanes) const {
    const std::int64_t i = row[k], begin = ptr[i], end = ptr[i + 1];
    for (std::int64_t e = begin + lane; e < end; e += lanes) {
      const std::int32_t j = columns[e];
      if (j == i) continue;
      const bool in_l = in_lower(i, j);
      if (!in_l && !with_upper) continue;
      const std::int32_t own = place[j];
      std::int64_t at = in_l ? lower[k] : upper[k];
      for (std::int64_t other = begin; other < end; ++other) {
        const std::int32_t column = columns[other];
        if (column != i && in_lower(i, column) == in_l && place[column] < own) ++at;
      }
      col[at] = j, key[at] = own;
    }
  }
};

}  // namespace protean::detail

// Defined in device_colours.cu. CUDA builds only.
namespace protean::device {

// The colours of all rows of a pattern on the device, or their levels. False if the host must find them. count: of
// colours, `most` at most.
bool find_colours(const ContextPtr& context, const SparsityPattern& pattern, bool levels, std::int32_t most,
                  std::int32_t* colour, std::int32_t& count);
// The rest of ColouredRows; colour: of each row.
void order_by_colours(const ContextPtr& context, const SparsityPattern& pattern, const std::int32_t* colour,
                      std::int32_t count, bool with_upper, detail::ColouredRows& made);

}  // namespace protean::device
