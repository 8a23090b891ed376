// The C interface: products with the transpose.
#include <limits>
#include <vector>

#include "interfaces/c/c_api.hpp"

namespace protean::test {
namespace {

//     | 1 2 0 |        x = 1 10
// A = | 0 3 4 |    A^T x = 1 32 40
struct Rectangular {
  std::vector<std::int32_t> row_ptr{0, 2, 4}, col{0, 1, 1, 2};
  std::vector<double> values{1, 2, 3, 4}, x{1, 10}, expected{1, 32, 40};
};

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

TEST_F(CApi, TransposedProductsOfArrays) {
  Rectangular R;
  protean_matrix* M = nullptr;
  ASSERT_EQ(protean_matrix_csr(context, 2, 3, 4, R.row_ptr.data(), R.col.data(), R.values.data(), 0, &M),
            PROTEAN_OK);
  for (const char* format : {"csr", "csc", "coo"}) {
    ASSERT_EQ(protean_matrix_set_format(M, format, nullptr, nullptr), PROTEAN_OK) << format;
    std::vector<double> y(3, nan_value);
    ASSERT_EQ(protean_matrix_apply_transposed(M, 1, R.x.data(), 0, y.data()), PROTEAN_OK) << format;
    EXPECT_EQ(y, R.expected) << format;
    y = {1, 1, 1};
    ASSERT_EQ(protean_matrix_apply_transposed(M, 2, R.x.data(), -3, y.data()), PROTEAN_OK) << format;
    EXPECT_EQ(y, (std::vector<double>{-1, 61, 77})) << format;
    // New values, and back.
    const std::vector<double> twice = {2, 4, 6, 8};
    ASSERT_EQ(protean_matrix_update_values(M, twice.data()), PROTEAN_OK);
    ASSERT_EQ(protean_matrix_apply_transposed(M, 0.5, R.x.data(), 0, y.data()), PROTEAN_OK);
    EXPECT_EQ(y, R.expected) << format;
    ASSERT_EQ(protean_matrix_update_values(M, R.values.data()), PROTEAN_OK);
  }
  std::vector<double> y(3);
  EXPECT_EQ(protean_matrix_apply_transposed(M, 1, nullptr, 0, y.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("x"));
  EXPECT_EQ(protean_matrix_apply_transposed(M, 1, R.x.data(), 0, nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_apply_transposed(M, 1, y.data(), 0, y.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("overlap"));
  EXPECT_EQ(protean_matrix_apply_transposed(nullptr, 1, R.x.data(), 0, y.data()), PROTEAN_BAD_ARGUMENT);
  std::vector<float> single(3);
  EXPECT_EQ(protean_matrix_apply_transposed_f32(M, 1, single.data(), 0, single.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_EQ(protean_matrix_set_transposed(M, nullptr, nullptr), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("arrays"));
  protean_matrix_free(M);
}

// A of 3 rows and 2 columns: y = (x0, x1, 0), and A^T of it.
template <class T>
int product(void*, const T* x, T* y, void*) {
  return y[0] = x[0], y[1] = x[1], y[2] = 0, 0;
}
template <class T>
int transposed(void* user, const T* x, T* y, void*) {
  ++*static_cast<int*>(user);
  return y[0] = x[0], y[1] = x[1], 0;
}
int failing(void*, const double*, double*, void*) { return 7; }

TEST_F(CApi, TransposedProductsOfFunctions) {
  protean_matrix* M = nullptr;
  ASSERT_EQ(protean_matrix_callback(context, 3, 2, "mine", product<double>, nullptr, nullptr, 0, &M),
            PROTEAN_OK);
  const std::vector<double> ones = {1, 2, 3};
  std::vector<double> y(2, nan_value);
  EXPECT_EQ(protean_matrix_apply_transposed(M, 1, ones.data(), 0, y.data()), PROTEAN_BAD_ARGUMENT);
  EXPECT_TRUE(error_has("mine") && error_has("set_transposed()")) << protean_last_error();
  int calls = 0;
  ASSERT_EQ(protean_matrix_set_transposed(M, transposed<double>, &calls), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_apply_transposed(M, 2, ones.data(), 0, y.data()), PROTEAN_OK)
      << protean_last_error();
  EXPECT_EQ(y, (std::vector<double>{2, 4}));
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(protean_matrix_set_transposed(M, failing, nullptr), PROTEAN_OK);
  EXPECT_EQ(protean_matrix_apply_transposed(M, 1, ones.data(), 0, y.data()), PROTEAN_CALLBACK_FAILED);
  EXPECT_TRUE(error_has("transposed product of operator mine")) << protean_last_error();
  EXPECT_EQ(protean_matrix_set_transposed_f32(M, transposed<float>, &calls), PROTEAN_BAD_ARGUMENT);
  ASSERT_EQ(protean_matrix_set_transposed(M, nullptr, nullptr), PROTEAN_OK);
  EXPECT_EQ(protean_matrix_apply_transposed(M, 1, ones.data(), 0, y.data()), PROTEAN_BAD_ARGUMENT);
  protean_matrix_free(M);
  ASSERT_EQ(protean_matrix_callback_f32(context, 3, 2, nullptr, product<float>, nullptr, nullptr, 0, &M),
            PROTEAN_OK);
  ASSERT_EQ(protean_matrix_set_transposed_f32(M, transposed<float>, &calls), PROTEAN_OK);
  const std::vector<float> singles = {1, 2, 3};
  std::vector<float> z = {1, 1};
  ASSERT_EQ(protean_matrix_apply_transposed_f32(M, 2, singles.data(), 1, z.data()), PROTEAN_OK);
  EXPECT_EQ(z, (std::vector<float>{3, 5}));
  protean_matrix_free(M);
}

}  // namespace
}  // namespace protean::test
