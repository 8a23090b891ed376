// spai0: the diagonal nearest to the inverse in the Frobenius norm.
#include <vector>

#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST(Spai0, ARowOfZerosIsLeftAlone) {
  std::vector<Triplet<double>> entries = {{0, 0, 4}, {0, 2, 3}, {1, 1, 0}, {2, 2, -2}};
  const auto A = assembled(csr_from_triplets<double>(test_context(), 3, 3, entries));
  const auto M = ready<double>("spai0", *A, {.zero_diagonal = ZeroDiagonal::one});
  EXPECT_EQ(applied(*M, {25, 7, 6}), (std::vector<double>{4, 7, -3}));
}

TEST(Spai0, MinimisesTheFrobeniusNorm) {
  const Dense A = scattered(20, 10);
  const auto M = ready<double>("spai0", *assembled(sparse(A)));
  ASSERT_EQ(M->inverse_diagonal().size, 20);
  for (std::int64_t i = 0; i < A.n; ++i) {
    long double sum = 0;
    for (std::int64_t j = 0; j < A.n; ++j) sum += A(i, j) * A(i, j);
    EXPECT_NEAR(M->inverse_diagonal()[i], static_cast<double>(A(i, i) / sum), 1e-16);
  }
  // Squares of these entries overflow or underflow.
  const auto large = ready<double>("spai0", *assembled(sparse(diagonal_matrix({1e200L, 1e-200L}))));
  EXPECT_NEAR(large->inverse_diagonal()[0] * 1e200, 1, 1e-15);
  EXPECT_NEAR(large->inverse_diagonal()[1] * 1e-200, 1, 1e-15);
}

}  // namespace
}  // namespace protean::test
