// The device side of slice_view.hpp. slices.cu defines what is declared here without a body. Private to formats/.
#pragma once
#include <memory>
#include <optional>

#include "formats/engines/row_view.cuh"
#include "formats/engines/slice_view.hpp"
#include "formats/private/array_views.hpp"
#include "operators/row_arrays.hpp"

namespace protean::formats {

// slice_ptr[0 .. blocks] := slots before each slice of a rule with slices of equal height. perm may be null. The host waits
// once. absent: rows without entries, or without a diagonal entry where that is apart.
struct SliceFound {
  std::int64_t slots, absent, longest;
};
SliceFound count_slices(const Context& context, const SparsityPattern& pattern, const SliceRule& rule,
                        const std::int32_t* perm, std::int64_t* slice_ptr);

struct SlicePlanOnDevice {
  SlicePlanOnDevice(const Context& context, const SparsityPattern& pattern, const SliceRule& from);

  SliceRule rule;
  SliceCounts counts;
  std::optional<device::Scratch<std::int64_t>> slice_ptr;
  std::optional<device::Scratch<std::int32_t>> row_start, perm;

 private:
  void count(const Context& context, const SparsityPattern& pattern, std::int64_t window);
  void cut(const Context& context, const SparsityPattern& pattern);
  std::int64_t longest_ = 0;
};

template <RuleOf& rule_of>
Admission admit_slices_on_device(const Context& context, const SparsityPattern& pattern,
                                 const FormatParams& params, std::size_t value_bytes) {
  const SliceRule rule = rule_of(pattern, params);
  if (std::string reason = refusal_of(rule, pattern); !reason.empty())
    return Admission::refuse(std::move(reason));
  auto plan = std::make_shared<const SlicePlanOnDevice>(context, pattern, rule);
  Admission admission = admit_slots(plan->rule, plan->counts, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

// The place of the diagonal entry in row r, or -1.
__device__ inline std::int64_t diagonal_place(const DeviceRowPointers& row_ptr, const std::int32_t* col,
                                              std::int64_t r) {
  const std::int64_t begin = row_ptr[r], end = row_ptr[r + 1];
  std::int64_t low = begin, high = end;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (col[middle] < r)
      low = middle + 1;
    else
      high = middle;
  }
  return low < end && col[low] == r ? low - begin : -1;
}

// The column of padding, whose value is 0. It is the row's last column again, so that padding reads no x that the row does not
// use (in a row without entries 0, or its own column where the diagonal is apart); or -1, which cuSPARSE requires.
enum class Padding : unsigned char { last_column, minus_one };

// Writes all slots, 32 positions for each warp. Entries pass through shared memory: a warp reads eight of a row at a time and
// writes those of 32 rows at a time. View has positions(), row(p), at(p), which gives width and slot(k), diagonal_apart and
// slots. With `threads` it is a SliceView of that order. Without to_col the columns stay as they are.
template <bool threads, class View, class T>
__global__ void __launch_bounds__(device::block_size)
    slot_fill(View a, DeviceRows<T> from, Padding padding, std::int32_t* to_col, T* to_values) {
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
      // `side` slots of a row lie side by side, and then those of the next row.
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

template <bool threads = false, class T, class View>
void fill_slots(const Context& context, const View& view, const CsrMatrix<T>& csr, Padding padding,
                std::int32_t* to_col, T* to_values) {
  if (view.positions() == 0) return;
  const DeviceRows<T> from{
      csr.rows(), {csr.pattern.row_ptr.p32, csr.pattern.row_ptr.p64}, csr.pattern.col, csr.values};
  slot_fill<threads><<<blocks_of(view.positions()), device::block_size, 0, device::stream(context)>>>(
      view, from, padding, to_col, to_values);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

// The product of padded or jagged rows, for a `Rows` as multiply_rows() takes it: one thread a row, or `split`, in different
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

// A matrix in slices, without a product: for the kernels of its formats.
template <class T>
class SliceStorage : public RowViewOnDevice<T, SliceStorage<T>> {
 public:
  explicit SliceStorage(const BuildRequest<T>& request, Padding padding = Padding::last_column);
  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + slice_ptr_.bytes() + row_start_.bytes() + lengths_.bytes() +
           perm_.bytes() + absent_.bytes() + diagonal_index_.bytes();
  }
  void diagonal(VectorView<T> d) const override;
  SliceView<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { fill(csr, nullptr); }
  const SliceRule& rule() const noexcept { return rule_; }
  const Buffer<std::int64_t>& slice_ptr() const noexcept { return slice_ptr_; }
  std::int64_t slots() const noexcept { return counts_.slots; }
  std::int64_t slices() const noexcept { return counts_.slices; }
  std::int32_t* col() noexcept { return col_.data(); }

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }
  void fill(const CsrMatrix<T>& csr, std::int32_t* to_col);
  void list_absent(const ContextPtr& context, const SparsityPattern& pattern);

  SliceRule rule_;
  SliceCounts counts_;
  Padding padding_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> slice_ptr_;
  Buffer<std::int32_t> row_start_, lengths_, perm_, absent_, diagonal_index_;
};

// The same with the product of this library, for every rule.
template <class T>
class SliceDevice final : public SliceStorage<T>,
                          public HasApplyDot<T>,
                          public HasRowArrays<T>,
                          public HasArrayView<SlotView<T>> {
 public:
  explicit SliceDevice(const BuildRequest<T>& request);
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override;
  // Of rules without lengths, whose slices have 2^n rows or are one.
  RowArrays<T> row_arrays() const noexcept override;
  SlotView<T> array_view() const noexcept override;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const;
  int split_;
};

extern template class SliceStorage<double>;
extern template class SliceStorage<float>;
extern template class SliceDevice<double>;
extern template class SliceDevice<float>;

// The sum of the row at position p from that of its slots: the padding of a row without entries reads x[0], which may be NaN or
// infinite.
template <class T>
__device__ inline T sum_of_entries(const SliceView<T>& a, std::int64_t p, T sum) {
  return sum != sum && a.absent_count > 0 && a.is_absent(p) ? T(0) : sum;
}

}  // namespace protean::formats
