// The Stokes equations by Taylor-Hood elements: which velocities and pressures they reproduce.
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"

namespace protean::test {
namespace {

using Point = std::array<double, 3>;  // the last coordinate is 0 in a plane
using Function = std::function<double(const Point&)>;

struct Flow {
  std::array<Function, 3> velocity;
  Function pressure = [](const Point&) { return 0.0; };
};

class TaylorHood : public testing::TestWithParam<int> {
 protected:
  const int d_ = GetParam();
  const std::int64_t n_ = d_ == 2 ? 7 : 4, side_ = 2 * n_ - 1, nodes_ = power(side_),
                     pressures_ = power(n_ + 1), velocities_ = d_ * nodes_;
  const double h_ = 1.0 / static_cast<double>(n_);

  std::int64_t power(std::int64_t base) const { return d_ == 2 ? base * base : base * base * base; }
  CsrMatrix<double> made(const char* kind, GeneratorParams params = {}) const {
    params.insert({"n", static_cast<double>(n_)});
    return generate(test_context(), std::string(kind) + (d_ == 2 ? "-2d" : "-3d"), params);
  }
  // Coordinates of the node of a row in halves of a cell.
  std::array<std::int64_t, 3> node_of(std::int64_t row) const {
    const bool velocity = row < velocities_;
    std::int64_t number = velocity ? row / d_ : row - velocities_;
    std::array<std::int64_t, 3> at{};
    for (int k = 0; k < d_; ++k) {
      const std::int64_t base = velocity ? side_ : n_ + 1;
      at[k] = velocity ? number % base + 1 : 2 * (number % base), number /= base;
    }
    return at;
  }
  Point place_of(std::int64_t row) const {
    Point place{};
    for (int k = 0; k < d_; ++k) place[k] = static_cast<double>(node_of(row)[k]) * h_ / 2;
    return place;
  }
  // Whether no node on the border is in a cell of this node: the velocities there are not in the matrix.
  bool is_far_from_the_border(std::int64_t row) const {
    const auto at = node_of(row);
    for (int k = 0; k < d_; ++k)
      if (at[k] < 3 || at[k] > 2 * n_ - 3) return false;
    return true;
  }
  std::vector<double> vector_of(const Flow& flow) const {
    std::vector<double> x(static_cast<std::size_t>(velocities_ + pressures_));
    for (std::int64_t i = 0; i < velocities_; ++i) x[i] = flow.velocity[i % d_](place_of(i));
    for (std::int64_t i = velocities_; i < std::ssize(x); ++i) x[i] = flow.pressure(place_of(i));
    return x;
  }
  // The integral of the shape function of a velocity.
  double weight(std::int64_t row) const {
    double all = 1;
    for (int k = 0; k < d_; ++k) all *= h_ * (node_of(row)[k] % 2 == 0 ? 1.0 : 2.0) / 3;
    return all;
  }
};
std::vector<double> product(const CsrMatrix<double>& A, const std::vector<double>& x) {
  std::vector<double> y(static_cast<std::size_t>(A.rows()));
  for (std::int64_t i = 0; i < A.rows(); ++i)
    for (std::int64_t k = A.pattern.row_ptr[i]; k < A.pattern.row_ptr[i + 1]; ++k)
      y[i] += A.values[k] * x[A.pattern.col[k]];
  return y;
}

TEST_P(TaylorHood, HasItsSizeAndIsSymmetric) {
  for (const double contrast : {1.0, 1e4}) {
    const auto A = made("taylor-hood", {{"contrast", contrast}, {"blocks", 3}});
    ASSERT_EQ(A.rows(), velocities_ + pressures_);
    EXPECT_TRUE(identical(A, transpose(test_context(), A)));
    for (std::int64_t i = velocities_; i < A.rows(); ++i)
      for (const std::int32_t j : A.pattern.row(i))
        ASSERT_LT(j, velocities_) << "the block of the pressures is zero";
    const auto M = made("pressure-mass", {{"contrast", contrast}, {"blocks", 3}});
    EXPECT_EQ(M.rows(), pressures_);
    EXPECT_EQ(M.nonzeros(), power(3 * n_ + 1));
    EXPECT_TRUE(identical(M, transpose(test_context(), M)));
  }
}

// Velocities in the space of the elements and linear pressures are reproduced: the rows say that the momentum is in
// balance with the force, and that the velocity is free of divergence.
TEST_P(TaylorHood, PatchTest) {
  const double mu = 3;
  const auto zero = [](const Point&) { return 0.0; };
  struct Case {
    Flow flow;
    std::array<Function, 3> force;
  };
  std::vector<Case> cases = {
      // A quadratic flow whose viscous force is in balance with the gradient of a linear pressure.
      {{{[](const Point& x) { return x[1] * x[1]; }, [](const Point& x) { return x[0] * x[0]; }, zero},
        [=](const Point& x) { return 2 * mu * (x[0] + x[1]) - 1; }},
       {zero, zero, zero}},
      // One of mixed degree (div u = 2 x y - 2 x y), which a force holds.
      {{{[](const Point& x) { return x[0] * x[0] * x[1]; },
         [](const Point& x) { return -x[0] * x[1] * x[1]; }, zero}},
       {[=](const Point& x) { return -2 * mu * x[1]; }, [=](const Point& x) { return 2 * mu * x[0]; }, zero}},
      // A linear flow without divergence.
      {{{[](const Point& x) { return 2 * x[0] - x[1]; }, [](const Point& x) { return 4 * x[0] - 2 * x[1]; },
         zero}},
       {zero, zero, zero}}};
  if (d_ == 3)
    cases.push_back(
        {{{[](const Point& x) { return x[1] * x[1] + x[2] * x[2]; },
           [](const Point& x) { return x[2] * x[2]; }, [](const Point& x) { return x[0] * x[0]; }},
          [=](const Point& x) { return 2 * mu * (2 * x[0] + x[1] + x[2]); }},
         {zero, zero, zero}});
  // Viscosity mu everywhere.
  const auto one = made("taylor-hood");
  std::vector<double> values(one.values, one.values + one.nonzeros());
  for (std::int64_t i = 0; i < velocities_; ++i)
    for (std::int64_t k = one.pattern.row_ptr[i]; k < one.pattern.row_ptr[i + 1]; ++k)
      if (one.pattern.col[k] < velocities_) values[k] *= mu;
  CsrMatrix<double> A = one;
  A.values = values.data(), A.values_owner = nullptr;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    SCOPED_TRACE(c);
    const std::vector<double> y = product(A, vector_of(cases[c].flow));
    int rows = 0;
    for (std::int64_t i = 0; i < A.rows(); ++i) {
      if (!is_far_from_the_border(i)) continue;
      ++rows;
      const double expected = i < velocities_ ? cases[c].force[i % d_](place_of(i)) * weight(i) : 0;
      EXPECT_NEAR(y[i], expected, 1e-13) << i;
    }
    EXPECT_GT(rows, 10);
  }
}

TEST_P(TaylorHood, ConstantAndRigidFlowsMeetNoResistance) {
  const auto A = made("taylor-hood", {{"contrast", 100}, {"blocks", 2}});
  const auto constant = [](double c) { return [=](const Point&) { return c; }; };
  const Flow flows[] = {
      {{constant(1), constant(-2), constant(0.5)}},
      {{[](const Point& x) { return -x[1]; }, [](const Point& x) { return x[0]; }, constant(0)}},
      {{[](const Point& x) { return x[2] - x[1]; }, [](const Point& x) { return x[0] - x[2]; },
        [](const Point& x) { return x[1] - x[0]; }}}};
  for (int c = 0; c < (d_ == 2 ? 2 : 3); ++c) {
    const std::vector<double> y = product(A, vector_of(flows[c]));
    for (std::int64_t i = 0; i < A.rows(); ++i)
      if (is_far_from_the_border(i)) { EXPECT_NEAR(y[i], 0, 1e-12) << c << " " << i; }
  }
  // A strain is resisted.
  const std::vector<double> y =
      product(A, vector_of({{[](const Point& x) { return x[0] * x[0]; }, constant(0), constant(0)}}));
  double largest = 0;
  for (std::int64_t i = 0; i < velocities_; ++i)
    if (is_far_from_the_border(i)) largest = std::max(largest, std::abs(y[i]));
  EXPECT_GT(largest, 1e-2);
}

TEST_P(TaylorHood, AConstantPressureIsTheNullSpace) {
  const auto A = made("taylor-hood", {{"contrast", 1e3}});
  std::vector<double> x(static_cast<std::size_t>(A.rows()));
  std::fill(x.begin() + velocities_, x.end(), 1.0);
  for (const double one : product(A, x)) EXPECT_NEAR(one, 0, 1e-15);
  // A linear one pushes with its gradient, a checkerboard of pressures too.
  for (std::int64_t i = velocities_; i < A.rows(); ++i) x[i] = place_of(i)[1];
  const std::vector<double> y = product(A, x);
  for (std::int64_t i = 0; i < velocities_; ++i) EXPECT_NEAR(y[i], i % d_ == 1 ? weight(i) : 0, 1e-15);
  for (std::int64_t i = velocities_; i < A.rows(); ++i) {
    const auto at = node_of(i);
    x[i] = (at[0] + at[1] + at[2]) / 2 % 2 == 0 ? 1 : -1;
  }
  double largest = 0;
  for (const double one : product(A, x)) largest = std::max(largest, std::abs(one));
  EXPECT_GT(largest, 0.01 * std::pow(h_, d_ - 1));
}

// The mass matrix integrates products of linear functions; over the viscosity in each cell.
TEST_P(TaylorHood, TheMassMatrixIntegrates) {
  const auto M = made("pressure-mass");
  std::vector<double> ones(static_cast<std::size_t>(pressures_), 1.0), x(ones), y(ones);
  for (std::int64_t i = 0; i < pressures_; ++i)
    x[i] = place_of(velocities_ + i)[0], y[i] = place_of(velocities_ + i)[1];
  const auto integral = [&](const CsrMatrix<double>& matrix, const std::vector<double>& a,
                            const std::vector<double>& b) {
    const std::vector<double> Ma = product(matrix, a);
    double sum = 0;
    for (std::size_t i = 0; i < Ma.size(); ++i) sum += Ma[i] * b[i];
    return sum;
  };
  EXPECT_NEAR(integral(M, ones, ones), 1, 1e-14);
  EXPECT_NEAR(integral(M, x, ones), 0.5, 1e-14);
  EXPECT_NEAR(integral(M, x, x), 1.0 / 3, 1e-14);
  EXPECT_NEAR(integral(M, x, y), 0.25, 1e-14);
  // Blocks of one cell: every second cell has viscosity 100.
  const double cells = static_cast<double>(power(n_));
  const std::int64_t odd = (power(n_) - power(n_) % 2) / 2;
  const auto checkered = made("pressure-mass", {{"contrast", 100}, {"blocks", static_cast<double>(n_)}});
  EXPECT_NEAR(integral(checkered, ones, ones),
              (cells - static_cast<double>(odd) + static_cast<double>(odd) / 100) / cells, 1e-14);
}

// The viscosity of each cell, from the rows of the nodes in their middles, which belong to one cell alone.
TEST_P(TaylorHood, TheViscosityIsACheckerboard) {
  const auto A = made("taylor-hood", {{"contrast", 1e4}, {"blocks", 2}}), B = made("taylor-hood");
  const auto diagonal = [](const CsrMatrix<double>& matrix, std::int64_t i) {
    for (std::int64_t k = matrix.pattern.row_ptr[i]; k < matrix.pattern.row_ptr[i + 1]; ++k)
      if (matrix.pattern.col[k] == i) return matrix.values[k];
    return 0.0;
  };
  int middles = 0;
  for (std::int64_t i = 0; i < velocities_; ++i) {
    const auto at = node_of(i);
    std::int64_t sum = 0;
    bool middle = true;
    for (int k = 0; k < d_; ++k) middle = middle && at[k] % 2 == 1, sum += at[k] >= n_;  // the second half
    if (!middle) continue;
    ++middles;
    EXPECT_EQ(diagonal(A, i), (sum % 2 == 1 ? 1e4 : 1) * diagonal(B, i)) << i;
  }
  EXPECT_EQ(middles, d_ * power(n_));
}

INSTANTIATE_TEST_SUITE_P(Dimensions, TaylorHood, testing::Values(2, 3),
                         [](const auto& tested) { return std::to_string(tested.param) + "d"; });

}  // namespace
}  // namespace protean::test
