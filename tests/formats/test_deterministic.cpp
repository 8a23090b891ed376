// Deterministic mode. On the host a product has the bits of a plain loop over the rows of CSR with std::fma,
// in every format and with any number of threads. Kernels that cannot do this are refused by name.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>

#include <hwy/targets.h>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "count_new.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/symmetric.hpp"

namespace protean::test {
namespace {

const ContextPtr& context_of(int threads) {
  static const std::vector<ContextPtr> contexts = [] {
    std::vector<ContextPtr> list;
    for (int t = 0; t <= 3; ++t) list.push_back(Context::host(t, {.deterministic = true}));
    return list;
  }();
  return contexts[threads];
}

// The definition, from the caller's arrays.
template <class T>
std::vector<T> reference(const CsrMatrix<T>& A, T alpha, const std::vector<T>& x, T beta,
                         const std::vector<T>& y) {
  std::vector<T> result(y.size());
  for (std::int64_t r = 0; r < A.rows(); ++r) {
    T sum = 0;
    for (std::int64_t k = A.pattern.row_ptr[r]; k < A.pattern.row_ptr[r + 1]; ++k)
      sum = std::fma(A.values[k], x[A.pattern.col[k]], sum);
    const T scaled = alpha * sum;
    result[r] = beta == T(0) ? scaled : std::fma(beta, y[r], scaled);
  }
  return result;
}

template <class T>
auto bits(T value) {
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<std::uint64_t>(value);
  else
    return std::bit_cast<std::uint32_t>(value);
}

// Compares bits, so that 0 differs from -0. All NaNs are equal.
template <class T>
testing::AssertionResult same_bits(const std::vector<T>& expected, const std::vector<T>& found) {
  if (expected.size() != found.size()) return testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
    if (bits(expected[i]) != bits(found[i]))
      return testing::AssertionFailure()
             << "entry " << i << " is " << testing::PrintToString(found[i]) << ", bits " << std::hex
             << bits(found[i]) << "; expected " << testing::PrintToString(expected[i]) << ", bits "
             << bits(expected[i]);
  }
  return testing::AssertionSuccess();
}

// Numbers with all bits in use and of very different size. Any other order of the sums, or a product rounded
// before it is added, changes the result.
template <class T>
std::vector<T> rough_vector(std::int64_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::vector<T> v(static_cast<std::size_t>(size));
  for (T& value : v)
    value = static_cast<T>(std::ldexp(mantissa(random), static_cast<int>(random() % 17) - 8));
  return v;
}
template <class T>
CsrMatrix<T> rough_values(const CsrMatrix<double>& pattern, unsigned seed) {
  CsrMatrix<T> csr;
  if constexpr (sizeof(T) == 8)
    csr = deep_copy(test_context(), pattern);
  else
    csr = convert_values<T>(test_context(), pattern);
  const auto values = rough_vector<T>(csr.nonzeros(), seed);
  std::copy(values.begin(), values.end(), const_cast<T*>(csr.values));
  return csr;
}

struct Way {
  const FormatEntry* format;
  const Kernel* kernel;
};
std::vector<Way> ways() {
  std::vector<Way> list;
  for (const FormatEntry* format : layouts())
    for (const Kernel& kernel : format->kernels)
      if (kernel.unavailable.empty() && kernel.ordered) list.push_back({format, &kernel});
  return list;
}

class Deterministic : public testing::TestWithParam<Way> {
 protected:
  // Null when the format refuses the matrix.
  template <class T>
  std::unique_ptr<AssembledMatrix<T>> make(const CsrMatrix<T>& csr, const ContextPtr& context,
                                           const FormatParams& params = {}) {
    try {
      return make_matrix(*GetParam().format, csr, context, params, GetParam().kernel->name);
    } catch (const FormatRefused& refusal) {
      EXPECT_FALSE(admit(*GetParam().format, *context, csr.pattern, params, sizeof(T)).ok) << refusal.what();
      return nullptr;
    }
  }

