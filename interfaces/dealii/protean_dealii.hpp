// Protean with deal.II's SparseMatrix. Copy this header into a program that uses deal.II and links both
// libraries.
//
//   protean_dealii::SolverCG, SolverBicgstab, SolverGMRES
//                            instead of deal.II's: solver(control), then solve(A, x, b, preconditioner)
//   protean_dealii::Solver   solves many times with one matrix, which it may keep in another format
//
// How deal.II stores a matrix: SparsityPattern has 64-bit row pointers and (in builds without 64-bit indices)
// 32-bit columns; SparseMatrix has the values. This is compressed sparse rows with one difference: in a
// square matrix the first entry of each row is its diagonal, and only the others ascend.
//
//        | 1 . 2 . |     rowstart = 0 2 3 4 7
//    A = | . 3 . . |     colnums  = 0 2 | 1 | 2 | 3 0 1
//        | . . 0 . |     val      = 1 2 | 3 | 0 | 6 4 5
//        | 4 5 . 6 |
//
// How Protean uses it:
// - Format csr accepts rows in any order, so it computes on these three arrays in place. Nothing is copied, and
//   new values have effect at once. (The sum of each row begins with its diagonal.)
// - All other formats need ascending columns. The diagonal is moved to its place in a copy of columns and
//   values. The copy exists only while the format is built or gets new values: 12 bytes an entry, one pass.
// - rowstart and colnums are protected members since deal.II 9.4. If a class derived from SparsityPattern may
//   access them, they are used in place. Otherwise they are copied through the public iterators, once.
#pragma once
#include <deal.II/base/logstream.h>
#include <deal.II/lac/precondition.h>
#include <deal.II/lac/solver_control.h>
#include <deal.II/lac/sparse_matrix.h>
#include <deal.II/lac/sparsity_pattern.h>
#include <deal.II/lac/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <protean/protean.hpp>

namespace protean_dealii {

static_assert(sizeof(dealii::types::global_dof_index) == 4,
              "this header is for a deal.II with 32-bit indices");
static_assert(sizeof(std::size_t) == sizeof(std::int64_t));

namespace detail {

// The arrays of deal.II, if a derived class may access them.
template <class Pattern>
struct Arrays : Pattern {
  static constexpr bool reachable = requires { &Arrays::rowstart, &Arrays::colnums; };
  static const std::int64_t* row_ptr(const Pattern& p) {
    return reinterpret_cast<const std::int64_t*>((p.*&Arrays::rowstart).get());
  }
  static const std::int32_t* col(const Pattern& p) {
    return reinterpret_cast<const std::int32_t*>((p.*&Arrays::colnums).get());
  }
};

}  // namespace detail

// Copies of row pointers and columns, in the order of deal.II, made through its public interface.
struct PatternCopy {
  std::vector<std::int64_t> row_ptr{0};
  std::vector<std::int32_t> col;

