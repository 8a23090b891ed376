// No format and no host kernel reads or writes beyond its arrays. The vectors, and the arrays from which a
// matrix is made and updated, lie between protected pages (support/guarded_array.hpp). In part of the cases
// the arrays of the matrix do as well. An access beyond them ends this program with a message.
#include "core/identical.hpp"
#include "formats/simd.hpp"
// (Before Highway, which lists the instruction sets for which the kernels are compiled.)
#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/background.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "formats/random_params.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/fake_device.hpp"
#include "support/guarded_array.hpp"
#include "support/oracle.hpp"
#include "support/symmetric.hpp"

namespace protean::test {
namespace {

struct Way {
  const FormatEntry* format;
  const Kernel* kernel;
};

std::vector<Way> ways() {
  std::vector<Way> list;
  for (const FormatEntry* format : layouts())
    for (const Kernel& kernel : format->kernels) list.push_back({format, &kernel});
  return list;
}

// A matrix whose three arrays lie between protected pages and may not be written.
template <class T>
class GuardedCsr {
 public:
  GuardedCsr(const CsrMatrix<T>& from, Border border, bool wide, T factor)
      : ptr32_("row_ptr", wide ? std::vector<std::int32_t>{} : pointers<std::int32_t>(from.pattern), border),
        ptr64_("row_ptr", wide ? pointers<std::int64_t>(from.pattern) : std::vector<std::int64_t>{}, border),
        col_("col", std::vector<std::int32_t>(from.pattern.col, from.pattern.col + from.nonzeros()), border),
        values_("values", scaled(from, factor), border),
        view_(wide ? csr_view(from.rows(), from.cols(), ptr64_.data(), col_.data(), values_.data())
                   : csr_view(from.rows(), from.cols(), ptr32_.data(), col_.data(), values_.data())) {}
  const CsrMatrix<T>& view() const { return view_; }

 private:
  template <class P>
  static std::vector<P> pointers(const SparsityPattern& pattern) {
    std::vector<P> list;
    for (std::int64_t r = 0; r <= pattern.rows; ++r) list.push_back(static_cast<P>(pattern.row_ptr[r]));
    return list;
  }
  static std::vector<T> scaled(const CsrMatrix<T>& from, T factor) {
    std::vector<T> list(from.values, from.values + from.nonzeros());
    for (T& value : list) value *= factor;
    return list;
  }
  GuardedArray<const std::int32_t> ptr32_;
  GuardedArray<const std::int64_t> ptr64_;
  GuardedArray<const std::int32_t> col_;
  GuardedArray<const T> values_;
  CsrMatrix<T> view_;
};

using Length = std::function<std::int64_t(std::int64_t)>;

// A matrix whose row r has length(r) entries, either in consecutive columns or spread over the row.
CsrMatrix<double> with_lengths(std::int64_t rows, std::int64_t cols, std::mt19937& random, bool together,
                               const Length& length) {
  std::vector<Triplet<double>> list;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t n = std::min(cols, length(r)),
                       first = static_cast<std::int64_t>(random() % (cols - n + 1));
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t low = cols * k / n, high = cols * (k + 1) / n;
      const std::int64_t col =
          together ? first + k : low + static_cast<std::int64_t>(random() % (high - low));
      list.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(col),
                      static_cast<double>(1 + random() % 31) / 8});
    }
  }
  return csr_from_triplets<double>(test_context(), rows, cols, list);
}

// Rows before `dense` have the entries r + off for off in [-lower, upper]; the other rows have all columns.
CsrMatrix<double> banded(std::int64_t n, std::int64_t lower, std::int64_t upper, std::int64_t dense) {
  std::vector<Triplet<double>> list;
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = r < dense ? std::max<std::int64_t>(0, r - lower) : 0;
         c < (r < dense ? std::min(n, r + upper + 1) : n); ++c)
      list.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(c),
                      static_cast<double>((r + 3 * c) % 17) - 8.5});
  return csr_from_triplets<double>(test_context(), n, n, list);
}

