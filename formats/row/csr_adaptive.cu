// csr-adaptive on the device: the blocks of csr_adaptive.cpp, and the rows that several blocks share. A warp for each
// 4096 rows finds them.
#include "formats/engines/rows/rows.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
using CsrAdaptiveDevice = CsrBlocksOnDevice<T, true>;

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto blocks = device_row_blocks(context, pattern, params.integer("S"));
  const LengthClasses& lengths = blocks->lengths;
  Admission admission = Admission::accept(
      csr_bytes(pattern, value_bytes) + static_cast<std::size_t>(blocks->blocks + 1 + lengths.cut_rows) * 4 +
          long_row_bytes(lengths.cut_rows, lengths.pieces, value_bytes),
      pattern.nonzeros);
  keep_plan(admission, std::move(blocks));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<CsrAdaptiveDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::csr_adaptive{kernels, admit};

}  // namespace protean::formats
