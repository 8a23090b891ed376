// Protean with PETSc's interfaces. Copy this header into a program that uses PETSc and links both libraries.
//
//   protean_petsc::KSPRegisterProtean  registers the KSP type "protean": our methods in PETSc's KSP, with its PC,
//                                      tolerances, monitors and options
//   protean_petsc::MatCreateProtean    a Mat in any of our formats, made of one of type seqaij, for PETSc's own solvers
//   protean_petsc::csr_view            the arrays of a Mat of type seqaij, not copied
//
// For PETSc with real double scalars and 32-bit indices, on the host. Our solvers use threads and one MPI rank; where
// there are more, -ksp_type fgmres -pc_type bjacobi -sub_ksp_type protean solves the block of each rank. Functions
// return PETSc's error codes, so PetscCall() is the way to call them. No exception of ours passes through PETSc: it
// becomes an error of PETSc with its text. A KSP type must know the members of a KSP, hence a private header of PETSc,
// which its installation contains.
#pragma once
#include <petsc/private/kspimpl.h>
#include <petscksp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <protean/protean.hpp>

#if PETSC_VERSION_LT(3, 18, 0)
#error "protean_ksp.hpp needs PETSc 3.18 or later"
#endif

namespace protean_petsc {

static_assert(std::is_same_v<PetscScalar, double>, "this header is for a PETSc with real double scalars");
static_assert(sizeof(PetscInt) == sizeof(std::int32_t), "this header is for a PETSc with 32-bit indices");

inline constexpr char KSPPROTEAN[] = "protean";

struct MatrixOptions {
  std::string format = "auto";  // the one with the smallest predicted time of conversion and solve
  protean::FormatParams parameters = {};
  std::string kernel = {};     // empty: the default one of the format
  std::string order = "none";  // of the rows in the solve: "auto", or one of protean::orderings()
};

// Each has an option of PETSc's: -ksp_protean_method, -ksp_protean_format, -ksp_protean_parameters
// name=value,name=value,
// -ksp_protean_kernel, -ksp_protean_order, -ksp_protean_policy, -ksp_protean_threads, -ksp_protean_restart,
// -ksp_protean_directions, -ksp_protean_s. A prefix of the KSP goes before them as usual.
struct Options {
  std::string method = "gmres";  // protean::solvers(); gmres is PETSc's own default, too
  MatrixOptions matrix = {};
  // The format and the order of the rows change during the solve when that pays (protean::AutoSwitcher), or at these
  // points (protean::FormatSchedule), which have no option. Not both.
  bool policy = false;
  protean::PolicyOptions policy_options = {};
  std::vector<protean::SchedulePoint> schedule = {};
  int threads = 0;  // 0: OMP_NUM_THREADS, else what affinity and control group allow
  // restart, directions, s and others of the method. The members of `stopping` that the KSP has are taken from there.
  protean::SolverOptions solver = {};
};

namespace detail {

// Carries an error code of PETSc, which has been reported where it arose, through our library.
struct Failure : std::exception {
  explicit Failure(PetscErrorCode its_code) : code(its_code) {}
  const char* what() const noexcept override { return "a call of PETSc failed, and has reported why"; }
  PetscErrorCode code;
};
inline void must(PetscErrorCode code) {
  if (code) throw Failure{code};
}

// Calls f and turns whatever it throws into an error of PETSc: all that PETSc calls goes through it.
template <class F>
PetscErrorCode guarded(MPI_Comm comm, F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    PetscCall(failure.code);  // adds this place to PETSc's traceback
  } catch (const protean::OutOfMemory& error) {
    SETERRQ(comm, PETSC_ERR_MEM, "Protean: %s", error.what());
  } catch (const std::bad_alloc&) {
    SETERRQ(comm, PETSC_ERR_MEM, "Protean: out of memory");
  } catch (const protean::NotAvailable& error) {
    SETERRQ(comm, PETSC_ERR_SUP, "Protean: %s", error.what());
  } catch (const protean::FormatRefused& error) {
    SETERRQ(comm, PETSC_ERR_SUP, "Protean: %s", error.what());
  } catch (const protean::ShapeMismatch& error) {
    SETERRQ(comm, PETSC_ERR_ARG_SIZ, "Protean: %s", error.what());
  } catch (const protean::BadMatrix& error) {
    SETERRQ(comm, PETSC_ERR_ARG_WRONG, "Protean: %s", error.what());
  } catch (const protean::BadArgument& error) {
    SETERRQ(comm, PETSC_ERR_ARG_OUTOFRANGE, "Protean: %s", error.what());
  } catch (const std::exception& error) {
    SETERRQ(comm, PETSC_ERR_LIB, "Protean: %s", error.what());
  } catch (...) {  // of a monitor, a test or a product of the program
    SETERRQ(comm, PETSC_ERR_LIB,
            "Protean: a function of the program has thrown something that is no std::exception");
  }
  return PetscErrorCode(0);
}

inline MPI_Comm comm_of(const void* object) {
  return PetscObjectComm(reinterpret_cast<PetscObject>(const_cast<void*>(object)));
}
inline bool is_seqaij(Mat A) {
  PetscBool is = PETSC_FALSE;
  must(PetscObjectBaseTypeCompare(reinterpret_cast<PetscObject>(A), MATSEQAIJ, &is));
  return is == PETSC_TRUE;
}
inline std::string type_of(Mat A) {
  MatType type = nullptr;
  must(MatGetType(A, &type));
  return type ? type : "none";
}

// Gives a Vec other memory for one call.
class Placed {
 public:
  Placed(Vec v, const double* data) : v_(v) { must(VecPlaceArray(v, data)); }
  ~Placed() { VecResetArray(v_); }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