  explicit PatternCopy(const dealii::SparsityPattern& pattern) {
    col.reserve(pattern.n_nonzero_elements());
    for (std::size_t r = 0; r < pattern.n_rows(); ++r) {
      for (auto entry = pattern.begin(static_cast<unsigned>(r));
           entry != pattern.end(static_cast<unsigned>(r)); ++entry)
        col.push_back(static_cast<std::int32_t>(entry->column()));
      row_ptr.push_back(static_cast<std::int64_t>(col.size()));
    }
  }
};

// A view of the arrays of A. A must be square, have a compressed pattern and outlive the view. The argument
// is not const because deal.II gives the address of a value in no other way; nothing is written.
inline protean::CsrMatrix<double> csr_view(dealii::SparseMatrix<double>& A) {
  const dealii::SparsityPattern& pattern = A.get_sparsity_pattern();
  if (!pattern.is_compressed() || A.m() != A.n() || A.m() == 0)
    throw protean::BadMatrix("csr_view wants a square matrix with a compressed pattern");
  const auto n = static_cast<std::int64_t>(A.m());
  const double* values = &A.diag_element(0);  // the first entry of the first row
  using Arrays = detail::Arrays<dealii::SparsityPattern>;
  if constexpr (Arrays::reachable) {
    return protean::csr_view<double>(n, n, Arrays::row_ptr(pattern), Arrays::col(pattern), values);
  } else {
    const auto copy = std::make_shared<PatternCopy>(pattern);
    auto view = protean::csr_view<double>(n, n, copy->row_ptr.data(), copy->col.data(), values);
    view.pattern.owner = copy;
    return view;
  }
}

// A copy with ascending columns: the diagonal is moved behind the columns that are smaller.
inline protean::CsrMatrix<double> sorted_copy(const protean::ContextPtr& context,
                                              const protean::CsrMatrix<double>& view) {
  protean::CsrBuilder<double> copy(context, view.rows(), view.cols(), view.nonzeros());
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    const std::int64_t begin = view.pattern.row_ptr[r], end = view.pattern.row_ptr[r + 1];
    std::int64_t k = begin;
    for (; k + 1 < end && view.pattern.col[k + 1] < r; ++k)
      copy.col()[k] = view.pattern.col[k + 1], copy.values()[k] = view.values[k + 1];
    copy.col()[k] = view.pattern.col[begin], copy.values()[k] = view.values[begin];
    for (++k; k < end; ++k) copy.col()[k] = view.pattern.col[k], copy.values()[k] = view.values[k];
    copy.set_row_ptr(r + 1, end);
  }
  return copy.freeze();
}

struct SolverOptions {
  std::string method = "cg";              // protean::solvers()
  std::string preconditioner = "jacobi";  // protean::preconditioners()
  protean::PreconditionerOptions preconditioning = {};
  std::string format = "csr";  // with its parameters; "auto" chooses one
  protean::FormatParams parameters = {};
  protean::SolverOptions solver = {};
};

// Solves with one matrix, like the direct solvers of deal.II: call initialize(), then solve() or vmult() any
// number of times.
class Solver {
 public:
  explicit Solver(protean::ContextPtr context, SolverOptions options = {})
      : context_(std::move(context)),
        options_(std::move(options)),
        solver_(protean::make_solver<double>(options_.method, options_.solver)) {}

  // A must exist as long as this solver is used.
  void initialize(dealii::SparseMatrix<double>& A) {
    preconditioner_.reset(), matrix_.reset();
    view_ = csr_view(A);
    in_place_ = options_.format != "auto" && protean::find_format(options_.format).traits.unsorted_rows;
    matrix_ = protean::make_matrix(options_.format, given(), context_, options_.parameters);
    preconditioner_ =
        protean::make_preconditioner(options_.preconditioner, *matrix_, options_.preconditioning);
    if (preconditioner_) preconditioner_->ensure(*matrix_);
  }

  // Call this when the matrix of initialize() has other values in the same pattern. For another pattern, which throws
  // ShapeMismatch, call initialize() again.
  void update_values() {
    require_matrix();
    matrix_->update_values(given());
    if (preconditioner_) preconditioner_->ensure(*matrix_);
  }

  // x is the initial guess. A solve that does not converge does not throw an exception; see the report.
  const protean::SolveReport& solve(dealii::Vector<double>& x, const dealii::Vector<double>& b) const {
    require_matrix();
    return report_ = solver_->solve(*matrix_, {b.begin(), static_cast<std::int64_t>(b.size())},
                                    {x.begin(), static_cast<std::int64_t>(x.size())}, preconditioner_.get());
  }
  // x := A^-1 b with initial guess 0, as deal.II needs it for an inverse or a preconditioner.
  void vmult(dealii::Vector<double>& x, const dealii::Vector<double>& b) const {
    x = 0;
    solve(x, b);
  }

  const protean::SolveReport& report() const { return report_; }
  const protean::AssembledMatrix<double>& matrix() const { return *matrix_; }

 private:
  protean::CsrMatrix<double> given() const { return in_place_ ? view_ : sorted_copy(context_, view_); }
  void require_matrix() const {
    if (!matrix_) throw protean::BadArgument("call initialize() first");
  }

