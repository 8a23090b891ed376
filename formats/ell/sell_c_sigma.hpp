// The rules of sell-c-sigma that host and device share. Private to this folder; sell_c_sigma.cpp opens with
// the layout.
#pragma once
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr std::int64_t sorted_window = 512;

inline std::int64_t slice_height(const FormatParams& params, std::int64_t usual) {
  const std::int64_t C = params.integer("C");
  return C == 0 ? usual : C;
}

// True when rows in their own order store little enough padding.
inline bool pays_unsorted(std::int64_t slots, std::int64_t nonzeros) {
  return static_cast<double>(slots) <= 1.15 * static_cast<double>(nonzeros);
}

struct SliceShape {
  std::int64_t C, sigma, slots;
};

Admission admit_slices(const SliceShape& shape, const SparsityPattern& pattern, std::int64_t empty_rows,
                       const FormatParams& params, std::size_t value_bytes);

}  // namespace protean::formats
