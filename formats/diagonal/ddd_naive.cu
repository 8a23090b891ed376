// DDD-NAIVE on the device, in the layout of ddd_naive.cpp, one thread for each row.
#include "formats/engines/diagonals/diagonals.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

static __global__ void diagonal_lengths(const std::int32_t* off, std::int64_t diagonals, std::int64_t rows,
                                        std::int64_t cols, std::int64_t* lengths) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i <= diagonals) lengths[i] = i < diagonals ? true_length(off[i], rows, cols) : 0;
}

struct TrueDiagonals {
  TrueDiagonals(const Context& context, const SparsityPattern& pattern)
      : numbers(context, pattern), off(context, numbers.diagonals), ptr(context, numbers.diagonals + 1) {
    numbers.list(context, off.data());
    diagonal_lengths<<<blocks_of(ptr.size()), device::block_size, 0, device::stream(context)>>>(
        off.data(), numbers.diagonals, pattern.rows, pattern.cols, ptr.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, ptr.data(), ptr.size());
    values = read_back(context, ptr.data() + numbers.diagonals);
  }
  const DiagonalNumbers numbers;
  const device::Scratch<std::int32_t> off;
  const device::Scratch<std::int64_t> ptr;
  std::int64_t values;
};

template <class T>
class DddNaiveDevice final : public LinesOnDevice<T, DddNaiveDevice<T>> {
 public:
  explicit DddNaiveDevice(const BuildRequest<T>& request)
      : DddNaiveDevice(request, plan_of<TrueDiagonals>(request.admission)) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + off_.bytes() + ptr_.bytes(); }
  SegmentView<T> row_view() const noexcept {
    SegmentView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = this->rows(), view.hacks = 1;
    view.segments = off_.size(), view.off = off_.data(), view.ptr = ptr_.data();
    return view;
  }

 private:
  DddNaiveDevice(const BuildRequest<T>& request, const TrueDiagonals& plan)
      : LinesOnDevice<T, DddNaiveDevice<T>>(request, plan.values,
                                            SegmentView<T>::bytes_of_bits(plan.values, plan.off.size())),
        off_(copy_of(request.context, plan.off)),
        ptr_(copy_of(request.context, plan.ptr)) {
    this->write(request.csr);
  }
  Buffer<std::int32_t> off_;
  Buffer<std::int64_t> ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const TrueDiagonals>(context, pattern);
  Admission admission =
      admit_segments(plan->values, plan->numbers.diagonals, 4, 0, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<DddNaiveDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::ddd_naive{kernels, admit};

}  // namespace protean::formats
