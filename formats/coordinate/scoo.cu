// Sliced COO on the device, in the layout of scoo.cpp. A thread block computes a slice. Each row has `lanes` sums in
// shared memory, which are added in their order at the end. Every row of y is written once, in one launch. Kernels:
//   native  Each warp takes an equal part of the slice and has one of the sums. Lanes whose entries lie in the same row
//           add one after another. The order of the sums is fixed.
//   atomic  Dang and Schmidt's: thread t adds to sum t mod lanes of a row by an atomic operation in shared memory. The
//           order of the sums is not fixed.
#include "formats/coordinate/scoo.hpp"

#include "formats/engines/view/expand.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

constexpr int lanes = 8, threads = 32 * lanes;

template <class T>
struct ScooSlices {
  std::int64_t rows, slices;
  const std::int32_t* slice_row;
  const std::int64_t* slice_ptr;
  const std::uint8_t* local_row;
  const std::int32_t* col;
  const T* values;

  // The view of rows: a thread reads all numbers of rows of its slice, as its neighbours do.
  __host__ __device__ std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return p; }
  __device__ std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
  template <class F>
  __device__ void for_entries(std::int64_t p, F&& f) const {
    const std::int64_t s = slice_of(slice_row, 0, slices - 1, p);
    const int mine = static_cast<int>(p - slice_row[s]);
    for (std::int64_t k = slice_ptr[s]; k < slice_ptr[s + 1]; ++k)
      if (local_row[k] == mine) f(col[k], k);
  }
};

// The slices of each group of rows; then the first row of each slice, from the number of slices before each group.
static __global__ void scoo_count(DevicePattern a, ScooRule rule, std::int64_t groups, std::int64_t* count) {
  const std::int64_t g = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (g >= groups) return;
  const std::int64_t begin = g * rule.height, end = min(a.rows, begin + rule.height);
  const std::int64_t height = rule.slice_height(a.row_ptr[end] - a.row_ptr[begin]);
  count[g] = (end - begin + height - 1) / height;
}
static __global__ void scoo_cut(DevicePattern a, ScooRule rule, std::int64_t groups,
                                const std::int64_t* before, std::int32_t* slice_row,
                                std::int64_t* slice_ptr) {
  const std::int64_t g = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (g > groups) return;
  if (g == groups) {
    slice_row[before[g]] = static_cast<std::int32_t>(a.rows), slice_ptr[before[g]] = a.row_ptr[a.rows];
    return;
  }
  const std::int64_t begin = g * rule.height, end = min(a.rows, begin + rule.height);
  const std::int64_t height = rule.slice_height(a.row_ptr[end] - a.row_ptr[begin]);
  for (std::int64_t s = before[g], r = begin; r < end; ++s, r += height)
    slice_row[s] = static_cast<std::int32_t>(r), slice_ptr[s] = a.row_ptr[r];
}

// Entries are sorted by slice and column; the sort keeps the order of rows.
template <class I>
__global__ void scoo_keys(std::int64_t size, const std::int32_t* slice, const std::int32_t* col, int col_bits,
                          std::uint64_t* keys, I* items) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= size) return;
  keys[k] = static_cast<std::uint64_t>(slice[k]) << col_bits | static_cast<std::uint32_t>(col[k]);
  items[k] = static_cast<I>(k);
}
template <class T, class I>
__global__ void scoo_place(std::int64_t size, const std::uint64_t* keys, const I* items, int col_bits,
                           const std::int32_t* row, const T* from, const std::int32_t* slice_row,
                           std::uint8_t* local_row, std::int32_t* col, T* values) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= size) return;
  const I item = items[k];
  local_row[k] = static_cast<std::uint8_t>(row[item] - slice_row[keys[k] >> col_bits]);
  col[k] = static_cast<std::int32_t>(keys[k] & ((std::uint64_t{1} << col_bits) - 1));
  values[k] = from[item];
}

template <bool atomic, class T>
__global__ void __launch_bounds__(threads)
    scoo_product(ScooSlices<T> A, T alpha, const T* x, T beta, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T sums[lanes][scoo_highest];
  const std::int64_t begin = A.slice_ptr[blockIdx.x], end = A.slice_ptr[blockIdx.x + 1];
  const std::int32_t first = A.slice_row[blockIdx.x];
  const int rows = A.slice_row[blockIdx.x + 1] - first, thread = threadIdx.x;
  for (int i = thread; i < lanes * rows; i += threads) sums[i / rows][i % rows] = 0;
  __syncthreads();
  if constexpr (atomic) {
#pragma unroll 4
    for (std::int64_t k = begin + thread; k < end; k += threads)
      atomicAdd(&sums[thread % lanes][A.local_row[k]], __ldcs(A.values + k) * __ldg(x + __ldcs(A.col + k)));
  } else {
    constexpr int batch = 4;
    const int lane = thread % 32;
    const std::int64_t share = (end - begin + 32 * lanes - 1) / (32 * lanes) * 32;
    const std::int64_t part = begin + thread / 32 * share, part_end = min(end, part + share);
    T* const mine = sums[thread / 32];
    for (std::int64_t k0 = part; k0 < part_end; k0 += 32 * batch) {
      int r[batch];
      T v[batch];
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        const std::int64_t k = k0 + 32 * j + lane;
        // Lanes without an entry have a separate row.
        r[j] = k < part_end ? A.local_row[k] : static_cast<int>(scoo_highest) + lane;
        v[j] = k < part_end ? __ldcs(A.values + k) * __ldg(x + __ldcs(A.col + k)) : T(0);
      }
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        const unsigned same = __match_any_sync(0xffffffffu, r[j]);
        const int turn = __popc(same & ((1u << lane) - 1));
        const int turns = device::warp_max(turn);
        for (int t = 0; t <= turns; ++t) {
          if (t == turn && r[j] < scoo_highest) mine[r[j]] += v[j];
          __syncwarp();
        }
      }
    }
  }
  __syncthreads();
  for (int r = thread; r < rows; r += threads) {
    T sum = 0;
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) sum += sums[lane][r];
    store(alpha, sum, beta, y + first + r);
  }
}

