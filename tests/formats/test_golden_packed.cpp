// The code words of sell-packed on small matrices, its kinds of slot, its bytes, and the entries of x that it
// reads.
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include "core/csr_view.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/compressed/sell_packed_layout.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;
using Triplets = std::vector<Triplet<double>>;

template <class Keep>
CsrMatrix<double> from_rule(std::int64_t rows, std::int64_t cols, Keep keep) {
  Triplets triplets;
  for (std::int32_t r = 0; r < rows; ++r)
    for (std::int32_t c = 0; c < cols; ++c)
      if (keep(r, c)) triplets.push_back({r, c, 1.0 + r + c / 8.0});
  return csr_from_triplets<double>(test_context(), rows, cols, triplets);
}

CsrMatrix<double> stencil_7point(std::int32_t n) {
  Triplets triplets;
  for (std::int32_t r = 0; r < n * n * n; ++r) {
    const std::int32_t x = r % n, y = r / n % n, z = r / (n * n);
    const auto add = [&](bool inside, std::int32_t step, double value) {
      if (inside) triplets.push_back({r, r + step, value});
    };
    add(z > 0, -n * n, -1), add(y > 0, -n, -1), add(x > 0, -1, -1), add(true, 0, 6);
    add(x + 1 < n, 1, -1), add(y + 1 < n, n, -1), add(z + 1 < n, n * n, -1);
  }
  return csr_from_triplets<double>(test_context(), n * n * n, n * n * n, triplets);
}

// The number of slots of each kind. Groups are counted as well, which shows the runs of pairs and quads.
struct Census {
  std::map<int, int> groups, slots;
  int chunks = 0, permuted = 0;
};

Census census(const AssembledMatrix<double>& matrix) {
  using namespace formats::packed;
  const Numbers numbers = layout_numbers(matrix, "code");
  const std::vector<std::uint32_t> words(numbers.begin(), numbers.end());
  Census found;
  const std::uint32_t* code = words.data();
  for (std::int64_t first = 0; first < matrix.rows(); first += window) {
    if (*code++) ++found.permuted, code += order_words;
    for (std::int64_t row = first; row < std::min<std::int64_t>(first + window, matrix.rows());
         row += height) {
      ChunkHeader header;
      do {
        header = read_header(code);
        code += header_words, ++found.chunks;
        for (int kind = 0; kind < kinds; ++kind)
          for (int g = 0; g < header.groups[kind]; ++g, code += group_words[kind]) {
            ++found.groups[kind];
            found.slots[kind] += read_group(static_cast<Kind>(kind), code).run;
          }
      } while (!header.last);
    }
  }
  EXPECT_EQ(code, words.data() + words.size());
  return found;
}

TEST(GoldenPacked, ThePictureOfTheHeader) {
  const auto matrix =
      build("sell-packed",
            csr_from_triplets<double>(
                test_context(), 4, 4,
                Triplets{{0, 0, 1}, {0, 1, 2}, {1, 1, 3}, {1, 2, 4}, {2, 0, 5}, {2, 2, 6}, {3, 3, 7}}));
  // Order word; no contiguous, pair, quad and 2 near; live 1111, last; base and four bytes of offsets, twice.
  EXPECT_EQ(layout_numbers(*matrix, "code"),
            (Numbers{0, 2.0 * (1 << 24), 15.0 * (1 << 16) + (1 << 24), 0, 0x03000100, 0, 1, 0x02010100, 0}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{1, 3, 5, 7, 0, 0, 0, 0, 2, 4, 6, 0, 0, 0, 0, 0}));
}

TEST(GoldenPacked, ATridiagonalMatrixIsContiguousButForItsFirstAndLastRow) {
  const auto matrix =
      build("sell-packed", from_rule(16, 16, [](auto r, auto c) { return std::abs(r - c) <= 1; }));
  const Numbers code = layout_numbers(*matrix, "code");
  const double live = 255.0 * (1 << 16) + (1 << 24);
  EXPECT_EQ(code,
            (Numbers{0,
                     // Diagonals 0 and 1; of diagonal -1 lane 0 is missing: columns 0..6 of lanes 1..7.
                     2 + (1 << 8), live, 0, 1, 0, 0x65432100, 0xfe * 65536.0 + (1 << 24),
                     // Diagonals -1 and 0; diagonal 1 without its last lane: columns 9..15, seen from 8.
                     2 + (1 << 8), live, 7, 8, 8, 0x07654321, 0x7f * 65536.0 + (1 << 24)}));
  const Numbers values = layout_numbers(*matrix, "values");
  ASSERT_EQ(values.size(), 48u);
  EXPECT_EQ(values[16], 0);            // row 0 has no column -1
  EXPECT_EQ(values[17], 2.0);          // row 1, column 0
  EXPECT_EQ(values[24], 9 + 7 / 8.0);  // row 8, column 7
}

