#include "core/blas1.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "gtest/gtest.h"

namespace protean::test {
namespace {

// Sizes around the widths of SIMD registers, the border between serial and threaded work, and strips of
// blocks.
const std::int64_t sizes[] = {0,  1,  2,   3,    7,    8,    9,    15,   31,   32,   33,
                              63, 65, 127, 1000, 1023, 1025, 4095, 4096, 4097, 20001};

// Deterministic values in [-1, 1] that single precision holds, different for each seed.
template <class T>
std::vector<T> values(std::int64_t n, unsigned seed) {
  std::vector<T> v(static_cast<std::size_t>(n));
  std::uint32_t state = seed * 2654435761u + 12345u;
  for (T& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<T>(static_cast<int>(state >> 16) - 32768) / T(32768);
  }
  return v;
}

template <class T>
VectorView<const T> in(const std::vector<T>& v) {
  return {v.data(), static_cast<std::int64_t>(v.size()), Space::host};
}
template <class T>
VectorView<T> out(std::vector<T>& v) {
  return {v.data(), static_cast<std::int64_t>(v.size()), Space::host};
}

template <class T>
constexpr long double eps = std::numeric_limits<T>::epsilon();

// |sum - exact| <= n eps sum |terms|
template <class T, class Term>
void expect_sum(T sum, std::int64_t n, Term term, const char* what) {
  long double exact = 0, absolute = 0;
  for (std::int64_t i = 0; i < n; ++i) exact += term(i), absolute += std::abs(term(i));
  EXPECT_LE(std::abs(sum - exact), eps<T> * (4 + std::sqrt(n + 0.0L)) * absolute) << what << " n=" << n;
}
template <class T, class Entry>
void expect_entries(const std::vector<T>& v, Entry entry, const char* what) {
  for (std::size_t i = 0; i < v.size(); ++i)
    ASSERT_NEAR(v[i], static_cast<double>(entry(i)), 8 * eps<T>) << what << " n=" << v.size() << " i=" << i;
}

template <class T>
void check_all(const Context& ctx, std::int64_t n) {
  using L = long double;
  const auto x = values<T>(n, 1), y = values<T>(n, 2), z = values<T>(n, 3), d = values<T>(n, 4),
             u = values<T>(n, 5);
  const auto X = [&](auto i) -> L { return x[i]; };
  const auto Y = [&](auto i) -> L { return y[i]; };
  const auto Z = [&](auto i) -> L { return z[i]; };
  const auto D = [&](auto i) -> L { return d[i]; };
  const auto U = [&](auto i) -> L { return u[i]; };
  const T a = T(0.75), b = T(-0.5), top = 3, bottom = -6;
  T r[2] = {7, 7};

  dot<T>(ctx, in(x), in(y), r);
  expect_sum(
      r[0], n, [&](auto i) { return X(i) * Y(i); }, "dot");
  dot_pair<T>(ctx, in(x), in(y), in(z), r);
  expect_sum(
      r[0], n, [&](auto i) { return X(i) * Y(i); }, "dot_pair");
  expect_sum(
      r[1], n, [&](auto i) { return X(i) * Z(i); }, "dot_pair");

  auto v = y, w = z;
  axpy<T>(ctx, {a, &top, &bottom}, in(x), out(v));
  expect_entries(
      v, [&](auto i) { return Y(i) - 0.375L * X(i); }, "axpy");
  v = y;
  axpby<T>(ctx, a, in(x), b, out(v));
  expect_entries(
      v, [&](auto i) { return 0.75L * X(i) - 0.5L * Y(i); }, "axpby");
  v = y;
  scale<T>(ctx, a, out(v));
  expect_entries(
      v, [&](auto i) { return 0.75L * Y(i); }, "scale");
  multiply<T>(ctx, in(x), in(y), out(v));
  expect_entries(
      v, [&](auto i) { return X(i) * Y(i); }, "multiply");
  v = y;
  multiply<T>(ctx, in(x), in(v), out(v));
  expect_entries(
      v, [&](auto i) { return X(i) * Y(i); }, "multiply in place");
  fill<T>(ctx, b, out(v));
  expect_entries(
      v, [&](auto) { return -0.5L; }, "fill");
  copy<T>(ctx, in(x), out(v));
  EXPECT_EQ(v, x);

  v = y;
  axpy_dot<T>(ctx, a, in(x), out(v), r);
  const auto AXY = [&](auto i) { return Y(i) + 0.75L * X(i); };
  expect_entries(v, AXY, "axpy_dot");
  expect_sum(
      r[0], n, [&](auto i) { return AXY(i) * AXY(i); }, "axpy_dot");

  for (bool scaled : {false, true}) {
    const auto diagonal = scaled ? in(d) : VectorView<const T>{};
    const auto S = [&](auto i) { return scaled ? D(i) : 1.0L; };
    w = z;
    cg_residual<T>(ctx, a, in(u), diagonal, out(w), r);
    const auto R = [&](auto i) { return Z(i) - 0.75L * U(i); };
    expect_entries(w, R, "cg_residual r");
    expect_sum(
        r[0], n, [&](auto i) { return R(i) * R(i); }, "r.r");
    expect_sum(
        r[1], n, [&](auto i) { return R(i) * S(i) * R(i); }, "r.dr");

    v = y;
    multiply_add<T>(ctx, diagonal, in(x), b, out(v));
    expect_entries(
        v, [&](auto i) { return S(i) * X(i) - 0.5L * Y(i); }, "multiply_add");

    v = y, w = z;
    cg_direction<T>(ctx, a, diagonal, in(x), b, out(w), out(v));
    expect_entries(
        w, [&](auto i) { return Z(i) + 0.75L * Y(i); }, "cg_direction x");
    expect_entries(
        v, [&](auto i) { return S(i) * X(i) - 0.5L * Y(i); }, "cg_direction p");

    v = y, w = z;
    bicgstab_direction<T>(ctx, in(x), b, a, in(u), diagonal, out(v), scaled ? out(w) : VectorView<T>{});
    const auto P = [&](auto i) { return X(i) - 0.5L * (Y(i) - 0.75L * U(i)); };
    expect_entries(v, P, "bicgstab p");
    expect_entries(
        w, [&](auto i) { return scaled ? D(i) * P(i) : Z(i); }, "bicgstab dp");

    v = y, w = z;
    bicgstab_half<T>(ctx, a, in(x), diagonal, out(v), scaled ? out(w) : VectorView<T>{}, r);
    expect_entries(v, AXY, "bicgstab s");
    expect_entries(
        w, [&](auto i) { return scaled ? D(i) * AXY(i) : Z(i); }, "bicgstab ds");
    expect_sum(
        r[0], n, [&](auto i) { return AXY(i) * AXY(i); }, "s.s");
  }
  // s is r itself here.
  v = y, w = z;
  bicgstab_update<T>(ctx, a, in(x), b, in(w), in(u), in(d), out(v), out(w), r);
  const auto R = [&](auto i) { return Z(i) + 0.5L * U(i); };
  expect_entries(
      v, [&](auto i) { return Y(i) + 0.75L * X(i) - 0.5L * Z(i); }, "bicgstab x");
  expect_entries(w, R, "bicgstab r");
  expect_sum(
      r[0], n, [&](auto i) { return R(i) * R(i); }, "bicgstab r.r");
  expect_sum(
      r[1], n, [&](auto i) { return R(i) * D(i); }, "bicgstab r0.r");

  T largest = -1;
  max_abs<T>(ctx, in(x), &largest);
  T expected = 0;
  for (T e : x) expected = std::max(expected, std::abs(e));
  EXPECT_EQ(largest, expected);
}

template <class T>
void check_blocks(const Context& ctx, std::int64_t n, std::int64_t columns) {
  const std::int64_t stride = n + 3;
  auto V = values<T>(stride * columns, 6);
  const auto w = values<T>(n, 7), h = values<T>(columns, 8);
  const VectorBlock<const T> block{V.data(), n, stride, columns, Space::host};
  std::vector<T> dots(static_cast<std::size_t>(columns) + 1, T(99));
  block_dot<T>(ctx, block, in(w), dots.data());
  for (std::int64_t j = 0; j < columns; ++j)
    expect_sum(
        dots[j], n, [&](auto i) { return static_cast<long double>(V[j * stride + i]) * w[i]; }, "block_dot");
  EXPECT_EQ(dots[columns], T(99)) << "wrote past the last column";
  auto y = w;
  T yy = 0;
  block_axpy<T>(ctx, T(-1), block, h.data(), out(y), &yy);
  for (std::int64_t i = 0; i < n; ++i) {
    long double sum = w[i];
    for (std::int64_t j = 0; j < columns; ++j) sum -= static_cast<long double>(h[j]) * V[j * stride + i];
    ASSERT_NEAR(y[i], static_cast<double>(sum), (4 + columns) * eps<T>);
  }
  expect_sum(
      yy, n, [&](auto i) { return static_cast<long double>(y[i]) * y[i]; }, "block_axpy");
}

// Over the kernels of vector operations; kernels that are not in this build are skipped by name.
class Blas1 : public testing::TestWithParam<VectorKernels> {
 protected:
  void SetUp() override {
    if (const auto why = unavailable(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
  static ContextPtr host(int threads) { return Context::host(threads, {.vector_kernels = GetParam()}); }
};
INSTANTIATE_TEST_SUITE_P(Kernels, Blas1, testing::Values(VectorKernels::native, VectorKernels::kokkos),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST_P(Blas1, EverythingAgainstLongDouble) {
  for (int threads : {1, 2, 3}) {
    const auto ctx = host(threads);
    for (std::int64_t n : sizes) check_all<double>(*ctx, n), check_all<float>(*ctx, n);
  }
}

TEST_P(Blas1, Blocks) {
  for (int threads : {1, 3}) {
    const auto ctx = host(threads);
    for (std::int64_t n : {0, 1, 9, 1025, 5001})
      for (std::int64_t columns : {0, 1, 3, 4, 5, 31, 32, 33, 70})
        check_blocks<double>(*ctx, n, columns), check_blocks<float>(*ctx, n, columns);
  }
}

TEST_P(Blas1, SumsRepeatBitForBit) {
  const auto ctx = host(2);
  const auto x = values<float>(100003, 1), y = values<float>(100003, 2);
  float first = 0, again = 0;
  dot<float>(*ctx, in(x), in(y), &first);
  for (int i = 0; i < 20; ++i) {
    dot<float>(*ctx, in(x), in(y), &again);
    EXPECT_EQ(first, again);
  }
}

TEST_P(Blas1, MoreThreadsThanTheFixedPlaces) {
  const auto ctx = host(70);
  check_all<double>(*ctx, 20001);
}

TEST_P(Blas1, ZeroCoefficientDoesNotRead) {
  const auto ctx = host(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t n : {5, 5000}) {
    const std::vector<double> ones(static_cast<std::size_t>(n), 1.0), bad(static_cast<std::size_t>(n), nan);
    auto y = bad;
    axpby<double>(*ctx, 2.0, in(ones), 0.0, out(y));
    EXPECT_EQ(y[0] + y[n - 1], 4.0);
    y = bad;
    multiply_add<double>(*ctx, in(ones), in(ones), 0.0, out(y));
    EXPECT_EQ(y[0] + y[n - 1], 2.0);
    y = bad;
    multiply_add<double>(*ctx, {}, in(ones), 0.0, out(y));
    EXPECT_EQ(y[0] + y[n - 1], 2.0);
    y = bad;
    bicgstab_direction<double>(*ctx, in(ones), 0.0, 1.0, in(bad), {}, out(y), {});
    EXPECT_EQ(y[0] + y[n - 1], 2.0);
    y = bad;
    scale<double>(*ctx, 0.0, out(y));
    EXPECT_EQ(y[0] + y[n - 1], 0.0);
    // A coefficient that only happens to be zero reads, so the trouble shows.
    y = bad;
    const double zero = 0;
    axpby<double>(*ctx, 2.0, in(ones), {1.0, &zero}, out(y));
    EXPECT_TRUE(std::isnan(y[0]));
  }
}

TEST_P(Blas1, GuardedCoefficients) {
  const double two = 2, zero = 0, minus = -4, nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ((Coefficient<double>{1.0, &two, &minus}.value()), -0.5);
  EXPECT_EQ((Coefficient<double>{1.0, &two, &minus, Demand::positive}.value()), 0.0);
  EXPECT_EQ((Coefficient<double>{1.0, &two, &minus, Demand::nonzero}.value()), -0.5);
  EXPECT_EQ((Coefficient<double>{1.0, &two, &zero, Demand::nonzero}.value()), 0.0);
  EXPECT_EQ((Coefficient<double>{1.0, &two, &nan, Demand::nonzero}.value()), 0.0);
  EXPECT_EQ((Coefficient<double>{1.0, &two, &nan, Demand::positive}.value()), 0.0);
  double product = 0;
  scalar_product<double>(*host(1), {3.0, &two}, {1.0, nullptr, &minus}, &product);
  EXPECT_EQ(product, -1.5);
}

TEST_P(Blas1, LargestEntryKeepsNanAndInfinity) {
  const auto ctx = host(2);
  for (std::int64_t n : {1, 3, 17, 9000})
    for (std::int64_t at : {std::int64_t(0), n / 2, n - 1}) {
      auto x = values<double>(n, 3);
      double largest = 0;
      x[at] = -std::numeric_limits<double>::infinity();
      max_abs<double>(*ctx, in(x), &largest);
      EXPECT_TRUE(std::isinf(largest));
      x[at] = std::numeric_limits<double>::quiet_NaN();
      max_abs<double>(*ctx, in(x), &largest);
      EXPECT_TRUE(std::isnan(largest)) << n << " " << at;
    }
}

TEST_P(Blas1, WrongSizesAndSpacesAreRefused) {
  const auto ctx = host(1);
  std::vector<double> a(3), b(4);
  double r[2];
  EXPECT_THROW(dot<double>(*ctx, in(a), in(b), r), ShapeMismatch);
  EXPECT_THROW(axpy<double>(*ctx, 1.0, in(a), out(b)), ShapeMismatch);
  EXPECT_THROW(cg_residual<double>(*ctx, 1.0, in(a), in(b), out(a), r), ShapeMismatch);
  EXPECT_THROW(block_dot<double>(*ctx, {a.data(), 3, 3, 1, Space::host}, in(b), r), ShapeMismatch);
  const VectorView<const double> elsewhere{a.data(), 3, Space::device};
  EXPECT_THROW(dot<double>(*ctx, in(a), elsewhere, r), WrongSpace);
  EXPECT_THROW(copy<double>(*ctx, elsewhere, out(a)), WrongSpace);
}

TEST_P(Blas1, ReciprocalCountsWhatHasNone) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t n : {6, 6000}) {
    const auto ctx = host(2);
    std::vector<double> d(static_cast<std::size_t>(n), 4.0);
    d[0] = 0, d[1] = inf, d[2] = nan, d[3] = 1e-310, d[n - 1] = -0.5;
    double bad = -1;
    reciprocal<double>(*ctx, out(d), &bad);
    EXPECT_EQ(bad, 4);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(d[i], 1) << i;
    EXPECT_EQ(d[4], 0.25);
    EXPECT_EQ(d[n - 1], -2);
  }
}

TEST(VectorKernelsOfAContext, AreNativeUnlessAskedForAndNamedWhenMissing) {
  EXPECT_EQ(Context::host(2)->vector_kernels(), VectorKernels::native);
  EXPECT_EQ(unavailable(VectorKernels::native), "");
  if (const auto why = unavailable(VectorKernels::kokkos); why.empty()) {
    EXPECT_EQ(Context::host(2, {.vector_kernels = VectorKernels::kokkos})->vector_kernels(),
              VectorKernels::kokkos);
  } else {
    try {
      (void)Context::host(2, {.vector_kernels = VectorKernels::kokkos});
      ADD_FAILURE() << "nothing thrown";
    } catch (const NotAvailable& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
}

// Deterministic mode: a sum has the same bits with any number of threads and in whatever operation it is
// made.
template <class T>
void check_deterministic(std::int64_t n) {
  SCOPED_TRACE("n " + std::to_string(n));
  const auto x = values<T>(n, 1), y = values<T>(n, 2), z = values<T>(n, 3), d = values<T>(n, 4);
  const T a = T(0.3), w = T(-0.7);
  constexpr std::int64_t columns = 37;
  const auto basis = values<T>(n * columns, 6);
  const VectorBlock<const T> V{basis.data(), n, n, columns, Space::host};
  std::vector<T> coefficients = values<T>(columns, 7);
  std::vector<T> first;
  for (const int threads : {1, 2, 3, 7}) {
    SCOPED_TRACE("threads " + std::to_string(threads));
    const auto context = Context::host(threads, {.deterministic = true});
    const Context& ctx = *context;
    const auto dot_of = [&](const std::vector<T>& u, const std::vector<T>& v) {
      T sum = -1;
      dot<T>(ctx, in(u), in(v), &sum);
      return sum;
    };
    std::vector<T> sums{dot_of(x, y), dot_of(x, z), dot_of(y, y)};
    T two[2] = {-1, -1};
    dot_pair<T>(ctx, in(x), in(y), in(z), two);
    EXPECT_EQ(two[0], sums[0]);
    EXPECT_EQ(two[1], sums[1]);

    auto u = y;
    axpy_dot<T>(ctx, a, in(x), out(u), two);
    EXPECT_EQ(two[0], dot_of(u, u)) << "axpy_dot";
    sums.push_back(two[0]);

    auto r = y, scaled = y;
    cg_residual<T>(ctx, a, in(x), {}, out(r), two);
    EXPECT_EQ(two[0], dot_of(r, r)) << "cg_residual";
    EXPECT_EQ(two[1], two[0]) << "cg_residual";
    r = y;
    cg_residual<T>(ctx, a, in(x), in(d), out(r), two);
    multiply<T>(ctx, in(d), in(r), out(scaled));
    EXPECT_EQ(two[0], dot_of(r, r)) << "cg_residual, scaled";
    EXPECT_EQ(two[1], dot_of(r, scaled)) << "cg_residual, scaled";
    auto same = y;
    axpy<T>(ctx, -a, in(x), out(same));
    EXPECT_EQ(same, r) << "cg_residual";
    sums.insert(sums.end(), two, two + 2);

    r = y;
    bicgstab_half<T>(ctx, a, in(x), in(d), out(r), out(scaled), two);
    EXPECT_EQ(two[0], dot_of(r, r)) << "bicgstab_half";
    sums.push_back(two[0]);
    auto solution = z;
    bicgstab_update<T>(ctx, a, in(x), w, in(y), in(z), in(d), out(solution), out(r), two);
    EXPECT_EQ(two[0], dot_of(r, r)) << "bicgstab_update";
    EXPECT_EQ(two[1], dot_of(r, d)) << "bicgstab_update";
    sums.insert(sums.end(), two, two + 2);

    std::vector<T> dots(columns, -1);
    block_dot<T>(ctx, V, in(x), dots.data());
    for (std::int64_t j = 0; j < columns; ++j) {
      T sum = -1;
      dot<T>(ctx, V.column(j), in(x), &sum);
      EXPECT_EQ(dots[j], sum) << "block_dot";
    }
    sums.insert(sums.end(), dots.begin(), dots.end());
    u = x;
    block_axpy<T>(ctx, a, V, coefficients.data(), out(u), two);
    EXPECT_EQ(two[0], dot_of(u, u)) << "block_axpy";
    sums.push_back(two[0]);
    sums.insert(sums.end(), u.begin(), u.end());
    sums.insert(sums.end(), solution.begin(), solution.end());

    if (first.empty()) first = sums;
    EXPECT_EQ(first, sums);
  }
}

TEST(VectorKernelsOfAContext, DeterministicModeHasTheNativeOnesOnly) {
  if (!unavailable(VectorKernels::kokkos).empty()) GTEST_SKIP() << unavailable(VectorKernels::kokkos);
  EXPECT_THROW((void)Context::host(2, {.vector_kernels = VectorKernels::kokkos, .deterministic = true}),
               NotAvailable);
}

TEST(DeterministicBlas1, DoesNotDependOnThreads) {
  for (const std::int64_t n : {0, 1, 5, 1000, 1024, 1025, 4097, 20001}) {
    check_deterministic<double>(n);
    check_deterministic<float>(n);
  }
  // More strips than there are chunks: a chunk has several.
  const auto x = values<double>(600001, 1), y = values<double>(600001, 2);
  double first = 0;
  for (const int threads : {1, 2, 3, 7}) {
    double sum = -1;
    dot<double>(*Context::host(threads, {.deterministic = true}), in(x), in(y), &sum);
    if (threads == 1) first = sum;
    EXPECT_EQ(sum, first);
  }
  expect_sum(
      first, 600001, [&](auto i) { return static_cast<long double>(x[i]) * y[i]; }, "dot");
}

}  // namespace
}  // namespace protean::test
