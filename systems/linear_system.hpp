// A linear system that is solved again and again: matrix, format, order, preconditioner and solver are kept.
//
//   protean::LinearSystem<double> system(csr, {.method = "cg", .preconditioner = "ic0", .policy = "auto"});
//   for (...) {                            // Newton, time steps
//     system.update_values(new_values);   // the same pattern
//     system.solve({b, n}, {x, n});       // x: the guess on entry
//   }
#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include <protean/core/arrays.hpp>
#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/core/vector.hpp>
#include <protean/systems/settings.hpp>

namespace PROTEAN_EXPORT protean {
// Programs that use one of these include its header, or protean.hpp.
template <class T>
class ElementOperator;  // operators/elements/element_operator.hpp
template <class T>
struct ElementGroup;
template <class T>
class LinearOperator;  // operators/linear_operator.hpp
template <class T>
class SystemMatrix;  // systems/system_matrix.hpp
template <class T>
class SystemSolver;  // systems/system_solver.hpp

// A matrix with its solver (SystemMatrix, SystemSolver), which is what most programs need.
template <class T>
class LinearSystem {
 public:
  // csr: the caller's arrays, in the space of settings.context or in host memory (SystemMatrix). The constructor checks
  // the arrays; the first solve or set_up() does all other work. Throws what SystemMatrix and check() throw.
  explicit LinearSystem(CsrMatrix<T> csr, SolveSettings settings = {});
  // Element matrices. The solve begins with them. A policy assembles them during the solve if that pays, a schedule at
  // its points.
  explicit LinearSystem(std::unique_ptr<ElementOperator<T>> elements, SolveSettings settings = {});
  // Any operator. The caller may keep a share of it. It has no format, order, policy or schedule. Its own function
  // announces a change, such as CallbackOperator::changed().
  explicit LinearSystem(std::shared_ptr<LinearOperator<T>> A, SolveSettings settings = {});
  // A system can be moved between two solves, also into a std::vector and out of a function. What it has made, and
  // A(), matrix() and solver(), stay where they are in memory. All other calls of a system that was moved from throw
  // BadArgument.
  LinearSystem(LinearSystem&&) noexcept;
  LinearSystem& operator=(LinearSystem&&) noexcept;
  ~LinearSystem();

  // Gives later solves new values of the same pattern, in the order of the CSR arrays, in the memory of the first ones.
  // Throws BadArgument while a solve is running; an observer changes the matrix of its solve by
  // matrix().update_values().
  void update_values(const T* values);
  void update_values(const CsrMatrix<T>& csr);
  void update_values(std::span<const ElementGroup<T>> groups);
  // The same for an array in host memory that knows its length. Throws ShapeMismatch for another number of entries.
  template <HostArray Values>
  requires std::is_same_v<detail::EntryOf<Values>, T>
  void update_values(const Values& values) {
    require_entries(static_cast<std::int64_t>(values.size()));
    update_values(static_cast<const T*>(values.data()));
  }

  void set_up(std::int64_t columns = 1);
  SolveResult solve(VectorView<const T> b, VectorView<T> x, SolveObserver* observer = nullptr);
  // The same for arrays in host memory that know their lengths.
  template <HostArray B, HostArray X>
  requires std::is_same_v<detail::EntryOf<B>, T> SolveResult solve(const B& b, X&& x,
                                                                   SolveObserver* observer = nullptr) {
    return solve(VectorView<const T>(detail::read_view(b)), VectorView<T>(detail::write_view(x)), observer);
  }
  MultiSolveResult multi_solve(MultiVectorView<const T> B, MultiVectorView<T> X,
                               MultiSolveObserver* observer = nullptr,
                               std::span<const StoppingRule> rules = {});

  // Sets all settings of later solves. If it throws, nothing has changed. A format or order by name that a schedule or
  // a policy has left is made again, unless a policy decides in the new settings, too. Context and check_arrays stay as
  // in the constructor (BadArgument for others; an empty context means the same one). Throws what SystemSolver::set(),
  // SystemMatrix::set_format() and set_order() throw.
  void set(const SolveSettings& settings);
  const SolveSettings& settings() const;
  const LinearOperator<T>& A() const;
  SystemMatrix<T>& matrix();
  SystemSolver<T>& solver();

  // Some lines for a person: size, method, preconditioner, format, order and memory as they are now, with the reasons
  // for what was chosen. operator<< writes the same.
  std::string describe() const;

 private:
  struct PROTEAN_HIDDEN Parts;
  PROTEAN_HIDDEN Parts& parts() const;
  PROTEAN_HIDDEN void require_context(const ContextPtr& wanted) const;
  PROTEAN_HIDDEN void begin();
  void require_entries(std::int64_t values) const;

  std::unique_ptr<Parts> parts_;  // null after a move
};

template <class T>
PROTEAN_EXPORT std::ostream& operator<<(std::ostream& out, const LinearSystem<T>& system);

// Solves A x = b in one call, by a LinearSystem for this solve alone; keep a LinearSystem to solve again with the same
// matrix. csr lies in the space of the context or in host memory, b and x in the space of the context; csr and b are
// only read. x is the initial guess on entry and the solution on return. T: float, double.
//
// Numerical trouble is not an exception: the report has the reason. Throws BadArgument for unknown names (with the
// nearest one), options out of range, and a policy with a schedule; NotAvailable for an order that is not in this
// build; BadMatrix for arrays that are not a matrix, and for unsorted rows if a format, an order, the policy or a
// schedule needs sorted ones; otherwise what put_in_order(), make_matrix(), Preconditioner::ensure() and
// Solver::solve() throw. x is unchanged if it throws before the first iteration.
template <class T>
PROTEAN_EXPORT SolveResult solve(const CsrMatrix<T>& csr, std::type_identity_t<VectorView<const T>> b,
                                 std::type_identity_t<VectorView<T>> x, const SolveSettings& settings = {});
// The same for arrays in host memory that know their lengths, such as std::vector.
template <class T, HostArray B, HostArray X>
SolveResult solve(const CsrMatrix<T>& csr, const B& b, X&& x, const SolveSettings& settings = {}) {
  return solve<T>(csr, VectorView<const T>(detail::read_view(b)), VectorView<T>(detail::write_view(x)),
                  settings);
}

// Solves A X = B for all columns of B at the same time (MultiSolver). Each iteration reads the matrix once for all
// columns if the format has a product with several vectors (HasMultiProduct); report.product says so. B and X lie in
// the space of the context, in any layouts. X holds initial guesses on entry and the solutions on return. rules: a
// stopping rule for each column, or empty for settings.solver.stopping. A format "auto" that is chosen before the solve
// is csr if the format that solve() would take has no product with several vectors.
//
//   std::vector<double> B(n * k), X(n * k);   // one right-hand side after another, as in Fortran
//   MultiSolveResult done = multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n});
//
// Throws what solve() and MultiSolver throw, and BadArgument for settings.observer, which is for one right-hand side
// (LinearSystem::multi_solve() has an observer for columns).
template <class T>
PROTEAN_EXPORT MultiSolveResult multi_solve(const CsrMatrix<T>& csr,
                                            std::type_identity_t<MultiVectorView<const T>> B,
                                            std::type_identity_t<MultiVectorView<T>> X,
                                            const SolveSettings& settings = {},
                                            std::span<const StoppingRule> rules = {});

}  // namespace protean
