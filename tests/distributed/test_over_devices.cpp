// Solvers that are apart from their matrices, over several simulated devices: as C and Python use them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "operators/callback_operator.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/over_devices.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"

namespace protean::test {
namespace {

SolveSettings over(int devices) {
  SolveSettings settings;
  settings.method = "cg", settings.preconditioner = "jacobi";
  settings.solver.stopping.relative_tolerance = 1e-9;
  for (int d = 0; d < devices; ++d) settings.distribution.contexts.push_back(fake_device_context());
  return settings;
}

struct Given {
  explicit Given(std::int64_t n)
      : csr(generate(test_context(), "poisson-2d", {{"n", static_cast<double>(n)}})),
        b(static_cast<std::size_t>(csr.rows()), 1.0),
        x(b.size(), 0.0) {}
  SolveResult solve(SystemSolver<double>& solver, SystemMatrix<double>& matrix) {
    std::fill(x.begin(), x.end(), 0.0);
    return solver.solve(matrix, VectorView<const double>{b.data(), csr.rows()},
                        VectorView<double>{x.data(), csr.rows()});
  }
  CsrMatrix<double> csr;
  std::vector<double> b, x;
};

TEST(OverDevices, SolveTheMatrixThatIsGiven) {
  SystemSolver<double> solver(over(3));
  Given first(12), second(9);
  SystemMatrix<double> one(test_context(), first.csr), other(test_context(), second.csr);
  one.set_format("ell");
  for (int round = 0; round < 2; ++round) {
    const SolveResult of_one = first.solve(solver, one);
    EXPECT_TRUE(of_one.converged());
    EXPECT_EQ(of_one.parts.size(), 3u);
    EXPECT_EQ(of_one.format, "ell") << "the format of the matrix";
    EXPECT_LE(relative_residual_of<double>(first.csr, first.b, first.x), 1.01e-9);
    const SolveResult of_other = second.solve(solver, other);
    EXPECT_TRUE(of_other.converged());
    EXPECT_EQ(of_other.format, "csr");
    EXPECT_LE(relative_residual_of<double>(second.csr, second.b, second.x), 1.01e-9);
  }
}

TEST(OverDevices, SeeNewValuesAndNewSettings) {
  SystemSolver<double> solver(over(2));
  Given given(10);
  std::vector<double> values(given.csr.values, given.csr.values + given.csr.nonzeros());
  CsrMatrix<double> csr = given.csr;
  csr.values = values.data(), csr.values_owner = nullptr;
  SystemMatrix<double> matrix(test_context(), csr);
  ASSERT_TRUE(given.solve(solver, matrix).converged());
  const std::vector<double> before = given.x;
  for (double& value : values) value *= 4;
  matrix.update_values(csr);
  ASSERT_TRUE(given.solve(solver, matrix).converged());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(4 * given.x[i], before[i], 1e-6);
  SolveSettings settings = solver.settings();
  settings.method = "minres", settings.format = "ell";
  solver.set(settings);
  const SolveResult result = given.solve(solver, matrix);
  EXPECT_EQ(result.method, "minres");
  EXPECT_EQ(result.format, "ell");
  EXPECT_LE(relative_residual_of<double>(csr, given.b, given.x), 1.01e-9);
  // Without devices it is a solve on the host again.
  settings.distribution = {};
  solver.set(settings);
  EXPECT_TRUE(given.solve(solver, matrix).parts.empty());
}

TEST(OverDevices, OneOfThemIsASolveOnThatDevice) {
  // No format has kernels for a simulated device alone.
  const ContextPtr gpu = test_context(Space::device);
  if (!gpu) GTEST_SKIP() << no_device;
  SolveSettings settings = over(0);
  settings.distribution.contexts = {gpu}, settings.format = "csr";
  SystemSolver<double> solver(settings);
  Given given(10);
  SystemMatrix<double> matrix(test_context(), given.csr);
  for (int round = 0; round < 2; ++round) {
    const SolveResult result = given.solve(solver, matrix);
    EXPECT_TRUE(result.converged());
    EXPECT_TRUE(result.parts.empty());
    EXPECT_NE(result.report.steps, "host");
    EXPECT_LE(relative_residual_of<double>(given.csr, given.b, given.x), 1.01e-9);
  }
}

TEST(OverDevices, RefuseWhatTheyDoNotServe) {
  Given given(6);
  SystemMatrix<double> matrix(test_context(), given.csr);
  SystemSolver<double> solver(over(2));
  MultiVector<double> B(test_context(), given.csr.rows(), 2), X(test_context(), given.csr.rows(), 2);
  EXPECT_TRUE(
      has(message_of([&] { (void)solver.multi_solve(matrix, B.view(), X.view()); }), "one right-hand side"));
  EXPECT_TRUE(has(message_of([&] { solver.set_up(matrix, 2); }), "one right-hand side"));
  const auto function = std::make_shared<CallbackOperator<double>>(
      test_context(), Shape{4, 4}, [](const double* x, double* y, CUstream_st*) { std::copy_n(x, 4, y); });
  SystemMatrix<double> of_function(function);
  std::vector<double> b(4, 1.0), x(4, 0.0);
  EXPECT_TRUE(has(message_of([&] {
                    (void)solver.solve(of_function, VectorView<const double>{b.data(), 4},
                                       VectorView<double>{x.data(), 4});
                  }),
                  "matrices in CSR"));
  solver.set_preconditioner(
      [](const LinearOperator<double>& A) { return make_preconditioner<double>("jacobi", A, {}); });
  EXPECT_TRUE(has(message_of([&] { (void)given.solve(solver, matrix); }), "preconditioner"));
  solver.set_preconditioner({});
  SolveSettings settings = solver.settings();
  settings.preconditioner = "spai0";
  solver.set(settings);
  EXPECT_TRUE(has(message_of([&] { (void)given.solve(solver, matrix); }),
                  "spai0 is not served over several devices"));
  settings.preconditioner = "jacobi", settings.distribution = {}, settings.distribution.partition = "graph";
  solver.set(settings);
  EXPECT_TRUE(has(message_of([&] { (void)given.solve(solver, matrix); }), "name devices"));
  settings.distribution = {};
  solver.set(settings);
  EXPECT_TRUE(given.solve(solver, matrix).converged()) << "usable after all that";
}

TEST(OverDevices, AreNamedByWords) {
  const auto told = [](std::string_view words) {
    return message_of([&] { (void)detail::contexts_of_devices(words); });
  };
  EXPECT_TRUE(detail::contexts_of_devices("none").empty());
  for (const char* words : {"", "two", "-1", "1.5", "0,x", "0,"})
    EXPECT_TRUE(has(told(words), "it must be all")) << words;
  EXPECT_TRUE(has(told("0"), "1 or more"));
  EXPECT_TRUE(has(told("17"), "at most 16 GPUs"));
  EXPECT_TRUE(has(told("3,1,3"), "GPU 3 twice"));
  if (Context::device_count() == 0)
    for (const char* words : {"all", "2", "0,1"})
      EXPECT_THROW((void)detail::contexts_of_devices(words), NotAvailable) << words;
  else
    EXPECT_TRUE(has(told("0,1023"), "there is no GPU 1023"));
}

}  // namespace
}  // namespace protean::test
