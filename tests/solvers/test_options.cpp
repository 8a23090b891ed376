// Options of methods: what is checked, and what needs a symmetric preconditioner.
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "solvers/textbook.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

TEST(Options, OfMethodsAreChecked) {
  const auto complaint = [](const SolverOptions& options) {
    return message_of<BadArgument>([&] { make_solver<double>("cg", options); });
  };
  EXPECT_NE(complaint({.directions = 0}).find("directions is 0"), std::string::npos);
  EXPECT_NE(complaint({.directions = 101}).find("1 to 100"), std::string::npos);
  EXPECT_NE(complaint({.s = 0}).find("s is 0"), std::string::npos);
  EXPECT_NE(complaint({.s = 17}).find("1 to 16"), std::string::npos);
  EXPECT_EQ(find_solver("bicgstab2").products, 4);
  EXPECT_THROW(find_solver("minress"), BadArgument);
}

// The number of products is what predictions count with.
TEST(Options, ProductsOfAnIteration) {
  for (const SolverEntry& entry : solvers()) {
    const DenseOperator<double> A(convection_2d(9, 0));
    const auto b = right_hand_side<double>(81);
    std::vector<double> x(81, 0.0);
    const auto report = entry.make_f64({.stopping = {.max_iterations = 4}})->solve(A, view(b), view(x));
    EXPECT_EQ(report.iterations, 4) << entry.id;
    // One for b - A x0, one for b - A x at the end, one that asks whether the columns of A add up to zero; and two that
    // ask whether A is symmetric, if that matters.
    EXPECT_EQ(A.products() - 3 - (entry.symmetric ? 2 : 0), 4 * entry.products) << entry.id;
  }
}

TEST(Options, SymmetricMethodsRefuseAPreconditionerThatIsNot) {
  const auto csr =
      make_matrix(find_format("csr"), generate(test_context(), "poisson-2d", {{"n", 6}}), test_context());
  const auto M = make_preconditioner<double>("gauss-seidel", *csr);
  M->ensure(*csr);
  const auto b = right_hand_side<double>(36);
  for (const char* method : all_methods()) {
    std::vector<double> x(36, 0.0);
    const auto solver = make_solver<double>(method);
    const std::string_view name = method;
    if (name == "cg" || name == "minres") {
      EXPECT_TRUE(solver->needs_symmetric_preconditioner());
      EXPECT_THROW((void)solver->solve(*csr, view(b), view(x), M.get()), BadArgument) << method;
    } else {
      EXPECT_TRUE(solver->solve(*csr, view(b), view(x), M.get()).converged()) << method;
    }
  }
}

}  // namespace
}  // namespace protean::test
