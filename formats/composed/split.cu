// split on a GPU: engines/split/split_link.cu has the copies and the clocks. All other code is the code of the formats
// of the parts.
#include "formats/engines/split/split_link.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  return admit_split(split_on_device(), context, pattern, params, value_bytes);
}
template <class T>
std::unique_ptr<AssembledMatrix<T>> make(const BuildRequest<T>& request) {
  return make_split(split_on_device(), request);
}

constexpr Kernel kernels[] = {{.name = "native",
                               .device = true,
                               .make_f64 = make<double>,
                               .make_f32 = make<float>,
                               .deterministic = false}};

}  // namespace

constinit const DeviceCode device_code::split{kernels, admit};

}  // namespace protean::formats
