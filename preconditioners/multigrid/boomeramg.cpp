// amg with setup classical: algebraic multigrid by BoomerAMG of hypre. Henson and Yang, "BoomerAMG: a parallel
// algebraic multigrid solver and preconditioner", Appl. Numer. Math. 41 (2002) 155. Coarsening PMIS and HMIS: De
// Sterck, Yang and Heys, SIAM J. Matrix Anal. Appl. 27 (2006) 1019. Interpolation extended+i: De Sterck, Falgout,
// Nolting and Yang, Numer. Linear Algebra Appl. 15 (2008) 115. Aggressive coarsening and multipass interpolation:
// Stueben, J. Comput. Appl. Math. 128 (2001) 281. Smoother l1-jacobi: Baker, Falgout, Kolev and Yang, SIAM J. Sci.
// Comput. 33 (2011) 2864.
//
// One V-cycle: z := z + S^-1 (r - A z), the same on the next coarser level for P^T (r - A z), z := z + P (its result),
// z := z + S^-T (r - A z), from z = 0. If A is symmetric, it is a symmetric map of r; it is positive definite if A is
// and I - S^-1 A is a contraction in the norm of A. That holds for l1-jacobi and gauss-seidel. Several cycles keep
// both.
//
// hypre has state of the process (its error flag, random numbers of the coarsening), so one thread at a time calls it.
#include <HYPRE.h>
#include <HYPRE_IJ_mv.h>
#include <_hypre_parcsr_ls.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "preconditioners/common/by_solving.hpp"
#include "preconditioners/common/diagonal.hpp"
#include "preconditioners/common/entries.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/multigrid/boomeramg.hpp"

namespace protean::detail {
namespace {

// Never destroyed, since preconditioners of static duration may be destroyed late.
std::mutex& hypre_mutex() {
  static auto* const one = new std::mutex;
  return *one;
}

#if defined(HYPRE_SEQUENTIAL)
bool mpi_has_ended() { return false; }
double require_mpi() { return 0; }
#else
bool mpi_has_ended() {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended != 0;
}

pid_t mpi_started_by = 0;
// An mpirun reports a process that has initialised MPI and ends without this. A forked child is not that process.
void end_mpi() {
  if (getpid() == mpi_started_by && !mpi_has_ended()) MPI_Finalize();
}

// Open MPI starts a daemon for a process without an mpirun, which could only help it to start others, and ends the
// process if it cannot. This variable says that no daemon is needed; MPI_Init() changes the environment itself.
class WithoutDaemon {
 public:
  WithoutDaemon() : mine_(std::getenv(variable) == nullptr) {
    if (mine_) setenv(variable, "1", 0);
  }
  ~WithoutDaemon() {
    if (mine_) unsetenv(variable);
  }
  WithoutDaemon(const WithoutDaemon&) = delete;
  WithoutDaemon& operator=(const WithoutDaemon&) = delete;

