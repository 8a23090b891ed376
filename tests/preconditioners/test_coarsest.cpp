// The coarsest level of multigrid, which alone is M if the matrix has few rows: positive definite for a positive
// definite matrix, on the host, on a simulated device, and on a GPU if there is one.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/sparse/dense_inverse.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

enum class Place { host, simulated, gpu };

// Diffusion on m x m nodes in blocks of 4 x 4, whose coefficients are 1 and `jump` in turn. The coefficient between two
// nodes is their arithmetic mean, by which all blocks hang together, or the harmonic one, which cuts the stiff blocks
// loose. Each stored row is strictly diagonally dominant, so the matrix is positive definite beyond doubt.
enum class Mean { arithmetic, harmonic };
template <class T>
CsrMatrix<T> with_jumps(std::int64_t m, double jump, Mean mean) {
  const auto coefficient = [&](std::int64_t node) {
    return (node / m / 4 + node % m / 4) % 2 == 1 ? jump : 1.0;
  };
  std::vector<Triplet<T>> entries;
  for (std::int64_t i = 0; i < m * m; ++i) {
    double sum = 0;
    const auto couple = [&](std::int64_t j) {
      const double a = coefficient(i), b = coefficient(j);
      const T value = static_cast<T>(-(mean == Mean::arithmetic ? (a + b) / 2 : 2 * a * b / (a + b)));
      entries.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j), value});
      sum -= static_cast<double>(value);
    };
    if (i % m > 0) couple(i - 1);
    if (i % m < m - 1) couple(i + 1);
    if (i / m > 0) couple(i - m);
    if (i / m < m - 1) couple(i + m);
    T own = static_cast<T>(sum + 0.5);
    while (static_cast<double>(own) <= sum) own = std::nextafter(own, std::numeric_limits<T>::max());
    entries.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(i), own});
  }
  return csr_from_triplets<T>(test_context(), m * m, m * m, entries);
}

// Cholesky's factorization of the symmetric part, in long double, once rows and columns have a diagonal of ones.
bool positive_definite(Dense A) {
  for (std::int64_t k = 0; k < A.n; ++k)
    if (!(A(k, k) > 0)) return false;
  Dense S(A.n);
  for (std::int64_t i = 0; i < A.n; ++i)
    for (std::int64_t j = 0; j < A.n; ++j) S(i, j) = (A(i, j) + A(j, i)) / 2 / std::sqrt(A(i, i) * A(j, j));
  for (std::int64_t k = 0; k < S.n; ++k) {
    if (!(S(k, k) > 0)) return false;
    for (std::int64_t i = k + 1; i < S.n; ++i) {
      const long double factor = S(i, k) / S(k, k);
      for (std::int64_t j = k + 1; j < S.n; ++j) S(i, j) -= factor * S(k, j);
    }
  }
  return true;
}

