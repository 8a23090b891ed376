// The host side of slice_view.hpp. Private to formats/.
#pragma once
#include <memory>
#include <vector>

#include "formats/engines/slices/slice_view.hpp"
#include "formats/engines/slices/slot_product.hpp"
#include "formats/engines/view/array_views.hpp"
#include "formats/engines/view/row_view.hpp"
#include "operators/multi_product.hpp"

namespace protean::formats {

struct SlicePlanOnHost {
  SliceRule rule;
  SliceCounts counts;
  std::vector<std::int64_t> slice_ptr;
  std::vector<std::int32_t> row_start, perm;
};
SlicePlanOnHost plan_slices_on_host(const Context& context, const SparsityPattern& pattern,
                                    const SliceRule& rule);

// The matrix of every format of this engine. The formats differ in the rule that admit() made of their parameters.
template <class T>
class SliceMatrix final : public RowViewMatrix<T, SliceMatrix<T>>,
                          public HasApplyDot<T>,
                          public HasMultiProduct<T>,
                          public HasArrayView<SlotView<T>> {
 public:
  explicit SliceMatrix(const BuildRequest<T>& request);
  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + slice_ptr_.bytes() + row_start_.bytes() + lengths_.bytes() +
           perm_.bytes() + absent_.bytes() + diagonal_index_.bytes();
  }
  std::vector<LayoutArray> layout() const override;
  void diagonal(VectorView<T> d) const override;
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override;
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override;

  SliceView<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const;
  // For kernels of libraries: of rules without lengths whose slices have 2^n rows, or of one slice.
  SlotView<T> array_view() const noexcept override;

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override;
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  SlotProduct<T> product(T alpha, const T* x, T beta, T* y) const noexcept;
  template <bool columns>
  void write(const CsrMatrix<T>& csr);
  void divide();

  SliceRule rule_;
  SliceCounts counts_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> slice_ptr_;
  Buffer<std::int32_t> row_start_, lengths_, perm_, absent_, diagonal_index_;
  std::vector<std::int64_t> borders_;  // positions of each part
};
extern template class SliceMatrix<double>;
extern template class SliceMatrix<float>;

// admit() on the host for the rule that a format makes of its parameters.
template <RuleOf& rule_of>
Admission admit_slices_on_host(const Context& context, const SparsityPattern& pattern,
                               const FormatParams& params, std::size_t value_bytes) {
  const SliceRule rule = rule_of(pattern, params);
  if (std::string reason = refusal_of(rule, pattern); !reason.empty())
    return Admission::refuse(std::move(reason));
  SlicePlanOnHost plan = plan_slices_on_host(context, pattern, rule);
  Admission admission = admit_slots(plan.rule, plan.counts, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::make_shared<const SlicePlanOnHost>(std::move(plan)));
  return admission;
}

}  // namespace protean::formats
