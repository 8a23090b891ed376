// BCSR on the device: the layout is that of bcsr.cpp. A group of 4 to 32 lanes works on a block row: each
// lane keeps its place in the block, so that the lanes read neighbouring values of as many whole blocks as
// fit the group, and their sums are added by shuffles in a fixed order.
#include "formats/block/bcsr.hpp"

#include "formats/private/device_rows.cuh"

namespace protean::formats {
namespace {

template <class T>
struct BlockArrays {
  std::int64_t rows, cols, block_rows;
  int R, C;
  const std::int64_t* block_ptr;
  const std::int32_t* block_col;
  const T* values;
  const std::uint8_t* entries;

  __host__ __device__ int area() const { return R * C; }
  __host__ __device__ int bit_bytes() const { return (R * C + 7) / 8; }
  template <class Found>
  __device__ void each(std::int64_t r, Found found) const {
    const std::int64_t i = r / R;
    const int first = static_cast<int>(r % R) * C;
    for (std::int64_t b = block_ptr[i]; b < block_ptr[i + 1]; ++b)
      for (int j = first; j < first + C; ++j)
        if (entries[b * bit_bytes() + j / 8] >> (j % 8) & 1)
          found(block_col[b] * C + j - first, values[b * area() + j]);
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

// The sum of row `lane` of block row i, in lane `lane` < R of the group; 0 in a group past the last block
// row. A block of more values than lanes is taken in parts of whole rows.
template <int lanes, class T>
__device__ inline T block_row_sum(const BlockArrays<T>& a, std::int64_t i, const T* x) {
  const int lane = threadIdx.x % lanes, area = a.area();
  const int part = area < lanes ? area : lanes;  // values of a block taken at once: whole rows
  const int blocks = lanes / part, rows = part / a.C;
  const int mine = lane / part, place = lane % part, column = place % a.C;
  std::int64_t begin = 0;
  int count = 0;
  if (i < a.block_rows) {
    begin = __ldg(a.block_ptr + i);
    count = static_cast<int>(__ldg(a.block_ptr + i + 1) - begin);
  }
  // All groups of a warp go round as often as the longest, for the shuffles.
  const int most = __reduce_max_sync(0xffffffffu, count);
  T total = 0;
  for (int top = 0; top * a.C < area; top += rows) {
    T sum = 0;
    const T* v = a.values + begin * area + top * a.C + place;
    const T* from = x + column;
    const auto limit = static_cast<std::int32_t>(a.cols - column);
    for (int b0 = 0; b0 < most; b0 += lanes) {
      // A column index a lane, handed on by shuffles, so that no load of x waits for one of its own.
      const std::int32_t columns = b0 + lane < count ? __ldcs(a.block_col + begin + b0 + lane) * a.C : 0;
      const int here = min(lanes, most - b0);
#pragma unroll 4
      for (int b = 0; b < here; b += blocks) {
        const int at = b + mine;
        const std::int32_t col = __shfl_sync(0xffffffffu, columns, at & (lanes - 1), lanes);
        if (mine < blocks && at < lanes && b0 + at < count && col < limit)
          sum += __ldcs(v + std::int64_t{b0 + at} * area) * __ldg(from + col);
      }
    }
    T whole = 0;
    for (int b = 0; b < blocks; ++b)
      for (int c = 0; c < a.C; ++c) {
        const int from = b * part + (lane - top) * a.C + c;
        whole += __shfl_sync(0xffffffffu, sum, from & (lanes - 1), lanes);
      }
    if (lane >= top && lane < top + rows) total = whole;
  }
  return total;
}

template <int lanes, bool dot, class T>
__global__ void __launch_bounds__(device::block_size)
    block_product(BlockArrays<T> a, T alpha, const T* x, T beta, T* y, double* partials, unsigned* arrived,
                  T* result, const int* stop) {
  if (device::stopped(stop)) return;
  constexpr int groups = device::block_size / lanes;
  T dots[1] = {};
  for (std::int64_t first = std::int64_t{blockIdx.x} * groups; first < a.block_rows;
       first += std::int64_t{gridDim.x} * groups) {
    const std::int64_t i = first + threadIdx.x / lanes;
    const T sum = block_row_sum<lanes>(a, i, x);
    const int lane = threadIdx.x % lanes;
    const std::int64_t row = i * a.R + lane;
    if (lane < a.R && row < a.rows) {
      if (dot) {
        y[row] = sum;
        dots[0] += x[row] * sum;
      } else {
        store(alpha, sum, beta, y + row);
      }
    }
  }
  if (dot) device::finish_reduction<1>(dots, partials, arrived, result);
}

// Calls block(number) for every block of a block row, in ascending order: a merge of its rows. A thread a
// block row.
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

static __global__ void sample_blocks(DevicePattern a, int R, int C, std::int64_t groups, std::int64_t taken,
                                     unsigned long long* total) {
  const int most = static_cast<int>(group_rows) / R;
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, g = t / most;
  if (g >= taken) return;
  const std::int64_t first = g * groups / taken * group_rows, i = first / R + t % most;
  if (i * R >= a.rows) return;
  unsigned long long count = 0;
  merge_block_row(a, R, C, i, [&](std::int32_t) { ++count; });
  atomicAdd(total, count);
}

static __global__ void write_block_columns(DevicePattern a, int R, int C, std::int64_t block_rows,
                                           const std::int64_t* block_ptr, std::int32_t* block_col) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= block_rows) return;
  std::int32_t* to = block_col + block_ptr[i];
  merge_block_row(a, R, C, i, [&](std::int32_t number) { *to++ = number; });
}

// Values and bits: a warp a block row, a lane a place in a block, which looks for its entry by bisection.
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
        values[b * area + place] = has ? from[row_begin] : T(0);
      }
      const unsigned all = __ballot_sync(0xffffffffu, has) >> (mine * part & 31);
      // The first lanes of each block write its bytes; a part begins at a whole byte.
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
  diagonal[r] =
      low < last && a.block_col[low] == wanted ? a.values[low * a.area() + r % a.R * a.C + r % a.C] : T(0);
}

