// Which matrices have cells with a pressure (fields/cells.hpp), and the recipe that auto takes for them.
#include <cstdint>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/fields/cells.hpp"
#include "preconditioners/fields/found.hpp"
#include "preconditioners/in_space.hpp"

namespace protean::test {
namespace {

using detail::FieldList;
using detail::FoundCells;

// A in another order: row i becomes row place[i].
CsrMatrix<double> moved(const CsrMatrix<double>& A, const std::vector<std::int64_t>& place) {
  std::vector<Triplet<double>> list;
  for (std::int64_t i = 0; i < A.rows(); ++i)
    for (std::int64_t k = A.pattern.row_ptr[i]; k < A.pattern.row_ptr[i + 1]; ++k)
      list.push_back({static_cast<std::int32_t>(place[i]), static_cast<std::int32_t>(place[A.pattern.col[k]]),
                      A.values[k]});
  return csr_from_triplets<double>(test_context(), A.rows(), A.rows(), list);
}

CsrMatrix<double> reservoir(double n = 12, double step = 1, double contrast = 100) {
  return generate(test_context(), "reservoir-2d", {{"n", n}, {"step", step}, {"contrast", contrast}});
}

TEST(FieldCells, ThePressureOfAReservoirIsFound) {
  for (const double n : {3.0, 12.0, 70.0})  // the last one has more cells than are looked at
    for (const double step : {0.01, 1.0, 100.0})
      for (const double contrast : {1.0, 1e4}) {
        SCOPED_TRACE(std::to_string(n) + " " + std::to_string(step));
        const CsrMatrix<double> A = reservoir(n, step, contrast);
        const FoundCells found = detail::find_cells(A);
        EXPECT_EQ(found.size, 2);
        EXPECT_EQ(found.pressure, 0);
        const detail::FoundFields fields = detail::find_fields(A, false);
        EXPECT_TRUE(fields.cells);
        EXPECT_FALSE(detail::is_saddle_point(fields));
        EXPECT_EQ(fields.fields.names, (std::vector<std::string>{"p", "s"}));
      }
}

// In any row of a cell, in cells of three unknowns, and in fields that do not lie side by side.
TEST(FieldCells, ThePressureMayBeAnywhere) {
  const CsrMatrix<double> A = reservoir();
  const std::int64_t n = A.rows(), cells = n / 2;
  std::vector<std::int64_t> place(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) place[i] = i ^ 1;
  FoundCells found = detail::find_cells(moved(A, place));
  EXPECT_EQ(found.size, 2);
  EXPECT_EQ(found.pressure, 1);
  for (std::int64_t i = 0; i < n; ++i) place[i] = i % 2 * cells + i / 2;
  const CsrMatrix<double> apart = moved(A, place);
  EXPECT_EQ(detail::find_cells(apart).size, 0);
  FieldList list{{"s", "p"}, {}};
  for (std::int64_t i = 0; i < n; ++i) list.of_row.push_back(i < cells ? 1 : 0);
  EXPECT_EQ(detail::find_pressure(apart, list), 1);
  const FieldList first = detail::with_first(list, 1);
  EXPECT_EQ(first.names, (std::vector<std::string>{"p", "s"}));
  EXPECT_EQ(first.of_row.front(), 0);
  EXPECT_EQ(first.of_row.back(), 1);
  list.of_row.front() = 0;  // fields of two sizes
  EXPECT_EQ(detail::find_pressure(apart, list), -1);
  EXPECT_EQ(detail::fields_of_cells({3, 1}, 6).of_row, (std::vector<std::int32_t>{1, 0, 2, 1, 0, 2}));
}

TEST(FieldCells, OtherMatricesHaveNone) {
  for (const GeneratorEntry& kind : generators()) {
    if (kind.kind == "reservoir-2d") continue;
    SCOPED_TRACE(kind.kind);
    for (const double n : {6.0, 7.0, 8.0}) {
      GeneratorParams params;
      for (const auto& one : kind.params)
        if (one.name == "n") params["n"] = kind.kind == "artificial" ? 100 * n : n;
      EXPECT_EQ(detail::find_cells(generate(test_context(), kind.kind, params)).size, 0) << n;
    }
  }
  // Cells of two unknowns that are alike, or of which one does not feel the other's neighbours.
  const CsrMatrix<double> A = reservoir();
  std::vector<double> values(A.values, A.values + A.nonzeros());
  CsrMatrix<double> other = A;
  other.values = values.data(), other.values_owner = nullptr;
  const auto change = [&](const auto& to) {
    for (std::int64_t i = 0; i < A.rows(); ++i)
      for (std::int64_t k = A.pattern.row_ptr[i]; k < A.pattern.row_ptr[i + 1]; ++k)
        values[k] = to(i, A.pattern.col[k], A.values[k]);
    return detail::find_cells(other).size;
  };
  EXPECT_EQ(change([](std::int64_t, std::int64_t, double a) { return a; }), 2);
  EXPECT_EQ(change([](std::int64_t i, std::int64_t j, double a) { return i % 2 == 1 && j % 2 == 0 ? 0 : a; }),
            0);
  EXPECT_EQ(change([](std::int64_t i, std::int64_t j, double a) { return i % 2 == 1 && j > i ? -a : a; }), 0);
  EXPECT_EQ(
      change([](std::int64_t i, std::int64_t j, double a) { return i % 2 == 0 && j != i ? a / 10 : a; }), 0);
  EXPECT_EQ(change([](std::int64_t i, std::int64_t j, double a) { return i % 2 == 0 && j != i ? -a : a; }),
            0);
  EXPECT_EQ(change([](std::int64_t i, std::int64_t j, double a) { return i == 6 && j == 6 ? -a : a; }), 0);
}

// Recipe auto takes the pressure first in either order of the names, and not if option inner names another field.
TEST_P(InSpace, RecipeAutoTakesThePressureFirst) {
  const auto A = matrix(reservoir());
  PreconditionerOptions options;
  options.recipe = FieldRecipe::cpr_quasi_impes, options.fields = "p 0-/2, s 1-/2";
  const auto expected = ready<double>("fields", *A, options);
  const std::vector<double> r = right_hand_side<double>(A->rows()), z = apply(*expected, r);
  options.recipe = FieldRecipe::automatic;
  for (const char* const text : {"p 0-/2, s 1-/2", "s 1-/2, p 0-/2", "auto"}) {
    options.fields = text;
    const auto M = ready<double>("fields", *A, options);
    EXPECT_EQ(apply(*M, r), z) << text;
    EXPECT_SAYS(M->description(), "; recipe cpr-quasi-impes; inner p amg, whole ilu0; taken because field p");
  }
  options.fields = "p 0-/2, s 1-/2", options.inner = "s jacobi";
  EXPECT_SAYS(ready<double>("fields", *A, options)->description(), "; recipe lower; inner p amg, s jacobi");
}

}  // namespace
}  // namespace protean::test
