// Operators that compute in their own order of the rows, which may change while a solver uses them.
#pragma once
#include <protean/core/export.hpp>
#include <protean/core/permutation.hpp>
#include <protean/operators/linear_operator.hpp>

namespace PROTEAN_EXPORT protean {

// An object that keeps vectors in the order of an operator, and permutes them when that order changes. A running
// solve is one.
class OrderFollower {
 public:
  // How many vectors are permuted. vectors: at each change of the order, including x at the end of the solve.
  // each_product: for each product while the order is not the caller's, by a preconditioner that is not diagonal.
  struct Permuted {
    int vectors = 0, each_product = 0;
  };
  virtual Permuted permuted() const = 0;
  virtual ~OrderFollower() = default;
  // The operator is about to compute in the order `next`. A permutation of no rows is the caller's order. The follower
  // allocates here all memory that the change needs. It permutes nothing yet. It throws if the change is impossible;
  // then the operator stays as it is.
  virtual void prepare_order(const Permutation& next) = 0;
  // The operator now computes in that order. The follower permutes its vectors, once. It allocates nothing. On a
  // device the work is queued on the context's stream; an error of the device is thrown later, by the solve.
  virtual void adopt_order() noexcept = 0;
};

// Ability of an operator A whose products are computed as B = P A P^T; P may change between two products. apply() takes
// vectors in the caller's order and permutes them for each product: two more passes over each vector. A caller of many
// products keeps its vectors in the order P instead, multiplies by B = in_order(), and follows the changes of P. A
// solver does so by itself. P is applied to the rows and to the columns.
template <class T>
class HasOrder {
 public:
  virtual ~HasOrder() = default;
  // Returns P. It has no rows while the order is the caller's.
  virtual Permutation order() const = 0;
  // Returns B, with the P of the time of each product. B lives as long as A.
  virtual const LinearOperator<T>& in_order() const noexcept = 0;
  // Does in_order().count_products(more), and counts wherever products of in_order() are counted.
  virtual void count_in_order(std::int64_t more) const noexcept = 0;
  // Reports each change to the follower from now on until unfollow(). While there are two followers, no change is
  // possible: one of them may be within a product. Any thread may call these functions.
  virtual void follow(OrderFollower& follower) const = 0;
  virtual void unfollow(OrderFollower& follower) const noexcept = 0;
};

}  // namespace protean
