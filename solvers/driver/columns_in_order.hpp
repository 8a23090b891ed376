// The system of a solve with several right-hand sides in the order of its operator (HasOrder), which the operator may
// change between two steps. What FollowedOrder is for one right-hand side. Private to solvers/.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/multi_blas1.hpp"
#include "solvers/driver/columns.hpp"
#include "solvers/ordered_solve.hpp"

namespace protean::detail {

template <class T>
class ColumnsInOrder final : private OrderFollower {
 public:
  // All arguments outlive this.
  ColumnsInOrder(const MultiSystem<T>& callers, const VectorBlock<const T>& null_space,
                 MultiWorkspace<T>& workspace)
      : callers_(callers), callers_null_space_(null_space), workspace_(workspace), null_space_(null_space) {
    system_.emplace(callers);
    if (has_order_) has_order_->follow(*this);
  }
  ~ColumnsInOrder() override {
    if (has_order_) has_order_->unfollow(*this);
    try {
      bring_back();
    } catch (...) {}  // the exception of the solve tells of it
  }
  ColumnsInOrder(const ColumnsInOrder&) = delete;
  ColumnsInOrder& operator=(const ColumnsInOrder&) = delete;

  // In the order of the operator. References stay valid when that changes.
  const MultiSystem<T>& system() const noexcept { return *system_; }
  const VectorBlock<const T>& null_space() const noexcept { return null_space_; }

  // Takes the order that the operator has.
  void begin() {
    if (!has_order_ || has_order_->order().size() == 0 || callers_.B.columns == 0) return;
    prepare_order(has_order_->order());
    adopt_order();
    require_change();
  }
  // From here on the method has vectors.
  void method_begins() noexcept { begun_ = true; }
  // Throws what a change between the last two steps has thrown.
  void require_change() {
    if (failed_change_) std::rethrow_exception(std::exchange(failed_change_, nullptr));
  }
  // The preconditioner may have new values.
  void refresh_preconditioner() const {
    if (M_) M_->refresh();
  }
  // Copies X to the caller's.
  void show_solution() const {
    if (order_.size() > 0)
      order_.template multi_apply_inverse<T>(MultiVectorView<const T>(system_->X), callers_.X);
  }
  // X is the caller's from here on. No step follows.
  void bring_back() {
    show_solution();
    order_ = {};
  }

 private:
  MultiMethod<T>& method() const noexcept { return *workspace_.method; }
  const ContextPtr& context() const noexcept { return callers_.A.context(); }
  static void has_memory(const ContextPtr& context, Vector<T>& v, std::int64_t size) {
    if (v.size() < size) v = {}, v = Vector<T>(context, size);
  }
  MultiVectorView<T> packed(Vector<T>& memory, VectorLayout layout) const noexcept {
    const std::int64_t n = callers_.B.rows, k = callers_.B.columns;
    const std::int64_t stride = layout == VectorLayout::columns ? n : k;
    return {memory.data(), n, k, stride, layout, memory.space()};
  }
  MultiVectorView<T> own_b() const noexcept { return packed(workspace_.ordered_b, callers_.B.layout); }
  MultiVectorView<T> own_x() const noexcept { return packed(workspace_.ordered_x, callers_.X.layout); }

  // Lanes are permuted at a change; B, X, and X at the end.
  Permuted permuted() const override {
    const auto lanes = static_cast<int>(method().width()), columns = static_cast<int>(callers_.B.columns);
    const bool diagonal = callers_.M && callers_.d.size > 0;
    const int others = 3 * columns + (callers_.weights.size > 0 ? 1 : 0) + (diagonal ? 1 : 0) +
                       static_cast<int>(callers_null_space_.count);
    return {others + lanes * static_cast<int>(method().kept_lanes().size()),
            callers_.M && !diagonal ? 2 * lanes : 0};
  }

