// SELL-C-sigma on the device: the layout is that of sell_c_sigma.cpp, with C = 32 unless asked otherwise, so
// that a slice is a warp and every read of a slot is whole cache lines.
#include "formats/ell/row_order.cuh"
#include "formats/ell/sell_c_sigma.hpp"
#include "formats/ell/slots.cuh"

namespace protean::formats {
namespace {

constexpr std::int64_t usual_height = 32;

// sigma is what the parameter stands for, slots those that it gives; perm only where sigma > 1.
struct Shape {
  std::int64_t C, sigma, slots;
  int shift;
  DeviceRowLengths lengths;
};

// Fills slice_ptr and, when rows are sorted, perm; both have room for it.
Shape shape_of(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
               const device::Scratch<std::int64_t>& slice_ptr, const device::Scratch<std::int32_t>& perm) {
  Shape shape{slice_height(params, usual_height), params.integer("sigma"), 0, 0, {}};
  if (shape.sigma > 1 && shape.sigma % shape.C != 0) return shape;
  shape.shift = std::countr_zero(static_cast<std::uint64_t>(shape.C));
  shape.lengths = device_row_lengths(context, pattern);
  const std::int64_t* last = slice_ptr.data() + (pattern.rows + shape.C - 1) / shape.C;
  const auto count = [&](std::int64_t sigma) {
    if (sigma > 1) order_rows(context, pattern, sigma, shape.lengths.longest, perm.data());
    count_slice_slots(context, pattern, sigma > 1 ? perm.data() : nullptr, shape.shift, slice_ptr.data());
    return read_back(context, last);
  };
  const std::int64_t asked = shape.sigma;
  shape.sigma = std::max<std::int64_t>(1, asked);
  shape.slots = count(shape.sigma);
  if (asked != 0 || pays_unsorted(shape.slots, pattern.nonzeros)) return shape;
  const std::int64_t natural = shape.slots;
  shape.slots = count(sorted_window), shape.sigma = sorted_window;
  if (shape.slots >= natural) shape.slots = count(1), shape.sigma = 1;
  return shape;
}

struct Plan {
  Shape shape;
  Buffer<std::int64_t> slice_ptr;
  Buffer<std::int32_t> perm;
};

Plan plan(const ContextPtr& context, const SparsityPattern& pattern, const FormatParams& params) {
  const std::int64_t C = slice_height(params, usual_height), slices = (pattern.rows + C - 1) / C;
  const device::Scratch<std::int64_t> slice_ptr(*context, slices + 1);
  const device::Scratch<std::int32_t> perm(*context, params.integer("sigma") == 1 ? 0 : pattern.rows);
  Plan result{
      shape_of(*context, pattern, params, slice_ptr, perm), Buffer<std::int64_t>(context, slices + 1), {}};
  if (result.shape.sigma > 1) result.perm = Buffer<std::int32_t>(context, pattern.rows);
  device::copy_within(*context, result.slice_ptr.data(), slice_ptr.data(), slice_ptr.bytes());
  if (!result.perm.empty())
    device::copy_within(*context, result.perm.data(), perm.data(), result.perm.bytes());
  return result;
}

template <class T>
class SellDevice final : public SlotDevice<T, SlicePlace> {
 public:
  explicit SellDevice(const BuildRequest<T>& request)
      : SellDevice(request, plan(request.context, request.csr.pattern, request.params)) {}

  std::size_t bytes() const noexcept override { return this->slot_bytes() + slice_ptr_.bytes(); }

 private:
  SellDevice(const BuildRequest<T>& request, Plan plan)
      : SlotDevice<T, SlicePlace>(request,
                                  {plan.slice_ptr.data(), plan.slice_ptr.size() - 1, plan.shape.shift},
                                  plan.shape.slots, std::move(plan.perm), plan.shape.lengths.empty),
        slice_ptr_(std::move(plan.slice_ptr)) {}

  Buffer<std::int64_t> slice_ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const std::int64_t C = slice_height(params, usual_height), slices = (pattern.rows + C - 1) / C;
  const device::Scratch<std::int64_t> slice_ptr(context, slices + 1);
  const device::Scratch<std::int32_t> perm(context, params.integer("sigma") == 1 ? 0 : pattern.rows);
  const Shape shape = shape_of(context, pattern, params, slice_ptr, perm);
  return admit_slices({C, shape.sigma, shape.slots}, pattern, shape.lengths.empty, params, value_bytes);
}

constexpr Kernel kernels[] = {device_kernel<SellDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode sell_c_sigma;
constinit const DeviceCode sell_c_sigma{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
