// The contract of a storage format, for every format x kernel x space x scalar type on every matrix of the
// battery. A preset has the arrays and the code of its base, so it is tested on only a few matrices. A new line in
// formats/catalogue.def is tested here without a change.
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/kernel_admission.hpp"
#include "operators/narrow_values.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/symmetric.hpp"

namespace protean::test {
namespace {

struct Case {
  const FormatEntry* format;
  const Kernel* kernel;
  Space space;
  const BatteryMatrix* matrix;
  std::string_view values = {};  // of parameter `values`; empty: its default
};

// The words of parameter `values` next to the default, of kernels that have it.
std::vector<std::string_view> words_of_values(const Kernel& kernel) {
  if (!detail::has_float_values(kernel)) return {""};
  if (detail::has_dictionary(kernel)) return {"", "double", "float", "dictionary"};
  return {"", "double", "float"};
}

const std::set<std::string> for_presets = {"t8",       "empty_rows_50", "power_law_500",
                                           "one_1x1",  "row_1x100",     "cols_5x0",
                                           "zero_7x7", "random_257",    "column_100x1"};

// Whether a format takes this matrix, which has entries enough to show a wrong product.
bool takes(const FormatEntry& format, const BatteryMatrix& matrix) {
  constexpr std::int64_t enough = 20;
  if (matrix.matrix.nonzeros() < enough) return false;
  const bool on_host = !format.kernels.empty();  // else it is for a device only
  const ContextPtr context = test_context(on_host ? Space::host : Space::device);
  try {
    (void)make_matrix(format, placed(context, matrix.matrix), context);
    return true;
  } catch (const FormatRefused&) { return false; }
}
constexpr int least_taken = 5;

// A preset refuses most of those named above if its parameters are for other matrices. It gets the first of the battery
// that it takes, too.
std::vector<const BatteryMatrix*> matrices_of(const FormatEntry& format) {
  std::vector<const BatteryMatrix*> list;
  int taken = 0;
  for (const BatteryMatrix& matrix : format.traits.symmetric_only ? symmetric_battery() : battery()) {
    if (format.preset) {
      const bool is_taken = takes(format, matrix);
      if (for_presets.count(matrix.name) == 0 && !(is_taken && taken < least_taken)) continue;
      taken += is_taken ? 1 : 0;
    }
    list.push_back(&matrix);
  }
  return list;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const FormatEntry* format : catalogue()) {
    const std::vector<const BatteryMatrix*> matrices = matrices_of(*format);
    for (const Space space : {Space::host, Space::device})
      for (const Kernel& kernel : kernels_in(*format, space))
        for (const std::string_view values : words_of_values(kernel))
          for (const BatteryMatrix* matrix : matrices)
            list.push_back({format, &kernel, space, matrix, values});
  }
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
  void SetUp() override {
    if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
    context_ = test_context(GetParam().space);
    if (!context_) GTEST_SKIP() << no_device;
  }

  FormatParams params() const {
    return GetParam().values.empty() ? FormatParams()
                                     : FormatParams{{"values", std::string(GetParam().values)}};
  }
  // Words double and dictionary are for vectors in double.
  template <class T>
  static bool has_values_of() {
    return sizeof(T) == 8 || (GetParam().values != "double" && GetParam().values != "dictionary");
  }
  // The matrix, with values that float rounds if they are to be stored in float.
  template <class T>
  CsrMatrix<T> given() const {
    if constexpr (sizeof(T) == 4) {
      return convert_values<float>(test_context(), GetParam().matrix->matrix);
    } else {
      CsrMatrix<T> csr = GetParam().matrix->matrix;
      if (GetParam().values != "float") return csr;
      csr = deep_copy(test_context(), csr);
      for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<T*>(csr.values)[k] /= 3;
      return csr;
    }
  }
  // What is stored of it: the rounded matrix is the reference of products.
  template <class T>
  static CsrMatrix<T> stored(const CsrMatrix<T>& csr) {
    if (GetParam().values != "float" || sizeof(T) == 4) return csr;
    return convert_values<T>(test_context(), convert_values<float>(test_context(), csr));
  }

