// Kernel `segments` of sell-c-sigma: the slots of a slice of C rows lie one after another, so a warp reads 32 of them
// at a time, which are 32 / C slots of each row. Slices of `wide` slots and more, which come first if all rows are
// sorted, get a block each; the others get a warp each. The two kinds are launched separately. The order of a row's sum
// is fixed.
#include <string>

#include "formats/engines/slices/slices.cuh"

namespace protean::formats {
namespace {

constexpr std::int64_t wide = 2048;  // slots of a slice from which a block computes it

// Sums of lanes that have the same row, in lanes 0 .. C - 1.
template <class T>
__device__ inline T sum_rows_of_warp(T sum, int C) {
  for (int step = 16; step >= C; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  return sum;
}

template <class T>
__device__ inline T slice_part(const SliceView<T>& a, std::int64_t first, std::int64_t end, int lane,
                               int lanes, const T* x) {
  T sum = 0;
#pragma unroll 4
  for (std::int64_t slot = first + lane; slot < end; slot += lanes)
    sum += __ldcs(a.values + slot) * __ldg(x + __ldcs(a.col + slot));
  return sum;
}

// A warp for each of the slices [first, end).
template <class T>
__global__ void __launch_bounds__(device::block_size)
    warp_slices(SliceView<T> a, std::int64_t first, std::int64_t end, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  const std::int64_t s = first + (std::int64_t{blockIdx.x} * device::block_size + threadIdx.x) / 32;
  if (s >= end) return;
  const int lane = threadIdx.x % 32, C = static_cast<int>(a.C);
  T sum = slice_part(a, a.slice_ptr[s], a.slice_ptr[s + 1], lane, 32, task.x);
  sum = sum_rows_of_warp(sum, C);
  const std::int64_t p = s * C + lane;
  T dots[1] = {};
  if (lane < C && p < a.rows) task.template finish<false>(a.row(p), sum_of_entries(a, p, sum), dots);
}

// A block for each of the first slices.
template <class T>
__global__ void __launch_bounds__(device::block_size) block_slices(SliceView<T> a, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  constexpr int warps = device::block_size / 32;
  __shared__ T sums[warps][32];
  const std::int64_t s = blockIdx.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, C = static_cast<int>(a.C);
  const T sum = slice_part(a, a.slice_ptr[s], a.slice_ptr[s + 1], static_cast<int>(threadIdx.x),
                           device::block_size, task.x);
  sums[warp][lane] = sum_rows_of_warp(sum, C);
  __syncthreads();
  const std::int64_t p = s * C + lane;
  if (warp > 0 || lane >= C || p >= a.rows) return;
  T total = 0;
  for (int w = 0; w < warps; ++w) total += sums[w][lane];
  T dots[1] = {};
  task.template finish<false>(a.row(p), sum_of_entries(a, p, total), dots);
}

// The number of slices at the beginning that have at least `wide` slots each.
__global__ void count_wide(const std::int64_t* slice_ptr, std::int64_t slices, unsigned long long* narrow) {
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s < slices && slice_ptr[s + 1] - slice_ptr[s] < wide)
    atomicMin(narrow, static_cast<unsigned long long>(s));
}

template <class T>
class SellSegments final : public SliceStorage<T> {
 public:
  explicit SellSegments(const BuildRequest<T>& request) : SliceStorage<T>(checked(request)) {
    if (this->slices() == 0) return;
    const device::Scratch<unsigned long long> narrow(*request.context, 1);
    const cudaStream_t queue = device::stream(*request.context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(narrow.data(), 0xff, narrow.bytes(), queue));
    count_wide<<<blocks_of(this->slices()), device::block_size, 0, queue>>>(this->slice_ptr().data(),
                                                                            this->slices(), narrow.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    wide_ = static_cast<std::int64_t>(std::min<unsigned long long>(
        read_back(*request.context, narrow.data()), static_cast<unsigned long long>(this->slices())));
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    const auto task = product_task<T>(*this->context(), 1, alpha, x.data, beta, y.data, nullptr);
    const SliceView<T> a = this->row_view();
    const std::int64_t slices = this->slices();
    if (wide_ > 0) device::launch(state, block_slices<T>, wide_, device::block_size, a, task);
    if (slices > wide_)
      device::launch(state, warp_slices<T>, blocks_of((slices - wide_) * 32), device::block_size, a, wide_,
                     slices, task);
  }

 private:
  static const BuildRequest<T>& checked(const BuildRequest<T>& request) {
    if (const std::int64_t C = plan_of<SlicePlanOnDevice>(request.admission).rule.C; C > 32)
      throw FormatRefused("sell-c-sigma",
                          "slices of " + std::to_string(C) +
                              " rows; kernel segments takes 32 at most: set C to 32, or take kernel native");
    return request;
  }

  std::int64_t wide_ = 0;
};

}  // namespace

template <class T>
std::unique_ptr<AssembledMatrix<T>> make_sell_segments(const BuildRequest<T>& request) {
  return std::make_unique<SellSegments<T>>(request);
}
template std::unique_ptr<AssembledMatrix<double>> make_sell_segments<double>(const BuildRequest<double>&);
template std::unique_ptr<AssembledMatrix<float>> make_sell_segments<float>(const BuildRequest<float>&);

}  // namespace protean::formats
