// Symmetric sparse skyline: its arrays on T8 made symmetric, the property by which it differs from its neighbours, what
// it refuses, solves with it, and its kernels on a GPU. The contract runs on separate symmetric matrices
// (support/symmetric.hpp).
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "core/statistics.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "gtest/gtest.h"
#include "solvers/solver.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/queued_kernels.hpp"
#include "support/space.hpp"
#include "support/symmetric.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;
using Matrix = AssembledMatrix<double>;

std::optional<Numbers> array_of(const Matrix& matrix, std::string_view name) {
  const auto* shown = dynamic_cast<const HasLayout*>(&matrix);
  if (!shown) return {};
  for (const LayoutArray& array : shown->layout())
    if (array.name == name) return array.numbers;
  return {};
}

std::int64_t diagonal_entries(const CsrMatrix<double>& csr) {
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    for (const std::int32_t c : csr.pattern.row(r)) count += c == r;
  return count;
}

// The distinguishing property: half of the entries off the diagonal are stored, in columns below their rows, and the
// diagonal apart.
bool stores_one_half(const Matrix& matrix, const CsrMatrix<double>& csr) {
  const auto row_ptr = array_of(matrix, "row_ptr"), col = array_of(matrix, "col"),
             values = array_of(matrix, "values"), diagonal = array_of(matrix, "diagonal");
  if (!row_ptr || !col || !values || !diagonal) return false;
  const auto half = static_cast<std::size_t>((csr.nonzeros() - diagonal_entries(csr)) / 2);
  if (col->size() != half || values->size() != half) return false;
  if (diagonal->size() != static_cast<std::size_t>(csr.rows())) return false;
  for (std::size_t r = 0; r + 1 < row_ptr->size(); ++r)
    for (auto k = static_cast<std::size_t>((*row_ptr)[r]); k < static_cast<std::size_t>((*row_ptr)[r + 1]);
         ++k)
      if ((*col)[k] >= static_cast<double>(r)) return false;
  return true;
}

TEST(FamilySymmetric, SssOnT8MadeSymmetric) {
  const CsrMatrix<double> csr = symmetric_of(t8());
  ASSERT_EQ(csr.nonzeros(), 38);
  const auto matrix = build("sss", csr);
  EXPECT_EQ(layout_numbers(*matrix, "row_ptr"), (Numbers{0, 0, 1, 2, 4, 6, 11, 12, 16}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 1, 1, 2, 0, 1, 0, 1, 2, 3, 4, 5, 3, 4, 5, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{12, 23, 24, 34, 51, 25, 61, 88, 63, 64, 65, 67, 84, 58, 68, 165}));
  EXPECT_EQ(layout_numbers(*matrix, "diagonal"), (Numbers{11, 22, 0, 0, 55, 66, 77, 88}));
  EXPECT_EQ(layout_numbers(*matrix, "stored"), (Numbers{243}));  // rows 2 and 3 have no entry there
  EXPECT_EQ(matrix->bytes(), 12u * 16 + 4 * 9 + 8 * 8 + 1);
  EXPECT_TRUE(identical(csr, matrix->to_csr()));
}

TEST(FamilySymmetric, AWholeDiagonalNeedsNoBits) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 5}});
  const auto matrix = build("sss", csr);
  EXPECT_TRUE(layout_numbers(*matrix, "stored").empty());
  EXPECT_EQ(matrix->bytes(), 12u * 40 + 4 * 26 + 8 * 25);
}

TEST(FamilySymmetric, OnlySssStoresOneHalf) {
  const CsrMatrix<double> csr = symmetric_of(t8());
  EXPECT_TRUE(stores_one_half(*build("sss", csr), csr));
  for (const char* other : {"csr", "csc", "coo", "hdc", "hll", "icsr", "dia"})
    EXPECT_FALSE(stores_one_half(*build(other, csr,
                                        std::string_view(other) == "dia" || std::string_view(other) == "hll"
                                            ? FormatParams{{"max_fill", "1000"}}
                                            : FormatParams{}),
                                 csr))
        << other;
}

