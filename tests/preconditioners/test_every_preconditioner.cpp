// The contract of all preconditioners, each on the host and on a simulated device.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/all_ids.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

class Every : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Preconditioners, Every, testing::ValuesIn(all_ids()), [](const auto& instance) {
  std::string name = instance.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

// A few numbers that are no arrays need not count.
TEST_P(Every, CountsAllItsBuffers) {
  const auto A = assembled(sparse(poisson_2d(20)));
  const std::size_t before = allocated_bytes();
  const auto M = make_preconditioner<double>(GetParam(), *A);
  M->ensure(*A);
  EXPECT_GE(M->bytes() + 64, allocated_bytes() - before);
}

TEST_P(Every, AlphaAndBeta) {
  const auto A = assembled(sparse(poisson_2d(6)));
  const auto M = make_preconditioner<double>(GetParam(), *A);
  std::vector<double> r = right_hand_side<double>(36), y(36, 2);
  EXPECT_THROW(M->apply(view(std::as_const(r)), view(y)), BadArgument) << "not set up";
  M->ensure(*A);
  const std::vector<double> z = applied(*M, r);
  M->apply(3.0, view(std::as_const(r)), -2.0, view(y));
  for (std::int64_t i = 0; i < 36; ++i) EXPECT_NEAR(y[i], 3 * z[i] - 4, 1e-14);
  M->apply(0.0, view(std::as_const(r)), 1.0, view(y));
  for (std::int64_t i = 0; i < 36; ++i) EXPECT_NEAR(y[i], 3 * z[i] - 4, 1e-14);
  M->apply(0.0, view(std::as_const(r)), -0.5, view(y));
  for (std::int64_t i = 0; i < 36; ++i) EXPECT_NEAR(y[i], 2 - 1.5 * z[i], 1e-14);
  M->apply(2.0, view(std::as_const(r)), 0.0, view(y));
  for (std::int64_t i = 0; i < 36; ++i) EXPECT_NEAR(y[i], 2 * z[i], 1e-14);
  EXPECT_GT(M->bytes(), 0u);
}

TEST_P(Every, NewValuesRenewIt) {
  const CsrMatrix<double> before = sparse(poisson_2d(8));
  std::vector<double> values(before.values, before.values + before.nonzeros());
  const auto A = assembled(before);
  const auto M = ready<double>(GetParam(), *A);
  const std::vector<double> r = right_hand_side<double>(64), old = applied(*M, r);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] *= values[k] > 0 ? 2.5 : 1.5;
  CsrMatrix<double> after = before;
  after.values = values.data(), after.values_owner = nullptr;
  A->update_values(after);
  // The polynomial computes with A itself.
  if (GetParam() != "chebyshev") { EXPECT_EQ(applied(*M, r), old) << "it must wait for ensure()"; }
  M->ensure(*A);
  const auto fresh = assembled(after);
  EXPECT_EQ(applied(*M, r), applied(*ready<double>(GetParam(), *fresh), r));
  EXPECT_NE(applied(*M, r), old);
}

TEST_P(Every, AnotherMatrixWithAnotherPattern) {
  const auto A = assembled(sparse(poisson_1d(36))), B = assembled(sparse(poisson_2d(6)));
  const auto M = ready<double>(GetParam(), *A);
  const std::vector<double> r = right_hand_side<double>(36);
  M->ensure(*B);
  EXPECT_EQ(applied(*M, r), applied(*ready<double>(GetParam(), *B), r));
}

TEST_P(Every, AFailedSetupKeepsTheOldOne) {
  const Dense good = poisson_1d(9);
  Dense bad = good;
  for (std::int64_t i = 0; i < 9; ++i)
    for (std::int64_t j = 0; j < 9; ++j) bad(i, j) = 0;
  bad(0, 1) = bad(1, 0) = 1;
  const auto A = assembled(sparse(good)), B = assembled(sparse(bad));
  const auto M = ready<double>(GetParam(), *A);
  const std::vector<double> r = right_hand_side<double>(9), z = applied(*M, r);
  if (GetParam() == "auto") {  // is none for such a matrix, until the next one
    M->ensure(*B);
    EXPECT_EQ(applied(*M, r), r);
    M->ensure(*A);
  } else {
    EXPECT_THROW(M->ensure(*B), BadMatrix);
  }
  EXPECT_EQ(applied(*M, r), z);
}

