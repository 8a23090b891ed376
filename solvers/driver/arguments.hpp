// The checks of the arguments of solve() that one and several right-hand sides share, and the scope of a solve. Private
// to solvers/.
#pragma once
#include <atomic>
#include <string_view>

#include "core/device_checks.hpp"
#include "core/multi_vector.hpp"
#include "operators/linear_operator.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// What is said about a method.
struct MethodWords {
  std::string_view name;
  bool needs_symmetric_preconditioner;
};

// Throws ShapeMismatch unless A is square.
template <class T>
void require_square(const MethodWords& method, const LinearOperator<T>& A);

// Throws BadArgument if b and x overlap, WrongSpace unless both are memory of A's GPU. Their shapes were checked.
template <class T>
void require_memory_of_vectors(const LinearOperator<T>& A, const MultiVectorView<const T>& b,
                               const MultiVectorView<const T>& x, std::string_view b_name,
                               std::string_view x_name);

// The diagonal of M^-1 if M^-1 is one, else empty; also without M. Throws ShapeMismatch, WrongSpace, and BadArgument for
// an M that is not symmetric if the method needs one.
template <class T>
VectorView<const T> diagonal_of_inverse(const MethodWords& method, const LinearOperator<T>& A,
                                        const Preconditioner<T>* M);

// One solve of a solver: the GPU of the operator is the current one. Throws BadArgument if the solver is busy, and what
// LinearOperator::check_arrays() throws.
class SolveScope {
 public:
  template <class T>
  SolveScope(const LinearOperator<T>& A, std::atomic<bool>& busy, std::string_view method)
      : gpu_(*A.context()), busy_(busy) {
    A.check_arrays();
    claim(method);
  }
  ~SolveScope() { busy_.store(false); }
  SolveScope(const SolveScope&) = delete;
  SolveScope& operator=(const SolveScope&) = delete;

 private:
  void claim(std::string_view method);
  const DeviceScope gpu_;
  std::atomic<bool>& busy_;
};

}  // namespace protean::detail
