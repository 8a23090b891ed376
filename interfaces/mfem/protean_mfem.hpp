// Protean with MFEM's interfaces. Copy this header into a program that uses MFEM 4 and links both libraries.
//
//   protean_mfem::Solver           an mfem::IterativeSolver: any method, with the operator of SetOperator()
//   protean_mfem::CGSolver, GMRESSolver, BiCGSTABSolver, CG(), PCG()
//                                  the same under MFEM's names and with MFEM's defaults
//   protean_mfem::ElementMatrices  an mfem::Operator on the element matrices of a BilinearForm, not assembled
//   protean_mfem::csr_view         the arrays of an mfem::SparseMatrix, not copied
//
// For serial MFEM with real_t = double and vectors in host memory. An object of MFEM must outlive the objects made from
// it.
#pragma once
#include <mfem.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <protean/protean.hpp>

namespace protean_mfem {

static_assert(std::is_same_v<mfem::real_t, double>, "this header is for an MFEM built in double precision");

// The arrays of MFEM: row pointers, columns and values. A must be finalised. MFEM does not sort the columns of a row.
// Format csr computes with rows in any order; all other formats need A.SortColumnIndices() first, which sorts in place.
inline protean::CsrMatrix<double> csr_view(const mfem::SparseMatrix& A) {
  if (!A.Finalized())
    throw protean::BadMatrix("the mfem::SparseMatrix is not finalised; call Finalize() first");
  return protean::csr_view<double>(A.Height(), A.Width(), A.HostReadI(), A.HostReadJ(), A.HostReadData());
}

inline protean::VectorView<const double> view(const mfem::Vector& v) { return {v.HostRead(), v.Size()}; }
inline protean::VectorView<double> view(mfem::Vector& v) { return {v.HostReadWrite(), v.Size()}; }

// y = A x with the element matrices of a form. Rows and columns of essential unknowns are rows and columns of the
// identity: the system of BilinearForm::FormLinearSystem() with DIAG_ONE, without its matrix. The form may have domain
// integrators on all elements only, and its space no hanging nodes, because element matrices alone cannot describe
// more.
//
// If all elements have one size and `symmetric` is true, Protean reads the element matrices of MFEM in place. Otherwise
// they are transposed into an array that exists during construction only (MFEM stores them by columns). In both cases
// Protean keeps its own copy, in the order that its products need. After the right-hand sides have been eliminated,
// FreeElementMatrices() of the form frees the copy of MFEM.
class ElementMatrices : public mfem::Operator {
 public:
  ElementMatrices(protean::ContextPtr context, mfem::BilinearForm& form, const mfem::Array<int>& essential,
                  bool symmetric, protean::ElementOptions options = {})
      : mfem::Operator(form.FESpace()->GetVSize()),
        form_(form),
        essential_(essential),
        symmetric_(symmetric) {
    refuse_what_is_not_in_element_matrices();
    const mfem::FiniteElementSpace& space = *form_.FESpace();
    mfem::Array<int> vdofs;
    bool signs = false;
    for (int e = 0; e < space.GetNE(); ++e) {
      if (space.GetElementVDofs(e, vdofs) != nullptr)
        throw protean::NotAvailable(
            "the unknowns of this space are transformed in each element, which element matrices alone do not "
            "tell");
      Group& group = groups_[vdofs.Size()];
      group.elements.push_back(e);
      for (const int dof : vdofs) {
        group.connectivity.push_back(dof < 0 ? -1 - dof : dof);
        signs = signs || dof < 0;
      }
    }
    in_place_ = symmetric_ && !signs && groups_.size() == 1;
    compute();
    const std::vector<std::int64_t> constrained(essential_.begin(), essential_.end());
    options.symmetric = symmetric_, options.constrained = constrained;
    options.constrained_rows = protean::ConstrainedRows::keep;
    with_matrices([&](auto groups) {
      operator_ = protean::make_element_operator<double>(std::move(context), height, groups, options);
    });
  }

  void Mult(const mfem::Vector& x, mfem::Vector& y) const override {
    y.SetSize(height);
    operator_->apply(view(x), protean::VectorView<double>{y.HostWrite(), y.Size()});
  }
  void AssembleDiagonal(mfem::Vector& d) const override {
    d.SetSize(height);
    operator_->diagonal(protean::VectorView<double>{d.HostWrite(), d.Size()});
  }

  // For new coefficients on the same mesh: the element matrices of MFEM are computed again.
  void Update() {
    compute();
    with_matrices([&](auto groups) { operator_->update_values(groups); });
  }

