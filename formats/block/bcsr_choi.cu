// BCSR of Choi on the device: the arrays of bcsr_choi.cpp. Neighbouring lanes share a block row, one block each; there
// are as many of them as the mean block row has work for.
#include "formats/engines/blocks/blocks.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class BcsrChoi final : public BlocksInLanes<T> {
 public:
  explicit BcsrChoi(const BuildRequest<T>& request) : BlocksInLanes<T>(request) {
    this->lanes_ = choi_lanes(this->block_col_.size(), this->shape_.block_rows(this->rows()));
  }
};
constexpr Kernel kernels[] = {device_kernel<BcsrChoi>("native")};

}  // namespace

constinit const DeviceCode device_code::bcsr_choi{kernels, admit_blocks_on_device<bcsr_choi_spec>};

}  // namespace protean::formats
