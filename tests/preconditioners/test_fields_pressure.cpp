// The recipes cpr-.. of preconditioner fields against dense algebra.
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "preconditioners/dense_blocks.hpp"
#include "preconditioners/in_space.hpp"

namespace protean::test {
namespace {

// M^-1 = E + N (I - A E): the equation of the pressure, E, then N for the whole matrix.
TEST_P(InSpace, ThePressureFirst) {
  for (const std::int64_t count : {2, 3})
    for (const bool mixed : {false, true})
      for (const FieldRecipe recipe : {FieldRecipe::cpr_quasi_impes, FieldRecipe::cpr_true_impes}) {
        SCOPED_TRACE(std::string(to_string(recipe)) + " " + std::to_string(count));
        const std::int64_t cells = 12, n = count * cells;
        Dense A = scattered(n, 7);
        std::vector<Rows> rows(static_cast<std::size_t>(count));
        for (std::int64_t i = 0; i < n; ++i) rows[mixed ? i % count : i / cells].push_back(i);
        // Unknowns of a cell are coupled.
        for (std::int64_t c = 0; c < cells; ++c)
          for (std::int64_t i = 0; i < count; ++i)
            for (std::int64_t j = 0; j < count; ++j)
              if (i != j)
                A(rows[i][c], rows[j][c]) = static_cast<long double>((3 * c + 5 * i + 7 * j) % 8 + 1) / 8;
        PreconditionerOptions options;
        options.recipe = recipe;
        options.inner = mixed ? "0 jacobi, whole gauss-seidel" : "p jacobi, whole gauss-seidel";
        if (mixed)
          options.interleaved = count;
        else
          options.fields = count == 2 ? "p 0-11, s 12-" : "p 0-11, s 12-23, t 24-";
        const auto A_here = matrix(sparse(A));
        const auto M = ready<double>("fields", *A_here, options);
        EXPECT_FALSE(M->symmetric());
        EXPECT_SAYS(M->description(),
                    mixed ? "; inner 0 jacobi, whole gauss-seidel" : "; inner p jacobi, whole gauss-seidel");
        // The weights of each cell.
        const auto D = [&](std::int64_t i, std::int64_t j, std::int64_t c) {
          if (recipe == FieldRecipe::cpr_quasi_impes) return A(rows[i][c], rows[j][c]);
          long double sum = 0;
          for (const std::int64_t row : rows[i]) sum += A(row, rows[j][c]);
          return sum;
        };
        Rect restriction(cells, n);
        for (std::int64_t c = 0; c < cells; ++c) {
          restriction(c, rows[0][c]) = 1;
          Dense others(count - 1);
          for (std::int64_t i = 1; i < count; ++i)
            for (std::int64_t j = 1; j < count; ++j) others(i - 1, j - 1) = D(i, j, c);
          const Dense inverted = inverse(others);
          for (std::int64_t i = 1; i < count; ++i)
            for (std::int64_t j = 1; j < count; ++j)
              restriction(c, rows[i][c]) -= D(0, j, c) * inverted(j - 1, i - 1);
        }
        const Rect whole = rect(A);
        Rect prolongation(n, cells), identity(n, n);
        for (std::int64_t c = 0; c < cells; ++c) prolongation(rows[0][c], c) = 1;
        for (std::int64_t i = 0; i < n; ++i) identity(i, i) = 1;
        const Rect pressure = restriction * (whole * prolongation),
                   E = prolongation * (inverse_of(matrix_of("jacobi", pressure)) * restriction),
                   N = inverse_of(matrix_of("gauss-seidel", whole));
        expect_same(dense(*M), square(E - -1.0L * (N * (identity - whole * E))), 1e-11);
      }
}

}  // namespace
}  // namespace protean::test