// Most of these matrices have enough entries for several threads to get a part each. The heavy rows may be
// the first or the last ones.
CsrMatrix<double> random_matrix(std::mt19937& random) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  const std::int64_t rows = 1 + below(random() % 2 ? 40 : 1500), cols = 1 + below(random() % 2 ? 60 : 1500);
  const bool together = random() % 2;
  const std::int64_t mean = 1 + below(6000 / rows + 3), heavy = 1 + below(12), weight = below(cols + 1);
  switch (random() % 6) {
    case 0:  // the last rows are heavy
      return with_lengths(rows, cols, random, together,
                          [&](std::int64_t r) { return r >= rows - heavy ? weight : mean; });
    case 1:  // the first rows are heavy
      return with_lengths(rows, cols, random, together,
                          [&](std::int64_t r) { return r < heavy ? weight : mean; });
    case 2:
      return with_lengths(rows, cols, random, together, [&](std::int64_t) { return below(2 * mean + 1); });
    case 3:  // some rows are empty
      return with_lengths(rows, cols, random, together,
                          [&](std::int64_t) { return random() % 3 ? 0 : below(3 * mean + 1); });
    case 4: {
      const std::int64_t n = 100 + below(400);
      return banded(n, below(30), below(30), random() % 2 ? n : n - heavy);
    }
    default:
      return with_lengths(rows, cols, random, together, [&](std::int64_t) { return mean; });
  }
}

// The matrix of a seed, the same for all formats, and the random numbers that come next.
std::pair<CsrMatrix<double>, std::mt19937> random_shape(unsigned seed) {
  static std::map<unsigned, std::pair<CsrMatrix<double>, std::mt19937>> made;
  const auto found = made.find(seed);
  if (found != made.end()) return found->second;
  std::mt19937 random(seed);
  const CsrMatrix<double> csr = random_matrix(random);
  return made.emplace(seed, std::pair{csr, random}).first->second;
}

// While this lives, all parts of a parallel region run in the calling thread, in order. Who runs a part does not change
// what it reads and writes, and small matrices spend most of the time in threads that wake up and wait.
class PartsInThisThread {
 public:
  explicit PartsInThisThread(const ContextPtr& context)
      : work_{context.get(), &never_, 1, nullptr, nullptr} {}

 private:
  std::atomic<bool> never_{false};
  detail::Background work_;
  detail::BackgroundScope scope_{&work_};
};

