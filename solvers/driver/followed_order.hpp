// The system of a solve in the order of its operator (HasOrder), which the operator may change between two steps: of
// one right-hand side, or of several. Private to solvers/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/multi_blas1.hpp"
#include "solvers/multi_method.hpp"
#include "solvers/ordered_solve.hpp"
#include "solvers/steps.hpp"

namespace protean::detail {

// One vector as several.
template <class T>
MultiVectorView<T> as_columns(const VectorView<T>& v) noexcept {
  return as_column(v);
}
template <class T>
const MultiVectorView<T>& as_columns(const MultiVectorView<T>& V) noexcept {
  return V;
}

// A list of one entry at most, which takes no memory of its own: repeated solves of one vector allocate nothing.
template <class V>
class OneOrNone {
 public:
  template <class... Arguments>
  V& emplace_back(Arguments&&... arguments) {
    return one_.emplace(std::forward<Arguments>(arguments)...);
  }
  void push_back(const V& one) { one_.emplace(one); }
  void reserve(std::size_t) noexcept {}
  void clear() noexcept { one_.reset(); }
  bool empty() const noexcept { return !one_; }
  std::size_t size() const noexcept { return one_ ? 1 : 0; }
  V& front() noexcept { return *one_; }
  V* begin() noexcept { return one_ ? &*one_ : nullptr; }
  V* end() noexcept { return begin() + size(); }
  const V* begin() const noexcept { return one_ ? &*one_ : nullptr; }
  const V* end() const noexcept { return begin() + size(); }

 private:
  std::optional<V> one_;
};

// What the driver and FollowedOrder ask of one right-hand side.
template <class T>
struct OneInOrder {
  using Number = T;
  using System = detail::System<T>;
  template <class V>
  using List = OneOrNone<V>;                                     // of the columns
  static constexpr VectorLayout layout = VectorLayout::columns;  // of kept()

  static std::string guess(const BadEntry&) { return "the initial guess"; }
  static VectorView<T> view(const MultiVectorView<T>& V) noexcept { return {V.data, V.rows, V.space}; }
  static System system(const SystemOf<T, VectorView>& s) noexcept { return {s}; }
  int lanes() const noexcept { return 1; }
  std::vector<MultiVectorView<T>> kept() const {
    std::vector<MultiVectorView<T>> kept;
    for (const VectorView<T>& v : method.kept_vectors(steps->runs_ahead())) kept.push_back(as_column(v));
    return kept;
  }
  void changed(const System& now, bool begun) noexcept {
    if (begun) method.order_changed();
    steps->change_system(now);
  }

  Method<T>& method;
  Steps<T>* const& steps;  // the pointer to the present ones
};

// And of several, whose method keeps lanes.
template <class T>
struct ColumnsInOrder {
  using Number = T;
  using System = MultiSystem<T>;
  template <class V>
  using List = std::vector<V>;
  static constexpr VectorLayout layout = VectorLayout::interleaved;

  static std::string guess(const BadEntry& bad) {
    return fmt::format("the initial guess of column {}", bad.column);
  }
  static const MultiVectorView<T>& view(const MultiVectorView<T>& V) noexcept { return V; }
  static const System& system(const System& s) noexcept { return s; }
  int lanes() const noexcept { return static_cast<int>(method.width()); }
  std::vector<MultiVectorView<T>> kept() const { return method.kept_lanes(); }
  void changed(const System&, bool) noexcept {}

  MultiMethod<T>& method;
};

template <class Form>
class FollowedOrder final : private OrderFollower {
 public:
  using T = typename Form::Number;
  using System = typename Form::System;
  using View = MultiVectorView<T>;

