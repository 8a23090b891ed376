// The plan of what parts send each other, carried out on the host without devices.
#include <algorithm>
#include <cmath>
#include <random>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "distributed/halo.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

using detail::HaloNeighbour;
using detail::halos_of;
using detail::PartBlocks;
using detail::PartHalo;
using detail::Partition;

std::vector<double> times(const CsrMatrix<double>& A, const std::vector<double>& x) {
  std::vector<double> y(static_cast<std::size_t>(A.rows()), 0.0);
  for (std::int64_t r = 0; r < A.rows(); ++r)
    for (std::int64_t k = A.pattern.row_ptr[r]; k < A.pattern.row_ptr[r + 1]; ++k)
      y[static_cast<std::size_t>(r)] += A.values[k] * x[static_cast<std::size_t>(A.pattern.col[k])];
  return y;
}

// y = A x by parts: values are sent as the plan says, and each part has only its own x and what it received.
std::vector<double> product_by_parts(const CsrMatrix<double>& csr, const Partition& partition,
                                     const std::vector<PartHalo>& halos, const std::vector<double>& x) {
  const auto parts = static_cast<std::size_t>(partition.parts());
  std::vector<std::vector<double>> own(parts), ghosts(parts);
  for (std::size_t p = 0; p < parts; ++p) {
    for (const std::int32_t r : partition.rows_of(static_cast<int>(p)))
      own[p].push_back(x[static_cast<std::size_t>(r)]);
    ghosts[p].assign(halos[p].ghosts.size(), std::nan(""));
  }
  for (std::size_t p = 0; p < parts; ++p)
    for (const HaloNeighbour& to : halos[p].neighbours)
      for (const HaloNeighbour& from : halos[static_cast<std::size_t>(to.part)].neighbours)
        if (from.part == static_cast<int>(p)) {
          EXPECT_EQ(std::ssize(to.send), from.ghosts);
          for (std::size_t k = 0; k < to.send.size(); ++k)
            ghosts[static_cast<std::size_t>(to.part)][static_cast<std::size_t>(from.first_ghost) + k] =
                own[p][static_cast<std::size_t>(to.send[k])];
        }
  std::vector<double> y(x.size());
  for (std::size_t p = 0; p < parts; ++p) {
    const PartBlocks<double> blocks(test_context(), csr, partition, halos[p], static_cast<int>(p));
    validate_sorted(*test_context(), blocks.interior().pattern);
    validate_sorted(*test_context(), blocks.boundary().pattern);
    std::vector<double> of_part = times(blocks.interior(), own[p]);
    const std::vector<double> more = times(blocks.boundary(), ghosts[p]);
    for (std::size_t k = 0; k < more.size(); ++k) {
      EXPECT_GT(blocks.boundary().pattern.row_length(static_cast<std::int64_t>(k)), 0);
      of_part[static_cast<std::size_t>(halos[p].boundary_rows[k])] += more[k];
    }
    const auto rows = partition.rows_of(static_cast<int>(p));
    for (std::size_t i = 0; i < rows.size(); ++i) y[static_cast<std::size_t>(rows[i])] = of_part[i];
  }
  return y;
}

void expect_right(const CsrMatrix<double>& csr, const Partition& partition) {
  const std::vector<PartHalo> halos = halos_of(csr.pattern, partition);
  ASSERT_EQ(std::ssize(halos), partition.parts());
  std::int64_t entries = 0, ghosts = 0, sent = 0;
  for (int p = 0; p < partition.parts(); ++p) {
    const PartHalo& halo = halos[static_cast<std::size_t>(p)];
    entries += halo.interior_entries + halo.boundary_entries;
    ghosts += std::ssize(halo.ghosts), sent += halo.sent();
    EXPECT_TRUE(std::is_sorted(halo.ghosts.begin(), halo.ghosts.end()));
    EXPECT_TRUE(std::is_sorted(halo.boundary_rows.begin(), halo.boundary_rows.end()));
    std::int64_t next = 0;
    for (const HaloNeighbour& one : halo.neighbours) {
      EXPECT_NE(one.part, p);
      EXPECT_TRUE(std::is_sorted(one.send.begin(), one.send.end()));
      EXPECT_EQ(one.first_ghost, next);
      next += one.ghosts;
      for (std::int64_t k = one.first_ghost; k < next; ++k)
        EXPECT_EQ(partition.part_of_place(halo.ghosts[static_cast<std::size_t>(k)]), one.part);
      // Neighbours know each other.
      const auto& others = halos[static_cast<std::size_t>(one.part)].neighbours;
      EXPECT_EQ(
          std::count_if(others.begin(), others.end(), [&](const HaloNeighbour& o) { return o.part == p; }),
          1);
    }
    EXPECT_EQ(next, std::ssize(halo.ghosts));
  }
  EXPECT_EQ(entries, csr.nonzeros());
  EXPECT_EQ(ghosts, sent);
  const std::vector<double> x = sample_vector<double>(csr.rows(), 3);
  const std::vector<double> y = product_by_parts(csr, partition, halos, x);
  EXPECT_TRUE(product_is_right<double>(csr, 1, x, 0, y, y));
}

Partition random_partition(std::int64_t rows, int parts, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> part(static_cast<std::size_t>(rows));
  for (std::int32_t& one : part) one = static_cast<std::int32_t>(random() % static_cast<unsigned>(parts));
  return Partition(std::move(part), parts);
}

