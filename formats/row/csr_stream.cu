// csr-stream on the device: the blocks of csr_stream.cpp. A warp for each 4096 rows finds them.
#include "formats/engines/rows/rows.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
using CsrStreamDevice = CsrBlocksOnDevice<T, false>;

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const std::int64_t most = params.integer("S");
  auto blocks = device_row_blocks(context, pattern, most);
  if (blocks->lengths.longest > most) return Admission::refuse(stream_refusal(blocks->lengths.longest, most));
  Admission admission = Admission::accept(
      csr_bytes(pattern, value_bytes) + static_cast<std::size_t>(blocks->blocks + 1) * 4, pattern.nonzeros);
  keep_plan(admission, std::move(blocks));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<CsrStreamDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::csr_stream{kernels, admit};

}  // namespace protean::formats
