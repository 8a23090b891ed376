// A linear system that is solved again and again: matrix, format, order, preconditioner and solver are kept.
//
//   protean::LinearSystem<double> system(csr, {.method = "cg", .preconditioner = "ic0", .policy = true});
//   for (...) {                            // Newton, time steps
//     system.update_values(new_values);   // the same pattern
//     system.solve({b, n}, {x, n});       // x: the guess on entry
//   }
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <protean/core/arrays.hpp>
#include <protean/core/export.hpp>
#include <protean/systems/settings.hpp>
#include <protean/systems/system_matrix.hpp>

namespace PROTEAN_EXPORT protean {
template <class T>
class LinearSystem;
namespace PROTEAN_HIDDEN detail {
class Numbered;
class NumberedColumns;
struct MethodChoice;
}  // namespace detail

// Solves linear systems by its settings: method, preconditioner, schedule or policy. It keeps the workspace of the
// solver and the preconditioner of the last matrix. Two threads must not use one object at the same time, and functions
// of the caller that a solve calls, such as its observer, must not call it: BadArgument, and the solve goes on.
template <class T>
class SystemSolver {
 public:
  // Throws what check() throws.
  explicit SystemSolver(SolveSettings settings = {});
  ~SystemSolver();
  SystemSolver(const SystemSolver&) = delete;
  SystemSolver& operator=(const SystemSolver&) = delete;

  // Sets the settings of later solves. Parts that the new settings do not change are kept, such as a preconditioner
  // with the same options. A preconditioner auto begins anew with another method, since its measurements were of the
  // old method. Throws what check() throws, and BadArgument for a method that cannot use the null space; then nothing
  // has changed.
  void set(SolveSettings settings);
  const SolveSettings& settings() const noexcept { return settings_; }
  // Later solves use a preconditioner that the caller makes instead of the one that settings() names. An empty maker
  // goes back to the named one.
  using Maker = std::function<std::unique_ptr<Preconditioner<T>>(const LinearOperator<T>& A)>;
  void set_preconditioner(Maker maker);
  // Solver::set_null_space() for later solves, also with several columns. Throws BadArgument for a method that cannot
  // use a null space.
  void set_null_space(VectorBlock<const T> N);

  // Prepares a solve: makes the order, the format and the preconditioner unless they are ready. solve() does so by
  // itself. columns: the number of right-hand sides. The setup of the preconditioner ends when it has taken
  // max_seconds; the next solve then ends at once with StopReason::time_limit.
  void set_up(SystemMatrix<T>& matrix, std::int64_t columns = 1);
  // Solves A x = b. x holds the initial guess on entry and the solution on return. b and x lie in the space of the
  // context. max_seconds covers the setup of the preconditioner and the iterations together: if the setup takes them, x
  // is the guess, and the report says so. Throws what set_up() and Solver::solve() throw. x is unchanged if it throws
  // before the first iteration.
  //
  // A solve that breaks down with a preconditioner of older values sets it up and goes on from its x. It remains one
  // solve: limits, initial residual, iteration numbers, events and seconds, those of the setup included, cover all of
  // it.
  SolveResult solve(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                    SolveObserver* observer = nullptr);
  // Solves A X = B for all columns at the same time (MultiSolver). rules: one for each column, or empty for
  // settings().solver.stopping. If a preconditioner of older values breaks down in one column, all columns that have
  // not ended go on with a new one. Throws BadArgument for settings that are for one right-hand side only: a policy, a
  // schedule, settings().observer.
  MultiSolveResult multi_solve(SystemMatrix<T>& matrix, MultiVectorView<const T> B, MultiVectorView<T> X,
                               MultiSolveObserver* observer = nullptr,
                               std::span<const StoppingRule> rules = {});
  // The method of the last solve or set_up(): the method of settings(), or the one that `auto` took, and why.
  const std::string& method() const noexcept { return method_; }
  const std::string& method_reason() const noexcept { return method_reason_; }
  // The preconditioner of the last solve; null if there was none. A preconditioner auto has the figures of the chosen
  // one.
  const Preconditioner<T>* preconditioner() const noexcept { return M_.get(); }

