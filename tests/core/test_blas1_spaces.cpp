// The vector operations of each kind of kernels in each space against the native ones of the host, from the same
// vectors and scalars. test_blas1.cpp compares these with sums in long double.
#include <cmath>
#include <limits>

#include "core/blas1.hpp"
#include "gtest/gtest.h"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Case {
  Space space;
  VectorKernels kernels;
};

class Blas1InSpaces : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!test_context(GetParam().space)) GTEST_SKIP() << no_device;
    if (const auto why = unavailable(GetParam().kernels, GetParam().space); !why.empty()) GTEST_SKIP() << why;
    context_ = GetParam().space == Space::host ? Context::host(2, {.vector_kernels = GetParam().kernels})
                                               : Context::device(0, {.vector_kernels = GetParam().kernels});
  }
  ContextPtr context_;
};
INSTANTIATE_TEST_SUITE_P(All, Blas1InSpaces,
                         testing::Values(Case{Space::host, VectorKernels::kokkos},
                                         Case{Space::device, VectorKernels::native},
                                         Case{Space::device, VectorKernels::kokkos}),
                         [](const auto& one) {
                           return std::string(to_string(one.param.space)) + "_" +
                                  std::string(to_string(one.param.kernels));
                         });

// Some vectors and scalars in a context's memory.
template <class T>
class Workbench {
 public:
  Workbench(const ContextPtr& context, std::int64_t n) : context_(context), n_(n) {
    for (unsigned i = 0; i < 8; ++i) vectors_.emplace_back(context, sample_vector<T>(n, i + 1));
    block_ = std::make_unique<Placed<T>>(context, sample_vector<T>((n + 3) * columns, 9));
    scalars_ = std::make_unique<Placed<T>>(context, std::vector<T>{T(0.5), T(-3), T(0), T(7), T(7), T(7)});
    weights_ = std::make_unique<Placed<T>>(context, sample_vector<T>(columns, 10));
  }

  // What all operations leave, one list of numbers for each.
  std::vector<std::vector<T>> run() {
    const Context& c = *context_;
    T* const s = scalars_->data();
    T* const sums = s + 3;
    const Coefficient<T> a{T(2), s, s + 1}, b{T(-1), s}, none{T(5), s, s + 2, Demand::nonzero};
    const auto v = [&](int i) { return vectors_[i].view(); };
    const auto r = [&](int i) { return vectors_[i].read(); };
    const VectorView<const T> empty;
    const VectorBlock<const T> V{block_->data(), n_, n_ + 3, columns, context_->space()};

    axpby<T>(c, a, r(0), b, v(1)), keep(1);
    axpby<T>(c, a, r(0), T(0), v(2)), keep(2);
    axpy<T>(c, none, r(0), v(1)), keep(1);
    scale<T>(c, a, v(1)), keep(1);
    multiply<T>(c, r(0), r(1), v(2)), keep(2);
    multiply_add<T>(c, r(3), r(0), b, v(2)), keep(2);
    dot<T>(c, r(0), r(1), sums), keep_sums(1);
    dot_pair<T>(c, r(0), r(1), r(2), sums), keep_sums(2);
    axpy_dot<T>(c, a, r(0), v(3), sums), keep(3), keep_sums(1);
    cg_residual<T>(c, a, r(0), r(1), v(5), sums), keep(5), keep_sums(2);
    cg_residual<T>(c, a, r(0), empty, v(5), sums), keep(5), keep_sums(2);
    cg_direction<T>(c, a, r(1), r(5), b, v(6), v(7)), keep(6), keep(7);
    cg_direction<T>(c, a, empty, r(5), b, v(6), v(7)), keep(6), keep(7);
    bicgstab_direction<T>(c, r(0), a, b, r(1), r(2), v(3), v(4)), keep(3), keep(4);
    bicgstab_direction<T>(c, r(0), a, b, r(1), empty, v(3), {}), keep(3);
    bicgstab_half<T>(c, a, r(0), r(1), v(2), v(3), sums), keep(2), keep(3), keep_sums(1);
    bicgstab_update<T>(c, a, r(0), b, r(1), r(2), r(3), v(4), v(5), sums), keep(4), keep(5), keep_sums(2);
    bicgstab_update<T>(c, a, r(0), b, r(5), r(2), r(3), v(4), v(5), sums), keep(4), keep(5), keep_sums(2);
    scalar_product<T>(c, a, b, sums), keep_sums(1);
    max_abs<T>(c, r(0), sums), keep_sums(1);
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{3}, std::int64_t{4}, columns}) {
      Placed<T> products(context_, std::vector<T>(static_cast<std::size_t>(count), T(9)));
      block_dot<T>(c, {V.data, V.size, V.stride, count, V.space}, r(0), products.data());
      found_.push_back(products.fetch());
    }
    block_axpy<T>(c, T(-1), V, weights_->data(), v(6), sums), keep(6), keep_sums(1);
    block_axpy<T>(c, T(-1), V, weights_->data(), v(6), nullptr), keep(6);
    fill<T>(c, T(1.5), v(7)), keep(7);
    copy<T>(c, r(0), v(7)), keep(7);
    reciprocal<T>(c, v(7), sums), keep(7), keep_sums(1);
    return found_;
  }

 private:
  static constexpr std::int64_t columns = 7;
  void keep(int i) { found_.push_back(vectors_[i].fetch()); }
  void keep_sums(int count) {
    auto all = scalars_->fetch();
    found_.emplace_back(all.begin() + 3, all.begin() + 3 + count);
  }

  ContextPtr context_;
  std::int64_t n_;
  std::vector<Placed<T>> vectors_;
  std::unique_ptr<Placed<T>> block_, scalars_, weights_;
  std::vector<std::vector<T>> found_;
};

template <class T>
void compare(const ContextPtr& context, std::int64_t n) {
  const auto expected = Workbench<T>(test_context(), n).run();
  const auto found = Workbench<T>(context, n).run();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].size(), expected[k].size()) << k;
    double largest = 1;
    for (const T number : expected[k]) largest = std::max(largest, std::fabs(static_cast<double>(number)));
    const double bound =
        64 * std::sqrt(static_cast<double>(n) + 1) * std::numeric_limits<T>::epsilon() * largest;
    for (std::size_t i = 0; i < found[k].size(); ++i)
      ASSERT_NEAR(found[k][i], expected[k][i], bound) << "result " << k << ", entry " << i << " of n " << n;
  }
}

TEST_P(Blas1InSpaces, AsNativeOnTheHost) {
  for (const std::int64_t n : {0, 1, 31, 1000, 100003})
    compare<double>(context_, n), compare<float>(context_, n);
}

TEST_P(Blas1InSpaces, NanAndInfinityStay) {
  const double infinity = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t n : {1, 17, 70000})
    for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1})
      for (const double bad : {-infinity, nan}) {
        auto x = sample_vector<double>(n, 3);
        x[at] = bad;
        Placed<double> px(context_, x), result(context_, {0.0});
        max_abs<double>(*context_, px.read(), result.data());
        const double largest = result.fetch()[0];
        EXPECT_TRUE(std::isnan(bad) ? std::isnan(largest) : std::isinf(largest))
            << n << " " << at << " " << bad;
        reciprocal<double>(*context_, px.view(), result.data());
        EXPECT_EQ(result.fetch()[0], 1);
        EXPECT_EQ(px.fetch()[at], 1);
      }
}

}  // namespace
}  // namespace protean::test
