// A matrix that may change its format.
#pragma once
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {

class Adaptive : public testing::TestWithParam<Space> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam());
    if (!context_) GTEST_SKIP() << no_device;
    csr_ = generate(test_context(), "poisson-2d", {{"n", 40}});
    source_ = placed(context_, csr_);
  }

  std::unique_ptr<Matrix<double>> make(MatrixOptions options = {}, std::string_view start = "csr") const {
    return std::make_unique<Matrix<double>>(source_, make_matrix(find_format(start), source_, context_),
                                            options);
  }
  FormatSpec spec(std::string_view id) const {
    return {.entry = &find_format(id), .params = {}, .kernel = {}};
  }
  static FormatSpec spec(const FormatEntry& entry) { return {.entry = &entry, .params = {}, .kernel = {}}; }

  testing::AssertionResult product_is_good(const LinearOperator<double>& A, bool with_dot = false) const {
    const auto x = sample_vector<double>(A.cols(), 3);
    const Placed<double> px(context_, x);
    Placed<double> y(context_, std::vector<double>(x.size(), std::nan(""))), number(context_, {0.0});
    if (with_dot)
      apply_dot<double>(A, px.read(), y.view(), number.data());
    else
      A.apply(px.read(), y.view());
    return product_is_right(csr_, 1.0, x, 0.0, x, y.fetch());
  }

  // Checks the state after a change that failed.
  void expect_untouched(const Matrix<double>& A, const void* matrix, std::size_t failures,
                        SwitchFailure why) {
    EXPECT_EQ(&A.current(), matrix);
    EXPECT_EQ(A.form(), 0u);
    EXPECT_TRUE(A.history().empty());
    EXPECT_EQ(A.preparation(), Preparation::none);
    ASSERT_EQ(A.failures().size(), failures);
    EXPECT_EQ(A.failures().back().failure, why)
        << to_string(A.failures().back().failure) << ": " << A.failures().back().why;
    EXPECT_FALSE(A.failures().back().why.empty());
    EXPECT_TRUE(product_is_good(A));
  }

  ContextPtr context_;
  CsrMatrix<double> csr_, source_;
};

}  // namespace protean::test