  // The caller's system, its null space, and what the solver keeps from one solve to the next. All of it outlives this.
  FollowedOrder(const System& callers, VectorBlock<const T> null_space, InAnOrder<T>& own, Form form)
      : callers_(callers), callers_null_space_(null_space), own_(own), form_(form) {
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
  const System& system() const noexcept { return ordered_ ? *ordered_ : callers_; }
  const VectorBlock<const T>& null_space() const noexcept { return null_space_; }

  // Takes the order that the operator has.
  void begin() {
    if (!has_order_ || has_order_->order().size() == 0 || b().columns == 0) return;
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
    if (order_.size() > 0) order_.template multi_apply_inverse<T>(own_x(), x());
  }
  // x is the caller's from here on. No step follows.
  void bring_back() {
    show_solution();
    order_ = {};
  }

 private:
  const ContextPtr& context() const noexcept { return callers_.A.context(); }
  MultiVectorView<const T> b() const { return as_columns(callers_.b); }
  View x() const { return as_columns(callers_.x); }
  View own_b() const { return like(b(), own_.b); }
  View own_x() const { return like(x(), own_.x); }
  static View like(const MultiVectorView<const T>& v, Vector<T>& memory) {
    const std::int64_t stride = v.layout == VectorLayout::columns ? v.rows : v.columns;
    return {memory.data(), v.rows, v.columns, stride, v.layout, memory.space()};
  }
  static std::int64_t entries(const MultiVectorView<const T>& v) {
    return entries_of(v.rows, v.columns, sizeof(T));
  }

  Permuted permuted() const override {
    const int columns = static_cast<int>(b().columns), lanes = form_.lanes();
    const bool diagonal = callers_.d.size > 0;
    // b, x, and x at the end; then what all columns share.
    const int others = 3 * columns + (callers_.weights.size > 0 ? 1 : 0) + (diagonal ? 1 : 0) +
                       static_cast<int>(callers_null_space_.count);
    return {others + lanes * static_cast<int>(form_.kept().size()), callers_.M && !diagonal ? 2 * lanes : 0};
  }

  // Called by the operator while the observer runs, between two steps.
  void prepare_order(const Permutation& next) override {
    const std::int64_t n = next.size() > 0 ? next.size() : callers_.A.rows();
    const auto has_memory = [&](Vector<T>& v, std::int64_t size) {
      if (v.size() < size) v = {}, v = Vector<T>(context(), size);
    };
    Change change;
    change.to = next;
    if (next.size() > 0) {
      has_memory(own_.b, entries(b())), has_memory(own_.x, entries(x()));
      has_memory(own_.null_space, callers_null_space_.count * n);
      if (callers_.weights.size > 0) has_memory(own_.weights, n);
      if (callers_.M) {
        // The one of an earlier solve in this order, so that a recorded graph can be used again.
        const bool known = order_.size() == 0 && own_.M && own_.M->is_of(*callers_.M, next);
        change.M = known ? own_.M : std::make_shared<OrderedPreconditioner<T>>(*callers_.M, next);
        change.M->refresh();
      }
    }
    if (begun_)
      change.kept = form_.kept(), change.copy = MultiVector<T>(context(), n, form_.lanes(), Form::layout);
    change_ = std::move(change);
  }

  // On a device all of it is queued after the steps that are in flight, which end in the order before.
  void adopt_order() noexcept override {
    const Permutation from = std::exchange(order_, change_.to);
    null_space_ = callers_null_space_;
    VectorView<const T> weights = callers_.weights;
    try {
      for (const View& v : change_.kept) permute(from, v);
      if (from.size() > 0) from.template multi_apply_inverse<T>(own_x(), x());
      if (order_.size() > 0) {
        order_.template multi_apply<T>(x(), own_x());
        order_.template multi_apply<T>(b(), own_b());
        if (callers_null_space_.count > 0)
          null_space_ = in_order(order_, callers_null_space_, own_.null_space);
        if (weights.size > 0) {
          const VectorView<T> own{own_.weights.data(), weights.size, weights.space};
          order_.template apply<T>(weights, own);
          weights = own;
        }
      }
    } catch (...) { failed_change_ = std::current_exception(); }  // a broken device
    ordered_.reset();
    if (order_.size() > 0) {
      own_.M = std::move(change_.M);
      const Preconditioner<T>* const M = own_.M.get();
      const VectorView<const T> d = M ? M->inverse_diagonal() : VectorView<const T>{};
      ordered_.emplace(Form::system(
          {has_order_->in_order(), Form::view(own_b()), Form::view(own_x()), M, d, has_order_, weights}));
    }
    form_.changed(system(), !change_.kept.empty());
    change_ = {};
  }

  // A vector of the order `from` in the present one. It stays where it is.
  void permute(const Permutation& from, const View& v) {
    std::vector<ColumnPair> all;
    for (std::int32_t lane = 0; lane < v.columns; ++lane) all.push_back({lane, lane});
    const View copy = change_.copy.view();
    if (from.size() > 0)
      from.template multi_apply_inverse<T>(v, copy);
    else
      copy_columns<T>(*context(), v, copy, all);
    if (order_.size() > 0)
      order_.template multi_apply<T>(copy, v);
    else
      copy_columns<T>(*context(), copy, v, all);
  }

  // One change of the order, with its memory.
  struct Change {
    Permutation to;
    std::shared_ptr<OrderedPreconditioner<T>> M;
    std::vector<View> kept;  // of the method
    MultiVector<T> copy;
  };

  const System& callers_;
  const VectorBlock<const T> callers_null_space_;
  InAnOrder<T>& own_;
  Form form_;
  const HasOrder<T>* const has_order_ = callers_.A.abilities().order.get();
  VectorBlock<const T> null_space_ = callers_null_space_;
  std::optional<System> ordered_;     // nothing: it is the caller's
  Permutation order_;                 // of the present vectors; of no rows: the caller's
  Change change_;                     // that prepare_order() has got ready
  std::exception_ptr failed_change_;  // of adopt_order()
  bool begun_ = false;
};

}  // namespace protean::detail
