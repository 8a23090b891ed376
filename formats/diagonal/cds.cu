// CDS on the device, in the layout of cds.cpp, one thread for each row. The rows of a block load the same x.
#include "formats/diagonal/cds.hpp"
#include "formats/engines/diagonals/diagonals.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

// Counts the diagonals of blocks of b rows and columns in the sample. Eight lanes for each row.
static __global__ void count_in_sample(DevicePattern a, RowSample sample, std::int64_t b, std::int64_t zero,
                                       int* marks, unsigned long long* count) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  if (i >= sample.count()) return;
  const std::int64_t r = sample.row(i), end = a.row_ptr[r + 1], from = r / b - zero;
  for (std::int64_t k = a.row_ptr[r] + threadIdx.x % 8; k < end; k += 8) {
    int* mark = marks + (a.col[k] / b - from);
    if (*mark == 0 && atomicExch(mark, 1) == 0) atomicAdd(count, 1ull);
  }
}

int chosen_block(const Context& context, const SparsityPattern& pattern) {
  const RowSample sample{pattern.rows};
  if (sample.count() == 0) return most_of_block;  // as on the host: no diagonals at all
  const cudaStream_t queue = device::stream(context);
  const device::Scratch<int> marks(context, pattern.rows + pattern.cols + 1);
  const device::Scratch<unsigned long long> counts(context, most_of_block + 1);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(counts.data(), 0, counts.bytes(), queue));
  for (int b = 1; b <= most_of_block; ++b) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(marks.data(), 0, marks.bytes(), queue));
    count_in_sample<<<blocks_of(sample.count() * 8), device::block_size, 0, queue>>>(
        device_pattern(pattern), sample, b, (pattern.rows + b - 1) / b, marks.data(), counts.data() + b);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::int64_t diagonals[most_of_block + 1];
  static_assert(sizeof diagonals == (most_of_block + 1) * sizeof(unsigned long long));
  device::copy_out(context, diagonals, counts.data(), sizeof diagonals);
  return best_block(diagonals);
}

struct BlockDiagonals {
  BlockDiagonals(const Context& context, const SparsityPattern& pattern, std::int64_t block)
      : b(block > 0 ? block : chosen_block(context, pattern)), numbers(context, pattern, b) {}
  const std::int64_t b;
  const DiagonalNumbers numbers;
};

template <class T>
class CdsDevice final : public LinesOnDevice<T, CdsDevice<T>> {
 public:
  explicit CdsDevice(const BuildRequest<T>& request)
      : CdsDevice(request, plan_of<BlockDiagonals>(request.admission)) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + off_.bytes(); }
  BlockLineView<T> row_view() const noexcept {
    BlockLineView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = this->rows(), view.hacks = 1;
    view.b = b_, view.bit_bytes = (this->rows() + 7) / 8, view.diagonals = off_.size(),
    view.off = off_.data();
    return view;
  }

 private:
  CdsDevice(const BuildRequest<T>& request, const BlockDiagonals& plan)
      : LinesOnDevice<T, CdsDevice<T>>(request, request.csr.rows() * plan.b * plan.numbers.diagonals,
                                       (request.csr.rows() + 7) / 8 * plan.b * plan.numbers.diagonals),
        b_(plan.b),
        off_(request.context, plan.numbers.diagonals) {
    plan.numbers.list(*request.context, off_.data());
    this->write(request.csr);
  }
  std::int64_t b_;
  Buffer<std::int32_t> off_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const BlockDiagonals>(context, pattern, params.integer("block"));
  Admission admission = admit_cds(plan->b, plan->numbers.diagonals, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<CdsDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::cds{kernels, admit};

}  // namespace protean::formats
