// Operators that compute in an order of the rows of their own, which may change while a solver uses them.
#pragma once
#include <protean/core/permutation.hpp>
#include <protean/operators/linear_operator.hpp>

namespace protean {

// Whoever keeps vectors in the order of an operator and permutes them when it changes: a running solve.
class OrderFollower {
 public:
  // How many vectors are permuted: `vectors` at each change of the order (x at the end of the solve included), and
  // `each_product` for each product in another order than the caller's, by a preconditioner that is no diagonal.
  struct Permuted {
    int vectors = 0, each_product = 0;
  };
  virtual Permuted permuted() const = 0;
  virtual ~OrderFollower() = default;
  // The operator is about to compute in the order `next`; of no rows: the caller's. Takes all memory that the change
  // needs. Throws where the change is impossible; then the operator stays as it is. Nothing is permuted yet.
  virtual void prepare_order(const Permutation& next) = 0;
  // The operator computes in that order now: permutes the vectors, once. It needs no memory. On a device the work is
  // queued on the context's stream; an error of the device is thrown later, by the solve.
  virtual void adopt_order() noexcept = 0;
};

// Ability of an operator A whose products are computed as B = P A P^T, where P may change between two products.
// apply() takes vectors in the caller's order and permutes them for each product: two more passes over each vector.
// Whoever computes many products keeps its vectors in the order P instead, multiplies with B and follows the changes;
// a solver does so by itself. P is that of the rows and the columns.
template <class T>
class HasOrder {
 public:
  virtual ~HasOrder() = default;
  // P; of no rows while it is the caller's order.
  virtual Permutation order() const = 0;
  // B, whatever P is at the time of a product. Lives as long as A.
  virtual const LinearOperator<T>& in_order() const noexcept = 0;
  // in_order().count_products(more) wherever products of in_order() are counted.
  virtual void count_in_order(std::int64_t more) const noexcept = 0;
  // From now on until unfollow() the follower is told of each change. With two of them no change is possible, since
  // one of them may be within a product. Any thread may call these.
  virtual void follow(OrderFollower& follower) const = 0;
  virtual void unfollow(OrderFollower& follower) const noexcept = 0;
};

}  // namespace protean
