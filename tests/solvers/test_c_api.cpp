// The C interface: what it has in common with C++, by name and by result.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/buffer.hpp"
#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "core/permutation.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "operators/elements/element_operator.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "support/battery.hpp"
#include "support/elements.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
bool error_has(std::string_view part) { return has(protean_last_error(), part); }

std::vector<std::string> names(const char* kind) {
  std::vector<std::string> all;
  for (std::int64_t i = 0; const char* name = protean_name(kind, i); ++i) all.emplace_back(name);
  return all;
}

class CApi : public testing::Test {
 protected:
  CApi() {
    const auto a = generate(test_context(), "poisson-2d", {{"n", 40}});
    n = a.rows(), nonzeros = a.nonzeros();
    for (std::int64_t r = 0; r <= n; ++r) row_ptr.push_back(static_cast<std::int32_t>(a.pattern.row_ptr[r]));
    col.assign(a.pattern.col, a.pattern.col + nonzeros);
    values.assign(a.values, a.values + nonzeros);
    values32.assign(values.begin(), values.end());
    b = sample_vector<double>(n, 3), x.assign(b.size(), 0.0);
    b32 = sample_vector<float>(n, 3), x32.assign(b32.size(), 0.0f);
    EXPECT_EQ(protean_context_host(1, &context), PROTEAN_OK);
    EXPECT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &A),
              PROTEAN_OK);
    // The format of most tests here; what is taken without it, FormatAutoIsThatOfCpp says.
    EXPECT_EQ(protean_matrix_set_format(A, "csr", nullptr, nullptr), PROTEAN_OK);
    create("cg", "none");
  }
  ~CApi() override {
    protean_matrix_free(A);
    protean_solver_free(solver);
    protean_context_free(context);
  }
  void create(const char* method, const char* preconditioner) {
    protean_solver_free(solver);
    solver = nullptr;
    EXPECT_EQ(protean_solver_create(method, preconditioner, &solver), PROTEAN_OK) << protean_last_error();
  }
  protean_status solve() {
    x.assign(x.size(), 0.0);
    return protean_solve(solver, A, b.data(), x.data());
  }
  // ||b - A x|| / ||b|| with the arrays of the test.
  template <class T>
  double residual(const std::vector<T>& entries, const std::vector<T>& right,
                  const std::vector<T>& solution) {
    double squares = 0, norm = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double r = right[i];
      for (std::int64_t k = row_ptr[i]; k < row_ptr[i + 1]; ++k)
        r -= static_cast<double>(entries[k]) * solution[col[k]];
      squares += r * r, norm += static_cast<double>(right[i]) * right[i];
    }
    return std::sqrt(squares / norm);
  }
  double residual() { return residual(values, b, x); }

  std::int64_t n = 0, nonzeros = 0;
  std::vector<std::int32_t> row_ptr, col;
  std::vector<double> values, b, x;
  std::vector<float> values32, b32, x32;
  protean_context* context = nullptr;
  protean_matrix* A = nullptr;
  protean_solver* solver = nullptr;
};

TEST_F(CApi, KnowsTheNamesOfTheLibrary) {
  std::vector<std::string> methods, kinds, formats;
  for (const SolverEntry& entry : solvers()) methods.emplace_back(entry.id);
  for (const PreconditionerEntry& entry : preconditioners()) kinds.emplace_back(entry.id);
  for (const FormatEntry* entry : catalogue()) formats.emplace_back(entry->id);
  EXPECT_EQ(names("method"), methods);
  EXPECT_EQ(names("preconditioner"), kinds);
  EXPECT_EQ(names("format"), formats);
  EXPECT_EQ(names("trigger"), (std::vector<std::string>{"at_iteration", "at_residual", "after_seconds"}));
  EXPECT_TRUE(names("colour").empty());
  EXPECT_EQ(protean_name("method", -1), nullptr);
  EXPECT_EQ(protean_name(nullptr, 0), nullptr);
  for (const std::string& method : methods) {
    create(method.c_str(), "jacobi");
    EXPECT_EQ(solve(), PROTEAN_OK) << method << ": " << protean_last_error();
    EXPECT_LE(residual(), 1.01e-8) << method;
  }
}

TEST_F(CApi, RefusalsNameWhatIsAllowed) {
  const auto lists_all = [](const std::vector<std::string>& all) {
    for (const std::string& name : all) EXPECT_TRUE(error_has(name)) << protean_last_error();
  };
  protean_solver* other = nullptr;
  EXPECT_EQ(protean_solver_create("cgg", "none", &other), PROTEAN_BAD_ARGUMENT);
  lists_all(names("method"));
  EXPECT_EQ(protean_solver_create("cg", "jacobie", &other), PROTEAN_BAD_ARGUMENT);
  lists_all(names("preconditioner"));
  EXPECT_TRUE(error_has("Did you mean 'jacobi'?"));
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(protean_solver_set(solver, "tolerance", 1), PROTEAN_BAD_ARGUMENT);
  lists_all(names("option"));
  EXPECT_EQ(protean_solver_set_text(solver, "policies", "auto"), PROTEAN_BAD_ARGUMENT);
  lists_all(names("text-option"));
  EXPECT_EQ(protean_solver_set_text(solver, "policy", "yes"), PROTEAN_BAD_ARGUMENT);
  lists_all({"'yes'", "none", "auto"});
  EXPECT_EQ(protean_solver_set_text(solver, "orthogonalization", "mgss"), PROTEAN_BAD_ARGUMENT);
  lists_all({"cgs2", "mgs", "Did you mean 'mgs'?"});
  EXPECT_EQ(protean_solver_schedule(solver, "at", 5, "ell", nullptr, nullptr, 0), PROTEAN_BAD_ARGUMENT);
  lists_all(names("trigger"));
  EXPECT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "elll", nullptr, nullptr, 0),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'ell'?")) << protean_last_error();
  EXPECT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "auto", nullptr, nullptr, 0),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_schedule(solver, "at_iteration", -1, "ell", nullptr, nullptr, 0),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_schedule(solver, "at_iteration", 1, "ell", "C=8", nullptr, 0),
            PROTEAN_BAD_ARGUMENT);
  protean_context* none = nullptr;
  EXPECT_EQ(protean_context_make("host", 1, "deterministik", &none), PROTEAN_BAD_ARGUMENT);
  lists_all({"deterministic", "vector_kernels=native", "vector_kernels=kokkos"});
  EXPECT_EQ(protean_context_make("moon", 1, nullptr, &none), PROTEAN_BAD_ARGUMENT);
  lists_all({"host", "device"});
  EXPECT_EQ(none, nullptr);
  // None of them has changed the solver.
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_switches(solver), 0);
}