  // A symmetric matrix if the format holds no others.
  template <class T>
  static CsrMatrix<T> suitable(const CsrMatrix<T>& csr) {
    const bool symmetric = GetParam().format->traits.symmetric_only && csr.rows() == csr.cols();
    return symmetric ? symmetric_of(csr) : csr;
  }

  template <class T>
  void check(const CsrMatrix<T>& given, const std::vector<T>& x, const FormatParams& params = {}) {
    const CsrMatrix<T> csr = suitable(given);
    const auto y0 = rough_vector<T>(csr.rows(), 2);
    const T poisonous = std::numeric_limits<T>::quiet_NaN();
    const std::vector<T> poison(y0.size(), poisonous);
    const CsrMatrix<T> columns = transpose(test_context(), csr);
    const auto z = rough_vector<T>(csr.rows(), 3), w0 = rough_vector<T>(csr.cols(), 4);
    for (const int threads : {1, 2, 3}) {
      const auto matrix = make(csr, context_of(threads), params);
      if (!matrix) return;
      SCOPED_TRACE("threads " + std::to_string(threads));
      for (const auto& [alpha, beta] :
           {std::pair<T, T>{1, 0}, {-1, 1}, {1, 1}, {T(-0.7), T(1.3)}, {0, 2}, {2, 0}}) {
        std::vector<T> y = beta == T(0) ? poison : y0;
        matrix->apply(alpha, {x.data(), csr.cols()}, beta, {y.data(), csr.rows()});
        EXPECT_TRUE(same_bits(reference(csr, alpha, x, beta, y0), y))
            << "alpha " << alpha << " beta " << beta;
      }
      EXPECT_EQ(matrix->bytes(), admit(*GetParam().format, *context_of(threads), csr.pattern,
                                       matrix->params(), matrix->float_values() ? sizeof(float) : sizeof(T))
                                     .bytes);
      if constexpr (sizeof(T) == 8) { EXPECT_TRUE(identical(csr, matrix->to_csr())); }
      for (const T beta : {T(0), T(1.3)}) {
        std::vector<T> w = beta == T(0) ? std::vector<T>(w0.size(), poisonous) : w0;
        apply_transposed<T>(*matrix, T(-0.7), {z.data(), csr.rows()}, beta, {w.data(), csr.cols()});
        EXPECT_TRUE(same_bits(reference(columns, T(-0.7), z, beta, w0), w)) << "transposed, beta " << beta;
      }
      if (csr.rows() != csr.cols()) continue;
      std::vector<T> y = poison;
      T fused = 0, plain = 0;
      apply_dot<T>(*matrix, {x.data(), csr.cols()}, {y.data(), csr.rows()}, &fused);
      EXPECT_TRUE(same_bits(reference(csr, T(1), x, T(0), y0), y)) << "apply_dot";
      dot<T>(*context_of(1), {x.data(), csr.cols()}, {y.data(), csr.rows()}, &plain);
      EXPECT_TRUE(same_bits<T>({plain}, {fused})) << "the dot of apply_dot";
    }
  }
};

TEST_P(Deterministic, BitsOfAPlainLoopInDouble) {
  for (const BatteryMatrix& one : battery()) {
    SCOPED_TRACE(one.name);
    const auto csr = rough_values<double>(one.matrix, 5);
    check(csr, rough_vector<double>(csr.cols(), 1));
  }
}

TEST_P(Deterministic, BitsOfAPlainLoopInFloat) {
  for (const BatteryMatrix& one : battery()) {
    SCOPED_TRACE(one.name);
    const auto csr = rough_values<float>(one.matrix, 5);
    check(csr, rough_vector<float>(csr.cols(), 1));
  }
}

// Enough work for each of three threads, and for chunks, blocks and slices of all kinds.
std::vector<std::pair<std::string, CsrMatrix<double>>> larger() {
  std::vector<std::pair<std::string, CsrMatrix<double>>> list;
  const auto add = [&](std::string name, std::int64_t rows, std::int64_t cols, auto columns) {
    std::vector<Triplet<double>> triplets;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::set<std::int64_t> chosen;
      columns(r, chosen);
      for (const std::int64_t c : chosen)
        if (c >= 0 && c < cols)
          triplets.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(c), 1.0});
    }
    list.emplace_back(std::move(name), csr_from_triplets<double>(test_context(), rows, cols, triplets));
  };
  auto random = std::make_shared<std::mt19937>(3);
  add("a grid with gaps", 1600, 1600, [random](std::int64_t r, auto& to) {
    for (const std::int64_t d : {-41, -40, -39, -1, 0, 1, 39, 40, 41})
      if ((*random)() % 10 != 0) to.insert(r + d);
  });
  add("blocks of three", 1500, 1500, [random](std::int64_t r, auto& to) {
    for (const std::int64_t b : {0, 1, 7, 30})
      for (std::int64_t j = 0; j < 3; ++j) to.insert((r / 3 + b) % 500 * 3 + j);
  });
  add("ragged rows", 2000, 3000, [random](std::int64_t r, auto& to) {
    for (std::int64_t k = r % 7 == 0 ? 0 : 1 + r % 11; k > 0; --k) to.insert((*random)() % 3000);
  });
  add("one row of half the entries", 2500, 2500, [](std::int64_t r, auto& to) {
    if (r == 1700)
      for (std::int64_t c = 0; c < 2500; ++c) to.insert(c);
    if (r % 5 != 0) to.insert(r), to.insert((r * 7) % 2500);
  });
  add("more than 255 slots of a kind", 64, 9000, [random](std::int64_t, auto& to) {
    for (int k = 0; k < 400; ++k) to.insert((*random)() % 9000);
  });
  add("a dense diagonal and far neighbours", 900, 90000, [random](std::int64_t r, auto& to) {
    for (std::int64_t d = 0; d < 20; ++d) to.insert(100 * r + d);
    to.insert((*random)() % 90000);
  });
  return list;
}