 private:
  enum class Changes : unsigned char { none, policy, schedule };  // of the matrix in a solve
  struct PROTEAN_HIDDEN Sequence;  // what earlier solves of the present matrix took
  void stage(std::string_view what) const;
  PROTEAN_HIDDEN static bool has_policy(const SolveSettings& settings, const SystemMatrix<T>& matrix);
  SolveForecast forecast(const SystemMatrix<T>& matrix, std::int64_t columns) const;
  PROTEAN_HIDDEN void name_method() noexcept;
  PROTEAN_HIDDEN void choose_method(const SystemMatrix<T>& matrix, std::int64_t columns);
  PROTEAN_HIDDEN void take_method(detail::MethodChoice choice);
  PROTEAN_HIDDEN std::string_view unsymmetric_preconditioner() const;
  PROTEAN_HIDDEN SolverOptions options_of_method() const;
  PROTEAN_HIDDEN const Preconditioner<T>* used_preconditioner() const noexcept;
  Changes set_up_matrix(SystemMatrix<T>& matrix, std::int64_t columns);
  // again: a solve has broken down with it. Return the seconds.
  PROTEAN_HIDDEN double set_up_preconditioner(SystemMatrix<T>& matrix, bool again = false);
  // The report of a solve for which the setup has left no time, or that was interrupted: it has the residual of the
  // guess.
  PROTEAN_HIDDEN SolveReport not_begun(const LinearOperator<T>& A, VectorView<const T> b, VectorView<T> x);
  PROTEAN_HIDDEN void explain_setup(SolveReport& report, StopReason ended) const;
  PROTEAN_HIDDEN void renew_preconditioner(const LinearOperator<T>& A, bool again);
  PROTEAN_HIDDEN void choose_preconditioner(const LinearOperator<T>& A);
  PROTEAN_HIDDEN void ensure_preconditioner(const LinearOperator<T>& A);
  PROTEAN_HIDDEN void measure_application(const LinearOperator<T>& A);
  PROTEAN_HIDDEN Refresh refresh() const;
  PROTEAN_HIDDEN bool has_old_preconditioner(const LinearOperator<T>& A) const;
  PROTEAN_HIDDEN SolveReport run(Solver<T>& solver, SystemMatrix<T>& matrix, VectorView<const T> b,
                                 VectorView<T> x, detail::Numbered& observer, Changes changes,
                                 SolveResult& result);
  PROTEAN_HIDDEN double go_on(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                              detail::Numbered& observer, Changes changes, SolveResult& result);
  PROTEAN_HIDDEN double go_on(SystemMatrix<T>& matrix, MultiVectorView<const T> B, MultiVectorView<T> X,
                              detail::NumberedColumns& observer, std::span<const StoppingRule> rules,
                              MultiSolveReport& report);
  template <class Result>
  void describe(SystemMatrix<T>& matrix, Result& result);
  PROTEAN_HIDDEN void remember(std::span<const SolveReport> columns, double seconds, bool renewed);
  PROTEAN_HIDDEN void require_idle(std::string_view what) const;
  PROTEAN_HIDDEN void require(const SolveSettings& settings) const;
  PROTEAN_HIDDEN void take(SolveSettings&& settings) noexcept;
  friend class LinearSystem<T>;

  SolveSettings settings_;
  std::string method_, method_reason_;  // method_: from settings_, or what auto took
  Maker maker_;
  VectorBlock<const T> null_space_;
  std::unique_ptr<Solver<T>> solver_;
  std::unique_ptr<MultiSolver<T>> multi_solver_;
  std::unique_ptr<Preconditioner<T>> M_;
  std::unique_ptr<Sequence> sequence_;
  std::atomic<bool> busy_{false};
  // Seconds of stages that the next result has.
  struct Before {
    double check = 0, order = 0, convert = 0, setup = 0;
  } before_;
};

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

// Solves A X = B for all columns of B at the same time (MultiSolver: methods cg, bicgstab and gmres). Each iteration
// reads the matrix once for all columns if the format has a product with several vectors (HasMultiProduct);
// report.product says so. B and X lie in the space of the context, in any layouts. X holds initial guesses on entry and
// the solutions on return. rules: a stopping rule for each column, or empty for settings.solver.stopping. format "auto"
// is csr if the format that solve() would take has no product with several vectors.
//
//   std::vector<double> B(n * k), X(n * k);   // one right-hand side after another, as in Fortran
//   MultiSolveResult done = multi_solve(csr, {B.data(), n, k, n}, {X.data(), n, k, n});
//
// Throws what solve() and MultiSolver throw, and BadArgument for settings that are not for several right-hand sides:
// policy, schedule, observer (LinearSystem::multi_solve() has an observer for columns).
template <class T>
PROTEAN_EXPORT MultiSolveResult multi_solve(const CsrMatrix<T>& csr,
                                            std::type_identity_t<MultiVectorView<const T>> B,
                                            std::type_identity_t<MultiVectorView<T>> X,
                                            const SolveSettings& settings = {},
                                            std::span<const StoppingRule> rules = {});

}  // namespace protean