  protean::ContextPtr context_;
  SolverOptions options_;
  std::unique_ptr<protean::Solver<double>> solver_;
  protean::CsrMatrix<double> view_;
  bool in_place_ = false;  // the format computes with rows in deal.II's order
  std::unique_ptr<protean::AssembledMatrix<double>> matrix_;
  std::unique_ptr<protean::Preconditioner<double>> preconditioner_;
  mutable protean::SolveReport report_;
};

namespace detail {

inline protean::VectorView<const double> view(const dealii::Vector<double>& v) {
  return {v.begin(), static_cast<std::int64_t>(v.size())};
}
inline protean::VectorView<double> view(dealii::Vector<double>& v) {
  return {v.begin(), static_cast<std::int64_t>(v.size())};
}

// y := F x by F.vmult(y, x). Vectors of deal.II cannot be views of other memory, so two vectors are copied.
template <class F>
protean::HostProductFunction<double> by_vmult(const F& f, std::size_t rows, std::size_t cols) {
  const auto in = std::make_shared<dealii::Vector<double>>(static_cast<unsigned>(cols));
  const auto out = std::make_shared<dealii::Vector<double>>(static_cast<unsigned>(rows));
  return [&f, in, out](const double* x, double* y) {
    std::copy(x, x + in->size(), in->begin());
    f.vmult(*out, *in);
    std::copy(out->begin(), out->end(), y);
  };
}

// Asks the control in each iteration, as the solvers of deal.II do.
class ControlObserver final : public protean::SolveObserver {
 public:
  ControlObserver(dealii::SolverControl& control, bool own_rule) : control_(control), own_rule_(own_rule) {}
  bool on_iteration(const protean::IterationInfo& info) override {
    state_ = control_.check(static_cast<unsigned>(info.iteration), info.residual);
    // The solve has the tolerances of a SolverControl or ReductionControl, and goes on until b - A x itself is small
    // enough. It ends if another class reports success.
    if (state_ == dealii::SolverControl::success) return !own_rule_;
    return state_ != dealii::SolverControl::failure;
  }
  dealii::SolverControl::State state() const { return state_; }

 private:
  dealii::SolverControl& control_;
  bool own_rule_;
  dealii::SolverControl::State state_ = dealii::SolverControl::iterate;
};

}  // namespace detail

// Takes the place of deal.II's solvers: the same constructor from a SolverControl, and solve(A, x, b, preconditioner).
//   A               a SparseMatrix<double> is used in place in format csr; other classes need m(), n() and vmult()
//   preconditioner  PreconditionIdentity, or any class with vmult() (its vectors are copied in and out). cg needs a
//                   symmetric one, as deal.II's does
//   x               initial guess and solution
// As in deal.II, control.check(step, ||r||) is asked in each iteration, with the 2-norm of the residual of the
// recurrence, so log_history, history data and derived classes work; last_step() and last_value() describe the returned
// x. With SolverControl and ReductionControl a solve has converged if b - A x itself, computed from x, is within the
// tolerance; deal.II trusts the recurrence, and its GMRES, which is left-preconditioned, takes the norm of M^-1 r by
// default. Throws SolverControl::NoConvergence as deal.II does, also for a breakdown; report() then has the reason.
class IterativeSolver {
 public:
  explicit IterativeSolver(dealii::SolverControl& control, std::string method,
                           protean::SolverOptions options = {},
                           protean::ContextPtr context = protean::Context::host())
      : control_(control),
        method_(std::move(method)),
        options_(std::move(options)),
        context_(std::move(context)) {}

  template <class Matrix, class Preconditioner>
  void solve(const Matrix& A, dealii::Vector<double>& x, const dealii::Vector<double>& b,
             const Preconditioner& preconditioner) {
    if constexpr (std::is_same_v<Matrix, dealii::SparseMatrix<double>>) {
      // Nothing is written: see csr_view().
      const auto csr = csr_view(const_cast<dealii::SparseMatrix<double>&>(A));
      const auto matrix = protean::make_matrix("csr", csr, context_);
      solve_with(*matrix, x, b, preconditioner);
    } else {
      const protean::CallbackOperator<double> matrix(
          context_, protean::Shape{static_cast<std::int64_t>(A.m()), static_cast<std::int64_t>(A.n())},
          detail::by_vmult(A, A.m(), A.n()), {"of deal.II"});
      solve_with(matrix, x, b, preconditioner);
    }
  }

