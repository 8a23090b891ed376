// BCSR on the device, in the layout of bcsr.cpp. Kernels:
//   native    A group of 4 to 32 lanes computes a block row, one lane for each row of a block, with as many
//             blocks side by side as the group has lanes for. With 3 x 3 and 4 x 4 blocks a warp computes a
//             block row, one lane for each place of a block, so that neighbouring lanes read neighbouring
//             values. The sums of the lanes of a row are added by shuffles in a fixed order. With order = units a
//             warp computes a block row, a lane a block, in loads of four values.
//   thread    One thread computes a block row (bcsr-cnc).
//   row-block A block of 128 threads computes a block row, so that the part of x that it reads stays in the cache of
//             one processor (bcsr-xu).
//   cusparse  cuSPARSE's block format, BSR_ALG1, on the same arrays and a copy of block_ptr with 32-bit
//             numbers: 4 (block rows + 1) bytes more. Its blocks are square and must fill the matrix. It is refused
//             when rows and cols of a block differ, when they do not divide the rows and columns of the matrix, and for
//             2^31 blocks or more.
#include "formats/engines/blocks/blocks.cuh"

#include <limits>
#include <optional>
#include <string>

#include "formats/cusparse_support.hpp"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/view/array_views.hpp"
#include "formats/engines/view/expand.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <int C, bool dot, class T>
__global__ void __launch_bounds__(device::block_size, 6)
    block_product(BlockGrid<T> a, int lanes, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  const int groups = device::block_size / lanes, lane = threadIdx.x & (lanes - 1);
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * groups; first < a.block_rows;
       first += std::int64_t{gridDim.x} * groups) {
    const std::int64_t i = first + threadIdx.x / lanes;
    const T sum = block_row_sum<C>(a, i, i < a.block_rows, lanes, task.x);
    const std::int64_t row = i * a.R + lane;
    if (lane < a.R && row < a.rows) task.template finish<dot>(row, sum, dots);
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

// The sum of `count` values that lie `stride` lanes apart, in the first of these lanes, by halving; `mine` is
// a lane's number among them. All lanes of the warp call it.
template <int count, int stride, class T>
__device__ inline T sum_apart(T value, int mine) {
#pragma unroll
  for (int left = count; left > 1; left = (left + 1) / 2) {
    const int half = (left + 1) / 2;
    const T other = __shfl_down_sync(0xffffffffu, value, half * stride);
    if (mine + half < left) value += other;
  }
  return value;
}

// One warp for each block row, for square blocks of S x S. A lane always has the same place in a block. The
// lanes read the neighbouring values of as many whole blocks as they cover, several times in flight.
template <int S, bool dot, class T>
__global__ void __launch_bounds__(device::block_size, 5) square_product(BlockGrid<T> a, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  constexpr int area = S * S, blocks = 32 / area, used = blocks * area, ahead = 9,
                warps = device::block_size / 32;
  const int lane = threadIdx.x % 32, mine = lane / area, row_in = lane % area / S, column = lane % area % S;
  const T* const x = task.x + column;
  const auto limit = static_cast<std::int32_t>(a.cols - column);
  T dots[1] = {};
  for (std::int64_t i = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; i < a.block_rows;
       i += std::int64_t{gridDim.x} * warps) {
    const std::int64_t begin = __ldg(a.ptr + i);
    const int count = static_cast<int>(__ldg(a.ptr + i + 1) - begin);
    const std::int32_t* block_col = a.block_col + begin + mine;
    const T* v = a.values + begin * area + lane;
    T sum = 0;
    for (int left = lane < used ? count - mine : 0; left > 0; left -= ahead * blocks) {
      std::int32_t col[ahead];
      T value[ahead];
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        const bool there = j * blocks < left;
        col[j] = there ? __ldg(block_col + j * blocks) * S : limit;
        value[j] = there ? __ldcs(v + j * used) : T(0);
      }
#pragma unroll
      for (int j = 0; j < ahead; ++j)
        if (col[j] < limit) sum += value[j] * __ldg(x + col[j]);
      block_col += ahead * blocks, v += ahead * used;
    }
    sum = sum_apart<S, 1>(sum, column);
    sum = sum_apart<blocks, area>(sum, mine);
    const std::int64_t row = i * S + row_in;
    if (mine == 0 && column == 0 && row < a.rows) task.template finish<dot>(row, sum, dots);
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

template <class T>
class BcsrDevice final : public BlocksOnDevice<T>, public HasApplyDot<T>, public HasArrayView<BlockView<T>> {
 public:
  explicit BcsrDevice(const BuildRequest<T>& request) : BlocksOnDevice<T>(request) {
    // At least one lane for each row of a block, and enough lanes that each has about five blocks of the mean row.
    const std::int64_t R = this->shape_.R,
                       mean = this->block_col_.size() * R / std::max<std::int64_t>(1, this->ptr_.size() - 1);
    while (lanes_ < 32 && (lanes_ < R || lanes_ * 5 < mean)) lanes_ *= 2;
  }

  BlockView<T> array_view() const noexcept override {
    const BlockGrid<T> a = this->row_view();
    return {a.rows, a.cols, a.block_rows, a.slots, a.R, a.C, a.ptr, a.block_col, a.values};
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
    if (a.order != BlockOrder::blocks)  // a warp a block row
      return launch_lanes<dot>(*this->context(), a, 32, alpha, x, beta, y, result);
    const bool square = a.R == a.C && (a.C == 3 || a.C == 4);
    const int groups = device::block_size / (square ? 32 : lanes_);
    const unsigned blocks = piece_blocks(state, (a.block_rows + groups - 1) / groups, dot);
    const auto task = product_task(*this->context(), blocks, alpha, x, beta, y, result);
    if (square && a.C == 3)
      device::launch(state, square_product<3, dot, T>, blocks, device::block_size, a, task);
    else if (square)
      device::launch(state, square_product<4, dot, T>, blocks, device::block_size, a, task);
    else
      with_size(a.C, [&](auto C) {
        device::launch(state, block_product<C(), dot, T>, blocks, device::block_size, a, lanes_, task);
      });
  }

  int lanes_ = 4;
};

template <class T>
void refuse_units(const BuildRequest<T>& request, const char* kernel) {
  if (plan_of<BlockPlanOnDevice>(request.admission).rule.order != BlockOrder::blocks)
    throw FormatRefused("bcsr",
                        std::string("kernel ") + kernel +
                            " reads one block after another: set order to blocks, or take kernel native");
}

// One block of threads for each block row.
constexpr int row_block_threads = 128;
template <bool dot, class RowSize, class ColSize, class T>
__global__ void __launch_bounds__(row_block_threads)
    row_block_product(BlockGrid<T> a, RowSize R, ColSize C, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  T dots[1] = {};
  for (std::int64_t i = blockIdx.x; i < a.block_rows; i += gridDim.x) {
    T sum[RowSize::most] = {};
    const std::int64_t end = a.ptr[i + 1];
    for (std::int64_t b = a.ptr[i] + threadIdx.x; b < end; b += row_block_threads)
      add_block(a, R, C, C, a.values + b * (R * C), C, __ldg(a.block_col + b), task.x, sum);
    device::sum_block<RowSize::most>(sum);
#pragma unroll
    for (int r = 0; r < RowSize::most; ++r) {
      const std::int64_t row = i * R + r;
      if (r < R && static_cast<int>(threadIdx.x) == r && row < a.rows)
        task.template finish<dot>(row, sum[r], dots);
    }
  }
  if (dot) device::finish_reduction<1>(dots, task.partials, task.arrived, task.result);
}

template <class T>
using BcsrThreads = BlocksInLanes<T>;

template <class T>
class BcsrRowBlocks final : public BlocksOnDevice<T>, public HasApplyDot<T> {
 public:
  explicit BcsrRowBlocks(const BuildRequest<T>& request) : BlocksOnDevice<T>(request) {
    refuse_units(request, "row-block");
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
    const unsigned blocks = piece_blocks(state, a.block_rows, dot);
    const auto task = product_task(*this->context(), blocks, alpha, x, beta, y, result);
    with_usual_shape(a.R, a.C, [&](auto R, auto C) {
      device::launch(state, row_block_product<dot, decltype(R), decltype(C), T>, blocks, row_block_threads, a,
                     R, C, task);
    });
  }
};

// The same blocks through cuSPARSE. The dot product needs a second pass.
template <class T>
class BcsrCusparse final : public CusparseMatrix<T, BlocksOnDevice<T>> {
 public:
  explicit BcsrCusparse(const BuildRequest<T>& request)
      : CusparseMatrix<T, BlocksOnDevice<T>>(checked(request), true) {
    if (this->block_col_.size() == 0) return;
    narrow_ptr_ = narrowed(request.context, this->ptr_);
    cusparseSpMatDescr_t matrix = nullptr;
    device::check(
        cusparseCreateBsr(&matrix, this->rows() / this->shape_.R, this->cols() / this->shape_.C,
                          this->block_col_.size(), this->shape_.R, this->shape_.C, narrow_ptr_.data(),
                          this->block_col_.data(), this->values_.data(), CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, cusparse_type<T>, CUSPARSE_ORDER_COL),
        "cusparseCreateBsr");
    product_.emplace(request.context, matrix, CUSPARSE_SPMV_BSR_ALG1, false);
  }

  std::size_t bytes() const noexcept override {
    return BlocksOnDevice<T>::bytes() + narrow_ptr_.bytes() + (product_ ? product_->bytes() : 0);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (product_)
      product_->apply(alpha, x.data, beta, y.data);
    else
      scale(*this->context(), this->rows(), beta, y.data);
  }

 private:
  static const BuildRequest<T>& checked(const BuildRequest<T>& request) {
    refuse_units(request, "cusparse");
    const auto& plan = plan_of<BlockPlanOnDevice>(request.admission);
    const auto [R, C] = plan.shape;
    const auto refuse = [](const std::string& reason) {
      throw FormatRefused("bcsr", reason + "; take kernel native");
    };
    const std::string shape = std::to_string(R) + " x " + std::to_string(C) + " blocks";
    if (R == 1) refuse(shape + " are too small for cuSPARSE, which has 2 x 2 and larger ones");
    if (R != C) refuse(shape + " are not square, which cuSPARSE asks for: set rows and cols to one number");
    if (request.csr.rows() % R != 0 || request.csr.cols() % C != 0)
      refuse(shape + " stick out of a " + std::to_string(request.csr.rows()) + " x " +
             std::to_string(request.csr.cols()) + " matrix, which cuSPARSE does not allow");
    if (plan.slots > std::numeric_limits<std::int32_t>::max())
      refuse(std::to_string(plan.slots) + " blocks; cuSPARSE counts them with 32 bits where columns have 32");
    return request;
  }

  Buffer<std::int32_t> narrow_ptr_;
  std::optional<CusparseProduct<T>> product_;
};

constexpr Kernel kernels[] = {device_kernel<BcsrDevice>("native"), device_kernel<BcsrCusparse>("cusparse"),
                              device_kernel<BcsrThreads>("thread"), device_kernel<BcsrRowBlocks>("row-block"),
                              PROTEAN_KOKKOS_DEVICE_KERNEL(bcsr)};

}  // namespace

constinit const DeviceCode device_code::bcsr{kernels, admit_blocks_on_device<bcsr_spec>};

}  // namespace protean::formats
