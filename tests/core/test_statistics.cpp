#include "core/statistics.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "support/battery.hpp"
#include "support/stokes.hpp"

namespace protean::test {
namespace {

// The definitions, one by one, on a set of (row, column).
Statistics brute_force(const SparsityPattern& p) {
  std::set<std::pair<std::int64_t, std::int64_t>> entries;
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (const std::int64_t c : p.row(r)) entries.emplace(r, c);
  const auto has = [&](std::int64_t r, std::int64_t c) { return entries.count({r, c}) > 0; };
  Statistics s;
  s.rows = p.rows, s.cols = p.cols, s.nonzeros = static_cast<std::int64_t>(entries.size());
  std::vector<std::int64_t> length(static_cast<std::size_t>(p.rows), 0);
  std::set<std::int64_t> diagonals;
  s.structurally_symmetric = p.rows == p.cols;
  std::int64_t on_diagonal = 0;
  double neighbours = 0;
  for (const auto& [r, c] : entries) {
    ++length[r];
    diagonals.insert(c - r);
    s.lower_bandwidth = std::max(s.lower_bandwidth, r - c),
    s.upper_bandwidth = std::max(s.upper_bandwidth, c - r);
    if (!has(c, r)) s.structurally_symmetric = false;
    on_diagonal += r == c;
    neighbours += has(r, c - 1) + has(r, c + 1);
  }
  s.full_diagonal = on_diagonal == std::min(p.rows, p.cols);
  s.diagonals = static_cast<std::int64_t>(diagonals.size());
  for (int size = 2; size <= 4; ++size) {
    std::set<std::pair<std::int64_t, std::int64_t>> blocks;
    for (const auto& [r, c] : entries) blocks.emplace(r / size, c / size);
    s.block_fill[size - 2].blocks = static_cast<std::int64_t>(blocks.size());
    s.block_fill[size - 2].fill = s.nonzeros ? double(size * size * blocks.size()) / double(s.nonzeros) : 0;
  }
  double similarity = 0, squares = 0;
  int compared = 0;
  s.shortest = p.rows ? length[0] : 0;
  for (std::int64_t r = 0; r < p.rows; ++r) {
    s.longest = std::max(s.longest, length[r]), s.shortest = std::min(s.shortest, length[r]);
    s.empty_rows += length[r] == 0;
    if (length[r] == 0 || r + 1 == p.rows) continue;
    int found = 0;
    for (const std::int64_t c : p.row(r)) found += has(r + 1, c - 1) || has(r + 1, c) || has(r + 1, c + 1);
    similarity += double(found) / double(length[r]), ++compared;
  }
  s.mean = p.rows ? double(s.nonzeros) / double(p.rows) : 0;
  for (const std::int64_t l : length) squares += (double(l) - s.mean) * (double(l) - s.mean);
  s.deviation = p.rows ? std::sqrt(squares / double(p.rows)) : 0;
  s.features.memory_footprint_mib = (12.0 * double(s.nonzeros) + 4.0 * double(p.rows + 1)) / 1048576;
  s.features.mean_row_length = s.mean;
  s.features.skew = s.mean > 0 ? (double(s.longest) - s.mean) / s.mean : 0;
  s.features.cross_row_similarity = compared ? similarity / compared : 0;
  s.features.neighbours = s.nonzeros ? neighbours / double(s.nonzeros) : 0;
  return s;
}

void expect_equal(const Statistics& a, const Statistics& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.cols, b.cols);
  EXPECT_EQ(a.nonzeros, b.nonzeros);
  EXPECT_EQ(a.longest, b.longest);
  EXPECT_EQ(a.shortest, b.shortest);
  EXPECT_EQ(a.empty_rows, b.empty_rows);
  EXPECT_DOUBLE_EQ(a.mean, b.mean);
  EXPECT_NEAR(a.deviation, b.deviation, 1e-12 * (1 + b.deviation));
  EXPECT_EQ(a.diagonals, b.diagonals);
  EXPECT_EQ(a.lower_bandwidth, b.lower_bandwidth);
  EXPECT_EQ(a.upper_bandwidth, b.upper_bandwidth);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(a.block_fill[i].blocks, b.block_fill[i].blocks) << i + 2;
    EXPECT_DOUBLE_EQ(a.block_fill[i].fill, b.block_fill[i].fill) << i + 2;
  }
  EXPECT_EQ(a.structurally_symmetric, b.structurally_symmetric);
  EXPECT_EQ(a.full_diagonal, b.full_diagonal);
  EXPECT_DOUBLE_EQ(a.features.memory_footprint_mib, b.features.memory_footprint_mib);
  EXPECT_DOUBLE_EQ(a.features.mean_row_length, b.features.mean_row_length);
  EXPECT_NEAR(a.features.skew, b.features.skew, 1e-12 * (1 + b.features.skew));
  EXPECT_NEAR(a.features.cross_row_similarity, b.features.cross_row_similarity, 1e-12);
  EXPECT_DOUBLE_EQ(a.features.neighbours, b.features.neighbours);
}

