// BCSR of Verschoor and Jalba on the device: the arrays of bcsr_verschoor.cpp. A block of threads computes K
// neighbouring block rows of `border`. The threads of a block row take its blocks in turn; each lane adds one row of
// its blocks.
#include "formats/engines/blocks/blocks.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <int C, bool dot, class T>
__global__ void __launch_bounds__(device::block_size)
    border_product(BlockGrid<T> a, const std::int32_t* border, int lanes, int K, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  const int groups = device::block_size / lanes, lane = threadIdx.x & (lanes - 1);
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * K; first < a.block_rows;
       first += std::int64_t{gridDim.x} * K)
    for (int pass = 0; pass < K; pass += groups) {
      const int mine = pass + static_cast<int>(threadIdx.x) / lanes;
      const bool there = mine < K && first + mine < a.block_rows;
      const std::int64_t i = there ? border[first + mine] : 0;
      const T sum = block_row_sum<C>(a, i, there, lanes, task.x);
      const std::int64_t row = i * a.R + lane;
      if (there && lane < a.R && row < a.rows) task.template finish<dot>(row, sum, dots);
    }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

template <class T>
class BcsrVerschoor final : public BlocksOnDevice<T>, public HasApplyDot<T> {
 public:
  explicit BcsrVerschoor(const BuildRequest<T>& request)
      : BlocksOnDevice<T>(request), K_(static_cast<int>(request.params.integer("K"))) {
    const std::string& mapping = request.params.word("mapping");
    const std::int64_t R = this->shape_.R, slots = this->block_col_.size(),
                       block_rows = std::max<std::int64_t>(1, this->shape_.block_rows(this->rows()));
    lanes_ = 32;
    // About five rows of blocks for each lane, as in bcsr; at least one lane for each row of a block.
    if (mapping == "part")
      for (lanes_ = 4; lanes_ < 32 && (lanes_ < R || lanes_ * 5 < slots * R / block_rows);) lanes_ *= 2;
    if (mapping == "block")
      while (lanes_ / 2 >= R && lanes_ > 4 && lanes_ / 2 * K_ >= device::block_size) lanes_ /= 2;
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch<true>(T(1), x.data, T(0), y.data, result);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
  }

 private:
  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    const BlockGrid<T> a = this->row_view();
    const unsigned blocks = piece_blocks(state, (a.block_rows + K_ - 1) / K_, dot);
    const auto task = product_task(*this->context(), blocks, alpha, x, beta, y, result);
    with_size(a.C, [&](auto C) {
      device::launch(state, border_product<C(), dot, T>, blocks, device::block_size, a, this->perm_.data(),
                     lanes_, K_, task);
    });
  }

  int K_, lanes_;
};

constexpr ParamDoc params[] = {{.name = "K",
                                .doc = "number of block rows that a block of threads computes",
                                .default_value = "32",
                                .smallest = 1,
                                .largest = 4096},
                               {.name = "mapping",
                                .doc = "threads of a block row: a warp, part of it, or a share of the block",
                                .default_value = "part",
                                .choices = "warp|part|block"}};
constexpr Kernel kernels[] = {with_params(device_kernel<BcsrVerschoor>("native"), params)};

}  // namespace

constinit const DeviceCode device_code::bcsr_verschoor{kernels, admit_blocks_on_device<bcsr_verschoor_spec>};

}  // namespace protean::formats