TEST_F(CApi, EveryNumberIsAnOption) {
  // Each is taken where a method or a preconditioner reads it, and refused elsewhere.
  int taken = 0, refused = 0;
  for (const std::string& name : names("option")) {
    bool read = false;
    for (const std::string& method : names("method"))
      for (const char* id :
           {"none", "ic", "ssor", "block-jacobi", "chebyshev", "isai", "subdomain-ilu0", "auto"}) {
        create(method.c_str(), find_solver(method).symmetric || method == "bicgstab" ? id : "none");
        const bool in_unit = name == "relative_tolerance" || name == "strong_threshold" ||
                             name == "strength" || name == "omega";
        const double value = in_unit ? 0.5 : name == "overlap" ? 1 : 2;
        const protean_status status = protean_solver_set(solver, name.c_str(), value);
        if (status == PROTEAN_OK) {
          read = true, ++taken;
        } else {
          EXPECT_EQ(status, PROTEAN_BAD_ARGUMENT) << name << protean_last_error();
          EXPECT_TRUE(error_has(name + " is for ")) << protean_last_error();
          ++refused;
        }
      }
    if (std::string(protean_last_error()).find("amg") == std::string::npos) { EXPECT_TRUE(read) << name; }
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 100);
  create("cg", "none");
  EXPECT_EQ(protean_solver_set(solver, "absolute_tolerance", 1e3), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << "the initial guess is good enough";
  EXPECT_EQ(protean_solver_iterations(solver), 0);
}

TEST_F(CApi, WordsAreOptions) {
  // A good initial guess: relative to its residual there is more to do than relative to b.
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-3), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_iterations(solver), 0);
  ASSERT_EQ(protean_solver_set_text(solver, "baseline", "initial-residual"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_GT(protean_solver_iterations(solver), 0);
  EXPECT_LE(residual(), 1e-5);
  ASSERT_EQ(protean_solver_set_text(solver, "baseline", "rhs"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_iterations(solver), 0);

  // A row without diagonal entry.
  const std::int32_t ptr[] = {0, 1, 2}, columns[] = {1, 0};
  const double ones[] = {1, 1}, right[] = {1, 2};
  double y[] = {0, 0};
  protean_matrix* swap = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, 2, 2, 2, ptr, columns, ones, 0, &swap), PROTEAN_OK);
  create("gmres", "jacobi");
  EXPECT_EQ(protean_solve(solver, swap, right, y), PROTEAN_BAD_MATRIX);
  ASSERT_EQ(protean_solver_set_text(solver, "zero_diagonal", "one"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, swap, right, y), PROTEAN_OK) << protean_last_error();
  EXPECT_NEAR(y[0], 2, 1e-8);
  ASSERT_EQ(protean_solver_set_text(solver, "zero_diagonal", "error"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, swap, right, y), PROTEAN_BAD_MATRIX);
  EXPECT_EQ(protean_solver_set_text(solver, "orthogonalization", "mgs"), PROTEAN_OK);
  // What is wrong shows where the solve begins.
  EXPECT_EQ(protean_solver_set_text(solver, "device_steps", "graph"), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "zero_diagonal", "one"), PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, swap, right, y), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("device_steps is 'graph', but the operator is not on a GPU; leave it at 'auto'"))
      << protean_last_error();
  protean_matrix_free(swap);

  create("cg", "block-jacobi");
  EXPECT_EQ(protean_solver_set_text(solver, "diagonal_blocks", "found"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "diagonal_blocks", "given"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("one of: equal, found")) << protean_last_error();

  // Sweeps approximate the solves with the factors.
  create("cg", "ic0");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  const std::int64_t exact = protean_solver_iterations(solver);
  ASSERT_EQ(protean_solver_set_text(solver, "triangular_solve", "sweeps"), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set(solver, "sweeps", 1), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_GT(protean_solver_iterations(solver), exact);
  ASSERT_EQ(protean_solver_set_text(solver, "triangular_solve", "cusparse"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("sweeps is for triangular_solve: sweeps; triangular_solve is cusparse: set it to 4 "))
      << protean_last_error();
  ASSERT_EQ(protean_solver_set(solver, "sweeps", 4), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_NOT_AVAILABLE);
  EXPECT_TRUE(error_has("take levels or sweeps")) << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "triangular_solve", "level"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'levels'?")) << protean_last_error();
}

// The setup of hypre is in a build with hypre only; its options are known in any.
TEST_F(CApi, MultigridAndItsSetups) {
  for (const char* option : {"aggressive_levels", "max_levels", "cycles"}) {
    EXPECT_EQ(protean_solver_set(solver, option, 2), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has(std::string(option) + " is for preconditioner amg; the preconditioner is "))
        << protean_last_error();
  }
  EXPECT_EQ(protean_solver_set(solver, "unknowns", 2), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("unknowns is for preconditioners amg and auto; the preconditioner is "))
      << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "smoother", "jacobi"), PROTEAN_BAD_ARGUMENT);
  for (const char* word : {"l1-jacobi", "gauss-seidel", "chebyshev"})
    EXPECT_TRUE(error_has(word)) << protean_last_error();
  EXPECT_EQ(protean_solver_set_text(solver, "coarsening", "hmiss"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'hmis'?")) << protean_last_error();
  create("cg", "none");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  const std::int64_t plain = protean_solver_iterations(solver);
  create("cg", "amg");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LT(protean_solver_iterations(solver), plain);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_EQ(protean_solver_set(solver, "cycles", 0), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("cycles is 0; it must be a whole number from 1 to 100")) << protean_last_error();
  EXPECT_EQ(protean_solver_set(solver, "cycles", 2), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set(solver, "strength", 0.01), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "level_format", "csr"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  create("cg", "amg");
  EXPECT_EQ(protean_solver_set_text(solver, "amg_setup", "classical"), PROTEAN_OK);
  if (!unavailable(AmgSetup::classical).empty()) {
    EXPECT_EQ(solve(), PROTEAN_NOT_AVAILABLE);
    EXPECT_TRUE(error_has("PROTEAN_HYPRE=ON")) << protean_last_error();
    return;
  }
  EXPECT_EQ(protean_solver_set(solver, "strong_threshold", 0.5), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "smoother", "gauss-seidel"), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "coarsening", "pmis"), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_OK) << protean_last_error();
}

TEST_F(CApi, AContextMayBeDeterministic) {
  protean_context* same = nullptr;
  ASSERT_EQ(protean_context_make("host", 2, "deterministic,vector_kernels=native", &same), PROTEAN_OK)
      << protean_last_error();
  protean_matrix* matrix = nullptr;
  ASSERT_EQ(protean_matrix_csr(same, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &matrix),
            PROTEAN_OK);
  // A kernel of a library has no such mode; where it is not in the build that is said first.
  for (const char* kernel : {"mkl", "kokkos"}) {
    const protean_status plain = protean_matrix_set_format(A, "csr", nullptr, kernel);
    EXPECT_EQ(protean_matrix_set_format(matrix, "csr", nullptr, kernel),
              plain == PROTEAN_OK ? PROTEAN_FORMAT_REFUSED : PROTEAN_NOT_AVAILABLE)
        << kernel << ": " << protean_last_error();
  }
  protean_matrix_free(matrix);
  protean_context_free(same);
}

// An operator and a preconditioner of the caller, and what they have seen.
struct Caller {
  const CApi* test = nullptr;
  std::int64_t n = 0;
  double factor = 1;
  int products = 0, diagonals = 0, preconditioned = 0, setups = 0, last_pattern = -1;
  int fail_product_at = -1, fail_preconditioner = 0, fail_setup = 0, fail_diagonal = 0;

  // factor * tridiag(-1, 2.1, -1)
  template <class T>
  static int product(void* user, const T* x, T* y, void* stream) {
    Caller& me = *static_cast<Caller*>(user);
    if (stream) return 99;
    for (std::int64_t i = 0; i < me.n; ++i) {
      T sum = static_cast<T>(2.1) * x[i];
      if (i > 0) sum -= x[i - 1];
      if (i + 1 < me.n) sum -= x[i + 1];
      y[i] = static_cast<T>(me.factor) * sum;
    }
    return me.products++ == me.fail_product_at ? 7 : 0;
  }
  template <class T>
  static int diagonal(void* user, T* d, void*) {
    Caller& me = *static_cast<Caller*>(user);
    for (std::int64_t i = 0; i < me.n; ++i) d[i] = static_cast<T>(2.1 * me.factor);
    ++me.diagonals;
    return me.fail_diagonal;
  }
  // One symmetric Gauss-Seidel sweep.
  template <class T>
  static int sweep(void* user, const T* r, T* z, void*) {
    Caller& me = *static_cast<Caller*>(user);
    for (std::int64_t i = 0; i < me.n; ++i) z[i] = (r[i] + (i > 0 ? z[i - 1] : 0)) / static_cast<T>(2.1);
    for (std::int64_t i = me.n - 2; i >= 0; --i) z[i] += z[i + 1] / static_cast<T>(2.1);
    ++me.preconditioned;
    return me.fail_preconditioner;
  }
  static int setup(void* user, int pattern_changed) {
    Caller& me = *static_cast<Caller*>(user);
    ++me.setups, me.last_pattern = pattern_changed;
    return me.fail_setup;
  }
};

class CCallback : public CApi {
 protected:
  CCallback() {
    caller.n = n;
    EXPECT_EQ(protean_matrix_callback(context, n, n, "chain", Caller::product<double>,
                                      Caller::diagonal<double>, &caller, 0, &chain),
              PROTEAN_OK);
    create("cg", "jacobi");
  }
  ~CCallback() override { protean_matrix_free(chain); }
  protean_status solve_chain() {
    x.assign(x.size(), 0.0);
    return protean_solve(solver, chain, b.data(), x.data());
  }
  double chain_residual() {
    std::vector<double> y(x.size());
    Caller::product<double>(&caller, x.data(), y.data(), nullptr);
    double squares = 0, norm = 0;
    for (std::size_t i = 0; i < y.size(); ++i) squares += (b[i] - y[i]) * (b[i] - y[i]), norm += b[i] * b[i];
    return std::sqrt(squares / norm);
  }
  Caller caller;
  protean_matrix* chain = nullptr;
};

TEST_F(CCallback, AnOperatorOfTheCallerIsSolved) {
  EXPECT_STREQ(protean_matrix_format(chain), "chain");
  EXPECT_EQ(protean_matrix_rows(chain), n);
  EXPECT_EQ(protean_matrix_cols(chain), n);
  ASSERT_EQ(solve_chain(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(chain_residual(), 1.01e-8);
  EXPECT_EQ(caller.diagonals, 1);
  EXPECT_GT(caller.products, protean_solver_iterations(solver));
  // Other numbers in the functions.
  caller.factor = 2;
  ASSERT_EQ(protean_matrix_changed(chain, 0), PROTEAN_OK);
  ASSERT_EQ(solve_chain(), PROTEAN_OK);
  EXPECT_LE(chain_residual(), 1.01e-8);
  EXPECT_EQ(caller.diagonals, 2) << "jacobi is set up again";
  EXPECT_EQ(protean_matrix_changed(A, 0), PROTEAN_BAD_ARGUMENT) << "a matrix with arrays";
  // What it cannot do is said.
  EXPECT_EQ(protean_matrix_update_values(chain, values.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("protean_matrix_changed()")) << protean_last_error();
  EXPECT_EQ(protean_matrix_set_format(chain, "ell", nullptr, nullptr), PROTEAN_BAD_ARGUMENT);
  ASSERT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK);
  EXPECT_EQ(solve_chain(), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("operator chain")) << protean_last_error();
  protean_matrix* other = nullptr;
  EXPECT_EQ(protean_matrix_callback(context, n, n, nullptr, nullptr, nullptr, nullptr, 0, &other),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(
      protean_matrix_callback(context, -1, n, nullptr, Caller::product<double>, nullptr, nullptr, 0, &other),
      PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(other, nullptr);
}

TEST_F(CCallback, APreconditionerOfTheCallerIsUsed) {
  ASSERT_EQ(solve_chain(), PROTEAN_OK);
  const auto jacobi = protean_solver_iterations(solver);
  ASSERT_EQ(protean_solver_set_preconditioner(solver, Caller::sweep<double>, Caller::setup, &caller, 0),
            PROTEAN_OK);
  ASSERT_EQ(solve_chain(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(chain_residual(), 1.01e-8);
  EXPECT_LT(protean_solver_iterations(solver), jacobi);
  EXPECT_GE(caller.preconditioned, protean_solver_iterations(solver));
  EXPECT_EQ(caller.setups, 1);
  EXPECT_EQ(caller.last_pattern, 1);
  ASSERT_EQ(solve_chain(), PROTEAN_OK);
  EXPECT_EQ(caller.setups, 1) << "nothing has changed";
  ASSERT_EQ(protean_matrix_changed(chain, 0), PROTEAN_OK);
  ASSERT_EQ(solve_chain(), PROTEAN_OK);
  EXPECT_EQ(caller.setups, 2);
  EXPECT_EQ(caller.last_pattern, 0);
  ASSERT_EQ(protean_matrix_changed(chain, 1), PROTEAN_OK);
  ASSERT_EQ(solve_chain(), PROTEAN_OK);
  EXPECT_EQ(caller.last_pattern, 1);
  // Without a setup, and back to the one by name.
  ASSERT_EQ(protean_solver_set_preconditioner(solver, Caller::sweep<double>, nullptr, &caller, 0),
            PROTEAN_OK);
  ASSERT_EQ(solve_chain(), PROTEAN_OK);
  EXPECT_LT(protean_solver_iterations(solver), jacobi);
  ASSERT_EQ(protean_solver_set_preconditioner(solver, nullptr, nullptr, nullptr, 0), PROTEAN_OK);
  const int before = caller.preconditioned;
  ASSERT_EQ(solve_chain(), PROTEAN_OK);
  EXPECT_EQ(protean_solver_iterations(solver), jacobi);
  EXPECT_EQ(caller.preconditioned, before);
}

// Rigid body modes are those of C++, and a solver with amg takes them, or other vectors, and leaves them again.
TEST_F(CApi, VectorsNearTheNullSpace) {
  const std::int64_t m = 7, nodes = 6 * m * m;
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", 6}});
  ASSERT_EQ(csr.rows(), 3 * nodes);
  std::vector<double> places(static_cast<std::size_t>(3 * nodes)),
      modes(static_cast<std::size_t>(18 * nodes));
  MultiVector<double> columns(test_context(), nodes, 3);
  for (std::int64_t node = 0; node < nodes; ++node)
    for (std::int64_t k = 0; k < 3; ++k) {
      const std::int64_t at[] = {node % 6 + 1, node / 6 % m, node / 6 / m};
      places[static_cast<std::size_t>(3 * node + k)] = columns.view()(node, k) = static_cast<double>(at[k]);
    }
  ASSERT_EQ(protean_rigid_body_modes(nodes, 3, places.data(), modes.data()), PROTEAN_OK)
      << protean_last_error();
  const MultiVector<double> expected = rigid_body_modes(test_context(), columns);
  ASSERT_EQ(expected.columns(), 6);
  EXPECT_TRUE(std::equal(modes.begin(), modes.end(), expected.data()));
  EXPECT_EQ(protean_rigid_body_modes(nodes, 4, places.data(), modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_rigid_body_modes(-1, 3, places.data(), modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_rigid_body_modes(nodes, 3, nullptr, modes.data()), PROTEAN_BAD_ARGUMENT);

  std::vector<std::int32_t> rows;
  for (std::int64_t r = 0; r <= csr.rows(); ++r)
    rows.push_back(static_cast<std::int32_t>(csr.pattern.row_ptr[r]));
  protean_matrix* body = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, csr.rows(), csr.rows(), csr.nonzeros(), rows.data(), csr.pattern.col,
                               csr.values, 0, &body),
            PROTEAN_OK);
  const std::vector<double> right = sample_vector<double>(csr.rows(), 3);
  const auto iterations = [&] {
    std::vector<double> solution(right.size(), 0.0);
    EXPECT_EQ(protean_solve(solver, body, right.data(), solution.data()), PROTEAN_OK) << protean_last_error();
    return protean_solver_iterations(solver);
  };
  create("cg", "amg");
  ASSERT_EQ(protean_solver_set(solver, "unknowns", 3), PROTEAN_OK);
  const auto constants = iterations();
  ASSERT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 6, modes.data()), PROTEAN_OK);
  const auto with_modes = iterations();
  EXPECT_LT(with_modes, constants);
  // They are copied, and others with the same address are others.
  std::vector<double> translations(modes.begin(), modes.begin() + 9 * nodes);
  std::fill(modes.begin(), modes.end(), 0.0);
  EXPECT_EQ(iterations(), with_modes);
  ASSERT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 3, translations.data()), PROTEAN_OK);
  EXPECT_EQ(iterations(), constants);
  ASSERT_EQ(protean_solver_set_near_null_space(solver, 0, 0, nullptr), PROTEAN_OK);
  EXPECT_EQ(iterations(), constants);
  // Refused: another number of rows by the solve, the others at once.
  ASSERT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes - 3, 3, translations.data()), PROTEAN_OK);
  std::vector<double> solution(right.size(), 0.0);
  EXPECT_EQ(protean_solve(solver, body, right.data(), solution.data()), PROTEAN_SHAPE_MISMATCH);
  EXPECT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 65, modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, -1, modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_near_null_space(solver, -1, 1, modes.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 1, nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solver_set_near_null_space(nullptr, 3 * nodes, 1, modes.data()), PROTEAN_BAD_ARGUMENT);
  create("cg", "jacobi");
  EXPECT_EQ(protean_solver_set_near_null_space(solver, 3 * nodes, 3, translations.data()),
            PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("amg and auto, and jacobi")) << protean_last_error();
  protean_matrix_free(body);
}

TEST_F(CCallback, AFunctionThatFailsEndsTheCall) {
  const auto fails = [&](std::string_view what, std::string_view number) {
    EXPECT_EQ(solve_chain(), PROTEAN_CALLBACK_FAILED);
    EXPECT_TRUE(error_has(what) && error_has(number)) << protean_last_error();
  };
  EXPECT_STREQ(protean_status_name(PROTEAN_CALLBACK_FAILED), "callback-failed");
  EXPECT_STREQ(protean_status_name(static_cast<protean_status>(15)), "unknown");
  caller.fail_diagonal = 3;
  fails("the diagonal of operator chain", "returned 3");
  caller.fail_diagonal = 0, caller.fail_product_at = 5;
  fails("the product of operator chain", "returned 7");
  caller.fail_product_at = -1;
  ASSERT_EQ(protean_solver_set_preconditioner(solver, Caller::sweep<double>, Caller::setup, &caller, 0),
            PROTEAN_OK);
  caller.fail_setup = 4;
  fails("the setup of the preconditioner", "returned 4");
  caller.fail_setup = 0, caller.fail_preconditioner = 5;
  fails("the preconditioner", "returned 5");
  caller.fail_preconditioner = 0;
  EXPECT_EQ(solve_chain(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(chain_residual(), 1.01e-8);
}

// The monitor of the caller.
struct Watched {
  std::vector<std::int64_t> iterations;
  std::vector<std::string> formats;
  double last = 0;
  std::int64_t end_at = -1, change_at = -1;
  protean_matrix* matrix = nullptr;
  std::vector<double>* values = nullptr;
  protean_status format_status = PROTEAN_OK, values_status = PROTEAN_BAD_ARGUMENT;

  static int monitor(void* user, const protean_iteration* now) {
    Watched& me = *static_cast<Watched*>(user);
    me.iterations.push_back(now->iteration), me.formats.emplace_back(now->format);
    me.last = now->relative_residual;
    EXPECT_GE(now->seconds, 0);
    if (now->iteration == me.change_at) {
      for (double& value : *me.values) value *= 2;
      me.values_status = protean_matrix_update_values(me.matrix, me.values->data());
      me.format_status = protean_matrix_set_format(me.matrix, "ell", nullptr, nullptr);
    }
    return now->iteration == me.end_at ? 1 : 0;
  }
};

TEST_F(CApi, AMonitorSeesEachIterationAndMayEndTheSolve) {
  Watched watched;
  ASSERT_EQ(protean_solver_set_monitor(solver, Watched::monitor, &watched), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  ASSERT_EQ(static_cast<std::int64_t>(watched.iterations.size()), protean_solver_iterations(solver) + 1);
  for (std::size_t i = 0; i < watched.iterations.size(); ++i)
    EXPECT_EQ(watched.iterations[i], static_cast<std::int64_t>(i));
  EXPECT_DOUBLE_EQ(watched.last, protean_solver_recurrence_residual(solver));
  EXPECT_EQ(watched.formats.back(), "csr");
  watched.end_at = 4;
  EXPECT_EQ(solve(), PROTEAN_NOT_CONVERGED);
  EXPECT_STREQ(protean_solver_reason(solver), "interrupted");
  EXPECT_EQ(protean_solver_iterations(solver), 4);
  // New values in mid-solve are solved with; a change of format is for the schedule.
  watched.end_at = -1, watched.change_at = 10, watched.matrix = A, watched.values = &values;
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(watched.values_status, PROTEAN_OK);
  EXPECT_EQ(watched.format_status, PROTEAN_BAD_ARGUMENT);
  EXPECT_LE(residual(), 1.01e-8) << "of the new values";
  EXPECT_EQ(protean_solver_restarts(solver), 1);
  ASSERT_EQ(protean_solver_set_monitor(solver, nullptr, nullptr), PROTEAN_OK);
  const std::size_t seen = watched.iterations.size();
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(watched.iterations.size(), seen);
}

TEST_F(CApi, TellsWhetherASolveConverged) {
  EXPECT_EQ(protean_solver_converged(nullptr), 0);
  EXPECT_EQ(protean_solver_converged(solver), 0) << "before a solve";
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(protean_solver_converged(solver), 1);
  ASSERT_EQ(protean_solver_set(solver, "max_iterations", 1), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_NOT_CONVERGED);
  EXPECT_EQ(protean_solver_converged(solver), 0);
}

TEST_F(CApi, WhatIsFreedLeavesNoMemory) {
  const std::size_t before = allocated_bytes();
  protean_matrix* mine = nullptr;
  protean_solver* another = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &mine),
            PROTEAN_OK);
  ASSERT_EQ(protean_matrix_set_format(mine, "ell", nullptr, nullptr), PROTEAN_OK);
  ASSERT_EQ(protean_solver_create("cg", "ic0", &another), PROTEAN_OK);
  x.assign(x.size(), 0.0);
  ASSERT_EQ(protean_solve(another, mine, b.data(), x.data()), PROTEAN_OK);
  const std::size_t both = allocated_bytes();
  protean_solver_free(another);
  const std::size_t matrix_alone = allocated_bytes();
  EXPECT_LT(matrix_alone, both);
  protean_matrix_free(mine);
  EXPECT_LT(allocated_bytes(), matrix_alone);
  EXPECT_EQ(allocated_bytes(), before);
}

TEST_F(CApi, AScheduleChangesTheFormat) {
  Watched watched;
  ASSERT_EQ(protean_solver_set_monitor(solver, Watched::monitor, &watched), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "sell-c-sigma", "C=4,sigma=1", nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_residual", 1e-4, "ell", nullptr, nullptr, 0), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 8, "csr", nullptr, "nobody", 0), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  ASSERT_EQ(protean_solver_switches(solver), 2);
  protean_switch change;
  ASSERT_EQ(protean_solver_switch(solver, 0, &change), PROTEAN_OK);
  EXPECT_EQ(change.iteration, 5);
  EXPECT_STREQ(change.from, "csr");
  EXPECT_STREQ(change.to, "sell-c-sigma");
  EXPECT_GT(change.convert_seconds, 0);
  EXPECT_EQ(change.overlapped, 0);
  ASSERT_EQ(protean_solver_switch(solver, 1, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "ell");
  EXPECT_STREQ(protean_matrix_format(A), "ell");
  EXPECT_EQ(watched.formats.front(), "csr");
  EXPECT_EQ(watched.formats.back(), "ell");
  for (const std::int64_t outside : {2, 3, 1000, -1}) {
    EXPECT_EQ(protean_solver_switch(solver, outside, &change), PROTEAN_BAD_ARGUMENT) << outside;
    EXPECT_TRUE(error_has("there are 2")) << protean_last_error();
  }
  // The kernel that is not there is a change that failed, with the reason.
  ASSERT_EQ(protean_solver_failed_switches(solver), 1);
  protean_failed_switch lost;
  ASSERT_EQ(protean_solver_failed_switch(solver, 0, &lost), PROTEAN_OK);
  EXPECT_EQ(lost.iteration, 8);
  EXPECT_TRUE(has(lost.why, "nobody")) << lost.why;

  // The matrix goes on in its format: values, products, formats, and a solve without a schedule.
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  for (double& value : values) value *= 4;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_EQ(protean_solver_switches(solver), 0);
  EXPECT_STREQ(protean_matrix_format(A), "ell");
  EXPECT_GT(protean_matrix_bytes(A), 0u);
  ASSERT_EQ(protean_matrix_set_format(A, "coo", nullptr, nullptr), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(A), "coo");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(A), "coo") << "the solve has used it";
  EXPECT_LE(residual(), 1.01e-8);
}

TEST_F(CApi, ThePolicyDecides) {
  ASSERT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 5, "ell", nullptr, nullptr, 0), PROTEAN_OK);
  EXPECT_EQ(solve(), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("protean_solver_schedule_clear()")) << protean_last_error();
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);

  // A system large enough that the policy looks at it: there are decisions, and each names an iteration.
  const auto large = generate(test_context(), "poisson-2d", {{"n", 250}});
  protean_matrix* matrix = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, large.rows(), large.rows(), large.nonzeros(),
                               large.pattern.row_ptr.p32, large.pattern.col, large.values, 0, &matrix),
            PROTEAN_OK);
  std::vector<double> right(static_cast<std::size_t>(large.rows()), 1.0), left(right.size(), 0.0);
  ASSERT_EQ(protean_solve(solver, matrix, right.data(), left.data()), PROTEAN_OK) << protean_last_error();
  ASSERT_GT(protean_solver_decisions(solver), 0);
  EXPECT_TRUE(has(protean_solver_decision(solver, 0), "iteration ")) << protean_solver_decision(solver, 0);
  EXPECT_STREQ(protean_solver_decision(solver, protean_solver_decisions(solver)), "");
  // A solve without the policy has none, with one right-hand side and with several.
  const std::int64_t rows = large.rows();
  for (const bool several : {false, true}) {
    ASSERT_GT(protean_solver_decisions(solver), 0);
    ASSERT_EQ(protean_solver_set_text(solver, "policy", "none"), PROTEAN_OK);
    ASSERT_EQ(protean_solver_set(solver, "expected_iterations", 300), PROTEAN_OK);
    left.assign(left.size(), 0.0);
    ASSERT_EQ(several ? protean_solve_multi(solver, matrix, 1, right.data(), rows, left.data(), rows)
                      : protean_solve(solver, matrix, right.data(), left.data()),
              PROTEAN_OK)
        << protean_last_error();
    EXPECT_EQ(protean_solver_decisions(solver), 0);
    ASSERT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK);
    ASSERT_EQ(protean_solver_set(solver, "expected_iterations", 0), PROTEAN_OK);
    left.assign(left.size(), 0.0);
    ASSERT_EQ(protean_solve(solver, matrix, right.data(), left.data()), PROTEAN_OK);
  }
  // No format has ever paid this much for one change: nothing changes.
  ASSERT_EQ(protean_matrix_set_format(matrix, "csr", nullptr, nullptr), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set(solver, "hysteresis", 0.999), PROTEAN_OK);
  left.assign(left.size(), 0.0);
  ASSERT_EQ(protean_solve(solver, matrix, right.data(), left.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_switches(solver), 0);
  EXPECT_STREQ(protean_matrix_format(matrix), "csr");
  protean_matrix_free(matrix);
}