  // The matrix in this format, or null after a documented refusal. A test that has seen nothing else says so, and is
  // counted apart (tests/summary.py).
  template <class T>
  std::unique_ptr<AssembledMatrix<T>> make(const CsrMatrix<T>& csr) {
    const FormatEntry& format = *GetParam().format;
    const CsrMatrix<T> source = placed(context_, csr);
    try {
      return make_matrix(format, source, context_, params(), GetParam().kernel->name);
    } catch (const FormatRefused& refusal) {
      RecordProperty("refused", refusal.reason());
      EXPECT_FALSE(refusal.reason().empty());
      const Admission admission = admit(source.pattern, sizeof(T));
      // admit() sees no values, so it may accept what is not symmetric.
      EXPECT_TRUE(!admission.ok || format.traits.square_only || format.traits.symmetric_only ||
                  GetParam().kernel->name != "native")
          << "refused what admit() accepted: " << refusal.what();
      return nullptr;
    }
  }

  Admission admit(const SparsityPattern& pattern, std::size_t value_bytes) const {
    return protean::admit(*GetParam().format, *context_, pattern, params(), value_bytes);
  }

  template <class T>
  void check_products() {
    if (!has_values_of<T>()) return;
    const auto matrix = make(given<T>());
    if (!matrix) return;
    const CsrMatrix<T> csr = stored(given<T>());
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const auto x = sample_vector<T>(csr.cols(), 1);
    const auto y0 = sample_vector<T>(csr.rows(), 2);
    const std::vector<T> poison(y0.size(), nan);
    const Placed<T> px(context_, x);
    for (T alpha : {T(1), T(0), T(-0.75)})
      for (T beta : {T(0), T(1), T(2.5)}) {
        Placed<T> y(context_, beta == T(0) ? poison : y0);
        matrix->apply(alpha, px.read(), beta, y.view());
        EXPECT_TRUE(product_is_right(csr, alpha, x, beta, y0, y.fetch()))
            << "alpha " << alpha << " beta " << beta;
      }
    Placed<T> first(context_, poison), second(context_, poison);
    matrix->apply(px.read(), first.view());
    matrix->apply(px.read(), second.view());
    if (matrix->entry().traits.deterministic && GetParam().kernel->deterministic) {
      EXPECT_EQ(first.fetch(), second.fetch());
    }
    if (csr.rows() == csr.cols()) {
      Placed<T> y(context_, poison), product(context_, {nan});
      apply_dot<T>(*matrix, px.read(), y.view(), product.data());
      const std::vector<T> fused = y.fetch();
      EXPECT_TRUE(product_is_right(csr, T(1), x, T(0), y0, fused)) << "apply_dot";
      long double expected = 0, magnitude = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected += static_cast<long double>(x[i]) * fused[i];
        magnitude += std::fabs(static_cast<long double>(x[i]) * fused[i]);
      }
      EXPECT_LE(std::fabs(product.fetch()[0] - expected),
                (csr.rows() + 2) * std::numeric_limits<T>::epsilon() * magnitude)
          << "apply_dot's dot";
    }
  }

  // y := alpha A^T x + beta y, against sums over the columns of A.
  template <class T>
  testing::AssertionResult transposed_is_right(const AssembledMatrix<T>& matrix, const CsrMatrix<T>& csr,
                                               T alpha, T beta) {
    const auto x = sample_vector<T>(csr.rows(), 5), y0 = sample_vector<T>(csr.cols(), 6);
    const std::vector<T> poison(y0.size(), std::numeric_limits<T>::quiet_NaN());
    const Placed<T> px(context_, x);
    Placed<T> y(context_, beta == T(0) ? poison : y0);
    apply_transposed<T>(matrix, alpha, px.read(), beta, y.view());
    return product_is_right(transpose(test_context(), csr), alpha, x, beta, y0, y.fetch());
  }

  template <class T>
  void check_transposed();

  ContextPtr context_;
};

TEST_P(Format, ProductsAreRightInDouble) { check_products<double>(); }

TEST_P(Format, ProductsAreRightInFloat) { check_products<float>(); }

template <class T>
void Format::check_transposed() {
  if (!has_values_of<T>()) return;
  const auto matrix = make(given<T>());
  if (!matrix) return;
  const CsrMatrix<T> csr = stored(given<T>());
  EXPECT_EQ(no_transposed_product<T>(*matrix), "");
  for (T alpha : {T(1), T(0), T(-0.75)})
    for (T beta : {T(0), T(1), T(2.5)})
      EXPECT_TRUE(transposed_is_right(*matrix, csr, alpha, beta)) << "alpha " << alpha << " beta " << beta;
}

