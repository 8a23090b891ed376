// Slices on the device: the conversion and the products. slice_plan.cu finds what slices hold.
#include "core/bisect.hpp"
#include "formats/engines/several/multi_rows.cuh"
#include "formats/engines/slices/slices.cuh"

namespace protean::formats {
namespace {

// Lengths, and the places of diagonal entries, of all positions. Either may be null.
__global__ void slice_lengths(DevicePattern a, const std::int32_t* perm, int divisor, std::int32_t* lengths,
                              std::int32_t* diagonal_index) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= a.rows) return;
  const std::int64_t r = row_at(perm, p);
  if (lengths) lengths[p] = static_cast<std::int32_t>((a.length(r) + divisor - 1) / divisor);
  if (diagonal_index) diagonal_index[p] = static_cast<std::int32_t>(diagonal_place(a.row_ptr, a.col, r));
}

__global__ void mark_absent(DevicePattern a, const std::int32_t* perm, bool diagonal_apart,
                            std::int64_t* marks) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p > a.rows) return;
  marks[p] = p < a.rows &&
             (diagonal_apart ? diagonal_place(a.row_ptr, a.col, p) < 0 : a.length(row_at(perm, p)) == 0);
}
__global__ void gather_absent(const std::int64_t* before, std::int64_t rows, std::int32_t* absent) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p < rows && before[p + 1] > before[p]) absent[before[p]] = static_cast<std::int32_t>(p);
}

template <class T>
__global__ void slice_diagonal(SliceView<T> a, const std::int32_t* index, std::int64_t size, T* diagonal) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= a.rows) return;
  const std::int64_t r = a.row(p);
  if (r >= size) return;
  diagonal[r] = a.diagonal(p, index);
}

}  // namespace