TEST(Halo, OfTheExampleInItsHeader) {
  const std::vector<Triplet<double>> entries = {{0, 0, 1}, {0, 2, 2}, {1, 1, 3}, {2, 1, 4},
                                                {2, 2, 5}, {2, 3, 6}, {3, 3, 7}};
  const auto csr = csr_from_triplets<double>(test_context(), 4, 4, entries);
  const Partition partition({0, 0, 1, 1}, 2);
  const std::vector<PartHalo> halos = halos_of(csr.pattern, partition);
  EXPECT_EQ(halos[0].ghosts, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(halos[1].ghosts, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(halos[1].boundary_rows, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(halos[0].neighbours.at(0).send, (std::vector<std::int32_t>{1}));
  EXPECT_EQ(halos[1].neighbours.at(0).send, (std::vector<std::int32_t>{0}));
  expect_right(csr, partition);
}

TEST(Halo, OfStencilsAndRandomMatrices) {
  const auto stencil = generate(test_context(), "poisson-2d", {{"n", 17}});
  const auto graph = generate(test_context(), "random-spd", {{"n", 300}});
  for (const auto* csr : {&stencil, &graph})
    for (const int parts : {1, 2, 3, 8}) {
      SCOPED_TRACE(parts);
      expect_right(*csr, detail::make_partition(*test_context(), csr->pattern, "rows", parts));
      expect_right(*csr, random_partition(csr->rows(), parts, 7));
    }
}

// Row 0 and column 0 are full: each part needs x_0, and the part of row 0 needs all of x.
TEST(Halo, OfDenseRowsAcrossAllParts) {
  std::vector<Triplet<double>> entries;
  constexpr std::int32_t n = 60;
  for (std::int32_t i = 0; i < n; ++i) {
    entries.push_back({i, i, 4.0});
    if (i > 0) entries.push_back({0, i, 1.0 / i}), entries.push_back({i, 0, -1.0 / i});
  }
  const auto csr = csr_from_triplets<double>(test_context(), n, n, entries);
  const Partition partition = random_partition(n, 5, 3);
  expect_right(csr, partition);
  const int first = partition.part_of_place(partition.place(0));
  EXPECT_EQ(std::ssize(halos_of(csr.pattern, partition)[static_cast<std::size_t>(first)].ghosts),
            n - partition.size(first));
}

TEST(Halo, OfPartsWithoutRowsAndMorePartsThanRows) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 2}});
  expect_right(csr, Partition({5, 1, 1, 3}, 7));
  expect_right(csr, detail::make_partition(*test_context(), csr.pattern, "rows", 9));
}

TEST(Halo, OfDisconnectedPartsIsEmpty) {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < 10; ++i)
    entries.push_back({i, i, 1.0 + i}), entries.push_back({i, i ^ 1, 0.5});
  const auto csr = csr_from_triplets<double>(test_context(), 10, 10, entries);
  const Partition partition({0, 0, 1, 1, 0, 0, 1, 1, 2, 2}, 3);
  expect_right(csr, partition);
  for (const PartHalo& halo : halos_of(csr.pattern, partition)) {
    EXPECT_TRUE(halo.neighbours.empty());
    EXPECT_TRUE(halo.boundary_rows.empty());
  }
}

// Part 1 needs values of part 0, which needs none of part 1: both send a message, one of them without values.
TEST(Halo, OfAnUnsymmetricPatternHasNeighboursBothWays) {
  const std::vector<Triplet<double>> entries = {{0, 0, 1}, {1, 1, 1}, {2, 2, 1},
                                                {2, 0, 1}, {3, 3, 1}, {3, 1, 1}};
  const auto csr = csr_from_triplets<double>(test_context(), 4, 4, entries);
  const Partition partition({0, 0, 1, 1}, 2);
  expect_right(csr, partition);
  const std::vector<PartHalo> halos = halos_of(csr.pattern, partition);
  ASSERT_EQ(std::ssize(halos[0].neighbours), 1);
  EXPECT_EQ(halos[0].neighbours[0].ghosts, 0);
  EXPECT_EQ(std::ssize(halos[0].neighbours[0].send), 2);
  ASSERT_EQ(std::ssize(halos[1].neighbours), 1);
  EXPECT_TRUE(halos[1].neighbours[0].send.empty());
  EXPECT_EQ(halos[1].neighbours[0].ghosts, 2);
}

TEST(Halo, TakesNewValues) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 9}});
  const Partition partition = random_partition(csr.rows(), 3, 11);
  const std::vector<PartHalo> halos = halos_of(csr.pattern, partition);
  CsrMatrix<double> other = csr;
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(k) + 1;
  other.values = values.data();
  for (int p = 0; p < 3; ++p) {
    PartBlocks<double> updated(test_context(), csr, partition, halos[static_cast<std::size_t>(p)], p);
    updated.update_values(test_context(), values.data());
    const PartBlocks<double> made(test_context(), other, partition, halos[static_cast<std::size_t>(p)], p);
    for (const auto& [a, b] :
         {std::pair(updated.interior(), made.interior()), {updated.boundary(), made.boundary()}}) {
      ASSERT_EQ(a.nonzeros(), b.nonzeros());
      EXPECT_TRUE(std::equal(a.values, a.values + a.nonzeros(), b.values));
    }
  }
}

TEST(Halo, RefusesAPartitionOfOtherRows) {
  const auto csr = generate(test_context(), "poisson-2d", {{"n", 4}});
  EXPECT_THROW((void)halos_of(csr.pattern, Partition({0, 1}, 2)), ShapeMismatch);
}

}  // namespace
}  // namespace protean::test
