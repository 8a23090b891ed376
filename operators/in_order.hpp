// Products for vectors in another order than the rows of an operator. Private to operators/ and solvers/.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "core/permutation.hpp"
#include "core/vector.hpp"
#include "operators/given_matrix.hpp"
#include "operators/multi_product.hpp"
#include "operators/order.hpp"
#include "operators/row_arrays.hpp"
#include "operators/rows.hpp"
#include "operators/transposed_product.hpp"
#include "operators/wrapper.hpp"

namespace protean::detail {

// A = P^T B P; B lives longer. Vectors are in the caller's order, and B computes in the order P. Or A = P B P^T:
// vectors are in the order P, B takes them in the caller's order. If P has no rows, A is B.
//
// Workspace: two vectors from reserve() on, and for products with several vectors twice the number of vectors of the
// largest product so far. Several threads may compute products, one after another.
template <class T>
class InOrder final : public Wrapper<T>,
                      public HasDiagonal<T>,
                      public HasApplyDot<T>,
                      public HasMultiProduct<T>,
                      public HasTransposedProduct<T> {
 public:
  InOrder(const LinearOperator<T>& B, Permutation P, bool vectors_are_in_it = false)
      : Wrapper<T>(B.context(), B.shape()), B_(B), P_(std::move(P)), inverse_(vectors_are_in_it) {}

  const LinearOperator<T>& inner() const noexcept override { return B_; }
  const Permutation& permutation() const noexcept { return P_; }
  // A product with several vectors may take other memory than the last one: work that was recorded before is stale.
  Recording recording() const noexcept override { return with_memory(B_.recording()); }
  Recording with_memory(Recording work) const noexcept {
    if (work.version != 0) work.version += memories_ << 32;
    return work;
  }
  // Takes the two vectors, so that products allocate nothing. Throws OutOfMemory.
  void reserve() const {
    if (P_.size() == 0) return;
    const std::scoped_lock lock(mutex_);
    take_memory();
  }

  // y := P^T product(P x, P y); product(x', y') changes y'. P y is not defined if beta is 0.
  template <class Product>
  void multiply(VectorView<const T> x, T beta, VectorView<T> y, Product&& product) const {
    if (P_.size() == 0) return product(x, y);
    const std::scoped_lock lock(mutex_);
    take_memory();
    move(x, x_.view(), inverse_);
    if (beta != T(0)) move(y, y_.view(), inverse_);
    product(VectorView<const T>(x_), y_.view());
    move(y_.view(), y, !inverse_);
  }
  // The same for several vectors, X and Y in one layout: product(X', Y'), in that layout without gaps. Throws
  // OutOfMemory.
  template <class Product>
  void multiply(MultiVectorView<const T> X, T beta, MultiVectorView<T> Y, Product&& product) const {
    if (P_.size() == 0) return product(X, Y);
    const std::scoped_lock lock(mutex_);
    const MultiVectorView<T> x = packed(several_x_, X), y = packed(several_y_, Y);
    move(X, x, inverse_);
    if (beta != T(0)) move(MultiVectorView<const T>(Y), y, inverse_);
    product(MultiVectorView<const T>(x), y);
    move(MultiVectorView<const T>(y), Y, !inverse_);
  }
  // to := P^T v, where fill(v) sets v.
  template <class Fill>
  void bring(Fill&& fill, VectorView<T> to) const {
    if (P_.size() == 0) return fill(to);
    const std::scoped_lock lock(mutex_);
    take_memory();
    fill(y_.view());
    move(y_.view(), to, !inverse_);
  }

  void diagonal(VectorView<T> diagonal) const override {
    bring([&](VectorView<T> d) { B_.abilities().diagonal->diagonal(d); }, diagonal);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    compute(x, T(0), y, [&](const auto& B, auto px, auto py) { apply_dot<T>(B, px, py, result); });
  }
  std::string_view no_multi_product() const noexcept override {
    const Ability<HasMultiProduct<T>> multi = B_.abilities().multi_product;
    return multi ? multi->no_multi_product() : "the operator in its order has none";
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    compute(X, beta, Y, [&](const auto& B, auto pX, auto pY) { multi_apply<T>(B, alpha, pX, beta, pY); });
  }
  // B has this ability if this has it: change().
  std::string_view no_transposed_product() const noexcept override {
    return B_.abilities().transposed_product->no_transposed_product();
  }
  void prepare_transposed() const override { protean::prepare_transposed(B_); }
  std::size_t transposed_bytes() const noexcept override {
    return B_.abilities().transposed_product->transposed_bytes();
  }
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    compute(x, beta, y,
            [&](const auto& B, auto px, auto py) { apply_transposed<T>(B, alpha, px, beta, py); });
  }

 protected:
  void change(Abilities<T>& set) const noexcept override {
    if (set.diagonal) set.diagonal = this;
    if (set.apply_dot) set.apply_dot = this;
    if (set.multi_product) set.multi_product = this;
    if (set.transposed_product) set.transposed_product = this;
    constexpr std::string_view why = "its vectors are in another order than the rows";
    if (set.rows) set.rows = Ability<HasRows<T>>::refused(why);
    if (set.row_arrays) set.row_arrays = Ability<HasRowArrays<T>>::refused(why);
    if (set.given_matrix) set.given_matrix = Ability<HasGivenMatrix<T>>::refused(why);
    if (set.order) set.order = Ability<HasOrder<T>>::refused("its vectors stay in one order");
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    compute(x, beta, y, [&](const auto& B, auto px, auto py) { B.apply(alpha, px, beta, py); });
  }

 private:
  template <class X, class Y, class Product>
  void compute(X x, T beta, Y y, Product&& product) const {
    multiply(x, beta, y, [&](X px, Y py) { product(B_, px, py); });
  }
  void move(VectorView<const T> from, VectorView<T> to, bool inverse) const {
    inverse ? P_.template apply_inverse<T>(from, to) : P_.template apply<T>(from, to);
  }
  void move(const MultiVectorView<const T>& from, const MultiVectorView<T>& to, bool inverse) const {
    inverse ? P_.template multi_apply_inverse<T>(from, to) : P_.template multi_apply<T>(from, to);
  }
  void take_memory() const {
    if (y_.size() == this->rows()) return;
    x_ = Vector<T>(this->context(), this->rows()), y_ = Vector<T>(this->context(), this->rows());
  }
  MultiVectorView<T> packed(Vector<T>& memory, const MultiVectorView<const T>& like) const {
    const std::int64_t entries = detail::entries_of(like.rows, like.columns, sizeof(T));
    if (memory.size() < entries) memory = {}, memory = Vector<T>(this->context(), entries), ++memories_;
    const bool interleaved = like.layout == VectorLayout::interleaved;
    return {memory.data(), like.rows, like.columns, interleaved ? like.columns : like.rows,
            like.layout,   like.space};
  }

  const LinearOperator<T>& B_;
  const Permutation P_;
  const bool inverse_;        // A = P B P^T
  mutable std::mutex mutex_;  // of the next
  mutable Vector<T> x_, y_, several_x_, several_y_;
  mutable std::atomic<std::uint64_t> memories_{0};  // that several_x_ and several_y_ have had
};

}  // namespace protean::detail
