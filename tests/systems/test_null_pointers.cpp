// Null pointers of a caller are refused by name, and accepted if there are no entries.
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

TEST(NullPointers, AreNamedByEverySolve) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 8}});
  const std::int64_t n = csr.rows();
  std::vector<double> good(static_cast<std::size_t>(n), 1.0);
  const VectorView<const double> b{good.data(), n}, no_b{nullptr, n};
  const VectorView<double> x{good.data(), n}, no_x{nullptr, n};
  for (const char* order : {"none", "rcm"})
    for (const char* preconditioner : {"none", "jacobi", "ic0", "amg", "auto"}) {
      SCOPED_TRACE(std::string(order) + ", " + preconditioner);
      const SolveSettings settings{.preconditioner = preconditioner, .format = "csr", .order = order};
      std::vector<double> to(static_cast<std::size_t>(n), 0.0);
      EXPECT_EQ(message_of<BadArgument>([&] {
                  solve<double>(csr, no_b, {to.data(), n}, settings);
                }),
                "b is a null pointer");
      EXPECT_EQ(message_of<BadArgument>([&] { solve<double>(csr, b, no_x, settings); }),
                "x is a null pointer");
      EXPECT_EQ(message_of<BadArgument>([&] {
                  multi_solve<double>(csr, {nullptr, n, 1, n}, {to.data(), n, 1, n}, settings);
                }),
                "B is a null pointer");
      EXPECT_EQ(message_of<BadArgument>([&] {
                  multi_solve<double>(csr, {good.data(), n, 1, n}, {nullptr, n, 1, n}, settings);
                }),
                "X is a null pointer");
      LinearSystem<double> system(csr, settings);
      EXPECT_THROW(system.solve(no_b, {to.data(), n}), BadArgument);
      EXPECT_TRUE(system.solve(b, {to.data(), n}).report.converged()) << "usable after a refusal";
    }
  const auto A = make_matrix(find_format("csr"), csr, test_context());
  EXPECT_EQ(message_of<BadArgument>([&] { A->apply(no_b, x); }), "x is a null pointer");
  EXPECT_EQ(message_of<BadArgument>([&] { A->apply(b, no_x); }), "y is a null pointer");
}

TEST(NullPointers, OfAMatrixAreNamed) {
  const std::int32_t row_ptr[] = {0, 1, 2}, col[] = {0, 1};
  const double values[] = {1, 1};
  const std::int32_t* const nowhere = nullptr;
  const auto view = [&](const std::int32_t* p, const std::int32_t* c, const double* v) {
    return message_of<BadArgument>([&] { (void)csr_view(2, 2, p, c, v); });
  };
  EXPECT_NE(view(nullptr, col, values).find("row pointers"), std::string::npos);
  EXPECT_NE(view(row_ptr, nullptr, values).find("null pointer"), std::string::npos);
  EXPECT_NE(view(row_ptr, col, nullptr).find("null pointer"), std::string::npos);
  EXPECT_THROW((void)csr_view<double>(-1, 2, row_ptr, col, values), BadArgument);
  EXPECT_THROW((void)csr_view<double>(std::int64_t{1} << 40, 2, row_ptr, col, values), BadArgument);
  EXPECT_THROW((void)csr_view<double>(test_context(), 2, 2, 2, nowhere, col, values), BadArgument);
  EXPECT_THROW((void)csr_view<double>(test_context(), 2, 2, 2, row_ptr, nullptr, values), BadArgument);
  // A handle that nobody has checked.
  for (int without = 0; without < 3; ++without) {
    CsrMatrix<double> csr = csr_view(2, 2, row_ptr, col, values);
    if (without == 0) csr.pattern.row_ptr = {};
    if (without == 1) csr.pattern.col = nullptr;
    if (without == 2) csr.values = nullptr;
    const std::string name = without == 0 ? "row_ptr" : without == 1 ? "col" : "values";
    EXPECT_NE(
        message_of<BadArgument>([&] { make_matrix(find_format("csr"), csr, test_context()); }).find(name),
        std::string::npos);
    for (const bool check : {true, false}) {
      EXPECT_NE(message_of<BadArgument>([&] {
                  SystemMatrix<double> matrix(test_context(), csr, check);
                }).find(name),
                std::string::npos);
    }
  }
}

// Without entries there is no memory.
TEST(NullPointers, OfNothingAreTaken) {
  const std::int32_t row_ptr[] = {0};
  const std::int32_t* const no_columns = nullptr;
  const double* const no_values = nullptr;
  const CsrMatrix<double> csr = csr_view(0, 0, row_ptr, no_columns, no_values);
  LinearSystem<double> system(csr, {.format = "csr"});
  EXPECT_TRUE(system.solve({nullptr, 0}, {nullptr, 0}).report.converged());
  EXPECT_NO_THROW(system.update_values(no_values));
  EXPECT_NO_THROW(system.update_values(csr));
  EXPECT_THROW(system.solve({nullptr, 3}, {nullptr, 0}), ShapeMismatch);
}

}  // namespace
}  // namespace protean::test
