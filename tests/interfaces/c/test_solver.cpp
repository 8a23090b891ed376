// The C interface: one solver for several matrices, and its options.
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

// A C program that keeps one solver for matrices of several sizes.
class CSolver : public testing::Test {
 protected:
  CSolver() {
    EXPECT_EQ(protean_context_host(2, &context_), PROTEAN_OK);
    EXPECT_EQ(protean_solver_create("cg", "jacobi", &solver_), PROTEAN_OK);
  }
  ~CSolver() override {
    protean_solver_free(solver_);
    protean_context_free(context_);
  }
  // A diagonal matrix of n entries d, b = 1: x must be 1 / d, or the reason the one given.
  void solves(std::int64_t n, double d, const std::string& reason = "") {
    std::vector<std::int32_t> row_ptr(static_cast<std::size_t>(n) + 1), col(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i)
      row_ptr[i + 1] = static_cast<std::int32_t>(i + 1), col[i] = static_cast<std::int32_t>(i);
    const std::vector<double> values(col.size(), d), b(col.size(), 1.0);
    std::vector<double> x(col.size(), 0.0);
    protean_matrix* matrix = nullptr;
    ASSERT_EQ(protean_matrix_csr(context_, n, n, n, row_ptr.data(), col.data(), values.data(), 0, &matrix),
              PROTEAN_OK);
    if (reason.empty()) {
      EXPECT_EQ(protean_solve(solver_, matrix, b.data(), x.data()), PROTEAN_OK) << protean_last_error();
      for (double v : x) EXPECT_NEAR(v, 1 / d, 1e-12);
    } else {
      EXPECT_EQ(protean_solve(solver_, matrix, b.data(), x.data()), PROTEAN_NOT_CONVERGED);
      EXPECT_EQ(protean_solver_reason(solver_), reason);
      EXPECT_NE(std::string(protean_solver_advice(solver_)), "");
      EXPECT_NE(std::string(protean_last_error()).find(reason), std::string::npos) << protean_last_error();
    }
    protean_matrix_free(matrix);
  }
  protean_context* context_ = nullptr;
  protean_solver* solver_ = nullptr;
};

TEST_F(CSolver, OneForMatricesOfSeveralSizes) {
  solves(5, 2);
  solves(9, 4);
  solves(9, 8);
  solves(3, 2);
}

TEST_F(CSolver, AnOptionLeavesThoseThatWereSetBefore) {
  EXPECT_EQ(protean_solver_set(solver_, "max_iterations", 0), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set(solver_, "relative_tolerance", 1e-3), PROTEAN_OK);
  solves(5, 2, "max-iterations");
  EXPECT_EQ(protean_solver_set(solver_, "max_iterations", 10), PROTEAN_OK);
  solves(5, 2);
}

TEST_F(CSolver, OptionsThatCountAreWholeNumbers) {
  protean_solver_free(solver_);
  ASSERT_EQ(protean_solver_create("gmres", "none", &solver_), PROTEAN_OK);
  for (const char* option : {"max_iterations", "restart", "stagnation_window"})
    for (const double value : {2.5, -1.0, std::nan(""), 1e16}) {
      EXPECT_EQ(protean_solver_set(solver_, option, value), PROTEAN_BAD_ARGUMENT) << option << " " << value;
      EXPECT_NE(std::string(protean_last_error()).find(std::string(option) + " is "), std::string::npos)
          << protean_last_error();
    }
  EXPECT_EQ(protean_solver_set(solver_, "max_iterations", 2), PROTEAN_OK);
  solves(5, 2);
}

