// The formats of rows on a device.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "row_family.hpp"
#include "support/battery.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

// On a device the tables are the same as on the host, as the bytes show, and products with every row length are right
// for all parameters.
TEST(RowFamilyOnADevice, GiantRows) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  for (const CsrMatrix<double>& csr :
       {two_giant_rows(), varied(), of_lengths({40000, 1, 2}, 40000), of_lengths({0, 0, 5000, 0}, 5001), t8(),
        of_lengths(std::vector<std::int64_t>(5000, 0), 3)}) {
    const auto source = placed(context, csr);
    const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
    const Placed<double> px(context, x);
    for (const Form& form : forms()) {
      SCOPED_TRACE(form.format);
      const auto A = make_matrix(find_format(form.format), source, context, form.params);
      EXPECT_EQ(A->bytes(), admit(A->entry(), *context, source.pattern, form.params, 8).bytes);
      Placed<double> y(context, y0), again(context, y0);
      A->apply(-0.5, px.read(), 2.0, y.view());
      A->apply(-0.5, px.read(), 2.0, again.view());
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y.fetch()));
      EXPECT_EQ(y.fetch(), again.fetch());
    }
  }
}

TEST(RowFamilyOnADevice, GroupsOfThreadsOfEverySize) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  const CsrMatrix<double> csr = two_giant_rows();
  const auto source = placed(context, csr);
  const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
  const Placed<double> px(context, x);
  for (const char* T : {"1", "2", "4", "8", "16", "32"})
    for (const char* block : {"32", "128", "512"})
      for (const char* repeat : {"1", "3"}) {
        const FormatParams params{{"T", T}, {"block", block}, {"repeat", repeat}};
        const auto A = make_matrix(find_format("csr"), source, context, params, "cooperative");
        EXPECT_EQ(A->params().word("T"), T);
        Placed<double> y(context, y0);
        A->apply(-0.5, px.read(), 2.0, y.view());
        EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y.fetch())) << T << " " << block << " " << repeat;
      }
  // As many blocks as on the host.
  const CsrMatrix<double> lengths = varied();
  const auto there = placed(context, lengths);
  // No row is longer than 2 S, so csr-adaptive shares none.
  for (const char* id : {"csr-stream", "csr-adaptive"})
    for (const char* S : {"1500", "2048"})
      EXPECT_EQ(admit(find_format(id), *context, there.pattern, {{"S", S}}, 8).bytes,
                admit(find_format(id), *test_context(), lengths.pattern, {{"S", S}}, 8).bytes);
  const auto streamed = make_matrix(find_format("csr-stream"), there, context, {{"S", "2048"}});
  const auto xs = sample_vector<double>(lengths.cols(), 1), ys = sample_vector<double>(lengths.rows(), 2);
  const Placed<double> pxs(context, xs);
  Placed<double> y_streamed(context, ys);
  streamed->apply(-0.5, pxs.read(), 2.0, y_streamed.view());
  EXPECT_TRUE(product_is_right(lengths, -0.5, xs, 2.0, ys, y_streamed.fetch()));
  // The counter of rows is LightSpMV's own.
  EXPECT_EQ(make_matrix(find_format("lightspmv"), source, context)->bytes(), csr.bytes() + 8);
  for (const char* level : {"warp", "vector"}) {
    const auto A = make_matrix(find_format("lightspmv"), source, context, {{"level", level}});
    for (int product = 0; product < 3; ++product) {
      Placed<double> y(context, y0);
      A->apply(-0.5, px.read(), 2.0, y.view());
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y.fetch())) << level << product;
    }
  }
}