class Guarded : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!GetParam().kernel->unavailable.empty()) GTEST_SKIP() << GetParam().kernel->unavailable;
  }

  // check() for the matrices, parameters and contexts of these seeds. Returns how many matrices were built. One of
  // `threaded` seeds uses several threads, the others run the same parts in this thread.
  static unsigned check_random_shapes(unsigned first, unsigned last, unsigned threaded);
  // Two thirds of the shapes are rectangular.
  static bool symmetric_only() { return GetParam().format->traits.symmetric_only; }
  // Of a symmetric one if the format holds no others.
  template <class T>
  static CsrMatrix<T> suitable(const CsrMatrix<T>& csr) {
    return symmetric_only() ? symmetric_of(csr) : csr;
  }
  static unsigned refused_share() { return GetParam().format->traits.square_only ? 3 : 1; }

  // Of one matrix. Those of a hundred diagonals and more in this many rows only take time.
  static constexpr std::size_t most_bytes = 4 << 20;

  // Does everything that a format can do, on guarded arrays. Returns false when the format refuses the matrix
  // or the parameters.
  template <class T>
  static bool check(const CsrMatrix<T>& csr, const ContextPtr& context, const FormatParams& params,
                    Border border, bool wide) {
    const GuardedCsr<T> source(csr, border, wide, T(1)), changed(csr, border, wide, T(2));
    const std::int64_t rows = csr.rows(), cols = csr.cols(), shorter = std::min(rows, cols);
    const auto x_values = sample_vector<T>(cols, 1), y0 = sample_vector<T>(rows, 2);
    const GuardedArray<const T> x_array("x", x_values, border);
    const VectorView<const T> x{x_array.data(), cols};
    std::unique_ptr<AssembledMatrix<T>> matrix;
    try {
      matrix = make_matrix(*GetParam().format, source.view(), context, params, GetParam().kernel->name,
                           most_bytes);
    } catch (const FormatRefused&) { return false; } catch (const OutOfMemory&) {
      return false;
    } catch (const BadArgument&) {  // parameters that do not go together
      return false;
    }
    for (const CsrMatrix<T>* now : {&source.view(), &changed.view()}) {
      if (now == &changed.view()) matrix->update_values(*now);
      for (const T beta : {T(0), T(0.5)}) {
        const GuardedArray<T> y("y", y0, border);
        matrix->apply(T(1.5), x, beta, {y.data(), rows});
        const std::vector<T> product(y.span().begin(), y.span().end());
        EXPECT_TRUE(product_is_right(*now, T(1.5), x_values, beta, y0, product));
      }
      if (rows == cols) {
        const GuardedArray<T> y("y of apply_dot", y0, border), dot("dot", std::vector<T>{0}, border);
        apply_dot<T>(*matrix, x, {y.data(), rows}, dot.data());
        const std::vector<T> product(y.span().begin(), y.span().end());
        EXPECT_TRUE(product_is_right(*now, T(1), x_values, T(0), y0, product));
      }
      std::vector<T> expected(static_cast<std::size_t>(shorter));
      const GuardedArray<T> diagonal("diagonal", expected, border);
      extract_diagonal(*test_context(), *now, expected.data());
      matrix->diagonal({diagonal.data(), shorter});
      EXPECT_TRUE(std::ranges::equal(diagonal.span(), expected));
      if (matrix->entry().traits.exact_values) { EXPECT_TRUE(identical(*now, matrix->to_csr())); }
    }
    return true;
  }

  // The same with the matrix's own arrays at the end of protected pages, up to their alignment.
  template <class T>
  static bool check_own_arrays(const CsrMatrix<T>& csr, const FormatParams& params, Border border,
                               bool wide) {
    const ContextPtr context = detail::simulated_context(std::make_shared<FakeDevice>(), Space::host);
    const detail::DeviceWork open(*context);
    return check(csr, context, params, border, wide);
  }

  static void name_case(const std::string& what, int threads, Border border) {
    set_guarded_case(std::string(GetParam().format->id) + "/" + std::string(GetParam().kernel->name) + ", " +
                     what + ", threads " + std::to_string(threads) +
                     (border == Border::end ? ", end" : ", begin"));
  }
};

TEST_P(Guarded, OnTheBattery) {
  int built = 0;
  for (const BatteryMatrix& entry : symmetric_only() ? symmetric_battery() : battery())
    for (const Border border : {Border::end, Border::begin}) {
      SCOPED_TRACE(entry.name);
      const FormatParams params = most_tolerant(*GetParam().format);
      for (const int threads : {1, 3}) {
        name_case(entry.name, threads, border);
        built += check(entry.matrix, Context::host(threads), params, border, threads == 3);
      }
      name_case(entry.name + ", float", 2, border);
      check_own_arrays(convert_values<float>(test_context(), entry.matrix), params, border, false);
      check_own_arrays(entry.matrix, params, border, false);
    }
  EXPECT_GT(built, 40);
}

unsigned Guarded::check_random_shapes(unsigned first, unsigned last, unsigned threaded) {
  unsigned built = 0;
  for (unsigned seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto [shape, random] = random_shape(seed);
    const CsrMatrix<double> csr = suitable(shape);
    FormatParams params = random_params(*GetParam().format, *GetParam().kernel, random);
    const Border border = random() % 2 ? Border::end : Border::begin;
    const bool wide = random() % 4 == 0, ordered = random() % 4 == 0 && GetParam().kernel->ordered;
    const int threads = static_cast<int>(std::array{1, 2, 3, 5, 8}[random() % 5]);
    name_case("random seed " + std::to_string(seed), threads, border);
    const ContextPtr context = Context::host(threads, {.deterministic = ordered});
    std::optional<PartsInThisThread> serial;
    if (seed % threaded != 0) serial.emplace(context);
    if (seed % 3 == 0)
      built += check_own_arrays(csr, params, border, wide);
    else if (seed % 3 == 1)
      built += check(csr, context, params, border, wide);
    else {
      if (params.has("values")) params.set("values", "auto");  // double is for vectors in double
      built += check(convert_values<float>(test_context(), csr), context, params, border, wide);
    }
  }
  return built;
}