 private:
  Vec v_;
};

// Two Vecs that Placed gives memory.
struct Pair {
  Vec in = nullptr, out = nullptr;
  Pair() = default;
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() { VecDestroy(&in), VecDestroy(&out); }
};

// The entries of a Vec in host memory, for the time of an object.
class Reading {
 public:
  explicit Reading(Vec v) : v_(v) {
    PetscInt n = 0;
    must(VecGetLocalSize(v, &n));
    must(VecGetArrayRead(v, &data_));
    size_ = n;
  }
  ~Reading() { VecRestoreArrayRead(v_, &data_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  protean::VectorView<const double> view() const { return {data_, size_}; }

 private:
  Vec v_;
  const double* data_ = nullptr;
  std::int64_t size_ = 0;
};
class Writing {
 public:
  explicit Writing(Vec v) : v_(v) {
    PetscInt n = 0;
    must(VecGetLocalSize(v, &n));
    must(VecGetArray(v, &data_));
    size_ = n;
  }
  ~Writing() { VecRestoreArray(v_, &data_); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  protean::VectorView<double> view() const { return {data_, size_}; }

 private:
  Vec v_;
  double* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace detail

// The arrays of PETSc: row pointers, columns and values. A is assembled, of type seqaij, and outlives the view. Throws
// protean::BadMatrix for another one.
inline protean::CsrMatrix<double> csr_view(Mat A, const protean::ContextPtr& context) {
  if (!detail::is_seqaij(A))
    throw protean::BadMatrix("the matrix is of type " + detail::type_of(A) + "; csr_view() takes seqaij");
  PetscBool assembled = PETSC_FALSE, done = PETSC_FALSE;
  detail::must(MatAssembled(A, &assembled));
  if (!assembled)
    throw protean::BadMatrix(
        "the matrix is not assembled; call MatAssemblyBegin() and MatAssemblyEnd() first");
  PetscInt rows = 0, cols = 0, n = 0;
  detail::must(MatGetSize(A, &rows, &cols));
  // What is restored at once are PETSc's own arrays, not copies: they stay where they are.
  const PetscInt *row_ptr = nullptr, *col = nullptr;
  const double* values = nullptr;
  detail::must(MatGetRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &row_ptr, &col, &done));
  if (!done) throw protean::BadMatrix("PETSc does not give the rows of this matrix");
  const PetscInt *p = row_ptr, *c = col;
  detail::must(MatRestoreRowIJ(A, 0, PETSC_FALSE, PETSC_FALSE, &n, &row_ptr, &col, &done));
  detail::must(MatSeqAIJGetArrayRead(A, &values));
  const double* v = values;
  detail::must(MatSeqAIJRestoreArrayRead(A, &values));
  static constexpr std::int32_t empty[1] = {0};
  if (rows == 0) return protean::csr_view<double>(context, rows, cols, 0, empty, c, v);
  return protean::csr_view<double>(context, rows, cols, p[rows], p, c, v);
}

namespace detail {

// The products of a Mat: in one of our formats where it is of type seqaij, otherwise by its MatMult().
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
    must(PetscObjectReference(reinterpret_cast<PetscObject>(A)));
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

  // After MatSetValues() and the like: takes new values, or makes the matrix anew where the pattern is new. PETSc's own
  // counters tell.
  void update() {
    PetscObjectState values = 0, pattern = 0;
    must(PetscObjectStateGet(reinterpret_cast<PetscObject>(mat_), &values));
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
      nullptr;  // the operator of system_ where the Mat is no seqaij
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
  must(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(A), MATSHELL, &shell));
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
// it. Several calls of it at once are not allowed where aij has changed.
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

// The operator behind *B, for its format, kernel and bytes. Null where B was not made by MatCreateProtean(), and where
// PETSc reports an error.
inline const protean::LinearOperator<double>* MatProteanGetOperator(Mat B) {
  detail::Matrix* matrix = nullptr;
  if (detail::guarded(detail::comm_of(B), [&] { matrix = detail::matrix_in(B); })) return nullptr;
  return matrix ? &matrix->get() : nullptr;
}

namespace detail {

// z := M^-1 r by PCApply().
class Preconditioner final : public protean::Preconditioner<double> {
 public:
  Preconditioner(const protean::ContextPtr& context, protean::Shape shape, PC pc, Vec like)
      : protean::Preconditioner<double>(context, shape), pc_(pc) {
    must(VecDuplicate(like, &vectors_.in));
    must(VecDuplicate(like, &vectors_.out));
  }

  PC pc() const { return pc_; }
  // Before each solve. null_space: taken out of each M^-1 r, or null.
  void refresh(MatNullSpace null_space) {
    null_space_ = null_space;
    PetscBool jacobi = PETSC_FALSE;
    must(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(pc_), PCJACOBI, &jacobi));
    diagonal_.clear();
    if (!jacobi || null_space) return;
    // The entries of a diagonal are its product with ones; the methods multiply by it inside their own vector
    // operations.
    const std::vector<double> ones(static_cast<std::size_t>(rows()), 1.0);
    diagonal_.resize(ones.size());
    apply_to(ones.data(), diagonal_.data());
  }

  std::string_view name() const noexcept override { return "of PETSc"; }
  protean::VectorView<const double> inverse_diagonal() const noexcept override {
    return {diagonal_.data(), static_cast<std::int64_t>(diagonal_.size())};
  }

 protected:
  void setup(const protean::LinearOperator<double>&, bool) override {}  // KSPSetUp() has done it
  void do_apply(double alpha, protean::VectorView<const double> x, double beta,
                protean::VectorView<double> y) const override {
    if (alpha == 1 && beta == 0) return apply_to(x.data, y.data);
    product_.resize(static_cast<std::size_t>(rows()));
    apply_to(x.data, product_.data());
    for (std::int64_t i = 0; i < y.size; ++i)
      y[i] = alpha * product_[static_cast<std::size_t>(i)] + (beta == 0 ? 0 : beta * y[i]);
  }

 private:
  void apply_to(const double* r, double* z) const {
    const Placed in(vectors_.in, r), out(vectors_.out, z);
    must(PCApply(pc_, vectors_.in, vectors_.out));
    if (null_space_) must(MatNullSpaceRemove(null_space_, vectors_.out));
  }

  PC pc_;
  Pair vectors_;
  MatNullSpace null_space_ = nullptr;
  std::vector<double> diagonal_;
  mutable std::vector<double> product_;
};

// What ksp->data points to.
struct KspData {
  Options options;
  protean::ContextPtr context;     // made when it is needed
  std::unique_ptr<Matrix> matrix;  // null where the operator is that of a shell
  std::unique_ptr<protean::SystemSolver<double>> solver;
  Preconditioner* preconditioner = nullptr;  // of the solver, of the last solve; null for none
  std::vector<double> null_space;
  protean::SolveReport report;
  std::string description;    // of the matrix at the end of the last solve
  int threads = 0;            // of that solve
  bool in_iteration = false;  // a monitor or a convergence test of the program runs
};
inline KspData& data_of(KSP ksp) { return *static_cast<KspData*>(ksp->data); }

// Calls the monitors, and the convergence test where that is not PETSc's default one.
class Observer final : public protean::SolveObserver {
 public:
  Observer(KSP ksp, bool own_test) : ksp_(ksp), own_test_(own_test) {}
  bool on_iteration(const protean::IterationInfo& info) override {
    struct Inside {
      bool& flag;
      explicit Inside(bool& f) : flag(f) { flag = true; }
      ~Inside() { flag = false; }
    } inside(data_of(ksp_).in_iteration);
    const auto iteration = static_cast<PetscInt>(info.iteration);
    ksp_->its = iteration, ksp_->rnorm = info.residual;
    // x has changed, and norms of it that PETSc keeps are old.
    must(PetscObjectStateIncrease(reinterpret_cast<PetscObject>(ksp_->vec_sol)));
    must(KSPLogResidualHistory(ksp_, info.residual));
    must(KSPMonitor(ksp_, iteration, info.residual));
    if (own_test_) must((*ksp_->converged)(ksp_, iteration, info.residual, &reason_, ksp_->cnvP));
    return reason_ == KSP_CONVERGED_ITERATING;
  }
  KSPConvergedReason reason() const { return reason_; }

 private:
  KSP ksp_;
  bool own_test_;
  KSPConvergedReason reason_ = KSP_CONVERGED_ITERATING;
};

// Where b - A x is small enough, PETSc tells by the norm which of the two tolerances was reached.
inline KSPConvergedReason reason_of(const protean::SolveReport& report, KSP ksp) {
  switch (report.reason) {
    case protean::StopReason::relative_tolerance:
    case protean::StopReason::absolute_tolerance:
    case protean::StopReason::zero_right_hand_side:
      return ksp->rnorm <= ksp->abstol ? KSP_CONVERGED_ATOL : KSP_CONVERGED_RTOL;
    case protean::StopReason::max_iterations:
    case protean::StopReason::time_limit:
      return KSP_DIVERGED_ITS;
    case protean::StopReason::divergence:
      return KSP_DIVERGED_DTOL;
    case protean::StopReason::indefinite_operator:
    case protean::StopReason::negative_definite:
      return KSP_DIVERGED_INDEFINITE_MAT;
    case protean::StopReason::indefinite_preconditioner:
      return KSP_DIVERGED_INDEFINITE_PC;
    case protean::StopReason::not_finite:
      return KSP_DIVERGED_NANORINF;
    case protean::StopReason::inconsistent:
      return KSP_DIVERGED_NULL;
    case protean::StopReason::running:
    case protean::StopReason::interrupted:
    case protean::StopReason::breakdown:
    case protean::StopReason::stagnation:
    case protean::StopReason::underflow:
      break;
  }
  return KSP_DIVERGED_BREAKDOWN;
}

// The operator of the KSP, up to date. A shell of MatCreateProtean() has its own.
inline Matrix& bring_up_to_date(KSP ksp) {
  KspData& data = data_of(ksp);
  Mat A = nullptr;
  must(PCGetOperators(ksp->pc, &A, nullptr));
  const bool adaptive = data.options.policy || !data.options.schedule.empty();
  if (Matrix* const made = matrix_in(A)) {
    const MatrixOptions& asked = data.options.matrix;
    if (adaptive || asked.format != "auto" || asked.order != "none" || !asked.kernel.empty() ||
        !asked.parameters.all().empty())
      throw protean::BadArgument(
          "the matrix was made by MatCreateProtean() in format " + made->options().format +
          ", so the KSP cannot give it a format, an order or the policy; name them there, or "
          "give the KSP the matrix of type seqaij");
    data.matrix.reset();
    made->update();
    return *made;
  }
  if (!data.context) data.context = protean::Context::host(data.options.threads);
  if (!data.matrix || data.matrix->mat() != A) {
    data.matrix.reset();
    const protean::SolveForecast forecast{
        .products_per_iteration = static_cast<double>(protean::find_solver(data.options.method).products),
        .policy = data.options.policy};
    data.matrix = std::make_unique<Matrix>(data.context, A, data.options.matrix, forecast, adaptive);
  } else {
    data.matrix->update();
  }
  return *data.matrix;
}

inline PetscErrorCode ksp_setup(KSP ksp) {
  const bool left = ksp->pc_side == PC_LEFT;
  PetscCheck(!ksp->transpose_solve, comm_of(ksp), PETSC_ERR_SUP,
             "KSP type protean does not solve with the transpose (KSPSolveTranspose); transpose the matrix");
  PetscCheck(!ksp->calc_sings && !ksp->calc_ritz, comm_of(ksp), PETSC_ERR_SUP,
             "KSP type protean computes no singular values, eigenvalues or Ritz vectors");
  return guarded(comm_of(ksp), [&] {
    const Options& options = data_of(ksp).options;
    if (left && !protean::find_solver(options.method).symmetric)
      throw protean::NotAvailable(
          "method " + options.method +
          " is right-preconditioned; call KSPSetPCSide(ksp, PC_RIGHT), or leave the call out");
    if (options.policy && !options.schedule.empty())
      throw protean::BadArgument("policy and schedule exclude each other; take one of them");
    bring_up_to_date(ksp);
  });
}

// The tolerances of the KSP as a rule of ours.
inline protean::StoppingRule rule_of(KSP ksp, const Matrix& matrix, protean::VectorView<const double> b,
                                     protean::VectorView<const double> x, bool own_test) {
  protean::StoppingRule rule = data_of(ksp).options.solver.stopping;
  rule.max_iterations = ksp->max_it;
  rule.relative_tolerance = ksp->rtol, rule.absolute_tolerance = ksp->abstol;
  rule.divergence = std::max<double>(1, ksp->divtol);
  rule.baseline = protean::Baseline::rhs;
  if (own_test || ksp->normtype == KSP_NORM_NONE) {  // the test decides, or the number of iterations
    rule.relative_tolerance = rule.absolute_tolerance = 0;
    rule.divergence = std::numeric_limits<double>::infinity();
    return rule;
  }
  const auto& test = *static_cast<const KSPConvergedDefaultCtx*>(ksp->cnvP);
  if (test.initialrtol) rule.baseline = protean::Baseline::initial_residual;
  if (test.mininitialrtol && !ksp->guess_zero) {
    protean::Vector<double> r(matrix.get().context(), b.size);
    std::copy(b.data, b.data + b.size, r.data());
    matrix.get().apply(-1, x, 1, r.view());
    const auto norm = [](protean::VectorView<const double> v) {
      return std::sqrt(std::inner_product(v.data, v.data + v.size, v.data, 0.0));
    };
    const double smaller = std::min(norm(b), norm(r));
    if (std::isfinite(smaller)) rule.absolute_tolerance = std::max(ksp->abstol, ksp->rtol * smaller);
    rule.relative_tolerance = 0;
  }
  return rule;
}

// A null space of the matrix: the methods for symmetric matrices take it as one of theirs; for the others M^-1 r is
// freed of it.
inline MatNullSpace null_space_of(KSP ksp) {
  Mat A = nullptr;
  MatNullSpace found = nullptr;
  must(PCGetOperators(ksp->pc, &A, nullptr));
  must(MatGetNullSpace(A, &found));
  return found;
}
inline void set_null_space(KspData& data, MatNullSpace null_space, std::int64_t n) {
  PetscBool constant = PETSC_FALSE;
  PetscInt count = 0;
  const Vec* vectors = nullptr;
  must(MatNullSpaceGetVecs(null_space, &constant, &count, &vectors));
  data.null_space.clear();
  if (constant) data.null_space.assign(static_cast<std::size_t>(n), 1 / std::sqrt(static_cast<double>(n)));
  for (PetscInt j = 0; j < count; ++j) {
    const Reading v(vectors[j]);
    data.null_space.insert(data.null_space.end(), v.view().data, v.view().data + n);
  }
  data.solver->set_null_space({data.null_space.data(), n, n, count + (constant ? 1 : 0)});
}

inline bool same_rule(const protean::StoppingRule& a, const protean::StoppingRule& b) {
  return a.relative_tolerance == b.relative_tolerance && a.absolute_tolerance == b.absolute_tolerance &&
         a.max_iterations == b.max_iterations && a.divergence == b.divergence && a.baseline == b.baseline;
}

inline void solve(KSP ksp) {
  KspData& data = data_of(ksp);
  Matrix& matrix = bring_up_to_date(ksp);
  const protean::LinearOperator<double>& A = matrix.get();
  PCFailedReason failed = PC_NOERROR;
  must(PCGetFailedReason(ksp->pc, &failed));
  ksp->its = 0;
  if (failed != PC_NOERROR) {
    ksp->reason = KSP_DIVERGED_PC_FAILED;
    return;
  }
  if (ksp->guess_zero) must(VecSet(ksp->vec_sol, 0));
  const Reading b(ksp->vec_rhs);
  const Writing x(ksp->vec_sol);

  // The default test is a rule of ours, so that b - A x itself decides. Another one is asked in each iteration.
  const bool own_test = ksp->converged != KSPConvergedDefault;
  const protean::StoppingRule rule = rule_of(ksp, matrix, b.view(), x.view(), own_test);
  if (!data.solver || !same_rule(data.solver->settings().solver.stopping, rule)) {
    protean::SolveSettings wanted;
    wanted.method = data.options.method, wanted.solver = data.options.solver, wanted.solver.stopping = rule;
    wanted.preconditioner = "none";  // the PC of the KSP is another one
    if (data.matrix) {               // a shell of MatCreateProtean() keeps its format
      wanted.policy = data.options.policy, wanted.policy_options = data.options.policy_options;
      wanted.schedule = data.options.schedule;
    }
    if (data.solver) {
      if (!protean::find_solver(wanted.method).symmetric) data.solver->set_null_space({});
      data.solver->set(std::move(wanted));
    } else {
      data.solver = std::make_unique<protean::SystemSolver<double>>(std::move(wanted));
    }
  }
  const bool symmetric = protean::find_solver(data.options.method).symmetric;
  const MatNullSpace null_space = null_space_of(ksp);
  if (symmetric && null_space)
    set_null_space(data, null_space, A.rows());
  else if (symmetric)
    data.solver->set_null_space({});
  PetscBool none = PETSC_FALSE;
  must(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(ksp->pc), PCNONE, &none));
  const bool wanted = !none || (null_space && !symmetric);
  if (wanted != (data.preconditioner != nullptr) ||
      (wanted && (data.preconditioner->pc() != ksp->pc || data.preconditioner->shape() != A.shape() ||
                  data.preconditioner->context() != A.context()))) {
    data.preconditioner = nullptr;
    if (wanted)
      data.solver->set_preconditioner([&data, ksp](const protean::LinearOperator<double>& B) {
        auto made = std::make_unique<Preconditioner>(B.context(), B.shape(), ksp->pc, ksp->vec_rhs);
        data.preconditioner = made.get();
        return made;
      });
    else
      data.solver->set_preconditioner({});
  }
  // The solver makes it where the operator is another one, as one that changes its format, so it is made before.
  data.solver->set_up(matrix.system());
  if (data.preconditioner) data.preconditioner->refresh(symmetric ? nullptr : null_space);

  Observer observer(ksp, own_test);
  data.report = data.solver->solve(matrix.system(), b.view(), x.view(), &observer).report;
  data.description = matrix.description();
  data.threads = matrix.get().context()->threads();

  const protean::SolveReport& report = data.report;
  ksp->its = static_cast<PetscInt>(report.iterations);
  ksp->rnorm = report.reason == protean::StopReason::zero_right_hand_side ? 0 : report.true_residual;
  ksp->reason = observer.reason() != KSP_CONVERGED_ITERATING ? observer.reason() : reason_of(report, ksp);
  if (ksp->reason == KSP_DIVERGED_ITS &&
      (ksp->normtype == KSP_NORM_NONE ||
       (!own_test && static_cast<const KSPConvergedDefaultCtx*>(ksp->cnvP)->convmaxits)))
    ksp->reason = KSP_CONVERGED_ITS;
  must(PCGetFailedReason(ksp->pc, &failed));
  if (ksp->reason == KSP_DIVERGED_NANORINF && failed != PC_NOERROR) ksp->reason = KSP_DIVERGED_PC_FAILED;
}

inline PetscErrorCode ksp_solve(KSP ksp) {
  PetscCheck(!ksp->transpose_solve, comm_of(ksp), PETSC_ERR_SUP,
             "KSP type protean does not solve with the transpose (KSPSolveTranspose); transpose the matrix");
  return guarded(comm_of(ksp), [&] {
    solve(ksp);
    if (ksp->reason >= 0) return;
    const protean::SolveReport& report = data_of(ksp).report;
    must(PetscInfo(ksp, "Protean: %s. %s %s\n", std::string(protean::to_string(report.reason)).c_str(),
                   report.detail.c_str(), report.advice.c_str()));
  });
}

// x is the solution itself, whatever the side of the preconditioner; v: a copy of it where the caller gives one.
inline PetscErrorCode ksp_build_solution(KSP ksp, Vec v, Vec* V) {
  const KspData& data = data_of(ksp);
  constexpr std::array<std::string_view, 5> in_place = {"cg", "fcg", "minres", "bicgstab", "idr"};
  const bool current = std::find(in_place.begin(), in_place.end(), data.options.method) != in_place.end() &&
                       data.options.matrix.order == "none" && !data.options.policy &&
                       data.options.schedule.empty();
  PetscCheck(!data.in_iteration || current, comm_of(ksp), PETSC_ERR_SUP,
             "method %s has no x between two iterations with these options; -ksp_monitor shows the norm of "
             "its residual, and cg, fcg, minres, bicgstab and idr without order, policy and schedule have x",
             data.options.method.c_str());
  if (v) PetscCall(VecCopy(ksp->vec_sol, v));
  if (V) *V = v ? v : ksp->vec_sol;
  return PetscErrorCode(0);
}

inline void refuse_wrong(const Options& options) {
  protean::make_solver<double>(options.method, protean::options_read_by(options.method, options.solver));
  const bool chosen = options.matrix.format == "auto";
  const protean::FormatEntry& entry = protean::find_format(chosen ? "csr" : options.matrix.format);
  const protean::Kernel& kernel = protean::find_kernel(entry, options.matrix.kernel, protean::Space::host);
  if (!chosen) protean::resolve_params(entry, options.matrix.parameters, &kernel);
  protean::require_order(options.matrix.order);
  if (options.policy && !options.schedule.empty())
    throw protean::BadArgument("policy and schedule exclude each other; take one of them");
  if (options.threads < 0)
    throw protean::BadArgument("the number of threads is " + std::to_string(options.threads) +
                               "; it must be 0 (as many as the process may use) or more");
}
// Throws BadArgument; nothing has changed then.
inline void set_options(KSP ksp, const Options& options) {
  refuse_wrong(options);
  KspData& data = data_of(ksp);
  data.preconditioner = nullptr, data.solver.reset(), data.matrix.reset(), data.context.reset();
  data.options = options;
  // As all options of PETSc's, one that this method does not read may stand in its database for another one.
  data.options.solver = protean::options_read_by(options.method, options.solver);
}

// Throws BadArgument for an option in PETSc's database that begins with this prefix and this stem, such as
// "-ksp_protean_", and is none of `known`. PETSc itself tells at the end at most, by -options_left.
inline void refuse_unknown_options(PetscOptions options, const char* prefix, std::string_view stem,
                                   const std::vector<std::string_view>& known) {
  char* text = nullptr;
  must(PetscOptionsGetAll(options, &text));
  const std::string all = text;
  must(PetscFree(text));
  std::string before = "-";
  before += prefix ? prefix : "";
  const std::string begin = before + std::string(stem.substr(1));
  // PETSc heeds no case.
  const auto same = [](std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
  };
  std::size_t at = 0;
  while ((at = all.find_first_not_of(' ', at)) != std::string::npos) {
    const std::string_view word = std::string_view(all).substr(at, all.find(' ', at) - at);
    at += word.size();
    if (!same(word.substr(0, begin.size()), begin)) continue;
    std::string name = "-";
    name += word.substr(before.size());
    if (std::any_of(known.begin(), known.end(), [&](std::string_view one) { return same(one, name); }))
      continue;
    std::string names;
    for (const std::string_view one : known) names += (names.empty() ? "" : ", ") + std::string(one);
    throw protean::BadArgument(
        "there is no option " + std::string(word) + "." + protean::did_you_mean(name, known) + " There are " +
        names + (before.size() > 1 ? "; the prefix " + before.substr(1) + " goes before them" : ""));
  }
}

// "block_rows=4,block_cols=2"
inline protean::FormatParams parameters_in(std::string_view text) {
  protean::FormatParams parameters;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw protean::BadArgument("-ksp_protean_parameters has '" + std::string(part) +
                                 "'; it wants name=value,name=value");
    parameters.set(std::string(part.substr(0, equals)), std::string(part.substr(equals + 1)));
  }
  return parameters;
}

// complete: all options were read, and there was at least one. `known`: their names.
template <class Items>
PetscErrorCode read_options(Options& options, Items PetscOptionsObject, bool& complete,
                            std::vector<std::string_view>& known) {
  struct Word {
    const char *option, *text;
    std::string* value;
  };
  std::string parameters;
  const Word words[] = {
      {"-ksp_protean_method", "method: cg, fcg, minres, bicgstab, bicgstab2, idr, gmres, fgmres",
       &options.method},
      {"-ksp_protean_format", "storage format, or auto", &options.matrix.format},
      {"-ksp_protean_parameters", "its parameters, name=value,name=value", &parameters},
      {"-ksp_protean_kernel", "its kernel", &options.matrix.kernel},
      {"-ksp_protean_order", "order of the rows in the solve, or auto", &options.matrix.order}};
  struct Number {
    const char *option, *text;
    std::int64_t* value;
  };
  std::int64_t threads = options.threads;
  const Number numbers[] = {
      {"-ksp_protean_threads", "threads, 0: as many as the process may use", &threads},
      {"-ksp_protean_restart", "basis vectors of gmres and fgmres", &options.solver.restart},
      {"-ksp_protean_directions", "directions of fcg", &options.solver.directions},
      {"-ksp_protean_s", "dimension of the shadow space of idr", &options.solver.s}};
  PetscBool policy = options.policy ? PETSC_TRUE : PETSC_FALSE, any = PETSC_FALSE, set = PETSC_FALSE;
  PetscOptionsHeadBegin(PetscOptionsObject, "KSP protean options");
  for (const Word& word : words) {
    char text[1024] = "";
    PetscCall(PetscOptionsString(word.option, word.text, "KSPProteanSetOptions", word.value->c_str(), text,
                                 sizeof text, &set));
    if (set) *word.value = text, any = PETSC_TRUE;
  }
  for (const Number& number : numbers) {
    PetscInt value = static_cast<PetscInt>(*number.value);
    PetscCall(PetscOptionsInt(number.option, number.text, "KSPProteanSetOptions", value, &value, &set));
    if (set) *number.value = value, any = PETSC_TRUE;
  }
  PetscCall(PetscOptionsBool("-ksp_protean_policy", "change format and order in the solve when that pays",
                             "KSPProteanSetOptions", policy, &policy, &set));
  if (set) any = PETSC_TRUE;
  PetscOptionsHeadEnd();
  known = {"-ksp_protean_policy"};
  for (const Word& word : words) known.emplace_back(word.option);
  for (const Number& number : numbers) known.emplace_back(number.option);
  options.policy = policy == PETSC_TRUE, options.threads = static_cast<int>(threads);
  if (!parameters.empty()) options.matrix.parameters = parameters_in(parameters);
  complete = any == PETSC_TRUE;
  return PetscErrorCode(0);
}
template <class Items>
PetscErrorCode ksp_set_from_options(KSP ksp, Items items) {
  return guarded(comm_of(ksp), [&] {
    Options options = data_of(ksp).options;
    bool complete = false;
    std::vector<std::string_view> known;
    must(read_options(options, items, complete, known));
    refuse_unknown_options(items->options, items->prefix, "-ksp_protean_", known);
    if (complete) set_options(ksp, options);
  });
}

inline PetscErrorCode ksp_view(KSP ksp, PetscViewer viewer) {
  return guarded(comm_of(ksp), [&] {
    PetscBool text = PETSC_FALSE;
    must(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(viewer), PETSCVIEWERASCII, &text));
    if (!text) return;
    const KspData& data = data_of(ksp);
    must(PetscViewerASCIIPrintf(viewer, "  method %s, asked for format %s, order %s%s\n",
                                data.options.method.c_str(), data.options.matrix.format.c_str(),
                                data.options.matrix.order.c_str(), data.options.policy ? ", policy" : ""));
    must(PetscViewerASCIIPrintf(viewer, "  residuals are b - A x in the 2-norm\n"));
    if (!data.description.empty())
      must(PetscViewerASCIIPrintf(viewer, "  last solve: %s, %s, threads %d\n", data.description.c_str(),
                                  std::string(protean::to_string(data.report.reason)).c_str(), data.threads));
  });
}

inline PetscErrorCode ksp_reset(KSP ksp) {
  return guarded(comm_of(ksp), [&] {
    KspData& data = data_of(ksp);
    data.preconditioner = nullptr, data.solver.reset(), data.matrix.reset();
  });
}
inline PetscErrorCode ksp_destroy(KSP ksp) {
  return guarded(comm_of(ksp), [&] { delete static_cast<KspData*>(std::exchange(ksp->data, nullptr)); });
}

inline PetscErrorCode ksp_create(KSP ksp) {
  PetscMPIInt ranks = 0;
  PetscCallMPI(MPI_Comm_size(comm_of(ksp), &ranks));
  PetscCheck(ranks == 1, comm_of(ksp), PETSC_ERR_SUP,
             "KSP type protean solves on one MPI rank, and this KSP has %d. Run the program on one rank, or "
             "let it solve the block of each rank: -ksp_type fgmres -pc_type bjacobi -sub_ksp_type protean",
             static_cast<int>(ranks));
  PetscCall(guarded(comm_of(ksp), [&] { ksp->data = new KspData; }));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, PC_RIGHT, 3));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_UNPRECONDITIONED, PC_LEFT, 2));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, PC_RIGHT, 2));
  PetscCall(KSPSetSupportedNorm(ksp, KSP_NORM_NONE, PC_LEFT, 1));
  ksp->setupnewmatrix = PETSC_TRUE;
  ksp->ops->setup = ksp_setup;
  ksp->ops->solve = ksp_solve;
  ksp->ops->reset = ksp_reset;
  ksp->ops->destroy = ksp_destroy;
  ksp->ops->view = ksp_view;
  ksp->ops->setfromoptions = ksp_set_from_options;
  ksp->ops->buildsolution = ksp_build_solution;
  return PetscErrorCode(0);
}

