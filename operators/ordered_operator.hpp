// An operator that computes in another order of its rows and is used in the caller's order.
#pragma once
#include <memory>
#include <optional>

#include <protean/core/export.hpp>
#include <protean/core/permutation.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/multi_product.hpp>
#include <protean/operators/order.hpp>
#include <protean/operators/rows.hpp>
#include <protean/operators/transposed_product.hpp>
#include <protean/operators/wrapper.hpp>

namespace PROTEAN_EXPORT protean {
namespace PROTEAN_HIDDEN detail {
template <class T>
class CallersOrder;
}  // namespace detail

// A = P^T B P with B = P A P^T, of which it was made. A solver runs on B: it permutes b and x before the solve and x
// after it, so that no product permutes anything. Right-hand side, guess, solution, preconditioner, observer and
// residuals are in the caller's numbering. A preconditioner that is a diagonal is permuted once a solve; another one
// costs two permutations of a vector each time that it is applied.
//
//   auto order = Permutation(context, make_order("rcm", *host, csr.pattern));
//   PermutedMatrix<double> ordered(host, csr, order);
//   auto B = make_matrix(find_format("csr"), ordered.matrix(), context);
//   OrderedOperator<double> A(std::move(ordered), std::move(B));
//
// apply() permutes both vectors, multi_apply() all of them. Workspace: two vectors, and for products with several
// vectors as many of each as the largest product so far had. Several threads may call them, one after another. The
// operator has the abilities of B except HasRowArrays, which in_order() has. Tuning, layout and parts are B's, in its
// order. products() counts the products of apply(), and inner().products() also the products of a solver. The order
// never changes: use an AdaptiveOperator, which may begin in an order, too, for a matrix whose order may change.
template <class T>
class OrderedOperator final : public Wrapper<T>,
                              public HasDiagonal<T>,
                              public HasApplyDot<T>,
                              public HasMultiProduct<T>,
                              public HasTransposedProduct<T>,
                              public HasRows<T>,
                              public HasOrder<T> {
 public:
  ~OrderedOperator() override;
  // B is made of ordered.matrix(). Throws ShapeMismatch and WrongSpace if it does not fit the permutation.
  OrderedOperator(PermutedMatrix<T> ordered, std::unique_ptr<AssembledMatrix<T>> B);
  // Any B that is square; the caller may share it. It has no update_values(): whoever gives B new values permutes them.
  // Throws BadArgument for a B with an order of its own (HasOrder): an order has one owner, and its name one meaning.
  OrderedOperator(Permutation permutation, std::shared_ptr<LinearOperator<T>> B);

  const LinearOperator<T>& inner() const noexcept override { return *B_; }
  const Permutation& permutation() const noexcept { return permutation_; }
  Permutation order() const override { return permutation_; }
  const LinearOperator<T>& in_order() const noexcept override { return *B_; }
  void count_in_order(std::int64_t more) const noexcept override { B_->count_products(more); }
  // The order does not change, so there is nothing to report.
  void follow(OrderFollower&) const override {}
  void unfollow(OrderFollower&) const noexcept override {}

  // Sets new values for the same pattern, in the caller's order: a matrix in the space of the context. The order is
  // kept; one pass permutes the values. Throws BadArgument if the operator was not made of a PermutedMatrix, and what
  // AssembledMatrix::update_values throws.
  void update_values(const CsrMatrix<T>& csr);

  // Throws BadArgument if B has no diagonal.
  void diagonal(VectorView<T> diagonal) const override;
  // The entries in the caller's order, made anew in the space of the context: the memory of the matrix in CSR, and 4
  // bytes an entry while it is made (on a device 28). Throws BadArgument if B cannot give its entries (csr_of()),
  // OutOfMemory.
  CsrMatrix<T> rows_as_csr() const override;
  // Permutes x and y once for both results.
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override;
  std::string_view no_multi_product() const noexcept override;
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override;
  // P^T B^T P, if B has a product with its transpose.
  std::string_view no_transposed_product() const noexcept override;
  void prepare_transposed() const override;
  std::size_t transposed_bytes() const noexcept override;
  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 protected:
  void change(Abilities<T>& set) const noexcept override;
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  Permutation permutation_;
  std::optional<PermutedMatrix<T>> ordered_;
  std::shared_ptr<LinearOperator<T>> B_;
  AssembledMatrix<T>* assembled_ = nullptr;                 // B_, if it is one
  std::unique_ptr<detail::CallersOrder<T>> callers_order_;  // the workspace; null for no rows
};

}  // namespace protean
