// The products of sell-packed on the device (the layout is in sell_packed.cu).
#include "formats/compressed/sell_packed_kernel.cuh"

namespace protean::formats::packed_device {
namespace {

// The part of a row's sum that one of its `split` threads computes. It uses few registers, so that 64 warps
// of a processor can wait for memory at a time (48 if most slots have offsets). This hides more latency than several
// loads in each thread.
template <Rest rest, bool dot, class T, class V>
struct PackedRows : PackedArrays<V> {
  using PackedArrays<V>::rows;

  template <int split>
  __device__ T part_sum(std::int64_t p, int part, const T* x) const {
    const SliceHead head = read_head(this->heads, p >> shift);
    const SliceCode c = slice_code(head, this->code);
    const int lane = threadIdx.x % 32;
    ValuesPointer<V> v = this->values + (std::int64_t{head.first_slot} * height + lane);
    // Slots with offsets wait for two loads, one after the other. The slice is prefetched meanwhile.
    if (rest == Rest::offsets && split == 1) {
      const int all = head.diagonal + head.near + head.far + head.wide;
      prefetch_lines(stored_at(v - lane), stored_at(v + (all * height - lane)), lane, 32);
      prefetch_lines(c.near, c.wide + head.wide * height, lane, 32);
    }
    T sum = 0;
    if (dot && rest == Rest::none && split == 1) {
      // With the dot product there are not enough registers for two slots at a time.
      const T* from = x + this->group_start(this->row(p));
#pragma unroll 4
      for (int k = part; k < head.diagonal; k += split) {
        const int2 slot = __ldg(c.diagonal + k);
        const T value = stream_value(v + k * height);
        if (static_cast<unsigned>(slot.y) >> lane & 1) sum += value * __ldg(from + slot.x);
      }
    } else {
      // Two slots at a time. The list is filled up to whole units, so there is always a second one to read.
      const T* from = x + this->group_start(this->row(p));
#pragma unroll 2
      for (int k = 2 * part; k < head.diagonal; k += 2 * split) {
        const int4 slots = __ldg(reinterpret_cast<const int4*>(c.diagonal + k));
        const bool two = k + 1 < head.diagonal;
        const T first = stream_value(v + k * height),
                second = two ? stream_value(v + (k + 1) * height) : T(0);
        if (static_cast<unsigned>(slots.y) >> lane & 1) sum += first * __ldg(from + slots.x);
        if (two && static_cast<unsigned>(slots.w) >> lane & 1) sum += second * __ldg(from + slots.z);
      }
    }
    if (rest == Rest::none) return sum;
    v += head.diagonal * height;
    if (rest == Rest::few) return sum + few_sum<split>(head, c, v, lane, part, x);
    const int fours = head.near / 4 * 4;
    for (int k = 4 * part; k < fours; k += 4 * split) {
      unsigned offsets = __ldcs(reinterpret_cast<const unsigned*>(c.near + k * height) + lane);
      T value[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) value[i] = stream_value(v + (k + i) * height);
#pragma unroll
      for (int i = 0; i < 4; ++i, offsets >>= 8)
        if (const unsigned offset = offsets & 255; offset != 255)
          sum += value[i] * __ldg(x + __ldg(c.base + k + i) + offset);
    }
    for (int k = fours + part; k < head.near; k += split)
      if (const int offset = __ldcs(c.near + k * height + lane); offset != 255)
        sum += T(stream_value(v + k * height)) * __ldg(x + __ldg(c.base + k) + offset);
    v += head.near * height;
#pragma unroll 4
    for (int k = part; k < head.far; k += split) {
      const int offset = __ldcs(c.far + k * height + lane);
      const T value = stream_value(v + k * height);
      if (offset != 65535) sum += value * __ldg(x + __ldg(c.base + head.near + k) + offset);
    }
    v += head.far * height;
#pragma unroll 4
    for (int k = part; k < head.wide; k += split) {
      const std::int32_t col = __ldcs(c.wide + k * height + lane);
      const T value = stream_value(v + k * height);
      if (col >= 0) sum += value * __ldg(x + col);
    }
    return sum;
  }

  // The slots that are not diagonal, one after another. They take no registers while diagonals are read.
  template <int split>
  __device__ T few_sum(const SliceHead& head, const SliceCode& c, ValuesPointer<V> v, int lane, int part,
                       const T* x) const {
    T sum = 0;
    const int based = head.near + head.far, all = based + head.wide;
#pragma unroll 1
    for (int k = part; k < all; k += split) {
      std::int32_t col = -1;
      if (k < head.near) {
        if (const int offset = c.near[near_place(head.near, k, lane)]; offset != 255)
          col = c.base[k] + offset;
      } else if (k < based) {
        if (const int offset = c.far[(k - head.near) * height + lane]; offset != 65535)
          col = c.base[k] + offset;
      } else {
        col = c.wide[(k - based) * height + lane];
      }
      if (col >= 0) sum += T(stream_value(v + k * height)) * __ldg(x + col);
    }
    return sum;
  }

  __device__ T whole(std::int64_t, T sum) const { return sum; }
};

template <int split, Rest rest, bool dot, class T, class V>
__global__ void __launch_bounds__(device::block_size, rest == Rest::offsets || rest == Rest::many ? 6 : 8)
    packed_product(PackedRows<rest, dot, T, V> a, ProductTask<T> task) {
  multiply_rows<split, dot>(a, task);
}

// The task, before the number of blocks is known.
template <class T>
struct Asked {
  T alpha;
  const T* x;
  T beta;
  T *y, *result;
};

template <bool dot, Rest rest, class T, class V>
void launch(const Context& context, const PackedArrays<V>& a, int split_, const Asked<T>& q) {
  const DeviceState& state = context.device_state();
  const unsigned blocks = product_blocks(state, row_pieces(a.rows, split_), dot);
  with_split(split_, [&](auto split) {
    device::launch(state, packed_product<split(), rest, dot, T, V>, blocks, device::block_size,
                   PackedRows<rest, dot, T, V>{a},
                   product_task(context, blocks, q.alpha, q.x, q.beta, q.y, q.result));
  });
}

template <bool dot, class T, class V>
void choose(const Context& context, const PackedArrays<V>& a, Launch how, const Asked<T>& asked) {
  if (how.rest == Rest::none)
    launch<dot, Rest::none>(context, a, how.split, asked);
  else if (how.rest == Rest::few)
    launch<dot, Rest::few>(context, a, how.split, asked);
  else if (how.rest == Rest::offsets)
    launch<dot, Rest::offsets>(context, a, how.split, asked);
  else
    launch<dot, Rest::many>(context, a, how.split, asked);
}

}  // namespace

template <class T, class V>
void multiply_packed(const Context& context, const PackedArrays<V>& a, Launch how, T alpha, const T* x,
                     T beta, T* y, T* result) {
  const Asked<T> asked{alpha, x, beta, y, result};
  if (result)
    choose<true>(context, a, how, asked);
  else
    choose<false>(context, a, how, asked);
}

template void multiply_packed<double, double>(const Context&, const PackedArrays<double>&, Launch, double,
                                              const double*, double, double*, double*);
template void multiply_packed<double, float>(const Context&, const PackedArrays<float>&, Launch, double,
                                             const double*, double, double*, double*);
template void multiply_packed<double, std::uint8_t>(const Context&, const PackedArrays<std::uint8_t>&, Launch,
                                                    double, const double*, double, double*, double*);
template void multiply_packed<float, float>(const Context&, const PackedArrays<float>&, Launch, float,
                                            const float*, float, float*, float*);

}  // namespace protean::formats::packed_device
