// Common to ELLPACK and its sliced form on the device: rows lie side by side in positions
// 0, 1, 2, ..., and slot k of neighbouring positions is contiguous, so a thread is a row. In matrices with
// too few rows to fill the device 2, 4 or 8 warps of a block share the slots of 32 rows and add their sums in
// a fixed order. Private to formats/.
#pragma once
#include "formats/private/array_views.hpp"
#include "formats/private/device_rows.cuh"
#include "operators/row_arrays.hpp"

namespace protean::formats {

// Slot k of a position is at(position).slot(k), k < at(position).width.
struct StridedSlots {
  std::int64_t base, stride, width;
  __device__ std::int64_t slot(std::int64_t k) const { return base + k * stride; }
};

// ELLPACK: columns of ld slots.
struct ColumnPlace {
  std::int64_t ld, longest;
  __host__ __device__ std::int64_t positions() const { return ld; }
  __device__ StridedSlots at(std::int64_t p) const { return {p, ld, longest}; }
  template <class T>
  void describe(RowArrays<T>& rows) const {
    rows.kind = RowArrays<T>::Kind::slices, rows.stride = ld, rows.longest = longest;
  }
};

// Slices of 2^shift rows.
struct SlicePlace {
  const std::int64_t* slice_ptr;
  std::int64_t slices;
  int shift;
  __host__ __device__ std::int64_t positions() const { return slices << shift; }
  __device__ StridedSlots at(std::int64_t p) const {
    const std::int64_t first = __ldg(slice_ptr + (p >> shift)), next = __ldg(slice_ptr + (p >> shift) + 1);
    return {first + (p & ((1 << shift) - 1)), std::int64_t{1} << shift, (next - first) >> shift};
  }
  template <class T>
  void describe(RowArrays<T>& rows) const {
    rows.kind = RowArrays<T>::Kind::slices, rows.slice_ptr = slice_ptr, rows.shift = shift;
    rows.stride = std::int64_t{1} << shift;
  }
};

template <class T, class Place>
struct SlotArrays {
  Place place;
  std::int64_t rows;
  const std::int32_t* col;
  const T* values;
  const std::int32_t* perm;   // position -> row; null when they are the same
  const std::int32_t* empty;  // positions of rows without entries, ascending
  std::int64_t empty_count;

  __host__ __device__ std::int64_t positions() const { return place.positions(); }
  __device__ std::int64_t row(std::int64_t p) const {
    if (p >= rows) return -1;
    return perm ? __ldg(perm + p) : p;
  }
  template <int split>
  __device__ T part_sum(std::int64_t p, int part, const T* x) const {
    T sum = 0;
    const auto slots = place.at(p);
#pragma unroll 4
    for (std::int64_t k = part; k < slots.width; k += split) {
      const std::int64_t slot = slots.slot(k);
      sum += __ldcs(values + slot) * __ldg(x + __ldcs(col + slot));
    }
    return sum;
  }
  // The padding of a row without entries reads x[0], which may be NaN or infinite.
  __device__ T whole(std::int64_t p, T sum) const {
    return sum != sum && empty_count > 0 && is_empty(p) ? T(0) : sum;
  }
  __device__ bool is_empty(std::int64_t p) const {
    std::int64_t low = 0, high = empty_count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (empty[middle] < p)
        low = middle + 1;
      else
        high = middle;
    }
    return low < empty_count && empty[low] == p;
  }
  // Padding repeats a column, entries ascend.
  __device__ std::int64_t length(std::int64_t p) const {
    const auto slots = place.at(p);
    if (slots.width == 0 || is_empty(p)) return 0;
    std::int64_t k = 1;
    while (k < slots.width && col[slots.slot(k)] > col[slots.slot(k - 1)]) ++k;
    return k;
  }
  __device__ void write(std::int64_t p, std::int32_t* to_col, T* to_values) const {
    const auto slots = place.at(p);
    const std::int64_t count = length(p);
    for (std::int64_t k = 0; k < count; ++k)
      to_col[k] = col[slots.slot(k)], to_values[k] = values[slots.slot(k)];
  }
};

