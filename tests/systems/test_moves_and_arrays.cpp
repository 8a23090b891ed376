// What a program writes first: std::vector and std::span as arrays, systems in a std::vector and returned from a
// function, and a system that prints itself.
#include <array>
#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

// Tridiagonal, with `shift` + 2 on the diagonal. All arrays are the program's.
struct Line {
  explicit Line(std::int64_t n, double shift = 0) : row_ptr{0} {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j < std::min(i + 2, n); ++j) {
        col.push_back(static_cast<std::int32_t>(j));
        values.push_back(i == j ? 2 + shift : -1);
      }
      row_ptr.push_back(static_cast<std::int32_t>(col.size()));
    }
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(row_ptr.size()) - 1; }
  CsrMatrix<double> csr() const { return csr_view(rows(), rows(), row_ptr, col, values); }
  double residual(const std::vector<double>& b, const std::vector<double>& x) const {
    return relative_residual_of(csr(), b, x);
  }
  std::vector<std::int32_t> row_ptr, col;
  std::vector<double> values;
};

LinearSystem<double> made(const Line& line) { return LinearSystem<double>(line.csr(), {.method = "cg"}); }

TEST(MovedSystems, LiveInAVector) {
  static_assert(std::is_nothrow_move_constructible_v<LinearSystem<double>> &&
                std::is_nothrow_move_assignable_v<LinearSystem<double>> &&
                !std::is_copy_constructible_v<LinearSystem<double>>);
  const std::array lines{Line(50), Line(2000, 0.1), Line(300, 1)};
  std::vector<LinearSystem<double>> systems;
  for (const Line& line : lines) systems.push_back(made(line));
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t k = 0; k < systems.size(); ++k) {
      const std::vector<double> b(static_cast<std::size_t>(lines[k].rows()), 1.0);
      std::vector<double> x(b.size(), 0.0);
      EXPECT_TRUE(systems[k].solve(b, x).converged());
      EXPECT_LE(lines[k].residual(b, x), 2e-8);
    }
    // Between solves, too: what a system has made moves with it.
    std::rotate(systems.begin(), systems.begin() + 1, systems.end());
    std::rotate(systems.begin(), systems.begin() + 2, systems.end());
  }
}

TEST(MovedSystems, AreEmptyAfterwards) {
  const Line line(40);
  LinearSystem<double> first = made(line), second = std::move(first);
  const std::vector<double> b(40, 1.0);
  std::vector<double> x(40, 0.0);
  EXPECT_TRUE(second.solve(b, x).converged());
  EXPECT_THROW(first.solve(b, x), BadArgument);  // NOLINT: that is the test
  EXPECT_THROW(first.update_values(line.values), BadArgument);
  EXPECT_THROW((void)first.settings(), BadArgument);
  first = std::move(second);
  std::fill(x.begin(), x.end(), 0.0);
  EXPECT_TRUE(first.solve(b, x).converged());
  EXPECT_LE(line.residual(b, x), 2e-8);
}

TEST(ArraysOfAProgram, AreSolvedWhereTheyAre) {
  const Line line(500);
  const std::vector<double> b(500, 1.0);
  std::vector<double> x(500, 0.0);
  EXPECT_TRUE(solve(line.csr(), b, x, {.method = "cg"}).converged());
  EXPECT_LE(line.residual(b, x), 2e-8);
  std::vector<double> y(502, 7.0);
  LinearSystem<double> system = made(line);
  EXPECT_TRUE(system.solve(std::span<const double>(b), std::span<double>(y).subspan(1, 500)).converged());
  EXPECT_EQ(y.front(), 7.0);
  EXPECT_EQ(y.back(), 7.0);
  const Line other(500, 3);
  system.update_values(other.values);
  EXPECT_TRUE(system.solve(b, x).converged());
  EXPECT_LE(other.residual(b, x), 2e-8);
  // Arrays by pointers as before.
  EXPECT_TRUE(system.solve({b.data(), 500}, {x.data(), 500}).converged());
  // 64-bit row pointers.
  const std::vector<std::int64_t> wide(line.row_ptr.begin(), line.row_ptr.end());
  EXPECT_TRUE(identical(csr_view(line.rows(), line.rows(), wide, line.col, line.values), line.csr()));
}

TEST(ArraysOfAProgram, OfWrongLengthsAreRefused) {
  const Line line(30);
  LinearSystem<double> system = made(line);
  std::vector<double> right(30, 1.0), x(30, 5.0), wrong(29, 1.0), none;
  EXPECT_THROW(system.solve(wrong, x), ShapeMismatch);
  EXPECT_THROW(system.solve(right, wrong), ShapeMismatch);
  EXPECT_THROW(system.solve(right, none), ShapeMismatch);
  EXPECT_THROW(solve(line.csr(), right, wrong), ShapeMismatch);
  EXPECT_THROW(system.update_values(right), ShapeMismatch);
  EXPECT_EQ(x, std::vector<double>(30, 5.0)) << "nothing is written";
  const auto message = [&](const std::vector<std::int32_t>& row_ptr, const std::vector<std::int32_t>& col,
                           const std::vector<double>& values) {
    return message_of<ShapeMismatch>([&] { (void)csr_view(30, 30, row_ptr, col, values); });
  };
  EXPECT_EQ(message(line.row_ptr, line.col, line.values), "");
  std::vector<std::int32_t> pointers = line.row_ptr, columns = line.col;
  std::vector<double> values = line.values;
  pointers.push_back(99);
  EXPECT_NE(message(pointers, columns, values).find("31"), std::string::npos)
      << message(pointers, columns, values);
  EXPECT_NE(message({}, columns, values).find("31"), std::string::npos);
  columns.pop_back();
  EXPECT_NE(message(line.row_ptr, columns, values).find("88"), std::string::npos);
  values.push_back(1);
  EXPECT_NE(message(line.row_ptr, line.col, values).find("88"), std::string::npos);
  EXPECT_TRUE(system.solve(right, x).converged()) << "after all refusals";
}

TEST(Systems, PrintThemselves) {
  const Line line(2500, 0.5);
  LinearSystem<double> system(line.csr(), {.preconditioner = "jacobi", .format = "ell", .order = "rcm"});
  const auto printed = [&] {
    std::ostringstream out;
    out << system;
    return out.str();
  };
  EXPECT_NE(printed().find("2500 x 2500"), std::string::npos) << printed();
  EXPECT_NE(printed().find("auto"), std::string::npos) << "before the first solve\n" << printed();
  const std::vector<double> b(2500, 1.0);
  std::vector<double> x(2500, 0.0);
  ASSERT_TRUE(system.solve(b, x).converged());
  for (const char* part : {"2500 x 2500", "7498 nonzeros", "double", "cg", "jacobi", "ell", "rcm", "KiB"})
    EXPECT_NE(printed().find(part), std::string::npos) << part << "\n" << printed();
  EXPECT_EQ(printed(), system.describe());
  LinearSystem<double> moved = std::move(system);
  EXPECT_NE(printed().find("moved"), std::string::npos) << printed();
}

}  // namespace
}  // namespace protean::test