TEST_F(CApi, ElementMatricesAreAssembledDuringASolve) {
  // A chain of springs, each point held: tridiag(-1, 2.5, -1) inside.
  const int points = 500;
  std::vector<std::int32_t> connectivity;
  std::vector<double> matrices;
  for (int i = 0; i + 1 < points; ++i) {
    connectivity.insert(connectivity.end(), {i, i + 1});
    matrices.insert(matrices.end(), {1.25, -1, -1, 1.25});
  }
  protean_matrix* springs = nullptr;
  ASSERT_EQ(protean_matrix_elements(context, points, 1, points - 1, 2, connectivity.data(), matrices.data(),
                                    0, nullptr, 0, 1, "gather", &springs),
            PROTEAN_OK);
  const std::string element(protean_matrix_format(springs));
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 3, "csr", nullptr, nullptr, 0), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 6, "element", nullptr, nullptr, 0), PROTEAN_OK);
  std::vector<double> right(points, 1.0), left(points, 0.0);
  ASSERT_EQ(protean_solve(solver, springs, right.data(), left.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_NEAR(left[points / 2], 2, 1e-6);
  ASSERT_EQ(protean_solver_switches(solver), 2);
  protean_switch change;
  ASSERT_EQ(protean_solver_switch(solver, 0, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "csr");
  EXPECT_EQ(protean_matrix_format(springs), element);
  for (double& entry : matrices) entry *= 2;
  ASSERT_EQ(protean_matrix_update_values(springs, matrices.data()), PROTEAN_OK) << protean_last_error();
  left.assign(left.size(), 0.0);
  ASSERT_EQ(protean_solve(solver, springs, right.data(), left.data()), PROTEAN_OK);
  EXPECT_NEAR(left[points / 2], 1, 1e-6);
  protean_matrix_free(springs);
}

// Several right-hand sides: products and solves with leading dimensions, and the result of each column.
TEST_F(CApi, SeveralRightHandSides) {
  constexpr std::int64_t k = 4, gap = 5;
  const std::int64_t ld = n + gap;
  std::vector<double> B(static_cast<std::size_t>(ld * k), 7.0), X(B.size(), 0.0), Y(B.size(), 7.0);
  for (std::int64_t j = 0; j < k; ++j) {
    const auto column = sample_vector<double>(n, 10 + static_cast<unsigned>(j));
    std::copy(column.begin(), column.end(), B.begin() + j * ld);
  }
  std::fill_n(B.begin() + 2 * ld, n, 0.0);
  ASSERT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_OK)
      << protean_last_error();
  EXPECT_STREQ(protean_solver_multi_product(solver), "in one pass");
  ASSERT_EQ(protean_solver_columns(solver), k);
  ASSERT_EQ(protean_matrix_apply_multi(A, k, 1.0, X.data(), ld, 0.0, Y.data(), ld), PROTEAN_OK);
  std::int64_t most = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    SCOPED_TRACE(j);
    protean_column one{};
    ASSERT_EQ(protean_solver_column(solver, j, &one), PROTEAN_OK);
    EXPECT_EQ(one.converged, 1);
    EXPECT_STREQ(one.reason, j == 2 ? "zero-right-hand-side" : "relative-tolerance");
    most = std::max(most, one.iterations);
    // The same column alone.
    std::vector<double> alone(static_cast<std::size_t>(n), 0.0);
    ASSERT_EQ(protean_solve(solver, A, B.data() + j * ld, alone.data()), PROTEAN_OK);
    EXPECT_LE(std::abs(protean_solver_iterations(solver) - one.iterations), 1);
    EXPECT_EQ(protean_solver_columns(solver), 0) << "of one right-hand side";
    double error = 0, size = 0, rest = 0, right = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::size_t at = static_cast<std::size_t>(i + j * ld);
      error = std::max(error, std::abs(X[at] - alone[static_cast<std::size_t>(i)])),
      size = std::max(size, std::abs(X[at]));
      rest += (B[at] - Y[at]) * (B[at] - Y[at]), right += B[at] * B[at];
    }
    EXPECT_LE(error, 1e-6 * size);
    EXPECT_LE(std::sqrt(rest), 1.01e-8 * std::sqrt(right));
    for (std::int64_t i = n; i < ld; ++i)
      EXPECT_EQ(Y[static_cast<std::size_t>(i + j * ld)], 7.0) << "a gap was written";
    // The next column is compared with a solve of all from the same guess.
    std::fill(X.begin(), X.end(), 0.0);
    ASSERT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_OK);
  }
  EXPECT_GT(most, 10);
  // What is told of all columns is of the longest one.
  EXPECT_EQ(protean_solver_iterations(solver), most);
  EXPECT_STREQ(protean_solver_reason(solver), "relative-tolerance");

  // A column that ends at once, not converged, is told of; the seconds are those of the whole solve.
  const double kept = B[static_cast<std::size_t>(ld)];
  B[static_cast<std::size_t>(ld)] = std::nan("");
  std::fill(X.begin(), X.end(), 0.0);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_NOT_CONVERGED);
  EXPECT_STREQ(protean_solver_reason(solver), "not-finite");
  protean_column first{}, ended{};
  ASSERT_EQ(protean_solver_column(solver, 0, &first), PROTEAN_OK);
  ASSERT_EQ(protean_solver_column(solver, 1, &ended), PROTEAN_OK);
  EXPECT_EQ(first.converged, 1);
  EXPECT_LT(ended.seconds, first.seconds);
  EXPECT_GE(protean_solver_seconds(solver), first.seconds);
  B[static_cast<std::size_t>(ld)] = kept;

  // The first column that has not converged is told of.
  ASSERT_EQ(protean_solver_set(solver, "max_iterations", 3), PROTEAN_OK);
  std::fill(X.begin(), X.end(), 0.0);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_NOT_CONVERGED);
  EXPECT_STREQ(protean_solver_reason(solver), "max-iterations");
  EXPECT_EQ(protean_solver_iterations(solver), 3);
  EXPECT_FALSE(std::string(protean_solver_advice(solver)).empty());

  protean_column one{};
  EXPECT_EQ(protean_solver_column(solver, k, &one), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve_multi(solver, A, -1, B.data(), ld, X.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve_multi(solver, A, k, nullptr, ld, X.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), n - 1, X.data(), ld), PROTEAN_SHAPE_MISMATCH);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, B.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_apply_multi(A, k, 1.0, X.data(), ld, 0.0, X.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve_multi(solver, A, 0, nullptr, n, nullptr, n), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK);
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("one right-hand side"));
  create("minres", "none");
  EXPECT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("minres"));
  // The options of gmres, and new ones, go to solves of several columns.
  create("gmres", "none");
  for (const double restart : {7.0, 11.0}) {
    ASSERT_EQ(protean_solver_set(solver, "restart", restart), PROTEAN_OK);
    std::fill(X.begin(), X.end(), 0.0);
    ASSERT_EQ(protean_solve_multi(solver, A, k, B.data(), ld, X.data(), ld), PROTEAN_OK);
    ASSERT_EQ(protean_solver_column(solver, 1, &one), PROTEAN_OK);
    std::vector<double> alone(static_cast<std::size_t>(n), 0.0);
    ASSERT_EQ(protean_solve(solver, A, B.data() + ld, alone.data()), PROTEAN_OK);
    EXPECT_GT(one.restarts, 1);
    EXPECT_LE(std::abs(protean_solver_iterations(solver) - one.iterations), 1);
  }
}

