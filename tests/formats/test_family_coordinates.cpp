// Formats of coordinates and of columns: golden arrays on T8 of the format catalogue, and the property by which each
// differs from its neighbours, of which it does not hold. What differs only on a GPU is tested there.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/layout.hpp"
#include "support/oracle.hpp"
#include "support/queued_kernels.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

using Numbers = std::vector<double>;

// One array of a layout, empty when the format has no such array.
LayoutArray array_of(const AssembledMatrix<double>& matrix, std::string_view name) {
  for (const LayoutArray& one : dynamic_cast<const HasLayout&>(matrix).layout())
    if (one.name == name) return one;
  return {};
}

// ---- scoo

TEST(GoldenCoordinates, ScooSlicesOfT8) {
  const auto matrix = build("scoo", t8(), {{"height", "4"}, {"entries", "8"}});
  EXPECT_EQ(layout_numbers(*matrix, "slice_row"), (Numbers{0, 4, 6, 8}));
  EXPECT_EQ(layout_numbers(*matrix, "slice_ptr"), (Numbers{0, 8, 19, 24}));
  EXPECT_EQ(layout_numbers(*matrix, "local_row"),
            (Numbers{0, 0, 1, 1, 1, 2, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 0, 1}));
  EXPECT_EQ(layout_numbers(*matrix, "col"),
            (Numbers{0, 1, 1, 2, 3, 3, 4, 5, 0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 7, 3, 6, 6, 7, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "values"), (Numbers{11, 12, 22, 23, 24, 34, 25, 26, 51, 61, 62, 63,
                                                        64, 55, 65, 66, 67, 58, 68, 84, 77, 87, 78, 88}));
  EXPECT_EQ(matrix->bytes(), 24u * 13 + 4 * 12);
  EXPECT_TRUE(identical(t8(), matrix->to_csr()));
}

// A height that is no power of two stands for the one below; one slice of all rows is in the order of columns.
TEST(GoldenCoordinates, ScooOfOneSliceIsInTheOrderOfCsc) {
  const auto matrix = build("scoo", t8());
  EXPECT_EQ(layout_numbers(*matrix, "slice_row"), (Numbers{0, 8}));
  EXPECT_EQ(layout_numbers(*matrix, "local_row"), layout_numbers(*build("csc", t8()), "row"));
  EXPECT_EQ(layout_numbers(*build("scoo", t8(), {{"height", "7"}}), "slice_row"), (Numbers{0, 4, 8}));
  EXPECT_EQ(layout_numbers(*build("scoo", t8(), {{"height", "8"}, {"entries", "1"}}), "slice_row"),
            (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

// Slices of several rows with columns that ascend, and rows that do not; a byte for the row of an entry.
bool slices_are_sorted_by_column(const AssembledMatrix<double>& matrix) {
  const LayoutArray first = array_of(matrix, "slice_row"), ptr = array_of(matrix, "slice_ptr"),
                    row = array_of(matrix, "local_row"), col = array_of(matrix, "col");
  if (first.numbers.size() < 3 || row.type != "uint8" || row.numbers.size() != col.numbers.size())
    return false;
  bool mixed = false;
  for (std::size_t s = 0; s + 1 < ptr.numbers.size(); ++s) {
    const auto begin = static_cast<std::ptrdiff_t>(ptr.numbers[s]),
               end = static_cast<std::ptrdiff_t>(ptr.numbers[s + 1]);
    if (!std::is_sorted(col.numbers.begin() + begin, col.numbers.begin() + end)) return false;
    mixed = mixed || !std::is_sorted(row.numbers.begin() + begin, row.numbers.begin() + end);
  }
  return mixed;
}

TEST(Coordinates, ScooSortsByColumnWithinSlices) {
  const CsrMatrix<double>& csr = battery_matrix("random_257");
  EXPECT_TRUE(slices_are_sorted_by_column(*build("scoo", csr)));
  for (const char* neighbour : {"coo", "coo-segmented", "coo-atomic", "csc", "sell-c-sigma"})
    EXPECT_FALSE(slices_are_sorted_by_column(*build(neighbour, csr, {}))) << neighbour;
}

// A slice with heavy rows has fewer rows; 16 lower slices of the same group.
TEST(Coordinates, ScooCutsHeavyGroupsLower) {
  std::vector<Triplet<double>> triplets;
  for (std::int32_t r = 0; r < 600; ++r)
    for (std::int32_t c = 0; c < (r >= 256 && r < 512 ? 500 : 3); ++c) triplets.push_back({r, c, 1.0});
  const auto csr = csr_from_triplets<double>(test_context(), 600, 500, triplets);
  const auto matrix = build("scoo", csr);
  Numbers expected{0, 256};
  for (double r = 272; r <= 512; r += 16) expected.push_back(r);
  expected.push_back(600);
  EXPECT_EQ(layout_numbers(*matrix, "slice_row"), expected);
}

TEST(Coordinates, HaveDeterministicModeOnTheHost) {
  for (const char* id :
       {"coo-segmented", "coo-atomic", "csc-atomic", "csc-two-pass", "scoo", "aligned-coo", "hyb"})
    EXPECT_TRUE(find_format(id).kernels.front().ordered) << id;
}

// ---- aligned-coo

TEST(GoldenCoordinates, AlignedCooLanesOfT8) {
  const auto matrix = build("aligned-coo", t8(), {{"length", "6"}, {"width", "1"}});
  // Row 5 has two lanes; rows 1 and 2 share one, rows 4 and 7, rows 0 and 6.
  EXPECT_EQ(layout_numbers(*matrix, "row_of_slot"), (Numbers{5, 5, 1, 4, 0, 5, 5, 1, 4, 0, 5, 5, 1, 4, 6,
                                                             5, 5, 1, 7, 6, 5, 5, 1, 7, 6, 5, 5, 2, 7, 6}));
  EXPECT_EQ(layout_numbers(*matrix, "col"), (Numbers{0, 6, 1, 0, 0, 1, 7, 2, 4, 1, 2, 7, 3, 7, 6,
                                                     3, 7, 4, 3, 7, 4, 7, 5, 6, 7, 5, 7, 3, 7, 7}));
  EXPECT_EQ(layout_numbers(*matrix, "values"),
            (Numbers{61, 67, 22, 51, 11, 62, 68, 23, 55, 12, 63, 0, 24, 58, 77,
                     64, 0,  25, 84, 78, 65, 0,  26, 87, 0,  66, 0, 34, 88, 0}));
  EXPECT_EQ(layout_numbers(*matrix, "empty_row"), (Numbers{3}));
  EXPECT_EQ(matrix->bytes(), 30u * 16 + 4);
  EXPECT_TRUE(identical(t8(), matrix->to_csr()));
  // A warp of four lanes leaves three without entries.
  const auto four = build("aligned-coo", t8(), {{"length", "6"}, {"width", "4"}});
  EXPECT_EQ(layout_numbers(*four, "row_of_slot").size(), 48u);
  const Numbers rows = layout_numbers(*four, "row_of_slot");
  EXPECT_EQ((Numbers{rows.begin(), rows.begin() + 8}), (Numbers{5, 5, 1, 4, 0, -1, -1, -1}));
}

// Lanes as long as the longest row needs; first fit by descending length leaves one lane of 100 with room: 60 + 40,
// 55 + 45, 50 + 50, 30.
TEST(GoldenCoordinates, AlignedCooPacksTheLongestFirst) {
  std::vector<Triplet<double>> triplets;
  const std::int32_t lengths[] = {30, 40, 50, 60, 45, 55, 50, 100};
  for (std::int32_t r = 0; r < 8; ++r)
    for (std::int32_t c = 0; c < lengths[r]; ++c) triplets.push_back({r, c, 1.0 + c});
  const auto csr = csr_from_triplets<double>(test_context(), 8, 100, triplets);
  const auto matrix = build("aligned-coo", csr, {{"length", "100"}, {"width", "1"}});
  const Numbers rows = layout_numbers(*matrix, "row_of_slot");
  ASSERT_EQ(rows.size(), 500u);
  EXPECT_EQ((Numbers{rows.begin(), rows.begin() + 5}), (Numbers{7, 3, 5, 2, 0}));
  EXPECT_EQ((Numbers{rows.end() - 5, rows.end()}), (Numbers{7, 1, 4, 6, 0}));
}

// All lanes have as many slots, no light row lies in two lanes, and the rows are stored.
bool lanes_hold_whole_light_rows(const AssembledMatrix<double>& matrix, std::size_t length,
                                 std::size_t width) {
  const Numbers rows = array_of(matrix, "row_of_slot").numbers;
  if (rows.empty() || rows.size() % (length * width) != 0) return false;
  const std::size_t lanes = rows.size() / length;
  std::map<double, std::map<std::size_t, std::size_t>> slots;  // of each row in each lane
  for (std::size_t at = 0; at < rows.size(); ++at)
    if (rows[at] >= 0) ++slots[rows[at]][at % lanes];
  bool shared = false;  // a lane with two rows
  std::map<std::size_t, std::size_t> rows_of_lane;
  for (const auto& [row, in_lane] : slots) {
    std::size_t lane = in_lane.begin()->first;
    for (const auto& [l, count] : in_lane) {
      if (l != lane++) return false;  // neighbouring lanes
      if (in_lane.size() > 1 && count != length) return false;
      shared = shared || ++rows_of_lane[l] > 1;
    }
  }
  return shared;
}

TEST(Coordinates, AlignedCooKeepsLightRowsWhole) {
  const CsrMatrix<double>& csr = battery_matrix("power_law_500");
  EXPECT_TRUE(lanes_hold_whole_light_rows(
      *build("aligned-coo", csr, {{"length", "16"}, {"width", "32"}, {"max_fill_percent", "1000"}}), 16, 32));
  for (const char* neighbour : {"coo", "coo-segmented", "coo-atomic", "scoo", "jad", "sell-c-sigma"})
    EXPECT_FALSE(lanes_hold_whole_light_rows(
        *build(neighbour, csr,
               std::string_view(neighbour) == "sell-c-sigma" ? FormatParams{{"max_fill", "1000000"}}
                                                             : FormatParams{}),
        16, 32))
        << neighbour;
}

TEST(Coordinates, AlignedCooRefusesPaddingAndSaysHowMuch) {
  std::vector<Triplet<double>> triplets;  // rows of 9 in lanes of 16
  for (std::int32_t r = 0; r < 100; ++r)
    for (std::int32_t c = 0; c < 9; ++c) triplets.push_back({r, r + c, 1.0});
  const auto csr = csr_from_triplets<double>(test_context(), 100, 108, triplets);
  const Admission refused =
      admit(find_format("aligned-coo"), *test_context(), csr.pattern, {{"length", "16"}}, 8);
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.reason.find("1600 slots for 900 entries"), std::string::npos) << refused.reason;
  EXPECT_TRUE(admit(find_format("aligned-coo"), *test_context(), csr.pattern,
                    {{"length", "16"}, {"max_fill_percent", "180"}}, 8)
                  .ok);
  // The rule takes a length of which 9 is nearly a divisor: 64 = 7 x 9 + 1.
  const auto matrix = build("aligned-coo", csr, {{"width", "1"}});
  EXPECT_EQ(layout_numbers(*matrix, "col").size(), 15u * 64);
}

// Padding adds nothing, not even if x is infinite; rows that do not use the NaN stay finite.
TEST(Coordinates, PaddingOfAlignedCooReadsNothing) {
  const auto matrix = build("aligned-coo", t8(), {{"length", "6"}});
  Numbers x(8, 1.0), y(8);
  x[7] = std::numeric_limits<double>::infinity(), x[0] = std::numeric_limits<double>::quiet_NaN();
  matrix->apply(VectorView<const double>{x.data(), 8}, {y.data(), 8});
  for (int r : {1, 2, 3}) EXPECT_TRUE(std::isfinite(y[r])) << r;
  for (int r : {0, 4, 5}) EXPECT_TRUE(std::isnan(y[r])) << r;
  for (int r : {6, 7}) EXPECT_TRUE(std::isinf(y[r])) << r;
}

// ---- on a GPU

class CoordinatesOnADevice : public testing::Test {
 protected:
  void SetUp() override {
    context_ = test_context(Space::device);
    if (!context_) GTEST_SKIP() << no_device;
  }

  std::unique_ptr<AssembledMatrix<double>> on_device(std::string_view format,
                                                     const CsrMatrix<double>& csr) const {
    return make_matrix(find_format(format), placed(context_, csr), context_);
  }
  // Blocks of each kernel of a product y := A x + beta y.
  std::vector<std::int64_t> kernels(const AssembledMatrix<double>& matrix, double beta) const {
    const Placed<double> x(context_, Numbers(static_cast<std::size_t>(matrix.cols()), 1.0));
    Placed<double> y(context_, Numbers(static_cast<std::size_t>(matrix.rows()), 1.0));
    matrix.apply(1.0, x.read(), beta, y.view());  // loads the code
    return queued_kernels(context_, [&] { matrix.apply(1.0, x.read(), beta, y.view()); });
  }
  // The same bits in 20 products of a matrix with long rows.
  bool repeats(const AssembledMatrix<double>& matrix) const {
    const Placed<double> x(context_, sample_vector<double>(matrix.cols(), 5));
    std::optional<Numbers> first;
    for (int product = 0; product < 20; ++product) {
      Placed<double> y(context_, Numbers(static_cast<std::size_t>(matrix.rows()), 0.0));
      matrix.apply(x.read(), y.view());
      if (!first) first = y.fetch();
      if (y.fetch() != *first) return false;
    }
    return true;
  }
  // Rows of any length from 0 to 5000; rows 100 to 400 and the last ones have no entries.
  static CsrMatrix<double> long_rows() {
    std::vector<Triplet<double>> triplets;
    for (std::int32_t r = 0; r < 900; ++r) {
      const std::int32_t length = r >= 100 && r < 400 ? 0 : r % 97 == 5 ? 5000 : r % 13;
      for (std::int32_t c = 0; c < length; ++c)
        triplets.push_back({r, (c * 7 + r) % 5003, 1.0 / (1 + r % 7 + c % 11)});
    }
    return csr_from_triplets<double>(test_context(), 1000, 5003, triplets);
  }

  ContextPtr context_;
};

// Two launches whatever beta is, fixed bits; and the catalogue says so.
bool segmented(const Kernel& kernel, std::size_t launches, std::size_t launches_with_beta_1) {
  return kernel.deterministic && launches == 2 && launches_with_beta_1 == 2;
}

TEST_F(CoordinatesOnADevice, CooSegmentedHasTwoLaunchesAndAFixedOrder) {
  const CsrMatrix<double> csr = long_rows();
  const auto is_segmented = [&](const char* format) {
    const auto matrix = on_device(format, csr);
    return segmented(kernels_in(find_format(format), Space::device).front(), kernels(*matrix, 2.0).size(),
                     kernels(*matrix, 1.0).size());
  };
  EXPECT_TRUE(is_segmented("coo-segmented"));
  for (const char* neighbour : {"coo-atomic", "coo", "scoo"})
    EXPECT_FALSE(is_segmented(neighbour)) << neighbour;
  EXPECT_TRUE(repeats(*on_device("coo-segmented", csr)));
}

// Its products add to what is in y, so that y is scaled before; with beta = 1 there is nothing to scale.
TEST_F(CoordinatesOnADevice, CooAtomicScalesYAndAddsInAnyOrder) {
  const CsrMatrix<double> csr = long_rows();
  const auto is_atomic = [&](const char* format) {
    const auto matrix = on_device(format, csr);
    return !kernels_in(find_format(format), Space::device).front().deterministic &&
           kernels(*matrix, 2.0).size() == 2 && kernels(*matrix, 1.0).size() == 1 &&
           matrix->bytes() == static_cast<std::size_t>(csr.nonzeros()) * 16;
  };
  EXPECT_TRUE(is_atomic("coo-atomic"));
  for (const char* neighbour : {"coo-segmented", "coo", "scoo"})
    EXPECT_FALSE(is_atomic(neighbour)) << neighbour;
  EXPECT_THROW(make_matrix(find_format("coo-atomic"), placed(context_, csr),
                           Context::device(0, {.deterministic = true})),
               Error);
}

// One launch, a thread block for each slice.
TEST_F(CoordinatesOnADevice, ScooHasABlockForEachSlice) {
  const CsrMatrix<double> csr = long_rows();
  const auto slices = static_cast<std::int64_t>(layout_numbers(*build("scoo", csr), "slice_row").size()) - 1;
  const std::vector<std::int64_t> one_launch{slices};
  for (const char* kernel : {"native", "atomic"}) {
    const auto matrix = make_matrix(find_format("scoo"), placed(context_, csr), context_, {}, kernel);
    EXPECT_EQ(kernels(*matrix, 2.0), one_launch) << kernel;
    EXPECT_EQ(kernels(*matrix, 1.0), one_launch) << kernel;
  }
  for (const char* neighbour : {"coo", "coo-segmented", "coo-atomic", "csc"})
    EXPECT_NE(kernels(*on_device(neighbour, csr), 1.0), one_launch) << neighbour;
  EXPECT_TRUE(repeats(*on_device("scoo", csr)));
}

// One launch, a thread for each lane and each empty row; rows that cross warps are added in a fixed order.
TEST_F(CoordinatesOnADevice, AlignedCooHasAThreadForEachLane) {
  const CsrMatrix<double> csr = long_rows();
  const auto blocks = [](std::int64_t items) { return (items + 255) / 256; };
  const auto host = make_matrix(find_format("aligned-coo"), csr, test_context(), {{"length", "16"}});
  const auto lanes = static_cast<std::int64_t>(layout_numbers(*host, "col").size()) / 16;
  const auto empty = static_cast<std::int64_t>(layout_numbers(*host, "empty_row").size());
  const std::vector<std::int64_t> one_launch{blocks(lanes) + blocks(empty)};
  const auto matrix =
      make_matrix(find_format("aligned-coo"), placed(context_, csr), context_, {{"length", "16"}});
  EXPECT_EQ(kernels(*matrix, 2.0), one_launch);
  EXPECT_EQ(kernels(*matrix, 1.0), one_launch);
  EXPECT_TRUE(repeats(*matrix));
  for (const char* neighbour : {"coo", "coo-segmented", "coo-atomic", "scoo"})
    EXPECT_NE(kernels(*on_device(neighbour, csr), 1.0), one_launch) << neighbour;
}

// A pass over the columns and one over the rows, in a fixed order, with workspace for all products.
TEST_F(CoordinatesOnADevice, CscTwoPassHasTwoLaunchesAndAFixedOrder) {
  const CsrMatrix<double> csr = long_rows();
  const auto is_two_pass = [&](const char* format) {
    const auto matrix = on_device(format, csr);
    return kernels_in(find_format(format), Space::device).front().deterministic &&
           kernels(*matrix, 2.0).size() == 2 && kernels(*matrix, 1.0).size() == 2 &&
           matrix->bytes() >= static_cast<std::size_t>(csr.nonzeros()) * 24;
  };
  EXPECT_TRUE(is_two_pass("csc-two-pass"));
  for (const char* neighbour : {"csc", "csc-atomic", "coo-segmented"})
    EXPECT_FALSE(is_two_pass(neighbour)) << neighbour;
  EXPECT_TRUE(repeats(*on_device("csc-two-pass", csr)));
}

// Threads for columns, however many entries there are: 400,000 more empty columns make its grid larger, but not the
// grid of csc, which divides the entries.
TEST_F(CoordinatesOnADevice, CscAtomicHasThreadsForEachColumn) {
  const CsrMatrix<double> csr = long_rows();
  CsrMatrix<double> wide = csr;
  wide.pattern.cols += 400000;
  const auto grows = [&](const char* format) {
    const auto narrow_grid = kernels(*on_device(format, csr), 1.0),
               wide_grid = kernels(*on_device(format, wide), 1.0);
    return narrow_grid.size() == 1 && wide_grid.size() == 1 && wide_grid[0] >= narrow_grid[0] + 400000 / 512;
  };
  EXPECT_TRUE(grows("csc-atomic"));
  for (const char* neighbour : {"csc", "csc-two-pass", "coo-atomic"})
    EXPECT_FALSE(grows(neighbour)) << neighbour;
  const auto A = make_matrix(find_format("csc-atomic"), placed(context_, csr), context_, {{"lanes", "32"}});
  EXPECT_EQ(kernels(*A, 1.0), (std::vector<std::int64_t>{(csr.cols() * 32 + 255) / 256}));
}

// The products of all kernels on rows that cross many warps and blocks.
TEST_F(CoordinatesOnADevice, LongRowsAreRight) {
  std::vector<CsrMatrix<double>> matrices{long_rows(), battery_matrix("one_full_row_300")};
  {
    std::vector<Triplet<double>> triplets;  // rows of hundreds of thousands of entries next to short ones
    for (std::int32_t c = 0; c < 300000; ++c)
      triplets.push_back({3, c, 0.5 + c % 3}), triplets.push_back({9, c, 1.0 - c % 5});
    for (std::int32_t r = 20; r < 40; ++r) triplets.push_back({r, r, 2.0});
    matrices.push_back(csr_from_triplets<double>(test_context(), 5000, 300000, triplets));
  }
  for (const CsrMatrix<double>& csr : matrices)
    for (const FormatEntry* format : catalogue()) {
      if (format->family != "coordinate" && format->family != "column") continue;
      for (const Kernel& kernel : kernels_in(*format, Space::device)) {
        if (!kernel.unavailable.empty()) continue;
        SCOPED_TRACE(std::string(format->id) + "/" + std::string(kernel.name));
        if (!admit(*format, *context_, placed(context_, csr).pattern, {}, 8).ok) continue;
        const auto matrix = make_matrix(*format, placed(context_, csr), context_, {}, kernel.name);
        const auto x = sample_vector<double>(csr.cols(), 3), y0 = sample_vector<double>(csr.rows(), 4);
        const Placed<double> px(context_, x);
        for (const double beta : {0.0, 1.0, -2.0}) {
          Placed<double> y(context_,
                           beta == 0 ? Numbers(y0.size(), std::numeric_limits<double>::quiet_NaN()) : y0);
          matrix->apply(0.5, px.read(), beta, y.view());
          EXPECT_TRUE(product_is_right(csr, 0.5, x, beta, y0, y.fetch())) << beta;
        }
        EXPECT_TRUE(identical(csr, fetched(context_, matrix->to_csr())));
      }
    }
}

// The presets that differ on a GPU alone are kernels of their base there, and its kernel on the host.
TEST(Coordinates, PresetsNameTheirKernels) {
  const std::map<std::string, std::string> kernel{{"coo-segmented", "segmented"},
                                                  {"coo-atomic", "atomic"},
                                                  {"csc-atomic", "atomic"},
                                                  {"csc-two-pass", "two-pass"}};
  for (const auto& [id, name] : kernel) {
    const FormatEntry& entry = find_format(id);
    EXPECT_EQ(entry.preset->device_kernel, name);
    ASSERT_EQ(entry.kernels.size(), 1u);
    EXPECT_EQ(entry.kernels.front().name, "native");
    if (!entry.device) continue;
    ASSERT_EQ(entry.device->kernels.size(), 1u) << id;
    EXPECT_EQ(entry.device->kernels.front().name, name);
  }
}

}  // namespace
}  // namespace protean::test