TEST(Statistics, AgreeWithTheirDefinitionsOnTheBattery) {
  for (const BatteryMatrix& entry : battery()) {
    SCOPED_TRACE(entry.name);
    expect_equal(statistics(*test_context(), entry.matrix.pattern), brute_force(entry.matrix.pattern));
  }
}

TEST(Statistics, AgreeOnLargerMatricesWhateverTheThreads) {
  for (const char* kind : {"graph-laplacian", "banded", "random-spd"}) {
    SCOPED_TRACE(kind);
    const auto a = generate(test_context(), kind, {{"n", 20000}});
    const Statistics expected = brute_force(a.pattern);
    for (int threads : {1, 2, 5}) {
      const Statistics s = statistics(*Context::host(threads), a.pattern);
      expect_equal(s, expected);
      EXPECT_EQ(s.features.cross_row_similarity,
                statistics(*Context::host(1), a.pattern).features.cross_row_similarity);
    }
  }
}

TEST(Statistics, OfTheCataloguesExample) {
  const Statistics s = statistics(*test_context(), t8().pattern);
  EXPECT_EQ(s.nonzeros, 24);
  EXPECT_EQ(s.longest, 8);
  EXPECT_EQ(s.shortest, 0);
  EXPECT_EQ(s.empty_rows, 1);
  EXPECT_EQ(s.mean, 3);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt((1 + 4 + 4 + 9 + 0 + 25 + 1 + 0) / 8.0));
  EXPECT_EQ(s.diagonals, 10);
  EXPECT_EQ(s.lower_bandwidth, 5);
  EXPECT_EQ(s.upper_bandwidth, 4);
  EXPECT_EQ(s.block_fill[0].blocks, 10);  // 40 stored values in 2 x 2 blocks
  EXPECT_EQ(s.block_fill[2].blocks, 4);   // 64 in 4 x 4
  EXPECT_DOUBLE_EQ(s.block_fill[0].fill, 40.0 / 24);
  EXPECT_FALSE(s.structurally_symmetric);
  EXPECT_FALSE(s.full_diagonal);
  EXPECT_DOUBLE_EQ(s.features.skew, 5.0 / 3);
  // Pairs of neighbours in the rows: 1 + 4 + 0 + 0 + 0 + 7 + 1 + 1.
  EXPECT_DOUBLE_EQ(s.features.neighbours, 2 * 14 / 24.0);
  // Rows 0 2/2, 1 3/5 (2, 3, 4 of row 2's 3), 2 0/1, 4 3/3, 5 3/8 (5, 6, 7), 6 2/2; row 3 is empty.
  EXPECT_DOUBLE_EQ(s.features.cross_row_similarity, (1 + 3 / 5.0 + 0 + 1 + 3 / 8.0 + 1) / 6);
}

TEST(Statistics, KnowBlocksAndSymmetryOfElasticity) {
  const Statistics s =
      statistics(*test_context(), generate(test_context(), "elasticity-3d", {{"n", 6}}).pattern);
  EXPECT_EQ(s.block_fill[1].fill, 1);
  EXPECT_GT(s.block_fill[0].fill, 1);
  EXPECT_TRUE(s.structurally_symmetric);
  EXPECT_TRUE(s.full_diagonal);
  EXPECT_EQ(s.longest, 81);
}

