// DDD-SPLIT on the device, in the layout of ddd_split.cpp, one thread for each row, which goes through the segments of
// its block of rows.
#include <optional>

#include "formats/engines/diagonals/diagonals.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

// The diagonals of the blocks with their bits.
struct BlockBits {
  std::int64_t rows, block, blocks, diagonals, gap, bit_bytes;
  const std::int64_t* ptr;
  const std::int32_t* off;
  const std::uint8_t* bits;

  template <class F>
  __device__ void runs(std::int64_t d, F&& f) const {
    const std::int64_t top = hack_of(ptr, blocks, d) * block;
    for_runs(bits + d * bit_bytes, min(block, rows - top), gap,
             [&](std::int64_t first, std::int64_t end) { f(top + first, end - first); });
  }
};

// One thread for each diagonal of a block.
static __global__ void count_segments(BlockBits a, std::int64_t* counts) {
  const std::int64_t d = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (d >= a.diagonals) return;
  std::int64_t count = 0;
  a.runs(d, [&](std::int64_t, std::int64_t) { ++count; });
  counts[d] = count;
}
static __global__ void list_segments(BlockBits a, const std::int64_t* before, std::int32_t* off,
                                     std::int32_t* first_row, std::int64_t* lengths) {
  const std::int64_t d = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (d >= a.diagonals) return;
  std::int64_t s = before[d];
  a.runs(d, [&](std::int64_t first, std::int64_t length) {
    off[s] = a.off[d], first_row[s] = static_cast<std::int32_t>(first), lengths[s] = length, ++s;
  });
}
// Segments before each block: `before` has those before each diagonal, `ptr` the diagonals before each block.
static __global__ void block_pointers(const std::int64_t* before, const std::int64_t* ptr,
                                      std::int64_t blocks, std::int64_t* block_ptr) {
  const std::int64_t h = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (h <= blocks) block_ptr[h] = before[ptr[h]];
}

struct Cut {
  Cut(const Context& context, const SparsityPattern& pattern, std::int64_t block, std::int64_t gap)
      : hacks(context, pattern, block),
        before(context, hacks.diagonals + 1),
        block_ptr(context, hacks.hacks + 1) {
    const cudaStream_t queue = device::stream(context);
    const std::int64_t n = hacks.diagonals;
    const device::Scratch<std::int32_t> its_off(context, n);
    const device::Scratch<std::uint8_t> bits(context, n * ((block + 7) / 8));
    hacks.list(context, pattern, its_off.data());
    hack_bits(context, pattern, block, hacks.hacks, hacks.ptr.data(), its_off.data(), bits.data());
    const BlockBits all{pattern.rows,     block,          hacks.hacks, n, gap, (block + 7) / 8,
                        hacks.ptr.data(), its_off.data(), bits.data()};
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(before.data(), 0, before.bytes(), queue));
    if (n > 0) count_segments<<<blocks_of(n), device::block_size, 0, queue>>>(all, before.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, before.data(), n + 1);
    segments = read_back(context, before.data() + n);
    block_pointers<<<blocks_of(hacks.hacks + 1), device::block_size, 0, queue>>>(
        before.data(), hacks.ptr.data(), hacks.hacks, block_ptr.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    off.emplace(context, segments), first.emplace(context, segments), ptr.emplace(context, segments + 1);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(ptr->data(), 0, ptr->bytes(), queue));
    if (n > 0)
      list_segments<<<blocks_of(n), device::block_size, 0, queue>>>(all, before.data(), off->data(),
                                                                    first->data(), ptr->data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(context, ptr->data(), segments + 1);
    values = read_back(context, ptr->data() + segments);
  }
  const HackDiagonals hacks;
  const device::Scratch<std::int64_t> before, block_ptr;
  std::optional<device::Scratch<std::int32_t>> off, first;
  std::optional<device::Scratch<std::int64_t>> ptr;
  std::int64_t segments, values;
};

template <class T>
class DddSplitDevice final : public LinesOnDevice<T, DddSplitDevice<T>> {
 public:
  explicit DddSplitDevice(const BuildRequest<T>& request)
      : DddSplitDevice(request, plan_of<Cut>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return this->array_bytes() + block_ptr_.bytes() + off_.bytes() + first_.bytes() + ptr_.bytes();
  }
  SegmentView<T> row_view() const noexcept {
    SegmentView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = block_, view.hacks = block_ptr_.size() - 1;
    view.segments = off_.size(), view.hack_ptr = block_ptr_.data();
    view.off = off_.data(), view.first_row = first_.data(), view.ptr = ptr_.data();
    return view;
  }

 private:
  DddSplitDevice(const BuildRequest<T>& request, const Cut& plan)
      : LinesOnDevice<T, DddSplitDevice<T>>(request, plan.values,
                                            SegmentView<T>::bytes_of_bits(plan.values, plan.segments)),
        block_(plan.hacks.height),
        block_ptr_(copy_of(request.context, plan.block_ptr)),
        off_(copy_of(request.context, *plan.off)),
        first_(copy_of(request.context, *plan.first)),
        ptr_(copy_of(request.context, *plan.ptr)) {
    this->write(request.csr);
  }
  std::int64_t block_;
  Buffer<std::int64_t> block_ptr_;
  Buffer<std::int32_t> off_, first_;
  Buffer<std::int64_t> ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const Cut>(context, pattern, params.integer("block"), params.integer("gap"));
  Admission admission =
      admit_segments(plan->values, plan->segments, 8, plan->block_ptr.bytes(), pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<DddSplitDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::ddd_split{kernels, admit};

}  // namespace protean::formats