namespace {

// Writes all slots, 32 positions for each warp. Entries pass through shared memory: a warp reads eight entries of a row
// at a time and writes the entries of 32 rows at a time. Without to_col the columns stay as they are.
template <bool threads, class T>
__global__ void __launch_bounds__(device::block_size)
    slot_fill(SliceView<T> a, DeviceRows<T> from, Padding padding, std::int32_t* to_col, T* to_values) {
  constexpr int tile = 8, warps = device::block_size / 32;
  __shared__ std::int32_t cols[warps][32][tile + 1];
  __shared__ T vals[warps][32][tile + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t p = std::int64_t{blockIdx.x} * device::block_size + threadIdx.x;
  if (p - lane >= a.positions()) return;
  auto slots = a.at(p < a.positions() ? p : a.positions() - 1);
  if (p >= a.positions()) slots.width = 0;
  RowSource mine{0, 0, -1};
  std::int32_t last = 0;
  if (const std::int64_t row = a.row(p); row >= 0) {
    mine.begin = from.row_ptr[row];
    mine.length = from.row_ptr[row + 1] - mine.begin;
    if (a.diagonal_apart) {
      mine.diagonal = diagonal_place(from.row_ptr, from.col, row);
      to_values[a.slots + row] = mine.diagonal < 0 ? T(0) : from.values[mine.begin + mine.diagonal];
      last = static_cast<std::int32_t>(row);
    }
    if (to_col && mine.count() > 0) last = from.col[mine.from(mine.count() - 1)];
  }
  if (padding == Padding::minus_one) last = -1;
  std::int64_t widest = slots.width;
  for (int step = 16; step > 0; step /= 2) widest = max(widest, __shfl_xor_sync(0xffffffffu, widest, step));
  for (std::int64_t k0 = 0; k0 < widest; k0 += tile) {
#pragma unroll
    for (int i = 0; i < tile; ++i) {
      const int r = i * (32 / tile) + lane / tile;
      const std::int64_t k = k0 + lane % tile;
      RowSource its;
      its.begin = __shfl_sync(0xffffffffu, mine.begin, r);
      its.length = __shfl_sync(0xffffffffu, mine.length, r);
      its.diagonal = a.diagonal_apart ? __shfl_sync(0xffffffffu, mine.diagonal, r) : -1;
      const std::int32_t its_last = __shfl_sync(0xffffffffu, last, r);
      const bool entry = k < its.count();
      if (to_col) cols[warp][r][lane % tile] = entry ? from.col[its.from(k)] : its_last;
      vals[warp][r][lane % tile] = entry ? from.values[its.from(k)] : T(0);
    }
    __syncwarp();
    if constexpr (threads) {
      // `side` slots of a row lie side by side, then `side` slots of the next row.
      const int side = a.threads < tile ? a.threads : tile;
#pragma unroll
      for (int j = 0; j < tile; ++j) {
        const int number = j * 32 + lane, inside = number % (32 * side);
        const int r = inside / side, k = number / (32 * side) * side + inside % side;
        LaneSlots its = slots;
        its.base = __shfl_sync(0xffffffffu, slots.base, r);
        its.width = __shfl_sync(0xffffffffu, slots.width, r);
        if (k0 + k >= its.width) continue;
        const std::int64_t slot = its.slot(k0 + k);
        if (to_col) to_col[slot] = cols[warp][r][k];
        to_values[slot] = vals[warp][r][k];
      }
    } else {
#pragma unroll
      for (int j = 0; j < tile; ++j)
        if (k0 + j < slots.width) {
          const std::int64_t slot = slots.slot(k0 + j);
          if (to_col) to_col[slot] = cols[warp][lane][j];
          to_values[slot] = vals[warp][lane][j];
        }
    }
    __syncwarp();
  }
}

}  // namespace

template <class T>
SliceStorage<T>::SliceStorage(const BuildRequest<T>& request, Padding padding)
    : RowViewOnDevice<T, SliceStorage<T>>(request), padding_(padding) {
  const SlicePlanOnDevice& plan = plan_of<SlicePlanOnDevice>(request.admission);
  const SparsityPattern& pattern = request.csr.pattern;
  const ContextPtr& context = request.context;
  rule_ = plan.rule, counts_ = plan.counts;
  values_ = Buffer<T>(context, counts_.slots + (rule_.diagonal_apart ? pattern.rows : 0));
  col_ = Buffer<std::int32_t>(context, counts_.slots);
  if (rule_.C > 0) slice_ptr_ = copy_of(context, *plan.slice_ptr);
  if (rule_.variable()) row_start_ = copy_of(context, *plan.row_start);
  if (rule_.window > 0) perm_ = copy_of(context, *plan.perm);
  if (rule_.kind != LaneLengths::none) lengths_ = Buffer<std::int32_t>(context, pattern.rows);
  if (rule_.diagonal_index) diagonal_index_ = Buffer<std::int32_t>(context, pattern.rows);
  if (pattern.rows > 0 && (!lengths_.empty() || !diagonal_index_.empty())) {
    const int divisor = rule_.kind == LaneLengths::steps ? rule_.threads : 1;
    slice_lengths<<<blocks_of(pattern.rows), device::block_size, 0, queue()>>>(
        device_pattern(pattern), rule_.window > 0 ? perm_.data() : nullptr, divisor,
        lengths_.empty() ? nullptr : lengths_.data(),
        diagonal_index_.empty() ? nullptr : diagonal_index_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  list_absent(context, pattern);
  fill(request.csr, col_.data());
}

template <class T>
void SliceStorage<T>::list_absent(const ContextPtr& context, const SparsityPattern& pattern) {
  absent_ = Buffer<std::int32_t>(context, counts_.absent);
  if (counts_.absent == 0) return;
  const device::Scratch<std::int64_t> before(*context, pattern.rows + 1);
  mark_absent<<<blocks_of(pattern.rows + 1), device::block_size, 0, queue()>>>(
      device_pattern(pattern), rule_.window > 0 ? perm_.data() : nullptr, rule_.diagonal_apart,
      before.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(*context, before.data(), before.size());
  gather_absent<<<blocks_of(pattern.rows), device::block_size, 0, queue()>>>(before.data(), pattern.rows,
                                                                             absent_.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void SliceStorage<T>::fill(const CsrMatrix<T>& csr, std::int32_t* to_col) {
  const SliceView<T> view = row_view();
  if (view.positions() == 0) return;
  const DeviceRows<T> from{
      csr.rows(), {csr.pattern.row_ptr.p32, csr.pattern.row_ptr.p64}, csr.pattern.col, csr.values};
  const unsigned blocks = blocks_of(view.positions());
  if (rule_.order == LaneOrder::columns)
    slot_fill<false>
        <<<blocks, device::block_size, 0, queue()>>>(view, from, padding_, to_col, values_.data());
  else
    slot_fill<true><<<blocks, device::block_size, 0, queue()>>>(view, from, padding_, to_col, values_.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void SliceStorage<T>::diagonal(VectorView<T> d) const {
  if (!rule_.diagonal_index && !rule_.diagonal_apart) return RowViewOnDevice<T, SliceStorage<T>>::diagonal(d);
  const detail::DeviceScope scope(*this->context());
  if (d.size == 0) return;
  slice_diagonal<<<blocks_of(this->rows()), device::block_size, 0, queue()>>>(
      row_view(), rule_.diagonal_index ? diagonal_index_.data() : nullptr, d.size, d.data);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

template <class T>
SliceView<T> SliceStorage<T>::row_view() const noexcept {
  SliceView<T> view{};
  view.values = values_.data(), view.col = col_.data();
  view.slice_ptr = slice_ptr_.empty() ? nullptr : slice_ptr_.data();
  view.row_start = row_start_.empty() ? nullptr : row_start_.data();
  view.lengths = lengths_.data(), view.perm = perm_.empty() ? nullptr : perm_.data();
  view.absent = absent_.data(), view.absent_count = absent_.size();
  view.set_shape(rule_, this->rows(), counts_);
  return view;
}

namespace {

// The product of order columns, for a `Rows` as multiply_rows() takes it: one thread a row, or `split`, in different
// warps, so that neighbouring threads have neighbouring rows.
template <int split, bool dot, class T, class Rows>
__global__ void __launch_bounds__(device::block_size, 8) slot_product(Rows a, ProductTask<T> task) {
  multiply_rows<split, dot>(a, task);
}
template <bool dot, class T, class Rows>
void multiply_slots(const Context& context, const Rows& rows, int split, T alpha, const T* x, T beta, T* y,
                    T* result) {
  const DeviceState& state = context.device_state();
  const unsigned blocks = product_blocks(state, row_pieces(rows.rows, split), dot);
  const ProductTask<T> task = product_task(context, blocks, alpha, x, beta, y, result);
  with_split(split, [&](auto threads) {
    device::launch(state, slot_product<threads(), dot, T, Rows>, blocks, device::block_size, rows, task);
  });
}

// The place of the first slot of a row of order columns, the distance of its slots, their number, and a place behind
// the last one and not behind the next.
struct StridedSlots {
  std::int64_t base, stride, width, end;
};
struct OneSlice {
  std::int64_t C, width;
  __device__ StridedSlots at(std::int64_t p) const { return {p, C, width, width * C}; }
};
struct PowerSlices {
  const std::int64_t* slice_ptr;
  int shift;
  __device__ StridedSlots at(std::int64_t p) const {
    const std::int64_t first = __ldg(slice_ptr + (p >> shift)), next = __ldg(slice_ptr + (p >> shift) + 1);
    return {first + (p & ((1 << shift) - 1)), std::int64_t{1} << shift, (next - first) >> shift, next};
  }
};
// The number of slots would need a division of 64 bits.
struct AnySlices {
  const std::int64_t* slice_ptr;
  unsigned C;
  __device__ StridedSlots at(std::int64_t p) const {
    const unsigned s = static_cast<unsigned>(p) / C;
    return {__ldg(slice_ptr + s) + p - std::int64_t{s} * C, C, 0, __ldg(slice_ptr + s + 1)};
  }
};

// Rows of order columns for multiply_rows(). plain: neither lengths nor a diagonal that is apart.
template <class T, class Place, bool plain>
struct SliceRows {
  Place place;
  std::int64_t rows;
  const std::int32_t* col;
  const T* values;
  const std::int32_t* perm;
  const std::int32_t* absent;
  std::int64_t absent_count;
  const std::int32_t* lengths;
  const T* diagonal;

  __device__ std::int64_t row(std::int64_t p) const { return perm ? __ldg(perm + p) : p; }
  template <int split>
  __device__ T part_sum(std::int64_t p, int part, const T* x) const {
    const StridedSlots slots = place.at(p);
    T sum = 0;
    if constexpr (plain) {
#pragma unroll 4
      for (std::int64_t k = part; k < slots.width; k += split) {
        const std::int64_t slot = slots.base + k * slots.stride;
        sum += __ldcs(values + slot) * __ldg(x + __ldcs(col + slot));
      }
    } else {
      if (diagonal && part == 0) {
        const std::int64_t r = row(p);
        sum = diagonal[r] * __ldg(x + r);
      }
      const std::int64_t end = lengths ? slots.base + __ldg(lengths + p) * slots.stride : slots.end;
#pragma unroll 4
      for (std::int64_t slot = slots.base + part * slots.stride; slot < end; slot += split * slots.stride)
        sum += __ldcs(values + slot) * __ldg(x + __ldcs(col + slot));
    }
    return sum;
  }
  __device__ T whole(std::int64_t p, T sum) const {
    return plain && sum != sum && absent_count > 0 && is_absent(p) ? T(0) : sum;
  }
  __device__ bool is_absent(std::int64_t p) const {
    const std::int64_t low =
        first_where<std::int64_t>(0, absent_count, [&](std::int64_t i) { return absent[i] >= p; });
    return low < absent_count && absent[low] == p;
  }
};

// Order threads: `threads` neighbouring lanes share a row.
template <int threads, bool dot, class T>
__global__ void __launch_bounds__(device::block_size) slice_threads(SliceView<T> a, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  constexpr int rows_a_block = device::block_size / threads;
  const int lane = static_cast<int>(threadIdx.x) % threads;
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows_a_block; first < a.rows;
       first += std::int64_t{gridDim.x} * rows_a_block) {
    const std::int64_t p = first + static_cast<int>(threadIdx.x) / threads;
    T sum = 0;
    if (p < a.rows) {
      const LaneSlots at = a.at(p);
      const std::int32_t steps = __ldg(a.lengths + p);
      std::int64_t slot = at.base + lane;
#pragma unroll 4
      for (std::int32_t s = 0; s < steps; ++s, slot += at.C * threads)
        sum += __ldcs(a.values + slot) * __ldg(task.x + __ldcs(a.col + slot));
    }
    sum = device::sum_lanes<threads>(sum);
    if (lane == 0 && p < a.rows) task.template finish<dot>(a.row(p), sum, dots);
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

// Slices of variable heights of at most 32 rows: a warp for each, which reads as many whole columns of the slice at a
// time as fit its lanes. The sums of the lanes of a row are added in a fixed order.
template <bool dot, class T>
__global__ void __launch_bounds__(device::block_size) slice_warps(SliceView<T> a, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  constexpr int warps = device::block_size / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  T dots[1] = {};
  for (std::int64_t s = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; s < a.slices;
       s += std::int64_t{gridDim.x} * warps) {
    const std::int32_t first_row = __ldg(a.row_start + s);
    const int height = __ldg(a.row_start + s + 1) - first_row;
    const std::int64_t first = __ldg(a.slice_ptr + s), end = __ldg(a.slice_ptr + s + 1);
    int columns = 32 / height;
    const int busy = columns * height;
    T sum = 0;
    if (lane < busy) {
#pragma unroll 4
      for (std::int64_t slot = first + lane; slot < end; slot += busy)
        sum += __ldcs(a.values + slot) * __ldg(task.x + __ldcs(a.col + slot));
    }
    while (columns > 1) {
      const int half = (columns + 1) / 2;
      const T other = __shfl_down_sync(0xffffffffu, sum, static_cast<unsigned>(half * height));
      if (lane < (columns - half) * height) sum += other;
      columns = half;
    }
    if (lane < height)
      task.template finish<dot>(first_row + lane, sum_of_entries(a, first_row + lane, sum), dots);
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

template <class F>
void with_threads(int threads, F&& f) {
  if (threads == 16) return f(std::integral_constant<int, 16>());
  if (threads == 32) return f(std::integral_constant<int, 32>());
  with_split(threads, f);
}

}  // namespace

template <class T>
SliceDevice<T>::SliceDevice(const BuildRequest<T>& request) : SliceStorage<T>(request) {
  const SparsityPattern& pattern = request.csr.pattern;
  const std::int64_t asked = request.params.has("threads") ? request.params.integer("threads") : 0;
  if (asked > 0)
    split_ = static_cast<int>(asked);
  else if (this->rule().order == LaneOrder::threads || this->rule().diagonal_apart)
    split_ = this->rule().threads;
  else if (this->rule().kind == LaneLengths::none)
    split_ = row_split(
        request.context->device_state(), this->rows(),
        static_cast<double>(this->slots()) / static_cast<double>(std::max<std::int64_t>(1, this->rows())));
  else
    split_ = pattern.nonzeros > 32 * pattern.rows ? 2 : 1;
}

template <class T>
RowArrays<T> SliceDevice<T>::row_arrays() const noexcept {
  const SliceView<T> a = this->row_view();
  RowArrays<T> rows;
  if (a.kind != LaneLengths::none || a.diagonal_apart || a.row_start) return rows;
  rows.kind = RowArrays<T>::Kind::slices, rows.version = 1;
  rows.rows = a.rows, rows.stored = a.slots;
  rows.values = a.values, rows.col = a.col, rows.perm = a.perm;
  rows.slice_ptr = a.slice_ptr, rows.stride = a.C;
  if (a.slice_ptr)
    rows.shift = a.shift;
  else
    rows.longest = a.one_width;
  return rows;
}

template <class T>
SlotView<T> SliceDevice<T>::array_view() const noexcept {
  const SliceView<T> a = this->row_view();
  return {a.rows,   a.places, a.slots,  a.C,           a.slice_ptr ? 0 : a.one_width, a.slice_ptr, a.col,
          a.values, a.perm,   a.absent, a.absent_count};
}

template <class T>
void SliceDevice<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
}
template <class T>
void SliceDevice<T>::do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const {
  launch<true>(T(1), x.data, T(0), y.data, result);
}

template <class T>
void SliceDevice<T>::do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const {
  multi_slices_on_device(*this->context(), this->row_view(), alpha, X, beta, Y);
}

template <class T>
template <bool dot>
void SliceDevice<T>::launch(T alpha, const T* x, T beta, T* y, T* result) const {
  const Context& context = *this->context();
  const DeviceState& state = context.device_state();
  const SliceView<T> a = this->row_view();
  if (a.row_start) {
    const unsigned blocks = product_blocks(state, row_pieces(a.slices * 32, 1), dot);
    device::launch(state, slice_warps<dot, T>, blocks, device::block_size, a,
                   product_task(context, blocks, alpha, x, beta, y, result));
    return;
  }
  if (a.order == LaneOrder::threads) {
    const unsigned blocks = product_blocks(state, row_pieces(a.rows, split_), dot);
    const ProductTask<T> task = product_task(context, blocks, alpha, x, beta, y, result);
    with_threads(split_, [&](auto threads) {
      device::launch(state, slice_threads<threads(), dot, T>, blocks, device::block_size, a, task);
    });
    return;
  }
  const auto multiply = [&](auto place, auto plain) {
    const SliceRows<T, decltype(place), plain()> rows{place,
                                                      a.rows,
                                                      a.col,
                                                      a.values,
                                                      a.perm,
                                                      a.absent,
                                                      a.absent_count,
                                                      a.kind == LaneLengths::entries ? a.lengths : nullptr,
                                                      a.diagonal_apart ? a.values + a.slots : nullptr};
    multiply_slots<dot>(context, rows, split_, alpha, x, beta, y, result);
  };
  const bool is_plain = a.kind == LaneLengths::none && !a.diagonal_apart;
  const std::true_type plain;
  const std::false_type not_plain;
  if (!a.slice_ptr)
    is_plain ? multiply(OneSlice{a.C, a.one_width}, plain) : multiply(OneSlice{a.C, a.one_width}, not_plain);
  else if (a.shift >= 0)
    is_plain ? multiply(PowerSlices{a.slice_ptr, a.shift}, plain)
             : multiply(PowerSlices{a.slice_ptr, a.shift}, not_plain);
  else
    multiply(AnySlices{a.slice_ptr, static_cast<unsigned>(a.C)}, not_plain);
}

template class SliceStorage<double>;
template class SliceStorage<float>;
template class SliceDevice<double>;
template class SliceDevice<float>;

}  // namespace protean::formats
