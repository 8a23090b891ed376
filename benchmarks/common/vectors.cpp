#include "benchmarks/common/vectors.hpp"

#include <cmath>
#include <limits>

#include "core/parallel.hpp"

namespace protean::bench {

std::vector<double> random_numbers(std::int64_t count) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  std::uint64_t state = 12345;
  for (double& value : numbers) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<double>(state >> 11) * 0x1p-52 - 1;
  }
  return numbers;
}

std::vector<double> waves(std::int64_t count, double middle) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::sin(static_cast<double>(i % 1013)) + middle;
  return numbers;
}

ContextPtr context_of(const std::string& space, const ContextPtr& host) {
  return space == "device" ? Context::device() : host;
}

Reference::Reference(const CsrMatrix<double>& A, const double* x)
    : sum_(static_cast<std::size_t>(A.rows())), bound_(sum_.size()) {
  const auto borders = balanced_row_borders(A.pattern, 4 * available_threads());
  parallel(available_threads(), [&](int part, int parts) {
    for (auto b = static_cast<std::size_t>(part); b + 1 < borders.size();
         b += static_cast<std::size_t>(parts))
      for (std::int64_t r = borders[b]; r < borders[b + 1]; ++r) {
        long double sum = 0, magnitude = 0;
        for (std::int64_t k = A.pattern.row_ptr[r]; k < A.pattern.row_ptr[r + 1]; ++k) {
          const long double term = static_cast<long double>(A.values[k]) * x[A.pattern.col[k]];
          sum += term, magnitude += std::fabs(term);
        }
        const auto row = static_cast<std::size_t>(r);
        sum_[row] = static_cast<double>(sum);
        bound_[row] = static_cast<double>(2 * static_cast<long double>(A.pattern.row_length(r) + 2) *
                                          std::numeric_limits<double>::epsilon() * magnitude);
      }
  });
}

bool Reference::agrees(const double* y) const {
  for (std::size_t r = 0; r < sum_.size(); ++r)
    if (!(std::fabs(y[r] - sum_[r]) <= bound_[r])) return false;
  return true;
}

double relative_residual(const CsrMatrix<double>& A, const double* b, const double* x) {
  long double residual = 0, norm = 0;
  for (std::int64_t row = 0; row < A.rows(); ++row) {
    long double r = b[row];
    norm += r * r;
    for (std::int64_t k = A.pattern.row_ptr[row]; k < A.pattern.row_ptr[row + 1]; ++k)
      r -= static_cast<long double>(A.values[k]) * x[A.pattern.col[k]];
    residual += r * r;
  }
  return static_cast<double>(std::sqrt(residual / norm));
}

}  // namespace protean::bench
