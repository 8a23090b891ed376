// Sparse operations of the setup of multigrid on a device, each against the same on a host.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/identical.hpp"
#include "core/transfer.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/device_level_work.hpp"
#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/sparse/level_format.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

namespace protean::test {
namespace {

TEST_P(DeviceLevels, TransposesPatterns) {
  for (const CsrMatrix<double>& csr :
       {uneven(300, 1500, 1), uneven(1500, 60, 2), generated("poisson-2d", 20),
        csr_from_triplets<double>(test_context(), 0, 7, std::vector<Triplet<double>>{}),
        csr_from_triplets<double>(test_context(), 5, 4, std::vector<Triplet<double>>{})}) {
    Buffer<std::int32_t> entries;
    const SparsityPattern found = here(work<double>()->transpose(upload(context_, csr).pattern, entries));
    const CsrMatrix<double> expected = transpose(test_context(), csr);
    EXPECT_TRUE(same_pattern(found, expected.pattern));
    const std::vector<std::int32_t> entry = here(entries);
    for (std::int64_t p = 0; p < csr.nonzeros(); ++p)
      ASSERT_EQ(csr.values[entry[static_cast<std::size_t>(p)]], expected.values[p]) << p;
  }
}

// The pattern is the pattern of the host; the values are within rounding of sums in long double.
template <class T, class Test>
void expect_product(const Test& test, const LevelWork<T>& work, const ContextPtr& context,
                    const CsrMatrix<double>& wide_A, const CsrMatrix<double>& wide_B) {
  const CsrMatrix<T> A = as<T>(wide_A), B = as<T>(wide_B);
  const CsrMatrix<T> A_there = upload(context, A), B_there = upload(context, B);
  const SparsityPattern pattern = work.product_pattern(A_there.pattern, B_there.pattern);
  EXPECT_TRUE(same(test(pattern), detail::product_pattern(*test_context(), A.pattern, B.pattern)));
  const CsrMatrix<T> C_there = work.product(A_there, B_there, pattern), C = test(C_there);
  std::vector<long double> sum(static_cast<std::size_t>(B.cols())), size(sum.size());
  for (std::int64_t i = 0; i < A.rows(); ++i) {
    std::fill(sum.begin(), sum.end(), 0), std::fill(size.begin(), size.end(), 0);
    for (std::int64_t p = A.pattern.row_ptr[i]; p < A.pattern.row_ptr[i + 1]; ++p)
      for (std::int64_t q = B.pattern.row_ptr[A.pattern.col[p]]; q < B.pattern.row_ptr[A.pattern.col[p] + 1];
           ++q) {
        const long double term =
            static_cast<long double>(A.values[p]) * static_cast<long double>(B.values[q]);
        sum[static_cast<std::size_t>(B.pattern.col[q])] += term;
        size[static_cast<std::size_t>(B.pattern.col[q])] += std::abs(term);
      }
    const long double unit =
        static_cast<long double>(A.pattern.row_length(i) + 1) * std::numeric_limits<T>::epsilon();
    for (std::int64_t p = C.pattern.row_ptr[i]; p < C.pattern.row_ptr[i + 1]; ++p) {
      const auto j = static_cast<std::size_t>(C.pattern.col[p]);
      ASSERT_LE(std::abs(static_cast<long double>(C.values[p]) - sum[j]), unit * size[j]) << i << ' ' << j;
    }
  }
  // The same bits again.
  const CsrMatrix<T> again =
      test(work.product(A_there, B_there, work.product_pattern(A_there.pattern, B_there.pattern)));
  EXPECT_TRUE(identical(C, again));
}

TEST_P(DeviceLevels, MultipliesMatrices) {
  const auto fetch = [&](const auto& one) { return here(one); };
  const CsrMatrix<double> poisson = generated("poisson-3d", 11);
  const std::pair<CsrMatrix<double>, CsrMatrix<double>> pairs[] = {
      {poisson, poisson},
      {uneven(400, 700, 3), uneven(700, 900, 4)},
      {uneven(300, 2000, 5), uneven(2000, 2500, 6)},  // rows of more keys than the small tables take
      {uneven(100, 40, 7), uneven(40, 6000, 8)},
      {csr_from_triplets<double>(test_context(), 3, 0, std::vector<Triplet<double>>{}),
       csr_from_triplets<double>(test_context(), 0, 5, std::vector<Triplet<double>>{})}};
  for (const auto& [A, B] : pairs) {
    expect_product<double>(fetch, *work<double>(), context_, A, B);
    expect_product<float>(fetch, *work<float>(), context_, A, B);
  }
}

TEST_P(DeviceLevels, DenseInverses) {
  std::vector<Dense> all = {poisson_2d(5), scattered(25, 4), scattered(200, 5), poisson_1d(256),
                            poisson_1d(1)};
  Dense free = poisson_1d(60);
  free(0, 0) = free(59, 59) = 1;
  all.push_back(free);
  Dense exchanged(30);  // whose diagonal is far smaller than its other entries
  for (std::int64_t i = 0; i < 30; ++i) exchanged(i, i) = 1e-3L, exchanged(i, (7 * i + 3) % 30) += 2 + i % 5;
  all.push_back(exchanged);
  for (std::size_t which = 0; which < all.size(); ++which) {
    const Dense& A = all[which];
    const std::int64_t n = A.n;
    const DeviceLevel<double> level = finest(sparse(A));
    Vector<double> X(context_, n * n);
    ASSERT_TRUE(work<double>()->dense(level, X));
    std::vector<double> x(static_cast<std::size_t>(n * n));
    copy<double>(*context_, X.view(), {x.data(), n * n});
    Dense found(n);
    std::copy(x.begin(), x.end(), found.a.begin());
    expect_same(product(A, product(found, A)), A, which == 5 ? 1e-12L : 1e-11L);
    if (which != 5) expect_same(found, inverse(A), 1e-9L);
  }
}

// Triangles of rows with and without a diagonal entry, and without any.
TEST_P(DeviceLevels, Triangles) {
  for (const CsrMatrix<double>& csr :
       {uneven(300, 300, 1), generated("poisson-2d", 20),
        csr_from_triplets<double>(test_context(), 5, 5, std::vector<Triplet<double>>{}),
        csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{})})
    for (const bool lower : {true, false}) {
      std::vector<Triplet<double>> entries;
      for (std::int64_t i = 0; i < csr.rows(); ++i) {
        entries.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(i), 1.0});
        for (const std::int32_t j : csr.pattern.row(i))
          if (lower ? j < i : j > i) entries.push_back({static_cast<std::int32_t>(i), j, 1.0});
      }
      const auto expected =
          csr_from_triplets<double>(test_context(), csr.rows(), csr.rows(), entries).pattern;
      EXPECT_TRUE(
          same_pattern(here(work<double>()->triangle(upload(context_, csr).pattern, lower)), expected));
    }
}

