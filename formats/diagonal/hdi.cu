// HDI on the device: the layout is that of hdi.cpp, a thread a row. With hack = 32, a hack is a warp.
#include "formats/diagonal/diagonals.cuh"
#include "formats/diagonal/rules.hpp"

namespace protean::formats {
namespace {

// A block a hack, a thread a row: all diagonals in ascending order, by merging the rows. Writes their number,
// or where `off` is given the diagonals themselves from off[ptr[h]] on.
static __global__ void merge_hack(DevicePattern a, std::int64_t height, std::int64_t* counts,
                                  const std::int64_t* ptr, std::int32_t* off) {
  constexpr std::int32_t none = 0x7fffffff;
  __shared__ std::int32_t lowest_of[32];
  const std::int64_t h = blockIdx.x, r = h * height + threadIdx.x;
  const int warps = blockDim.x / 32;
  std::int64_t at = 0, end = 0;
  if (threadIdx.x < height && r < a.rows) at = a.row_ptr[r], end = a.row_ptr[r + 1];
  std::int32_t mine = at < end ? static_cast<std::int32_t>(a.col[at] - r) : none;
  std::int64_t count = 0;
  for (;; ++count) {
    std::int32_t lowest = __reduce_min_sync(0xffffffffu, mine);
    if (warps > 1) {
      __syncthreads();
      if (threadIdx.x % 32 == 0) lowest_of[threadIdx.x / 32] = lowest;
      __syncthreads();
      const int lane = threadIdx.x % 32;
      lowest = __reduce_min_sync(0xffffffffu, lane < warps ? lowest_of[lane] : none);
    }
    if (lowest == none) break;
    if (off && threadIdx.x == 0) off[ptr[h] + count] = lowest;
    if (mine == lowest) {
      ++at;
      mine = at < end ? static_cast<std::int32_t>(a.col[at] - r) : none;
    }
  }
  if (!off && threadIdx.x == 0) counts[h] = count;
}

void merge_hacks(const Context& context, const SparsityPattern& pattern, std::int64_t height,
                 std::int64_t hacks, std::int64_t* counts, const std::int64_t* ptr, std::int32_t* off) {
  if (hacks == 0) return;
  merge_hack<<<static_cast<unsigned>(hacks), static_cast<unsigned>((height + 31) / 32 * 32), 0,
               device::stream(context)>>>(device_pattern(pattern), height, counts, ptr, off);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

struct Planner {
  Planner(const Context& context, const SparsityPattern& pattern, const FormatParams& params)
      : height(params.integer("hack")), hacks((pattern.rows + height - 1) / height), ptr(context, hacks + 1) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(ptr.data(), 0, ptr.bytes(), device::stream(context)));
    merge_hacks(context, pattern, height, hacks, ptr.data(), nullptr, nullptr);
    device::exclusive_scan(context, ptr.data(), hacks + 1);
    diagonals = read_back(context, ptr.data() + hacks);
  }
  std::int64_t height, hacks, diagonals = 0;
  const device::Scratch<std::int64_t> ptr;
};

DeviceDiagonals hacked_diagonals(const ContextPtr& context, const SparsityPattern& pattern,
                                 const Planner& plan) {
  DeviceDiagonals result{plan.height, Buffer<std::int64_t>(context, plan.hacks + 1),
                         Buffer<std::int32_t>(context, plan.diagonals)};
  device::copy_within(*context, result.ptr.data(), plan.ptr.data(), plan.ptr.bytes());
  if (plan.diagonals > 0)
    merge_hacks(*context, pattern, plan.height, plan.hacks, nullptr, result.ptr.data(), result.off.data());
  return result;
}

template <class T>
class HdiDevice final : public DiagonalDevice<T> {
 public:
  explicit HdiDevice(const BuildRequest<T>& request)
      : DiagonalDevice<T>(request,
                          hacked_diagonals(request.context, request.csr.pattern,
                                           *static_cast<const Planner*>(request.admission.plan.get()))) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + this->where_.ptr.bytes(); }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const Planner>(context, pattern, params);
  Admission admission =
      admit_diagonals(plan->diagonals, plan->height, 8 * static_cast<std::size_t>(plan->hacks + 1), pattern,
                      params, value_bytes);
  admission.plan = std::move(plan);
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<HdiDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode hdi;
constinit const DeviceCode hdi{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
