// BCSR on the device: the layout is that of bcsr.cpp. Kernels:
//   native    A group of 4 to 32 lanes computes a block row, one lane for each row of a block, with as many
//             blocks side by side as the group has lanes for. With 3 x 3 and 4 x 4 blocks a warp computes a
//             block row, one lane for each place of a block, so that neighbouring lanes read neighbouring
//             values. The sums of the lanes of a row are added by shuffles in a fixed order.
//   cusparse  cuSPARSE's block format, BSR_ALG1, on the same arrays and a copy of block_ptr with 32-bit
//             numbers: 4 (block rows + 1) bytes more. Its blocks are square and must fill the matrix. It is
//             refused when rows and cols of a block differ, when they do not divide those of the matrix, and
//             for 2^31 blocks or more.
#include "formats/block/bcsr.hpp"

#include <limits>
#include <optional>
#include <string>

#include "formats/cusparse_support.hpp"
#include "formats/private/array_views.hpp"
#include "formats/private/device_rows.cuh"
#include "formats/private/expand.cuh"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

template <class T>
struct BlockArrays {
  std::int64_t rows, cols, block_rows;
  int R, C;
  bool by_columns;  // the values of a block lie column by column, not row by row
  const std::int64_t* block_ptr;
  const std::int32_t* block_col;
  const T* values;
  const std::uint8_t* entries;

  __host__ __device__ int area() const { return R * C; }
  // Where value i of a block, counted row by row, lies in it.
  __device__ int place(int i) const { return by_columns ? i % C * R + i / C : i; }
  __host__ __device__ int bit_bytes() const { return (R * C + 7) / 8; }
  template <class Found>
  __device__ void each(std::int64_t r, Found found) const {
    const std::int64_t i = r / R;
    const int first = static_cast<int>(r % R) * C;
    for (std::int64_t b = block_ptr[i]; b < block_ptr[i + 1]; ++b)
      for (int j = first; j < first + C; ++j)
        if (entries[b * bit_bytes() + j / 8] >> (j % 8) & 1)
          found(block_col[b] * C + j - first, values[b * area() + place(j)]);
  }

  __host__ __device__ std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return p; }
  __device__ std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    each(p, [&](std::int32_t, T) { ++count; });
    return count;
  }
  __device__ void write(std::int64_t p, std::int32_t* col, T* to) const {
    each(p, [&](std::int32_t c, T value) { *col++ = c, *to++ = value; });
  }
};

// The sum of row `lane` of block row i, in lane `lane` < R of the group. `there` is false where i is not
// below block_rows. All lanes of the warp call it.
template <int C, class T>
__device__ inline T block_row_sum(const BlockArrays<T>& a, std::int64_t i, bool there, int lanes,
                                  const T* x) {
  const int lane = threadIdx.x & (lanes - 1), blocks = lanes / a.R;
  const int mine = lane / a.R, row = lane - mine * a.R;
  T sum = 0;
  if (there && mine < blocks) {
    const std::int64_t begin = __ldg(a.block_ptr + i);
    const int count = static_cast<int>(__ldg(a.block_ptr + i + 1) - begin);
    const std::int32_t* block_col = a.block_col + begin;
    const T* v = a.values + (begin * a.R + row) * C;
    const int area = a.R * C;
    prefetch_lines(v - row * C, v - row * C + std::int64_t{count} * area, lane, blocks * a.R);
#pragma unroll 2
    for (int b = mine; b < count; b += blocks) {
      const std::int64_t col = std::int64_t{__ldg(block_col + b)} * C;
      const T* from = x + col;
      const T* value = v + std::int64_t{b} * area;
      T block[C];
#pragma unroll
      for (int c = 0; c < C; ++c) block[c] = __ldg(value + c);
      if (col + C <= a.cols) {
#pragma unroll
        for (int c = 0; c < C; ++c) sum += block[c] * __ldg(from + c);
      } else {
#pragma unroll
        for (int c = 0; c < C; ++c)
          if (col + c < a.cols) sum += block[c] * __ldg(from + c);
      }
    }
  }
  // The second half of the blocks is added to the first until one block is left.
  for (int left = blocks; left > 1;) {
    const int half = (left + 1) / 2;
    const T other = __shfl_down_sync(0xffffffffu, sum, half * a.R, lanes);
    if (mine + half < left) sum += other;
    left = half;
  }
  return sum;
}

