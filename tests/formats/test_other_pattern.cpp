// New values with another pattern of as many entries: every format refuses them and goes on as before, on the host, on
// a simulated device, and on a GPU if there is one.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/pattern_mark.hpp"
#include "core/transfer.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/other_patterns.hpp"
#include "support/space.hpp"
#include "support/symmetric.hpp"

namespace protean::test {
namespace {

enum class Place { host, simulated, gpu };
struct Case {
  const FormatEntry* format;
  Place place;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const FormatEntry* format : catalogue())
    for (const Place place : {Place::host, Place::simulated, Place::gpu})
      // The simulated device runs the kernels of the host.
      if (place == Place::gpu || !format->kernels.empty()) list.push_back({format, place});
  return list;
}

ContextPtr context_in(Place place) {
  return place == Place::host        ? test_context()
         : place == Place::simulated ? fake_device_context()
                                     : test_context(Space::device);
}

// Arrays of a caller, in a space, which can be written in place.
struct Arrays {
  Arrays(const ContextPtr& where, const CsrMatrix<double>& csr) : context(where) {
    const SparsityPattern& p = csr.pattern;
    row_ptr = Buffer<std::int32_t>(context, p.rows + 1), col = Buffer<std::int32_t>(context, p.nonzeros);
    values = Buffer<double>(context, p.nonzeros);
    write(csr);
  }
  void write(const CsrMatrix<double>& csr) {
    const auto put = [&](void* to, const void* from, std::size_t bytes) {
      if (bytes == 0) return;
      if (context->space() == Space::host)
        std::memcpy(to, from, bytes);
      else
        detail::copy_bytes(*context, to, Space::device, from, Space::host, bytes);
    };
    put(row_ptr.data(), csr.pattern.row_ptr.p32, row_ptr.bytes());
    put(col.data(), csr.pattern.col, col.bytes());
    put(values.data(), csr.values, values.bytes());
    rows = csr.rows(), cols = csr.cols(), nonzeros = csr.nonzeros();
  }
  CsrMatrix<double> view() const {
    return csr_view(context, rows, cols, nonzeros, row_ptr.data(), col.data(), values.data());
  }
  ContextPtr context;
  Buffer<std::int32_t> row_ptr, col;
  Buffer<double> values;
  std::int64_t rows = 0, cols = 0, nonzeros = 0;
};

class WithAnotherPattern : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    context_ = context_in(GetParam().place);
    if (!context_) GTEST_SKIP() << no_device;
    if (GetParam().place == Place::gpu && kernels_in(*GetParam().format, Space::device).empty())
      GTEST_SKIP() << "no kernel for a GPU in this build";
  }
  const FormatEntry& format() const {
    return GetParam().place == Place::simulated ? fake_format(GetParam().format->id) : *GetParam().format;
  }
  ContextPtr context_;
};

TEST_P(WithAnotherPattern, IsRefusedAndNothingChanges) {
  int taken = 0;
  for (const BatteryMatrix& one : format().traits.symmetric_only ? symmetric_battery() : battery()) {
    const CsrMatrix<double>& csr = one.matrix;
    if (csr.pattern.row_ptr.p64 || csr.nonzeros() > 4000) continue;
    const std::vector<OtherPattern> others = other_patterns(csr);
    if (others.empty()) continue;
    SCOPED_TRACE(one.name);
    Arrays given(context_, csr);
    std::unique_ptr<AssembledMatrix<double>> A;
    try {
      A = make_matrix(format(), given.view(), context_, most_tolerant(format()));
    } catch (const FormatRefused&) { continue; }
    const auto x = sample_vector<double>(csr.cols(), 1);
    const Placed<double> px(context_, x);
    const auto expect_product = [&](const CsrMatrix<double>& of) {
      Placed<double> y(context_, std::vector<double>(static_cast<std::size_t>(csr.rows()),
                                                     std::numeric_limits<double>::quiet_NaN()));
      A->apply(px.read(), y.view());
      EXPECT_TRUE(product_is_right(of, 1.0, x, 0.0, x, y.fetch()));
    };
    const Revision before = A->revision();
    for (const OtherPattern& other : others) {
      SCOPED_TRACE(other.what);
      const Arrays elsewhere(context_, other.matrix);
      EXPECT_THROW(A->update_values(elsewhere.view()), ShapeMismatch);
      EXPECT_THROW(A->require_same_pattern(elsewhere.view()), ShapeMismatch);
      EXPECT_EQ(A->revision(), before);
      if (!format()
               .traits.uses_source) {  // the matrix has its own arrays, so these may be used for another one
        given.write(other.matrix);
        EXPECT_THROW(A->update_values(given.view()), ShapeMismatch) << "at the same addresses";
        EXPECT_EQ(A->revision(), before);
        given.write(csr);
      }
    }
    expect_product(csr);
    // The same pattern in other arrays, of the caller and of the library, and in the arrays that were given.
    CsrMatrix<double> doubled = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(doubled.values)[k] *= 2;
    const Arrays elsewhere(context_, doubled);
    EXPECT_NO_THROW(A->update_values(elsewhere.view()));
    expect_product(doubled);
    EXPECT_NO_THROW(A->update_values(placed(context_, csr)));
    given.write(csr);
    EXPECT_NO_THROW(A->update_values(given.view()));
    expect_product(csr);
    EXPECT_GT(A->revision().values, before.values);
    ++taken;
  }
  EXPECT_GT(taken, 0) << "no matrix of the battery is in this format";
}

