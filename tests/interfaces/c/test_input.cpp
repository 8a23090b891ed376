// Arrays handed to the C functions that are no matrix: each is refused with PROTEAN_BAD_MATRIX and a message
// that names the place, and nothing outside of the arrays is read.
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/csr.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "support/space.hpp"

namespace protean::test {
namespace {

class CApiInput : public testing::TestWithParam<int> {  // the first index, 0 or 1
 protected:
  CApiInput() {
    const auto a = generate(test_context(), "poisson-2d", {{"n", 100}});
    rows_ = a.rows(), nonzeros_ = a.nonzeros();
    for (std::int64_t r = 0; r <= rows_; ++r)
      row_ptr_.push_back(static_cast<std::int32_t>(a.pattern.row_ptr[r]) + GetParam());
    for (std::int64_t k = 0; k < nonzeros_; ++k) col_.push_back(a.pattern.col[k] + GetParam());
    values_.assign(a.values, a.values + nonzeros_);
    EXPECT_EQ(protean_context_host(4, &context_), PROTEAN_OK);
  }
  ~CApiInput() override { protean_context_free(context_); }

  protean_status make(protean_matrix** matrix) {
    return protean_matrix_csr(context_, rows_, rows_, nonzeros_, row_ptr_.data(), col_.data(), values_.data(),
                              GetParam(), matrix);
  }
  protean_status make_wide(protean_matrix** matrix) {
    const std::vector<std::int64_t> wide(row_ptr_.begin(), row_ptr_.end());
    return protean_matrix_csr64(context_, rows_, rows_, nonzeros_, wide.data(), col_.data(), values_.data(),
                                GetParam(), matrix);
  }
  void expect_bad(const std::string& part) {
    for (const bool wide : {false, true}) {
      protean_matrix* matrix = nullptr;
      EXPECT_EQ(wide ? make_wide(&matrix) : make(&matrix), PROTEAN_BAD_MATRIX) << part;
      EXPECT_EQ(matrix, nullptr);
      EXPECT_NE(std::string(protean_last_error()).find(part), std::string::npos) << protean_last_error();
    }
  }

  protean_context* context_ = nullptr;
  std::int64_t rows_ = 0, nonzeros_ = 0;
  std::vector<std::int32_t> row_ptr_, col_;
  std::vector<double> values_;
};

TEST_P(CApiInput, RowPointersOutsideOfTheEntries) {
  for (const std::int32_t wrong : {-2'000'000'000, 2'000'000'000})
    for (std::int64_t part = 1; part < 4; ++part) {
      const std::int64_t at = rows_ * part / 4;
      const std::int32_t right = row_ptr_[at];
      row_ptr_[at] = wrong;
      expect_bad("row pointers must not decrease");
      row_ptr_[at] = right;
    }
}

// Also the number from which 1 cannot be taken away.
TEST_P(CApiInput, ColumnsOutOfRange) {
  for (const std::int32_t wrong :
       {std::numeric_limits<std::int32_t>::min(), -1, static_cast<std::int32_t>(rows_) + GetParam(),
        std::numeric_limits<std::int32_t>::max()}) {
    const std::size_t at = col_.size() / 2;
    const std::int32_t right = col_[at];
    col_[at] = wrong;
    expect_bad("column");
    col_[at] = right;
  }
}

TEST_P(CApiInput, SizesAtTheEndOfTheirTypes) {
  const std::vector<std::int64_t> wide(row_ptr_.begin(), row_ptr_.end());
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                         least = std::numeric_limits<std::int64_t>::min();
  for (const auto& [rows, cols, entries] : {std::array{rows_, rows_, most},
                                            {rows_, rows_, least},
                                            {least, rows_, nonzeros_},
                                            {most, rows_, nonzeros_},
                                            {rows_, most, nonzeros_},
                                            {rows_, least, nonzeros_}}) {
    protean_matrix* matrix = nullptr;
    EXPECT_EQ(protean_matrix_csr64(context_, rows, cols, entries, wide.data(), col_.data(), values_.data(),
                                   GetParam(), &matrix),
              PROTEAN_BAD_ARGUMENT);
    EXPECT_EQ(matrix, nullptr);
  }
}

TEST_P(CApiInput, NodesAndUnknownsOutOfRange) {
  const std::vector<double> matrices(4, 1.0);
  for (const std::int32_t wrong : {std::numeric_limits<std::int32_t>::min(), -1, 2 + GetParam()}) {
    const std::int32_t nodes[] = {GetParam(), wrong};
    const std::int64_t unknown = wrong == -1 ? std::numeric_limits<std::int64_t>::min() : wrong;
    const std::int32_t right[] = {GetParam(), GetParam() + 1};
    protean_matrix* matrix = nullptr;
    EXPECT_EQ(protean_matrix_elements(context_, 2, 1, 1, 2, nodes, matrices.data(), GetParam(), nullptr, 0, 0,
                                      nullptr, &matrix),
              PROTEAN_BAD_MATRIX)
        << wrong;
    EXPECT_NE(protean_matrix_elements(context_, 2, 1, 1, 2, right, matrices.data(), GetParam(), &unknown, 1,
                                      0, nullptr, &matrix),
              PROTEAN_OK)
        << unknown;
    EXPECT_EQ(matrix, nullptr);
  }
}

TEST_P(CApiInput, ValuesThatAreNotFinite) {
  for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const std::int64_t row : {std::int64_t{0}, rows_ / 2, rows_ - 1}) {
      const std::int64_t at = row_ptr_[static_cast<std::size_t>(row) + 1] - GetParam() - 1;
      const double right = values_[at];
      values_[at] = wrong;
      expect_bad("entry (" + std::to_string(row) + ", " + std::to_string(col_[at] - GetParam()) + ")");
      values_[at] = right;
    }
}

TEST_P(CApiInput, NewValuesThatAreNotFiniteLeaveTheOldOnes) {
  protean_matrix* matrix = nullptr;
  ASSERT_EQ(make(&matrix), PROTEAN_OK) << protean_last_error();
  for (const char* format : {"csr", "sell-c-sigma"}) {
    ASSERT_EQ(protean_matrix_set_format(matrix, format, nullptr, nullptr), PROTEAN_OK);
    std::vector<double> next(values_.size(), 7.0);
    next[next.size() / 2] = std::nan("");
    EXPECT_EQ(protean_matrix_update_values(matrix, next.data()), PROTEAN_BAD_MATRIX);
    const std::vector<double> x(static_cast<std::size_t>(rows_), 1.0);
    std::vector<double> y(x.size());
    ASSERT_EQ(protean_matrix_apply(matrix, 1, x.data(), 0, y.data()), PROTEAN_OK);
    EXPECT_EQ(y[0], 2.0) << "4 - 1 - 1";
    EXPECT_EQ(y[x.size() / 2 + 50], 0.0) << "4 - 1 - 1 - 1 - 1";
  }
  protean_matrix_free(matrix);
}

INSTANTIATE_TEST_SUITE_P(FirstIndex, CApiInput, testing::Values(0, 1));

}  // namespace
}  // namespace protean::test
