// MGPU-CSR on the device, in the layout of mgpu_csr.cpp with 128 threads a tile. A block of threads computes a
// tile: it reads entries in order and passes the products through shared memory to the threads that add them. The codes
// say where rows end, and which earlier threads hold the beginning of a row. A row that goes on in the next tile leaves
// a carry; a second launch adds the carries (engines/runs/runs.cuh). If there are rows without entries, one more launch
// writes them. The order of the sums is fixed.
//
// Further array: carry [tiles], which each product overwrites.
#include "formats/entries.hpp"
#include "formats/row/mgpu_csr.cuh"

namespace protean::formats {
namespace {

template <class T>
class MgpuCsrDevice final : public CsrOnDevice<T> {
 public:
  explicit MgpuCsrDevice(const BuildRequest<T>& request)
      : CsrOnDevice<T>(request),
        tiles_(request.context, request.csr.pattern, code_shape(request.params, sizeof(T)),
               device_row_lengths(*request.context, request.csr.pattern).empty) {}
  std::size_t bytes() const noexcept override { return this->csr_.bytes() + tiles_.bytes(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    tiles_.multiply(this->context()->device_state(), this->csr_, alpha, x.data, beta, y.data);
  }

 private:
  CodedTiles<T> tiles_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const CodeShape shape = code_shape(params, value_bytes);
  if (shape.threads != code_threads)
    return Admission::refuse("threads = " + std::to_string(shape.threads) +
                             "; a tile has 128 threads on a GPU: set threads to 0 or 128");
  return Admission::accept(
      pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes +
          coded_tiles_bytes(pattern, shape, device_row_lengths(context, pattern).empty, value_bytes),
      pattern.nonzeros);
}

constexpr Kernel kernels[] = {device_kernel<MgpuCsrDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::mgpu_csr{kernels, admit};

}  // namespace protean::formats