// A change of format leaves M as it is: no new setup, the same bits.
TEST_P(Every, AChangeOfFormatLeavesItAsItIs) {
  const CsrMatrix<double> csr = sparse(poisson_2d(10));
  Matrix<double> A(csr, assembled(csr));
  const auto M = ready<double>(GetParam(), A);
  const std::vector<double> r = right_hand_side<double>(100), z = applied(*M, r);
  ASSERT_TRUE(A.switch_to({.entry = &find_format("sell-c-sigma")}, 1));
  const std::uint64_t version = M->recording().version;
  const VectorView<const double> diagonal = M->inverse_diagonal();
  M->ensure(A);
  // Recorded steps of the polynomial are products of A, which are others now.
  if (GetParam() != "chebyshev") { EXPECT_EQ(M->recording().version, version) << "it was set up again"; }
  EXPECT_EQ(M->inverse_diagonal().data, diagonal.data);
  const std::vector<double> after = applied(*M, r);
  for (std::size_t i = 0; i < r.size(); ++i)
    EXPECT_NEAR(after[i], z[i], GetParam() == "chebyshev" ? 1e-14 : 0);
  // From any running format the entries are found.
  EXPECT_EQ(applied(*ready<double>(GetParam(), A), r), after);
  const auto ell = assembled(csr, test_context(), "ell");
  const std::vector<double> other = applied(*ready<double>(GetParam(), *ell), r);
  for (std::size_t i = 0; i < r.size(); ++i)
    EXPECT_NEAR(other[i], z[i], GetParam() == "chebyshev" ? 1e-14 : 0);
}

TEST_P(Every, SolvesInBothPrecisions) {
  const Dense A = poisson_2d(20);
  const auto solve = [&]<class T>(T, const char* method, double tolerance) {
    const CsrMatrix<T> csr = sparse<T>(A);
    const auto matrix = assembled(csr);
    const auto M = ready<T>(GetParam(), *matrix);
    const std::vector<T> b = right_hand_side<T>(A.n);
    std::vector<T> x(b.size()), plain(b.size());
    const auto solver = make_solver<T>(method, {.stopping = {.relative_tolerance = tolerance}});
    if (std::string_view(method) == "cg" && !M->symmetric()) {
      const std::string text =
          message<BadArgument>([&] { solver->solve(*matrix, view(b), view(x), M.get()); });
      EXPECT_SAYS(text, "cg needs a symmetric preconditioner, and " + GetParam());
      EXPECT_SAYS(text, GetParam() == "gauss-seidel"     ? "use ssor"
                        : GetParam() == "isai-lu"        ? "use isai"
                        : GetParam() == "ilu"            ? "use ic "
                        : GetParam() == "subdomain-ilu0" ? "use subdomain-ic0"
                                                         : "use ic0");
      return;
    }
    const SolveReport report = solver->solve(*matrix, view(b), view(x), M.get());
    EXPECT_TRUE(report.converged()) << method << to_string(report.reason) << report.detail;
    EXPECT_LE(residual_norm(A, b, x), 2 * tolerance * report.rhs_norm);
    const SolveReport without = solver->solve(*matrix, view(b), view(plain));
    // The diagonal of this matrix is constant: these change little.
    if (GetParam() != "jacobi" && GetParam() != "spai0" && GetParam() != "block-jacobi" &&
        GetParam() != "auto") {
      EXPECT_LT(report.iterations, without.iterations) << method;
    }
  };
  for (const char* method : {"cg", "bicgstab", "gmres"})
    solve(double{}, method, 1e-10), solve(float{}, method, 1e-4);
}

// On a device: the results of the host. More in test_on_device.cpp.
TEST_P(Every, OnADevice) {
  const Dense A = poisson_2d(9);
  const CsrMatrix<double> csr = sparse(A);
  const std::vector<double> r = right_hand_side<double>(A.n);
  // There ic0 and ilu0 eliminate colour after colour.
  const std::vector<double> expected = applied(
      *ready_with_read<double>(GetParam(), *assembled(csr), {.ordering = FactorOrdering::colours}), r);
  const ContextPtr context = fake_device_context();
  const auto on_device = make_matrix(fake_format("csr"), upload(context, csr), context);
  const auto M = ready<double>(GetParam(), *on_device);
  const Placed<double> x(context, r);
  Placed<double> z(context, std::vector<double>(r.size(), std::numeric_limits<double>::quiet_NaN()));
  M->apply(x.read(), z.view());
  const std::vector<double> got = z.fetch();
  for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13);
  EXPECT_TRUE(M->recording().allowed);
  Placed<double> solution(context, std::vector<double>(r.size(), 0.0));
  const SolveReport report = make_solver<double>(M->symmetric() ? "cg" : "bicgstab")
                                 ->solve(*on_device, x.read(), solution.view(), M.get());
  EXPECT_TRUE(report.converged());
  EXPECT_LE(residual_norm(A, r, solution.fetch()), 2e-8 * report.rhs_norm);
}

}  // namespace
}  // namespace protean::test
