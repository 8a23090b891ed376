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
namespace hn = hwy::HWY_NAMESPACE;

void SlotsByRank(const std::int32_t* const* columns, const std::int32_t* length, std::int32_t slots,
                 Slot* out) {
  const std::int32_t shortest = std::max(0, *std::min_element(length, length + height));
  for (std::int32_t k = 0; k < shortest; ++k) {
    for (int l = 0; l < height; ++l) out[k].col[l] = columns[l][k];
    out[k].mask = 255;
  }
  for (std::int32_t k = shortest; k < slots; ++k) {
    std::uint32_t mask = 0;
    for (int l = 0; l < height; ++l) mask |= k < length[l] ? 1u << l : 0u;
    for (int l = 0; l < height; ++l) out[k].col[l] = columns[l][std::min(k, length[l] - 1)];
    out[k].mask = mask;
  }
}

using D = hn::CappedTag<std::int32_t, height>;
using DU = hn::RebindToUnsigned<D>;
constexpr int lanes = hn::MaxLanes(D()), registers = height / lanes;

template <class Tag>
struct Eight {
  hn::Vec<Tag> v[registers];
  HWY_INLINE Eight() {}  // written out: see core/lanes-inl.hpp
};

HWY_INLINE std::int32_t Lowest(const Eight<D>& e) {
  auto low = e.v[0];
  for (int i = 1; i < registers; ++i) low = hn::Min(low, e.v[i]);
  return hn::GetLane(hn::MinOfLanes(D(), low));
}

// The bitwise or of numbers that have no bit in common.
HWY_INLINE std::uint32_t Together(const Eight<DU>& e) {
  auto sum = e.v[0];
  for (int i = 1; i < registers; ++i) sum = hn::Or(sum, e.v[i]);
  return hn::GetLane(hn::SumOfLanes(DU(), sum));
}

void FindStretches(const Slot* slots, std::size_t count, std::int64_t cols, Stretches* out) {
  const D d;
  const DU du;
  const auto last_start = static_cast<std::int32_t>(cols - height);
  const auto nothing = hn::Set(d, no_column);
  Eight<DU> bit, shift;
  Eight<D> lane_number;
  for (int i = 0; i < registers; ++i) {
    const auto lane = hn::Iota(du, static_cast<std::uint32_t>(i * lanes));
    lane_number.v[i] = hn::Iota(d, static_cast<std::int32_t>(i * lanes));
    bit.v[i] = hn::Shl(hn::Set(du, 1), lane), shift.v[i] = hn::ShiftLeft<2>(lane);
  }
  std::int32_t after = 0, most_after = 0;  // for the last slot with stretches of its own
  for (std::size_t s = 0; s < count; ++s) {
    const Slot &slot = slots[s], &before = slots[s == 0 ? 0 : s - 1];
    Eight<D> left;  // no_column in lanes that are unused or done
    Eight<DU> index, second;
    bool contiguous = slot.mask == 255, follows = s > 0 && slot.mask == before.mask;
    for (int i = 0; i < registers; ++i) {
      const auto col = hn::LoadU(d, slot.col.data() + i * lanes);
      const auto in_use = hn::RebindMask(d, hn::Ne(hn::And(hn::Set(du, slot.mask), bit.v[i]), hn::Zero(du)));
      left.v[i] = hn::IfThenElse(in_use, col, nothing);
      index.v[i] = second.v[i] = hn::Zero(du);
      contiguous &= hn::AllTrue(d, hn::Eq(hn::Sub(col, hn::Set(d, slot.col[0])), lane_number.v[i]));
      const auto next = hn::Add(hn::LoadU(d, before.col.data() + i * lanes), hn::Set(d, 1));
      follows &= hn::AllTrue(d, hn::Eq(left.v[i], hn::IfThenElse(in_use, next, nothing)));
    }
    if (follows && after < most_after) {
      out[s].after = ++after, out[s].follows = true;
      continue;
    }
    Stretches found{};
    found.contiguous = contiguous, found.follows = follows;
    std::int32_t low = Lowest(left);
    for (unsigned t = 0; t < 4; ++t) {
      if (low == no_column) {
        found.start[t] = t == 0 ? last_start : found.start[t - 1];
        continue;
      }
      found.at_the_end |= low > last_start;
      found.start[t] = std::min(low, last_start);
      ++found.count;
      const auto from = hn::Set(d, std::min(low, last_start));
      for (int i = 0; i < registers; ++i) {
        const auto distance = hn::BitCast(du, hn::Sub(left.v[i], from));
        const auto in = hn::Lt(distance, hn::Set(du, height));
        const auto place = t % 2 == 0 ? distance : hn::Add(distance, hn::Set(du, height));
        index.v[i] = hn::Or(index.v[i], hn::IfThenElseZero(in, place));
        if (t >= 2) second.v[i] = hn::Or(second.v[i], hn::IfThenElseZero(in, bit.v[i]));
        left.v[i] = hn::IfThenElse(hn::RebindMask(d, in), nothing, left.v[i]);
      }
      low = Lowest(left);
    }
    found.covered = low == no_column;
    for (int i = 0; i < registers; ++i) index.v[i] = hn::Shl(index.v[i], shift.v[i]);
    found.index = Together(index), found.second_pair = Together(second);
    out[s] = found;
    after = 0, most_after = found.at_the_end ? 0 : last_start - found.start[3];
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