class Coarsest : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (GetParam() == Place::gpu && !test_context(Space::device)) GTEST_SKIP() << no_device;
    context_ = GetParam() == Place::host        ? test_context()
               : GetParam() == Place::simulated ? fake_device_context()
                                                : test_context(Space::device);
  }
  template <class T>
  std::unique_ptr<AssembledMatrix<T>> matrix(const CsrMatrix<T>& csr) const {
    const FormatEntry& format = GetParam() == Place::simulated ? fake_format("csr") : find_format("csr");
    return make_matrix(format, placed(context_, csr), context_);
  }
  template <class T>
  std::vector<long double> column(const Preconditioner<T>& M, std::int64_t j) const {
    std::vector<T> e(static_cast<std::size_t>(M.rows()), T(0));
    e[static_cast<std::size_t>(j)] = 1;
    const Placed<T> r(context_, e);
    Placed<T> z(context_, std::vector<T>(e.size(), std::numeric_limits<T>::quiet_NaN()));
    M.apply(r.read(), z.view());
    const std::vector<T> found = z.fetch();
    return {found.begin(), found.end()};
  }
  static std::vector<long double> column_of(const Dense& A, std::int64_t j) {
    std::vector<long double> found;
    for (std::int64_t i = 0; i < A.n; ++i) found.push_back(A(i, j));
    return found;
  }
  // M^-1
  template <class T>
  Dense of(const Preconditioner<T>& M) const {
    Dense result(M.rows());
    for (std::int64_t j = 0; j < result.n; ++j) {
      const std::vector<long double> found = column(M, j);
      for (std::int64_t i = 0; i < result.n; ++i) result(i, j) = found[static_cast<std::size_t>(i)];
    }
    return result;
  }

  template <class T>
  void expect_definite(std::initializer_list<double> jumps) {
    for (const std::int64_t m : {5, 12, 16, 20})
      for (const double jump : jumps)
        for (const Mean mean : {Mean::arithmetic, Mean::harmonic}) {
          SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(m) + " nodes, jump " +
                       std::to_string(jump) + (mean == Mean::harmonic ? ", loose" : ""));
          const auto A = matrix(with_jumps<T>(m, jump, mean));
          const Dense M = of(*ready<T>("amg", *A));
          EXPECT_TRUE(positive_definite(M));
          for (const Smoother smoother : {Smoother::gauss_seidel, Smoother::chebyshev}) {
            const auto other = ready<T>("amg", *A, {.smoother = smoother});
            if (m <= 16) {  // one level: no smoother takes part
              EXPECT_EQ(column(*other, m + 1), column_of(M, m + 1)) << to_string(smoother);
            } else if (smoother == Smoother::gauss_seidel && mean == Mean::harmonic) {
              EXPECT_TRUE(positive_definite(of(*other))) << to_string(smoother);
            }
          }
        }
  }
  // Preconditioned by amg, cg gets as far as by jacobi.
  template <class T>
  void expect_solved(std::initializer_list<double> jumps, double tolerance) {
    for (const std::int64_t m : {8, 12, 16, 30})
      for (const double jump : jumps) {
        const auto A = matrix(with_jumps<T>(m, jump, Mean::harmonic));
        std::vector<T> b(static_cast<std::size_t>(m * m));
        for (std::size_t i = 0; i < b.size(); ++i)
          b[i] = static_cast<T>(std::sin(static_cast<double>(i) + 1));
        const Placed<T> there(context_, b);
        const auto solve = [&](const char* id, Smoother smoother) {
          const auto M = ready_with_read<T>(id, *A, PreconditionerOptions{.smoother = smoother});
          Placed<T> x(context_, std::vector<T>(b.size(), T(0)));
          return make_solver<T>("cg", {.stopping = {.relative_tolerance = tolerance, .max_iterations = 2000}})
              ->solve(*A, there.read(), x.view(), M.get());
        };
        const bool possible = solve("jacobi", Smoother::l1_jacobi).converged();
        for (const Smoother smoother : {Smoother::l1_jacobi, Smoother::gauss_seidel}) {
          const SolveReport report = solve("amg", smoother);
          EXPECT_TRUE(report.converged() || !possible)
              << m << ' ' << jump << ' ' << to_string(smoother) << ": " << to_string(report.reason);
          EXPECT_NE(report.reason, StopReason::indefinite_preconditioner)
              << m << ' ' << jump << ' ' << to_string(smoother);
        }
      }
  }

  ContextPtr context_;
};
INSTANTIATE_TEST_SUITE_P(Places, Coarsest, testing::Values(Place::host, Place::simulated, Place::gpu),
                         [](const auto& instance) {
                           return std::string(instance.param == Place::host        ? "host"
                                              : instance.param == Place::simulated ? "simulated"
                                                                                   : "gpu");
                         });

TEST_P(Coarsest, IsDefiniteWithJumpsInDouble) { expect_definite<double>({1e8, 1e13, 1e17}); }
TEST_P(Coarsest, IsDefiniteWithJumpsInFloat) { expect_definite<float>({1e5, 1e6, 1e9}); }
TEST_P(Coarsest, ServesCgWithJumpsInDouble) { expect_solved<double>({1e4, 1e6, 1e8}, 1e-6); }
TEST_P(Coarsest, ServesCgWithJumpsInFloat) { expect_solved<float>({1e3, 1e4, 1e5, 1e6}, 1e-3); }

