// What a solver keeps for an operator that computes in another order than the caller's (HasOrder): the vectors and the
// preconditioner in that order. Private.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "core/blas1.hpp"
#include "core/permutation.hpp"
#include "operators/callers_order.hpp"
#include "operators/multi_product.hpp"
#include "operators/order.hpp"
#include "operators/transposed_product.hpp"
#include "operators/wrapper.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// P M^-1 P^T for a preconditioner M in the caller's numbering, which brings itself up to date.
template <class T>
class OrderedPreconditioner final : public Wrapper<T, Preconditioner<T>>, public HasMultiProduct<T> {
 public:
  OrderedPreconditioner(const Preconditioner<T>& M, const Permutation& permutation)
      : Wrapper<T, Preconditioner<T>>(M.context(), M.shape()),
        M_(M),
        permutation_(permutation),
        serial_of_M_(M.serial()) {}
  const LinearOperator<T>& inner() const noexcept override { return M_; }

  bool is_of(const Preconditioner<T>& M, const Permutation& permutation) const noexcept {
    return serial_of_M_ == M.serial() && permutation_.is(permutation);
  }
  // Permutes the diagonal of M, where it is one. Called before each solve, and where the values of A have changed in
  // a solve; then inverse_diagonal() stays where it is.
  void refresh() const {
    const VectorView<const T> d = M_.inverse_diagonal();
    if (d.size > 0 && diagonal_.size() != d.size) diagonal_ = Vector<T>(this->context(), d.size);
    if (d.size > 0) permutation_.apply<T>(d, diagonal_);
    has_diagonal_ = d.size > 0;
    if (!has_diagonal_ && x_.size() != this->rows())
      x_ = Vector<T>(this->context(), this->rows()), y_ = Vector<T>(this->context(), this->rows());
  }

  VectorView<const T> inverse_diagonal() const noexcept override {
    return has_diagonal_ ? diagonal_.view() : VectorView<const T>{};
  }
  bool symmetric() const noexcept override { return M_.symmetric(); }
  // M writes to y_, and what is written to y heeds the stop.
  Recording recording() const noexcept override {
    Recording recording = M_.recording();
    recording.heeds_stop = true;
    return recording;
  }
  std::string_view no_multi_product() const noexcept override {
    const Ability<HasMultiProduct<T>> multi = M_.abilities().multi_product;
    return multi ? multi->no_multi_product() : "the preconditioner in its order has none";
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    if (!several_) several_ = std::make_unique<CallersOrder<T>>(permutation_.inverse());
    several_->multiply(X, beta, Y, [&](MultiVectorView<const T> px, MultiVectorView<T> py) {
      multi_apply<T>(M_, alpha, px, beta, py);
    });
  }

 protected:
  void change(Abilities<T>& set) const noexcept override {
    const bool multi = static_cast<bool>(set.multi_product);
    set.refuse_all("of a preconditioner in another order a solver uses products only");
    if (multi) set.multi_product = this;
  }
  void setup(const LinearOperator<T>&, bool) override {}
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    permutation_.apply_inverse<T>(x, x_);
    if (beta != T(0)) permutation_.apply_inverse<T>(y, y_);
    M_.apply(alpha, x_, beta, y_);
    permutation_.apply<T>(y_, y);
  }

 private:
  const Preconditioner<T>& M_;
  Permutation permutation_;
  std::uint64_t serial_of_M_;
  mutable bool has_diagonal_ = false;
  mutable Vector<T> diagonal_;
  mutable Vector<T> x_, y_;  // for an M that is no diagonal; a solver applies it from one thread
  mutable std::unique_ptr<CallersOrder<T>> several_;  // for products with several vectors
};