  const protean::SolveReport& report() const { return report_; }

 private:
  template <class Preconditioner>
  void solve_with(const protean::LinearOperator<double>& A, dealii::Vector<double>& x,
                  const dealii::Vector<double>& b, const Preconditioner& preconditioner) {
    std::optional<protean::CallbackPreconditioner<double>> M;
    if constexpr (!std::is_same_v<Preconditioner, dealii::PreconditionIdentity>) {
      M.emplace(context_, A.shape(),
                [apply = detail::by_vmult(preconditioner, b.size(), b.size())](
                    const double* r, double* z, CUstream_st*) { apply(r, z); });
      M->ensure(A);
    }
    const dealii::LogStream::Prefix prefix(method_);
    protean::SolverOptions options = options_;
    protean::StoppingRule& rule = options.stopping;
    const auto* const reduction = dynamic_cast<const dealii::ReductionControl*>(&control_);
    rule.relative_tolerance = reduction ? reduction->reduction() : 0;
    rule.baseline = protean::Baseline::initial_residual;
    rule.absolute_tolerance = control_.tolerance();
    rule.max_iterations = control_.max_steps();
    const bool plain = typeid(control_) == typeid(dealii::SolverControl) || reduction;
    if (!plain) rule.absolute_tolerance = rule.relative_tolerance = 0;
    const auto solver = protean::make_solver<double>(method_, options);
    detail::ControlObserver observer(control_, !plain);
    report_ = solver->solve(A, detail::view(b), detail::view(x), M ? &*M : nullptr, &observer);
    const bool zero = report_.reason == protean::StopReason::zero_right_hand_side;
    const bool good = report_.converged() || (!plain && observer.state() == dealii::SolverControl::success);
    const double residual = zero ? 0 : report_.true_residual;
    if (plain) {
      // What the observer's last call has logged is not logged again.
      const bool logged = observer.state() == dealii::SolverControl::success;
      const bool result = control_.log_result(), history = control_.log_history();
      if (logged) control_.log_result(false), control_.log_history(false);
      (void)control_.check(static_cast<unsigned>(report_.iterations), residual);
      control_.log_result(result), control_.log_history(history);
    }
    if (!good)
      throw dealii::SolverControl::NoConvergence(static_cast<unsigned>(report_.iterations), residual);
  }

  dealii::SolverControl& control_;
  std::string method_;
  protean::SolverOptions options_;
  protean::ContextPtr context_;
  protean::SolveReport report_;
};

// The solvers under deal.II's names. The template argument is deal.II's; only Vector<double> is allowed.
template <class VectorType = dealii::Vector<double>>
class SolverCG : public IterativeSolver {
  static_assert(std::is_same_v<VectorType, dealii::Vector<double>>, "for Vector<double> only");

 public:
  explicit SolverCG(dealii::SolverControl& control, protean::SolverOptions options = {})
      : IterativeSolver(control, "cg", std::move(options)) {}
};
template <class VectorType = dealii::Vector<double>>
class SolverBicgstab : public IterativeSolver {
  static_assert(std::is_same_v<VectorType, dealii::Vector<double>>, "for Vector<double> only");

 public:
  explicit SolverBicgstab(dealii::SolverControl& control, protean::SolverOptions options = {})
      : IterativeSolver(control, "bicgstab", std::move(options)) {}
};
// Right-preconditioned; options.restart basis vectors.
template <class VectorType = dealii::Vector<double>>
class SolverGMRES : public IterativeSolver {
  static_assert(std::is_same_v<VectorType, dealii::Vector<double>>, "for Vector<double> only");

 public:
  explicit SolverGMRES(dealii::SolverControl& control, protean::SolverOptions options = {})
      : IterativeSolver(control, "gmres", std::move(options)) {}
};

}  // namespace protean_dealii