INSTANTIATE_TEST_SUITE_P(Catalogue, WithAnotherPattern, testing::ValuesIn(cases()), [](const auto& instance) {
  std::string name(instance.param.format->id);
  std::replace(name.begin(), name.end(), '-', '_');
  return name + (instance.param.place == Place::host        ? "__host"
                 : instance.param.place == Place::simulated ? "__simulated"
                                                            : "__gpu");
});

class PatternMarks : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Places, PatternMarks, testing::Values(Place::host, Place::simulated, Place::gpu),
                         [](const auto& instance) {
                           return std::string(instance.param == Place::host        ? "host"
                                              : instance.param == Place::simulated ? "simulated"
                                                                                   : "gpu");
                         });

// The number depends only on the pattern: in either space, with row pointers of either width, by any threads.
TEST_P(PatternMarks, HashesDependOnThePatternOnly) {
  const ContextPtr context = context_in(GetParam());
  if (!context) GTEST_SKIP() << no_device;
  for (const BatteryMatrix& one : battery()) {
    SCOPED_TRACE(one.name);
    const CsrMatrix<double>& csr = one.matrix;
    const std::uint64_t expected = hash_of(*Context::host(1), csr.pattern);
    EXPECT_EQ(hash_of(*Context::host(3), csr.pattern), expected);
    EXPECT_EQ(hash_of(*context, placed(context, csr).pattern), expected);
    std::vector<std::int64_t> wide;
    for (std::int64_t r = 0; r <= csr.rows(); ++r) wide.push_back(csr.pattern.row_ptr[r]);
    EXPECT_EQ(hash_of(*test_context(),
                      csr_view(csr.rows(), csr.cols(), wide.data(), csr.pattern.col, csr.values).pattern),
              expected);
    for (const OtherPattern& other : other_patterns(csr)) {
      EXPECT_NE(hash_of(*test_context(), other.matrix.pattern), expected) << other.what;
      EXPECT_EQ(hash_of(*context, placed(context, other.matrix).pattern),
                hash_of(*test_context(), other.matrix.pattern));
    }
  }
}

// No two patterns of 2 entries in 40 x 40 have the same number, nor a pattern and one with two columns exchanged.
TEST(PatternMark, SmallPatternsAllDiffer) {
  std::vector<std::uint64_t> all;
  const std::int32_t n = 40;
  const double values[2] = {1, 1};
  for (std::int32_t a = 0; a < n; ++a)
    for (std::int32_t c = 0; c < n; ++c)
      for (std::int32_t d = 0; d < n; ++d) {
        std::int32_t row_ptr[41], col[2] = {c, d};
        for (std::int32_t r = 0; r <= n; ++r) row_ptr[r] = (r > a) + (r > n - 1 - a / 2);
        row_ptr[n] = 2;
        all.push_back(hash_of(*Context::host(1), csr_view(n, n, row_ptr, col, values).pattern));
      }
  const std::size_t count = all.size();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()) - all.begin(), static_cast<std::ptrdiff_t>(count));
}

// Arrays of the library are known by their owner, and not read: here they could not be.
TEST(PatternMark, ArraysOfALivingOwnerAreNotRead) {
  const CsrMatrix<double> csr = deep_copy(test_context(), t8());
  const PatternMark mark(*test_context(), csr.pattern);
  SparsityPattern same = csr.pattern;
  EXPECT_TRUE(mark.is(*test_context(), same));
  const_cast<std::int32_t*>(csr.pattern.col)[0] ^= 1;
  EXPECT_TRUE(mark.is(*test_context(), same)) << "read";
  same.owner = nullptr;
  EXPECT_FALSE(mark.is(*test_context(), same)) << "a view, whose arrays anybody may have written";
  same.owner = std::make_shared<int>();
  EXPECT_FALSE(mark.is(*test_context(), same)) << "another owner, who got the memory of the first";
}

TEST(MatricesInAnOrder, RefuseAnotherPatternAndKeepTheirValues) {
  for (const ContextPtr& context : {test_context(), fake_device_context()}) {
    const CsrMatrix<double>& csr = battery_matrix("band_asymmetric_67");
    std::vector<std::int32_t> order(static_cast<std::size_t>(csr.rows()));
    for (std::int32_t i = 0; i < csr.rows(); ++i)
      order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i * 5) % csr.rows());
    const FormatEntry& format = context->space() == Space::host ? find_format("ell") : fake_format("ell");
    PermutedMatrix<double> permuted(test_context(), placed(context, csr), Permutation(context, order));
    auto B = make_matrix(format, permuted.matrix(), context, most_tolerant(format));
    Matrix<double> A(placed(context, csr), "drawn", std::move(permuted), std::move(B), {.changes = false});
    for (const OtherPattern& other : other_patterns(csr))
      EXPECT_THROW(A.update_values(placed(context, other.matrix)), ShapeMismatch) << other.what;
    const auto x = sample_vector<double>(csr.cols(), 1);
    const Placed<double> px(context, x);
    Placed<double> y(context, x);
    A.apply(px.read(), y.view());
    EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, x, y.fetch()));
    EXPECT_NO_THROW(A.update_values(placed(context, deep_copy(test_context(), csr))));
  }
}

}  // namespace
}  // namespace protean::test