TEST_P(Format, TransposedProductsAreRightInDouble) { check_transposed<double>(); }

TEST_P(Format, TransposedProductsAreRightInFloat) { check_transposed<float>(); }

// What a matrix keeps for these products is what its context has allocated, and new values drop it.
TEST_P(Format, TransposedBytesAreThoseOfTheAllocator) {
  if (GetParam().kernel->name != "native" || GetParam().format->traits.uses_source) return;
  const CsrMatrix<double> source = placed(context_, given<double>());
  const auto matrix = make(given<double>());
  if (!matrix) return;
  EXPECT_EQ(matrix->transposed_bytes(), 0u) << "before the first product";
  matrix->update_values(source);  // some keep what they need for it
  const std::size_t before = allocated_bytes(*context_);
  prepare_transposed<double>(*matrix);
  const std::size_t kept = matrix->transposed_bytes();
  EXPECT_EQ(kept, allocated_bytes(*context_) - before);
  prepare_transposed<double>(*matrix);
  EXPECT_EQ(allocated_bytes(*context_) - before, kept) << "made again";
  matrix->update_values(source);
  EXPECT_EQ(matrix->transposed_bytes(), 0u) << "of values that are gone";
  EXPECT_EQ(allocated_bytes(*context_), before);
}

TEST_P(Format, ToCsrIsTheInverseAndBytesAreAsAdmitted) {
  const auto matrix = make(given<double>());
  if (!matrix) return;
  const CsrMatrix<double> csr = stored(given<double>());
  const FormatEntry& format = matrix->entry();
  const CsrMatrix<double> back = fetched(context_, matrix->to_csr());
  EXPECT_NO_THROW(validate_sorted(*test_context(), back.pattern));
  if (format.traits.exact_values) { EXPECT_TRUE(identical(csr, back)); }
  const Kernel& first = kernels_in(format, GetParam().space).front();
  if (GetParam().kernel == &first && (first.name == "native" || first.admit)) {
    EXPECT_EQ(matrix->bytes(), admit(placed(context_, csr).pattern, matrix->float_values() ? 4 : 8).bytes);
    if (GetParam().values == "float") { EXPECT_TRUE(matrix->float_values()); }
    if (GetParam().values == "double") { EXPECT_FALSE(matrix->float_values()); }
    EXPECT_EQ(matrix->has_value_table(), GetParam().values == "dictionary");
  }
}

// What a matrix says of its bytes is what its context has allocated for it; the caller's arrays, if they are used in
// place, are also counted. The first matrix is there for what a context allocates once.
TEST_P(Format, BytesAreThoseOfTheAllocator) {
  const CsrMatrix<double> source = placed(context_, given<double>());
  const FormatEntry& format = *GetParam().format;
  const std::string_view kernel = GetParam().kernel->name;
  if (kernel == "kokkos" || kernel == "mkl" || kernel.starts_with("cusparse"))
    return;  // libraries allocate, too
  try {
    (void)make_matrix(format, source, context_, params(), kernel);
  } catch (const FormatRefused& refusal) { return RecordProperty("refused", refusal.reason()); }
  const std::size_t before = allocated_bytes(*context_);
  const auto matrix = make_matrix(format, source, context_, params(), kernel);
  const std::size_t used = matrix->float_values() ? source.pattern.bytes() : source.bytes();
  const std::size_t shared = format.traits.uses_source ? used : 0;
  EXPECT_EQ(matrix->bytes(), allocated_bytes(*context_) - before + shared);
}

TEST_P(Format, DiagonalIsRight) {
  const auto matrix = make(given<double>());
  if (!matrix) return;
  const CsrMatrix<double> csr = stored(given<double>());
  const std::int64_t n = std::min(csr.rows(), csr.cols());
  std::vector<double> expected(n);
  extract_diagonal(*test_context(), csr, expected.data());
  Placed<double> found(context_, std::vector<double>(n, std::numeric_limits<double>::quiet_NaN()));
  matrix->diagonal(found.view());
  EXPECT_EQ(expected, found.fetch());
}