struct Planner {
  Planner(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
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
    for (std::int64_t s = 0; s < count; ++s)
      sample_blocks<<<blocks_of(taken * (group_rows / shapes[s].R), 64), 64, 0, queue>>>(
          device_pattern(pattern), static_cast<int>(shapes[s].R), static_cast<int>(shapes[s].C), groups,
          taken, totals.data() + s);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    std::vector<std::int64_t> sampled(shapes.size());
    device::copy_out(context, sampled.data(), totals.data(), totals.bytes());
    return fewest_bytes(shapes, sampled, pattern.rows, value_bytes);
  }
};

template <class T>
class BcsrDevice final : public AssembledMatrix<T>, public HasApplyDot<T> {
 public:
  explicit BcsrDevice(const BuildRequest<T>& request) : AssembledMatrix<T>(request) {
    const auto& plan = *static_cast<const Planner*>(request.admission.plan.get());
    const ContextPtr& context = request.context;
    R_ = static_cast<int>(plan.shape.R), C_ = static_cast<int>(plan.shape.C);
    // Enough lanes for a block and at most what a block row has work for.
    const std::int64_t mean = plan.blocks * R_ * C_ / std::max<std::int64_t>(1, plan.block_rows);
    while (lanes_ < 32 && (lanes_ < R_ * C_ || lanes_ < mean)) lanes_ *= 2;
    block_ptr_ = Buffer<std::int64_t>(context, plan.block_ptr.size());
    device::copy_within(*context, block_ptr_.data(), plan.block_ptr.data(), block_ptr_.bytes());
    block_col_ = Buffer<std::int32_t>(context, plan.blocks);
    values_ = Buffer<T>(context, plan.blocks * R_ * C_);
    entries_ = Buffer<std::uint8_t>(context, plan.blocks * arrays().bit_bytes());
    if (plan.blocks == 0) return;
    write_block_columns<<<blocks_of(plan.block_rows), device::block_size, 0, queue()>>>(
        device_pattern(request.csr.pattern), R_, C_, plan.block_rows, block_ptr_.data(), block_col_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return block_ptr_.bytes() + block_col_.bytes() + values_.bytes() + entries_.bytes();
  }

  CsrMatrix<T> to_csr() const override {
    return csr_from_positions<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), arrays());
  }

  void diagonal(VectorView<T> d) const override {
    if (d.size == 0) return;
    block_diagonal<<<blocks_of(d.size), device::block_size, 0, queue()>>>(arrays(), d.size, d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    launch<true>(T(1), x.data, T(0), y.data, result);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    if (block_col_.size() == 0) return;
    block_fill<<<blocks_of(arrays().block_rows * 32), device::block_size, 0, queue()>>>(
        arrays(), device_pattern(csr.pattern), csr.values, values_.data(), entries_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0) launch<false>(alpha, x.data, beta, y.data, nullptr);
  }

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }
  BlockArrays<T> arrays() const {
    return {this->rows(),      this->cols(),   block_ptr_.size() - 1, R_, C_, block_ptr_.data(),
            block_col_.data(), values_.data(), entries_.data()};
  }

  template <int lanes, bool dot>
  void launch_lanes(T alpha, const T* x, T beta, T* y, T* result) const {
    const DeviceState& state = this->context()->device_state();
    constexpr int groups = device::block_size / lanes;
    const std::int64_t pieces = (arrays().block_rows + groups - 1) / groups;
    const unsigned blocks = product_blocks(state, pieces, dot);
    block_product<lanes, dot><<<blocks, device::block_size, 0, state.stream>>>(
        arrays(), alpha, x, beta, y, state.partials, state.arrived, result, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const {
    if (lanes_ == 4)
      launch_lanes<4, dot>(alpha, x, beta, y, result);
    else if (lanes_ == 8)
      launch_lanes<8, dot>(alpha, x, beta, y, result);
    else if (lanes_ == 16)
      launch_lanes<16, dot>(alpha, x, beta, y, result);
    else
      launch_lanes<32, dot>(alpha, x, beta, y, result);
  }

  int R_ = 1, C_ = 1, lanes_ = 4;
  Buffer<std::int64_t> block_ptr_;
  Buffer<std::int32_t> block_col_;
  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const Planner>(context, pattern, params, value_bytes);
  Admission admission = admit_blocks(plan->shape, plan->blocks, pattern, params, value_bytes);
  admission.plan = std::move(plan);
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<BcsrDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode bcsr;
constinit const DeviceCode bcsr{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
