// The inner loops of the encoder over the eight lanes of a slot, without branches, compiled for each
// instruction set. See sell_packed.cpp.
#include "formats/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/compressed/sell_packed_search.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/compressed/sell_packed_layout.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::packed {
namespace HWY_NAMESPACE {

HWY_INLINE std::uint32_t Unsign(std::int32_t i) { return static_cast<std::uint32_t>(i); }

void SlotsByRank(const std::int32_t* const* columns, const std::int32_t* length, std::int32_t slots,
                 Slot* out) {
  for (std::int32_t k = 0; k < slots; ++k) {
    std::uint32_t mask = 0;
    for (int l = 0; l < height; ++l) mask |= k < length[l] ? 1u << l : 0u;
    for (int l = 0; l < height; ++l) out[k].col[l] = columns[l][std::min(k, length[l] - 1)];
    out[k].mask = mask;
  }
}

void FindStretches(const Slot* slots, std::size_t count, std::int64_t cols, Stretches* out) {
  const auto last_start = static_cast<std::int32_t>(cols - height);
  for (std::size_t s = 0; s < count; ++s) {
    const Slot& slot = slots[s];
    std::int32_t left[height], col[height];  // left: no_column where not in use or done
    std::uint32_t index[height] = {}, second[height] = {}, apart = 0;
    for (int l = 0; l < height; ++l) col[l] = slot.col[l];
    for (int l = 0; l < height; ++l) left[l] = (slot.mask >> l & 1) ? col[l] : no_column;
    for (int l = 0; l < height; ++l) apart |= Unsign(col[l]) ^ (Unsign(col[0]) + static_cast<unsigned>(l));
    const Slot& before = slots[s == 0 ? 0 : s - 1];
    std::uint32_t jumps = before.mask ^ slot.mask;
    for (int l = 0; l < height; ++l)
      jumps |= (slot.mask >> l & 1) ? Unsign(col[l]) ^ (Unsign(before.col[l]) + 1) : 0u;
    Stretches found{};
    found.contiguous = slot.mask == 255 && apart == 0;
    found.follows = s > 0 && jumps == 0;
    for (unsigned t = 0; t < 4; ++t) {
      std::int32_t low = no_column;
      for (int l = 0; l < height; ++l) low = left[l] < low ? left[l] : low;
      const bool open = low != no_column;
      found.at_the_end |= open && low > last_start;
      low = low < last_start ? low : last_start;
      const unsigned high = t % 2 * height;
      for (int l = 0; l < height; ++l) {
        const std::uint32_t distance = Unsign(left[l]) - Unsign(low);
        const bool in = distance < height;
        index[l] |= in ? distance + high : 0u;
        second[l] |= in && t >= 2 ? 1u << l : 0u;
        left[l] = in ? no_column : left[l];
      }
      found.start[t] = open || t == 0 ? low : found.start[t - 1];
      found.count += open;
    }
    std::int32_t low = no_column;
    for (int l = 0; l < height; ++l) low = left[l] < low ? left[l] : low;
    found.covered = low == no_column;
    for (int l = 0; l < height; ++l) found.index |= index[l] << (4 * l);
    for (int l = 0; l < height; ++l) found.second_pair |= second[l];
    out[s] = found;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace protean::formats::packed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats::packed {
HWY_EXPORT(SlotsByRank);
HWY_EXPORT(FindStretches);

void slots_by_rank(const std::int32_t* const* columns, const std::int32_t* length, std::int32_t slots,
                   Slot* out) {
  HWY_DYNAMIC_DISPATCH(SlotsByRank)(columns, length, slots, out);
}
void find_stretches(const Slot* slots, std::size_t count, std::int64_t cols, Stretches* out) {
  HWY_DYNAMIC_DISPATCH(FindStretches)(slots, count, cols, out);
}
}  // namespace protean::formats::packed
#endif