TEST_P(Deterministic, BitsOfAPlainLoopInLargerMatrices) {
  for (const auto& [name, pattern] : larger()) {
    SCOPED_TRACE(name);
    const auto csr = rough_values<double>(pattern, 6);
    const auto x = rough_vector<double>(csr.cols(), 1);
    check(csr, x);
    // Other values of the parameters that change the layout.
    for (const ParamDoc& doc : GetParam().format->params) {
      std::vector<std::string> values;
      for (std::size_t at = 0; at < doc.choices.size();) {
        const std::size_t end = std::min(doc.choices.find('|', at), doc.choices.size());
        values.emplace_back(doc.choices.substr(at, end - at));
        at = end + 1;
      }
      if (doc.name == "sigma" && doc.largest > 512) values = {"1", "64", "512"};
      if (doc.name == "K") values = {"0", "1", "4"};
      if (doc.name == "hack") values = {"1", "8", "20", "100"};
      if (doc.name == "align") values = {"1", "64"};
      for (const std::string& value : values) {
        if (value == "...") continue;  // stands for other numbers
        SCOPED_TRACE(std::string(doc.name) + " " + value);
        check(csr, x, {{std::string(doc.name), value}});
      }
    }
    const auto single = rough_values<float>(pattern, 7);
    check(single, rough_vector<float>(single.cols(), 1));
  }
}

// On a processor without fused multiply-add, or one treated as such, the C library gives the same bits.
TEST_P(Deterministic, BitsWithoutTheInstruction) {
  struct Restore {
    ~Restore() { hwy::GetChosenTarget().Update(hwy::SupportedTargets()); }
  } restore;
  hwy::GetChosenTarget().Update(HWY_STATIC_TARGET);
  for (const char* name : {"stencil_7point_12", "random_257", "blocks_3x3_60", "power_law_500"}) {
    SCOPED_TRACE(name);
    const auto csr = rough_values<double>(battery_matrix(name), 5);
    check(csr, rough_vector<double>(csr.cols(), 1));
    const auto single = rough_values<float>(battery_matrix(name), 5);
    check(single, rough_vector<float>(single.cols(), 1));
  }
}