 private:
  static constexpr const char* variable = "OMPI_MCA_ess_singleton_isolated";
  bool mine_;
};

// MPI may be called by this thread when this returns. The seconds that it took to initialise MPI, 0 if that was done
// before.
double require_mpi() {
  if (mpi_has_ended())
    throw NotAvailable(
        "amg computes with MPI, and MPI_Finalize() has been called; solve before it, or use another "
        "preconditioner");
  int running = 0, level = MPI_THREAD_SINGLE, main_thread = 0;
  MPI_Initialized(&running);
  double seconds = 0;
  if (!running) {
    const auto begin = std::chrono::steady_clock::now();
    const WithoutDaemon scope;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
      throw NotAvailable("amg computes with MPI, and MPI_Init_thread() failed; use another preconditioner");
    mpi_started_by = getpid();
    std::atexit(end_mpi);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  MPI_Query_thread(&level);
  if (level >= MPI_THREAD_SERIALIZED) return seconds;
  MPI_Is_thread_main(&main_thread);
  if (!main_thread)
    throw NotAvailable(
        "amg computes with MPI, which was initialised for calls of the main thread alone; initialise it with "
        "MPI_THREAD_SERIALIZED or more, or solve in the main thread");
  return seconds;
}
#endif

// hypre belongs to this thread as long as one of these lives.
class Hypre {
 public:
  Hypre() : lock_(hypre_mutex()), mpi_seconds_(require_mpi()) {
    HYPRE_Init();
    HYPRE_ClearAllErrors();
  }
  ~Hypre() { HYPRE_ClearAllErrors(); }
  Hypre(const Hypre&) = delete;
  Hypre& operator=(const Hypre&) = delete;

  // What MPI took to start; 0 unless this has started it.
  double mpi_seconds() const noexcept { return mpi_seconds_; }

  // Throws if hypre has raised its error flag since then.
  void check(std::string_view work) const {
    const HYPRE_Int flag = HYPRE_GetError();
    if (flag == 0) return;
    char words[1024] = "";
    HYPRE_DescribeError(flag, words);
    std::string text = words;
    while (text.ends_with(' ') || text.ends_with('\n')) text.pop_back();
    if (flag & HYPRE_ERROR_MEMORY)
      throw OutOfMemory(fmt::format("amg: hypre found no memory for {}", work), 0);
    throw BadMatrix(fmt::format("amg: {} failed with error {} of hypre: {}; {}", work, flag, text, advice));
  }

  static constexpr std::string_view advice =
      "another smoother, coarsening or strong_threshold may do, or another preconditioner";

 private:
  std::lock_guard<std::mutex> lock_;
  double mpi_seconds_;
};

// HYPRE_BoomerAMGSetCoarsenType() and the others have numbers.
HYPRE_Int number_of(Coarsening coarsening) {
  return coarsening == Coarsening::pmis ? 8 : coarsening == Coarsening::falgout ? 6 : 10;
}
struct SmootherNumbers {
  // 18: l1-Jacobi, 16: Chebyshev, 8, 13 and 14: Gauss-Seidel symmetric, forward and backward
  HYPRE_Int alone, down, up;
};
SmootherNumbers numbers_of(Smoother smoother) {
  if (smoother == Smoother::gauss_seidel) return {8, 13, 14};
  if (smoother == Smoother::chebyshev) return {16, 16, 16};
  return {18, 18, 18};
}

// All levels of a matrix in hypre's memory.
class Levels {
 public:
  // The entries of csr with this diagonal.
  template <class T>
  Levels(const CsrMatrix<T>& csr, const Vector<T>& diagonal, const PreconditionerOptions& options)
      : rows_(csr.rows()) {
    const Hypre hypre;
    mpi_seconds_ = hypre.mpi_seconds();
    try {
      set_matrix(csr, diagonal);
      set_vectors();
      hypre.check("the copy of the matrix");
      set_up(hypre, options);
      measure();
      probe(hypre);
    } catch (...) {
      release();
      throw;
    }
  }
  ~Levels() {
    const std::lock_guard lock(hypre_mutex());
    // hypre would free communicators, which only ends the process now.
    if (!mpi_has_ended()) release();
  }
  Levels(const Levels&) = delete;
  Levels& operator=(const Levels&) = delete;

  template <class T>
  void solve(VectorView<const T> r, VectorView<T> z) const {
    const Hypre hypre;
    std::copy_n(r.data, rows_, r_values_);
    cycle();
    hypre.check("a V-cycle");
    std::transform(z_values_, z_values_ + rows_, z.data, [](double value) { return static_cast<T>(value); });
  }

  std::size_t bytes() const noexcept { return bytes_; }
  std::vector<PreconditionerFigure> figures() const {
    std::vector<PreconditionerFigure> found = {{"levels", levels_},
                                               {"operator_complexity", operator_complexity_},
                                               {"grid_complexity", grid_complexity_}};
    if (mpi_seconds_ > 0) found.push_back({"mpi_milliseconds", 1e3 * mpi_seconds_});
    return found;
  }

 private:
  template <class T>
  void set_matrix(const CsrMatrix<T>& csr, const Vector<T>& diagonal) {
    // Of each row the entries and the diagonal, which csr may lack.
    std::vector<HYPRE_Int> length(static_cast<std::size_t>(rows_)), elsewhere(length.size());
    std::int64_t entries = 0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const auto columns = csr.pattern.row(i);
      const auto at = std::lower_bound(columns.begin(), columns.end(), i);
      const std::int64_t own = static_cast<std::int64_t>(columns.size()) + (at == columns.end() || *at != i);
      length[i] = static_cast<HYPRE_Int>(own), entries += own;
    }
    require_countable<HYPRE_Int>(rows_, entries);

    const auto last = static_cast<HYPRE_BigInt>(rows_ - 1);
    HYPRE_IJMatrixCreate(hypre_MPI_COMM_SELF, 0, last, 0, last, &matrix_);
    HYPRE_IJMatrixSetObjectType(matrix_, HYPRE_PARCSR);
    HYPRE_IJMatrixSetDiagOffdSizes(matrix_, length.data(), elsewhere.data());
    HYPRE_IJMatrixInitialize_v2(matrix_, HYPRE_MEMORY_HOST);
    std::vector<HYPRE_BigInt> row, col;
    std::vector<double> values;
    for (std::int64_t begin = 0; begin < rows_;) {
      // Some rows at a time, so that the copies stay small.
      constexpr std::size_t most = 1 << 16;
      row.clear(), col.clear(), values.clear();
      std::int64_t end = begin;
      for (; end < rows_ && col.size() < most; ++end) {
        row.push_back(static_cast<HYPRE_BigInt>(end));
        col.push_back(row.back()), values.push_back(diagonal[end]);
        const std::int64_t first = csr.pattern.row_ptr[end];
        const auto columns = csr.pattern.row(end);
        for (std::size_t k = 0; k < columns.size(); ++k) {
          if (columns[k] == end) continue;
          const T value = csr.values[first + static_cast<std::int64_t>(k)];
          col.push_back(columns[k]), values.push_back(value);
        }
      }
      HYPRE_IJMatrixSetValues(matrix_, static_cast<HYPRE_Int>(end - begin), length.data() + begin, row.data(),
                              col.data(), values.data());
      begin = end;
    }
    HYPRE_IJMatrixAssemble(matrix_);
    void* object = nullptr;
    HYPRE_IJMatrixGetObject(matrix_, &object);
    A_ = static_cast<HYPRE_ParCSRMatrix>(object);
  }

  void set_vectors() {
    const auto make = [&](HYPRE_IJVector& vector, HYPRE_ParVector& object, double*& values) {
      HYPRE_IJVectorCreate(hypre_MPI_COMM_SELF, 0, static_cast<HYPRE_BigInt>(rows_ - 1), &vector);
      HYPRE_IJVectorSetObjectType(vector, HYPRE_PARCSR);
      HYPRE_IJVectorInitialize_v2(vector, HYPRE_MEMORY_HOST);
      HYPRE_IJVectorAssemble(vector);
      void* found = nullptr;
      HYPRE_IJVectorGetObject(vector, &found);
      object = static_cast<HYPRE_ParVector>(found);
      values = hypre_VectorData(hypre_ParVectorLocalVector(object));
    };
    make(r_vector_, r_, r_values_), make(z_vector_, z_, z_values_);
  }

  void set_up(const Hypre& hypre, const PreconditionerOptions& options) {
    const SmootherNumbers smoother = numbers_of(options.smoother);
    HYPRE_BoomerAMGCreate(&solver_);
    HYPRE_BoomerAMGSetPrintLevel(solver_, 0), HYPRE_BoomerAMGSetLogging(solver_, 0);
    // A fixed number of cycles, so that M is linear.
    HYPRE_BoomerAMGSetTol(solver_, 0),
        HYPRE_BoomerAMGSetMaxIter(solver_, static_cast<HYPRE_Int>(options.cycles));
    HYPRE_BoomerAMGSetStrongThreshold(solver_, options.strong_threshold);
    HYPRE_BoomerAMGSetCoarsenType(solver_, number_of(options.coarsening));
    HYPRE_BoomerAMGSetInterpType(solver_, 6), HYPRE_BoomerAMGSetPMaxElmts(solver_, 4);
    HYPRE_BoomerAMGSetAggNumLevels(solver_, static_cast<HYPRE_Int>(options.aggressive_levels));
    HYPRE_BoomerAMGSetAggInterpType(solver_, 4);
    HYPRE_BoomerAMGSetMaxLevels(solver_, static_cast<HYPRE_Int>(options.max_levels));
    HYPRE_BoomerAMGSetNumFunctions(solver_, static_cast<HYPRE_Int>(options.unknowns));
    HYPRE_BoomerAMGSetNumSweeps(solver_, 1), HYPRE_BoomerAMGSetRelaxOrder(solver_, 0);
    HYPRE_BoomerAMGSetRelaxType(solver_, smoother.alone);
    HYPRE_BoomerAMGSetCycleRelaxType(solver_, smoother.down, 1);
    HYPRE_BoomerAMGSetCycleRelaxType(solver_, smoother.up, 2);
    HYPRE_BoomerAMGSetup(solver_, A_, r_, z_);
    hypre.check("the setup");
    // If the coarsest level is too large for an elimination, hypre smooths there once, as on the way down. It must be
    // symmetric.
    HYPRE_Int coarsest = 0;
    HYPRE_BoomerAMGGetCycleRelaxType(solver_, &coarsest, 3);
    if (coarsest == smoother.down) HYPRE_BoomerAMGSetCycleRelaxType(solver_, smoother.alone, 3);
  }

  void measure() {
    auto* const data = reinterpret_cast<hypre_ParAMGData*>(solver_);
    double entries = 0, rows = 0;
    const auto count = [&](hypre_ParCSRMatrix* matrix) {
      const hypre_CSRMatrix* const local = hypre_ParCSRMatrixDiag(matrix);
      const auto stored = static_cast<std::size_t>(hypre_CSRMatrixNumNonzeros(local));
      // Row pointers of the entries, and of the entries of other processes, of which there are none.
      bytes_ += stored * (sizeof(double) + sizeof(HYPRE_Int)) +
                2 * (static_cast<std::size_t>(hypre_CSRMatrixNumRows(local)) + 1) * sizeof(HYPRE_Int);
      return local;
    };
    const auto levels = hypre_ParAMGDataNumLevels(data);
    for (HYPRE_Int k = 0; k < levels; ++k) {
      const hypre_CSRMatrix* const local = count(hypre_ParAMGDataAArray(data)[k]);
      entries += hypre_CSRMatrixNumNonzeros(local), rows += hypre_CSRMatrixNumRows(local);
      if (k + 1 < levels) count(hypre_ParAMGDataPArray(data)[k]);
      // Right-hand side, solution, the smoother's diagonal; the kinds of the points.
      bytes_ +=
          static_cast<std::size_t>(hypre_CSRMatrixNumRows(local)) * (3 * sizeof(double) + sizeof(HYPRE_Int));
    }
    bytes_ += static_cast<std::size_t>(rows_) * sizeof(double);  // the residual
    const hypre_CSRMatrix* const finest = hypre_ParCSRMatrixDiag(hypre_ParAMGDataAArray(data)[0]);
    levels_ = static_cast<double>(levels);
    operator_complexity_ = entries / hypre_CSRMatrixNumNonzeros(finest),
    grid_complexity_ = rows / static_cast<double>(rows_);
  }

  // A setup may end without an error and yet be useless, for example if numbers overflow or a pivot of the coarsest
  // level is zero.
  void probe(const Hypre& hypre) const {
    std::fill_n(r_values_, rows_, 1.0);
    cycle();
    hypre.check("a V-cycle of the setup");
    for (std::int64_t i = 0; i < rows_; ++i)
      if (!std::isfinite(z_values_[i]))
        throw BadMatrix(
            fmt::format("amg: a V-cycle for r = (1 ... 1) gives {} in row {} (from 0), so M cannot be used; "
                        "scale the matrix, or {}",
                        z_values_[i], i, Hypre::advice));
  }

  void cycle() const {
    HYPRE_ParVectorSetConstantValues(z_, 0);
    HYPRE_BoomerAMGSolve(solver_, A_, r_, z_);
  }

  void release() noexcept {
    if (solver_) HYPRE_BoomerAMGDestroy(solver_);
    if (r_vector_) HYPRE_IJVectorDestroy(r_vector_);
    if (z_vector_) HYPRE_IJVectorDestroy(z_vector_);
    if (matrix_) HYPRE_IJMatrixDestroy(matrix_);
    HYPRE_ClearAllErrors();
  }

  std::int64_t rows_;
  HYPRE_IJMatrix matrix_ = nullptr;
  HYPRE_IJVector r_vector_ = nullptr, z_vector_ = nullptr;
  HYPRE_Solver solver_ = nullptr;
  // Parts of those above.
  HYPRE_ParCSRMatrix A_ = nullptr;
  HYPRE_ParVector r_ = nullptr, z_ = nullptr;
  double *r_values_ = nullptr, *z_values_ = nullptr;
  std::size_t bytes_ = 0;
  double levels_ = 0, operator_complexity_ = 0, grid_complexity_ = 0, mpi_seconds_ = 0;
};

template <class T>
class Amg final : public BySolving<T> {
 public:
  Amg(const LinearOperator<T>& A, const PreconditionerOptions& options) : BySolving<T>(A), options_(options) {
    if (A.rows() % options.unknowns != 0)
      throw ShapeMismatch(fmt::format("amg: unknowns is {}, which does not divide the {} rows of the matrix",
                                      options.unknowns, A.rows()));
  }

