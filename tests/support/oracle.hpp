// The check of every product: a sum in long double and Wilkinson's bound for each row, which separates a
// mistake from round-off: |y_i - y_ref_i| <= c (n_i + 2) eps sum_j |alpha a_ij x_j| + |beta y_i|, for any
// order of the sum.
#pragma once
#include <vector>

#include "core/csr.hpp"
#include "gtest/gtest.h"

namespace protean::test {

// A vector of small, exactly representable, different values.
template <class T>
std::vector<T> sample_vector(std::int64_t size, unsigned seed);

// Passes when `y` is alpha A x + beta y0 within the bound in every row. y0 is not read when beta is 0.
template <class T>
testing::AssertionResult product_is_right(const CsrMatrix<T>& A, T alpha, const std::vector<T>& x, T beta,
                                          const std::vector<T>& y0, const std::vector<T>& y);

}  // namespace protean::test