  // Called by the operator while the observer runs, between two steps.
  void prepare_order(const Permutation& next) override {
    const std::int64_t n = callers_.B.rows, all = entries_of(n, callers_.B.columns, sizeof(T));
    Change change;
    change.to = next;
    if (next.size() > 0) {
      has_memory(context(), workspace_.ordered_b, all), has_memory(context(), workspace_.ordered_x, all);
      has_memory(context(), workspace_.ordered_null_space, callers_null_space_.count * n);
      if (callers_.weights.size > 0) has_memory(context(), workspace_.ordered_weights, n);
      if (callers_.M) {
        change.M = std::make_unique<OrderedPreconditioner<T>>(*callers_.M, next);
        change.M->refresh();
      }
    }
    if (begun_) {
      change.kept = method().kept_lanes();
      change.copy = MultiVector<T>(context(), n, method().width(), VectorLayout::interleaved);
    }
    change_ = std::move(change);
  }

  // On a device all of it is queued after the steps that are in flight, which end in the order before.
  void adopt_order() noexcept override {
    const Permutation from = std::exchange(order_, change_.to);
    null_space_ = callers_null_space_;
    VectorView<const T> weights = callers_.weights;
    try {
      for (const MultiVectorView<T>& lanes : change_.kept) permute(from, lanes);
      if (from.size() > 0)
        from.template multi_apply_inverse<T>(MultiVectorView<const T>(own_x()), callers_.X);
      if (order_.size() > 0) {
        order_.template multi_apply<T>(MultiVectorView<const T>(callers_.X), own_x());
        order_.template multi_apply<T>(callers_.B, own_b());
        if (callers_null_space_.count > 0)
          null_space_ = in_order(order_, callers_null_space_, workspace_.ordered_null_space);
        if (weights.size > 0) {
          const VectorView<T> own{workspace_.ordered_weights.data(), weights.size, weights.space};
          order_.template apply<T>(weights, own);
          weights = own;
        }
      }
    } catch (...) { failed_change_ = std::current_exception(); }  // a broken device
    std::unique_ptr<OrderedPreconditioner<T>> before = std::exchange(M_, std::move(change_.M));
    if (order_.size() > 0)
      system_.emplace(MultiSystem<T>{has_order_->in_order(), own_b(), own_x(), M_.get(),
                                     M_ ? M_->inverse_diagonal() : VectorView<const T>{}, weights,
                                     callers_.largest_inverse_weight});
    else
      system_.emplace(callers_);
    change_ = {};
  }

  // Lanes of the order `from` in the present one. They stay where they are.
  void permute(const Permutation& from, const MultiVectorView<T>& lanes) {
    const MultiVectorView<T> copy = change_.copy.view();
    std::vector<ColumnPair> all;
    for (std::int32_t lane = 0; lane < lanes.columns; ++lane) all.push_back({lane, lane});
    if (from.size() > 0)
      from.template multi_apply_inverse<T>(MultiVectorView<const T>(lanes), copy);
    else
      copy_columns<T>(*context(), MultiVectorView<const T>(lanes), copy, all);
    if (order_.size() > 0)
      order_.template multi_apply<T>(MultiVectorView<const T>(copy), lanes);
    else
      copy_columns<T>(*context(), MultiVectorView<const T>(copy), lanes, all);
  }

  // A change of the order, with its memory.
  struct Change {
    Permutation to;
    std::unique_ptr<OrderedPreconditioner<T>> M;
    std::vector<MultiVectorView<T>> kept;  // of the method
    MultiVector<T> copy;
  };

  const MultiSystem<T>& callers_;
  const VectorBlock<const T> callers_null_space_;
  MultiWorkspace<T>& workspace_;
  const HasOrder<T>* const has_order_ = callers_.A.abilities().order.get();
  VectorBlock<const T> null_space_;
  std::unique_ptr<OrderedPreconditioner<T>> M_;
  std::optional<MultiSystem<T>> system_;
  Permutation order_;                 // of the present vectors; of no rows: the caller's
  Change change_;                     // that prepare_order() has got ready
  std::exception_ptr failed_change_;  // of adopt_order()
  bool begun_ = false;
};

}  // namespace protean::detail