  // b := b - A x_e and b_e := x_e; x_e has the values of x at essential unknowns. FormLinearSystem() does the same to
  // the right-hand side.
  void EliminateRHS(const mfem::Vector& x, mfem::Vector& b) const {
    std::vector<bool> given(static_cast<std::size_t>(height), false);
    for (const int dof : essential_) given[dof] = true;
    const double* from = x.HostRead();
    double* to = b.HostReadWrite();
    mfem::DenseMatrix k;
    for_matrices([&](int e, const std::vector<int>& dofs, const std::vector<double>& sign) {
      bool touched = false;
      for (const int dof : dofs) touched = touched || (given[dof] && from[dof] != 0);
      if (!touched) return;
      form_.ComputeElementMatrix(e, k);
      for (std::size_t i = 0; i < dofs.size(); ++i)
        for (std::size_t j = 0; j < dofs.size(); ++j)
          if (given[dofs[j]])
            to[dofs[i]] -= sign[i] * sign[j] * k(static_cast<int>(i), static_cast<int>(j)) * from[dofs[j]];
    });
    for (const int dof : essential_) to[dof] = from[dof];
  }

  const protean::ElementOperator<double>& get() const { return *operator_; }

 private:
  struct Group {  // elements with the same number of unknowns
    std::vector<int> elements;
    std::vector<std::int32_t> connectivity;
  };

  // MFEM stores element matrices of one size only. For other meshes the integrators compute them one by one.
  void compute() {
    form_.FreeElementMatrices();
    if (groups_.size() == 1) form_.ComputeElementMatrices();
  }

  void refuse_what_is_not_in_element_matrices() {
    if (form_.GetBBFI()->Size() + form_.GetFBFI()->Size() + form_.GetBFBFI()->Size() > 0)
      throw protean::NotAvailable(
          "the form has integrators on boundaries or faces, which element matrices do not contain");
    for (const mfem::Array<int>* marker : *form_.GetDBFI_Marker())
      if (marker)
        throw protean::NotAvailable(
            "an integrator of the form is restricted to some attributes; MFEM's element matrices are not");
    if (form_.GetAssemblyLevel() != mfem::AssemblyLevel::LEGACY)
      throw protean::BadArgument(
          "leave the form's assembly level as it is: the integrators' own element matrices "
          "are in the order of GetElementVDofs()");
    if (form_.FESpace()->GetConformingProlongation())
      throw protean::NotAvailable(
          "the space has hanging nodes; its operator is P' A P, and element matrices give A");
  }

  template <class F>
  void for_matrices(F f) const {
    mfem::Array<int> vdofs;
    std::vector<int> dofs;
    std::vector<double> sign;
    for (const auto& item : groups_)
      for (const int e : item.second.elements) {
        form_.FESpace()->GetElementVDofs(e, vdofs);
        dofs.clear(), sign.clear();
        for (const int dof : vdofs)
          dofs.push_back(dof < 0 ? -1 - dof : dof), sign.push_back(dof < 0 ? -1 : 1);
        f(e, dofs, sign);
      }
  }

  // Calls f with the groups in the form that Protean needs.
  template <class F>
  void with_matrices(F f) {
    std::vector<protean::ElementGroup<double>> groups;
    std::vector<std::vector<double>> rows;
    if (in_place_) {
      const mfem::DenseTensor& all = form_.GetElementMatrices();
      const Group& group = groups_.begin()->second;
      groups.push_back({static_cast<std::int64_t>(group.elements.size()),
                        groups_.begin()->first,
                        group.connectivity,
                        {all.HostRead(), static_cast<std::size_t>(all.TotalSize())}});
    } else {
      rows.resize(groups_.size());
      mfem::DenseMatrix k;
      for_matrices([&, next = std::size_t{0}, size = std::size_t{0}](
                       int e, const std::vector<int>& dofs, const std::vector<double>& sign) mutable {
        if (size != 0 && size != dofs.size()) ++next;
        size = dofs.size();
        form_.ComputeElementMatrix(e, k);
        for (std::size_t i = 0; i < size; ++i)
          for (std::size_t j = 0; j < size; ++j)
            rows[next].push_back(sign[i] * sign[j] * k(static_cast<int>(i), static_cast<int>(j)));
      });
      for (const auto& item : groups_) {
        const std::vector<double>& matrices = rows[groups.size()];
        groups.push_back({static_cast<std::int64_t>(item.second.elements.size()), item.first,
                          item.second.connectivity, matrices});
      }
    }
    f(std::span<const protean::ElementGroup<double>>(groups));
  }

