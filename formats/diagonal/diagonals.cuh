// Common to diagonal and hacked diagonal storage on the device: hacks of consecutive rows, each with its own
// list of diagonals; dia is one hack of all rows. The layout is that of diagonals.hpp. One thread computes a
// row. In small matrices up to 8 warps of a block share the diagonals of 32 rows. Private to formats/.
#pragma once
#include "formats/private/device_rows.cuh"
#include "operators/row_arrays.hpp"

namespace protean::formats {

template <class T>
struct DiagonalArrays {
  std::int64_t rows, cols, height, hacks, bit_bytes;
  const std::int64_t* ptr;
  const std::int32_t* off;
  const T* values;
  const std::uint8_t* entries;

  __device__ std::int64_t hack(std::int64_t r) const {
    return hacks == 1 ? 0 : static_cast<std::uint32_t>(r) / static_cast<std::uint32_t>(height);
  }
  template <class Found>
  __device__ void each(std::int64_t r, Found found) const {
    const std::int64_t h = hack(r), i = r - h * height;
    for (std::int64_t d = ptr[h]; d < ptr[h + 1]; ++d)
      if (entries[d * bit_bytes + i / 8] >> (i % 8) & 1)
        found(static_cast<std::int32_t>(r + off[d]), values[d * height + i]);
  }

  template <int split>
  __device__ T part_sum(std::int64_t r, int part, const T* x) const {
    T sum = 0;
    const std::int64_t h = hack(r), begin = __ldg(ptr + h);
    const int count = static_cast<int>(__ldg(ptr + h + 1) - begin);
    const T* v = values + begin * height + r - h * height;
    const std::int32_t* its_off = off + begin;
#pragma unroll 4
    for (int d = part; d < count; d += split) {
      const std::int64_t col = r + __ldg(its_off + d);
      const T value = __ldcs(v + d * height);
      if (col >= 0 && col < cols) sum += value * __ldg(x + col);
    }
    return sum;
  }
  __device__ T whole(std::int64_t, T sum) const { return sum; }

  __host__ __device__ std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return p; }
  __device__ std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    each(p, [&](std::int32_t, T) { ++count; });
    return count;
  }
  __device__ void write(std::int64_t p, std::int32_t* col, T* to) const {
    each(p, [&](std::int32_t c, T value) { *col++ = c, *to++ = value; });
  }
};

template <int split, bool dot, class T>
__global__ void __launch_bounds__(device::block_size, dot ? 6 : 8)
    diagonal_product(DiagonalArrays<T> a, ProductTask<T> task) {
  multiply_rows<split, dot>(a, task);
}

// All values and bits. A warp takes 32 rows of a hack through its diagonals. Both the columns of a row and
// the offsets ascend.
template <class T>
__global__ void __launch_bounds__(device::block_size)
    diagonal_fill(DiagonalArrays<T> a, DevicePattern pattern, const T* from, T* values,
                  std::uint8_t* entries) {
  const int lane = threadIdx.x % 32;
  const std::int64_t pieces = (a.height + 31) / 32;
  const std::int64_t piece = std::int64_t{blockIdx.x} * (device::block_size / 32) + threadIdx.x / 32;
  const std::int64_t h = piece / pieces, i = piece % pieces * 32 + lane, r = h * a.height + i;
  if (h >= a.hacks) return;
  std::int64_t begin = 0, end = 0;
  if (i < a.height && r < a.rows) begin = pattern.row_ptr[r], end = pattern.row_ptr[r + 1];
  __shared__ typename RowWalk<T>::Room rooms[device::block_size / 32];
  RowWalk<T> walk(rooms[threadIdx.x / 32], pattern.col, from, begin, end);
  const std::int64_t byte = i / 8;
  for (std::int64_t d = a.ptr[h]; d < a.ptr[h + 1]; ++d) {
    const bool has = !walk.ended() && walk.col() - r == a.off[d];
    const unsigned all = __ballot_sync(0xffffffffu, has);
    if (i < a.height) values[d * a.height + i] = has ? walk.value() : T(0);
    if (lane % 8 == 0 && byte < a.bit_bytes)
      entries[d * a.bit_bytes + byte] = static_cast<std::uint8_t>(all >> lane);
    walk.advance(has);
  }
}

