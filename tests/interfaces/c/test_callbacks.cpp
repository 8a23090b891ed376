// The C interface: operators and preconditioners that are functions of the caller.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "interfaces/c/c_api.hpp"

namespace protean::test {
namespace {

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

}  // namespace
}  // namespace protean::test