TEST_F(CApi, SinglePrecision) {
  protean_matrix* single = nullptr;
  ASSERT_EQ(protean_matrix_csr_f32(context, n, n, nonzeros, row_ptr.data(), col.data(), values32.data(), 0,
                                   &single),
            PROTEAN_OK);
  EXPECT_EQ(protean_matrix_is_f32(single), 1);
  EXPECT_EQ(protean_matrix_is_f32(A), 0);
  create("cg", "jacobi");
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-5), PROTEAN_OK);
  ASSERT_EQ(protean_solve_f32(solver, single, b32.data(), x32.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(values32, b32, x32), 2e-5);
  // The same solver in the other precision.
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-5);
  // The functions of the other precision are refused, with the name of the right ones.
  EXPECT_EQ(protean_solve(solver, single, b.data(), x.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("with _f32")) << protean_last_error();
  EXPECT_EQ(protean_solve_f32(solver, A, b32.data(), x32.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("without _f32")) << protean_last_error();
  EXPECT_EQ(protean_matrix_update_values(single, values.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_apply(single, 1, x.data(), 0, x.data()), PROTEAN_BAD_ARGUMENT);
  // Format, values, product.
  ASSERT_EQ(protean_matrix_set_format(single, "sell-c-sigma", nullptr, nullptr), PROTEAN_OK);
  for (float& value : values32) value *= 2;
  ASSERT_EQ(protean_matrix_update_values_f32(single, values32.data()), PROTEAN_OK);
  const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f);
  std::vector<float> y(ones.size(), 1.0f);
  ASSERT_EQ(protean_matrix_apply_f32(single, 1, ones.data(), 3, y.data()), PROTEAN_OK);
  EXPECT_EQ(y[0], 2 * (4 - 1 - 1) + 3);
  values32[3] = std::nanf("");
  EXPECT_EQ(protean_matrix_update_values_f32(single, values32.data()), PROTEAN_BAD_MATRIX);
  protean_matrix_free(single);

  const std::vector<std::int64_t> wide(row_ptr.begin(), row_ptr.end());
  values32[3] = 1;
  ASSERT_EQ(
      protean_matrix_csr64_f32(context, n, n, nonzeros, wide.data(), col.data(), values32.data(), 0, &single),
      PROTEAN_OK);
  EXPECT_EQ(protean_matrix_is_f32(single), 1);
  protean_matrix_free(single);

  const std::int32_t connectivity[] = {0, 1, 1, 2};
  const float springs[] = {2, -1, -1, 2, 2, -1, -1, 2}, right[] = {1, 2, 1};
  float left[] = {0, 0, 0};
  ASSERT_EQ(protean_matrix_elements_f32(context, 3, 1, 2, 2, connectivity, springs, 0, nullptr, 0, 1, nullptr,
                                        &single),
            PROTEAN_OK);
  ASSERT_EQ(protean_solve_f32(solver, single, right, left), PROTEAN_OK) << protean_last_error();
  EXPECT_NEAR(left[1], 1, 1e-4) << "2 -1 0 / -1 4 -1 / 0 -1 2 times (1 1 1) is (1 2 1)";
  EXPECT_NEAR(left[0], 1, 1e-4);
  protean_matrix_free(single);
}

TEST_F(CCallback, FunctionsInSinglePrecision) {
  protean_matrix* single = nullptr;
  ASSERT_EQ(protean_matrix_callback_f32(context, n, n, nullptr, Caller::product<float>,
                                        Caller::diagonal<float>, &caller, 0, &single),
            PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(single), "callback");
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-5), PROTEAN_OK);
  ASSERT_EQ(protean_solve_f32(solver, single, b32.data(), x32.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(caller.diagonals, 1);
  const auto jacobi = protean_solver_iterations(solver);
  ASSERT_EQ(protean_solver_set_preconditioner_f32(solver, Caller::sweep<float>, Caller::setup, &caller, 0),
            PROTEAN_OK);
  x32.assign(x32.size(), 0.0f);
  ASSERT_EQ(protean_solve_f32(solver, single, b32.data(), x32.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_LT(protean_solver_iterations(solver), jacobi);
  // It is not for a matrix in double precision.
  EXPECT_EQ(solve_chain(), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("not in double precision")) << protean_last_error();
  protean_matrix_free(single);
}

TEST_F(CApi, FormatAutoIsThatOfCpp) {
  const auto a = generate(test_context(), "poisson-2d", {{"n", 40}});
  // So many that a look at the formats of a small matrix is worth it, and too few to try any.
  const ChoiceOptions many{.expected_iterations = 5000};
  const auto expected = choose_format(a.pattern, CostModel(Space::host), many);
  ASSERT_NE(expected.id, "csr");
  // The solve chooses, since the method matters. "auto" is the default, too. Without a number of iterations a policy
  // would change the format in the middle of a longer solve.
  for (const double wrong : {-1.0, 0.5, 2e9, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(protean_solver_set(solver, "expected_iterations", wrong), PROTEAN_BAD_ARGUMENT);
    EXPECT_TRUE(error_has("an integer from 0 (not known) to 1e+09")) << protean_last_error();
  }
  ASSERT_EQ(protean_solver_set(solver, "expected_iterations", 5000), PROTEAN_OK);
  protean_matrix* fresh = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &fresh),
            PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(fresh), "csr");
  ASSERT_EQ(protean_solve(solver, fresh, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_matrix_format(fresh), expected.id);
  protean_matrix_free(fresh);
  ASSERT_EQ(protean_matrix_set_format(A, "auto", nullptr, nullptr), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_format(A), "csr");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_matrix_format(A), expected.id);
  EXPECT_EQ(protean_matrix_set_format(A, "auto", "C=8", nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_format(A), expected.id);
}

class CApiOrder : public CApi {
 protected:
  // The system in a random numbering, so that each order changes it.
  CApiOrder() {
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    // Rows of different scale, so that Jacobi matters.
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t k = row_ptr[r]; k < row_ptr[r + 1]; ++k)
        values[k] *= (1 + 0.1 * static_cast<double>(r % 7)) * (1 + 0.1 * static_cast<double>(col[k] % 7));
    const auto plain = csr_view<double>(n, n, row_ptr.data(), col.data(), values.data());
    const auto shuffled =
        PermutedMatrix<double>(test_context(), plain, Permutation(test_context(), std::move(order))).matrix();
    for (std::int64_t r = 0; r <= n; ++r) row_ptr[r] = static_cast<std::int32_t>(shuffled.pattern.row_ptr[r]);
    col.assign(shuffled.pattern.col, shuffled.pattern.col + nonzeros);
    values.assign(shuffled.values, shuffled.values + nonzeros);
    values32.assign(values.begin(), values.end());
    make();
  }
  void make() {
    protean_matrix_free(A);
    A = nullptr;
    EXPECT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &A),
              PROTEAN_OK);
    EXPECT_EQ(protean_matrix_set_format(A, "csr", nullptr, nullptr), PROTEAN_OK);
  }
  static std::vector<std::string> orders() {
    std::vector<std::string> all;
    for (const OrderingEntry& entry : orderings())
      if (entry.unavailable.empty()) all.emplace_back(entry.id);
    return all;
  }
  void order(const std::string& name) {
    ASSERT_EQ(protean_matrix_set_order(A, name.c_str()), PROTEAN_OK) << protean_last_error();
    EXPECT_EQ(protean_matrix_order(A), name);
  }
  void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double most) {
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], most * largest) << "row " << i;
  }
};