template <int C, bool dot, class T>
__global__ void __launch_bounds__(device::block_size, 6)
    block_product(BlockArrays<T> a, int lanes, ProductTask<T> task) {
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
__global__ void __launch_bounds__(device::block_size, 5)
    square_product(BlockArrays<T> a, ProductTask<T> task) {
  if (device::stopped(task.stop)) return;
  constexpr int area = S * S, blocks = 32 / area, used = blocks * area, ahead = 9,
                warps = device::block_size / 32;
  const int lane = threadIdx.x % 32, mine = lane / area, row_in = lane % area / S, column = lane % area % S;
  const T* const x = task.x + column;
  const auto limit = static_cast<std::int32_t>(a.cols - column);
  T dots[1] = {};
  for (std::int64_t i = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; i < a.block_rows;
       i += std::int64_t{gridDim.x} * warps) {
    const std::int64_t begin = __ldg(a.block_ptr + i);
    const int count = static_cast<int>(__ldg(a.block_ptr + i + 1) - begin);
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

// Merges the rows of a block row: calls block(number) for each of its blocks, in ascending order. One thread
// for each block row.
template <class Block>
__device__ inline void merge_block_row(const DevicePattern& a, int R, int C, std::int64_t block_row,
                                       Block block) {
  std::int64_t next[largest_block], end[largest_block];
#pragma unroll
  for (int i = 0; i < largest_block; ++i) {
    const std::int64_t r = block_row * R + i;
    next[i] = end[i] = 0;
    if (i < R && r < a.rows) next[i] = a.row_ptr[r], end[i] = a.row_ptr[r + 1];
  }
  for (;;) {
    std::int32_t lowest = 0x7fffffff;
#pragma unroll
    for (int i = 0; i < largest_block; ++i)
      if (next[i] < end[i]) lowest = min(lowest, a.col[next[i]]);
    if (lowest == 0x7fffffff) return;
    const std::int32_t number = lowest / C;
    const std::int64_t past = (std::int64_t{number} + 1) * C;
    block(number);
#pragma unroll
    for (int i = 0; i < largest_block; ++i)
      while (next[i] < end[i] && a.col[next[i]] < past) ++next[i];
  }
}

static __global__ void count_blocks(DevicePattern a, int R, int C, std::int64_t block_rows,
                                    std::int64_t* counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= block_rows) return;
  std::int64_t count = 0;
  merge_block_row(a, R, C, i, [&](std::int32_t) { ++count; });
  counts[i] = count;
}

// The shapes to compare, one for each row of the grid.
struct Shapes {
  int R[9], C[9];
};

static __global__ void sample_blocks(DevicePattern a, Shapes shapes, std::int64_t groups, std::int64_t taken,
                                     unsigned long long* totals) {
  const int R = shapes.R[blockIdx.y], C = shapes.C[blockIdx.y], most = static_cast<int>(group_rows) / R;
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, g = t / most;
  if (g >= taken) return;
  const std::int64_t first = g * groups / taken * group_rows, i = first / R + t % most;
  if (i * R >= a.rows) return;
  unsigned long long count = 0;
  merge_block_row(a, R, C, i, [&](std::int32_t) { ++count; });
  atomicAdd(totals + blockIdx.y, count);
}

static __global__ void write_block_columns(DevicePattern a, int R, int C, std::int64_t block_rows,
                                           const std::int64_t* block_ptr, std::int32_t* block_col) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= block_rows) return;
  std::int32_t* to = block_col + block_ptr[i];
  merge_block_row(a, R, C, i, [&](std::int32_t number) { *to++ = number; });
}

// Values and bits. One warp for each block row, one lane for each place in a block, which finds its entry by
// bisection.
template <class T>
__global__ void __launch_bounds__(device::block_size)
    block_fill(BlockArrays<T> a, DevicePattern pattern, const T* from, T* values, std::uint8_t* entries) {
  const int lane = threadIdx.x % 32, area = a.area(), part = area < 32 ? area : 32;
  const int blocks = 32 / part, mine = lane / part, bytes = a.bit_bytes();
  const std::int64_t i = std::int64_t{blockIdx.x} * (device::block_size / 32) + threadIdx.x / 32;
  if (i >= a.block_rows) return;
  const std::int64_t begin = a.block_ptr[i], end = a.block_ptr[i + 1];
  for (int top = 0; top < area; top += part) {
    const int place = top + lane % part;
    const std::int64_t row = i * a.R + place / a.C;
    std::int64_t row_begin = 0, row_end = 0;
    if (row < pattern.rows) row_begin = pattern.row_ptr[row], row_end = pattern.row_ptr[row + 1];
    for (std::int64_t b0 = begin; b0 < end; b0 += blocks) {
      const std::int64_t b = b0 + mine;
      const bool here = mine < blocks && b < end;
      bool has = false;
      if (here) {
        const std::int64_t col = std::int64_t{a.block_col[b]} * a.C + place % a.C;
        std::int64_t high = row_end;
        while (row_begin < high) {
          const std::int64_t middle = (row_begin + high) / 2;
          if (pattern.col[middle] < col)
            row_begin = middle + 1;
          else
            high = middle;
        }
        has = row_begin < row_end && pattern.col[row_begin] == col;
        values[b * area + a.place(place)] = has ? from[row_begin] : T(0);
      }
      const unsigned all = __ballot_sync(0xffffffffu, has) >> (mine * part & 31);
      // The first lanes of each block write its bytes. A part begins at a whole byte.
      const int byte = lane % part;
      if (here && byte < (part + 7) / 8 && top / 8 + byte < bytes) {
        const unsigned bits = part == 32 ? all : all & ((1u << part) - 1);
        entries[b * bytes + top / 8 + byte] = static_cast<std::uint8_t>(bits >> (8 * byte));
      }
    }
  }
}

