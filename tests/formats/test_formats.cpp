// The contract of a storage format, for every format x kernel x scalar type on every matrix of the battery. A
// new line in formats/catalogue.def is tested here without a change.
#include <cmath>
#include <limits>

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

struct Case {
  const FormatEntry* format;
  const Kernel* kernel;
  const BatteryMatrix* matrix;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const FormatEntry* format : catalogue())
    for (const Kernel& kernel : format->kernels)
      if (kernel.host)
        for (const BatteryMatrix& matrix : battery()) list.push_back({format, &kernel, &matrix});
  return list;
}

std::string words(std::string_view id) {
  std::string name(id);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

class Format : public testing::TestWithParam<Case> {
 protected:
  // The matrix in this format, or null with the test skipped or passed as a documented refusal.
  template <class T>
  std::unique_ptr<AssembledMatrix<T>> make(const CsrMatrix<T>& csr) {
    const auto& [format, kernel, matrix] = GetParam();
    if (!kernel->unavailable.empty()) return nullptr;
    try {
      return make_matrix(*format, csr, test_context(), {}, kernel->name);
    } catch (const FormatRefused& refusal) {
      EXPECT_FALSE(refusal.reason().empty());
      const Admission admission =
          format->admit(*test_context(), csr.pattern, resolve_params(*format, {}), sizeof(T));
      EXPECT_TRUE(!admission.ok || format->traits.square_only) << "refused what admit() accepted";
      return nullptr;
    }
  }

  template <class T>
  void check_products() {
    const CsrMatrix<T> csr = scalar<T>();
    const auto matrix = make(csr);
    if (!matrix) return;
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const auto x = sample_vector<T>(csr.cols(), 1);
    const auto y0 = sample_vector<T>(csr.rows(), 2);
    for (T alpha : {T(1), T(0), T(-0.75)})
      for (T beta : {T(0), T(1), T(2.5)}) {
        auto y = beta == T(0) ? std::vector<T>(y0.size(), nan) : y0;
        matrix->apply(alpha, {x.data(), csr.cols()}, beta, {y.data(), csr.rows()});
        EXPECT_TRUE(product_is_right(csr, alpha, x, beta, y0, y)) << "alpha " << alpha << " beta " << beta;
      }
    std::vector<T> first(y0.size(), nan), second(y0.size(), nan);
    matrix->apply(VectorView<const T>{x.data(), csr.cols()}, {first.data(), csr.rows()});
    matrix->apply(VectorView<const T>{x.data(), csr.cols()}, {second.data(), csr.rows()});
    if (matrix->entry().traits.deterministic) { EXPECT_EQ(first, second); }
    if (csr.rows() == csr.cols()) {
      std::vector<T> fused(y0.size(), nan);
      T product = nan;
      apply_dot<T>(*matrix, {x.data(), csr.cols()}, {fused.data(), csr.rows()}, &product);
      EXPECT_TRUE(product_is_right(csr, T(1), x, T(0), y0, fused)) << "apply_dot";
      long double expected = 0, magnitude = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected += static_cast<long double>(x[i]) * fused[i];
        magnitude += std::fabs(static_cast<long double>(x[i]) * fused[i]);
      }
      EXPECT_LE(std::fabs(product - expected),
                (csr.rows() + 2) * std::numeric_limits<T>::epsilon() * magnitude)
          << "apply_dot's dot";
    }
  }

  template <class T>
  CsrMatrix<T> scalar() const {
    if constexpr (sizeof(T) == 8)
      return GetParam().matrix->matrix;
    else
      return convert_values<float>(test_context(), GetParam().matrix->matrix);
  }
};

TEST_P(Format, ProductsAreRightInDouble) {
  if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
  check_products<double>();
}

TEST_P(Format, ProductsAreRightInFloat) {
  if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
  check_products<float>();
}

TEST_P(Format, ToCsrIsTheInverseAndBytesAreAsAdmitted) {
  if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
  const CsrMatrix<double>& csr = GetParam().matrix->matrix;
  const auto matrix = make(csr);
  if (!matrix) return;
  const FormatEntry& format = matrix->entry();
  const CsrMatrix<double> back = matrix->to_csr();
  EXPECT_NO_THROW(validate(*test_context(), back.pattern));
  if (format.traits.exact_values) { EXPECT_TRUE(identical(csr, back)); }
  if (GetParam().kernel->name == "native") {
    EXPECT_EQ(matrix->bytes(), format.admit(*test_context(), csr.pattern, matrix->params(), 8).bytes);
  }
}

TEST_P(Format, DiagonalIsRight) {
  if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
  const CsrMatrix<double>& csr = GetParam().matrix->matrix;
  const auto matrix = make(csr);
  if (!matrix) return;
  const std::int64_t n = std::min(csr.rows(), csr.cols());
  std::vector<double> expected(n), found(n, std::numeric_limits<double>::quiet_NaN());
  extract_diagonal(*test_context(), csr, expected.data());
  matrix->diagonal({found.data(), n});
  EXPECT_EQ(expected, found);
}

TEST_P(Format, NewValuesInTheSamePattern) {
  if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
  const CsrMatrix<double>& csr = GetParam().matrix->matrix;
  const auto matrix = make(csr);
  if (!matrix) return;
  CsrMatrix<double> changed = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
    const_cast<double*>(changed.values)[k] = csr.values[k] * 2 + 1;
  const Revision before = matrix->revision();
  matrix->update_values(changed);
  EXPECT_NE(before, matrix->revision());
  EXPECT_EQ(before.pattern, matrix->revision().pattern);
  EXPECT_TRUE(identical(changed, matrix->to_csr()));
  const auto x = sample_vector<double>(csr.cols(), 3);
  std::vector<double> y(csr.rows(), std::numeric_limits<double>::quiet_NaN());
  matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
  EXPECT_TRUE(product_is_right(changed, 1.0, x, 0.0, y, y));
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Format, testing::ValuesIn(cases()), [](const auto& instance) {
  const Case& one = instance.param;
  return words(one.format->id) + "__" + words(one.kernel->name) + "__" + one.matrix->name;
});

TEST(Catalogue, EntriesAreComplete) {
  for (const FormatEntry* format : catalogue()) {
    EXPECT_FALSE(format->family.empty() || format->title.empty() || format->source.empty()) << format->id;
    EXPECT_EQ(&find_format(format->id), format);
    EXPECT_NO_THROW(resolve_params(*format, {})) << format->id;
    ASSERT_FALSE(format->kernels.empty());
    EXPECT_EQ(format->kernels.front().name, "native");
  }
}

TEST(Catalogue, UnknownNamesAreRefusedWithTheNearest) {
  try {
    find_format("csrr");
    FAIL();
  } catch (const BadArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'csr'"), std::string::npos);
  }
  EXPECT_THROW(resolve_params(find_format("csr"), {{"nonsense", "1"}}), BadArgument);
  EXPECT_THROW(find_kernel(find_format("csr"), "magic", Space::host), BadArgument);
}

}  // namespace
}  // namespace protean::test
