// What the tests of one method share with the tests of every method.
#pragma once
#include <limits>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/callback_preconditioner.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"

namespace protean::test {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
inline void expect_solution(const Dense& A, const std::vector<T>& b, const std::vector<T>& x,
                            const SolveReport& report, double tolerance) {
  EXPECT_EQ(report.reason, StopReason::relative_tolerance)
      << to_string(report.reason) << " " << report.detail;
  const auto judge = residual_norm(A, b, x);
  long double bb = 0;
  for (T v : b) bb += static_cast<long double>(v) * v;
  const double eps = std::numeric_limits<T>::epsilon();
  EXPECT_LE(judge, (1.01 * tolerance + 100 * eps) * std::sqrt(bb));
  EXPECT_NEAR(report.true_residual, static_cast<double>(judge),
              100 * eps * static_cast<double>(std::sqrt(bb)));
  EXPECT_NEAR(report.true_relative, report.true_residual / report.rhs_norm, 1e-12);
  EXPECT_NEAR(report.rhs_norm, static_cast<double>(std::sqrt(bb)), 100 * eps * report.rhs_norm);
  const auto exact = direct_solution(A, {b.begin(), b.end()});
  long double error = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    error += (x[i] - exact[i]) * (x[i] - exact[i]), size += exact[i] * exact[i];
  // The condition number of these matrices is below 100.
  EXPECT_LE(std::sqrt(error), 200 * (tolerance + 10 * eps) * std::sqrt(size));
}

}  // namespace protean::test