  std::string_view name() const noexcept override { return "amg"; }
  std::vector<PreconditionerFigure> figures() const override {
    return levels_ ? levels_->figures() : std::vector<PreconditionerFigure>{};
  }

 protected:
  void setup(const LinearOperator<T>& A, bool) override {
    const ContextPtr& context = A.context();
    const CsrMatrix<T> csr = finite_rows(A, context, name());
    const Vector<T> diagonal = usable_diagonal<T>(name(), context, csr, options_.zero_diagonal);
    if (csr.rows() > 0) levels_ = std::make_unique<Levels>(csr, diagonal, options_);
  }
  void solve(VectorView<const T> r, VectorView<T> z) const override {
    if (levels_) levels_->solve(r, z);  // else there are no rows
  }
  std::size_t bytes_of_arrays() const noexcept override { return levels_ ? levels_->bytes() : 0; }

 private:
  PreconditionerOptions options_;
  std::unique_ptr<Levels> levels_;
};

}  // namespace

template <class T>
MadePreconditioner<T> make_classical(const LinearOperator<T>& A, const PreconditionerOptions& options) {
  return std::make_unique<Amg<T>>(A, options);
}
template MadePreconditioner<float> make_classical<float>(const LinearOperator<float>&,
                                                         const PreconditionerOptions&);
template MadePreconditioner<double> make_classical<double>(const LinearOperator<double>&,
                                                           const PreconditionerOptions&);

}  // namespace protean::detail
