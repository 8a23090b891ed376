// The layout of sell-packed on the device: what the encoder writes and the products read. Private to this
// folder, CUDA only. sell_packed.cu describes it.
#pragma once
#include "formats/private/device_rows.cuh"

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

// The place of a lane's offset among those of `slots` near slots: four slots lie together, the remaining ones
// one by one.
__host__ __device__ inline int near_place(int slots, int slot, int lane) {
  return slot < slots / 4 * 4 ? slot / 4 * (4 * height) + lane * 4 + slot % 4 : slot * height + lane;
}

template <class T>
struct PackedArrays {
  std::int64_t rows, slices;
  int group;  // b
  const SliceHead* heads;
  const std::uint32_t* code;
  const T* values;
  const std::int32_t* perm;

  __host__ __device__ std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return perm ? __ldg(perm + p) : p; }
  __device__ std::int32_t group_start(std::int64_t row) const {
    const auto r = static_cast<std::int32_t>(row);
    return group == 1 ? r : r - r % group;
  }

  // Calls found(column, value) for the entries of a position: by kind, and ascending within a kind.
  template <class Found>
  __device__ void entries(std::int64_t p, Found found) const {
    const SliceHead head = read_head(heads, p / height);
    const SliceCode c = slice_code(head, code);
    const int lane = static_cast<int>(p % height);
    const std::int32_t start = group_start(row(p));
    const T* v = values + std::int64_t{head.first_slot} * height + lane;
    for (int k = 0; k < head.diagonal; ++k, v += height)
      if (static_cast<unsigned>(c.diagonal[k].y) >> lane & 1) found(0, c.diagonal[k].x + start, *v);
    for (int k = 0; k < head.near; ++k, v += height)
      if (const int offset = c.near[near_place(head.near, k, lane)]; offset != 255)
        found(1, c.base[k] + offset, *v);
    for (int k = 0; k < head.far; ++k, v += height)
      if (const int offset = c.far[k * height + lane]; offset != 65535)
        found(2, c.base[head.near + k] + offset, *v);
    for (int k = 0; k < head.wide; ++k, v += height)
      if (const std::int32_t col = c.wide[k * height + lane]; col >= 0) found(3, col, *v);
  }

  __device__ std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    entries(p, [&](int, std::int32_t, T) { ++count; });
    return count;
  }
  // Insertion sort: each kind is ascending, so little is moved unless kinds interleave.
  __device__ void write(std::int64_t p, std::int32_t* col, T* out) const {
    std::int64_t count = 0;
    entries(p, [&](int, std::int32_t column, T value) {
      std::int64_t at = count++;
      for (; at > 0 && col[at - 1] > column; --at) col[at] = col[at - 1], out[at] = out[at - 1];
      col[at] = column, out[at] = value;
    });
  }
};

}  // namespace protean::formats::packed_device
