// The checks of the arguments of solve() that one and several right-hand sides share, and the scope of a solve. Private
// to solvers/.
#pragma once
#include <fmt/format.h>

#include <atomic>
#include <string_view>

#include "core/blas1.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/option_checks.hpp"
#include "operators/linear_operator.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"

namespace protean::detail {

// Throws BadArgument for an option of a GPU if the operator is not on one.
inline void require_options_of_space(const SolverOptions& options, const Context& context) {
  for (const Option<SolverOptions>& option : solver_options())
    if (option.on_device && context.space() == Space::host && !option.is_default(options))
      throw BadArgument(fmt::format("{} is {}, but the operator is not on a GPU; leave it at {}", option.name,
                                    value_text(option, option.value(options)),
                                    value_text(option, option.default_value())));
  if (options.device_steps == "resident" && context.simulated())
    throw BadArgument("device_steps is 'resident', but the operator is not on a GPU; take auto");
}

// Throws ShapeMismatch unless A is square.
template <class T>
void require_square(std::string_view method, const LinearOperator<T>& A) {
  if (A.cols() != A.rows())
    throw ShapeMismatch(
        fmt::format("the operator is {} x {}; {} needs a square one", A.rows(), A.cols(), method));
}

// Throws BadArgument if b and x overlap, WrongSpace unless both are memory of A's GPU. Their shapes were checked.
struct VectorNames {
  std::string_view b, x, both;
};
template <class T>
void require_memory_of_vectors(const LinearOperator<T>& A, const MultiVectorView<const T>& b,
                               const MultiVectorView<const T>& x, const VectorNames& names) {
  require_device_memory(*A.context(), b.data, names.b);
  require_device_memory(*A.context(), x.data, names.x);
  require_apart<T>(b, x, names.both);
}

// The symmetric preconditioner that is most alike.
inline std::string_view symmetric_relative(std::string_view name) {
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == name && !entry.symmetric_relative.empty()) return entry.symmetric_relative;
  return "jacobi";
}

// The diagonal of M^-1 if M^-1 is one, else empty; also without M. Throws ShapeMismatch, WrongSpace, and BadArgument
// for an M that is not symmetric if the method needs a symmetric one, and for one that is variable() unless the method
// is for such.
template <class T>
VectorView<const T> diagonal_of_inverse(std::string_view method, bool needs_symmetric,
                                        const LinearOperator<T>& A, const Preconditioner<T>* M) {
  if (!M) return {};
  const std::int64_t n = A.rows();
  const Space space = A.context()->space();
  if (M->rows() != n || M->cols() != n)
    throw ShapeMismatch(
        fmt::format("the preconditioner is {} x {}; the operator is {} x {}", M->rows(), M->cols(), n, n));
  if (M->context()->space() != space)
    throw WrongSpace(fmt::format("the preconditioner works on {} memory, the operator on {} memory",
                                 to_string(M->context()->space()), to_string(space)));
  const VectorView<const T> d = M->inverse_diagonal();
  if (d.size > 0) require<T>(d, n, space, "the preconditioner's diagonal");
  if (needs_symmetric && !M->symmetric())
    throw BadArgument(fmt::format(
        "{} needs a symmetric preconditioner, and {} is not symmetric even if the matrix is; use {} "
        "instead, or method gmres or bicgstab",
        method, M->name(), symmetric_relative(M->name())));
  if (M->variable() && method != "fcg" && method != "fgmres")
    throw BadArgument(fmt::format(
        "{} needs a preconditioner that is the same in each iteration, and {} solves iteratively (inner: method=..); "
        "use method fgmres, or fcg for a positive definite matrix",
        method, M->name()));
  return d;
}

// One solve of a solver: the GPU of the operator is the current one. Throws BadArgument if the solver is busy, and what
// LinearOperator::check_arrays() throws.
class SolveScope {
 public:
  template <class T>
  SolveScope(const LinearOperator<T>& A, std::atomic<bool>& busy, std::string_view method)
      : gpu_(*A.context()), busy_(busy) {
    A.check_arrays();
    if (busy_.exchange(true))
      throw BadArgument(
          fmt::format("this {} solver is solving already; give each thread its own solver", method));
  }
  ~SolveScope() { busy_.store(false); }
  SolveScope(const SolveScope&) = delete;
  SolveScope& operator=(const SolveScope&) = delete;

 private:
  const DeviceScope gpu_;
  std::atomic<bool>& busy_;
};

}  // namespace protean::detail
