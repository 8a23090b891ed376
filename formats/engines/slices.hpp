// The host side of slice_view.hpp. Private to formats/.
#pragma once
#include <memory>
#include <vector>

#include "formats/engines/row_view.hpp"
#include "formats/engines/slice_view.hpp"

namespace protean::formats {

// The product over positions [begin, end), which begins and ends at slices, or at multiples of 64 in one slice.
template <class T>
struct SliceProduct {
  SliceView<T> a;
  T alpha, beta;
  const T* x;
  T* y;
};
void slice_product(const SliceProduct<double>& product, std::int64_t begin, std::int64_t end);
void slice_product(const SliceProduct<float>& product, std::int64_t begin, std::int64_t end);

struct SlicePlanOnHost {
  SliceRule rule;
  SliceCounts counts;
  std::vector<std::int64_t> slice_ptr;
  std::vector<std::int32_t> perm;
};
SlicePlanOnHost plan_slices_on_host(const Context& context, const SparsityPattern& pattern,
                                    const SliceRule& rule);

// The matrix of every format of this engine. The formats differ in the rule that admit() made of their parameters.
template <class T>
class SliceMatrix final : public RowViewMatrix<T, SliceMatrix<T>> {
 public:
  explicit SliceMatrix(const BuildRequest<T>& request);
  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + slice_ptr_.bytes() + lengths_.bytes() + perm_.bytes() +
           without_.bytes() + diagonal_index_.bytes();
  }
  std::vector<LayoutArray> layout() const override;
  void diagonal(VectorView<T> d) const override;

  SliceView<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const;

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override;

 private:
  SliceRule rule_;
  std::int64_t slots_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> slice_ptr_;
  Buffer<std::int32_t> lengths_, perm_, without_, diagonal_index_;
  std::vector<std::int64_t> borders_;
};
extern template class SliceMatrix<double>;
extern template class SliceMatrix<float>;

// admit() on the host for the rule that a format makes of its parameters.
template <SliceRule (*rule_of)(const SparsityPattern&, const FormatParams&)>
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
