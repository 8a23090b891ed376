// Preconditioners: operators whose product is y = M^-1 x.
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

  // Brings M up to date with A. Does nothing when M was built from this A at its present revision(); a change
  // of the storage format does not change the revision. Throws ShapeMismatch, and what setup() throws; M is
  // unchanged then.
  void ensure(const LinearOperator<T>& A);

  // The entries of M^-1 where it is a diagonal: solvers then multiply by it inside their own vector
  // operations. Empty otherwise. In the space of the context; valid until the next ensure().
  virtual VectorView<const T> inverse_diagonal() const noexcept { return {}; }

 protected:
  virtual void setup(const LinearOperator<T>& A, bool pattern_changed) = 0;

 private:
  std::uint64_t built_for_ = 0;  // serial of the operator, 0 for none
  Revision built_from_;
};

// What Jacobi does with a row whose diagonal entry is missing, zero or not finite.
enum class ZeroDiagonal : unsigned char {
  error,  // throw BadMatrix, which names the first such rows
  one     // use 1 in its place
};

struct PreconditionerOptions {
  ZeroDiagonal zero_diagonal = ZeroDiagonal::error;
};

struct PreconditionerEntry {
  std::string_view id, title;
};
// none, jacobi.
std::span<const PreconditionerEntry> preconditioners() noexcept;

// A preconditioner for operators of the shape and context of A; ensure() must be called before it is used.
// nullptr for "none". Throws BadArgument for an unknown name, ShapeMismatch for a rectangular A.
template <class T>
std::unique_ptr<Preconditioner<T>> make_preconditioner(std::string_view id, const LinearOperator<T>& A,
                                                       const PreconditionerOptions& options = {});

}  // namespace protean