template <class T>
__global__ void diagonal_main(DiagonalArrays<T> a, std::int64_t size, T* diagonal) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= size) return;
  const std::int64_t h = a.hack(r), last = a.ptr[h + 1];
  std::int64_t low = a.ptr[h];
  for (std::int64_t high = last; low < high;) {
    const std::int64_t middle = (low + high) / 2;
    if (a.off[middle] < 0)
      low = middle + 1;
    else
      high = middle;
  }
  diagonal[r] = low < last && a.off[low] == 0 ? a.values[low * a.height + r - h * a.height] : T(0);
}

// The diagonals of hack h are off[ptr[h]] .. off[ptr[h+1] - 1], ascending.
struct DeviceDiagonals {
  std::int64_t height = 0;
  Buffer<std::int64_t> ptr;
  Buffer<std::int32_t> off;
};

template <class T>
class DiagonalDevice : public AssembledMatrix<T>, public HasApplyDot<T>, public HasRowArrays<T> {
 public:
  RowArrays<T> row_arrays() const noexcept override {
    const DiagonalArrays<T> a = arrays();
    RowArrays<T> rows;
    rows.kind = RowArrays<T>::Kind::diagonals;
    rows.version = 1;
    rows.rows = this->rows(), rows.stored = values_.size();
    rows.values = a.values, rows.height = a.height, rows.bit_bytes = a.bit_bytes;
    rows.ptr = a.ptr, rows.off = a.off, rows.entries = a.entries;
    return rows;
  }

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    return csr_from_positions<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), arrays());
  }

  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    diagonal_main<<<blocks_of(d.size), device::block_size, 0, queue()>>>(arrays(), d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch<true>(T(1), x.data, T(0), y.data, result);
  }

 protected:
  DiagonalDevice(const BuildRequest<T>& request, DeviceDiagonals where)
      : AssembledMatrix<T>(request),
        where_(std::move(where)),
        bit_bytes_((where_.height + 7) / 8),
        values_(request.context, where_.height * where_.off.size()),
        entries_(request.context, bit_bytes_ * where_.off.size()) {
    split_ =
        row_split(request.context->device_state(), this->rows(),
                  static_cast<double>(where_.off.size() / std::max<std::int64_t>(1, where_.ptr.size() - 1)));
    do_update_values(request.csr);
  }

  void do_update_values(const CsrMatrix<T>& csr) override {
    if (where_.off.size() == 0) return;
    const std::int64_t warps = (where_.ptr.size() - 1) * ((where_.height + 31) / 32);
    diagonal_fill<<<blocks_of(warps * 32), device::block_size, 0, queue()>>>(
        arrays(), device_pattern(csr.pattern), csr.values, values_.data(), entries_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
  }

  std::size_t array_bytes() const noexcept { return values_.bytes() + where_.off.bytes() + entries_.bytes(); }

  DeviceDiagonals where_;

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }
  DiagonalArrays<T> arrays() const {
    return {this->rows(),      this->cols(),      where_.height,  where_.ptr.size() - 1, bit_bytes_,
            where_.ptr.data(), where_.off.data(), values_.data(), entries_.data()};
  }

  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    const std::int64_t pieces = row_pieces(this->rows(), split_);
    // The kernel with the reduction needs more registers, so the device would not hold all blocks of
    // product_blocks().
    const std::int64_t most = DeviceState::max_blocks / 4 * 3;
    const unsigned blocks = product_blocks(state, dot ? std::min(pieces, most) : pieces, false);
    with_split(split_, [&](auto split) {
      device::launch(state, diagonal_product<split(), dot, T>, blocks, device::block_size, arrays(),
                     product_task(*this->context(), blocks, alpha, x, beta, y, result));
    });
  }

  std::int64_t bit_bytes_;
  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;
  int split_ = 1;
};

}  // namespace protean::formats
