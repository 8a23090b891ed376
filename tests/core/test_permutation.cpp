// Matrices and vectors in another order.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "core/permutation.hpp"
#include "core/transfer.hpp"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// Its arrays of columns and values are null, and no address may be computed from them.
TEST(PermutedMatrix, OfRowsWithoutEntries) {
  constexpr std::int64_t n = 40;
  const std::vector<std::int32_t> row_ptr(n + 1, 0);
  CsrMatrix<double> a;
  a.pattern.rows = a.pattern.cols = n;
  a.pattern.row_ptr.p32 = row_ptr.data();
  std::vector<std::int32_t> order(n);
  for (std::int64_t i = 0; i < n; ++i)
    order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(n - 1 - i);
  const PermutedMatrix<double> b(test_context(), a, Permutation(test_context(), order));
  EXPECT_EQ(b.matrix().rows(), n);
  EXPECT_EQ(b.matrix().nonzeros(), 0);
}

TEST(PermutationOfVectors, GoesThereAndBack) {
  const Permutation p(test_context(), {2, 0, 3, 1});
  const std::vector<double> x{10, 11, 12, 13};
  std::vector<double> y(4), z(4);
  p.apply<double>({x.data(), 4}, {y.data(), 4});
  EXPECT_EQ(y, (std::vector<double>{12, 10, 13, 11}));
  p.apply_inverse<double>({y.data(), 4}, {z.data(), 4});
  EXPECT_EQ(z, x);
  EXPECT_THROW(p.apply<double>({x.data(), 3}, {y.data(), 4}), ShapeMismatch);
  EXPECT_THROW(Permutation(test_context(), {0, 0}), BadArgument);
  EXPECT_THROW(Permutation(test_context(), {0, 2}), BadArgument);
  EXPECT_THROW(Permutation(test_context(), {-1, 0}), BadArgument);
}

TEST(PermutationOfMatrices, MovesEveryEntryAndNewValues) {
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    const CsrMatrix<double>& a = battery_matrix(entry.name);
    const std::int64_t n = a.rows();
    if (n != a.cols()) {
      EXPECT_THROW(PermutedMatrix<double>(test_context(), a, Permutation(test_context(), {})), ShapeMismatch);
      continue;
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(13));
    const Permutation p(test_context(), order);
    PermutedMatrix<double> permuted(test_context(), a, p);
    const auto expected = [&](double factor) {
      std::vector<Triplet<double>> triplets;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = a.pattern.row_ptr[i]; k < a.pattern.row_ptr[i + 1]; ++k)
          triplets.push_back({p.place()[i], p.place()[a.pattern.col[k]], factor * a.values[k]});
      return csr_from_triplets<double>(test_context(), n, n, triplets, Duplicates::refuse);
    };
    EXPECT_TRUE(identical(permuted.matrix(), expected(1)));
    const CsrMatrix<double> before = permuted.matrix();
    std::vector<double> values(static_cast<std::size_t>(a.nonzeros()));
    // A handle keeps the values that it was made with, however often new ones come.
    std::vector<std::pair<double, CsrMatrix<double>>> handles = {{1, before}};
    for (const double factor : {2.0, 4.0, 8.0, 16.0, 32.0}) {
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = factor * a.values[k];
      CsrMatrix<double> changed = a;
      changed.values = values.data();
      permuted.update_values(changed);
      EXPECT_TRUE(identical(permuted.matrix(), expected(factor)));
      if (factor != 8) handles.emplace_back(factor, permuted.matrix());
    }
    for (const auto& [factor, handle] : handles) EXPECT_TRUE(identical(handle, expected(factor))) << factor;
  }
}

