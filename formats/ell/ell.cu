// ELLPACK on the device: the layout is that of ell.cpp, one thread for each row.
#include "formats/ell/ell.hpp"
#include "formats/ell/slots.cuh"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

template <class T>
class EllDevice final : public SlotDevice<T, ColumnPlace>, public HasArrayView<SlotView<T>> {
 public:
  explicit EllDevice(const BuildRequest<T>& request)
      : EllDevice(request, device_row_lengths(*request.context, request.csr.pattern),
                  column_length(request.csr.pattern, request.params)) {}

  std::size_t bytes() const noexcept override { return this->slot_bytes(); }
  SlotView<T> array_view() const noexcept override {
    SlotView<T> view = this->slot_view();
    view.stride = this->place_.ld, view.width = this->place_.longest;
    return view;
  }

 private:
  EllDevice(const BuildRequest<T>& request, DeviceRowLengths lengths, std::int64_t ld)
      : SlotDevice<T, ColumnPlace>(request, {ld, lengths.longest}, ld * lengths.longest, {}, lengths.empty) {}
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const DeviceRowLengths lengths = device_row_lengths(context, pattern);
  return admit_columns(pattern, lengths.longest, lengths.empty, params, value_bytes);
}

constexpr Kernel kernels[] = {device_kernel<EllDevice>("native"), PROTEAN_KOKKOS_DEVICE_KERNEL(ell)};

}  // namespace

namespace device_code {
extern const DeviceCode ell;
constinit const DeviceCode ell{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