inline PetscErrorCode require_type(KSP ksp) {
  PetscBool ours = PETSC_FALSE;
  PetscCall(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(ksp), KSPPROTEAN, &ours));
  PetscCheck(ours, comm_of(ksp), PETSC_ERR_ARG_WRONG,
             "the KSP is not of type protean; call KSPSetType(ksp, protean_petsc::KSPPROTEAN) first");
  return PetscErrorCode(0);
}

}  // namespace detail

// Registers the type. Once, after PetscInitialize() and before KSPSetType() or KSPSetFromOptions(): then -ksp_type
// protean.
//
// Of PETSc's interface:
//   KSPSetOperators       Amat of type seqaij: in the format that is asked for, else in the one that promises the
//                         shortest solve. Made by MatCreateProtean(): that one. Any other type: products by MatMult().
//                         New values and patterns are noticed by themselves
//   PC                    z := M^-1 r by PCApply(). cg, fcg and minres need a symmetric one, as PETSc's do. Methods
//                         that may have it on either side have it on the right. fcg and fgmres are for a PC that
//                         changes in a solve
//   KSPSetTolerances      converged when  ||b - A x|| <= max(rtol ||b||, abstol)  in the 2-norm, with the residual
//                                                                                 computed from
//                         x and not by the recurrence. This is KSP_NORM_UNPRECONDITIONED. PETSc's default norm of cg,
//                         bcgs and gmres is that of M^-1 (b - A x), so the same rtol means another accuracy there.
//                         Another norm is refused but for KSP_NORM_NONE, which does maxits iterations. divtol: as in
//                         PETSc, from the larger one of ||b|| and the initial residual
//   KSPConvergedDefaultSetUIRNorm, SetUMIRNorm, SetConvergedMaxits     have effect
//   KSPSetConvergenceTest is asked in each iteration with the residual of the recurrence, and decides alone
//   KSPMonitorSet, KSPSetResidualHistory    in each iteration, with the 2-norm of the residual of the recurrence
//   KSPGetResidualNorm, KSPGetIterationNumber    of the x that is returned
//   KSPGetConvergedReason our named reasons: KSPProteanGetReport() has them, and a text what to do. max-iterations:
//                         DIVERGED_ITS; divergence: DTOL; indefinite-operator, negative-definite: INDEFINITE_MAT;
//                         indefinite-preconditioner: INDEFINITE_PC; not-finite: NANORINF (PC_FAILED where the PC says
//                         so); inconsistent: NULL; breakdown, stagnation, underflow: BREAKDOWN
//   KSPSetInitialGuessNonzero, KSPSetInitialGuessKnoll, KSPSetDiagonalScale    as in PETSc
//   MatSetNullSpace       cg, fcg, minres: as Solver::set_null_space(). Others: it is taken out of M^-1 r, as PETSc
//                         does
//   KSPBuildSolution, KSPBuildResidual    after a solve; in a monitor with cg, fcg, minres, bicgstab and idr
//   refused               KSPSolveTranspose, KSPSetComputeSingularValues, KSPSetComputeRitz, more than one rank
inline PetscErrorCode KSPRegisterProtean() {
  PetscCall(KSPRegister(KSPPROTEAN, detail::ksp_create));
  return PetscErrorCode(0);
}

