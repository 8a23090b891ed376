// What admit() finds for sell-c-sigma on a device, for all of its kernels. Private to this folder.
#pragma once
#include "formats/ell/row_order.cuh"
#include "formats/ell/sell_c_sigma.hpp"

namespace protean::formats {

// The values that the parameters take for this matrix, and the beginnings of its slices.
class SellPlan {
 public:
  SellPlan(const Context& context, const SparsityPattern& pattern, const FormatParams& params)
      : C(slice_height(params, 32)),
        sigma(params.integer("sigma")),
        slice_ptr(context, (pattern.rows + C - 1) / C + 1),
        perm(context, sigma == 1 ? 0 : pattern.rows),
        shift(std::countr_zero(static_cast<std::uint64_t>(C))) {
    if (sigma > 1 && sigma % C != 0) return;
    const auto count = [&](std::int64_t window) {
      // Only the sort of a large window, by a library, needs to know the longest row beforehand.
      if (window > small_window && lengths.longest == 0) lengths = device_row_lengths(context, pattern);
      if (window > 1) order_rows(context, pattern, window, lengths.longest, perm.data());
      const SliceCount found = count_slice_slots(context, pattern, window > 1 ? perm.data() : nullptr, shift,
                                                 slice_ptr.data(), static_cast<int>(params.integer("round")));
      lengths = {found.empty, found.longest};
      return found.slots;
    };
    const bool choose = sigma == 0;
    if (choose) sigma = 1;
    slots = count(sigma);
    if (!choose || pays_unsorted(slots, pattern.nonzeros)) return;
    const std::int64_t natural = slots;
    slots = count(sorted_window), sigma = sorted_window;
    if (slots >= natural) slots = count(1), sigma = 1;
  }

  std::int64_t C, sigma, slots = 0;
  const device::Scratch<std::int64_t> slice_ptr;
  const device::Scratch<std::int32_t> perm;  // where sigma > 1
  int shift;
  DeviceRowLengths lengths{};
};

// Kernel `segments`, in sic.cu.
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_sell_segments(const BuildRequest<T>& request);

}  // namespace protean::formats
