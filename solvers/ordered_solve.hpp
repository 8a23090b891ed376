// What a solver keeps for an operator that computes in another order than the caller's (HasOrder): the vectors and the
// preconditioner in that order. Private.
#pragma once
#include <cstdint>
#include <memory>

#include "core/blas1.hpp"
#include "core/permutation.hpp"
#include "operators/in_order.hpp"
#include "operators/multi_product.hpp"
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
        serial_of_M_(M.serial()),
        product_(M, permutation, true) {}
  const LinearOperator<T>& inner() const noexcept override { return M_; }

  bool is_of(const Preconditioner<T>& M, const Permutation& permutation) const noexcept {
    return serial_of_M_ == M.serial() && permutation_.is(permutation);
  }
  // Permutes the diagonal of M, if it is one. Called before each solve, and when the values of A have changed in
  // a solve; then inverse_diagonal() stays where it is.
  void refresh() const {
    const VectorView<const T> d = M_.inverse_diagonal();
    if (d.size > 0 && diagonal_.size() != d.size) diagonal_ = Vector<T>(this->context(), d.size);
    if (d.size > 0) permutation_.apply<T>(d, diagonal_);
    has_diagonal_ = d.size > 0;
    if (!has_diagonal_) product_.reserve();
  }

  VectorView<const T> inverse_diagonal() const noexcept override {
    return has_diagonal_ ? diagonal_.view() : VectorView<const T>{};
  }
  bool symmetric() const noexcept override { return M_.symmetric(); }
  bool variable() const noexcept override { return M_.variable(); }
  // M writes to a vector of product_, and what is written to y heeds the stop.
  Recording recording() const noexcept override {
    Recording recording = product_.with_memory(M_.recording());
    recording.heeds_stop = true;
    return recording;
  }
  std::string_view no_multi_product() const noexcept override { return product_.no_multi_product(); }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    product_.do_multi_apply(alpha, X, beta, Y);
  }

 protected:
  void change(Abilities<T>& set) const noexcept override {
    const bool multi = static_cast<bool>(set.multi_product);
    set.refuse_all("of a preconditioner in another order a solver uses products only");
    if (multi) set.multi_product = this;
  }
  void setup(const LinearOperator<T>&, bool) override {}
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    product_.apply(alpha, x, beta, y);
  }

 private:
  const Preconditioner<T>& M_;
  Permutation permutation_;
  std::uint64_t serial_of_M_;
  InOrder<T> product_;
  mutable bool has_diagonal_ = false;
  mutable Vector<T> diagonal_;
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

}  // namespace protean::detail
