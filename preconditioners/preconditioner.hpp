// Preconditioners: operators that apply M^-1.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <protean/operators/linear_operator.hpp>

namespace protean {

template <class T>
class Preconditioner : public LinearOperator<T> {
 public:
  using LinearOperator<T>::LinearOperator;

  // Makes M fit A: does nothing when A's revision is the one M was built from, whatever its storage format.
  // Throws what setup() throws; M is unchanged then.
  void ensure(const LinearOperator<T>& A);

  // Where M^-1 is a diagonal: its entries, so that solvers can fold it into their own passes; empty
  // otherwise.
  virtual VectorView<const T> inverse_diagonal() const noexcept { return {}; }

 protected:
  virtual void setup(const LinearOperator<T>& A, bool pattern_changed) = 0;

 private:
  std::uint64_t built_for_ = 0;  // serial of the operator, 0 for none
  Revision built_from_;
};

// What Jacobi does with rows whose diagonal entry is missing, zero or not finite.
enum class ZeroDiagonal : unsigned char {
  error,  // BadMatrix naming the first rows
  one     // takes 1 for them
};

struct PreconditionerOptions {
  ZeroDiagonal zero_diagonal = ZeroDiagonal::error;
};

struct PreconditionerEntry {
  std::string_view id, title;
};
// none, jacobi.
std::span<const PreconditionerEntry> preconditioners() noexcept;

// A preconditioner for operators of this shape and context, not yet set up. nullptr for "none".
// BadArgument for an unknown name, ShapeMismatch for a rectangular A.
template <class T>
std::unique_ptr<Preconditioner<T>> make_preconditioner(std::string_view id, const LinearOperator<T>& A,
                                                       const PreconditionerOptions& options = {});

}  // namespace protean