std::string refusal(const CsrMatrix<double>& csr) {
  try {
    build("sss", csr);
  } catch (const FormatRefused& refused) { return refused.reason(); }
  return "was built";
}
void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(FamilySymmetric, RefusalsNameTheEntry) {
  expect_in(refusal(battery_matrix("band_wide_rect_30x90")), "30 x 90");
  expect_in(refusal(battery_matrix("cols_5x0")), "5 x 0");
  // T8 has a_15 and no a_51 ... but row 5 is full; a_40 is stored and a_04 is not.
  const std::vector<Triplet<double>> above{{0, 0, 1}, {0, 2, 3}, {2, 2, 1}},
      below{{0, 0, 1}, {2, 0, 3}, {2, 2, 1}};
  expect_in(refusal(csr_from_triplets<double>(test_context(), 3, 3, above)),
            "an entry in row 0, column 2 (from 0) and none in row 2, column 0");
  expect_in(refusal(csr_from_triplets<double>(test_context(), 3, 3, below)),
            "an entry in row 2, column 0 (from 0) and none in row 0, column 2");
  // As many entries above as below, and none has a mirror.
  const std::vector<Triplet<double>> cycle{{0, 1, 1}, {1, 2, 1}, {2, 0, 1}, {3, 0, 1}};
  expect_in(refusal(csr_from_triplets<double>(test_context(), 4, 4, cycle)), "an entry in row 0, column 1");
  // One bit apart.
  std::vector<Triplet<double>> near{{0, 1, 1.0}, {1, 0, std::nextafter(1.0, 2.0)}};
  expect_in(refusal(csr_from_triplets<double>(test_context(), 2, 2, near)),
            "the entries in row 0, column 1 (from 0) and in row 1, column 0 differ");
  near[0].value = 0.0, near[1].value = -0.0;
  expect_in(refusal(csr_from_triplets<double>(test_context(), 2, 2, near)), "differ");
  near[0].value = near[1].value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal(csr_from_triplets<double>(test_context(), 2, 2, near)), "was built");
}

TEST(FamilySymmetric, AsymmetryIsFoundWithAnyNumberOfThreads) {
  const CsrMatrix<double> good = generate(test_context(), "poisson-3d", {{"n", 20}});
  const std::int64_t k = good.pattern.row_ptr[7000] + 1;
  const CsrMatrix<double> bad = deep_copy(test_context(), good);
  const_cast<double*>(bad.values)[k] += 0x1p-50;
  for (const int threads : {1, 2, 3, 7}) {
    const ContextPtr context = Context::host(threads);
    EXPECT_FALSE(first_asymmetry(*context, good.pattern, good.values));
    const auto found = first_asymmetry(*context, bad.pattern, bad.values);
    ASSERT_TRUE(found);
    EXPECT_FALSE(found->without_mirror);
    // The entry itself, or its mirror above the diagonal.
    EXPECT_EQ(std::max(found->row, found->col), std::max<std::int64_t>(7000, good.pattern.col[k]));
    EXPECT_EQ(std::min(found->row, found->col), std::min<std::int64_t>(7000, good.pattern.col[k]));
    EXPECT_FALSE(first_asymmetry<double>(*context, bad.pattern, nullptr));
  }
}

TEST(FamilySymmetric, ValuesThatBreakTheSymmetryAreRefusedAndChangeNothing) {
  const CsrMatrix<double> csr = symmetric_of(battery_matrix("random_257"));
  const auto matrix = build("sss", csr);
  const CsrMatrix<double> broken = deep_copy(test_context(), csr);
  const_cast<double*>(broken.values)[0] += 1;  // a_01 or so
  const Revision before = matrix->revision();
  ASSERT_NE(csr.pattern.col[0], 0);
  EXPECT_THROW(matrix->update_values(broken), FormatRefused);
  EXPECT_EQ(matrix->revision(), before);
  EXPECT_TRUE(identical(csr, matrix->to_csr()));
  const CsrMatrix<double> doubled = deep_copy(test_context(), csr);
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(doubled.values)[k] *= 2;
  matrix->update_values(doubled);
  EXPECT_TRUE(identical(doubled, matrix->to_csr()));
  // The bits of a fresh build, in products too.
  const auto fresh = build("sss", doubled);
  const auto x = sample_vector<double>(csr.cols(), 1);
  std::vector<double> y(x.size()), z(x.size());
  matrix->apply({x.data(), csr.cols()}, {y.data(), csr.rows()});
  fresh->apply({x.data(), csr.cols()}, {z.data(), csr.rows()});
  EXPECT_EQ(y, z);
}

