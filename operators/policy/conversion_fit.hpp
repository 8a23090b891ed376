// The time of a conversion as a sum of parts by rows, entries and bytes. Private to operators/.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>

namespace protean::detail {

// What the time of a conversion depends on: once, and rows, entries and bytes of the result, so that each factor is
// about a time in seconds of a matrix of usual size.
inline constexpr int sizes = 4;
using ConversionSize = std::array<double, sizes>;
inline ConversionSize conversion_size(std::int64_t rows, std::int64_t nonzeros, std::size_t bytes) {
  return {1, static_cast<double>(rows) * 1e-6, static_cast<double>(nonzeros) * 1e-6,
          static_cast<double>(bytes) * 1e-7};
}

inline double entries_of(const ConversionSize& size) { return size[2]; }

inline double dot_of_sizes(const ConversionSize& a, const ConversionSize& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Fits factors to conversions so that the sum of (1 - predicted / measured)^2 is least.
class ConversionFit {
 public:
  void add(ConversionSize size, double seconds) {
    for (double& part : size) part /= seconds;
    for (int i = 0; i < sizes; ++i) {
      right_[i] += size[i];
      for (int j = 0; j < sizes; ++j) normal_[i][j] += size[i] * size[j];
    }
    ++count_;
  }
  std::size_t count() const noexcept { return count_; }

  // No factor is negative: the best of all choices of sizes whose factors are not. Nothing if none is determined.
  std::optional<ConversionSize> factors() const {
    std::optional<ConversionSize> best;
    double least = INFINITY;
    for (unsigned chosen = 1; chosen < 1U << sizes; ++chosen) {
      const std::optional<ConversionSize> x = factors_of(chosen);
      if (!x || std::any_of(x->begin(), x->end(), [](double factor) { return factor < 0; })) continue;
      double error = 0;  // except for a constant
      for (int i = 0; i < sizes; ++i) error += (*x)[i] * (dot_of_sizes(normal_[i], *x) - 2 * right_[i]);
      if (error < least) least = error, best = x;
    }
    return best;
  }

 private:
  // With these sizes alone, by elimination without pivots: the normal equations are positive definite.
  std::optional<ConversionSize> factors_of(unsigned chosen) const {
    constexpr double too_alike = 1e-10;
    std::array<ConversionSize, sizes> a = normal_;
    ConversionSize b = right_, x{};
    const auto without = [chosen](int i) { return (chosen >> i & 1U) == 0; };
    for (int k = 0; k < sizes; ++k) {
      if (without(k)) continue;
      if (!(a[k][k] > too_alike * normal_[k][k])) return {};
      for (int i = k + 1; i < sizes; ++i) {
        const double factor = a[i][k] / a[k][k];
        for (int j = k; j < sizes; ++j) a[i][j] -= factor * a[k][j];
        b[i] -= factor * b[k];
      }
    }
    for (int k = sizes; k-- > 0;) {
      if (without(k)) continue;
      x[k] = b[k];
      for (int j = k + 1; j < sizes; ++j) x[k] -= a[k][j] * x[j];
      x[k] /= a[k][k];
    }
    return x;
  }

  std::array<ConversionSize, sizes> normal_{};
  ConversionSize right_{};
  std::size_t count_ = 0;
};

}  // namespace protean::detail
