// DIA on the device: the layout of dia.cpp, one thread for each row.
#include "formats/engines/diagonals/diagonals.cuh"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/view/array_views.hpp"
#include "formats/entries.hpp"
#include "operators/narrow_values.hpp"

namespace protean::formats {
namespace {

DeviceDiagonals whole_diagonals(const ContextPtr& context, const SparsityPattern& pattern,
                                const DiagonalNumbers& plan) {
  DeviceDiagonals result{pattern.rows, Buffer<std::int64_t>(context, 2),
                         Buffer<std::int32_t>(context, plan.diagonals)};
  const std::int64_t ptr[2] = {0, plan.diagonals};
  device::copy_in(*context, result.ptr.data(), ptr, sizeof ptr);
  plan.list(*context, result.off.data());
  return result;
}

template <class T>
class DiaDevice final : public HackDevice<T>, public HasArrayView<DiaView<T>> {
 public:
  explicit DiaDevice(const BuildRequest<T>& request)
      : HackDevice<T>(request, whole_diagonals(request.context, request.csr.pattern,
                                               plan_of<DiagonalNumbers>(request.admission))) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + this->where_.ptr.bytes(); }
  DiaView<T> array_view() const noexcept override {
    const RowArrays<T> a = this->row_arrays();
    return {this->rows(), this->cols(), this->where_.off.size(), a.off, a.values};
  }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const DiagonalNumbers>(context, pattern);
  Admission admission =
      admit_diagonals(plan->diagonals, pattern.rows, dia_ptr_bytes, pattern, params, value_bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {with_params(device_kernel<DiaDevice>("native"), values_params),
                              PROTEAN_KOKKOS_DEVICE_KERNEL(dia)};

}  // namespace

constinit const DeviceCode device_code::dia{kernels, admit};

}  // namespace protean::formats