  mfem::BilinearForm& form_;
  mfem::Array<int> essential_;
  bool symmetric_, in_place_ = false;
  std::map<int, Group> groups_;  // by number of unknowns
  std::unique_ptr<protean::ElementOperator<double>> operator_;
};

struct SolverOptions {
  std::string method = "cg";  // protean::solvers()
  std::string preconditioner =
      "jacobi";  // protean::preconditioners(); used unless SetPreconditioner() was called
  protean::PreconditionerOptions preconditioning = {};
  std::string format = "csr";  // for an mfem::SparseMatrix; "auto" chooses one
  protean::FormatParams parameters = {};
  // Its stopping.relative_tolerance, absolute_tolerance and max_iterations are the initial values of SetRelTol(),
  // SetAbsTol() and SetMaxIter().
  protean::SolverOptions solver = {.stopping = {.baseline = protean::Baseline::initial_residual}};
};

// Replaces mfem::CGSolver and others. SetOperator() accepts
//   mfem::SparseMatrix   format csr computes on the arrays of MFEM; the other formats are built from them
//   ElementMatrices      products with the element matrices
//   any mfem::Operator   products by its Mult(); jacobi calls its AssembleDiagonal()
// Call UpdateValues() if only the values of that operator have changed: it needs no new analysis and no new memory.
//
// MFEM's interface:
//   SetPreconditioner(M)   z := M^-1 r by M.Mult(), as in MFEM: before SetOperator(), which calls M.SetOperator(). It
//                          takes the place of the preconditioner by name. cg needs a symmetric one, as MFEM's does
//   SetRelTol, SetAbsTol   the solve has converged when
//                            ||b - A x|| <= rel_tol ||r0||  or  ||b - A x|| <= abs_tol
//                          in the 2-norm, with the residual computed from x and not by the recurrence. r0 is the
//                          initial residual, as in MFEM; it is b if iterative_mode is off. MFEM's cg takes the norm
//                          sqrt(r . M^-1 r) instead, and its GMRES the 2-norm of M^-1 r. So with a preconditioner the
//                          same number means another accuracy there: MFEM may stop earlier or later. The function PCG()
//                          takes squares of the tolerances, as MFEM's does. SolverOptions with stopping.baseline rhs:
//                          relative to b even if iterative_mode is on
//   SetMaxIter             as in MFEM
//   SetPrintLevel          -1 nothing, 0 a warning without convergence, 1 each iteration, 2 a summary, 3 first and last
//                          iteration. Norms are 2-norms of residuals; MFEM's cg prints their squares
//   GetNumIterations, GetConverged, GetInitialNorm, GetFinalNorm, GetFinalRelNorm
//                          results of the last Mult(); norms are 2-norms of b - A x
//   SetMonitor             refused by Mult(): a monitor of MFEM gets the residual vector in each iteration, which the
//                          methods here do not have. Use SetObserver() to watch a solve
class Solver : public mfem::IterativeSolver {
 public:
  explicit Solver(protean::ContextPtr context = protean::Context::host(), SolverOptions options = {})
      : context_(std::move(context)), options_(std::move(options)) {
    const protean::StoppingRule& rule = options_.solver.stopping;
    rel_tol = rule.relative_tolerance, abs_tol = rule.absolute_tolerance;
    max_iter = static_cast<int>(std::min<std::int64_t>(rule.max_iterations, std::numeric_limits<int>::max()));
    iterative_mode = false;
    make_solver();
  }

  void SetPreconditioner(mfem::Solver& preconditioner) override {
    mfem::IterativeSolver::SetPreconditioner(preconditioner);
    // If it comes after SetOperator(), it has an operator already, or gets it by its own SetOperator().
    if (operator_) make_preconditioner();
  }