// What options of the command line say, for programs. Wrong names and ranges are an error, and nothing has changed
// then.
inline PetscErrorCode KSPProteanSetOptions(KSP ksp, const Options& options) {
  PetscCall(detail::require_type(ksp));
  return detail::guarded(detail::comm_of(ksp), [&] { detail::set_options(ksp, options); });
}

// The report of the last solve; it is valid until the next one, or KSPDestroy().
inline PetscErrorCode KSPProteanGetReport(KSP ksp, const protean::SolveReport** report) {
  PetscCall(detail::require_type(ksp));
  *report = &detail::data_of(ksp).report;
  return PetscErrorCode(0);
}

// The operator that solves use, null before KSPSetUp(): its format, bytes, products.
inline PetscErrorCode KSPProteanGetOperator(KSP ksp, const protean::LinearOperator<double>** A) {
  PetscCall(detail::require_type(ksp));
  return detail::guarded(detail::comm_of(ksp), [&] {
    Mat mat = nullptr;
    detail::must(PCGetOperators(ksp->pc, &mat, nullptr));
    const detail::Matrix* matrix = mat ? detail::matrix_in(mat) : nullptr;
    if (!matrix) matrix = detail::data_of(ksp).matrix.get();
    *A = matrix ? &matrix->get() : nullptr;
  });
}

}  // namespace protean_petsc
