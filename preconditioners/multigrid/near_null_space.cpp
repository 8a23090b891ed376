#include "preconditioners/multigrid/near_null_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/multi_blas1.hpp"

namespace protean::detail {
namespace {

constexpr std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Divides each vector by a power of two, so that its largest entry is below 1, whose squares neither overflow nor
// vanish. No bits of the setup change.
void scale_vectors(std::int64_t rows, std::int64_t vectors, std::vector<double>& values) {
  for (std::int64_t k = 0; k < vectors; ++k) {
    double largest = 0;
    for (std::int64_t i = 0; i < rows; ++i)
      largest = std::max(largest, std::abs(values[index(i * vectors + k)]));
    if (largest == 0 && rows > 0)
      throw BadArgument(
          fmt::format("vector {} near the null space is zero (vectors count from 0); leave it out", k));
    int exponent = 0;
    (void)std::frexp(largest, &exponent);
    for (std::int64_t i = 0; i < rows; ++i)
      values[index(i * vectors + k)] = std::ldexp(values[index(i * vectors + k)], -exponent);
  }
}

// By Gram-Schmidt, twice; vectors are scaled.
void require_independent(std::int64_t rows, std::int64_t vectors, std::vector<double> Q) {
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += Q[index(i * vectors + a)] * Q[index(i * vectors + b)];
    return sum;
  };
  for (std::int64_t k = 0; k < vectors && rows > 0; ++k) {
    const double before = std::sqrt(dot(k, k));
    for (int pass = 0; pass < 2; ++pass)
      for (std::int64_t q = 0; q < k; ++q) {
        const double along = dot(q, k);
        for (std::int64_t i = 0; i < rows; ++i)
          Q[index(i * vectors + k)] -= along * Q[index(i * vectors + q)];
      }
    const double after = std::sqrt(dot(k, k));
    if (!(after > 1e-12 * before))
      throw BadArgument(
          fmt::format("vector {} near the null space is a sum of multiples of those before it (vectors "
                      "count from 0); leave it out",
                      k));
    for (std::int64_t i = 0; i < rows; ++i) Q[index(i * vectors + k)] /= after;
  }
}

}  // namespace

std::vector<double> near_null_space_of(std::int64_t rows, MultiVectorView<const double> vectors) {
  require<double>(vectors, rows, vectors.columns, Space::host, "the vectors near the null space");
  constexpr std::int64_t most = 64;
  if (vectors.columns < 1 || vectors.columns > most)
    throw BadArgument(fmt::format("amg takes 1 to {} vectors near the null space, and these are {}", most,
                                  vectors.columns));
  std::vector<double> values(index(rows * vectors.columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < vectors.columns; ++k) {
      if (!std::isfinite(vectors(i, k)))
        throw BadArgument(fmt::format("entry {} of vector {} near the null space is {} (both count from 0)",
                                      i, k, vectors(i, k)));
      values[index(i * vectors.columns + k)] = vectors(i, k);
    }
  scale_vectors(rows, vectors.columns, values);
  require_independent(rows, vectors.columns, values);
  return values;
}

}  // namespace protean::detail
