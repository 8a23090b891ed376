// Products of an operator with several vectors at once: Y := alpha A X + beta Y.
#pragma once
#include <string>
#include <string_view>

#include <protean/core/export.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/operators/linear_operator.hpp>

namespace PROTEAN_EXPORT protean {

// Ability: computes the products with several vectors in one pass over the operator, so that its entries are read from
// memory once for all of them.
template <class T>
class HasMultiProduct {
 public:
  virtual ~HasMultiProduct() = default;
  // Empty if it does so now; otherwise the reason, for a person. Products are then computed column by column.
  virtual std::string_view no_multi_product() const noexcept { return {}; }
  // Called by multi_apply() if no_multi_product() is empty: X and Y have the same layout, one column or more, and do
  // not overlap. With beta == 0 Y is not read. Asynchronous on the context. On a GPU a solver records this work, too:
  // what LinearOperator::recording() says holds for it.
  virtual void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const = 0;
};

// Why products with several vectors of A are computed column by column; empty if they are computed in one pass.
template <class T>
PROTEAN_EXPORT std::string column_by_column(const LinearOperator<T>& A);

// Memory of multi_apply() for products column by column through interleaved vectors. It may be used for any operators.
template <class T>
struct MultiScratch {
  Vector<T> x, y;
};

// Y := alpha A X + beta Y. X is cols x k, Y rows x k, in the space of A and in the same layout, with any strides; k may
// be 0. Each column is the product of that column, within rounding of LinearOperator::apply(); the result of a column
// does not depend on the other columns. The memory from the first to the last entry of X and of Y must not overlap.
// With beta == 0 Y is not read and may contain NaN. Asynchronous on the context.
//
// An operator with HasMultiProduct computes in one pass, any other column by column (column_by_column() says why). That
// takes two vectors if X and Y are interleaved: the vectors of `scratch`, or new ones. Counts k products. Throws
// ShapeMismatch, WrongSpace, BadArgument (overlap, unequal layouts), OutOfMemory.
template <class T>
PROTEAN_EXPORT void multi_apply(const LinearOperator<T>& A, std::type_identity_t<T> alpha,
                                std::type_identity_t<MultiVectorView<const T>> X,
                                std::type_identity_t<T> beta, std::type_identity_t<MultiVectorView<T>> Y,
                                MultiScratch<T>* scratch = nullptr);
// Y := A X
template <class T>
void multi_apply(const LinearOperator<T>& A, std::type_identity_t<MultiVectorView<const T>> X,
                 std::type_identity_t<MultiVectorView<T>> Y) {
  multi_apply<T>(A, T(1), X, T(0), Y);
}

}  // namespace protean
