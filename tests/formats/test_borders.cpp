// Formats at the borders of what their numbers hold and of what their rules accept.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "formats/survey.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

using Columns = std::vector<std::vector<std::int32_t>>;

CsrMatrix<double> from_columns(std::int64_t cols, const Columns& rows) {
  std::vector<Triplet<double>> triplets;
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (const std::int32_t c : rows[r])
      triplets.push_back({static_cast<std::int32_t>(r), c, 1 + 0.25 * static_cast<double>((r + 3 * c) % 29)});
  return csr_from_triplets<double>(test_context(), static_cast<std::int64_t>(rows.size()), cols, triplets);
}

// Product, conversion back and new values.
void expect_right(const CsrMatrix<double>& csr, const std::string& what) {
  for (const bool deterministic : {false, true}) {
    SCOPED_TRACE(what + (deterministic ? ", deterministic" : ""));
    const auto matrix =
        make_matrix(find_format("sell-packed"), csr, Context::host(1, {.deterministic = deterministic}));
    const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
    std::vector<double> y(y0.size(), std::numeric_limits<double>::quiet_NaN());
    matrix->apply(VectorView<const double>{x.data(), csr.cols()}, {y.data(), csr.rows()});
    EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y0, y));
    EXPECT_TRUE(identical(csr, matrix->to_csr()));
    CsrMatrix<double> changed = deep_copy(test_context(), csr);
    for (std::int64_t k = 0; k < csr.nonzeros(); ++k)
      const_cast<double*>(changed.values)[k] = 1 + 0.5 * static_cast<double>(k % 61);
    matrix->update_values(changed);
    EXPECT_TRUE(identical(changed, matrix->to_csr()));
  }
}

// One slot whose columns come in `stretches` near groups, the last of them `distance` behind the first.
TEST(PackedBorders, ColumnsAFewAroundSixteenBitsApart) {
  const std::int32_t cols = 70000;
  for (std::int32_t distance = 65528; distance <= 65544; ++distance)
    for (const int stretches : {2, 3, 4, 8}) {
      Columns rows;
      for (std::int32_t l = 0; l < 8; ++l) {
        const std::int32_t group = l * stretches / 8;
        rows.push_back({group == 0 ? l : group == stretches - 1 ? distance + l % 2 : 1000 * group + 3 * l});
      }
      expect_right(from_columns(cols, rows),
                   std::to_string(distance) + " apart, " + std::to_string(stretches) + " groups");
      // The same if the lanes with near columns are the last ones.
      std::reverse(rows.begin(), rows.end());
      expect_right(from_columns(cols, rows),
                   std::to_string(distance) + " apart, " + std::to_string(stretches) + " groups, turned");
    }
}

// The numbers of slots are stored in 1, 2 or 4 bytes.
TEST(PackedBorders, SlicesOfAFewSlotsAroundEightBits) {
  for (std::int32_t slots = 253; slots <= 260; ++slots) {
    Columns full, scattered;
    for (std::int32_t l = 0; l < 8; ++l) {
      std::vector<std::int32_t> row, wide;
      for (std::int32_t k = 0; k < slots; ++k)
        row.push_back(k), wide.push_back(11 * k + (k * 7 + l * l) % 11);
      full.push_back(row), scattered.push_back(wide);
    }
    expect_right(from_columns(300, full), std::to_string(slots) + " full columns");
    expect_right(from_columns(11 * 300, scattered), std::to_string(slots) + " scattered columns");
    full.resize(7);  // the last row of the slice is not there
    expect_right(from_columns(300, full), std::to_string(slots) + " columns of 7 rows");
  }
}

// 9 rows, the longest of 5 entries: 45 slots are stored.
TEST(MaxFill, AllowsWhatItSaysAndNotOneSlotMore) {
  for (const std::int64_t entries : {22, 23}) {
    Columns rows(9);
    for (std::int64_t k = 0; k < entries; ++k) {
      const std::size_t row = k < 5 ? 0 : static_cast<std::size_t>(1 + (k - 5) % 8);
      rows[row].push_back(static_cast<std::int32_t>(rows[row].size()));
    }
    const CsrMatrix<double> csr = from_columns(9, rows);
    ASSERT_EQ(csr.nonzeros(), entries);
    const FormatParams params{{"align", "1"}, {"max_fill", "2"}};
    if (2 * entries >= 45)
      EXPECT_NO_THROW((void)make_matrix(find_format("ell"), csr, test_context(), params));
    else
      EXPECT_THROW((void)make_matrix(find_format("ell"), csr, test_context(), params), FormatRefused);
  }
}

TEST(SurveyFormats, LongRowsOfLikeLengthsSuitMoreThanCsrAndCoo) {
  Columns rows(64);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::int32_t k = 0; k < 1200; ++k) rows[r].push_back(2 * k + static_cast<std::int32_t>(r % 2));
  int others = 0;
  for (const SwitchTarget& format : survey_formats(from_columns(2500, rows).pattern, Space::host))
    others += format.admitted && format.spec.entry->id != "csr" && format.spec.entry->id != "coo";
  EXPECT_GT(others, 0);
}

}  // namespace
}  // namespace protean::test