// P A P^T of a matrix in device memory equals the result of the host to the last bit, and new values find their places.
template <class T>
void expect_permuted_as_on_the_host(const ContextPtr& device, const CsrMatrix<T>& a, unsigned seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(a.rows()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  PermutedMatrix<T> here(test_context(), a, Permutation(test_context(), order)),
      there(test_context(), upload(device, a), Permutation(device, order)),
      copied(test_context(), a, Permutation(device, order));
  EXPECT_EQ(there.matrix().pattern.space, Space::device);
  EXPECT_TRUE(identical(download(test_context(), *device, there.matrix()), here.matrix()));
  EXPECT_TRUE(identical(download(test_context(), *device, copied.matrix()), here.matrix()));
  std::vector<T> values(static_cast<std::size_t>(a.nonzeros()));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<T>(k) + 1;
  CsrMatrix<T> changed = a;
  changed.values = values.data();
  here.update_values(changed), there.update_values(upload(device, changed));
  EXPECT_TRUE(identical(download(test_context(), *device, there.matrix()), here.matrix()));
}

class PermutationOnADevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    device_ =
        GetParam() == std::string_view("simulated") ? fake_device_context() : test_context(Space::device);
    if (!device_) GTEST_SKIP() << no_device;
  }
  ContextPtr device_;
};

TEST_P(PermutationOnADevice, IsThatOfTheHost) {
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    const CsrMatrix<double>& a = battery_matrix(entry.name);
    if (a.rows() != a.cols()) continue;
    expect_permuted_as_on_the_host(device_, a, 13);
    const CsrMatrix<float> single = convert_values<float>(test_context(), a);
    expect_permuted_as_on_the_host(device_, single, 14);
    // 64-bit row pointers
    CsrBuilder<double> wide(test_context(), a.rows(), a.cols(), a.nonzeros(), true);
    for (std::int64_t i = 0; i < a.rows(); ++i) wide.set_row_ptr(i + 1, a.pattern.row_ptr[i + 1]);
    std::copy_n(a.pattern.col, a.nonzeros(), wide.col());
    std::copy_n(a.values, a.nonzeros(), wide.values());
    expect_permuted_as_on_the_host(device_, wide.freeze(), 15);
  }
}

TEST_P(PermutationOnADevice, OfTheHostIsRefused) {
  const CsrMatrix<double> there = upload(device_, battery_matrix(battery().front().name));
  std::vector<std::int32_t> order(static_cast<std::size_t>(there.rows()));
  std::iota(order.begin(), order.end(), 0);
  EXPECT_THROW(PermutedMatrix<double>(test_context(), there, Permutation(test_context(), order)), WrongSpace);
  EXPECT_THROW(PermutedMatrix<double>(device_, there, Permutation(device_, order)), WrongSpace);
}

INSTANTIATE_TEST_SUITE_P(Devices, PermutationOnADevice, testing::Values("simulated", "device"),
                         [](const auto& one) { return std::string(one.param); });

TEST(PermutationOfArraysOfADevice, IsCopiedToTheHostWhenItIsAskedFor) {
  const ContextPtr device = fake_device_context();
  const std::vector<std::int32_t> order{2, 0, 3, 1}, place{1, 3, 0, 2};
  const auto there = [&](const std::vector<std::int32_t>& items) {
    Buffer<std::int32_t> buffer(device, static_cast<std::int64_t>(items.size()));
    detail::copy_bytes(*device, buffer.data(), Space::device, items.data(), Space::host, buffer.bytes());
    return buffer;
  };
  const auto all = [](std::span<const std::int32_t> items) {
    return std::vector<std::int32_t>(items.begin(), items.end());
  };
  const Permutation p(device, there(order), there(place));
  EXPECT_EQ(p.size(), 4);
  const Permutation q = p;
  EXPECT_EQ(all(q.place()), place);
  EXPECT_EQ(all(p.order()), order);
  EXPECT_EQ(all(p.inverse().order()), place);
  EXPECT_EQ(all(p.after(Permutation(device, there(order), there(place))).order()),
            (std::vector<std::int32_t>{3, 2, 1, 0}));
  const Placed<double> from(device, {10, 11, 12, 13});
  Placed<double> to(device, {0, 0, 0, 0});
  Permutation(device, there(order), there(place)).apply<double>(from.read(), to.view());
  EXPECT_EQ(to.fetch(), (std::vector<double>{12, 10, 13, 11}));
  EXPECT_THROW(Permutation(device, there(order), there({0})), ShapeMismatch);
  EXPECT_THROW(Permutation(test_context(), Buffer<std::int32_t>(test_context(), 0),
                           Buffer<std::int32_t>(test_context(), 0)),
               WrongSpace);
}

}  // namespace
}  // namespace protean::test
