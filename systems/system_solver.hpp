// The solver of linear systems: method, preconditioner, schedule or policy by their settings.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/core/multi_vector.hpp>
#include <protean/core/vector.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/preconditioners/preconditioner.hpp>
#include <protean/solvers/multi_solver.hpp>
#include <protean/solvers/solver.hpp>
#include <protean/systems/settings.hpp>
#include <protean/systems/system_matrix.hpp>

namespace PROTEAN_EXPORT protean {
template <class T>
class LinearSystem;
namespace PROTEAN_HIDDEN detail {
struct MethodChoice;
struct PreconditionerTraits;
class PreconditionerChoice;
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
  // with the same options. A preconditioner auto starts again with another method, since it has measured the old
  // method. Throws what check() throws, and BadArgument for a method that cannot use the null space; then nothing has
  // changed.
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
  // solve: limits, initial residual, iteration numbers, events and seconds (including the setup) cover all of it. The
  // same holds for a solve in which method auto or preconditioner auto changes.
  SolveResult solve(SystemMatrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                    SolveObserver* observer = nullptr);
  // Solves A X = B for all columns at the same time (MultiSolver). rules: one for each column, or empty for
  // settings().solver.stopping. What breaks down in one column because of the matrix or the preconditioner, which all
  // share, is mended for all columns that have not ended: with a preconditioner of the present values, another one of
  // type auto, or another method of method auto. A schedule takes the relative residual of the column that has furthest
  // to go, and the iteration of the column with the most. The policy, method auto and preconditioner auto forecast the
  // iterations of the column that is furthest from its tolerance, and reckon with products of all columns that have not
  // ended. Throws BadArgument for settings().observer, which is for one right-hand side.
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
  class PROTEAN_HIDDEN Run;        // one solve, in parts
  class PROTEAN_HIDDEN OneRun;
  class PROTEAN_HIDDEN ColumnsRun;
  void stage(std::string_view what) const;
  PROTEAN_HIDDEN static bool has_policy(const SolveSettings& settings, const SystemMatrix<T>& matrix);
  SolveForecast forecast(const SystemMatrix<T>& matrix, std::int64_t columns) const;
  PROTEAN_HIDDEN void name_method() noexcept;
  PROTEAN_HIDDEN void look_at_matrix(const SystemMatrix<T>& matrix);
  PROTEAN_HIDDEN void choose_method(const SystemMatrix<T>& matrix);
  PROTEAN_HIDDEN void take_method(detail::MethodChoice choice);
  PROTEAN_HIDDEN void make_method(std::int64_t columns);
  PROTEAN_HIDDEN detail::PreconditionerTraits preconditioner_traits() const;
  PROTEAN_HIDDEN SolverOptions options_of_method() const;
  PROTEAN_HIDDEN bool has_null_space() const noexcept;
  PROTEAN_HIDDEN const Preconditioner<T>* used_preconditioner() const noexcept;
  Changes set_up_matrix(SystemMatrix<T>& matrix, std::int64_t columns);
  // again: a solve has broken down with it. Return the seconds.
  PROTEAN_HIDDEN double set_up_preconditioner(SystemMatrix<T>& matrix, bool again = false);
  // Sets up the preconditioner unless set_up() was ended, and returns the rules of all columns with what is left of the
  // time: the setup counts.
  PROTEAN_HIDDEN std::vector<StoppingRule> set_up_within(SystemMatrix<T>& matrix,
                                                         std::vector<StoppingRule> rules);
  PROTEAN_HIDDEN void explain_setup(SolveReport& report, StopReason ended) const;
  PROTEAN_HIDDEN void renew_preconditioner(const LinearOperator<T>& A, bool again);
  PROTEAN_HIDDEN void choose_preconditioner(const LinearOperator<T>& A);
  PROTEAN_HIDDEN void ensure_preconditioner(const LinearOperator<T>& A);
  PROTEAN_HIDDEN void measure_application(const LinearOperator<T>& A);
  PROTEAN_HIDDEN Refresh refresh() const;
  PROTEAN_HIDDEN bool has_old_preconditioner(const LinearOperator<T>& A) const;
  // Of the policy for the present solve; columns: of several right-hand sides, else 0.
  PROTEAN_HIDDEN AutoSwitchOptions options_of_policy(SystemMatrix<T>& matrix, const StoppingRule& rule,
                                                     std::int64_t columns = 0) const;
  // Why the policy may not round values in a solve for so many right-hand sides; empty: it may.
  PROTEAN_HIDDEN std::string no_rounding(const SystemMatrix<T>& matrix, std::int64_t columns) const;
  PROTEAN_HIDDEN detail::PreconditionerChoice new_choice(const LinearOperator<T>& A) const;
  PROTEAN_HIDDEN PreconditionerOptions preconditioner_options() const;
  PROTEAN_HIDDEN std::string storage_reason() const;
  PROTEAN_HIDDEN bool is_still_symmetric(const SystemMatrix<T>& matrix);
  PROTEAN_HIDDEN void describe(SystemMatrix<T>& matrix, SolveOutcome& result);
  PROTEAN_HIDDEN void remember(std::span<const SolveReport> columns, double seconds, bool renewed,
                               bool changed);
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
  // While it lives the solver is solving.
  class Busy {
   public:
    explicit Busy(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
    ~Busy() { flag_ = false; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    std::atomic<bool>& flag_;
  };
  // Seconds of stages that the next result has.
  struct Before {
    double check = 0, order = 0, convert = 0, setup = 0;
  } before_;
};

}  // namespace protean
