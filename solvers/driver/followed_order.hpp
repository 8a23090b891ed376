// The system of a solve in the order of its operator (HasOrder), which the operator may change between two steps.
// Private to solvers/.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "core/multi_blas1.hpp"
#include "solvers/ordered_solve.hpp"
#include "solvers/steps.hpp"

namespace protean::detail {

template <class T>
class FollowedOrder final : private OrderFollower {
 public:
  // The caller's system, which it keeps up to date for `steps`, the pointer to the present ones. All of it outlives
  // this.
  FollowedOrder(const System<T>& callers, VectorBlock<const T> null_space, Workspace<T>& workspace,
                Steps<T>* const& steps)
      : callers_(callers),
        callers_null_space_(null_space),
        method_(*workspace.method),
        own_(workspace.in_an_order),
        steps_(steps) {
    if (has_order_)
      has_order_->follow(*this);
    else
      own_ = {};
  }
  ~FollowedOrder() override {
    if (has_order_) has_order_->unfollow(*this);
    try {
      bring_back();
    } catch (...) {}  // the exception of the solve tells of it
  }
  FollowedOrder(const FollowedOrder&) = delete;
  FollowedOrder& operator=(const FollowedOrder&) = delete;

  // In the order of the operator.
  const System<T>& system() const noexcept { return ordered_ ? *ordered_ : callers_; }
  const VectorBlock<const T>& null_space() const noexcept { return null_space_; }

  // Takes the order that the operator has.
  void begin() {
    if (!has_order_ || has_order_->order().size() == 0) return;
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
  void refresh_preconditioner() {
    if (order_.size() > 0 && own_.M) own_.M->refresh();
  }
  // Copies x to the caller's.
  void show_solution() const {
    if (order_.size() > 0) order_.template apply_inverse<T>(own_.x, callers_.x);
  }
  // x is the caller's from here on. No step follows.
  void bring_back() {
    if (order_.size() == 0) return;
    const Permutation order = std::exchange(order_, {});
    order.template apply_inverse<T>(own_.x, callers_.x);
  }

 private:
  const Context& context() const noexcept { return callers_.context(); }

  Permuted permuted() const override {
    const bool diagonal = callers_.M && callers_.M->inverse_diagonal().size > 0;
    const std::size_t vectors = method_.kept_vectors(steps_->runs_ahead()).size() + (diagonal ? 1 : 0);
    const int others = callers_.weights ? 4 : 3;  // b, x, and x at the end; the weights
    return {others + static_cast<int>(vectors) + static_cast<int>(callers_null_space_.count),
            callers_.M && !diagonal ? 2 : 0};
  }

  // Called by the operator while the observer runs, between two steps.
  void prepare_order(const Permutation& next) override {
    const ContextPtr& its_context = callers_.A.context();
    const std::int64_t n = callers_.x.size;
    const auto has_memory = [&](Vector<T>& v, std::int64_t size) {
      if (v.size() != size) v = Vector<T>(its_context, size);
    };
    ChangeOfOrder<T> change;
    change.to = next;
    if (next.size() > 0) {
      has_memory(own_.b, n), has_memory(own_.x, n),
          has_memory(own_.null_space, callers_null_space_.count * n);
      if (callers_.weights) has_memory(own_.weights, n);
      if (callers_.M) {
        // That of an earlier solve in this order, so that a recorded graph can be used again.
        const bool known = order_.size() == 0 && own_.M && own_.M->is_of(*callers_.M, next);
        change.M = known ? own_.M : std::make_shared<OrderedPreconditioner<T>>(*callers_.M, next);
        change.M->refresh();
      }
    }
    if (begun_) change.kept = method_.kept_vectors(steps_->runs_ahead());
    if (begun_ || order_.size() > 0) change.copy = Vector<T>(its_context, n);
    change_ = std::move(change);
  }

  // On a device all of it is queued after the steps that are in flight, which end in the order before.
  void adopt_order() noexcept override {
    const Permutation from = std::exchange(order_, change_.to);
    null_space_ = callers_null_space_;
    try {
      for (const VectorView<T> v : change_.kept) permute(from, v);
      if (!change_.kept.empty()) method_.order_changed();
      if (from.size() > 0 && order_.size() > 0)
        permute(from, own_.x);
      else if (order_.size() > 0)
        order_.template apply<T>(callers_.x, own_.x);
      else if (from.size() > 0)
        from.template apply_inverse<T>(own_.x, callers_.x);
      if (order_.size() > 0) {
        order_.template apply<T>(callers_.b, own_.b);
        if (callers_null_space_.count > 0)
          null_space_ = in_order(order_, callers_null_space_, own_.null_space);
        if (callers_.weights) {
          order_.template apply<T>(callers_.weights->entries, own_.weights);
          weights_ = {own_.weights, callers_.weights->weighted, callers_.weights->squared};
        }
      }
    } catch (...) { failed_change_ = std::current_exception(); }  // a broken device
    ordered_.reset();
    if (order_.size() > 0) {
      own_.M = std::move(change_.M);
      ordered_.emplace(System<T>{has_order_->in_order(), own_.b, own_.x, own_.M.get(),
                                 own_.M ? own_.M->inverse_diagonal() : VectorView<const T>{}, has_order_,
                                 nullptr, callers_.weights ? &weights_ : nullptr});
    }
    change_ = {};
    steps_->change_system(system());
  }

  // A vector of the order `from` in the present one. It stays where it is.
  void permute(const Permutation& from, VectorView<T> v) {
    if (from.size() > 0)
      from.template apply_inverse<T>(v, change_.copy);
    else
      copy<T>(context(), v, change_.copy);
    if (order_.size() > 0)
      order_.template apply<T>(change_.copy, v);
    else
      copy<T>(context(), change_.copy, v);
  }

  const System<T>& callers_;
  const VectorBlock<const T> callers_null_space_;
  Method<T>& method_;
  InAnOrder<T>& own_;
  Steps<T>* const& steps_;
  const HasOrder<T>* const has_order_ = callers_.A.abilities().order.get();
  VectorBlock<const T> null_space_ = callers_null_space_;
  ResidualWeights<T> weights_;
  std::optional<System<T>> ordered_;  // nothing: it is the caller's
  Permutation order_;                 // of the present vectors; of no rows: the caller's
  ChangeOfOrder<T> change_;           // that prepare_order() has got ready
  std::exception_ptr failed_change_;  // of adopt_order()
  bool begun_ = false;
};

}  // namespace protean::detail