TEST_P(DeviceLevels, PlacesInAPermutation) {
  const std::vector<std::int32_t> order = {3, 0, 4, 1, 2};
  Buffer<std::int32_t> there(context_, 5);
  detail::copy_bytes(*context_, there.data(), Space::device, order.data(), Space::host, there.bytes());
  EXPECT_EQ(here(work<double>()->places(there)), (std::vector<std::int64_t>{1, 3, 4, 0, 2}));
}

TEST_P(DeviceLevels, WhatCanBeDividedBy) {
  const auto can = [&]<class T>(std::vector<T> d) {
    const Placed<T> there(context_, d);
    return work<T>()->positive_divisors(there.read());
  };
  constexpr double infinity = std::numeric_limits<double>::infinity(), tiny = 1e-320;
  EXPECT_TRUE(can(std::vector<double>(1000, 2.0)));
  EXPECT_TRUE(can(std::vector<double>{}));
  for (const double bad : {0.0, -0.0, -1.0, infinity, -infinity, std::nan(""), tiny}) {
    std::vector<double> d(1000, 2.0);
    d[777] = bad;
    EXPECT_FALSE(can(d)) << bad;
  }
  EXPECT_FALSE(can(std::vector<float>{1, 1e-39F}));
}

// Row pointers of 8 bytes.
TEST_P(DeviceLevels, WidePointers) {
  const CsrMatrix<double> csr = generated("poisson-2d", 30);
  CsrBuilder<double> builder(test_context(), csr.rows(), csr.cols(), csr.nonzeros(), true);
  for (std::int64_t i = 0; i <= csr.rows(); ++i) builder.set_row_ptr(i, csr.pattern.row_ptr[i]);
  std::copy_n(csr.pattern.col, csr.nonzeros(), builder.col()),
      std::copy_n(csr.values, csr.nonzeros(), builder.values());
  const auto A = matrix(builder.freeze()), B = matrix(csr);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  // Products of csr add in another order there.
  const std::vector<double> z = apply(*ready<double>("amg", *A), r),
                            expected = apply(*ready<double>("amg", *B), r);
  for (std::size_t i = 0; i < z.size(); ++i) ASSERT_NEAR(z[i], expected[i], 1e-12);
}
// A pattern on the device is looked at there, and gets the format of the same pattern on the host.
TEST_P(DeviceLevels, FormatsOfPatternsOnADevice) {
  for (const CsrMatrix<double>& csr : {generated("poisson-3d", 30), generated("elasticity-3d", 9),
                                       uneven(300, 900, 9), generated("poisson-2d", 5)}) {
    const CsrMatrix<double> there = upload(context_, csr);
    std::string chosen, expected;
    const auto matrix = detail::in_format<double>(context_, there, there.pattern, chosen);
    (void)detail::in_format<double>(context_, there, csr.pattern, expected);
    EXPECT_EQ(chosen, expected);
    EXPECT_EQ(matrix->name(), expected);
    EXPECT_TRUE(identical(here(matrix->to_csr()), csr));
  }
}

}  // namespace
}  // namespace protean::test
