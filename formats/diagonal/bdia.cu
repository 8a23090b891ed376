// BDIA on the device, in the layout of bdia.cpp, one thread for each row. A warp keeps the part of x that a wide band
// needs in registers.
#include "formats/engines/diagonals/diagonals.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

// starts[i] = 1 if offset i begins a band.
static __global__ void mark_bands(const std::int32_t* off, std::int64_t diagonals, std::int64_t* starts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i <= diagonals) starts[i] = i < diagonals && (i == 0 || off[i] != off[i - 1] + 1);
}
static __global__ void gather_bands(const std::int32_t* off, std::int64_t diagonals,
                                    const std::int64_t* before, std::int32_t* band_off,
                                    std::int64_t* band_ptr) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i > diagonals) return;
  if (i == diagonals)
    band_ptr[before[i]] = diagonals;
  else if (before[i + 1] > before[i])
    band_off[before[i]] = off[i], band_ptr[before[i]] = i;
}

struct BandPlan {
  BandPlan(const Context& context, const SparsityPattern& pattern)
      : numbers(context, pattern), off(context, numbers.diagonals), before(context, numbers.diagonals + 1) {
    numbers.list(context, off.data());
    mark_bands<<<blocks_of(before.size()), device::block_size, 0, device::stream(context)>>>(
        off.data(), numbers.diagonals, before.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, before.data(), before.size());
    bands = read_back(context, before.data() + numbers.diagonals);
  }
  const DiagonalNumbers numbers;
  const device::Scratch<std::int32_t> off;
  const device::Scratch<std::int64_t> before;  // bands before each diagonal
  std::int64_t bands;
};

template <class T>
class BdiaDevice final : public BandsOnDevice<T, BdiaDevice<T>> {
 public:
  explicit BdiaDevice(const BuildRequest<T>& request)
      : BdiaDevice(request, plan_of<BandPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + off_.bytes() + ptr_.bytes(); }
  BandView<T> row_view() const noexcept {
    BandView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = this->rows(), view.hacks = 1, view.bit_bytes = (this->rows() + 7) / 8;
    view.band_off = off_.data(), view.band_ptr = ptr_.data(), view.bands = off_.size();
    return view;
  }

 private:
  BdiaDevice(const BuildRequest<T>& request, const BandPlan& plan)
      : BandsOnDevice<T, BdiaDevice<T>>(request, request.csr.rows() * plan.numbers.diagonals,
                                        (request.csr.rows() + 7) / 8 * plan.numbers.diagonals),
        off_(request.context, plan.bands),
        ptr_(request.context, plan.bands + 1) {
    gather_bands<<<blocks_of(plan.before.size()), device::block_size, 0, this->queue()>>>(
        plan.off.data(), plan.numbers.diagonals, plan.before.data(), off_.data(), ptr_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    this->write(request.csr);
  }
  Buffer<std::int32_t> off_;
  Buffer<std::int64_t> ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const BandPlan>(context, pattern);
  Admission admission = admit_bands(plan->numbers.diagonals, plan->bands, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<BdiaDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::bdia{kernels, admit};

}  // namespace protean::formats
