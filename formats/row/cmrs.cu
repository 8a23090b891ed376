// CMRS on the device, in the layout of cmrs.cpp. A warp computes a strip. Each lane adds its products to sums of
// its own, one for each row of the strip, in shared memory; then the sums of the lanes are added by shuffles. So there
// are no conflicts, no atomic operations and no barriers, and the order of the sums is fixed.
#include "formats/engines/view/expand.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"
#include "formats/row/cmrs.hpp"

namespace protean::formats {
namespace {

constexpr int strip_threads = 128, strip_warps = strip_threads / 32;

template <int height, class T>
__global__ void __launch_bounds__(strip_threads)
    cmrs_product(CmrsView<T> a, std::int64_t strips, T alpha, const T* __restrict__ x, T beta, T* y,
                 const int* stop) {
  if (device::stopped(stop)) return;
  __shared__ T sums[strip_warps][height][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t strip = std::int64_t{blockIdx.x} * strip_warps + warp;
  if (strip >= strips) return;
#pragma unroll
  for (int r = 0; r < height; ++r) sums[warp][r][lane] = 0;
  const std::int64_t end = a.strip_ptr[strip + 1];
#pragma unroll 4
  for (std::int64_t k = a.strip_ptr[strip] + lane; k < end; k += 32) {
    const std::uint32_t entry = __ldcs(a.packed + k);
    sums[warp][a.row_in_strip(entry)][lane] += __ldcs(a.values + k) * __ldg(x + a.col(entry));
  }
  __syncwarp();
  T mine = 0;
#pragma unroll
  for (int r = 0; r < height; ++r) {
    const T sum = device::sum_lanes(sums[warp][r][lane]);
    if (lane == r) mine = sum;
  }
  const std::int64_t row = strip * height + lane;
  if (lane < height && row < a.rows) store(alpha, mine, beta, y + row);
}

template <class T>
auto cmrs_kernel(int height_bits) {
  switch (height_bits) {
    case 0:
      return cmrs_product<1, T>;
    case 1:
      return cmrs_product<2, T>;
    case 2:
      return cmrs_product<4, T>;
    case 3:
      return cmrs_product<8, T>;
    default:
      return cmrs_product<16, T>;
  }
}

template <class P>
__global__ void strip_pointers(std::int64_t rows, const P* row_ptr, int height_bits, std::int64_t strips,
                               std::int64_t* strip_ptr) {
  device::wait_for_stream();
  const std::int64_t s = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (s <= strips) strip_ptr[s] = row_ptr[min(s << height_bits, rows)];
}

template <class P>
__global__ void pack_entries(std::int64_t rows, std::int64_t nonzeros, const P* row_ptr,
                             const std::int32_t* col, int height_bits, std::uint32_t* packed) {
  device::wait_for_stream();
  const std::int64_t begin = std::int64_t{blockIdx.x} * blockDim.x * expand_entries;
  const std::int64_t end = min(nonzeros, begin + std::int64_t{blockDim.x} * expand_entries);
  const SliceRange range = slices_of_block(row_ptr, rows, begin, end);
  for (std::int64_t k = begin + threadIdx.x; k < end; k += blockDim.x)
    packed[k] = CmrsView<float>::pack(col[k], slice_of(row_ptr, range.first, range.last, k), height_bits);
}

template <class T>
class CmrsDevice final : public RowViewOnDevice<T, CmrsDevice<T>> {
 public:
  explicit CmrsDevice(const BuildRequest<T>& request)
      : RowViewOnDevice<T, CmrsDevice<T>>(request),
        height_bits_(cmrs_height_bits(request.csr.pattern, request.params)),
        strip_ptr_(request.context, cmrs_strips(request.csr.rows(), height_bits_) + 1),
        packed_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()) {
    const SparsityPattern& pattern = request.csr.pattern;
    const DeviceState& state = request.context->device_state();
    pattern.row_ptr.visit([&](auto* row_ptr) {
      using P = std::remove_const_t<std::remove_pointer_t<decltype(row_ptr)>>;
      device::launch(state, strip_pointers<P>, blocks_of(strip_ptr_.size()), device::block_size, pattern.rows,
                     row_ptr, height_bits_, strip_ptr_.size() - 1, strip_ptr_.data());
      if (pattern.nonzeros > 0)
        device::launch(state, pack_entries<P>,
                       blocks_of(pattern.nonzeros, device::block_size * expand_entries), device::block_size,
                       pattern.rows, pattern.nonzeros, row_ptr, pattern.col, height_bits_, packed_.data());
    });
    device::copy_within(*request.context, values_.data(), request.csr.values, values_.bytes());
  }

  std::size_t bytes() const noexcept override {
    return strip_ptr_.bytes() + packed_.bytes() + values_.bytes();
  }
  CmrsView<T> row_view() const {
    return {values_.data(), packed_.data(), strip_ptr_.data(), this->rows(), height_bits_};
  }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    device::copy_within(*this->context(), values_.data(), csr.values, values_.bytes());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const std::int64_t strips = strip_ptr_.size() - 1;
    if (strips == 0) return;
    const DeviceState& state = this->context()->device_state();
    device::launch(state, cmrs_kernel<T>(height_bits_), blocks_of(strips, strip_warps), strip_threads,
                   row_view(), strips, alpha, x.data, beta, y.data, state.stop);
  }

 private:
  int height_bits_;
  Buffer<std::int64_t> strip_ptr_;
  Buffer<std::uint32_t> packed_;
  Buffer<T> values_;
};

constexpr Kernel kernels[] = {device_kernel<CmrsDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::cmrs{kernels, admit_cmrs};

}  // namespace protean::formats
