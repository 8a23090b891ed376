// What is known of a matrix is not looked at again until its values are others.
#include "operators/known_symmetry.hpp"

#include <memory>
#include <optional>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/space.hpp"

namespace protean::test {
namespace {

TEST(KnownSymmetry, HoldsForTheValuesThatWereLookedAt) {
  const ContextPtr host = test_context();
  const CsrMatrix<double> csr = generate(host, "poisson-2d", {{"n", 5}});
  const auto A = make_matrix(find_format("csr"), csr, host);
  EXPECT_EQ(detail::known_symmetry<double>(*A), std::nullopt);
  EXPECT_TRUE(detail::is_symmetric_matrix<double>(*A, *host, csr));
  EXPECT_EQ(detail::known_symmetry<double>(*A), std::optional(true));
  // It is not looked at again.
  detail::remember_symmetry<double>(*A, false);
  EXPECT_FALSE(detail::is_symmetric_matrix<double>(*A, *host, csr));
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  values[1] = -2;
  CsrMatrix<double> other = csr;
  other.values = values.data(), other.values_owner = nullptr;
  detail::remember_symmetry<double>(*A, true);
  A->update_values(other);
  EXPECT_EQ(detail::known_symmetry<double>(*A), std::nullopt);
  EXPECT_FALSE(detail::is_symmetric_matrix<double>(*A, *host, other));
}

TEST(KnownSymmetry, BelongsToOneMatrixOfMany) {
  const ContextPtr host = test_context();
  const CsrMatrix<double> csr = generate(host, "poisson-2d", {{"n", 4}});
  std::vector<std::unique_ptr<AssembledMatrix<double>>> all;
  for (int k = 0; k < 20; ++k) {
    all.push_back(make_matrix(find_format("csr"), csr, host));
    detail::remember_symmetry<double>(*all.back(), k % 2 == 0);
  }
  int known = 0;
  for (int k = 0; k < 20; ++k)
    if (const auto one = detail::known_symmetry<double>(*all[static_cast<std::size_t>(k)])) {
      ++known;
      EXPECT_EQ(*one, k % 2 == 0) << k;
    }
  EXPECT_EQ(known, 8);
}

}  // namespace
}  // namespace protean::test
