// Tests of preconditioners that run on the host, on a simulated device, and on a GPU if there is one.
#pragma once
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {

enum class Where { host, simulated, gpu };

class InSpace : public testing::TestWithParam<Where> {
 protected:
  void SetUp() override {
    if (GetParam() == Where::gpu && !test_context(Space::device)) GTEST_SKIP() << no_device;
    context_ = GetParam() == Where::host        ? test_context()
               : GetParam() == Where::simulated ? fake_device_context()
                                                : test_context(Space::device);
  }
  bool gpu() const { return GetParam() == Where::gpu; }

  template <class T>
  std::unique_ptr<AssembledMatrix<T>> matrix(const CsrMatrix<T>& csr) const {
    if (GetParam() == Where::host) return assembled(csr);
    const FormatEntry& format = gpu() ? find_format("csr") : fake_format("csr");
    return make_matrix(format, upload(context_, csr), context_);
  }
  template <class T>
  std::vector<T> apply(const Preconditioner<T>& M, const std::vector<T>& r) const {
    const Placed<T> x(context_, r);
    Placed<T> z(context_, std::vector<T>(r.size(), std::numeric_limits<T>::quiet_NaN()));
    M.apply(x.read(), z.view());
    return z.fetch();
  }
  // M^-1, column after column.
  template <class T>
  Dense dense(const Preconditioner<T>& M) const {
    Dense result(M.rows());
    std::vector<T> e(static_cast<std::size_t>(M.rows()));
    for (std::int64_t j = 0; j < result.n; ++j) {
      e[j] = 1;
      const std::vector<T> column = apply(M, e);
      e[j] = 0;
      for (std::int64_t i = 0; i < result.n; ++i) result(i, j) = column[i];
    }
    return result;
  }
  // The exact ways to solve with triangular factors that are there.
  std::vector<TriangularSolve> exact() const {
    std::vector<TriangularSolve> ways = {TriangularSolve::automatic, TriangularSolve::levels};
    if (gpu()) ways.push_back(TriangularSolve::cusparse);
    return ways;
  }

  ContextPtr context_;
};
inline std::string name_of_space(const testing::TestParamInfo<Where>& instance) {
  return instance.param == Where::host ? "host" : instance.param == Where::simulated ? "simulated" : "gpu";
}

// Every row is coupled with every other one: as many colours and levels as rows.
inline Dense full(std::int64_t n) {
  Dense A(n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      A(i, j) = i == j ? n : -1 + 0.01L * static_cast<long double>((i + j) % 7);
  return A;
}
// Few levels and many, short rows and long ones.
inline std::vector<Dense> symmetric_battery() {
  return {poisson_1d(1),
          poisson_2d(7),
          poisson_1d(80),
          full(45),
          symmetric_part(scattered(40, 3)),
          diagonal_matrix({4, 2, 8, 1, 16})};
}
inline std::vector<Dense> general_battery() {
  return {convection_2d(6, 3), scattered(40, 1), scattered(70, 2)};
}

}  // namespace protean::test