// As many entries above the diagonal as below, and no entry has a mirror.
TEST(Statistics, CountsAloneDoNotMakeAPatternSymmetric) {
  const std::int32_t row_ptr[] = {0, 2, 3, 5}, col[] = {0, 1, 1, 0, 2};  // (0, 1) and (2, 0)
  const double values[] = {2, 1, 2, 1, 2};
  const auto a = csr_view(3, 3, row_ptr, col, values);
  EXPECT_FALSE(statistics(*test_context(), a.pattern).structurally_symmetric);
  EXPECT_EQ(asymmetry(*test_context(), a), 0.5);
}

// Only entries above the diagonal are compared with their mirrors, and a lower triangle has no such entries.
TEST(Statistics, ALowerTriangleIsNotSymmetric) {
  const ContextPtr context = test_context();
  for (const std::int64_t n : {2, 3000})  // one thread and two
    for (const bool diagonal : {true, false}) {
      std::vector<Triplet<double>> list;
      for (std::int32_t r = 0; r < n; ++r)
        for (std::int32_t c = std::max(0, r - 3); c < r + diagonal; ++c) list.push_back({r, c, 2});
      const auto lower = csr_from_triplets<double>(context, n, n, list);
      const auto upper = transpose(context, lower);
      for (const auto* one : {&lower, &upper}) {
        // Without its diagonal it has a row without entries.
        const double expected = diagonal ? 1 : std::numeric_limits<double>::infinity();
        EXPECT_EQ(asymmetry(*context, *one), expected);
        EXPECT_EQ(asymmetry(*context, convert_values<float>(context, *one)), expected);
        EXPECT_FALSE(statistics(*context, one->pattern).structurally_symmetric);
      }
    }
}

TEST(Statistics, AsymmetryMeasuresTheLargestDifference) {
  const std::int32_t row_ptr[] = {0, 2, 4}, col[] = {0, 1, 0, 1};
  const double near[] = {-8, 1, 1.5, 2}, same[] = {4, 1, 1, 2}, broken[] = {4, 1, std::nan(""), 2};
  EXPECT_EQ(asymmetry(*test_context(), csr_view(2, 2, row_ptr, col, near)), 0.5 / 2);
  EXPECT_EQ(asymmetry(*test_context(), csr_view(2, 2, row_ptr, col, same)), 0);
  EXPECT_EQ(asymmetry(*test_context(), csr_view(2, 2, row_ptr, col, broken)),
            std::numeric_limits<double>::infinity());
  EXPECT_GT(asymmetry(*test_context(), t8()), 0.1);
  EXPECT_GT(asymmetry(*test_context(), clspmv_c()), 0.1);
  EXPECT_EQ(asymmetry(*test_context(), generate(test_context(), "elasticity-3d", {{"n", 6}})), 0);
}

// By the definition, entry by entry, of matrices with and without stored mirrors and with zeros that are stored.
TEST(Statistics, AsymmetryTakesWhatIsNotStoredForZero) {
  std::mt19937 random(5);
  for (const std::int64_t n : {5, 40, 2000})  // the last one has more than one thread
    for (int turn = 0; turn < 6; ++turn) {
      std::vector<Triplet<double>> list;
      for (std::int32_t i = 0; i < n; ++i) {
        list.push_back({i, i, std::pow(10.0, static_cast<int>(random() % 9))});
        for (int k = 0; k < 3; ++k) {
          const auto j = static_cast<std::int32_t>(random() % static_cast<unsigned>(n));
          if (j == i) continue;
          const double value = turn == 0 ? 0 : static_cast<double>(random() % 5) * std::pow(10.0, -3 * turn);
          list.push_back({i, j, value});
          if (random() % 4 != 0) list.push_back({j, i, value});
        }
      }
      const auto csr = csr_from_triplets<double>(test_context(), n, n, list);
      std::vector<double> size(static_cast<std::size_t>(n));
      const auto at = [&](std::int64_t i, std::int64_t j) {
        const auto row = csr.pattern.row(i);
        const auto found = std::lower_bound(row.begin(), row.end(), j);
        return found != row.end() && *found == j ? csr.values[csr.pattern.row_ptr[i] + (found - row.begin())]
                                                 : 0;
      };
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t e = csr.pattern.row_ptr[i]; e < csr.pattern.row_ptr[i + 1]; ++e)
          size[i] = std::max(size[i], std::abs(csr.values[e]));
      double expected = 0;
      for (std::int64_t i = 0; i < n; ++i)
        for (const std::int32_t j : csr.pattern.row(i))
          if (const double difference = std::abs(at(i, j) - at(j, i)); difference > 0)
            expected = std::max(expected, difference / std::min(size[i], size[j]));
      EXPECT_EQ(asymmetry(*test_context(), csr), expected) << n << ' ' << turn;
      if (turn == 0) { EXPECT_EQ(expected, 0); }
    }
}

