// Generated systems of several fields.
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "core/statistics.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/stokes.hpp"

namespace protean::test {
namespace {

CsrMatrix<double> made(const char* kind, const GeneratorParams& params) {
  return generate(test_context(), kind, params);
}
std::vector<double> product(const CsrMatrix<double>& A, const std::vector<double>& x) {
  std::vector<double> y(static_cast<std::size_t>(A.rows()));
  for (std::int64_t i = 0; i < A.rows(); ++i)
    for (std::int64_t k = A.pattern.row_ptr[i]; k < A.pattern.row_ptr[i + 1]; ++k)
      y[i] += A.values[k] * x[A.pattern.col[k]];
  return y;
}
bool is_symmetric_matrix(const CsrMatrix<double>& A) { return asymmetry(*test_context(), A) <= 1e-14; }

TEST(GenerateFields, StokesIsTheOneOfTheTests) {
  for (const int n : {2, 3, 9})
    EXPECT_TRUE(identical(made("stokes-2d", {{"n", n}}), stokes(test_context(), n))) << n;
}

TEST(GenerateFields, ViscosityAndWind) {
  const std::int64_t n = 12, faces = n * (n - 1);
  const auto A = made("stokes-2d", {{"n", n}, {"contrast", 1e3}});
  EXPECT_TRUE(is_symmetric_matrix(A));
  std::vector<double> diagonal(static_cast<std::size_t>(A.rows()));
  extract_diagonal<double>(*test_context(), A, diagonal.data());
  EXPECT_EQ(diagonal[0], 4);                                // near the corner
  EXPECT_EQ(diagonal[(n / 2) * (n - 1) + n / 2 - 1], 4e3);  // in the middle
  const auto [least, most] = std::minmax_element(diagonal.begin(), diagonal.begin() + 2 * faces);
  EXPECT_EQ(*least, 4);
  EXPECT_EQ(*most, 4e3);
  const auto O = made("stokes-2d", {{"n", n}, {"convection", 100}});
  EXPECT_FALSE(is_symmetric_matrix(O));
  // Velocities of ones: only the border is felt, with and without wind.
  std::vector<double> ones(static_cast<std::size_t>(A.rows()));
  for (std::int64_t i = 0; i < 2 * faces; ++i) ones[i] = 1;
  const auto y = product(O, ones);
  for (std::int64_t j = 1; j + 1 < n; ++j)
    for (std::int64_t i = 1; i + 2 < n; ++i) EXPECT_NEAR(y[j * (n - 1) + i], 0, 1e-12);
  EXPECT_GT(y[0], 0);
}

TEST(GenerateFields, DarcyHasTheMassMatrixOfRaviartAndThomas) {
  const std::int64_t n = 10, faces = n * (n - 1);
  const auto A = made("darcy-2d", {{"n", n}, {"contrast", 1e-3}});
  EXPECT_TRUE(is_symmetric_matrix(A));
  // Permeability one: a flux of one along x belongs to pressures that fall by one from cell to cell.
  const auto B = made("darcy-2d", {{"n", n}});
  std::vector<double> x(static_cast<std::size_t>(B.rows()));
  for (std::int64_t i = 0; i < faces; ++i) x[i] = 1;
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < n; ++i) x[2 * faces + j * n + i] = -static_cast<double>(i);
  const auto y = product(B, x);
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 1; i + 2 < n; ++i) EXPECT_NEAR(y[j * (n - 1) + i], 0, 1e-13);
  // Nothing is gained or lost inside; constants of pressure change nothing.
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 1; i + 1 < n; ++i) EXPECT_EQ(y[2 * faces + j * n + i], 0);
  EXPECT_TRUE(null_vectors(*test_context(), A).without_positive_diagonal);
  // In the disc 1 / k is a thousand.
  std::vector<double> diagonal(static_cast<std::size_t>(A.rows()));
  extract_diagonal<double>(*test_context(), A, diagonal.data());
  EXPECT_NEAR(diagonal[0], 2.0 / 3, 1e-15);
  EXPECT_NEAR(diagonal[(n / 2) * (n - 1) + n / 2 - 1], 2e3 / 3, 1e-12);
}

TEST(GenerateFields, ReservoirConservesBothPhases) {
  const std::int64_t n = 8;
  const double step = 0.25, volume = 1.0 / 64;
  const auto A = made("reservoir-2d", {{"n", n}, {"contrast", 1e3}, {"step", step}});
  EXPECT_FALSE(is_symmetric_matrix(A));
  std::vector<double> pressure(static_cast<std::size_t>(A.rows())), saturation(pressure);
  for (std::size_t i = 0; i < pressure.size(); ++i) (i % 2 == 0 ? pressure : saturation)[i] = 1;
  const auto y = product(A, pressure), z = product(A, saturation);
  for (std::int64_t i = 0; i < n * n; ++i) {
    EXPECT_NEAR(y[2 * i], volume, 1e-10);  // compressibility alone
    EXPECT_NEAR(y[2 * i + 1], 0, 1e-10);
    EXPECT_NEAR(z[2 * i + 1], volume / step, 1e-10);  // what is stored
  }
}

}  // namespace
}  // namespace protean::test
