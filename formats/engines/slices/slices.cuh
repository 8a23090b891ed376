// The device side of slice_view.hpp. slice_plan.cu and slices.cu define what is declared here without a body. Private
// to formats/.
#pragma once
#include <memory>
#include <optional>

#include "core/bisect.hpp"
#include "formats/engines/slices/slice_view.hpp"
#include "formats/engines/view/array_views.hpp"
#include "formats/engines/view/row_view.cuh"
#include "operators/multi_product.hpp"
#include "operators/row_arrays.hpp"

namespace protean::formats {

// The place of the diagonal entry in row r, or -1.
__device__ inline std::int64_t diagonal_place(const DeviceRowPointers& row_ptr, const std::int32_t* col,
                                              std::int64_t r) {
  const std::int64_t begin = row_ptr[r], end = row_ptr[r + 1];
  const std::int64_t low = first_where<std::int64_t>(begin, end, [&](std::int64_t i) { return col[i] >= r; });
  return low < end && col[low] == r ? low - begin : -1;
}

// The row at position p.
__device__ inline std::int64_t row_at(const std::int32_t* perm, std::int64_t p) { return perm ? perm[p] : p; }

// slice_ptr[0 .. blocks] := slots before each slice of a rule with slices of equal height. perm may be null. The host
// waits once. absent: rows without entries, or without a diagonal entry if that is apart.
struct SliceFound {
  std::int64_t slots, absent, longest;
};
SliceFound count_slices(const Context& context, const SparsityPattern& pattern, const SliceRule& rule,
                        const std::int32_t* perm, std::int64_t* slice_ptr);

struct SlicePlanOnDevice {
  SlicePlanOnDevice(const Context& context, const SparsityPattern& pattern, const SliceRule& from);

  SliceRule rule;
  SliceCounts counts;
  std::optional<device::Scratch<std::int64_t>> slice_ptr;
  std::optional<device::Scratch<std::int32_t>> row_start, perm;

 private:
  void count(const Context& context, const SparsityPattern& pattern, std::int64_t window);
  void cut(const Context& context, const SparsityPattern& pattern);
  std::int64_t longest_ = 0;
};

template <RuleOf& rule_of>
Admission admit_slices_on_device(const Context& context, const SparsityPattern& pattern,
                                 const FormatParams& params, std::size_t value_bytes) {
  const SliceRule rule = rule_of(pattern, params);
  if (std::string reason = refusal_of(rule, pattern); !reason.empty())
    return Admission::refuse(std::move(reason));
  auto plan = std::make_shared<const SlicePlanOnDevice>(context, pattern, rule);
  Admission admission = admit_slots(plan->rule, plan->counts, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

// The column of padding, whose value is 0. It is the row's last column again, so that padding reads no x that the row
// does not use (in a row without entries 0, or its own column if the diagonal is apart); or -1, which cuSPARSE
// requires.
enum class Padding : unsigned char { last_column, minus_one };

// A matrix in slices, without a product: for the kernels of its formats.
template <class T>
class SliceStorage : public RowViewOnDevice<T, SliceStorage<T>> {
 public:
  explicit SliceStorage(const BuildRequest<T>& request, Padding padding = Padding::last_column);
  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + slice_ptr_.bytes() + row_start_.bytes() + lengths_.bytes() +
           perm_.bytes() + absent_.bytes() + diagonal_index_.bytes();
  }
  void diagonal(VectorView<T> d) const override;
  SliceView<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { fill(csr, nullptr); }
  const SliceRule& rule() const noexcept { return rule_; }
  const Buffer<std::int64_t>& slice_ptr() const noexcept { return slice_ptr_; }
  std::int64_t slots() const noexcept { return counts_.slots; }
  std::int64_t slices() const noexcept { return counts_.slices; }
  std::int32_t* col() noexcept { return col_.data(); }

 private:
  cudaStream_t queue() const { return device::stream(*this->context()); }
  void fill(const CsrMatrix<T>& csr, std::int32_t* to_col);
  void list_absent(const ContextPtr& context, const SparsityPattern& pattern);

  SliceRule rule_;
  SliceCounts counts_;
  Padding padding_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_;
  Buffer<std::int64_t> slice_ptr_;
  Buffer<std::int32_t> row_start_, lengths_, perm_, absent_, diagonal_index_;
};

// The same with the product of this library, for every rule.
template <class T>
class SliceDevice final : public SliceStorage<T>,
                          public HasApplyDot<T>,
                          public HasMultiProduct<T>,
                          public HasRowArrays<T>,
                          public HasArrayView<SlotView<T>> {
 public:
  explicit SliceDevice(const BuildRequest<T>& request);
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override;
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override;
  // Of rules without lengths, whose slices have 2^n rows or are one.
  RowArrays<T> row_arrays() const noexcept override;
  SlotView<T> array_view() const noexcept override;

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  template <bool dot>
  void launch(T alpha, const T* x, T beta, T* y, T* result) const;
  int split_;
};

extern template class SliceStorage<double>;
extern template class SliceStorage<float>;
extern template class SliceDevice<double>;
extern template class SliceDevice<float>;

// The sum of the row at position p from the sum of its slots: the padding of a row without entries reads x[0], which
// may be NaN or infinite.
template <class T>
__device__ inline T sum_of_entries(const SliceView<T>& a, std::int64_t p, T sum) {
  return sum != sum && a.absent_count > 0 && a.is_absent(p) ? T(0) : sum;
}

}  // namespace protean::formats
