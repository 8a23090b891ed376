// SELL-C-sigma on the device: the layout is that of sell_c_sigma.cpp, with C = 32 unless a parameter gives
// another, so that a slice is a warp and every read of a slot is whole cache lines. Kernels:
//   native    One thread for each row, or 2, 4 or 8 in different warps.
//   segments  A warp or a block for each slice (sic.cu).
//   cusparse  cuSPARSE's sliced ELLPACK, SELL_ALG1. Padding has column -1 there, and a copy of slice_ptr has
//             32-bit numbers: 4 (slices + 1) bytes more. It cannot permute rows, so it is refused where rows
//             are sorted (sigma > 1, or 0 where sorting pays), and for a matrix of 2^31 slots or more.
#include <limits>
#include <optional>
#include <string>

#include "formats/cusparse_support.hpp"
#include "formats/ell/sell_c_sigma.cuh"
#include "formats/ell/slots.cuh"
#include "formats/private/expand.cuh"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

template <class T>
class SellDevice final : public SlotDevice<T, SlicePlace>, public HasArrayView<SlotView<T>> {
 public:
  explicit SellDevice(const BuildRequest<T>& request)
      : SellDevice(request, plan_of<SellPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override { return this->slot_bytes() + slice_ptr_.bytes(); }
  SlotView<T> array_view() const noexcept override {
    SlotView<T> view = this->slot_view();
    view.stride = std::int64_t{1} << this->place_.shift, view.slice_ptr = slice_ptr_.data();
    return view;
  }

 private:
  SellDevice(const BuildRequest<T>& request, const SellPlan& plan)
      : SellDevice(request, plan, copy_of(request.context, plan.slice_ptr)) {}
  SellDevice(const BuildRequest<T>& request, const SellPlan& plan, Buffer<std::int64_t> slice_ptr)
      : SlotDevice<T, SlicePlace>(
            request, {slice_ptr.data(), slice_ptr.size() - 1, plan.shift}, plan.slots,
            plan.sigma > 1 ? copy_of(request.context, plan.perm) : Buffer<std::int32_t>(),
            plan.lengths.empty),
        slice_ptr_(std::move(slice_ptr)) {}

  Buffer<std::int64_t> slice_ptr_;
};

// The same slots through cuSPARSE. The dot product needs a second pass.
template <class T>
class SellCusparse final : public SlotStorage<T, SlicePlace> {
 public:
  explicit SellCusparse(const BuildRequest<T>& request)
      : SellCusparse(request, checked(plan_of<SellPlan>(request.admission))) {}

  std::size_t bytes() const noexcept override {
    return this->slot_bytes() + slice_ptr_.bytes() + narrow_ptr_.bytes() + (product_ ? product_->bytes() : 0);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (product_)
      product_->apply(alpha, x.data, beta, y.data);
    else
      scale(*this->context(), this->rows(), beta, y.data);
  }

 private:
  static const SellPlan& checked(const SellPlan& plan) {
    if (plan.sigma > 1)
      throw FormatRefused("sell-c-sigma",
                          "sorted in windows of " + std::to_string(plan.sigma) +
                              " rows; cuSPARSE takes rows in their own order: set sigma to 1, or "
                              "take kernel native");
    if (plan.slots > std::numeric_limits<std::int32_t>::max())
      throw FormatRefused("sell-c-sigma",
                          std::to_string(plan.slots) +
                              " slots; cuSPARSE counts them with 32 bits where columns have 32: "
                              "take kernel native");
    return plan;
  }
  SellCusparse(const BuildRequest<T>& request, const SellPlan& plan)
      : SellCusparse(request, plan, copy_of(request.context, plan.slice_ptr)) {}
  SellCusparse(const BuildRequest<T>& request, const SellPlan& plan, Buffer<std::int64_t> slice_ptr)
      : SlotStorage<T, SlicePlace>(request, {slice_ptr.data(), slice_ptr.size() - 1, plan.shift}, plan.slots,
                                   {}, plan.lengths.empty, Padding::minus_one),
        slice_ptr_(std::move(slice_ptr)) {
    if (plan.slots == 0) return;
    narrow_ptr_ = narrowed(request.context, slice_ptr_);
    cusparseSpMatDescr_t matrix = nullptr;
    device::check(cusparseCreateSlicedEll(&matrix, this->rows(), this->cols(), this->nonzeros(), plan.slots,
                                          plan.C, narrow_ptr_.data(), this->col_.data(), this->values_.data(),
                                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                                          cusparse_type<T>),
                  "cusparseCreateSlicedEll");
    product_.emplace(request.context, matrix, CUSPARSE_SPMV_SELL_ALG1, false);
  }

  Buffer<std::int64_t> slice_ptr_;
  Buffer<std::int32_t> narrow_ptr_;
  std::optional<CusparseProduct<T>> product_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const SellPlan>(context, pattern, params);
  Admission admission =
      admit_slices({plan->C, plan->sigma, plan->slots}, pattern, plan->lengths.empty, params, value_bytes);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc threads_param[] = {
    {.name = "threads",
     .doc = "threads a row, in different warps; 0: 1, or more where rows are few",
     .default_value = "0",
     .choices = "0|1|2|4|8"}};

constexpr Kernel kernels[] = {with_params(device_kernel<SellDevice>("native"), threads_param),
                              device_kernel<SellCusparse>("cusparse"),
                              {"segments",
                               false,
                               true,
                               {},
                               make_sell_segments<double>,
                               make_sell_segments<float>,
                               "a warp or a block for each slice; C of 32 at most"},
                              PROTEAN_KOKKOS_DEVICE_KERNEL(sell_c_sigma)};

}  // namespace

namespace device_code {
extern const DeviceCode sell_c_sigma;
constinit const DeviceCode sell_c_sigma{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