// A minimum residual method takes M if A is singular, whatever its size: M itself must not have a null space.
TEST_P(Coarsest, ServesMinresWhereConstantsAreMappedToZero) {
  const auto expect_solutions = [&]<class T>(T, std::initializer_list<double> scales, double tolerance) {
    for (const std::int64_t m : {3, 9, 12, 16, 20})
      for (const double scale : scales) {
        std::map<std::pair<std::int32_t, std::int32_t>, double> sums;
        for (std::int32_t i = 0; i < m * m; ++i)
          for (const std::int32_t j : {i + 1, i + static_cast<std::int32_t>(m)})
            if (j < m * m && (j != i + 1 || j % m != 0))
              sums[{i, j}] -= scale, sums[{j, i}] -= scale, sums[{i, i}] += scale, sums[{j, j}] += scale;
        std::vector<Triplet<T>> entries;
        for (const auto& [place, value] : sums)
          entries.push_back({place.first, place.second, static_cast<T>(value)});
        const auto A = matrix(csr_from_triplets<T>(test_context(), m * m, m * m, entries));
        const auto M = ready<T>("amg", *A);
        EXPECT_TRUE(positive_definite(of(*M))) << m << ' ' << scale;
        std::vector<T> b(static_cast<std::size_t>(m * m), T(0));
        b.front() = static_cast<T>(scale), b.back() = static_cast<T>(-scale);
        b[b.size() / 2] = static_cast<T>(scale / 2), b[1] = static_cast<T>(-scale / 2);
        const Placed<T> there(context_, b);
        for (const char* method : {"minres", "cg"}) {
          Placed<T> x(context_, std::vector<T>(b.size(), T(0)));
          SolverOptions options{.stopping = {.relative_tolerance = tolerance}};
          options.null_space = "constant";
          const SolveReport report =
              make_solver<T>(method, options)->solve(*A, there.read(), x.view(), M.get());
          EXPECT_TRUE(report.converged())
              << method << ' ' << m << ' ' << scale << ": " << to_string(report.reason) << " after "
              << report.iterations << ", " << report.true_relative;
        }
      }
  };
  expect_solutions(double(), {1.0, 1e10, 1e20, 1e40, 1e-20, 1e-40}, 1e-12);
  expect_solutions(float(), {1.0, 1e3, 1e8, 1e-8}, 1e-5);
}

TEST(DenseInverse, HasNumbersInsteadOfPivotsThatAreNotTaken) {
  // A chain with free ends, and another one behind it: two vectors of ones.
  const std::int64_t n = 9;
  std::vector<double> a(81, 0);
  const auto at = [](std::vector<double>& of, std::int64_t i, std::int64_t j) -> double& {
    return of[static_cast<std::size_t>(i * n + j)];
  };
  for (std::int64_t i = 0; i + 1 < n; ++i)
    if (i != 4) {
      at(a, i, i) += 1, at(a, i + 1, i + 1) += 1;
      at(a, i, i + 1) -= 1, at(a, i + 1, i) -= 1;
    }
  const auto dense = [](const std::vector<double>& from) {
    Dense A(n);
    std::copy(from.begin(), from.end(), A.a.begin());
    return A;
  };
  std::vector<double> zeros = a, numbers = a;
  EXPECT_EQ(detail::invert_dense(zeros, n, 1e-13), n - 2);
  EXPECT_EQ(detail::invert_dense(numbers, n, 1e-13, 2), n - 2);
  EXPECT_FALSE(positive_definite(dense(zeros)));
  EXPECT_TRUE(positive_definite(dense(numbers)));
  const Dense A = dense(a), X = dense(numbers);
  expect_same(product(A, product(X, A)), A, 1e-14L);
  // The difference is ones / 2 for each chain.
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      EXPECT_NEAR(at(numbers, i, j) - at(zeros, i, j), (i < 5) == (j < 5) ? 0.5 : 0.0, 1e-14)
          << i << ' ' << j;
}

}  // namespace
}  // namespace protean::test