// A in the order P, which it has when this is made: its in_order(). Where A gets another order during the solve,
// products permute their vectors from then on, so that P stays the order of the solve.
template <class T>
class InFixedOrder final : public Wrapper<T>,
                           public HasDiagonal<T>,
                           public HasApplyDot<T>,
                           public HasMultiProduct<T>,
                           public HasTransposedProduct<T> {
 public:
  InFixedOrder(const LinearOperator<T>& A, const HasOrder<T>& ordered)
      : Wrapper<T>(A.context(), A.shape()), A_(A), ordered_(ordered), permutation_(ordered.order()) {}

  const Permutation& permutation() const noexcept { return permutation_; }
  // Whether A still has that order.
  bool kept() const { return ordered_.order().is(permutation_); }
  const LinearOperator<T>& inner() const noexcept override { return A_; }

  void diagonal(VectorView<T> diagonal) const override {
    if (kept()) return ordered_.in_order().abilities().diagonal->diagonal(diagonal);
    callers().bring([&](VectorView<T> d) { A_.abilities().diagonal->diagonal(d); }, diagonal);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    if (kept()) return apply_dot<T>(ordered_.in_order(), x, y, result);
    callers().multiply(x, T(0), y,
                       [&](VectorView<const T> px, VectorView<T> py) { apply_dot<T>(A_, px, py, result); });
  }
  std::string_view no_multi_product() const noexcept override {
    const Ability<HasMultiProduct<T>> multi = A_.abilities().multi_product;
    return multi ? multi->no_multi_product() : "the operator in its order has none";
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    if (kept()) return multi_apply<T>(ordered_.in_order(), alpha, X, beta, Y);
    callers().multiply(X, beta, Y, [&](MultiVectorView<const T> px, MultiVectorView<T> py) {
      multi_apply<T>(A_, alpha, px, beta, py);
    });
  }
  // A has this ability where this has: change().
  std::string_view no_transposed_product() const noexcept override {
    return A_.abilities().transposed_product->no_transposed_product();
  }
  void prepare_transposed() const override { protean::prepare_transposed(A_); }
  std::size_t transposed_bytes() const noexcept override {
    return A_.abilities().transposed_product->transposed_bytes();
  }
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (kept()) return apply_transposed<T>(ordered_.in_order(), alpha, x, beta, y);
    callers().multiply(x, beta, y, [&](VectorView<const T> px, VectorView<T> py) {
      apply_transposed<T>(A_, alpha, px, beta, py);
    });
  }

 protected:
  void change(Abilities<T>& set) const noexcept override {
    if (set.diagonal) set.diagonal = this;
    if (set.apply_dot) set.apply_dot = this;
    if (set.multi_product) set.multi_product = this;
    if (set.transposed_product) set.transposed_product = this;
    constexpr std::string_view why = "its vectors stay in the order in which the solve began";
    if (set.rows) set.rows = Ability<HasRows<T>>::refused(why);
    if (set.row_arrays) set.row_arrays = Ability<HasRowArrays<T>>::refused(why);
    set.order = Ability<HasOrder<T>>::refused(why);
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (kept()) return ordered_.in_order().apply(alpha, x, beta, y);
    callers().multiply(x, beta, y,
                       [&](VectorView<const T> px, VectorView<T> py) { A_.apply(alpha, px, beta, py); });
  }

 private:
  // From the order of the solve to the caller's. Made where A changes its order.
  const CallersOrder<T>& callers() const {
    if (!callers_) callers_ = std::make_unique<CallersOrder<T>>(permutation_.inverse());
    return *callers_;
  }

  const LinearOperator<T>& A_;
  const HasOrder<T>& ordered_;
  const Permutation permutation_;
  mutable std::unique_ptr<CallersOrder<T>> callers_;  // a solver uses it from one thread
};

// The vectors of N in another order, in `memory`, one behind the other.
template <class T>
VectorBlock<const T> in_order(const Permutation& P, const VectorBlock<const T>& N, Vector<T>& memory) {
  const VectorBlock<T> made{memory.data(), N.size, N.size, N.count, memory.space()};
  for (std::int64_t j = 0; j < N.count; ++j) P.template apply<T>(N.column(j), made.column(j));
  return made;
}

// What a solver keeps while solves compute in another order than the caller's.
template <class T>
struct InAnOrder {
  Vector<T> b, x, null_space, weights;
  std::shared_ptr<OrderedPreconditioner<T>> M;
};
// One change of the order, with its memory.
template <class T>
struct ChangeOfOrder {
  Permutation to;
  std::shared_ptr<OrderedPreconditioner<T>> M;
  std::vector<VectorView<T>> kept;  // of the method
  Vector<T> copy;
};

}  // namespace protean::detail