// One block of all six rows is the inverse of the matrix; two blocks are not.
TEST_F(CSolver, OptionsOfThePreconditioner) {
  protean_solver_free(solver_);
  ASSERT_EQ(protean_solver_create("cg", "block-jacobi", &solver_), PROTEAN_OK);
  const std::int32_t row_ptr[] = {0, 2, 5, 8, 11, 14, 16},
                     col[] = {0, 1, 0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5};
  const double values[] = {2, -1, -1, 2, -1, -1, 2, -1, -1, 2, -1, -1, 2, -1, -1, 2};
  const std::vector<double> b(6, 1.0);
  protean_matrix* matrix = nullptr;
  ASSERT_EQ(protean_matrix_csr(context_, 6, 6, 16, row_ptr, col, values, 0, &matrix), PROTEAN_OK);
  const auto iterations = [&](double block_size) {
    std::vector<double> x(6, 0.0);
    EXPECT_EQ(protean_solver_set(solver_, "block_size", block_size), PROTEAN_OK);
    EXPECT_EQ(protean_solve(solver_, matrix, b.data(), x.data()), PROTEAN_OK) << protean_last_error();
    return protean_solver_iterations(solver_);
  };
  EXPECT_GT(iterations(3), 1);
  EXPECT_EQ(iterations(6), 1);
  EXPECT_GT(iterations(2), 1);
  EXPECT_EQ(iterations(0), iterations(1)) << "the matrix has one unknown a node";
  std::vector<double> x(6, 0.0);
  EXPECT_EQ(protean_solver_set(solver_, "block_size", 100), PROTEAN_BAD_ARGUMENT);
  EXPECT_NE(std::string(protean_last_error()).find("block_size is 100"), std::string::npos);
  EXPECT_EQ(protean_solver_set(solver_, "fill", 0.5), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_solve(solver_, matrix, b.data(), x.data()), PROTEAN_OK) << protean_last_error();
  protean_matrix_free(matrix);
}

TEST_F(CSolver, OptionsOfMethods) {
  for (const auto& [method, option] : {std::pair("fcg", "directions"), std::pair("idr", "s")}) {
    protean_solver_free(solver_);
    ASSERT_EQ(protean_solver_create(method, "jacobi", &solver_), PROTEAN_OK);
    EXPECT_EQ(protean_solver_set(solver_, option, 3), PROTEAN_OK) << protean_last_error();
    EXPECT_EQ(protean_solver_set(solver_, option, 0), PROTEAN_BAD_ARGUMENT);
    EXPECT_EQ(protean_solver_set(solver_, option, 2.5), PROTEAN_BAD_ARGUMENT);
  }
  for (const char* method : all_methods()) {
    protean_solver_free(solver_);
    ASSERT_EQ(protean_solver_create(method, "jacobi", &solver_), PROTEAN_OK) << method;
    solves(9, 4);
  }
}

// [1 -1; -1 1]
TEST_F(CSolver, AConstantNullSpace) {
  const std::int32_t row_ptr[] = {0, 2, 4}, col[] = {0, 1, 0, 1};
  const double values[] = {1, -1, -1, 1}, b[] = {2, -2}, other[] = {2, -1};
  double x[] = {5, 5};
  protean_matrix* matrix = nullptr;
  ASSERT_EQ(protean_matrix_csr(context_, 2, 2, 4, row_ptr, col, values, 0, &matrix), PROTEAN_OK);
  EXPECT_EQ(protean_solver_set_text(solver_, "null_space", "linear"), PROTEAN_BAD_ARGUMENT);
  ASSERT_EQ(protean_solver_set_text(solver_, "null_space", "constant"), PROTEAN_OK) << protean_last_error();
  EXPECT_EQ(protean_solve(solver_, matrix, b, x), PROTEAN_OK) << protean_last_error();
  EXPECT_NEAR(x[0], 1, 1e-12);
  EXPECT_NEAR(x[1], -1, 1e-12);
  EXPECT_EQ(protean_solve(solver_, matrix, other, x), PROTEAN_NOT_CONVERGED);
  EXPECT_STREQ(protean_solver_reason(solver_), "inconsistent");
  EXPECT_EQ(protean_solver_set_text(solver_, "null_space", "none"), PROTEAN_OK);
  protean_matrix_free(matrix);
}

TEST_F(CSolver, NamesANegativeDefiniteMatrix) {
  solves(5, -2, "negative-definite");
  solves(5, 2);
}

}  // namespace
}  // namespace protean::test