TEST_P(Format, NewValuesInTheSamePattern) {
  const CsrMatrix<double> csr = given<double>();
  const auto matrix = make(csr);
  if (!matrix) return;
  const auto x = sample_vector<double>(csr.cols(), 3);
  const Placed<double> px(context_, x);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Revision built = matrix->revision();
  EXPECT_TRUE(transposed_is_right(*matrix, stored(csr), 1.0, 0.0)) << "transposed";
  CsrMatrix<double> changed;
  // Two updates: each is a separate revision, and every result of the matrix belongs to the newest values.
  for (int update = 1; update <= 2; ++update) {
    SCOPED_TRACE(update);
    changed = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
      const_cast<double*>(changed.values)[k] = csr.values[k] * (1 + update) + 1;
    const CsrMatrix<double> source = placed(context_, changed);
    changed = stored(changed);
    const Revision before = matrix->revision();
    const Recording recorded = matrix->recording();
    matrix->update_values(source);
    EXPECT_GT(matrix->revision().values, before.values);
    EXPECT_EQ(built.pattern, matrix->revision().pattern);
    EXPECT_NE(recorded.version, matrix->recording().version);
    EXPECT_TRUE(identical(changed, fetched(context_, matrix->to_csr())));

    Placed<double> y(context_, std::vector<double>(csr.rows(), nan));
    matrix->apply(px.read(), y.view());
    EXPECT_TRUE(product_is_right(changed, 1.0, x, 0.0, x, y.fetch()));
    EXPECT_TRUE(transposed_is_right(*matrix, changed, 1.0, 0.0)) << "transposed";
    if (csr.rows() == csr.cols()) {
      Placed<double> fused(context_, std::vector<double>(csr.rows(), nan)), dot(context_, {nan});
      apply_dot<double>(*matrix, px.read(), fused.view(), dot.data());
      EXPECT_TRUE(product_is_right(changed, 1.0, x, 0.0, x, fused.fetch())) << "apply_dot";
    }
    std::vector<double> expected(static_cast<std::size_t>(std::min(csr.rows(), csr.cols())));
    extract_diagonal(*test_context(), changed, expected.data());
    Placed<double> found(context_, std::vector<double>(expected.size(), nan));
    matrix->diagonal(found.view());
    EXPECT_EQ(expected, found.fetch());
  }
  // Values of another matrix change nothing.
  const Revision good = matrix->revision();
  const auto other = placed(context_, generate(test_context(), "poisson-2d", {{"n", 7}}));
  if (other.rows() == csr.rows() && other.nonzeros() == csr.nonzeros()) return;
  EXPECT_THROW(matrix->update_values(other), ShapeMismatch);
  EXPECT_EQ(matrix->revision(), good);
  EXPECT_TRUE(identical(changed, fetched(context_, matrix->to_csr())));
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Format, testing::ValuesIn(cases()), [](const auto& instance) {
  const Case& one = instance.param;
  return words(one.format->id) + "__" + std::string(to_string(one.space)) + "_" + words(one.kernel->name) +
         "__" + one.matrix->name + (one.values.empty() ? "" : "__" + std::string(one.values));
});

TEST(Catalogue, EntriesAreComplete) {
  for (const FormatEntry* format : catalogue()) {
    EXPECT_FALSE(format->family.empty() || format->title.empty() || format->source.empty()) << format->id;
    EXPECT_EQ(&find_format(format->id), format);
    EXPECT_NO_THROW(resolve_params(*format, {})) << format->id;
    ASSERT_EQ(format->kernels.empty(), !detail::why_not_on_host(*format).empty()) << format->id;
    if (!format->kernels.empty()) { EXPECT_EQ(format->kernels.front().name, "native"); }
  }
}

// A format that refuses what it is tested on is not tested.
TEST(Catalogue, EveryFormatIsTestedOnMatricesThatItTakes) {
  for (const FormatEntry* format : catalogue()) {
    if (format->kernels.empty() && !test_context(Space::device)) continue;
    int taken = 0;
    for (const BatteryMatrix* matrix : matrices_of(*format)) taken += takes(*format, *matrix) ? 1 : 0;
    EXPECT_GE(taken, least_taken) << format->id;
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