TEST(GoldenPacked, AStencilTakesLessThanTenBytesAnEntry) {
  const auto csr = stencil_7point(24);
  const auto matrix = build("sell-packed", csr);
  EXPECT_LT(static_cast<double>(matrix->bytes()) / static_cast<double>(csr.nonzeros()), 10.0);
  Census found = census(*matrix);
  EXPECT_GT(found.slots[formats::packed::contiguous], 5 * found.slots[formats::packed::pair]);
  EXPECT_EQ(found.slots[formats::packed::far] + found.slots[formats::packed::wide], 0);
}

TEST(GoldenPacked, BlocksShareTheirCode) {
  // Nodes of 3 unknowns, each with itself and the node 20 further on: pairs in runs of 3.
  const auto csr = from_rule(240, 240, [](auto r, auto c) { return c / 3 == r / 3 || c / 3 == r / 3 + 20; });
  Census found = census(*build("sell-packed", csr));
  // 23 slices have rows of 6 entries, 7 of 3.
  EXPECT_EQ(found.slots[formats::packed::pair] + found.slots[formats::packed::contiguous], 23 * 6 + 7 * 3);
  EXPECT_LE(found.slots[formats::packed::contiguous], 10);
  EXPECT_LE(found.groups[formats::packed::pair] * 2, found.slots[formats::packed::pair]);
  EXPECT_EQ(found.slots[formats::packed::near] + found.slots[formats::packed::far], 0);
}

// The kind of the only slot of a matrix of 8 rows with one entry each. Also checks its product and its way
// back to CSR.
int kind_of_one_slot(std::int64_t cols, std::vector<std::int32_t> columns) {
  Triplets triplets;
  for (std::int32_t r = 0; r < 8; ++r) triplets.push_back({r, columns[r], 1.0 + r});
  const auto csr = csr_from_triplets<double>(test_context(), 8, cols, triplets);
  const auto matrix = build("sell-packed", csr);
  EXPECT_TRUE(identical(csr, matrix->to_csr()));
  const auto x = sample_vector<double>(cols, 5);
  std::vector<double> y(8);
  matrix->apply(VectorView<const double>{x.data(), cols}, {y.data(), 8});
  EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y, y));
  Census found = census(*matrix);
  EXPECT_EQ(found.slots.size(), 1u);
  return found.slots.begin()->first;
}

TEST(GoldenPacked, EachKindIsChosenWhereItIsTheNarrowest) {
  using namespace formats::packed;
  const auto one_slot = kind_of_one_slot;
  EXPECT_EQ(one_slot(20, {12, 13, 14, 15, 16, 17, 18, 19}), contiguous);
  EXPECT_EQ(one_slot(20, {19, 18, 17, 16, 15, 14, 13, 12}), pair);
  EXPECT_EQ(one_slot(70000, {0, 65535, 7, 65536, 3, 65537, 0, 65542}), pair);
  EXPECT_EQ(one_slot(4000, {0, 1000, 2000, 3999, 7, 1007, 2007, 3992}), quad);
  EXPECT_EQ(one_slot(4000, {0, 50, 100, 150, 200, 250, 20, 70}), near);
  EXPECT_EQ(one_slot(4000, {0, 500, 1000, 1500, 2000, 2500, 20, 70}), far);
  EXPECT_EQ(one_slot(100000, {0, 500, 1000, 1500, 2000, 2500, 20, 99999}), wide);
  EXPECT_EQ(one_slot(7, {6, 5, 4, 3, 2, 1, 0, 6}), near);  // x is shorter than a stretch of 8
}