TEST_F(CApiOrder, NamesAreThoseOfTheProblemFile) {
  const auto words = order_words();
  EXPECT_EQ(names("order"), std::vector<std::string>(words.begin(), words.end()));
  EXPECT_STREQ(protean_matrix_order(A), "none");
  EXPECT_STREQ(protean_matrix_order_reason(A), "");
  EXPECT_STREQ(protean_matrix_order(nullptr), "");
  EXPECT_STREQ(protean_matrix_order_reason(nullptr), "");
}

TEST_F(CApiOrder, SolvesToTheSameSolution) {
  for (const auto& [method, symmetric] :
       {std::pair{"cg", true}, {"minres", true}, {"gmres", false}, {"bicgstab", false}})
    for (const PreconditionerEntry& entry : preconditioners()) {
      if ((symmetric && !entry.symmetric) || !entry.unavailable.empty()) continue;
      SCOPED_TRACE(std::string(method) + " " + std::string(entry.id));
      create(method, std::string(entry.id).c_str());
      ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-11), PROTEAN_OK);
      order("none");
      ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
      const std::vector<double> expected = x;
      const std::int64_t iterations = protean_solver_iterations(solver);
      for (const std::string& name : orders()) {
        SCOPED_TRACE(name);
        order(name);
        ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
        EXPECT_LE(residual(), 1.01e-11);
        expect_near(x, expected, 1e-8);
        EXPECT_LE(std::abs(protean_solver_iterations(solver) - iterations),
                  2 + iterations / (symmetric ? 10 : 2));
      }
    }
}