template <class T>
__global__ void block_diagonal(BlockArrays<T> a, std::int64_t size, T* diagonal) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r >= size) return;
  const std::int64_t i = r / a.R, last = a.block_ptr[i + 1];
  const auto wanted = static_cast<std::int32_t>(r / a.C);
  std::int64_t low = a.block_ptr[i];
  for (std::int64_t high = last; low < high;) {
    const std::int64_t middle = (low + high) / 2;
    if (a.block_col[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  diagonal[r] = low < last && a.block_col[low] == wanted
                    ? a.values[low * a.area() + a.place(static_cast<int>(r % a.R * a.C + r % a.C))]
                    : T(0);
}

struct BlockPlan {
  BlockPlan(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
            std::size_t value_bytes)
      : shape(choose_shape(context, pattern, params, value_bytes)),
        block_rows((pattern.rows + shape.R - 1) / shape.R),
        block_ptr(context, block_rows + 1) {
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(block_ptr.data(), 0, block_ptr.bytes(), queue));
    if (block_rows > 0)
      count_blocks<<<blocks_of(block_rows), device::block_size, 0, queue>>>(
          device_pattern(pattern), static_cast<int>(shape.R), static_cast<int>(shape.C), block_rows,
          block_ptr.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, block_ptr.data(), block_ptr.size());
    blocks = read_back(context, block_ptr.data() + block_rows);
  }

  BlockShape shape;
  std::int64_t block_rows, blocks = 0;
  const device::Scratch<std::int64_t> block_ptr;

 private:
  static BlockShape choose_shape(const Context& context, const SparsityPattern& pattern,
                                 const FormatParams& params, std::size_t value_bytes) {
    const std::vector<BlockShape> shapes = allowed_shapes(params);
    if (shapes.size() == 1 || pattern.rows == 0) return shapes[0];
    const auto count = static_cast<std::int64_t>(shapes.size());
    const std::int64_t groups = (pattern.rows + group_rows - 1) / group_rows,
                       taken = std::min(groups, most_groups);
    const device::Scratch<unsigned long long> totals(context, count);
    const cudaStream_t queue = device::stream(context);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(totals.data(), 0, totals.bytes(), queue));
    Shapes tried{};
    for (std::size_t s = 0; s < shapes.size(); ++s)
      tried.R[s] = static_cast<int>(shapes[s].R), tried.C[s] = static_cast<int>(shapes[s].C);
    // Enough threads for the shape with the fewest rows.
    const std::int64_t threads = taken * group_rows / 2;
    sample_blocks<<<dim3(blocks_of(threads, 64), static_cast<unsigned>(count)), 64, 0, queue>>>(
        device_pattern(pattern), tried, groups, taken, totals.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    std::vector<std::int64_t> sampled(shapes.size());
    device::copy_out(context, sampled.data(), totals.data(), totals.bytes());
    return fewest_bytes(shapes, sampled, pattern.rows, value_bytes);
  }
};

// The arrays, and everything that does not depend on the kernel.
template <class T>
class BlockStorage : public AssembledMatrix<T> {
 public:
  explicit BlockStorage(const BuildRequest<T>& request, bool by_columns = false)
      : AssembledMatrix<T>(request), by_columns_(by_columns) {
    const auto& plan = plan_of<BlockPlan>(request.admission);
    const ContextPtr& context = request.context;
    R_ = static_cast<int>(plan.shape.R), C_ = static_cast<int>(plan.shape.C);
    block_ptr_ = copy_of(context, plan.block_ptr);
    block_col_ = Buffer<std::int32_t>(context, plan.blocks);
    values_ = Buffer<T>(context, plan.blocks * R_ * C_);
    entries_ = Buffer<std::uint8_t>(context, plan.blocks * arrays().bit_bytes());
    if (plan.blocks == 0) return;
    write_block_columns<<<blocks_of(plan.block_rows), device::block_size, 0, queue()>>>(
        device_pattern(request.csr.pattern), R_, C_, plan.block_rows, block_ptr_.data(), block_col_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    fill(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return block_ptr_.bytes() + block_col_.bytes() + values_.bytes() + entries_.bytes();
  }

  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    return csr_from_positions<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), arrays());
  }

  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    if (d.size == 0) return;
    block_diagonal<<<blocks_of(d.size), device::block_size, 0, queue()>>>(arrays(), d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { fill(csr); }

  BlockArrays<T> arrays() const {
    return {this->rows(),      this->cols(),   block_ptr_.size() - 1, R_, C_, by_columns_, block_ptr_.data(),
            block_col_.data(), values_.data(), entries_.data()};
  }

  int R_ = 1, C_ = 1;
  bool by_columns_;
  Buffer<std::int64_t> block_ptr_;
  Buffer<std::int32_t> block_col_;
  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }
  void fill(const CsrMatrix<T>& csr) {
    if (block_col_.size() == 0) return;
    block_fill<<<blocks_of(arrays().block_rows * 32), device::block_size, 0, queue()>>>(
        arrays(), device_pattern(csr.pattern), csr.values, values_.data(), entries_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
};

template <class T>
class BcsrDevice final : public BlockStorage<T>, public HasApplyDot<T>, public HasArrayView<BlockView<T>> {
 public:
  explicit BcsrDevice(const BuildRequest<T>& request) : BlockStorage<T>(request) {
    // At least one lane for each row of a block, and so many that a lane has about five blocks of the mean
    // row.
    const std::int64_t mean =
        this->block_col_.size() * this->R_ / std::max<std::int64_t>(1, this->block_ptr_.size() - 1);
    while (lanes_ < 32 && (lanes_ < this->R_ || lanes_ * 5 < mean)) lanes_ *= 2;
  }

  BlockView<T> array_view() const noexcept override {
    const BlockArrays<T> a = this->arrays();
    return {a.rows,      a.cols,      a.block_rows, this->block_col_.size(), a.R, a.C,
            a.block_ptr, a.block_col, a.values};
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
    const bool square = this->R_ == this->C_ && (this->C_ == 3 || this->C_ == 4);
    const int groups = device::block_size / (square ? 32 : lanes_);
    const unsigned blocks = piece_blocks(state, (this->arrays().block_rows + groups - 1) / groups, dot);
    const auto task = product_task(*this->context(), blocks, alpha, x, beta, y, result);
    if (square && this->C_ == 3)
      device::launch(state, square_product<3, dot, T>, blocks, device::block_size, this->arrays(), task);
    else if (square)
      device::launch(state, square_product<4, dot, T>, blocks, device::block_size, this->arrays(), task);
    else
      with_size(this->C_, [&](auto C) {
        device::launch(state, block_product<C(), dot, T>, blocks, device::block_size, this->arrays(), lanes_,
                       task);
      });
  }

  int lanes_ = 4;
};

// The same blocks through cuSPARSE. The dot product needs a second pass.
template <class T>
class BcsrCusparse final : public BlockStorage<T> {
 public:
  explicit BcsrCusparse(const BuildRequest<T>& request) : BlockStorage<T>(checked(request), true) {
    if (this->block_col_.size() == 0) return;
    narrow_ptr_ = narrowed(request.context, this->block_ptr_);
    cusparseSpMatDescr_t matrix = nullptr;
    device::check(
        cusparseCreateBsr(&matrix, this->rows() / this->R_, this->cols() / this->C_, this->block_col_.size(),
                          this->R_, this->C_, narrow_ptr_.data(), this->block_col_.data(),
                          this->values_.data(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_BASE_ZERO, cusparse_type<T>, CUSPARSE_ORDER_COL),
        "cusparseCreateBsr");
    product_.emplace(request.context, matrix, CUSPARSE_SPMV_BSR_ALG1, false);
  }

  std::size_t bytes() const noexcept override {
    return BlockStorage<T>::bytes() + narrow_ptr_.bytes() + (product_ ? product_->bytes() : 0);
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
    const auto& plan = plan_of<BlockPlan>(request.admission);
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
    if (plan.blocks > std::numeric_limits<std::int32_t>::max())
      refuse(std::to_string(plan.blocks) +
             " blocks; cuSPARSE counts them with 32 bits where columns have 32");
    return request;
  }

  Buffer<std::int32_t> narrow_ptr_;
  std::optional<CusparseProduct<T>> product_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const BlockPlan>(context, pattern, params, value_bytes);
  Admission admission = admit_blocks(plan->shape, plan->blocks, pattern, params, value_bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<BcsrDevice>("native"), device_kernel<BcsrCusparse>("cusparse"),
                              PROTEAN_KOKKOS_DEVICE_KERNEL(bcsr)};

}  // namespace

namespace device_code {
extern const DeviceCode bcsr;
constinit const DeviceCode bcsr{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
