// The system of a solve with several right-hand sides in the order that its operator has as the solve begins
// (HasOrder). If that order changes in the solve, products permute from then on. Private to solvers/.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "core/multi_blas1.hpp"
#include "solvers/driver/columns.hpp"
#include "solvers/ordered_solve.hpp"

namespace protean::detail {

template <class T>
class ColumnsInOrder {
 public:
  // Permutes B and X once, and X back in bring_back(), also when the solve throws. All arguments outlive this.
  ColumnsInOrder(const MultiSystem<T>& callers, const VectorBlock<const T>& null_space,
                 MultiWorkspace<T>& workspace)
      : callers_(callers), null_space_(null_space) {
    const Ability<HasOrder<T>> ordered = callers.A.abilities().order;
    const std::int64_t n = callers.B.rows, k = callers.B.columns;
    if (!ordered || ordered->order().size() == 0 || k == 0) return;
    const ContextPtr& context = callers.A.context();
    A_.emplace(callers.A, *ordered);
    const auto packed = [&](Vector<T>& memory, VectorLayout layout) {
      if (memory.size() < n * k) memory = {}, memory = Vector<T>(context, entries_of(n, k, sizeof(T)));
      return MultiVectorView<T>{memory.data(),   n, k, layout == VectorLayout::columns ? n : k, layout,
                                context->space()};
    };
    const MultiVectorView<T> b = packed(workspace.ordered_b, callers.B.layout);
    const MultiVectorView<T> x = packed(workspace.ordered_x, callers.X.layout);
    if (callers.M) {
      M_.emplace(*callers.M, A_->permutation());
      M_->refresh();
    }
    if (Vector<T>& memory = workspace.ordered_null_space; null_space.count > 0) {
      if (memory.size() != null_space.count * n) memory = Vector<T>(context, null_space.count * n);
      null_space_ = in_order(A_->permutation(), null_space, memory);
    }
    VectorView<const T> weights;
    A_->permutation().template multi_apply<T>(callers.B, b);
    A_->permutation().template multi_apply<T>(MultiVectorView<const T>(callers.X), x);
    if (Vector<T>& memory = workspace.ordered_weights; callers.weights.size > 0) {
      if (memory.size() != n) memory = Vector<T>(context, n);
      A_->permutation().template apply<T>(callers.weights, memory);
      weights = memory;
    }
    system_.emplace(MultiSystem<T>{*A_, b, x, M_ ? &*M_ : nullptr,
                                   M_ ? M_->inverse_diagonal() : VectorView<const T>{}, weights,
                                   callers.largest_inverse_weight});
  }
  ~ColumnsInOrder() {
    try {
      bring_back();
    } catch (...) {}  // the exception of the solve tells of it
  }
  ColumnsInOrder(const ColumnsInOrder&) = delete;
  ColumnsInOrder& operator=(const ColumnsInOrder&) = delete;

  // The caller's if the operator has no other order.
  const MultiSystem<T>& system() const noexcept { return system_ ? *system_ : callers_; }
  const VectorBlock<const T>& null_space() const noexcept { return null_space_; }
  // The preconditioner may have new values.
  void refresh_preconditioner() const {
    if (M_) M_->refresh();
  }

  // Copies X to the caller's.
  void show_solution() const {
    if (system_)
      A_->permutation().template multi_apply_inverse<T>(MultiVectorView<const T>(system_->X), callers_.X);
  }
  // X is the caller's from here on. No step follows.
  void bring_back() {
    if (!std::exchange(brought_back_, true)) show_solution();
  }

 private:
  const MultiSystem<T>& callers_;
  VectorBlock<const T> null_space_;
  std::optional<InOrder<T>> A_;
  std::optional<OrderedPreconditioner<T>> M_;
  std::optional<MultiSystem<T>> system_;
  bool brought_back_ = false;
};

}  // namespace protean::detail