// Padding would turn -0 into 0, and infinity into NaN.
TEST_P(Deterministic, PaddingAddsNothing) {
  const double tiny = std::numeric_limits<double>::denorm_min(),
               infinity = std::numeric_limits<double>::infinity();
  for (const BatteryMatrix& one : battery()) {
    SCOPED_TRACE(one.name);
    const CsrMatrix<double> csr = deep_copy(test_context(), one.matrix);
    auto* values = const_cast<double*>(csr.values);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k) values[k] = -tiny;
    std::vector<double> x(csr.cols(), tiny);
    check(csr, x);  // every row with entries is -0
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k) values[k] = 1 + static_cast<double>(k % 5);
    // 0 times infinity is NaN, so fill (of bcsr and the diagonal formats) may not be multiplied either.
    for (std::int64_t j = 0; j < csr.cols(); j += 3) x[j] = infinity;
    check(csr, x);
  }
}

TEST_P(Deterministic, NewValues) {
  for (const auto& [name, pattern] : larger()) {
    SCOPED_TRACE(name);
    const auto csr = suitable(rough_values<double>(pattern, 8));
    const auto matrix = make(suitable(pattern), context_of(2));
    if (!matrix) continue;
    matrix->update_values(csr);
    const auto x = rough_vector<double>(csr.cols(), 1);
    std::vector<double> y(csr.rows());
    matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
    EXPECT_TRUE(same_bits(reference(csr, 1.0, x, 0.0, y), y));
  }
}