// Lengths around the borders of tiles, for each number of steps that a block of threads makes: rows that a tile cannot
// hold at once, at its beginning and its end, behind each other and between empty ones.
TEST(RowFamilyOnADevice, BlocksOfWholeRows) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  using Lengths = std::vector<std::int64_t>;
  std::vector<Lengths> all;
  for (const std::int64_t rows : {1, 3000, 40000, 150000, 300000}) all.push_back(Lengths(rows, 5));
  all.push_back(Lengths(20000, 60));  // of long rows
  for (const std::int64_t longest :
       {96, 97, 128, 192, 256, 257, 384, 385, 512, 768, 769, 1000, 2999, 3000, 3001})
    for (const std::int64_t at : {0, 1, 63, 1000, 1999}) {
      Lengths lengths(2000, 3);
      lengths[at] = longest;
      all.push_back(lengths);
      std::fill(lengths.begin(), lengths.end(), 0);
      lengths[at] = lengths[1500] = longest;
      all.push_back(lengths);
    }
  Lengths uneven(100000);
  for (std::size_t r = 0; r < uneven.size(); ++r) uneven[r] = r % 997 == 5 ? 1500 : r % 13 == 0 ? 0 : r % 11;
  all.push_back(uneven);
  all.push_back(Lengths(3000, 700));
  all.push_back({});
  all.push_back(Lengths(40000, 0));
  for (const Lengths& lengths : all) {
    const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
    const auto rows = static_cast<std::int64_t>(lengths.size());
    SCOPED_TRACE(std::to_string(rows) + " rows, the longest " + std::to_string(longest));
    const CsrMatrix<double> csr = of_lengths(lengths, std::max(rows, longest));
    const auto source = placed(context, csr);
    const auto x = sample_vector<double>(csr.cols(), 1), y0 = sample_vector<double>(csr.rows(), 2);
    const Placed<double> px(context, x);
    for (const char* balance : {"blocks", "auto"}) {
      SCOPED_TRACE(balance);
      const auto A = make_matrix(find_format("csr"), source, context, {{"balance", balance}});
      EXPECT_EQ(A->bytes(), admit(A->entry(), *context, source.pattern, {{"balance", balance}}, 8).bytes);
      Placed<double> y(context, y0), again(context, y0);
      A->apply(-0.5, px.read(), 2.0, y.view());
      A->apply(-0.5, px.read(), 2.0, again.view());
      EXPECT_TRUE(product_is_right(csr, -0.5, x, 2.0, y0, y.fetch()));
      EXPECT_EQ(y.fetch(), again.fetch());
      if (csr.rows() != csr.cols() || csr.rows() == 0) continue;
      Placed<double> fused(context, Numbers(csr.rows(), std::numeric_limits<double>::quiet_NaN())),
          dot(context, {0});
      apply_dot<double>(*A, px.read(), fused.view(), dot.data());
      const Numbers product = fused.fetch();
      EXPECT_TRUE(product_is_right(csr, 1.0, x, 0.0, y0, product));
      double expected = 0, size = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        expected += x[i] * product[i], size += std::abs(x[i] * product[i]);
      EXPECT_NEAR(dot.fetch()[0], expected, 1e-12 * size);
    }
  }
}

// Which division `auto` takes: the arrays that it adds show it.
TEST(RowFamilyOnADevice, TheDivisionOfCsrByTheLengthsOfItsRows) {
  const ContextPtr context = test_context(Space::device);
  if (!context) GTEST_SKIP() << no_device;
  if (context->simulated()) GTEST_SKIP() << "the divisions are those of a GPU";
  using Lengths = std::vector<std::int64_t>;
  const auto added = [&](const Lengths& lengths, const char* balance) {
    const CsrMatrix<double> csr =
        of_lengths(lengths, std::max(std::ssize(lengths), *std::max_element(lengths.begin(), lengths.end())));
    return make_matrix(find_format("csr"), placed(context, csr), context, {{"balance", balance}})->bytes() -
           csr.bytes();
  };
  EXPECT_EQ(added(Lengths(3000, 5), "auto"), 0U) << "few rows, which groups take at once";
  EXPECT_EQ(added(Lengths(3000, 1), "auto"), 0U);
  EXPECT_EQ(added(Lengths(30000, 70), "auto"), 0U) << "long rows of the same length";
  Lengths uneven(5000, 5);
  uneven[77] = 400;
  for (const Lengths& lengths : {Lengths(300000, 5), uneven}) {
    EXPECT_GT(added(lengths, "auto"), 0U);
    EXPECT_EQ(added(lengths, "auto"), added(lengths, "blocks"));
    EXPECT_NE(added(lengths, "auto"), added(lengths, "merge"));
  }
  uneven[77] = 4000;                  // one block would work on it when all others have ended
  const Lengths large(7'000'000, 5);  // 450 MB, more than four times the second-level cache
  Lengths falling(100'000);  // neighbours are alike, but a group of threads takes the first row in 100 steps
  for (std::size_t i = 0; i < falling.size(); ++i)
    falling[i] = 40 + std::llround(5000 * std::exp(-static_cast<double>(i) / 500));
  for (const Lengths& lengths : {uneven, large, falling})
    EXPECT_EQ(added(lengths, "auto"), added(lengths, "merge"));
}

}  // namespace
}  // namespace protean::test
