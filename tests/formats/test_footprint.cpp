// Bytes for each nonzero as in Table 9 of Filippone, Cardellini, Barbieri and Fanfarillo, ACM TOMS 43(4),
// 2017, to the printed digit. If their arrays differ from ours, the difference is counted to the byte;
// docs/results/papers.md gives the reasons.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "support/battery.hpp"

namespace protean::test {
namespace {

struct Printed {
  int n;
  const char *csr, *ell, *hll, *hdi;
};

class Table9 : public testing::TestWithParam<Printed> {
 protected:
  // The bytes that the format allocates, which are the bytes that it predicted.
  std::int64_t allocated(const char* id, const FormatParams& params) {
    const FormatEntry& entry = find_format(id);
    const Admission admission = admit(entry, *test_context(), csr_.pattern, params, sizeof(double));
    EXPECT_TRUE(admission.ok) << admission.reason;
    stored_ = admission.stored_values;
    const std::size_t bytes = make_matrix(entry, csr_, test_context(), params)->bytes();
    EXPECT_EQ(bytes, admission.bytes) << id;
    return static_cast<std::int64_t>(bytes);
  }
  std::string each(std::int64_t bytes) const {
    return fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(csr_.nonzeros()));
  }

  CsrMatrix<double> csr_ =
      generate(test_context(), "convection-diffusion-3d", {{"n", static_cast<double>(GetParam().n)}});
  std::int64_t rows_ = csr_.rows(), stored_ = 0;
};

TEST_P(Table9, CsrIsThatOfTheSurvey) { EXPECT_EQ(each(allocated("csr", {})), GetParam().csr); }

TEST_P(Table9, EllLacksTwoIntegersARow) {
  const std::int64_t ours = allocated("ell", {{"align", "32"}});
  EXPECT_EQ(stored_, 7 * rows_);
  EXPECT_EQ(each(ours + 8 * rows_), GetParam().ell);  // length and place of the diagonal
}

TEST_P(Table9, HllIsSlicesOf32RowsInOrder) {
  const std::int64_t ours = allocated("sell-c-sigma", {{"C", "32"}, {"sigma", "1"}});
  const std::int64_t slices = (rows_ + 31) / 32;
  // Again two integers for each row. Their offsets of hacks have 4 bytes, ours 8.
  EXPECT_EQ(each(ours + 8 * rows_ - 4 * (slices + 1)), GetParam().hll);
}

TEST_P(Table9, HdiKeepsOneOffsetADiagonalNotOneAnEntry) {
  const std::int64_t ours = allocated("hdi", {{"hack", "32"}, {"values", "double"}});
  const std::int64_t hacks = (rows_ + 31) / 32, diagonals = stored_ / 32;
  ASSERT_EQ(stored_ % 32, 0);
  // Ours: an offset and 32 bits, which mark the entries, for each diagonal, and 8 bytes for each offset of a
  // hack.
  EXPECT_EQ(ours, diagonals * (32 * 8 + 4 + 4) + 8 * (hacks + 1));
  EXPECT_EQ(each(ours - diagonals * 8 + 4 * stored_ - 4 * (hacks + 1)), GetParam().hdi);
}

INSTANTIATE_TEST_SUITE_P(Pde, Table9,
                         testing::Values(Printed{60, "12.58", "13.33", "13.26", "12.10"},
                                         Printed{80, "12.58", "13.29", "13.23", "12.07"}),
                         [](const auto& test) { return fmt::format("pde0{}", test.param.n); });

}  // namespace
}  // namespace protean::test
