// A matrix that computes in another order of its rows and is used in the caller's.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <protean/core/permutation.hpp>
#include <protean/operators/assembled_matrix.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/order.hpp>
#include <protean/operators/policy/adaptive_operator.hpp>
#include <protean/operators/rows.hpp>

namespace protean {
namespace detail {
template <class T>
class CallersOrder;
}  // namespace detail

// A = P^T B P, where B = P A P^T is what it was made of. A solver that is given it runs on B: it permutes b and x
// before the solve and x after it, so that no product permutes anything. Right-hand side, guess, solution,
// preconditioner, observer and residuals are in the caller's numbering. A preconditioner that is a diagonal is permuted
// once a solve; another one costs two permutations of a vector each time that it is applied.
//
//   auto order = Permutation(context, make_order("rcm", *host, csr.pattern));
//   PermutedMatrix<double> ordered(host, csr, order);
//   auto B = make_matrix(find_format("csr"), ordered.matrix(), context);
//   OrderedOperator<double> A(std::move(ordered), std::move(B));
//
// apply() permutes both vectors. Workspace: two vectors. Several threads may call apply(), one after another. products()
// counts those of apply(), and inner().products() also those of a solver. B may change its order itself
// (AdaptiveOperator): a solver then follows the order of both.
template <class T>
class OrderedOperator final : public LinearOperator<T>,
                              public HasDiagonal<T>,
                              public HasRows<T>,
                              public HasOrder<T> {
 public:
  ~OrderedOperator() override;
  // B is made of ordered.matrix(). Throws ShapeMismatch and WrongSpace where it does not fit the permutation.
  OrderedOperator(PermutedMatrix<T> ordered, std::unique_ptr<AssembledMatrix<T>> B);
  OrderedOperator(PermutedMatrix<T> ordered, std::unique_ptr<AdaptiveOperator<T>> B);
  // Any B that is square; the caller may share it. It has no update_values(): whoever gives B new values permutes them.
  OrderedOperator(Permutation permutation, std::shared_ptr<LinearOperator<T>> B);

  const LinearOperator<T>& inner() const noexcept { return *B_; }
  const Permutation& permutation() const noexcept { return permutation_; }
  Permutation order() const override;
  const LinearOperator<T>& in_order() const noexcept override;
  void count_in_order(std::int64_t more) const noexcept override;
  void follow(OrderFollower& follower) const override;
  void unfollow(OrderFollower& follower) const noexcept override;

  // Sets new values for the same pattern, in the caller's order: a matrix in the space of the context. The order is
  // kept; one pass permutes the values. Throws BadArgument where it was not made of a PermutedMatrix, and as
  // AssembledMatrix::update_values.
  void update_values(const CsrMatrix<T>& csr);

  // Throws BadArgument if B has no diagonal.
  void diagonal(VectorView<T> diagonal) const override;
  // The entries in the caller's order, made anew in the space of the context: the memory of the matrix in CSR, and 4
  // bytes an entry while it is made (on a device 28). Throws BadArgument if B cannot give its entries (csr_of()), OutOfMemory.
  CsrMatrix<T> rows_as_csr() const override;
  std::string_view name() const noexcept override { return B_->name(); }
  Revision revision() const noexcept override { return B_->revision(); }
  Recording recording() const noexcept override { return B_->recording(); }
  void check_arrays() const override { B_->check_arrays(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;

 private:
  class Link;
  // From the caller's order to that of B, where B computes in the order `inner`.
  Permutation with(const Permutation& inner) const;

  Permutation permutation_;
  std::optional<PermutedMatrix<T>> ordered_;
  std::shared_ptr<LinearOperator<T>> B_;
  AssembledMatrix<T>* assembled_ = nullptr;  // B_, where it is one
  AdaptiveOperator<T>* adaptive_ = nullptr;
  std::unique_ptr<detail::CallersOrder<T>> callers_order_;  // the workspace; null for no rows
  const HasOrder<T>* changing_ = nullptr;                   // B_, where its order may change
  mutable std::mutex mutex_;                                // of what follows
  mutable Permutation inner_, both_;  // the last order of B_ that with() was asked for, and its answer
  mutable std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace protean