// The number of slices before each group of rows, and in all groups at the end.
class SlicesBefore {
 public:
  SlicesBefore(const Context& context, const SparsityPattern& pattern, const ScooRule& rule)
      : groups((pattern.rows + rule.height - 1) / rule.height), count(context, groups + 1) {
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(count.data(), 0, count.bytes(), queue));
    if (groups == 0) return;
    scoo_count<<<blocks_of(groups), device::block_size, 0, queue>>>(device_pattern(pattern), rule, groups,
                                                                    count.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, count.data(), groups + 1);
  }
  const std::int64_t groups;
  const device::Scratch<std::int64_t> count;
};

struct ScooPlan {
  std::int64_t slices;
};

template <class T, bool atomic>
class ScooDevice final : public RowViewOnDevice<T, ScooDevice<T, atomic>> {
 public:
  explicit ScooDevice(const BuildRequest<T>& request)
      : RowViewOnDevice<T, ScooDevice<T, atomic>>(request),
        slice_row_(request.context, plan_of<ScooPlan>(request.admission).slices + 1),
        slice_ptr_(request.context, slice_row_.size()),
        local_row_(request.context, request.csr.nonzeros()),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    const Context& context = *request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    const ScooRule rule = scoo_rule(request.params);
    const SlicesBefore before(context, pattern, rule);
    scoo_cut<<<blocks_of(before.groups + 1), device::block_size, 0, device::stream(context)>>>(
        device_pattern(pattern), rule, before.groups, before.count.data(), slice_row_.data(),
        slice_ptr_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    if (pattern.nonzeros == 0) return;
    if (pattern.row_ptr.width() == 4)
      sort<std::int32_t>(request.csr);
    else
      sort<std::int64_t>(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return slice_row_.bytes() + slice_ptr_.bytes() + local_row_.bytes() + col_.bytes() + values_.bytes();
  }
  ScooSlices<T> row_view() const {
    return {this->rows(),      slice_row_.size() - 1, slice_row_.data(), slice_ptr_.data(),
            local_row_.data(), col_.data(),           values_.data()};
  }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const ScooSlices<T> A = row_view();
    if (A.slices == 0) return;
    const DeviceState& state = this->context()->device_state();
    device::launch(state, scoo_product<atomic, T>, A.slices, threads, A, alpha, x.data, beta, y.data,
                   state.stop);
  }

 private:
  template <class I>
  void sort(const CsrMatrix<T>& csr) {
    const Context& context = *this->context();
    const std::int64_t size = csr.nonzeros(), slices = slice_row_.size() - 1;
    const auto bits = [](std::int64_t count) {
      return static_cast<int>(
          std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, count - 1))));
    };
    const cudaStream_t queue = device::stream(context);
    device::Scratch<std::int32_t> index(context, size);
    device::Scratch<std::uint64_t> keys(context, size);
    device::Scratch<I> items(context, size);
    expand(context, slice_ptr_.data(), slices, size, index.data());
    scoo_keys<<<blocks_of(size), device::block_size, 0, queue>>>(size, index.data(), csr.pattern.col,
                                                                 bits(csr.cols()), keys.data(), items.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::sort_pairs(context, keys.data(), items.data(), size, bits(csr.cols()) + bits(slices));
    csr.pattern.row_ptr.visit(
        [&](auto* row_ptr) { expand(context, row_ptr, csr.rows(), size, index.data()); });
    scoo_place<<<blocks_of(size), device::block_size, 0, queue>>>(
        size, keys.data(), items.data(), bits(csr.cols()), index.data(), csr.values, slice_row_.data(),
        local_row_.data(), col_.data(), values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  Buffer<std::int32_t> slice_row_;
  Buffer<std::int64_t> slice_ptr_;
  Buffer<std::uint8_t> local_row_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;
};
template <class T>
using ScooFixed = ScooDevice<T, false>;
template <class T>
using ScooAtomic = ScooDevice<T, true>;

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const SlicesBefore before(context, pattern, scoo_rule(params));
  const std::int64_t slices = read_back(context, before.count.data() + before.groups);
  Admission admission = Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 5) +
                                              12 * static_cast<std::size_t>(slices + 1),
                                          pattern.nonzeros);
  keep_plan(admission, std::make_shared<ScooPlan>(ScooPlan{slices}));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<ScooFixed>("native"), device_kernel<ScooAtomic>("atomic", false)};

}  // namespace

constinit const DeviceCode device_code::scoo{kernels, admit};

}  // namespace protean::formats