// The Laplacian of a path of n nodes with `fields` unknowns each, side by side; free at both ends, or held at one.
CsrMatrix<double> path(std::int64_t n, std::int32_t fields, bool held = false) {
  std::vector<Triplet<double>> list;
  for (std::int32_t i = 0; i < n; ++i)
    for (std::int32_t f = 0; f < fields; ++f) {
      const std::int32_t a = i * fields + f, b = a + fields;
      list.push_back({a, a, (i > 0 ? 0.1 : 0.0) + (i + 1 < n ? 0.1 : 0.0) + (held && i == 0 ? 0.1 : 0.0)});
      if (i + 1 < n) list.push_back({a, b, -0.1}), list.push_back({b, a, -0.1});
    }
  return csr_from_triplets<double>(test_context(), n * fields, n * fields, list);
}

TEST(NullVectors, OfProblemsThatAreKnownToHaveThem) {
  const auto found = [](const CsrMatrix<double>& A) {
    const NullVectors vectors = null_vectors(*test_context(), A);
    const NullVectors single = null_vectors(*test_context(), convert_values<float>(test_context(), A));
    EXPECT_EQ(in_words(single), in_words(vectors));
    return vectors;
  };
  for (const std::int64_t n : {9, 5000}) {  // one thread and two
    EXPECT_TRUE(found(path(n, 1)).all);
    EXPECT_FALSE(found(path(n, 1, true)).any());
    EXPECT_EQ(found(path(n, 2)).fields, 2);
    EXPECT_EQ(found(path(n, 3)).fields, 3);
    EXPECT_FALSE(found(path(n, 2)).without_positive_diagonal);
    EXPECT_FALSE(found(path(n, 3, true)).any());
  }
  for (const bool stabilised : {false, true})
    for (const std::int32_t cells : {4, 30}) {
      const NullVectors vectors = found(stokes(test_context(), cells, stabilised));
      EXPECT_TRUE(vectors.without_positive_diagonal);
      EXPECT_FALSE(vectors.all);
      EXPECT_EQ(vectors.fields, 0);
    }
  EXPECT_EQ(in_words(found(stokes(test_context(), 4))).size(), 1u);
}

TEST(NullVectors, OneEntryDecides) {
  for (const bool of_stokes : {false, true}) {
    const CsrMatrix<double> A = of_stokes ? stokes(test_context(), 6) : path(20, 1);
    ASSERT_TRUE(null_vectors(*test_context(), A).any());
    for (const double change : {1e-3, 1e-12}) {
      const CsrMatrix<double> other = deep_copy(test_context(), A);
      // An entry in the last column.
      for (std::int64_t k = 0; k < other.nonzeros(); ++k)
        if (other.pattern.col[k] + 1 == A.cols()) {
          const_cast<double*>(other.values)[k] += change;
          break;
        }
      EXPECT_FALSE(null_vectors(*test_context(), other).any()) << change;
    }
  }
}

TEST(NullVectors, AreNotFoundInRegularMatrices) {
  for (const char* kind : {"poisson-2d", "poisson-3d", "convection-diffusion-3d", "anisotropic-2d",
                           "elasticity-3d", "random-spd", "banded"})
    EXPECT_FALSE(null_vectors(*test_context(), generate(test_context(), kind, {{"n", 6}})).any()) << kind;
  EXPECT_FALSE(null_vectors(*test_context(), t8()).any());
  EXPECT_FALSE(null_vectors(*test_context(), clspmv_c()).any()) << "rectangular";
  EXPECT_FALSE(null_vectors(*test_context(), csr_from_triplets<double>(test_context(), 0, 0, {})).any());
}

}  // namespace
}  // namespace protean::test