TEST_P(Guarded, OnRandomShapes) { EXPECT_GT(check_random_shapes(1, 600, 30), 200u / refused_share()); }

// The kernels are compiled for several instruction sets, and this machine takes the best it has. A load that is
// masked in one of them may read whole vectors in another.
class GuardedOurs : public Guarded {};
TEST_P(GuardedOurs, InEveryInstructionSet) {
  struct Restored {
    ~Restored() { take(0); }
    static void take(std::int64_t targets) {
      hwy::SetSupportedTargetsForTest(targets);
      hwy::GetChosenTarget().DeInit();  // the next product chooses again
    }
  } restored;
  // OnRandomShapes is the first and best one, with these seeds and more.
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const std::int64_t target : std::span(targets).subspan(1)) {
    SCOPED_TRACE(hwy::TargetName(target));
    Restored::take(target);
    EXPECT_GT(check_random_shapes(1, 150, 151), 50u / refused_share());
    Restored::take(0);
  }
}

// Threads get parts of the rows by their weight. Here most of the weight is in the last rows, which do not
// fill a hack, a slice or a block row.
TEST_P(Guarded, WhereTheLastRowsAreHeavy) {
  FormatParams params;
  for (const ParamDoc& doc : GetParam().format->params)
    if (doc.name == "max_fill") params.set("max_fill", 64);
  int built = 0;
  for (const auto& [n, lower, upper, dense] : {std::array<std::int64_t, 4>{5000, 1, 1, 4992},
                                               {150, 20, 20, 150},
                                               {150, 40, 10, 149},
                                               {1029, 1, 1, 1025},
                                               {4099, 0, 0, 4098}}) {
    const CsrMatrix<double> csr = suitable(banded(n, lower, upper, dense));
    for (const int threads : {2, 8})
      for (const Border border : {Border::end, Border::begin}) {
        name_case("banded " + std::to_string(n), threads, border);
        built += check(csr, Context::host(threads), params, border, false);
      }
  }
  EXPECT_GE(built, 8);
}

std::string name_of(const testing::TestParamInfo<Way>& way) {
  std::string name = std::string(way.param.format->id) + "__" + std::string(way.param.kernel->name);
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Catalogue, Guarded, testing::ValuesIn(ways()), name_of);

// Kernels of libraries choose their instructions themselves.
std::vector<Way> our_ways() {
  std::vector<Way> list = ways();
  std::erase_if(list, [](const Way& way) { return way.kernel->name != "native"; });
  return list;
}
INSTANTIATE_TEST_SUITE_P(Catalogue, GuardedOurs, testing::ValuesIn(our_ways()), name_of);

// The guard itself.
TEST(GuardedArrayDeathTest, EveryAccessBeyondItIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // threads of the library are there
  set_guarded_case("the guard's own test");
  const std::vector<double> values{1, 2, 3};
  const GuardedArray<double> end("y", values, Border::end), begin("x", values, Border::begin);
  const GuardedArray<const double> fixed("values", values, Border::end);
  volatile double read = 0;
  volatile std::ptrdiff_t three = 3, minus_one = -1;  // so that the compiler does not know
  read = end.data()[2] + begin.data()[0] + fixed.data()[0];
  EXPECT_EQ(read, 5);
  EXPECT_DEATH(read = end.data()[three],
               "'y' of 24 bytes was read or written past its end, at byte 24; the guard");
  EXPECT_DEATH(end.data()[three] = 0, "past its end");
  EXPECT_DEATH(read = begin.data()[minus_one],
               "'x' of 24 bytes was read or written before its beginning, at byte -8");
  EXPECT_DEATH(const_cast<double*>(fixed.data())[0] = 1,
               "'values' of 24 bytes was written, which the test forbids");
}

}  // namespace
}  // namespace protean::test
