#include "support/oracle.hpp"

#include <cmath>
#include <limits>

namespace protean::test {

template <class T>
std::vector<T> sample_vector(std::int64_t size, unsigned seed) {
  std::vector<T> x(static_cast<std::size_t>(size));
  std::uint32_t state = seed * 747796405u + 2891336453u;
  for (auto& value : x) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<T>((static_cast<int>(state >> 12 & 0xffff) - 32768) / 4096.0);
    if (value == T(0)) value = T(0.5);
  }
  return x;
}

template <class T>
testing::AssertionResult product_is_right(const CsrMatrix<T>& A, T alpha, const std::vector<T>& x, T beta,
                                          const std::vector<T>& y0, const std::vector<T>& y) {
  constexpr long double c = 2;
  const long double eps = std::numeric_limits<T>::epsilon();
  for (std::int64_t r = 0; r < A.rows(); ++r) {
    long double sum = 0, magnitude = 0;
    for (std::int64_t k = A.pattern.row_ptr[r]; k < A.pattern.row_ptr[r + 1]; ++k) {
      const long double product = static_cast<long double>(A.values[k]) * x[A.pattern.col[k]];
      sum += product, magnitude += std::fabs(product);
    }
    sum *= alpha, magnitude *= std::fabs(static_cast<long double>(alpha));
    if (beta != T(0)) {
      sum += static_cast<long double>(beta) * y0[r];
      magnitude += std::fabs(static_cast<long double>(beta) * y0[r]);
    }
    const long double bound = c * static_cast<long double>(A.pattern.row_length(r) + 2) * eps * magnitude;
    const long double error = std::fabs(static_cast<long double>(y[r]) - sum);
    if (!(error <= bound))
      return testing::AssertionFailure()
             << "row " << r << " of length " << A.pattern.row_length(r) << ": " << y[r] << " instead of "
             << static_cast<double>(sum) << ", error " << static_cast<double>(error) << " above the bound "
             << static_cast<double>(bound);
  }
  return testing::AssertionSuccess();
}

#define PROTEAN_INSTANTIATE(T)                                                                            \
  template std::vector<T> sample_vector<T>(std::int64_t, unsigned);                                       \
  template testing::AssertionResult product_is_right<T>(const CsrMatrix<T>&, T, const std::vector<T>&, T, \
                                                        const std::vector<T>&, const std::vector<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::test
