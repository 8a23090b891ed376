// SELL-C-sigma on the device: the layout of sell_c_sigma.cpp, with C = 32 unless a parameter gives another, so that a
// slice is a warp and every read of a slot is whole cache lines. Kernels:
//   native    One thread for each row, or 2, 4 or 8 in different warps.
//   segments  A warp or a block for each slice (sic.cu).
//   cusparse  cuSPARSE's sliced ELLPACK, SELL_ALG1. Padding has column -1 there, and a copy of slice_ptr has
//             32-bit numbers: 4 (slices + 1) bytes more. It cannot permute rows, so it is refused if rows are sorted
//             (sigma > 1, or 0 if sorting pays), and for a matrix of 2^31 slots or more.
#include <limits>
#include <optional>
#include <string>

#include "formats/cusparse_support.hpp"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/slices/slices.cuh"
#include "formats/engines/view/expand.cuh"
#include "formats/entries.hpp"

namespace protean::formats {

// Kernel `segments`, in sic.cu.
template <class T>
std::unique_ptr<AssembledMatrix<T>> make_sell_segments(const BuildRequest<T>& request);

namespace {

// The same slots through cuSPARSE. The dot product needs a second pass.
template <class T>
class SellCusparse final : public CusparseMatrix<T, SliceStorage<T>> {
 public:
  explicit SellCusparse(const BuildRequest<T>& request)
      : CusparseMatrix<T, SliceStorage<T>>(checked(request), Padding::minus_one) {
    if (this->slots() == 0) return;
    narrow_ptr_ = narrowed(request.context, this->slice_ptr());
    cusparseSpMatDescr_t matrix = nullptr;
    device::check(cusparseCreateSlicedEll(&matrix, this->rows(), this->cols(), this->nonzeros(),
                                          this->slots(), this->rule().C, narrow_ptr_.data(), this->col(),
                                          this->mutable_values(), CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                                          CUSPARSE_INDEX_BASE_ZERO, cusparse_type<T>),
                  "cusparseCreateSlicedEll");
    product_.emplace(request.context, matrix, CUSPARSE_SPMV_SELL_ALG1, false);
  }

  std::size_t bytes() const noexcept override {
    return SliceStorage<T>::bytes() + narrow_ptr_.bytes() + (product_ ? product_->bytes() : 0);
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
    const SlicePlanOnDevice& plan = plan_of<SlicePlanOnDevice>(request.admission);
    if (plan.rule.window > 0)
      throw FormatRefused("sell-c-sigma",
                          "sorted in windows of " + std::to_string(plan.rule.window) +
                              " rows; cuSPARSE takes rows in their own order: set sigma to 1, or "
                              "take kernel native");
    if (plan.counts.slots > std::numeric_limits<std::int32_t>::max())
      throw FormatRefused("sell-c-sigma",
                          std::to_string(plan.counts.slots) +
                              " slots; cuSPARSE counts them with 32 bits where columns have 32: "
                              "take kernel native");
    return request;
  }

  Buffer<std::int32_t> narrow_ptr_;
  std::optional<CusparseProduct<T>> product_;
};

constexpr ParamDoc threads_param[] = {
    {.name = "threads",
     .doc = "threads a row, in different warps; 0: 1, or more where rows are few",
     .default_value = "0",
     .choices = "0|1|2|4|8"}};

constexpr Kernel kernels[] = {with_params(device_kernel<SliceDevice>("native"), threads_param),
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

constinit const DeviceCode device_code::sell_c_sigma{kernels,
                                                     admit_slices_on_device<sell_c_sigma_rule_on_device>};

}  // namespace protean::formats
