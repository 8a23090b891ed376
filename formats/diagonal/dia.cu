// DIA on the device: the layout is that of dia.cpp, one thread for each row.
#include "formats/diagonal/diagonals.cuh"
#include "formats/diagonal/rules.hpp"
#include "formats/private/array_views.hpp"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

// marks[column - row + rows] = 1 where there is an entry. Eight lanes for each row.
static __global__ void mark_diagonals(DevicePattern a, std::int32_t* marks) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 8;
  if (r >= a.rows) return;
  const std::int64_t end = a.row_ptr[r + 1];
  for (std::int64_t k = a.row_ptr[r] + threadIdx.x % 8; k < end; k += 8) {
    std::int32_t* mark = marks + (a.col[k] - r + a.rows);
    if (*mark == 0) *mark = 1;
  }
}

static __global__ void gather_offsets(const std::int32_t* before, std::int64_t rows, std::int64_t size,
                                      std::int32_t* off) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size && before[i + 1] > before[i]) off[before[i]] = static_cast<std::int32_t>(i - rows);
}

// before[i]: how many of the possible diagonals below number i have an entry.
struct DiagonalNumbers {
  DiagonalNumbers(const Context& context, const SparsityPattern& pattern)
      : before(context, pattern.rows + pattern.cols + 1) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(before.data(), 0, before.bytes(), device::stream(context)));
    if (pattern.rows > 0)
      mark_diagonals<<<blocks_of(pattern.rows * 8), device::block_size, 0, device::stream(context)>>>(
          device_pattern(pattern), before.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, before.data(), before.size());
    diagonals = read_back(context, before.data() + before.size() - 1);
  }
  const device::Scratch<std::int32_t> before;
  std::int64_t diagonals;
};

DeviceDiagonals whole_diagonals(const ContextPtr& context, const SparsityPattern& pattern,
                                const DiagonalNumbers& plan) {
  DeviceDiagonals result{pattern.rows, Buffer<std::int64_t>(context, 2),
                         Buffer<std::int32_t>(context, plan.diagonals)};
  const std::int64_t ptr[2] = {0, plan.diagonals}, size = plan.before.size() - 1;
  device::copy_in(*context, result.ptr.data(), ptr, sizeof ptr);
  if (plan.diagonals > 0)
    gather_offsets<<<blocks_of(size), device::block_size, 0, device::stream(*context)>>>(
        plan.before.data(), pattern.rows, size, result.off.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return result;
}

template <class T>
class DiaDevice final : public DiagonalDevice<T>, public HasArrayView<DiaView<T>> {
 public:
  explicit DiaDevice(const BuildRequest<T>& request)
      : DiagonalDevice<T>(request, whole_diagonals(request.context, request.csr.pattern,
                                                   plan_of<DiagonalNumbers>(request.admission))) {}

  std::size_t bytes() const noexcept override { return this->array_bytes(); }
  DiaView<T> array_view() const noexcept override {
    const RowArrays<T> a = this->row_arrays();
    return {this->rows(), this->cols(), this->where_.off.size(), a.off, a.values};
  }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const DiagonalNumbers>(context, pattern);
  Admission admission = admit_diagonals(plan->diagonals, pattern.rows, 0, pattern, params, value_bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<DiaDevice>("native"), PROTEAN_KOKKOS_DEVICE_KERNEL(dia)};

}  // namespace

namespace device_code {
extern const DeviceCode dia;
constinit const DeviceCode dia{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