  void SetOperator(const mfem::Operator& op) override {
    operator_ = nullptr, preconditioner_.reset(), callback_.reset(), matrix_.reset();
    mfem::IterativeSolver::SetOperator(op);  // sets the operator of the preconditioner, too
    source_ = &op;
    if (const auto* sparse = dynamic_cast<const mfem::SparseMatrix*>(&op)) {
      matrix_ = protean::make_matrix(options_.format, csr_view(*sparse), context_, options_.parameters);
      operator_ = matrix_.get();
    } else if (const auto* elements = dynamic_cast<const ElementMatrices*>(&op)) {
      operator_ = &elements->get();
    } else {
      callback_ = std::make_unique<protean::CallbackOperator<double>>(
          context_, protean::Shape{height, width}, [&op](const double* x, double* y) {
            const mfem::Vector from(const_cast<double*>(x), op.Width());
            mfem::Vector to(y, op.Height());
            op.Mult(from, to);
          });
      callback_->set_diagonal([&op](double* d, CUstream_st*) {
        mfem::Vector to(d, op.Height());
        op.AssembleDiagonal(to);
      });
      operator_ = callback_.get();
    }
    make_preconditioner();
  }

  // Call this when the operator of SetOperator() has other values in the same pattern (for ElementMatrices: after its
  // own Update()). For another pattern, which throws ShapeMismatch, call SetOperator() again. A preconditioner of MFEM
  // gets the new values by its own SetOperator().
  void UpdateValues() {
    if (!operator_) throw protean::BadArgument("UpdateValues() before SetOperator()");
    if (matrix_) matrix_->update_values(csr_view(static_cast<const mfem::SparseMatrix&>(*source_)));
    if (callback_) callback_->changed();
    if (preconditioner_) preconditioner_->ensure(*operator_);
  }

  // Called in each iteration; null: none. It must live as long as it is used.
  void SetObserver(protean::SolveObserver* observer) { observer_ = observer; }

  // x := A^-1 b. If iterative_mode is set, x is the initial guess, else the guess is 0. A solve that does not converge
  // does not throw an exception; see GetConverged() and report().
  void Mult(const mfem::Vector& b, mfem::Vector& x) const override {
    if (!operator_) throw protean::BadArgument("Mult() before SetOperator()");
    if (monitored(*this))
      throw protean::NotAvailable(
          "SetMonitor() and SetController() need vectors in each iteration that this solver does not have; "
          "use SetObserver()");
    if (!iterative_mode) x = 0.0;
    make_solver();
    Printer printer(print_options, observer_);
    report_ = solver_->solve(*operator_, view(b), view(x), preconditioner_.get(), &printer);
    final_iter = static_cast<int>(report_.iterations), converged = report_.converged();
    initial_norm = report_.initial_residual;
    final_norm = report_.reason == protean::StopReason::zero_right_hand_side ? 0 : report_.true_residual;
    printer.end(report_);
  }

  const protean::SolveReport& report() const { return report_; }
  const protean::LinearOperator<double>* get() const { return operator_; }

 protected:
  SolverOptions& options() { return options_; }

 private:
  // Prints as MFEM does at each level.
  class Printer final : public protean::SolveObserver {
   public:
    Printer(const PrintLevel& level, protean::SolveObserver* next) : level_(level), next_(next) {}
    bool on_iteration(const protean::IterationInfo& info) override {
      last_ = info;
      if (level_.iterations || (level_.first_and_last && info.iteration == 0)) print(info);
      return !next_ || next_->on_iteration(info);
    }
    std::int64_t next_stop() const noexcept override {
      return next_ ? next_->next_stop() : protean::SolveObserver::next_stop();
    }
    void end(const protean::SolveReport& report) const {
      if (level_.first_and_last && !level_.iterations && last_.iteration > 0) print(last_);
      if (level_.summary || level_.iterations || level_.first_and_last)
        mfem::out << "Protean: " << report.iterations << " iterations, ||b - A x|| = " << report.true_residual
                  << ", " << protean::to_string(report.reason) << '\n';
      if (level_.warnings && !report.converged())
        mfem::out << "Protean: No convergence! " << report.advice << '\n';
    }

   private:
    static void print(const protean::IterationInfo& info) {
      char text[100];
      std::snprintf(text, sizeof text, "   Iteration : %3lld  ||r|| = %g\n",
                    static_cast<long long>(info.iteration), info.residual);
      mfem::out << text;
    }
    const PrintLevel& level_;
    protean::SolveObserver* next_;
    protean::IterationInfo last_;
  };

  // The member is `controller` since MFEM 4.8, `monitor` before.
  template <class Self>
  static bool monitored(const Self& self) {
    if constexpr (requires { self.controller; })
      return self.controller != nullptr;
    else
      return self.monitor != nullptr;
  }