// More threads than one have windows, and always give the same bits.
TEST(FamilySymmetric, TheSameBitsForTheSameThreads) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 16}});
  const auto x = sample_vector<double>(csr.cols(), 1);
  for (const int threads : {1, 2, 5}) {
    const ContextPtr context = Context::host(threads);
    const auto matrix = make_matrix(find_format("sss"), csr, context);
    EXPECT_EQ(matrix->bytes(), admit(find_format("sss"), *context, csr.pattern, {}, 8).bytes);
    if (threads == 1) { EXPECT_EQ(matrix->bytes(), 12u * 11520 + 4 * 4097 + 8 * 4096); }
    if (threads == 2) { EXPECT_EQ(matrix->bytes(), 12u * 11520 + 4 * 4097 + 8 * 4096 + 8 * 256); }
    std::vector<double> first(x.size()), again(x.size());
    matrix->apply({x.data(), csr.cols()}, {first.data(), csr.rows()});
    EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, x, first));
    for (int run = 0; run < 20; ++run) {
      matrix->apply({x.data(), csr.cols()}, {again.data(), csr.rows()});
      ASSERT_EQ(first, again);
    }
  }
}

TEST(FamilySymmetric, CgConvergesAsWithCsr) {
  for (const auto& [kind, params] : {std::pair<const char*, GeneratorParams>{"poisson-2d", {{"n", 30}}},
                                     {"elasticity-3d", {{"n", 5}}},
                                     {"random-spd", {{"n", 900}, {"degree", 7}}}}) {
    SCOPED_TRACE(kind);
    const CsrMatrix<double> csr = generate(test_context(), kind, params);
    std::vector<double> b(static_cast<std::size_t>(csr.rows()), 1.0);
    std::int64_t iterations[2];
    for (const int i : {0, 1}) {
      std::vector<double> x(b.size(), 0.0);
      const auto A = build(i == 0 ? "csr" : "sss", csr);
      const SolveReport report = make_solver<double>("cg")->solve(
          *A, VectorView<const double>{b.data(), csr.rows()}, VectorView<double>{x.data(), csr.rows()});
      EXPECT_TRUE(report.converged());
      EXPECT_LE(report.true_relative, 1e-8);
      iterations[i] = report.iterations;
    }
    EXPECT_NEAR(static_cast<double>(iterations[0]), static_cast<double>(iterations[1]),
                2 + 0.02 * static_cast<double>(iterations[0]));
  }
}

// ---- on a GPU: products in which many blocks of threads add to the same rows

class SymmetricOnADevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    context_ = test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
  }
  std::unique_ptr<Matrix> on_device(const CsrMatrix<double>& csr) const {
    return make_matrix(find_format("sss"), placed(context_, csr), context_, {}, GetParam());
  }
  // Products one after another, into a y that is read, written only, and added to.
  void products_are_right(const CsrMatrix<double>& csr) const {
    const auto matrix = on_device(csr);
    EXPECT_TRUE(identical(csr, fetched(context_, matrix->to_csr())));
    const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
    const Numbers poison(y0.size(), std::numeric_limits<double>::quiet_NaN());
    const Placed<double> px(context_, x);
    for (int run = 0; run < 4; ++run)
      for (const double beta : {0.0, 1.0, -0.5}) {
        Placed<double> y(context_, beta == 0 ? poison : y0);
        matrix->apply(-2.0, px.read(), beta, y.view());
        ASSERT_TRUE(product_is_right(csr, -2.0, x, beta, y0, y.fetch())) << "run " << run << " beta " << beta;
      }
  }
  ContextPtr context_;
};

