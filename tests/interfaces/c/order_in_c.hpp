// Orders of the rows in C.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/csr_view.hpp"
#include "core/ordering.hpp"
#include "core/permutation.hpp"
#include "interfaces/c/c_api.hpp"
#include "support/battery.hpp"

namespace protean::test {

class CApiOrder : public CApi {
 protected:
  // The system in a random numbering, so that each order changes it.
  CApiOrder() {
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    // Rows of different scale, so that Jacobi matters.
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t k = row_ptr[r]; k < row_ptr[r + 1]; ++k)
        values[k] *= (1 + 0.1 * static_cast<double>(r % 7)) * (1 + 0.1 * static_cast<double>(col[k] % 7));
    const auto plain = csr_view<double>(n, n, row_ptr.data(), col.data(), values.data());
    const auto shuffled =
        PermutedMatrix<double>(test_context(), plain, Permutation(test_context(), std::move(order))).matrix();
    for (std::int64_t r = 0; r <= n; ++r) row_ptr[r] = static_cast<std::int32_t>(shuffled.pattern.row_ptr[r]);
    col.assign(shuffled.pattern.col, shuffled.pattern.col + nonzeros);
    values.assign(shuffled.values, shuffled.values + nonzeros);
    values32.assign(values.begin(), values.end());
    make();
  }
  void make() {
    protean_matrix_free(A);
    A = nullptr;
    EXPECT_EQ(protean_matrix_csr(context, n, n, nonzeros, row_ptr.data(), col.data(), values.data(), 0, &A),
              PROTEAN_OK);
    EXPECT_EQ(protean_matrix_set_format(A, "csr", nullptr, nullptr), PROTEAN_OK);
  }
  static std::vector<std::string> orders() {
    std::vector<std::string> all;
    for (const OrderingEntry& entry : orderings())
      if (entry.unavailable.empty()) all.emplace_back(entry.id);
    return all;
  }
  void order(const std::string& name) {
    ASSERT_EQ(protean_matrix_set_order(A, name.c_str()), PROTEAN_OK) << protean_last_error();
    EXPECT_EQ(protean_matrix_order(A), name);
  }
  void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double most) {
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], most * largest) << "row " << i;
  }
};

}  // namespace protean::test
