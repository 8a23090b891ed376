// A Mat in one of our formats, for PETSc's own solvers.
#pragma once
#include <petsc/private/petscimpl.h>
#include <petscksp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <protean/protean.hpp>

#include "calls.hpp"
#include "csr.hpp"
#include "options.hpp"
#include "vectors.hpp"

namespace protean_petsc {
namespace detail {

// The products of a Mat: in one of our formats if it is of type seqaij, otherwise by its MatMult().
class Matrix {
 public:
  Matrix(protean::ContextPtr context, Mat A, MatrixOptions options, protean::SolveForecast forecast = {},
         bool adaptive = false)
      : context_(std::move(context)), options_(std::move(options)), forecast_(forecast), aij_(is_seqaij(A)) {
    if (!aij_ && (options_.format != "auto" || options_.order != "none" || adaptive ||
                  !options_.parameters.all().empty() || !options_.kernel.empty()))
      throw protean::NotAvailable(
          "formats, orders and the policy are for matrices of type seqaij, and this one is of type " +
          type_of(A) +
          "; convert it (MatConvert() or -mat_type aij), or leave these options: the products are then those "
          "of its MatMult()");
    must(PetscObjectReference(object(A)));
    mat_ = A;
    try {
      update();
    } catch (...) {
      MatDestroy(&mat_);
      throw;
    }
  }
  ~Matrix() {
    system_.reset();
    MatDestroy(&mat_);
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  // After MatSetValues() and the like: takes new values, or makes a new matrix if the pattern is new. PETSc's own
  // counters show which.
  void update() {
    PetscObjectState values = 0, pattern = 0;
    must(PetscObjectStateGet(object(mat_), &values));
    must(MatGetNonzeroState(mat_, &pattern));
    if (!aij_) {
      if (!system_) make_callback();
      if (values != values_ || pattern != pattern_) callback_->changed(pattern != pattern_);
    } else {
      const auto csr = csr_view(mat_, context_);
      const bool same = system_ && pattern == pattern_ &&
                        csr.pattern.row_ptr.p32 == csr_.pattern.row_ptr.p32 &&
                        csr.pattern.col == csr_.pattern.col && csr.nonzeros() == csr_.nonzeros() &&
                        csr.rows() == csr_.rows();
      if (!same)
        make(csr);
      else if (values != values_ || csr.values != csr_.values)
        system_->update_values(csr);
      csr_ = csr;
    }
    values_ = values, pattern_ = pattern;
  }

  Mat mat() const { return mat_; }
  const protean::LinearOperator<double>& get() const { return system_->A(); }
  protean::SystemMatrix<double>& system() { return *system_; }
  const MatrixOptions& options() const { return options_; }
  // For a person: "csr", "sell-packed in order rcm".
  std::string description() const {
    if (!aij_) return "MatMult() of type " + type_of(mat_);
    std::string text(system_->format());
    if (system_->order() != "none") text += " in order " + std::string(system_->order());
    return text;
  }

 private:
  void make_callback() {
    const auto vectors = std::make_shared<Pair>();
    must(MatCreateVecs(mat_, &vectors->in, &vectors->out));
    PetscInt rows = 0, cols = 0;
    must(MatGetSize(mat_, &rows, &cols));
    auto made = std::make_shared<protean::CallbackOperator<double>>(
        context_, protean::Shape{rows, cols},
        [A = mat_, vectors](const double* x, double* y) {
          const Placed in(vectors->in, x), out(vectors->out, y);
          must(MatMult(A, vectors->in, vectors->out));
        },
        protean::CallbackOptions{"of PETSc"});
    made->set_diagonal([A = mat_, vectors](double* d, CUstream_st*) {
      const Placed out(vectors->out, d);
      must(MatGetDiagonal(A, vectors->out));
    });
    callback_ = made.get();
    system_ = std::make_unique<protean::SystemMatrix<double>>(std::move(made));
  }

  void make(const protean::CsrMatrix<double>& csr) {
    system_.reset();
    auto made = std::make_unique<protean::SystemMatrix<double>>(context_, csr);
    made->set_format(options_.format, options_.parameters, options_.kernel);
    made->set_order(options_.order);
    (void)made->settle(forecast_);
    system_ = std::move(made);
  }

  protean::ContextPtr context_;
  MatrixOptions options_;
  protean::SolveForecast forecast_;
  bool aij_;
  Mat mat_ = nullptr;
  PetscObjectState values_ = -1, pattern_ = -1;
  protean::CsrMatrix<double> csr_;
  std::unique_ptr<protean::SystemMatrix<double>> system_;
  protean::CallbackOperator<double>* callback_ =
      nullptr;  // the operator of system_ if the Mat is not a seqaij
};

inline PetscErrorCode matrix_of(Mat shell, Matrix*& matrix) {
  PetscCall(MatShellGetContext(shell, &matrix));
  return PetscErrorCode(0);
}
// y := A x
inline PetscErrorCode shell_mult(Mat shell, Vec x, Vec y) {
  Matrix* matrix = nullptr;
  PetscCall(matrix_of(shell, matrix));
  return guarded(comm_of(shell), [&] {
    matrix->update();
    const Reading from(x);
    const Writing to(y);
    matrix->get().apply(from.view(), to.view());
  });
}
// z := y + A x; z may be y
inline PetscErrorCode shell_mult_add(Mat shell, Vec x, Vec y, Vec z) {
  Matrix* matrix = nullptr;
  PetscCall(matrix_of(shell, matrix));
  if (y != z) PetscCall(VecCopy(y, z));
  return guarded(comm_of(shell), [&] {
    matrix->update();
    const Reading from(x);
    const Writing to(z);
    matrix->get().apply(1, from.view(), 1, to.view());
  });
}
inline PetscErrorCode shell_diagonal(Mat shell, Vec d) {
  Matrix* matrix = nullptr;
  PetscCall(matrix_of(shell, matrix));
  return guarded(comm_of(shell), [&] {
    matrix->update();
    const Writing to(d);
    matrix->get().abilities().diagonal->diagonal(to.view());
  });
}
inline PetscErrorCode shell_destroy(Mat shell) {
  Matrix* matrix = nullptr;
  PetscCall(matrix_of(shell, matrix));
  return guarded(comm_of(shell), [&] { delete matrix; });
}
template <class Function>
void (*operation(Function* f))(void) {
  return reinterpret_cast<void (*)(void)>(f);
}
// The matrix of a shell that MatCreateProtean() made; null for another Mat.
inline Matrix* matrix_in(Mat A) {
  PetscBool shell = PETSC_FALSE;
  must(PetscObjectTypeCompare(object(A), MATSHELL, &shell));
  if (!shell) return nullptr;
  void (*multiply)(void) = nullptr;
  must(MatShellGetOperation(A, MATOP_MULT, &multiply));
  if (multiply != operation(shell_mult)) return nullptr;
  Matrix* matrix = nullptr;
  must(matrix_of(A, matrix));
  return matrix;
}

}  // namespace detail

// *B: a Mat of type shell with the entries of `aij` (type seqaij) in one of our formats, for PETSc's own solvers:
// MatMult(), MatMultAdd() and MatGetDiagonal(). In format csr nothing is copied. It refers to `aij`, whose new values
// and new pattern have effect on the next product. What needs entries is set up from aij: KSPSetOperators(ksp, B, aij)
// has ilu and all other PCs. MatScale(), MatShift() and MatDiagonalScale() are refused: change aij. MatDestroy() frees
// it. Several calls of it at once are not allowed if aij has changed.
inline PetscErrorCode MatCreateProtean(Mat aij, Mat* B, const MatrixOptions& options = {}, int threads = 0) {
  *B = nullptr;
  detail::Matrix* matrix = nullptr;
  PetscCall(detail::guarded(detail::comm_of(aij), [&] {
    if (!detail::is_seqaij(aij))
      throw protean::BadMatrix("MatCreateProtean() takes a matrix of type seqaij, not " +
                               detail::type_of(aij));
    matrix = new detail::Matrix(protean::Context::host(threads), aij, options);
  }));
  const auto& A = matrix->get();
  const PetscErrorCode code =
      MatCreateShell(detail::comm_of(aij), static_cast<PetscInt>(A.rows()), static_cast<PetscInt>(A.cols()),
                     static_cast<PetscInt>(A.rows()), static_cast<PetscInt>(A.cols()), matrix, B);
  if (code) delete matrix;
  PetscCall(code);
  PetscCall(MatShellSetManageScalingShifts(*B));
  PetscCall(MatShellSetOperation(*B, MATOP_MULT, detail::operation(detail::shell_mult)));
  PetscCall(MatShellSetOperation(*B, MATOP_MULT_ADD, detail::operation(detail::shell_mult_add)));
  PetscCall(MatShellSetOperation(*B, MATOP_GET_DIAGONAL, detail::operation(detail::shell_diagonal)));
  PetscCall(MatShellSetOperation(*B, MATOP_DESTROY, detail::operation(detail::shell_destroy)));
  return PetscErrorCode(0);
}

// The operator behind *B, for its format, kernel and bytes. Null if B was not made by MatCreateProtean(), and if PETSc
// reports an error.
inline const protean::LinearOperator<double>* MatProteanGetOperator(Mat B) {
  detail::Matrix* matrix = nullptr;
  if (detail::guarded(detail::comm_of(B), [&] { matrix = detail::matrix_in(B); })) return nullptr;
  return matrix ? &matrix->get() : nullptr;
}

}  // namespace protean_petsc