TEST_P(Deterministic, AProductTakesNoMemory) {
  for (const auto& [name, csr] : larger()) {
    const auto matrix = make(csr, context_of(2));
    if (!matrix) continue;
    SCOPED_TRACE(name);
    const auto x = sample_vector<double>(csr.cols(), 1);
    std::vector<double> y(csr.rows());
    double dot = 0;
    const VectorView<const double> from{x.data(), csr.cols()};
    const VectorView<double> to{y.data(), csr.rows()};
    const auto z = sample_vector<double>(csr.rows(), 1);
    std::vector<double> w(csr.cols());
    matrix->apply(from, to);  // the threads are started here
    prepare_transposed<double>(*matrix);
    const std::int64_t news = count_of_new();
    apply_transposed<double>(*matrix, 2.0, {z.data(), csr.rows()}, 0.5, {w.data(), csr.cols()});
    matrix->apply(from, to);
    matrix->apply(2.0, from, 0.5, to);
    if (csr.rows() == csr.cols()) apply_dot<double>(*matrix, from, to, &dot);
    EXPECT_EQ(count_of_new() - news, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, Deterministic, testing::ValuesIn(ways()), [](const auto& instance) {
  std::string name = std::string(instance.param.format->id) + "__" + std::string(instance.param.kernel->name);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

TEST(DeterministicMode, IsAnOptionOfTheContext) {
  EXPECT_FALSE(Context::host(2)->deterministic());
  EXPECT_TRUE(Context::host(2, {.deterministic = true})->deterministic());
}

// No format may lose the mode unnoticed.
TEST(DeterministicMode, FormatsThatHaveIt) {
  for (const char* id : {"csr",
                         "ell",
                         "sell-c-sigma",
                         "jad",
                         "dia",
                         "hdi",
                         "sell-packed",
                         "coo",
                         "csc",
                         "hyb",
                         "bcsr",
                         "cmrs",
                         "pcsr",
                         "csr5",
                         "mgpu-csr",
                         "bdia",
                         "ddd-naive",
                         "ddd-split",
                         "cds",
                         "crsd",
                         "bcoo",
                         "bsellpack",
                         "bin-bcsr",
                         "bcsr-choi",
                         "bcsr-verschoor",
                         "bcoo-bcsr",
                         "tilespmv-adpt",
                         "tile-composite",
                         "vsl"})
    EXPECT_TRUE(find_format(id).kernels.front().ordered) << id;
}

TEST(DeterministicMode, RefusedByName) {
  for (const FormatEntry* format : layouts())
    for (const Space space : {Space::host, Space::device})
      for (const Kernel& kernel : kernels_in(*format, space)) {
        if (!kernel.unavailable.empty()) continue;
        if (has_deterministic_mode(*format, kernel, space)) continue;
        if (space == Space::device && Context::device_count() == 0) continue;
        const ContextPtr context =
            space == Space::host ? context_of(2) : Context::device(0, {.deterministic = true});
        try {
          make_matrix(*format, placed(context, t8()), context, {}, kernel.name);
          FAIL() << format->id << " " << kernel.name;
        } catch (const FormatRefused& refusal) {
          const std::string text = refusal.what();
          EXPECT_NE(text.find("kernel " + std::string(kernel.name)), std::string::npos) << text;
          EXPECT_NE(text.find("deterministic"), std::string::npos) << text;
        }
      }
}

// Rows so long that a device cuts them, among short and empty ones.
CsrMatrix<double> with_long_rows() {
  constexpr std::int32_t n = 12000;
  std::mt19937 random(9);
  const auto values = rough_vector<double>(n * 64, 9);
  std::vector<Triplet<double>> triplets;
  for (std::int32_t r = 0; r < n; ++r) {
    const std::int32_t count = r % 400 == 7 ? n : r % 9;
    for (std::int32_t k = 0; k < count; ++k) {
      const auto low = static_cast<std::int32_t>(std::int64_t{n} * k / count);
      const auto high = static_cast<std::int32_t>(std::int64_t{n} * (k + 1) / count);
      triplets.push_back({r, low + static_cast<std::int32_t>(random() % static_cast<unsigned>(high - low)),
                          values[triplets.size() % values.size()]});
    }
  }
  return csr_from_triplets<double>(test_context(), n, n, triplets);
}

TEST(DeterministicMode, DeviceGivesTheSameBitsFromTwoBuilds) {
  if (Context::device_count() == 0) GTEST_SKIP() << no_device;
  const auto csr = with_long_rows();
  const auto x = rough_vector<double>(csr.cols(), 1), y0 = rough_vector<double>(csr.rows(), 2);
  int compared = 0;
  for (const FormatEntry* format : layouts())
    for (const Kernel& kernel : kernels_in(*format, Space::device)) {
      if (!kernel.unavailable.empty()) continue;
      SCOPED_TRACE(std::string(format->id) + " " + std::string(kernel.name));
      std::vector<double> product, combined, dots;
      for (int run = 0; run < 6; ++run) {
        const ContextPtr context = Context::device(0, {.deterministic = true});
        std::unique_ptr<AssembledMatrix<double>> A;
        try {
          A = make_matrix(*format, placed(context, csr), context, {}, kernel.name);
        } catch (const FormatRefused&) { break; }
        const Placed<double> px(context, x);
        Placed<double> y(context, y0), z(context, y0), dot(context, {0.0});
        apply_dot<double>(*A, px.read(), y.view(), dot.data());
        A->apply(-0.7, px.read(), 1.3, z.view());
        if (run == 0) {
          product = y.fetch(), combined = z.fetch(), dots = dot.fetch();
          ++compared;
          EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y0, product));
        }
        EXPECT_TRUE(same_bits(product, y.fetch()));
        EXPECT_TRUE(same_bits(combined, z.fetch()));
        EXPECT_TRUE(same_bits(dots, dot.fetch()));
      }
    }
  EXPECT_GE(compared, 4);
}

// The values of a part of more than 4 MiB are written past the caches, which needs an aligned address. Of one size the
// allocator may give one by chance.
TEST(Deterministic, SellPackedOfAMillionEntries) {
  for (const double n : {520, 521, 522, 523, 524, 525, 526, 527}) {
    const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", n}});
    ASSERT_GT(csr.nonzeros() * std::int64_t{sizeof(float)}, std::int64_t{5} << 20);
    const std::vector<double> x = sample_vector<double>(csr.rows(), 1), y0(x.size(), 0.0);
    const auto A = make_matrix(find_format("sell-packed"), csr, context_of(1));
    std::vector<double> y(x.size());
    A->apply(1.0, {x.data(), csr.rows()}, 0.0, {y.data(), csr.rows()});
    EXPECT_TRUE(same_bits(reference(csr, 1.0, x, 0.0, y0), y)) << n;
  }
}

}  // namespace
}  // namespace protean::test
