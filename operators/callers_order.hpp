// Products in the caller's order with a matrix in another order. Private to operators/ and solvers/.
#pragma once
#include <mutex>
#include <optional>

#include "core/permutation.hpp"
#include "core/vector.hpp"
#include "operators/multi_product.hpp"
#include "operators/wrapper.hpp"

namespace protean::detail {

// Computes P^T B P with the workspace that this needs: two vectors, and for products with several vectors as many of
// each as the largest product so far had. Several threads may use it, one after another.
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
  // The same for several vectors, X and Y in one layout: product(X', Y'), in that layout without gaps. Throws
  // OutOfMemory.
  template <class Product>
  void multiply(MultiVectorView<const T> X, T beta, MultiVectorView<T> Y, Product&& product) const {
    const std::scoped_lock lock(mutex_);
    const MultiVectorView<T> x = packed(several_x_, X, permutation_.context()),
                             y = packed(several_y_, Y, permutation_.context());
    permutation_.multi_apply<T>(X, x);
    if (beta != T(0)) permutation_.multi_apply<T>(Y, y);
    product(MultiVectorView<const T>(x), y);
    permutation_.multi_apply_inverse<T>(y, Y);
  }
  // to := P^T v, where fill(v) sets v.
  template <class Fill>
  void bring(Fill&& fill, VectorView<T> to) const {
    const std::scoped_lock lock(mutex_);
    fill(y_.view());
    permutation_.apply_inverse<T>(y_, to);
  }

 private:
  static MultiVectorView<T> packed(Vector<T>& memory, const MultiVectorView<const T>& like,
                                   const ContextPtr& context) {
    const std::int64_t entries = detail::entries_of(like.rows, like.columns, sizeof(T));
    if (memory.size() < entries) memory = {}, memory = Vector<T>(context, entries);
    const bool interleaved = like.layout == VectorLayout::interleaved;
    return {memory.data(), like.rows, like.columns, interleaved ? like.columns : like.rows,
            like.layout,   like.space};
  }

  Permutation permutation_;
  mutable std::mutex mutex_;  // of the workspace
  mutable Vector<T> x_, y_, several_x_, several_y_;
};

// Products in the caller's order, for a B that outlives it. With a permutation of no rows they are those of B.
template <class T>
class InCallersOrder final : public Wrapper<T> {
 public:
  InCallersOrder(const Permutation& permutation, const LinearOperator<T>& B)
      : Wrapper<T>(B.context(), B.shape()), B_(B) {
    if (permutation.size() > 0) order_.emplace(permutation);
  }
  const LinearOperator<T>& inner() const noexcept override { return B_; }

 protected:
  void change(Abilities<T>& set) const noexcept override {
    set.refuse_all("it is made for one comparison of products, and has these alone");
  }
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