TEST_F(CApiOrder, IsKeptAndMayBeTakenBack) {
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> first = x;
  order("rcm");
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> in_order = x;
  EXPECT_NE(in_order, first) << "sums are added in another order";
  expect_near(in_order, first, 1e-6);
  // Another right-hand side, and this one again: the same bits.
  b.swap(x), b[0] += 1;
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  b = sample_vector<double>(n, 3);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(x, in_order);
  // An initial guess is in the caller's numbering.
  ASSERT_EQ(protean_solve(solver, A, b.data(), x.data()), PROTEAN_OK);
  EXPECT_EQ(protean_solver_iterations(solver), 0);
  // Products are, too.
  std::vector<double> y(b.size(), 1.0);
  const auto csr = csr_view<double>(n, n, row_ptr.data(), col.data(), values.data());
  ASSERT_EQ(protean_matrix_apply(A, 2, b.data(), -1, y.data()), PROTEAN_OK);
  EXPECT_TRUE(product_is_right<double>(csr, 2, b, -1, std::vector<double>(b.size(), 1.0), y));
  // New values keep the order, and a format is made of the matrix in it.
  for (std::size_t k = 0; k < values.size(); ++k) values[k] *= 4;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  ASSERT_EQ(protean_matrix_set_format(A, "sell-c-sigma", "C=4,sigma=1", nullptr), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(A), "rcm");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] /= 4;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_STREQ(protean_matrix_format(A), "sell-c-sigma");
  // Another order keeps the format and its parameters.
  order("cluster");
  EXPECT_STREQ(protean_matrix_format(A), "sell-c-sigma");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  // Back to the caller's order it is as if nothing had been.
  order("none");
  ASSERT_EQ(protean_matrix_set_format(A, "csr", nullptr, nullptr), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(x, first);
  // New values that are not finite leave the old ones.
  order("length");
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::vector<double> good = x;
  std::vector<double> bad = values;
  bad.back() = std::numeric_limits<double>::infinity();
  EXPECT_EQ(protean_matrix_update_values(A, bad.data()), PROTEAN_BAD_MATRIX);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_EQ(x, good);
}