  // Makes the solver for the present tolerances.
  void make_solver() const {
    protean::SolverOptions wanted = options_.solver;
    wanted.stopping.relative_tolerance = rel_tol, wanted.stopping.absolute_tolerance = abs_tol;
    wanted.stopping.max_iterations = max_iter;
    if (!solver_ || solver_->name() != options_.method || !same(wanted, solver_->options()))
      solver_ = protean::make_solver<double>(options_.method, wanted);
  }
  static bool same(const protean::SolverOptions& a, const protean::SolverOptions& b) {
    return a.stopping.relative_tolerance == b.stopping.relative_tolerance &&
           a.stopping.absolute_tolerance == b.stopping.absolute_tolerance &&
           a.stopping.max_iterations == b.stopping.max_iterations && a.restart == b.restart;
  }

  void make_preconditioner() {
    preconditioner_.reset();
    if (prec)
      preconditioner_ = std::make_unique<protean::CallbackPreconditioner<double>>(
          context_, protean::Shape{height, width},
          [M = prec, n = height](const double* r, double* z, CUstream_st*) {
            const mfem::Vector from(const_cast<double*>(r), n);
            mfem::Vector to(z, n);
            M->Mult(from, to);
          });
    else
      preconditioner_ =
          protean::make_preconditioner(options_.preconditioner, *operator_, options_.preconditioning);
    if (preconditioner_) preconditioner_->ensure(*operator_);
  }

  protean::ContextPtr context_;
  SolverOptions options_;
  mutable std::unique_ptr<protean::Solver<double>> solver_;
  protean::SolveObserver* observer_ = nullptr;
  const mfem::Operator* source_ = nullptr;
  std::unique_ptr<protean::AssembledMatrix<double>> matrix_;
  std::unique_ptr<protean::CallbackOperator<double>> callback_;
  const protean::LinearOperator<double>* operator_ = nullptr;
  std::unique_ptr<protean::Preconditioner<double>> preconditioner_;
  mutable protean::SolveReport report_;
};

namespace detail {
// MFEM's defaults: no preconditioner, tolerances 0, 10 iterations.
inline SolverOptions as_mfem(std::string method) {
  SolverOptions options;
  options.method = std::move(method), options.preconditioner = "none";
  options.solver.stopping.relative_tolerance = 0;
  options.solver.stopping.max_iterations = 10;
  return options;
}
}  // namespace detail

// The solvers with MFEM's names and defaults, on the host with all threads: in a program of MFEM only the name changes.
// As in MFEM, iterative_mode is on.
class CGSolver : public Solver {
 public:
  CGSolver() : Solver(protean::Context::host(), detail::as_mfem("cg")) { iterative_mode = true; }
};
class BiCGSTABSolver : public Solver {
 public:
  BiCGSTABSolver() : Solver(protean::Context::host(), detail::as_mfem("bicgstab")) { iterative_mode = true; }
};
// Right-preconditioned, so it reduces the residual b - A x itself; MFEM's GMRES is left-preconditioned.
class GMRESSolver : public Solver {
 public:
  GMRESSolver() : Solver(protean::Context::host(), detail::as_mfem("gmres")) {
    SetKDim(50);
    iterative_mode = true;
  }
  void SetKDim(int dim) { options().solver.restart = dim; }
};

// mfem::CG() and mfem::PCG() with the solver here: RTOLERANCE and ATOLERANCE are squares of the tolerances, as in MFEM.
inline void PCG(const mfem::Operator& A, mfem::Solver& B, const mfem::Vector& b, mfem::Vector& x,
                int print_iter = 0, int max_num_iter = 1000, double RTOLERANCE = 1e-12,
                double ATOLERANCE = 1e-24) {
  CGSolver solver;
  solver.SetPrintLevel(print_iter);
  solver.SetMaxIter(max_num_iter);
  solver.SetRelTol(std::sqrt(RTOLERANCE));
  solver.SetAbsTol(std::sqrt(ATOLERANCE));
  solver.SetOperator(A);
  solver.SetPreconditioner(B);  // B has its operator already
  solver.Mult(b, x);
}

inline void CG(const mfem::Operator& A, const mfem::Vector& b, mfem::Vector& x, int print_iter = 0,
               int max_num_iter = 1000, double RTOLERANCE = 1e-12, double ATOLERANCE = 1e-24) {
  CGSolver solver;
  solver.SetPrintLevel(print_iter);
  solver.SetMaxIter(max_num_iter);
  solver.SetRelTol(std::sqrt(RTOLERANCE));
  solver.SetAbsTol(std::sqrt(ATOLERANCE));
  solver.SetOperator(A);
  solver.Mult(b, x);
}

}  // namespace protean_mfem
