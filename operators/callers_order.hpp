// Products in the caller's order with a matrix in another order. Private to operators/.
#pragma once
#include <mutex>
#include <optional>

#include "core/permutation.hpp"
#include "core/vector.hpp"
#include "operators/linear_operator.hpp"

namespace protean::detail {

// Computes P^T B P with the workspace that this needs: two vectors. Several threads may use it, one after another.
template <class T>
class CallersOrder {
 public:
  // Throws OutOfMemory. The permutation has rows, and a context.
  explicit CallersOrder(Permutation permutation)
      : permutation_(std::move(permutation)),
        x_(permutation_.context(), permutation_.size()),
        y_(permutation_.context(), permutation_.size()) {}

  // y := P^T product(P x, P y); product(x', y') changes y'. P y is not defined where beta is 0.
  template <class Product>
  void multiply(VectorView<const T> x, T beta, VectorView<T> y, Product&& product) const {
    const std::scoped_lock lock(mutex_);
    permutation_.apply<T>(x, x_);
    if (beta != T(0)) permutation_.apply<T>(y, y_);
    product(VectorView<const T>(x_), y_.view());
    permutation_.apply_inverse<T>(y_, y);
  }
  // to := P^T v, where fill(v) sets v.
  template <class Fill>
  void bring(Fill&& fill, VectorView<T> to) const {
    const std::scoped_lock lock(mutex_);
    fill(y_.view());
    permutation_.apply_inverse<T>(y_, to);
  }

 private:
  Permutation permutation_;
  mutable std::mutex mutex_;  // of the workspace
  mutable Vector<T> x_, y_;
};

// An operator in the caller's order, for a B that outlives it. With a permutation of no rows it is B.
template <class T>
class InCallersOrder final : public LinearOperator<T> {
 public:
  InCallersOrder(const Permutation& permutation, const LinearOperator<T>& B)
      : LinearOperator<T>(B.context(), B.shape()), B_(B) {
    if (permutation.size() > 0) order_.emplace(permutation);
  }
  std::string_view name() const noexcept override { return B_.name(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (!order_) return B_.apply(alpha, x, beta, y);
    order_->multiply(x, beta, y,
                     [&](VectorView<const T> px, VectorView<T> py) { B_.apply(alpha, px, beta, py); });
  }

 private:
  const LinearOperator<T>& B_;
  std::optional<CallersOrder<T>> order_;
};

}  // namespace protean::detail
