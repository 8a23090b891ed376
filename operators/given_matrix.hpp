// Operators whose products are with rounded values: the matrix that was given.
#pragma once
#include <string>

#include <protean/core/export.hpp>
#include <protean/operators/linear_operator.hpp>

namespace PROTEAN_EXPORT protean {

// Ability of an operator that may compute with values rounded to float (parameter `values` of a format). A solver
// computes b - A x with the matrix that was given, so that it ends by that matrix, and corrects its residual by it on
// the way (docs/precision.md).
template <class T>
class HasGivenMatrix {
 public:
  virtual ~HasGivenMatrix() = default;
  // The matrix that was given, for vectors in the order of this operator. Null if the products of this operator are
  // with it already. Valid until the next change of format, order or values. Throws OutOfMemory.
  virtual const LinearOperator<T>* given_matrix() const = 0;
  // Has this operator compute with the matrix that was given from the next product on, for good. `why` is for a person.
  // Several threads may call it while others compute products. Throws OutOfMemory.
  virtual void leave_rounding(std::string why) const = 0;
};

}  // namespace protean
