// The conversion from CSR to sell-packed on the device: the plan of every slice, and the arrays. Private to
// this folder, CUDA only.
#pragma once
#include <memory>
#include <string>

#include "formats/compressed/sell_packed_layout.cuh"
#include "operators/narrow_values.hpp"

namespace protean::formats::packed_device {

// The sizes of the arrays, known before they are made.
struct Plan {
  std::int64_t slices = 0, slots = 0, units = 0;
  std::int64_t rest = 0, wide = 0;  // slots that are not diagonals, and how many of these are wide
  int group = 1, room = 0;
  bool sorted = false, too_long = false;

  std::size_t bytes(std::int64_t rows, std::size_t value_bytes) const {
    return static_cast<std::size_t>(slices) * sizeof(SliceHead) + static_cast<std::size_t>(units) * 32 +
           detail::value_array_bytes(slots * height, value_bytes) +
           (sorted ? static_cast<std::size_t>(rows) * 4 : 0);
  }
};

struct SliceCounts {
  unsigned short diagonal, near, far, wide;
};

// The plan, and the arrays from which it was made.
struct PlanArrays {
  PlanArrays(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
             std::size_t value_bytes);

  Plan plan;
  const device::Scratch<std::int64_t> slice_ptr;  // 32 times the widths of the slices before, by rank alone
  const device::Scratch<std::int64_t> before;     // slots << 32 | units of the slices before
  const device::Scratch<SliceCounts> counts;
  const device::Scratch<std::int32_t> perm;
  std::unique_ptr<device::Scratch<int2>> diagonals;  // key and mask; slice s from 2 * slice_ptr[s] / 32 on

 private:
  std::int64_t choose_order(const Context& context, const SparsityPattern& pattern, const std::string& order);
};

// Heads, keys and masks.
void write_heads(const Context& context, const PlanArrays& arrays, SliceHead* heads, std::uint32_t* code);

// Everything else: code, and values from the values `from` of the pattern in the order of CSR. `a` views the arrays;
// its values are not read.
template <class T, class V>
void fill_packed(const Context& context, const Plan& plan, const PackedArrays<V>& a,
                 const SparsityPattern& pattern, const T* from, std::uint32_t* code, V* values);

}  // namespace protean::formats::packed_device
