// ssor and gauss-seidel against their formulas in long double.
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST(Relaxation, FormulasInTheOrderOfTheColours) {
  for (const Dense& A : {poisson_2d(6), scattered(35, 7), symmetric_part(scattered(35, 8))}) {
    const std::vector<int> colour = greedy_colours(A);
    const auto matrix = assembled(sparse(A));
    expect_same(dense_inverse(*ready<double>("gauss-seidel", *matrix)), inverse(gauss_seidel_matrix(A)),
                1e-14);
    for (const double omega : {1.0, 0.7, 1.6})
      expect_same(dense_inverse(*ready<double>("ssor", *matrix, {.omega = omega})),
                  inverse(ssor_matrix(A, omega)), 1e-13);
    EXPECT_EQ(figure(*ready<double>("ssor", *matrix), "colours"),
              1 + *std::max_element(colour.begin(), colour.end()));
  }
}

}  // namespace
}  // namespace protean::test
