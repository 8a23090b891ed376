// Protean with MFEM's interfaces. Copy this header into a program that uses MFEM 4 and links both libraries.
//
//   protean_mfem::Solver           an mfem::Solver: cg, bicgstab or gmres with the operator of SetOperator()
//   protean_mfem::ElementMatrices  an mfem::Operator on the element matrices of a BilinearForm, not assembled
//   protean_mfem::csr_view         the arrays of an mfem::SparseMatrix, not copied
//
// For serial MFEM with real_t = double and vectors in host memory. An object of MFEM must outlive the objects
// made from it.
#pragma once
#include <mfem.hpp>

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

// The arrays of MFEM: row pointers, columns and values. A must be finalised. MFEM does not sort the columns
// of a row. Format csr computes with rows in any order; all other formats need A.SortColumnIndices() first,
// which sorts in place.
inline protean::CsrMatrix<double> csr_view(const mfem::SparseMatrix& A) {
  if (!A.Finalized())
    throw protean::BadMatrix("the mfem::SparseMatrix is not finalised; call Finalize() first");
  return protean::csr_view<double>(A.Height(), A.Width(), A.HostReadI(), A.HostReadJ(), A.HostReadData());
}

inline protean::VectorView<const double> view(const mfem::Vector& v) { return {v.HostRead(), v.Size()}; }
inline protean::VectorView<double> view(mfem::Vector& v) { return {v.HostReadWrite(), v.Size()}; }

// y = A x with the element matrices of a form. Rows and columns of essential unknowns are those of the
// identity: the system of BilinearForm::FormLinearSystem() with DIAG_ONE, without its matrix. The form may
// have domain integrators on all elements only, and its space no hanging nodes, because element matrices
// alone cannot describe more.
//
// If all elements have one size and `symmetric` is true, Protean reads the element matrices of MFEM in place.
// Otherwise they are transposed into an array that exists during construction only (MFEM stores them by
// columns). In both cases Protean keeps its own copy, in the order that its products need. When the
// right-hand sides have been eliminated, FreeElementMatrices() of the form frees the copy of MFEM.
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

  // b := b - A x_e and b_e := x_e, where x_e has the values of x at essential unknowns. FormLinearSystem()
  // does the same to the right-hand side.
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
  std::string method = "cg";              // cg, bicgstab, gmres
  std::string preconditioner = "jacobi";  // none, jacobi
  std::string format = "csr";             // for an mfem::SparseMatrix; with its parameters
  protean::FormatParams parameters = {};
  protean::SolverOptions solver = {};
};

// Replaces mfem::CGSolver and others. SetOperator() accepts
//   mfem::SparseMatrix   format csr computes on the arrays of MFEM; the other formats are built from them
//   ElementMatrices      products with the element matrices
//   any mfem::Operator   products by its Mult(); jacobi calls its AssembleDiagonal()
// If only the values of that operator have changed, call UpdateValues(): it needs no new analysis and no new
// memory.
class Solver : public mfem::Solver {
 public:
  explicit Solver(protean::ContextPtr context, SolverOptions options = {})
      : context_(std::move(context)),
        options_(std::move(options)),
        solver_(protean::make_solver<double>(options_.method, options_.solver)) {}

  void SetOperator(const mfem::Operator& op) override {
    operator_ = nullptr, preconditioner_.reset(), callback_.reset(), matrix_.reset();
    height = op.Height(), width = op.Width(), source_ = &op;
    if (const auto* sparse = dynamic_cast<const mfem::SparseMatrix*>(&op)) {
      matrix_ = protean::make_matrix(protean::find_format(options_.format), csr_view(*sparse), context_,
                                     options_.parameters);
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
    preconditioner_ = protean::make_preconditioner(options_.preconditioner, *operator_);
    if (preconditioner_) preconditioner_->ensure(*operator_);
  }

  // Call this when the operator of SetOperator() has other values in the same pattern (for ElementMatrices:
  // after its own Update()).
  void UpdateValues() {
    if (!operator_) throw protean::BadArgument("UpdateValues() before SetOperator()");
    if (matrix_) matrix_->update_values(csr_view(static_cast<const mfem::SparseMatrix&>(*source_)));
    if (callback_) callback_->changed();
    if (preconditioner_) preconditioner_->ensure(*operator_);
  }

  // x := A^-1 b. If iterative_mode is set, x is the initial guess, as in the solvers of MFEM. A solve that
  // does not converge throws no exception; see report().
  void Mult(const mfem::Vector& b, mfem::Vector& x) const override {
    if (!operator_) throw protean::BadArgument("Mult() before SetOperator()");
    if (!iterative_mode) x = 0.0;
    report_ = solver_->solve(*operator_, view(b), view(x), preconditioner_.get());
  }

  const protean::SolveReport& report() const { return report_; }
  const protean::LinearOperator<double>* get() const { return operator_; }

 private:
  protean::ContextPtr context_;
  SolverOptions options_;
  std::unique_ptr<protean::Solver<double>> solver_;
  const mfem::Operator* source_ = nullptr;
  std::unique_ptr<protean::AssembledMatrix<double>> matrix_;
  std::unique_ptr<protean::CallbackOperator<double>> callback_;
  const protean::LinearOperator<double>* operator_ = nullptr;
  std::unique_ptr<protean::Preconditioner<double>> preconditioner_;
  mutable protean::SolveReport report_;
};

}  // namespace protean_mfem