// The second allocation is that of a format, where the first has taken the values in the order of the matrix.
int allocations_left = 0;
TEST_F(CApiOrder, NewValuesWithoutMemoryLeaveTheOldOnes) {
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-6), PROTEAN_OK);
  std::vector<double> other = values;
  for (double& value : other) value *= 2;
  int refused = 0;
  for (const std::string& format : names("format")) {
    make();
    order("rcm");
    if (protean_matrix_set_format(A, format.c_str(), nullptr, nullptr) != PROTEAN_OK) continue;
    allocations_left = 2;
    detail::allocation_hook = [](Space, std::size_t bytes) {
      if (--allocations_left == 0) throw OutOfMemory("a test let this allocation fail", bytes);
    };
    const protean_status status = protean_matrix_update_values(A, other.data());
    detail::allocation_hook = nullptr;
    if (status == PROTEAN_OK) continue;
    ++refused;
    ASSERT_EQ(status, PROTEAN_OUT_OF_MEMORY) << format << ": " << protean_last_error();
    for (const char* next : {"", "csr"}) {
      if (*next) { ASSERT_EQ(protean_matrix_set_format(A, next, nullptr, nullptr), PROTEAN_OK); }
      ASSERT_EQ(solve(), PROTEAN_OK) << format << ": " << protean_last_error();
      EXPECT_LE(residual(), 1.01e-6) << format << ", then " << next;
    }
  }
  EXPECT_GT(refused, 0) << "no format takes memory for new values";
}

TEST_F(CApiOrder, AutoSaysWhy) {
  ASSERT_EQ(protean_matrix_set_order(A, "auto"), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_matrix_order(A), "none");
  EXPECT_TRUE(has(protean_matrix_order_reason(A), "caches")) << protean_matrix_order_reason(A);
  order("rcm");
  EXPECT_STREQ(protean_matrix_order_reason(A), "");
  // Large enough that x does not stay in the caches: two points of a chain that are neighbours lie anywhere.
  const int points = 150000;
  std::vector<std::int32_t> name(points), at(points), ptr{0}, columns;
  std::iota(name.begin(), name.end(), 0);
  std::shuffle(name.begin(), name.end(), std::mt19937(7));
  for (int k = 0; k < points; ++k) at[name[k]] = k;
  std::vector<double> entries;
  for (int i = 0; i < points; ++i) {
    std::vector<std::pair<std::int32_t, double>> row{{i, 4.0}};
    for (const int d : {-2, -1, 1, 2})
      if (at[i] + d >= 0 && at[i] + d < points) row.emplace_back(name[at[i] + d], -1.0);
    std::sort(row.begin(), row.end());
    for (const auto& [j, value] : row) columns.push_back(j), entries.push_back(value);
    ptr.push_back(static_cast<std::int32_t>(columns.size()));
  }
  protean_matrix* chain = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, points, points, static_cast<std::int64_t>(columns.size()), ptr.data(),
                               columns.data(), entries.data(), 0, &chain),
            PROTEAN_OK);
  const auto csr = csr_view<double>(points, points, ptr.data(), columns.data(), entries.data());
  const OrderChoice choice = choose_order(csr.pattern);
  ASSERT_EQ(choice.id, "rcm") << choice.reason;
  ASSERT_EQ(protean_matrix_set_order(chain, "auto"), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_matrix_order(chain), "none") << "the solve chooses, since the method matters";
  std::vector<double> right(points, 1.0), left(points, 0.0);
  ASSERT_EQ(protean_solver_set(solver, "max_iterations", 1), PROTEAN_OK);
  ASSERT_EQ(protean_solve(solver, chain, right.data(), left.data()), PROTEAN_NOT_CONVERGED);
  EXPECT_EQ(protean_matrix_order(chain), choice.id);
  EXPECT_EQ(protean_matrix_order_reason(chain), choice.reason);
  protean_matrix_free(chain);
}