TEST_P(SymmetricOnADevice, Stencils) {
  for (const double n : {11.0, 50.0}) {
    SCOPED_TRACE(n);
    products_are_right(generate(test_context(), "poisson-3d", {{"n", n}}));
  }
  products_are_right(generate(test_context(), "elasticity-3d", {{"n", 16}}));
}

// All rows reach row 0, and one row reaches all before it.
TEST_P(SymmetricOnADevice, OneColumnOfAllRowsAndOneFullRow) {
  std::vector<Triplet<double>> entries;
  constexpr std::int32_t rows = 40000, full = 30001;
  const auto add = [&](std::int32_t r, std::int32_t c) {
    const double value = 1.0 / (1 + (r * 7 + c * 3) % 11);
    entries.push_back({r, c, value});
    entries.push_back({c, r, value});
  };
  for (std::int32_t r = 1; r < rows; ++r) add(r, 0);
  for (std::int32_t c = 1; c < full; c += 3) add(full, c);
  for (std::int32_t r = 0; r < rows; r += 2) entries.push_back({r, r, 4.0});
  products_are_right(csr_from_triplets<double>(test_context(), rows, rows, entries));
}

TEST_P(SymmetricOnADevice, RandomColumns) {
  products_are_right(generate(test_context(), "random-spd", {{"n", 200000}, {"degree", 6}}));
}

INSTANTIATE_TEST_SUITE_P(Kernels, SymmetricOnADevice, testing::Values("native", "rows", "slices", "gather"),
                         [](const auto& instance) { return std::string(instance.param); });

// On a stencil native queues what slices queues, on random columns and on few rows what rows queues; these differ.
TEST(SymmetricNative, TakesSlicesWhereManyRowsAreAlike) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  const auto queued = [&](const CsrMatrix<double>& csr, const char* kernel) {
    const auto matrix = make_matrix(find_format("sss"), placed(context, csr), context, {}, kernel);
    const Placed<double> x(context, sample_vector<double>(csr.cols(), 1));
    Placed<double> y(context, sample_vector<double>(csr.rows(), 2));
    matrix->apply(x.read(), y.view());  // loads the code
    return queued_kernels(context, [&] { matrix->apply(2.0, x.read(), 0.5, y.view()); });
  };
  const CsrMatrix<double> stencil = generate(test_context(), "poisson-3d", {{"n", 60}}),
                          random = generate(test_context(), "random-spd", {{"n", 200000}, {"degree", 6}}),
                          small = generate(test_context(), "poisson-3d", {{"n", 20}});
  EXPECT_NE(queued(stencil, "slices"), queued(stencil, "rows"));
  EXPECT_EQ(queued(stencil, "native"), queued(stencil, "slices"));
  EXPECT_NE(queued(random, "slices"), queued(random, "rows"));
  EXPECT_EQ(queued(random, "native"), queued(random, "rows"));
  EXPECT_NE(queued(small, "slices"), queued(small, "rows"));
  EXPECT_EQ(queued(small, "native"), queued(small, "rows"));
}

// The survey sees only patterns, so it must be informed that values are symmetric.
TEST(FamilySymmetric, TheSurveySeesItWhereValuesAreKnownToBeSymmetric) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 30}});
  const auto surveyed = [&](bool symmetric) -> std::optional<std::size_t> {
    for (const SwitchTarget& target : survey_formats(csr.pattern, Space::host, false, 8, symmetric))
      if (target.spec.entry->id == "sss") return target.admitted ? target.bytes : 0;
    return {};
  };
  EXPECT_FALSE(surveyed(false));
  const auto bytes = surveyed(true);
  ASSERT_TRUE(bytes);
  const std::size_t exact = admit(find_format("sss"), *Context::host(1), csr.pattern, {}, 8).bytes;
  EXPECT_EQ(*bytes, exact);
  // A small matrix is asked as a whole: its pattern is not symmetric.
  for (const SwitchTarget& target : survey_formats(t8().pattern, Space::host, false, 8, true))
    if (target.spec.entry->id == "sss") { EXPECT_FALSE(target.admitted); }
}

}  // namespace
}  // namespace protean::test
