// A Krylov method as the preconditioner of a block of several fields (preconditioners/fields/inner.hpp).
#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "core/blas1.hpp"
#include "core/error.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/fields/inner.hpp"
#include "solvers/solver.hpp"

namespace protean::detail {
namespace {

SolverOptions options_of_inner(const InnerMethod& method) {
  SolverOptions options;
  options.stopping.relative_tolerance = method.tolerance, options.stopping.absolute_tolerance = 0;
  options.stopping.max_iterations = method.iterations;
  return options;
}

template <class T>
class InnerSolver final : public BySolving<T> {
 public:
  InnerSolver(const LinearOperator<T>& A, std::unique_ptr<Preconditioner<T>> M, const InnerMethod& method)
      : BySolving<T>(A), M_(std::move(M)), solver_(make_solver<T>(method.method, options_of_inner(method))) {}

  std::string_view name() const noexcept override { return solver_->name(); }
  bool symmetric() const noexcept override { return false; }
  bool variable() const noexcept override { return true; }
  Recording recording() const noexcept override {
    Recording all = BySolving<T>::recording();
    all.allowed = false;  // the host decides when it ends
    return all;
  }

 protected:
  void setup(const LinearOperator<T>& A, bool) override {
    A_ = nullptr, this->forget();
    if (M_) M_->ensure(A);
    A_ = &A;
  }
  // What the method has not reached the outer one makes up for, so that the reason does not matter.
  void solve(VectorView<const T> r, VectorView<T> z) const override {
    if (!A_) throw BadArgument("an inner solver is applied after an ensure(A) that failed; call it again");
    const std::lock_guard lock(mutex_);
    fill<T>(*this->context(), T(0), z);
    (void)solver_->solve(*A_, r, z, M_.get());
  }
  // The vectors of the method are made in its first solve and are not counted.
  std::size_t bytes_of_arrays() const noexcept override { return M_ ? M_->bytes() : 0; }

 private:
  std::unique_ptr<Preconditioner<T>> M_;
  std::unique_ptr<Solver<T>> solver_;
  const LinearOperator<T>* A_ = nullptr;
  mutable std::mutex mutex_;
};

}  // namespace

template <class T>
std::unique_ptr<Preconditioner<T>> make_inner_solver(const LinearOperator<T>& A,
                                                     std::unique_ptr<Preconditioner<T>> M,
                                                     const InnerMethod& method) {
  return std::make_unique<InnerSolver<T>>(A, std::move(M), method);
}
template std::unique_ptr<Preconditioner<float>> make_inner_solver<float>(
    const LinearOperator<float>&, std::unique_ptr<Preconditioner<float>>, const InnerMethod&);
template std::unique_ptr<Preconditioner<double>> make_inner_solver<double>(
    const LinearOperator<double>&, std::unique_ptr<Preconditioner<double>>, const InnerMethod&);

void check_inner_method(const InnerMethod& method, bool symmetric) {
  const auto solver = make_solver<double>(method.method, options_of_inner(method));
  if (solver->needs_symmetric_preconditioner() && !symmetric)
    throw BadArgument(fmt::format(
        "inner: method {} needs a symmetric preconditioner, and the one of its field is not; take another one, such as "
        "ic0 or amg, or method gmres",
        method.method));
}

}  // namespace protean::detail