template <int split, bool dot, class T, class Place>
__global__ void __launch_bounds__(device::block_size, 8)
    slot_product(SlotArrays<T, Place> a, ProductTask<T> task) {
  multiply_rows<split, dot>(a, task);
}

// The column of padding, whose value is 0. It is the row's last column again (0 in a row without entries), so
// that padding reads no x that the row does not use; or -1, which cuSPARSE requires.
enum class Padding : unsigned char { last_column, minus_one };

// Writes all slots, 32 positions for each warp. Entries pass through shared memory: a warp reads eight of a
// row at a time and writes those of 32 rows at a time.
template <class T, class Place>
__global__ void __launch_bounds__(device::block_size)
    slot_fill(SlotArrays<T, Place> a, DeviceRows<T> from, Padding padding, std::int32_t* to_col,
              T* to_values) {
  constexpr int tile = 8, warps = device::block_size / 32;
  __shared__ std::int32_t cols[warps][32][tile + 1];
  __shared__ T vals[warps][32][tile + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t p = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x;
  if (p - lane >= a.positions()) return;
  auto slots = a.place.at(p < a.positions() ? p : a.positions() - 1);
  if (p >= a.positions()) slots.width = 0;
  std::int64_t begin = 0, length = 0;
  if (const std::int64_t row = a.row(p); row >= 0) {
    begin = from.row_ptr[row];
    length = from.row_ptr[row + 1] - begin;
  }
  std::int32_t last = length > 0 ? from.col[begin + length - 1] : 0;
  if (padding == Padding::minus_one) last = -1;
  std::int64_t widest = slots.width;
  for (int step = 16; step > 0; step /= 2) widest = max(widest, __shfl_xor_sync(0xffffffffu, widest, step));
  for (std::int64_t k0 = 0; k0 < widest; k0 += tile) {
#pragma unroll
    for (int i = 0; i < tile; ++i) {
      const int r = i * (32 / tile) + lane / tile;
      const std::int64_t k = k0 + lane % tile;
      const std::int64_t its_begin = __shfl_sync(0xffffffffu, begin, r),
                         its_length = __shfl_sync(0xffffffffu, length, r);
      const std::int32_t its_last = __shfl_sync(0xffffffffu, last, r);
      const bool entry = k < its_length;
      cols[warp][r][lane % tile] = entry ? from.col[its_begin + k] : its_last;
      vals[warp][r][lane % tile] = entry ? from.values[its_begin + k] : T(0);
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < tile; ++j)
      if (k0 + j < slots.width) {
        const std::int64_t slot = slots.slot(k0 + j);
        to_col[slot] = cols[warp][lane][j];
        to_values[slot] = vals[warp][lane][j];
      }
    __syncwarp();
  }
}

template <class T, class Place>
__global__ void slot_diagonal(SlotArrays<T, Place> a, std::int64_t size, T* diagonal) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= a.rows) return;
  const std::int64_t row = a.row(p);
  if (row >= size) return;
  const auto slots = a.place.at(p);
  T found = 0;
  for (std::int64_t k = 0; k < slots.width; ++k) {
    const std::int64_t slot = slots.slot(k);
    if (a.col[slot] < row) continue;
    // The first is the entry, others are padding.
    if (a.col[slot] == row && !a.is_empty(p)) found = a.values[slot];
    break;
  }
  diagonal[row] = found;
}

static __global__ void mark_empty(DevicePattern a, const std::int32_t* perm, std::int64_t* marks) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p < a.rows) marks[p] = a.length(perm ? perm[p] : p) == 0;
}
static __global__ void gather_empty(const std::int64_t* before, std::int64_t rows, std::int32_t* empty) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p < rows && before[p + 1] > before[p]) empty[before[p]] = static_cast<std::int32_t>(p);
}

// Positions of rows without entries, ascending.
inline Buffer<std::int32_t> empty_positions(const ContextPtr& context, const SparsityPattern& pattern,
                                            const std::int32_t* perm, std::int64_t count) {
  Buffer<std::int32_t> empty(context, count);
  if (count == 0) return empty;
  const device::Scratch<std::int64_t> before(*context, pattern.rows + 1);
  const cudaStream_t queue = device::stream(*context);
  mark_empty<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(device_pattern(pattern), perm,
                                                                        before.data());
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(before.data() + pattern.rows, 0, 8, queue));
  device::exclusive_scan(*context, before.data(), before.size());
  gather_empty<<<blocks_of(pattern.rows), device::block_size, 0, queue>>>(before.data(), pattern.rows,
                                                                          empty.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return empty;
}