// Offsets have 8 or 16 bits. Tests the widest slot that each kind can hold, and one that is wider by one
// column.
TEST(GoldenPacked, EachKindHoldsAllThatItsOffsetsCanSay) {
  using namespace formats::packed;
  const auto with_last = [](std::int32_t last) {
    return kind_of_one_slot(70000, {0, 30, 60, 90, 120, 150, 180, last});
  };
  EXPECT_EQ(with_last(255), near);
  EXPECT_EQ(with_last(256), far);
  EXPECT_EQ(with_last(65535), far);
  EXPECT_EQ(with_last(65536), wide);
  // Two and four stretches of neighbours, of which the last begins at the given column.
  const auto pair_to = [](std::int32_t at) {
    return kind_of_one_slot(70000, {0, 7, 3, 1, at, at + 7, at + 1, at + 2});
  };
  EXPECT_EQ(pair_to(65535), pair);
  EXPECT_EQ(pair_to(65536), wide);
  const auto quad_to = [](std::int32_t at) {
    return kind_of_one_slot(70000, {0, 7, 1000, 1007, 2000, 2007, at, at + 7});
  };
  EXPECT_EQ(quad_to(65535), quad);
  EXPECT_EQ(quad_to(65536), wide);
}

TEST(GoldenPacked, ManyGroupsContinueInAnotherChunk) {
  // 300 slots whose columns are far from each other, so that no run joins them; and one run of 700.
  for (const auto& csr : {from_rule(8, 3000, [](auto r, auto c) { return c % 10 == (r * 7) % 10; }),
                          from_rule(3, 701, [](auto r, auto c) { return r != 1 || c % 100 == 3; })}) {
    const auto matrix = build("sell-packed", csr);
    EXPECT_TRUE(identical(csr, matrix->to_csr()));
    const auto x = sample_vector<double>(csr.cols(), 5);
    std::vector<double> y(csr.rows());
    matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
    EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y, y));
  }
  EXPECT_EQ(
      census(*build("sell-packed", from_rule(8, 3000, [](auto r, auto c) { return c % 10 == (r * 7) % 10; })))
          .chunks,
      2);
}

TEST(GoldenPacked, RowsAreSortedWhereThatSavesPadding) {
  const auto csr =
      from_rule(512, 512, [](auto r, auto c) { return r == c || (r % 8 == 0 && (c * 5 + r) % 16 == 0); });
  const auto automatic = build("sell-packed", csr),
             natural = build("sell-packed", csr, {{"order", "natural"}});
  EXPECT_EQ(census(*automatic).permuted, 2);
  EXPECT_EQ(census(*natural).permuted, 0);
  EXPECT_LT(automatic->bytes() * 3, natural->bytes());
  EXPECT_EQ(census(*build("sell-packed", stencil_7point(12))).permuted, 0);
  EXPECT_GT(census(*build("sell-packed", stencil_7point(12), {{"order", "sorted"}})).permuted, 0);
}

TEST(GoldenPacked, NanInXReachesExactlyTheRowsThatStoreItsColumn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    const auto& csr = entry.matrix;
    for (const std::string order : {"auto", "natural", "sorted"}) {
      const auto matrix = build("sell-packed", csr, {{"order", order}});
      const std::int64_t step = std::max<std::int64_t>(1, csr.cols() / 97);
      for (std::int64_t bad = 0; bad < csr.cols(); bad += step) {
        auto x = sample_vector<double>(csr.cols(), 1);
        x[bad] = nan;
        std::vector<double> y(csr.rows(), 0.0);
        matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
        for (std::int64_t r = 0; r < csr.rows(); ++r) {
          const auto row = csr.pattern.row(r);
          const bool stored = std::binary_search(row.begin(), row.end(), static_cast<std::int32_t>(bad));
          ASSERT_EQ(std::isnan(y[r]), stored) << "row " << r << ", column " << bad << ", order " << order;
        }
      }
    }
  }
}

TEST(GoldenPacked, SignsOfStoredZerosSurvive) {
  CsrMatrix<double> csr = deep_copy(test_context(), battery_matrix("power_law_500"));
  for (std::int64_t k = 0; k < csr.nonzeros(); ++k) const_cast<double*>(csr.values)[k] = k % 2 ? -0.0 : 0.0;
  for (const std::string order : {"natural", "sorted"})
    EXPECT_TRUE(identical(csr, build("sell-packed", csr, {{"order", order}})->to_csr()));
}

