// Which part has which rows.
#include <algorithm>
#include <fstream>
#include <numeric>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/partition.hpp"
#include "distributed/partition.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/folder.hpp"
#include "support/text.hpp"

namespace protean::test {
namespace {

using detail::make_partition;
using detail::Partition;

// Each row is in one part, at the place that its part has for it.
void expect_consistent(const Partition& of) {
  ASSERT_EQ(of.begin(0), 0);
  ASSERT_EQ(of.begin(of.parts()), of.rows());
  std::vector<int> seen(static_cast<std::size_t>(of.rows()), 0);
  for (int p = 0; p < of.parts(); ++p) {
    const auto rows = of.rows_of(p);
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
    EXPECT_EQ(std::ssize(rows), of.size(p));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t place = of.begin(p) + static_cast<std::int64_t>(i);
      EXPECT_EQ(of.place(rows[i]), place);
      EXPECT_EQ(of.part_of_place(place), p);
      ++seen[static_cast<std::size_t>(rows[i])];
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), of.rows());
}

std::int64_t entries_of(const Partition& of, const SparsityPattern& pattern, int part) {
  std::int64_t sum = 0;
  for (const std::int32_t r : of.rows_of(part)) sum += pattern.row_length(r);
  return sum;
}

TEST(Partition, KeepsTheOrderOfRowsInEachPart) {
  const Partition of({0, 1, 0, 0, 1, 2, 1}, 3);
  EXPECT_EQ(std::vector<std::int32_t>(of.order().begin(), of.order().end()),
            (std::vector<std::int32_t>{0, 2, 3, 1, 4, 6, 5}));
  EXPECT_EQ(of.size(0), 3);
  EXPECT_EQ(of.begin(2), 6);
  expect_consistent(of);
}

TEST(Partition, MayHavePartsWithoutRows) {
  const Partition of({3, 0, 3, 0}, 5);
  expect_consistent(of);
  EXPECT_EQ(of.size(1), 0);
  EXPECT_EQ(of.size(4), 0);
  EXPECT_EQ(of.part_of_place(2), 3);
  const Partition none({}, 2);
  expect_consistent(none);
}

TEST(Partition, RefusesOtherNumbers) {
  EXPECT_EQ(message_of<BadArgument>([] {
              Partition({0, 2, 1}, 2);
            }),
            "the partition has part 2 for row 1 (from 0); parts are 0 to 1");
  EXPECT_THROW(Partition({0, -1}, 2), BadArgument);
  EXPECT_THROW(Partition({0}, 0), BadArgument);
}

TEST(Partition, OfRowsHasAboutEquallyManyEntries) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 40}});
  for (const int parts : {1, 2, 3, 7}) {
    const Partition of = make_partition(*test_context(), csr.pattern, "rows", parts);
    expect_consistent(of);
    const double mean = static_cast<double>(csr.nonzeros()) / parts;
    for (int p = 0; p < parts; ++p) {
      EXPECT_NEAR(static_cast<double>(entries_of(of, csr.pattern, p)), mean, 0.03 * mean);
      const auto rows = of.rows_of(p);
      EXPECT_EQ(rows.back() - rows.front() + 1, of.size(p)) << "neighbouring rows";
    }
  }
}

TEST(Partition, OfRowsWithMorePartsThanRowsAndWithoutEntries) {
  const std::vector<Triplet<double>> some = {{0, 0, 1.0}, {2, 1, 2.0}};
  const auto csr = csr_from_triplets<double>(test_context(), 3, 3, some);
  const Partition of = make_partition(*test_context(), csr.pattern, "rows", 8);
  expect_consistent(of);
  for (int p = 0; p < 8; ++p) EXPECT_LE(of.size(p), 1);
  const auto empty = csr_from_triplets<double>(test_context(), 100, 100, std::vector<Triplet<double>>{});
  const Partition even = make_partition(*test_context(), empty.pattern, "rows", 4);
  for (int p = 0; p < 4; ++p) EXPECT_EQ(even.size(p), 25);
  const auto nothing = csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{});
  expect_consistent(make_partition(*test_context(), nothing.pattern, "rows", 3));
}

TEST(Partition, OfTheGraphCutsFewEntries) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 30}});
  if (!detail::no_metis().empty()) {
    EXPECT_THROW(make_partition(*test_context(), csr.pattern, "graph", 4), NotAvailable);
    return;
  }
  const Partition of = make_partition(*test_context(), csr.pattern, "graph", 4);
  expect_consistent(of);
  std::int64_t cut = 0;
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    for (const std::int32_t j : csr.pattern.row(r))
      cut += of.part_of_place(of.place(r)) != of.part_of_place(of.place(j));
  // Slabs of neighbouring rows cut 3 x 30 edges, twice each; squares cut 2 x 30.
  EXPECT_LT(cut, 180);
  for (int p = 0; p < 4; ++p) EXPECT_NEAR(static_cast<double>(of.size(p)), 225, 25);
}

TEST(Partition, NamesTheWords) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 3}});
  EXPECT_EQ(message_of<BadArgument>([&] { make_partition(*test_context(), csr.pattern, "grph", 2); }),
            "partition is 'grph'; it must be rows or graph. Did you mean 'graph'?");
}

TEST(Partition, ReadsAFile) {
  const Folder folder;
  const std::string path = folder / "parts.txt";
  const auto written = [&](const char* text) {
    std::ofstream(path) << text;
    return path;
  };
  EXPECT_EQ(detail::read_partition(written("1\n0\r\n 1 \n2"), 4, 3), (std::vector<std::int32_t>{1, 0, 1, 2}));
  EXPECT_NE(message_of<BadFile>([&] {
              (void)detail::read_partition(written("1\n3\n"), 2, 3);
            }).find(":2:1: '3' is not a part"),
            std::string::npos);
  EXPECT_THROW((void)detail::read_partition(written("1\nx\n"), 2, 3), BadFile);
  EXPECT_THROW((void)detail::read_partition(written("1\n\n2\n"), 3, 3), BadFile);
  EXPECT_NE(message_of<BadFile>([&] {
              (void)detail::read_partition(written("1\n1\n"), 3, 3);
            }).find("2 lines; the matrix has 3 rows"),
            std::string::npos);
}

}  // namespace
}  // namespace protean::test