TEST_F(CApiOrder, RefusalsNameWhatIsAllowed) {
  order("rcm");
  EXPECT_EQ(protean_matrix_set_order(A, "rcmm"), PROTEAN_BAD_ARGUMENT);
  for (const std::string& name : names("order")) EXPECT_TRUE(error_has(name)) << protean_last_error();
  EXPECT_TRUE(error_has("Did you mean 'rcm'?")) << protean_last_error();
  EXPECT_EQ(protean_matrix_set_order(A, nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_set_order(nullptr, "rcm"), PROTEAN_BAD_ARGUMENT);
  for (const OrderingEntry& entry : orderings())
    if (!entry.unavailable.empty()) {
      EXPECT_EQ(protean_matrix_set_order(A, std::string(entry.id).c_str()), PROTEAN_NOT_AVAILABLE);
    }
  const auto point = [&](const char* order, const char* format, const char* parameters = nullptr) {
    return protean_solver_schedule_order(solver, "at_iteration", 3, order, format, parameters, nullptr, 0);
  };
  EXPECT_EQ(point("lenght", nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("Did you mean 'length'?")) << protean_last_error();
  EXPECT_EQ(point("auto", nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("must be named")) << protean_last_error();
  EXPECT_EQ(point(nullptr, "ell"), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(point("rcm", nullptr, "C=8"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("name the format, too")) << protean_last_error();
  EXPECT_EQ(point("rcm", "element"), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(point("rcm", "elll"), PROTEAN_BAD_ARGUMENT);
  // None of them has changed anything.
  EXPECT_STREQ(protean_matrix_order(A), "rcm");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_switches(solver), 0);

  const std::int32_t wide_ptr[] = {0, 1, 2}, wide_col[] = {0, 2};
  const double ones[] = {1, 1};
  protean_matrix* other = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, 2, 3, 2, wide_ptr, wide_col, ones, 0, &other), PROTEAN_OK);
  for (const char* name : {"rcm", "auto"}) {
    EXPECT_EQ(protean_matrix_set_order(other, name), PROTEAN_SHAPE_MISMATCH);
    EXPECT_TRUE(error_has("2 x 3")) << protean_last_error();
  }
  EXPECT_EQ(protean_matrix_set_order(other, "none"), PROTEAN_OK);
  protean_matrix_free(other);
  const std::int32_t nodes[] = {0, 1};
  const double spring[] = {2, -1, -1, 2};
  ASSERT_EQ(protean_matrix_elements(context, 2, 1, 1, 2, nodes, spring, 0, nullptr, 0, 1, "gather", &other),
            PROTEAN_OK);
  EXPECT_EQ(protean_matrix_set_order(other, "rcm"), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("element matrices")) << protean_last_error();
  // During a solve an order belongs to the assembled matrix.
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 0, "rcm", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  const double right[] = {1, 2};
  double left[] = {0, 0};
  ASSERT_EQ(protean_solve(solver, other, right, left), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(protean_solver_failed_switches(solver), 1);
  protean_failed_switch lost;
  ASSERT_EQ(protean_solver_failed_switch(solver, 0, &lost), PROTEAN_OK);
  EXPECT_STREQ(lost.order, "rcm");
  EXPECT_TRUE(has(lost.why, "needs a format, too")) << lost.why;
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 0, "rcm", "csr", nullptr, nullptr, 0),
            PROTEAN_OK);
  left[0] = left[1] = 0;
  ASSERT_EQ(protean_solve(solver, other, right, left), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_matrix_order(other), "rcm");
  EXPECT_NEAR(left[0], 4.0 / 3, 1e-12);
  // New element matrices are in the order of the nodes.
  ASSERT_EQ(protean_matrix_update_values(other, spring), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(other), "none");
  protean_matrix_free(other);
}

TEST_F(CApiOrder, FunctionsOfTheCallerHaveNone) {
  protean_matrix* other = nullptr;
  const protean_product identity = [](void* user, const double* from, double* to, void*) {
    std::copy(from, from + *static_cast<std::int64_t*>(user), to);
    return 0;
  };
  ASSERT_EQ(protean_matrix_callback(context, n, n, "mine", identity, nullptr, &n, 0, &other), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(other), "none");
  for (const char* name : {"rcm", "auto"}) {
    EXPECT_EQ(protean_matrix_set_order(other, name), PROTEAN_BAD_ARGUMENT) << name;
    EXPECT_TRUE(error_has("operator mine is functions of the caller")) << protean_last_error();
  }
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 1, "rcm", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  EXPECT_EQ(protean_solve(solver, other, b.data(), x.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("no order of its rows")) << protean_last_error();
  protean_matrix_free(other);
}

struct SeenOrder {
  std::vector<std::string> orders, formats;
  std::vector<double> residuals;
  std::int64_t update_at = -1;
  protean_matrix* matrix = nullptr;
  std::vector<double>* values = nullptr;
  protean_status status = PROTEAN_OK, order_status = PROTEAN_OK;
  static int monitor(void* user, const protean_iteration* now) {
    auto& me = *static_cast<SeenOrder*>(user);
    me.orders.emplace_back(now->order), me.formats.emplace_back(now->format);
    me.residuals.push_back(now->residual);
    if (now->iteration == me.update_at) {
      for (double& value : *me.values) value *= 2;
      me.status = protean_matrix_update_values(me.matrix, me.values->data());
      me.order_status = protean_matrix_set_order(me.matrix, "none");
    }
    return 0;
  }
};

TEST_F(CApiOrder, AScheduleChangesIt) {
  create("cg", "jacobi");
  SeenOrder plain, seen;
  ASSERT_EQ(protean_solver_set_monitor(solver, SeenOrder::monitor, &plain), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  ASSERT_EQ(protean_solver_set_monitor(solver, SeenOrder::monitor, &seen), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 4, "rcm", "ell", nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 8, "length", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule(solver, "at_iteration", 12, "csr", nullptr, nullptr, 0), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_EQ(protean_solver_restarts(solver), 0);
  ASSERT_EQ(protean_solver_switches(solver), 3);
  protean_switch change;
  ASSERT_EQ(protean_solver_switch(solver, 0, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "ell");
  EXPECT_STREQ(change.from_order, "none");
  EXPECT_STREQ(change.to_order, "rcm");
  ASSERT_EQ(protean_solver_switch(solver, 1, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "ell");
  EXPECT_STREQ(change.to_order, "length");
  ASSERT_EQ(protean_solver_switch(solver, 2, &change), PROTEAN_OK);
  EXPECT_STREQ(change.to, "csr");
  EXPECT_STREQ(change.from_order, "length");
  EXPECT_STREQ(change.to_order, "length");
  EXPECT_STREQ(protean_matrix_order(A), "length");
  EXPECT_EQ(seen.orders[3] + seen.orders[6] + seen.orders[10], "nonercmlength");
  EXPECT_EQ(seen.formats.back(), "csr");
  // The recurrence goes on: the residuals of the caller's order, but for rounding.
  ASSERT_GT(std::min(seen.residuals.size(), plain.residuals.size()), 30u);
  for (std::size_t i = 0; i < 30; ++i)
    EXPECT_NEAR(seen.residuals[i], plain.residuals[i], 1e-9 * plain.residuals[0]) << i;

  // The next solve begins in it; new values and another right-hand side, too.
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  for (double& value : values) value *= 4;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  b.assign(b.size(), 1.0);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_EQ(seen.orders.back(), "length");
  // A format ends the order of the schedule.
  ASSERT_EQ(protean_matrix_set_format(A, "csr", nullptr, nullptr), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(A), "none");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
}

TEST_F(CApiOrder, AScheduleKnowsTheOrderBefore) {
  order("cluster");
  const auto at = [&](double iteration, const char* name) {
    ASSERT_EQ(
        protean_solver_schedule_order(solver, "at_iteration", iteration, name, nullptr, nullptr, nullptr, 0),
        PROTEAN_OK);
  };
  at(2, "cluster"), at(5, "rcm"), at(9, "none"), at(12, "rcm"), at(15, "cluster");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  // The first point asks for what is there; "none" is the order of the caller, whatever the solve began in.
  ASSERT_EQ(protean_solver_switches(solver), 4);
  protean_switch change;
  const char* const expected[] = {"cluster", "rcm", "none", "rcm", "cluster"};
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(protean_solver_switch(solver, i, &change), PROTEAN_OK);
    EXPECT_STREQ(change.from_order, expected[i]);
    EXPECT_STREQ(change.to_order, expected[i + 1]);
  }
  EXPECT_STREQ(protean_matrix_order(A), "cluster");
  // A solve with other values that ends in another order, and the order by name after it.
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  at(3, "length");
  for (double& value : values) value *= 2;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_STREQ(protean_matrix_order(A), "length");
  // A format ends the order of the schedule: that of protean_matrix_set_order() is there again, with the new values.
  ASSERT_EQ(protean_matrix_set_format(A, "nosuch", nullptr, nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_STREQ(protean_matrix_order(A), "length");
  for (double& value : values) value *= 2;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_set_format(A, "ell", nullptr, nullptr), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_matrix_order(A), "cluster");
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  // Then a policy, which keeps the names.
  ASSERT_EQ(protean_solver_set_text(solver, "policy", "auto"), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  EXPECT_LE(residual(), 1.01e-8);
  ASSERT_EQ(protean_solver_set_text(solver, "policy", "none"), PROTEAN_OK);
  EXPECT_STREQ(protean_matrix_order(A), "cluster");
  at(2, "none");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_STREQ(protean_matrix_order(A), "none");
  ASSERT_EQ(protean_solver_schedule_clear(solver), PROTEAN_OK);
  order("rcm");
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
}

TEST_F(CApiOrder, InASolveOnlyTheScheduleChangesIt) {
  for (const bool adaptive : {false, true}) {
    order("rcm");
    create("cg", "jacobi");
    if (adaptive) {
      ASSERT_EQ(
          protean_solver_schedule_order(solver, "at_iteration", 5, "length", nullptr, nullptr, nullptr, 0),
          PROTEAN_OK);
    }
    SeenOrder seen;
    seen.update_at = 9, seen.matrix = A, seen.values = &values;
    ASSERT_EQ(protean_solver_set_monitor(solver, SeenOrder::monitor, &seen), PROTEAN_OK);
    ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
    EXPECT_EQ(seen.status, PROTEAN_OK);
    EXPECT_EQ(seen.order_status, PROTEAN_BAD_ARGUMENT);
    EXPECT_EQ(protean_solver_restarts(solver), 1);
    EXPECT_LE(residual(), 1.01e-8) << "of the new values";
    EXPECT_EQ(seen.orders.back(), adaptive ? "length" : "rcm");
  }
}

// A preconditioner of the caller sees vectors in the caller's numbering.
TEST_F(CApiOrder, APreconditionerOfTheCallerKeepsTheNumbering) {
  std::vector<double> inverse;
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t k = row_ptr[r]; k < row_ptr[r + 1]; ++k)
      if (col[k] == r) inverse.push_back(1 / values[k]);
  ASSERT_EQ(inverse.size(), b.size());
  const protean_product jacobi = [](void* user, const double* r, double* z, void*) {
    const auto& d = *static_cast<std::vector<double>*>(user);
    for (std::size_t i = 0; i < d.size(); ++i) z[i] = d[i] * r[i];
    return 0;
  };
  ASSERT_EQ(protean_solver_set_preconditioner(solver, jacobi, nullptr, &inverse, 0), PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  const std::int64_t iterations = protean_solver_iterations(solver);
  order("rcm");
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 5, "length", nullptr, nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  EXPECT_NEAR(static_cast<double>(protean_solver_iterations(solver)), static_cast<double>(iterations), 3);
}

TEST_F(CApiOrder, WatchedArraysAreReadWhenTheOrderChanges) {
  ASSERT_EQ(protean_matrix_watch(A), PROTEAN_OK);
  order("rcm");
  ASSERT_EQ(solve(), PROTEAN_OK) << protean_last_error();
  const double kept = values[3];
  values[3] = 5;
  EXPECT_EQ(solve(), PROTEAN_OK) << "the solve reads a copy";
  EXPECT_EQ(protean_matrix_set_order(A, "length"), PROTEAN_ARRAYS_CHANGED);
  EXPECT_STREQ(protean_matrix_order(A), "rcm");
  values[3] = kept;
  order("length");
  for (double& value : values) value *= 2;
  ASSERT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(solve(), PROTEAN_OK);
  EXPECT_LE(residual(), 1.01e-8);
  std::swap(col[0], col[1]);
  EXPECT_EQ(protean_matrix_update_values(A, values.data()), PROTEAN_ARRAYS_CHANGED);
  std::swap(col[0], col[1]);
}

TEST_F(CApiOrder, SinglePrecisionAndOtherArrays) {
  std::vector<std::int64_t> wide(row_ptr.begin(), row_ptr.end());
  for (std::int64_t& p : wide) ++p;
  std::vector<std::int32_t> from_one = col;
  for (std::int32_t& c : from_one) ++c;
  protean_matrix* single = nullptr;
  ASSERT_EQ(protean_matrix_csr64_f32(context, n, n, nonzeros, wide.data(), from_one.data(), values32.data(),
                                     1, &single),
            PROTEAN_OK);
  ASSERT_EQ(protean_matrix_set_order(single, "rcm"), PROTEAN_OK) << protean_last_error();
  ASSERT_EQ(protean_solver_set(solver, "relative_tolerance", 1e-5), PROTEAN_OK);
  ASSERT_EQ(protean_solver_schedule_order(solver, "at_iteration", 4, "cluster", "ell", nullptr, nullptr, 0),
            PROTEAN_OK);
  ASSERT_EQ(protean_solve_f32(solver, single, b32.data(), x32.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solver_switches(solver), 1);
  EXPECT_LE(residual(values32, b32, x32), 2e-5);
  protean_matrix_free(single);
}

}  // namespace
}  // namespace protean::test
