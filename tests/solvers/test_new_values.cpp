// New values, which every part of a solve must see.
#include <cmath>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/elements.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// Rows and columns scaled so that a diagonal of other values is far off.
CsrMatrix<double> rescaled(const CsrMatrix<double>& source) {
  CsrMatrix<double> result = deep_copy(test_context(), source);
  const auto d = [](std::int64_t i) { return std::pow(10.0, static_cast<double>(i % 4)); };
  for (std::int64_t i = 0; i < result.rows(); ++i)
    for (std::int64_t k = result.pattern.row_ptr[i]; k < result.pattern.row_ptr[i + 1]; ++k)
      const_cast<double*>(result.values)[k] *= d(i) * d(result.pattern.col[k]);
  return result;
}

struct Answer {
  std::int64_t iterations = 0;
  std::vector<double> x;
  bool operator==(const Answer&) const = default;
};

// Jacobi-CG; M is brought up to date by ensure(), as a program does before each solve.
Answer jacobi_cg(const LinearOperator<double>& A, Preconditioner<double>& M) {
  M.ensure(A);
  const auto b = right_hand_side<double>(A.rows());
  Answer answer{0, std::vector<double>(b.size(), 0.0)};
  const SolveReport report = make_solver<double>("cg")->solve(A, view(b), view(answer.x), &M);
  EXPECT_TRUE(report.converged()) << to_string(report.reason);
  answer.iterations = report.iterations;
  return answer;
}

TEST(NewValues, AreSeenByJacobiInEveryFormat) {
  const CsrMatrix<double> before = generate(test_context(), "poisson-2d", {{"n", 12}}),
                          after = rescaled(before);
  for (const FormatEntry* format : layouts()) {
    if (format->kernels.empty()) continue;
    SCOPED_TRACE(format->id);
    const auto fresh = make_matrix(*format, after, test_context(), most_tolerant(*format));
    const auto M_fresh = make_preconditioner<double>("jacobi", *fresh);
    const Answer right = jacobi_cg(*fresh, *M_fresh);

    const auto A = make_matrix(*format, before, test_context(), most_tolerant(*format));
    const auto M = make_preconditioner<double>("jacobi", *A);
    (void)jacobi_cg(*A, *M);
    A->update_values(after);
    EXPECT_EQ(jacobi_cg(*A, *M), right);

    Matrix<double> adaptive(before, make_matrix(*format, before, test_context(), most_tolerant(*format)));
    const auto M_adaptive = make_preconditioner<double>("jacobi", adaptive);
    (void)jacobi_cg(adaptive, *M_adaptive);
    adaptive.update_values(after);
    EXPECT_EQ(jacobi_cg(adaptive, *M_adaptive), right);
  }
}

TEST(NewValues, OfElementsAreSeenByJacobi) {
  const ElementMesh& mesh = element_mesh("cubes_1");
  ElementOptions options;
  options.symmetric = true, options.scatter = ElementScatter::gather;
  auto numbers = element_numbers<double>(mesh, true);
  const auto A = make_element_operator<double>(test_context(), mesh.nodes, numbers.groups, options);
  Matrix<double> adaptive(make_element_operator<double>(test_context(), mesh.nodes, numbers.groups, options));
  const auto M = make_preconditioner<double>("jacobi", *A),
             M_adaptive = make_preconditioner<double>("jacobi", adaptive);
  const Answer first = jacobi_cg(*A, *M);
  EXPECT_EQ(jacobi_cg(adaptive, *M_adaptive), first);
  // The second half of the elements becomes a thousand times as stiff.
  const auto elements = static_cast<std::size_t>(mesh.groups[0].elements());
  std::vector<double>& matrices = numbers.matrices[0];
  for (std::size_t i = elements / 2 * (matrices.size() / elements); i < matrices.size(); ++i)
    matrices[i] *= 1000;
  const auto fresh = make_element_operator<double>(test_context(), mesh.nodes, numbers.groups, options);
  const auto M_fresh = make_preconditioner<double>("jacobi", *fresh);
  const Answer right = jacobi_cg(*fresh, *M_fresh);
  EXPECT_NE(right, first);
  A->update_values(numbers.groups);
  EXPECT_EQ(jacobi_cg(*A, *M), right);
  adaptive.update_values(numbers.groups);
  EXPECT_EQ(jacobi_cg(adaptive, *M_adaptive), right);
}

// C: new values in another array, which a later change of format must not lose.
TEST(NewValues, StayThroughAChangeOfFormatInC) {
  const std::int32_t row_ptr[] = {0, 1, 2}, col[] = {0, 1};
  const double values[] = {2, 3}, next[] = {5, 7}, x[] = {1, 1};
  protean_context* context = nullptr;
  protean_matrix* A = nullptr;
  ASSERT_EQ(protean_context_host(1, &context), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_csr(context, 2, 2, 2, row_ptr, col, values, 0, &A), PROTEAN_OK);
  for (const char* format : {"csr", "sell-c-sigma", "coo"}) {
    ASSERT_EQ(protean_matrix_update_values(A, next), PROTEAN_OK) << protean_last_error();
    ASSERT_EQ(protean_matrix_set_format(A, format, nullptr, nullptr), PROTEAN_OK) << protean_last_error();
    double y[] = {0, 0};
    ASSERT_EQ(protean_matrix_apply(A, 1, x, 0, y), PROTEAN_OK);
    EXPECT_EQ(y[0], 5) << format;
    EXPECT_EQ(y[1], 7) << format;
    ASSERT_EQ(protean_matrix_update_values(A, values), PROTEAN_OK);
    ASSERT_EQ(protean_matrix_apply(A, 1, x, 0, y), PROTEAN_OK);
    EXPECT_EQ(y[0], 2) << format;
  }
  protean_matrix_free(A);
  protean_context_free(context);
}

}  // namespace
}  // namespace protean::test
