// Jagged diagonals on the device: the layout is that of jad.cpp, one thread for each row.
#include "formats/ell/row_order.cuh"
#include "formats/ell/slots.cuh"

namespace protean::formats {
namespace {

// lengths[k] = number of rows with more than k entries. These rows come first.
static __global__ void jag_lengths(DevicePattern a, const std::int32_t* perm, std::int64_t jags,
                                   std::int64_t* lengths) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= jags) return;
  std::int64_t low = 0, high = a.rows;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (a.length(perm[middle]) > k)
      low = middle + 1;
    else
      high = middle;
  }
  lengths[k] = low;
}

struct Plan {
  Buffer<std::int64_t> jag_ptr;
  Buffer<std::int32_t> perm;
};

template <class T>
Plan plan(const BuildRequest<T>& request) {
  const SparsityPattern& pattern = request.csr.pattern;
  const Context& context = *request.context;
  const std::int64_t longest = device_row_lengths(context, pattern).longest;
  Plan made{Buffer<std::int64_t>(request.context, longest + 1),
            Buffer<std::int32_t>(request.context, pattern.rows)};
  order_rows(context, pattern, std::max<std::int64_t>(1, pattern.rows), longest, made.perm.data());
  const cudaStream_t queue = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(made.jag_ptr.data(), 0, made.jag_ptr.bytes(), queue));
  if (longest > 0)
    jag_lengths<<<blocks_of(longest), device::block_size, 0, queue>>>(
        device_pattern(pattern), made.perm.data(), longest, made.jag_ptr.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, made.jag_ptr.data(), longest + 1);
  return made;
}

template <class T>
class JadDevice final : public SlotDevice<T, JagPlace> {
 public:
  explicit JadDevice(const BuildRequest<T>& request) : JadDevice(request, plan(request)) {}

  std::size_t bytes() const noexcept override { return this->slot_bytes() + jag_ptr_.bytes(); }

 private:
  JadDevice(const BuildRequest<T>& request, Plan plan)
      : SlotDevice<T, JagPlace>(request, {plan.jag_ptr.data(), plan.jag_ptr.size() - 1, request.csr.rows()},
                                request.csr.nonzeros(), std::move(plan.perm), 0),
        jag_ptr_(std::move(plan.jag_ptr)) {}

  Buffer<std::int64_t> jag_ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(
      static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 4) +
          static_cast<std::size_t>(4 * pattern.rows + 8 * (device_row_lengths(context, pattern).longest + 1)),
      pattern.nonzeros);
}

constexpr Kernel kernels[] = {device_kernel<JadDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode jad;
constinit const DeviceCode jad{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
