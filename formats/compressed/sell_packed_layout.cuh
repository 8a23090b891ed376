// The layout of sell-packed on the device: what the encoder writes and the products read. Private to this
// folder, CUDA only. sell_packed.cu describes it.
#pragma once
#include "formats/engines/view/device_rows.cuh"
#include "formats/engines/view/table_values.hpp"

namespace protean::formats::packed_device {

constexpr int height = 32, shift = 5;
constexpr std::int64_t longest_allowed = 32767;  // twice that fits the 16 bits of a count

struct SliceHead {
  unsigned first_slot, first_unit;
  unsigned short diagonal, near, far, wide;
};
static_assert(sizeof(SliceHead) == 16);

__device__ inline SliceHead read_head(const SliceHead* heads, std::int64_t slice) {
  const uint4 raw = __ldg(reinterpret_cast<const uint4*>(heads) + slice);
  SliceHead head;
  head.first_slot = raw.x, head.first_unit = raw.y;
  head.diagonal = raw.z & 0xffff, head.near = raw.z >> 16;
  head.far = raw.w & 0xffff, head.wide = raw.w >> 16;
  return head;
}

__host__ __device__ inline unsigned index_units(unsigned diagonal, unsigned near, unsigned far) {
  return (2 * diagonal + near + far + 7) / 8;
}
__host__ __device__ inline unsigned slice_units(unsigned diagonal, unsigned near, unsigned far,
                                                unsigned wide) {
  return index_units(diagonal, near, far) + near + 2 * far + 4 * wide;
}

// The parts of a slice's code.
struct SliceCode {
  const int2* diagonal;       // key, mask
  const std::int32_t* base;   // near, then far
  const unsigned char* near;  // [slot][lane]
  const unsigned short* far;
  const std::int32_t* wide;
};
__device__ inline SliceCode slice_code(const SliceHead& head, const std::uint32_t* code) {
  SliceCode c;
  const std::uint32_t* words = code + std::int64_t{head.first_unit} * 8;
  c.diagonal = reinterpret_cast<const int2*>(words);
  c.base = reinterpret_cast<const std::int32_t*>(words) + 2 * head.diagonal;
  c.near =
      reinterpret_cast<const unsigned char*>(words + 8 * index_units(head.diagonal, head.near, head.far));
  c.far = reinterpret_cast<const unsigned short*>(c.near + head.near * height);
  c.wide = reinterpret_cast<const std::int32_t*>(c.far + head.far * height);
  return c;
}

// The place of a lane's offset among the offsets of `slots` near slots: four slots lie together, the remaining ones one
// by one.
__host__ __device__ inline int near_place(int slots, int slot, int lane) {
  return slot < slots / 4 * 4 ? slot / 4 * (4 * height) + lane * 4 + slot % 4 : slot * height + lane;
}

// Values as they are, or a place in a table, which all products read and which stays in the first-level cache.
template <class V>
__device__ inline V read_value(const V* value) {
  return __ldg(value);
}
__device__ inline double read_value(const TableValues& value) {
  return __ldg(value.table + __ldg(value.place));
}
// The same for what is read once.
template <class V>
__device__ inline V stream_value(const V* value) {
  return __ldcs(value);
}
__device__ inline double stream_value(const TableValues& value) {
  return __ldg(value.table + __ldcs(value.place));
}

// V: what values are stored as.
template <class V>
struct PackedArrays {
  std::int64_t rows, slices;
  int group;  // b
  const SliceHead* heads;
  const std::uint32_t* code;
  ValuesPointer<V> values;
  const std::int32_t* perm;

  __host__ __device__ std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return perm ? __ldg(perm + p) : p; }
  __device__ std::int32_t group_start(std::int64_t row) const {
    const auto r = static_cast<std::int32_t>(row);
    return group == 1 ? r : r - r % group;
  }

  // The column of a lane's entry in slot k of a kind, or -1 if it has none there.
  __device__ static std::int32_t column(const SliceHead& head, const SliceCode& c, std::int32_t start,
                                        int lane, int kind, int k) {
    if (kind == 0) return static_cast<unsigned>(c.diagonal[k].y) >> lane & 1 ? c.diagonal[k].x + start : -1;
    if (kind == 3) return c.wide[k * height + lane];
    const int offset = kind == 1 ? c.near[near_place(head.near, k, lane)] : c.far[k * height + lane];
    if (offset == (kind == 1 ? 255 : 65535)) return -1;
    return c.base[kind == 1 ? k : head.near + k] + offset;
  }

  __device__ std::int64_t length(std::int64_t p) const {
    std::int64_t entries = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++entries; });
    return entries;
  }
  // A view of the rows (formats/engines/view/row_view.hpp). The entries of a row ascend within each of the four kinds,
  // so they are merged.
  template <class F>
  __device__ void for_entries(std::int64_t p, F&& f) const {
    constexpr std::int32_t none = 0x7fffffff;
    const SliceHead head = read_head(heads, p / height);
    const SliceCode c = slice_code(head, code);
    const int lane = static_cast<int>(p % height);
    const std::int32_t start = group_start(row(p));
    const int count[4] = {head.diagonal, head.near, head.far, head.wide};
    int next[4] = {};
    std::int32_t col[4];
    const auto find = [&](int kind) {
      col[kind] = none;
      for (; next[kind] < count[kind]; ++next[kind])
        if (const std::int32_t found = column(head, c, start, lane, kind, next[kind]); found >= 0) {
          col[kind] = found;
          break;
        }
    };
#pragma unroll
    for (int kind = 0; kind < 4; ++kind) find(kind);
    for (;;) {
      const std::int32_t least = min(min(col[0], col[1]), min(col[2], col[3]));
      if (least == none) return;
      std::int64_t slot = head.first_slot;
#pragma unroll
      for (int kind = 0; kind < 4; ++kind) {
        if (col[kind] == least) {
          f(least, (slot + next[kind]) * height + lane);
          ++next[kind];
          find(kind);
          break;
        }
        slot += count[kind];
      }
    }
  }
};

}  // namespace protean::formats::packed_device
