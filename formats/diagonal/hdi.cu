// HDI on the device: the layout is that of hdi.cpp, one thread for each row. With hack = 32, a hack is a
// warp.
#include "formats/diagonal/diagonals.cuh"
#include "formats/diagonal/rules.hpp"

namespace protean::formats {
namespace {

// Merges the rows of a hack into its diagonals, in ascending order: one block for each hack, one thread for
// each row. counts[h] gets their number; they are stored in `list`, beginning at the number of entries before
// the hack.
static __global__ void merge_hack(DevicePattern a, std::int64_t height, std::int64_t* counts,
                                  std::int32_t* list) {
  constexpr std::int32_t none = 0x7fffffff;
  extern __shared__ RowWalk<char>::Room rooms[];
  __shared__ std::int32_t lowest_of[32];
  const std::int64_t h = blockIdx.x, r = h * height + threadIdx.x;
  const int warps = blockDim.x / 32;
  std::int64_t begin = 0, end = 0;
  if (threadIdx.x < height && r < a.rows) begin = a.row_ptr[r], end = a.row_ptr[r + 1];
  RowWalk<char> walk(rooms[threadIdx.x / 32], a.col, nullptr, begin, end);
  std::int32_t* to = list + a.row_ptr[h * height];
  std::int64_t count = 0;
  for (;; ++count) {
    const std::int32_t mine = walk.ended() ? none : static_cast<std::int32_t>(walk.col() - r);
    std::int32_t lowest = device::warp_min(mine);
    if (warps > 1) {
      __syncthreads();
      if (threadIdx.x % 32 == 0) lowest_of[threadIdx.x / 32] = lowest;
      __syncthreads();
      const int lane = threadIdx.x % 32;
      lowest = device::warp_min(lane < warps ? lowest_of[lane] : none);
    }
    if (lowest == none) break;
    if (threadIdx.x == 0) to[count] = lowest;
    walk.advance(mine == lowest);
  }
  if (threadIdx.x == 0) counts[h] = count;
}

// One warp for each hack.
static __global__ void gather_hacks(DevicePattern a, std::int64_t height, std::int64_t hacks,
                                    const std::int64_t* ptr, const std::int32_t* list, std::int32_t* off) {
  const std::int64_t h = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (h >= hacks) return;
  const std::int32_t* from = list + a.row_ptr[h * height];
  for (std::int64_t i = ptr[h] + threadIdx.x % 32; i < ptr[h + 1]; i += 32) off[i] = from[i - ptr[h]];
}

struct HackDiagonals {
  HackDiagonals(const Context& context, const SparsityPattern& pattern, const FormatParams& params)
      : height(params.integer("hack")),
        hacks((pattern.rows + height - 1) / height),
        ptr(context, hacks + 1),
        list(context, pattern.nonzeros) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(ptr.data(), 0, ptr.bytes(), device::stream(context)));
    if (hacks > 0) {
      const unsigned warps = blocks_of(height, 32);
      merge_hack<<<static_cast<unsigned>(hacks), warps * 32, warps * sizeof(RowWalk<char>::Room),
                   device::stream(context)>>>(device_pattern(pattern), height, ptr.data(), list.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    device::exclusive_scan(context, ptr.data(), hacks + 1);
    diagonals = read_back(context, ptr.data() + hacks);
  }
  std::int64_t height, hacks, diagonals = 0;
  const device::Scratch<std::int64_t> ptr;
  const device::Scratch<std::int32_t> list;
};

DeviceDiagonals hacked_diagonals(const ContextPtr& context, const SparsityPattern& pattern,
                                 const HackDiagonals& plan) {
  DeviceDiagonals result{plan.height, copy_of(context, plan.ptr),
                         Buffer<std::int32_t>(context, plan.diagonals)};
  if (plan.diagonals > 0)
    gather_hacks<<<blocks_of(plan.hacks * 32), device::block_size, 0, device::stream(*context)>>>(
        device_pattern(pattern), plan.height, plan.hacks, result.ptr.data(), plan.list.data(),
        result.off.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  return result;
}

template <class T>
class HdiDevice final : public DiagonalDevice<T> {
 public:
  explicit HdiDevice(const BuildRequest<T>& request)
      : DiagonalDevice<T>(request, hacked_diagonals(request.context, request.csr.pattern,
                                                    plan_of<HackDiagonals>(request.admission))) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + this->where_.ptr.bytes(); }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const HackDiagonals>(context, pattern, params);
  Admission admission =
      admit_diagonals(plan->diagonals, plan->height, 8 * static_cast<std::size_t>(plan->hacks + 1), pattern,
                      params, value_bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<HdiDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode hdi;
constinit const DeviceCode hdi{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
