// A solve whose matrix changes the order of its rows.
#pragma once
#include <algorithm>

#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/rows.hpp"
#include "order_changes.hpp"
#include "solving.hpp"

namespace protean::test {

inline std::unique_ptr<Matrix<double>> adaptive(const CsrMatrix<double>& csr, MatrixOptions options = {},
                                                std::string_view format = "csr") {
  return std::make_unique<Matrix<double>>(csr, make_matrix(find_format(format), csr, test_context()),
                                          std::move(options));
}

// What any code that does not know of orders sees of the operator.
inline void expect_callers_order(const Matrix<double>& A, const CsrMatrix<double>& csr) {
  const ContextPtr context = test_context();
  const auto plain = make_matrix(find_format("csr"), csr, context);
  const std::int64_t n = csr.rows();
  Vector<double> x(context, n), y(context, n), z(context, n);
  for (std::int64_t i = 0; i < n; ++i)
    x[i] = std::sin(static_cast<double>(i)), y[i] = z[i] = static_cast<double>(i % 5);
  A.apply(2.0, x, -0.5, y), plain->apply(2.0, x, -0.5, z);
  for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], z[i], 1e-12 * (1 + std::abs(z[i]))) << i;
  double one = 0, two = 0;
  apply_dot<double>(A, x, y, &one), apply_dot<double>(*plain, x, z, &two);
  EXPECT_NEAR(one, two, 1e-10 * std::abs(two));
  for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], z[i], 1e-12 * (1 + std::abs(z[i]))) << i;
  A.diagonal(y), plain->diagonal(z);
  for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], z[i]) << i;
  const std::optional<CsrMatrix<double>> rows = csr_of<double>(A);
  ASSERT_TRUE(rows);
  EXPECT_TRUE(std::equal(rows->values, rows->values + csr.nonzeros(), csr.values));
  EXPECT_TRUE(std::equal(rows->pattern.col, rows->pattern.col + csr.nonzeros(), csr.pattern.col));
}

// The running matrix is P A P^T, entry by entry.
inline void expect_reordered(const Matrix<double>& A, const CsrMatrix<double>& csr) {
  ASSERT_EQ(A.order().size(), csr.rows());
  const CsrMatrix<double> expected = PermutedMatrix<double>(test_context(), csr, A.order()).matrix(),
                          found = A.current().to_csr();
  ASSERT_EQ(found.nonzeros(), expected.nonzeros());
  EXPECT_TRUE(std::equal(found.values, found.values + found.nonzeros(), expected.values));
  EXPECT_TRUE(std::equal(found.pattern.col, found.pattern.col + found.nonzeros(), expected.pattern.col));
}

// method, preconditioner: "general" is one that is no diagonal.
class OrderChange : public testing::TestWithParam<std::tuple<SwitchedSystem, const char*>> {
 protected:
  void SetUp() override {
    csr_ = system_matrix(system());
    const auto A = adaptive(csr_);
    const auto M = preconditioner(preconditioner_id(), *A);
    plain_ = solve_with(*A, csr_, system(), nullptr, 1e-9, M.get());
    ASSERT_TRUE(plain_.report.converged());
  }
  static const SwitchedSystem& system() {
    static SwitchedSystem present;
    present = std::get<0>(GetParam());
    return present;
  }
  static std::string preconditioner_id() {
    const std::string_view id = std::get<1>(GetParam());
    if (id != "general") return std::string(id);
    return find_solver(system().method).symmetric ? "ic0" : "ilu0";
  }
  // The solve, in which `between` is called between the iterations.
  Solved solve(Matrix<double>& A, std::function<void(const IterationInfo&)> between) const {
    const auto M = preconditioner(preconditioner_id(), A);
    Between observer(std::move(between));
    return solve_with(A, csr_, system(), &observer, 1e-9, M.get());
  }
  static bool is(std::string_view method) { return system().method == method; }
  // A solve that begins in another order than the caller's. The shadow space of idr is chosen in the order in which the
  // run begins, so its course is another one.
  void expect_course_from_another_order(const Solved& solved, const Solved& plain) const {
    if (!is("idr")) return expect_same_course(solved, plain);
    EXPECT_TRUE(solved.report.converged());
    EXPECT_LE(solved.residual, 1e-9 * 1.001);
  }
  void expect_course_of_plain(const Solved& solved) const {
    expect_same_course(solved, plain_);
    EXPECT_EQ(solved.report.restarts, plain_.report.restarts)
        << "the recurrence goes on, it does not begin again";
    double largest = 0;
    for (const double v : plain_.x) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < plain_.x.size(); ++i)
      ASSERT_NEAR(solved.x[i], plain_.x[i], 1e-6 * largest) << i;
  }
  CsrMatrix<double> csr_;
  Solved plain_;
};

inline const SwitchedSystem& cg = switched_systems[0];

}  // namespace protean::test