// A matrix larger than the caches: its values are written past them.
TEST(GoldenPacked, LargeMatricesTakeNewValues) {
  const ContextPtr context = Context::host(1);
  for (const auto& [kind, n] : {std::pair("poisson-3d", 45.0), std::pair("random-spd", 60000.0)}) {
    const CsrMatrix<double> csr = generate(context, kind, {{"n", n}});
    ASSERT_GT(csr.nonzeros() * 8, 4 << 20);
    std::vector<double> values(static_cast<std::size_t>(csr.nonzeros()));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = 1.0 + static_cast<double>(k);
    const auto other = with_values(csr, values.data());
    const auto matrix = make_matrix(find_format("sell-packed"), csr, context);
    EXPECT_TRUE(identical(matrix->to_csr(), csr));
    matrix->update_values(other);
    EXPECT_TRUE(identical(matrix->to_csr(), other));
    const auto floats = convert_values<float>(context, other);
    EXPECT_TRUE(identical(make_matrix(find_format("sell-packed"), floats, context)->to_csr(), floats));
  }
}

TEST(GoldenPacked, OtherColumnsAreRefusedAsNewValues) {
  const auto matrix = build("sell-packed", from_rule(40, 40, [](auto r, auto c) { return r == c; }));
  EXPECT_THROW(matrix->update_values(from_rule(40, 40, [](auto r, auto c) { return r + c == 39; })),
               ShapeMismatch);
}

TEST(GoldenPacked, NewValuesArriveByEveryRuleByWhichSlotsAreMade) {
  using namespace formats::packed;
  std::set<int> rules, sizes;
  const auto check = [&](const CsrMatrix<double>& csr) {
    CsrMatrix<double> other = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
      const_cast<double*>(other.values)[k] = 1 / static_cast<double>(k + 3);
    for (const std::string order : {"auto", "natural", "sorted"}) {
      const auto matrix = build("sell-packed", csr, {{"order", order}});
      matrix->update_values(other);
      EXPECT_TRUE(identical(other, matrix->to_csr()));
      EXPECT_EQ(layout_numbers(*matrix, "values"),
                layout_numbers(*build("sell-packed", other, {{"order", order}}), "values"));
    }
    const auto places = layout_numbers(*build("sell-packed", csr, {{"order", "natural"}}), "places");
    rules.insert(static_cast<int>(places[0]) & 3), sizes.insert(static_cast<int>(places[0]) >> 2);
  };
  check(from_rule(80, 80, [](auto r, auto c) { return (r * 7 + c * 3) % 11 == 0; }));
  // Three diagonals that all rows have, and one that row 4 of every 8 lacks.
  check(from_rule(80, 90, [](auto r, auto c) {
    return c == r || c == r + 1 || c == r + 3 || (c == r + 9 && r % 8 != 4);
  }));
  // Three diagonals, and two more entries in each row, on other diagonals, between them and after them.
  check(from_rule(80, 120, [](auto r, auto c) {
    return c == r || c == r + 1 || c == r + 20 || c == r + 3 + r % 5 || c == r + 22 + r * r % 7;
  }));
  check(from_rule(8, 3000, [](auto r, auto c) { return c % 10 == (r * 7) % 10; }));
  EXPECT_EQ(rules, (std::set<int>{by_rank, full_then_rank, by_diagonal}));
  EXPECT_EQ(sizes, (std::set<int>{1, 2}));
}

TEST(GoldenPacked, OneLongRowAmongShortOnesIsRefused) {
  Triplets triplets;
  for (std::int32_t c = 0; c < 100000; ++c) triplets.push_back({3, c, 1.0});
  const auto csr = csr_from_triplets<double>(test_context(), 10, 100000, triplets);
  EXPECT_THROW(build("sell-packed", csr), FormatRefused);
}

// On a GPU long codes make a large matrix slower than other formats do. The parameter allows them.
TEST(GoldenPacked, LongCodesAreRefusedForLargeMatricesOnADevice) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  const auto build_there = [&](const CsrMatrix<double>& csr, const FormatParams& params) {
    return make_matrix(find_format("sell-packed"), upload(device, csr), device, params)->bytes();
  };
  const auto stencil = generate(test_context(), "poisson-3d", {{"n", 55}});
  ASSERT_GE(stencil.nonzeros(), 1 << 20);
  EXPECT_GT(build_there(stencil, {}), 0u);
  const auto random = generate(test_context(), "random-spd", {{"n", 120000}, {"degree", 10}});
  ASSERT_GE(random.nonzeros(), 1 << 20);
  EXPECT_THROW(build_there(random, {}), FormatRefused);
  EXPECT_GT(build_there(random, {{"percent", "1000"}}), 0u);
}

}  // namespace
}  // namespace protean::test