// A matrix of padded rows, without a product. The derived class makes the place, which gives the
// places of the slots.
template <class T, class Place>
class SlotStorage : public AssembledMatrix<T> {
 public:
  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    return csr_from_positions<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), arrays());
  }

  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    slot_diagonal<<<blocks_of(this->rows()), device::block_size, 0, queue()>>>(arrays(), d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 protected:
  SlotStorage(const BuildRequest<T>& request, Place place, std::int64_t slots, Buffer<std::int32_t> perm,
              std::int64_t empty_rows, Padding padding = Padding::last_column)
      : AssembledMatrix<T>(request),
        place_(place),
        col_(request.context, slots),
        values_(request.context, slots),
        perm_(std::move(perm)),
        empty_(empty_positions(request.context, request.csr.pattern, perm_.data(), empty_rows)),
        padding_(padding) {
    fill(request.csr);
  }

  void do_update_values(const CsrMatrix<T>& csr) override { fill(csr); }

  std::size_t slot_bytes() const noexcept {
    return col_.bytes() + values_.bytes() + perm_.bytes() + empty_.bytes();
  }
  // For kernels of libraries, without what belongs to the place.
  SlotView<T> slot_view() const noexcept {
    SlotView<T> view;
    view.rows = this->rows(), view.positions = place_.positions(), view.slots = col_.size();
    view.col = col_.data(), view.values = values_.data();
    view.perm = perm_.data(), view.empty = empty_.data(), view.empty_count = empty_.size();
    return view;
  }
  SlotArrays<T, Place> arrays() const {
    return {place_, this->rows(), col_.data(), values_.data(), perm_.data(), empty_.data(), empty_.size()};
  }

  Place place_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }
  void fill(const CsrMatrix<T>& csr) {
    if (col_.size() == 0) return;
    const DeviceRows<T> from{
        csr.rows(), {csr.pattern.row_ptr.p32, csr.pattern.row_ptr.p64}, csr.pattern.col, csr.values};
    slot_fill<<<blocks_of(place_.positions()), device::block_size, 0, queue()>>>(arrays(), from, padding_,
                                                                                 col_.data(), values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  Buffer<std::int32_t> perm_, empty_;
  Padding padding_;
};

// The same with the product of this library.
template <class T, class Place>
class SlotDevice : public SlotStorage<T, Place>, public HasApplyDot<T>, public HasRowArrays<T> {
 public:
  RowArrays<T> row_arrays() const noexcept override {
    const SlotArrays<T, Place> a = this->arrays();
    RowArrays<T> rows;
    rows.rows = this->rows(), rows.stored = this->col_.size();
    rows.values = a.values, rows.col = a.col, rows.perm = a.perm;
    a.place.describe(rows);
    rows.version = 1;
    return rows;
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch<true>(T(1), x.data, T(0), y.data, result);
  }

 protected:
  SlotDevice(const BuildRequest<T>& request, Place place, std::int64_t slots, Buffer<std::int32_t> perm,
             std::int64_t empty_rows)
      : SlotStorage<T, Place>(request, place, slots, std::move(perm), empty_rows),
        split_(row_split(
            request.context->device_state(), this->rows(),
            static_cast<double>(slots) / static_cast<double>(std::max<std::int64_t>(1, this->rows())))) {
    if (!request.params.has("threads")) return;
    if (const std::int64_t threads = request.params.integer("threads"); threads > 0)
      split_ = static_cast<int>(threads);
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
  }

 private:
  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    const unsigned blocks = product_blocks(state, row_pieces(this->rows(), split_), dot);
    with_split(split_, [&](auto split) {
      device::launch(state, slot_product<split(), dot, T, Place>, blocks, device::block_size, this->arrays(),
                     product_task(*this->context(), blocks, alpha, x, beta, y, result));
    });
  }

  int split_;
};

}  // namespace protean::formats
