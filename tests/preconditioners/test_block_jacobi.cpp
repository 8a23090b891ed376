// block-jacobi: the inverses of its blocks, singular blocks, and symmetry bit for bit.
#include <string>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

TEST(BlockJacobi, InvertsTheBlocks) {
  for (const Dense& A : {poisson_2d(5), scattered(27, 9)})
    for (const std::int64_t size : {1, 2, 4, 7, 64}) {
      Dense blocks(A.n);
      for (std::int64_t i = 0; i < A.n; ++i)
        for (std::int64_t j = 0; j < A.n; ++j)
          if (i / size == j / size) blocks(i, j) = A(i, j);
      expect_same(dense_inverse(*ready<double>("block-jacobi", *assembled(sparse(A)), {.block_size = size})),
                  inverse(blocks), 1e-13);
    }
}

TEST(BlockJacobi, PivotsInABlockAndNamesASingularOne) {
  Dense A(6);
  A(0, 1) = 2, A(1, 0) = 4;  // a zero diagonal, symmetric pattern
  A(2, 2) = A(2, 3) = A(3, 2) = A(3, 3) = 1;
  A(4, 4) = A(5, 5) = 1;
  const auto matrix = assembled(sparse(A));
  const std::string text =
      message<BadMatrix>([&] { ready<double>("block-jacobi", *matrix, {.block_size = 2}); });
  EXPECT_SAYS(text, "the block of rows 2 to 3 (from 0) is singular");
  A(3, 3) = 2;
  expect_same(dense_inverse(*ready<double>("block-jacobi", *assembled(sparse(A)), {.block_size = 2})),
              inverse(A), 1e-14);
}

// Unit vectors give the entries of the inverses as they are stored. The blocks are not definite, so they are
// eliminated.
TEST(BlockJacobi, InversesOfSymmetricBlocksAreSymmetricBitForBit) {
  Dense A = symmetric_part(scattered(48, 11));
  for (std::int64_t i = 0; i < A.n; i += 2) A(i, i) = -A(i, i);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < i; ++j)
      A(i, j) = A(j, i) = A(i, j) + 1.0L / static_cast<long double>(3 + i + j);
  const Dense inverted =
      dense_inverse(*ready<double>("block-jacobi", *assembled(sparse(A)), {.block_size = 12}));
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < i; ++j) EXPECT_EQ(inverted(i, j), inverted(j, i)) << i << ' ' << j;
}

}  // namespace
}  // namespace protean::test
