// The rows that block-jacobi takes together if no number is given: the unknowns of a node, found in the pattern, by the
// host and by a device.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/allocation_hook.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "gtest/gtest.h"
#include "operators/rows.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

// A chain of nodes with this many unknowns: the rows of a node have the columns of the node and its neighbours.
CsrMatrix<double> chain(const std::vector<int>& unknowns) {
  std::vector<std::int32_t> first = {0};
  for (const int count : unknowns) first.push_back(first.back() + count);
  std::vector<Triplet<double>> entries;
  const std::size_t nodes = unknowns.size();
  for (std::size_t a = 0; a < nodes; ++a)
    for (std::int32_t i = first[a]; i < first[a + 1]; ++i)
      for (std::size_t b = a == 0 ? 0 : a - 1; b < std::min(nodes, a + 2); ++b)
        for (std::int32_t j = first[b]; j < first[b + 1]; ++j)
          entries.push_back({i, j, i == j ? 200.0 : -1.0 / (1 + std::abs(i - j))});
  return csr_from_triplets<double>(test_context(), first.back(), first.back(), entries);
}
std::vector<int> nodes(const std::vector<std::array<int, 2>>& counts) {
  std::vector<int> unknowns;
  for (const auto& [count, size] : counts)
    unknowns.insert(unknowns.end(), static_cast<std::size_t>(count), size);
  return unknowns;
}
double size_in(const CsrMatrix<double>& csr) {
  return figure(*ready<double>("block-jacobi", *assembled(csr)), "block_size");
}

TEST(BlockSize, IsThatOfTheNodes) {
  for (const int unknowns : {1, 2, 3, 4, 5, 6, 7, 24})
    EXPECT_EQ(size_in(chain(nodes({{12, unknowns}}))), unknowns == 1 ? 1 : unknowns);
  // More than half of the rows must be in nodes of two rows or more.
  EXPECT_EQ(size_in(chain(nodes({{30, 1}, {10, 3}}))), 1);
  EXPECT_EQ(size_in(chain(nodes({{29, 1}, {10, 3}}))), 3);
  // Of nodes of several sizes the largest ones count that have a fifth of the rows, larger ones among them.
  EXPECT_EQ(size_in(chain(nodes({{20, 4}, {4, 5}}))), 5);
  EXPECT_EQ(size_in(chain(nodes({{21, 4}, {4, 5}}))), 4);
  EXPECT_EQ(size_in(chain(nodes({{20, 4}, {2, 5}, {1, 10}}))), 5);
  // At most 64 rows.
  EXPECT_EQ(size_in(chain({100})), 64);
}

TEST(BlockSize, IsFoundAgainForANewPattern) {
  const auto three = assembled(chain(nodes({{12, 3}}))), one = assembled(chain(nodes({{36, 1}}))),
             four = assembled(chain(nodes({{9, 4}})));
  const auto M = ready<double>("block-jacobi", *three);
  const std::vector<double> r = right_hand_side<double>(36);
  for (const auto* A : {one.get(), four.get(), three.get(), four.get()}) {
    M->ensure(*A);
    const auto fresh = ready<double>("block-jacobi", *A);
    EXPECT_EQ(figure(*M, "block_size"), figure(*fresh, "block_size"));
    EXPECT_EQ(applied(*M, r), applied(*fresh, r));
  }
}

std::int64_t iterations(const CsrMatrix<double>& csr, const char* id,
                        const PreconditionerOptions& options = {}) {
  const auto A = assembled(csr);
  const auto M = ready<double>(id, *A, options);
  const std::vector<double> ones(static_cast<std::size_t>(csr.rows()), 1.0);
  std::vector<double> b(ones.size()), x(ones.size());
  A->apply(view(ones), view(b));
  const SolveReport report = make_solver<double>("cg")->solve(*A, view(std::as_const(b)), view(x), M.get());
  EXPECT_TRUE(report.converged()) << id << ' ' << to_string(report.reason);
  return report.iterations;
}

// Four rows in each block cut through the nodes.
TEST(BlockSize, OfElasticityIsNoWorseThanJacobi) {
  const CsrMatrix<double> csr = generate(test_context(), "elasticity-3d", {{"n", 8}});
  EXPECT_EQ(size_in(csr), 3);
  const std::int64_t found = iterations(csr, "block-jacobi"), jacobi = iterations(csr, "jacobi");
  EXPECT_LE(found, jacobi);
  EXPECT_GT(iterations(csr, "block-jacobi", {.block_size = 4, .blocks = DiagonalBlocks::equal}), jacobi);
}

TEST(BlockSize, OfRealStructures) {
  const auto shipped = [](const std::string& name) {
    return read_matrix(test_context(),
                       std::string(PROTEAN_SOURCE_DIR "/problems/matrices/") + name + ".mtx.xz");
  };
  const CsrMatrix<double> shell = shipped("s1rmt3m1"), structure = shipped("bcsstk16"),
                          scalar = shipped("fv2");
  EXPECT_EQ(size_in(shell), 6);
  EXPECT_LT(5 * iterations(shell, "block-jacobi"), 4.5 * iterations(shell, "jacobi"));
  EXPECT_EQ(size_in(structure), 3);
  EXPECT_LE(iterations(structure, "block-jacobi"), iterations(structure, "jacobi"));
  EXPECT_EQ(size_in(scalar), 1);
}

// A grid with one unknown a node has no rows with the same columns: blocks found have one row, and M equals the M of
// jacobi. Strong couplings that lie side by side need a number, as README says.
TEST(BlockSize, OfAGridIsOneRowAndStrongCouplingsNeedANumber) {
  const CsrMatrix<double> csr = generate(test_context(), "anisotropic-3d", {{"n", 20}});
  EXPECT_EQ(figure(*ready<double>("block-jacobi", *assembled(csr)), "block_size"), 1);
  const std::int64_t jacobi = iterations(csr, "jacobi");
  EXPECT_EQ(iterations(csr, "block-jacobi"), jacobi);
  const std::int64_t four = iterations(csr, "block-jacobi", {.block_size = 4}),
                     twelve = iterations(csr, "block-jacobi", {.block_size = 12});
  EXPECT_LT(10 * four, 7 * jacobi);
  EXPECT_LT(twelve, four);
}

TEST(BlockSize, OfAScalarProblemIsOneAsInJacobi) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  EXPECT_EQ(size_in(csr), 1);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  const auto A = assembled(csr);
  EXPECT_EQ(applied(*ready<double>("block-jacobi", *A), r), applied(*ready<double>("jacobi", *A), r));
  EXPECT_EQ(figure(*ready<double>("block-jacobi", *A, {.block_size = 4}), "blocks"), 100);
}

// Entries in the space of a context, or of a host, as they are, which may become others.
class Entries final : public LinearOperator<double>, public HasRows<double> {
 public:
  Entries(const ContextPtr& context, const CsrMatrix<double>& csr)
      : Entries(context, csr, context->space()) {}
  Entries(const ContextPtr& context, const CsrMatrix<double>& csr, Space space)
      : LinearOperator<double>(context, {csr.rows(), csr.cols()}),
        space_(space),
        csr_(space == Space::host ? csr : placed(context, csr)) {}
  std::string_view name() const noexcept override { return "entries"; }
  Revision revision() const noexcept override { return revision_; }
  CsrMatrix<double> rows_as_csr() const override {
    ++asked_;
    return csr_;
  }
  void replace(const CsrMatrix<double>& csr, bool pattern) {
    csr_ = space_ == Space::host ? csr : placed(context(), csr);
    ++(pattern ? revision_.pattern : revision_.values);
  }
  // How often the entries were asked for since the last call.
  int asked() { return std::exchange(asked_, 0); }

 protected:
  void do_apply(double, VectorView<const double>, double, VectorView<double>) const override {
    FAIL() << "block-jacobi takes no products";
  }

 private:
  const Space space_;
  CsrMatrix<double> csr_;
  Revision revision_;
  mutable int asked_ = 0;
};

CsrMatrix<double> times(const CsrMatrix<double>& csr, double factor) {
  std::vector<Triplet<double>> entries;
  for (std::int64_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
      entries.push_back({static_cast<std::int32_t>(i), csr.pattern.col[p],
                         csr.values[p] * (csr.pattern.col[p] == i ? 1.5 * factor : factor)});
  return csr_from_triplets<double>(test_context(), csr.rows(), csr.cols(), entries);
}
CsrMatrix<double> backwards(const CsrMatrix<double>& csr) {
  CsrBuilder<double> builder(test_context(), csr.rows(), csr.cols(), csr.nonzeros());
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    const std::int64_t begin = csr.pattern.row_ptr[i], end = csr.pattern.row_ptr[i + 1];
    builder.set_row_ptr(i + 1, end);
    for (std::int64_t p = begin; p < end; ++p)
      builder.col()[p] = csr.pattern.col[begin + end - 1 - p],
      builder.values()[p] = csr.values[begin + end - 1 - p];
  }
  return builder.freeze();
}

// Nodes of random numbers of rows, up to `most`.
std::vector<int> random_nodes(int rows, int most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> unknowns;
  for (int n = 0; n < rows; n += unknowns.back())
    unknowns.push_back(1 + static_cast<int>(random() % static_cast<unsigned>(most)));
  return unknowns;
}

// The first rows of the blocks, and n, as the comment at preconditioners() and block_jacobi.cpp define them.
std::vector<std::int64_t> starts_of(const CsrMatrix<double>& csr, const PreconditionerOptions& options) {
  const std::int64_t n = csr.rows();
  std::vector<std::int64_t> groups;
  for (std::int64_t i = 0; i < n; ++i)
    if (i == 0 || !std::ranges::equal(csr.pattern.row(i), csr.pattern.row(i - 1))) groups.push_back(i);
  groups.push_back(n);
  std::int64_t size = options.block_size;
  if (size == 0) {
    const auto rows_in_nodes_of = [&](std::int64_t least) {
      std::int64_t rows = 0;
      for (std::size_t g = 0; g + 1 < groups.size(); ++g)
        if (groups[g + 1] - groups[g] >= least) rows += groups[g + 1] - groups[g];
      return rows;
    };
    size = 1;
    if (2 * rows_in_nodes_of(2) > n)
      for (size = 64; 5 * rows_in_nodes_of(size) < n;) --size;
  }
  std::vector<std::int64_t> starts = {0};
  if (options.blocks == DiagonalBlocks::equal) {
    for (std::int64_t i = size; i < n; i += size) starts.push_back(i);
  } else {
    for (std::size_t g = 0; g + 1 < groups.size(); ++g)
      for (std::int64_t first = groups[g]; first < groups[g + 1]; first += size)
        if (std::min(first + size, groups[g + 1]) - starts.back() > size) starts.push_back(first);
  }
  if (n > 0) starts.push_back(n);
  return starts;
}
// M^-1 r of such blocks.
std::vector<double> by_blocks(const CsrMatrix<double>& csr, const std::vector<std::int64_t>& starts,
                              const std::vector<double>& r) {
  std::vector<double> z(r.size());
  for (std::size_t b = 0; b + 1 < starts.size(); ++b) {
    const std::int64_t first = starts[b], m = starts[b + 1] - first;
    Dense block(m);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t p = csr.pattern.row_ptr[first + i]; p < csr.pattern.row_ptr[first + i + 1]; ++p)
        if (const std::int64_t j = csr.pattern.col[p] - first; j >= 0 && j < m) block(i, j) = csr.values[p];
    block = inverse(std::move(block));
    for (std::int64_t i = 0; i < m; ++i) {
      long double sum = 0;
      for (std::int64_t j = 0; j < m; ++j) sum += block(i, j) * r[first + j];
      z[first + i] = static_cast<double>(sum);
    }
  }
  return z;
}
void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    largest = std::max(largest, std::abs(expected[i])),
    difference = std::max(difference, std::abs(got[i] - expected[i]));
  EXPECT_LE(difference, 1e-13 * largest);
}

struct Pattern {
  const char* name;
  CsrMatrix<double> csr;
};
std::vector<Pattern> patterns() {
  Dense longer(12), changing(12);  // rows that begin as the row before, and have more or fewer columns
  for (std::int64_t i = 0; i < 12; ++i)
    for (std::int64_t j = 0; j <= i + 2 - i % 2 * 2 && j < 12; ++j) {
      const long double value = i == j ? 20 : 1.0L / static_cast<long double>(2 + i + j);
      if (j <= i) longer(i, j) = value;
      changing(i, j) = value;
    }
  return {{"nodes of 3", chain(nodes({{40, 3}}))},
          {"nodes of 3, many", chain(nodes({{1500, 3}}))},
          {"nodes of 3, one row more", chain(nodes({{13, 3}, {1, 1}}))},
          {"nodes of 2 first", chain(nodes({{1, 2}, {20, 3}}))},
          {"nodes of up to 5", chain(random_nodes(200, 5, 3))},
          {"nodes of up to 7, many", chain(random_nodes(5000, 7, 4))},
          {"nodes of up to 40", chain(random_nodes(2000, 40, 5))},
          {"single rows, then nodes of 3", chain(nodes({{30, 1}, {10, 3}}))},
          {"as many in single rows as in nodes", chain(nodes({{1200, 1}, {300, 4}}))},
          {"no nodes", chain(nodes({{100, 1}}))},
          {"no nodes, many", sparse(poisson_1d(1300))},
          {"a node of 64", chain({64})},
          {"a node of 65", chain({65})},
          {"a node of 150 behind two rows", chain({1, 1, 150, 2, 3})},
          {"large nodes", chain({63, 64, 65, 5, 130, 1, 128, 7})},
          {"rows that become longer", sparse(longer)},
          {"rows that become longer and shorter", sparse(changing)},
          {"one row", sparse(diagonal_matrix({4}))},
          {"two rows", chain({2})},
          {"none", csr_from_triplets<double>(test_context(), 0, 0, {})}};
}
std::vector<PreconditionerOptions> all_options() {
  std::vector<PreconditionerOptions> all;
  for (const DiagonalBlocks how : diagonal_blocks)
    for (const std::int64_t size : {0, 1, 2, 3, 5, 15, 16, 64})
      all.push_back({.block_size = size, .blocks = how});
  return all;
}

class Blocks : public InSpace {
 protected:
  void expect_blocks(const Preconditioner<double>& M, const CsrMatrix<double>& csr,
                     const PreconditionerOptions& options) const {
    const std::vector<std::int64_t> starts = starts_of(csr, options);
    EXPECT_EQ(figure(M, "blocks"), static_cast<double>(starts.size() - 1));
    const auto on_host = ready<double>("block-jacobi", *assembled(csr), options);
    EXPECT_EQ(figure(M, "block_size"), figure(*on_host, "block_size"));
    EXPECT_EQ(figure(M, "blocks"), figure(*on_host, "blocks"));
    const std::vector<double> r = right_hand_side<double>(csr.rows());
    expect_near(apply(M, r), by_blocks(csr, starts, r));
  }
};
INSTANTIATE_TEST_SUITE_P(Spaces, Blocks, testing::Values(Where::host, Where::simulated, Where::gpu),
                         name_of_space);

TEST_P(Blocks, AreThoseOfTheDefinition) {
  for (const auto& [name, csr] : patterns())
    for (const PreconditionerOptions& options : all_options()) {
      SCOPED_TRACE(std::string(name) + ", " + std::to_string(options.block_size) + " rows, " +
                   std::string(to_string(options.blocks)));
      Entries A(context_, csr);
      expect_blocks(*ready<double>("block-jacobi", A, options), csr, options);
      EXPECT_EQ(A.asked(), 1);
    }
}

// Row pointers of 64 bits, and of a matrix whose format is not csr.
TEST_P(Blocks, OfOtherArrays) {
  const CsrMatrix<double> csr = chain(random_nodes(2000, 6, 9));
  CsrBuilder<double> wide(test_context(), csr.rows(), csr.cols(), csr.nonzeros(), true);
  for (std::int64_t i = 0; i < csr.rows(); ++i) wide.set_row_ptr(i + 1, csr.pattern.row_ptr[i + 1]);
  std::copy_n(csr.pattern.col, csr.nonzeros(), wide.col());
  std::copy_n(csr.values, csr.nonzeros(), wide.values());
  expect_blocks(*ready<double>("block-jacobi", Entries(context_, wide.freeze())), csr, {});
  const FormatEntry& ell = GetParam() == Where::simulated ? fake_format("ell") : find_format("ell");
  const auto A = make_matrix(ell, placed(context_, csr), context_);
  expect_blocks(*ready<double>("block-jacobi", *A), csr, {});
}

TEST_P(Blocks, OfRowsThatAreNotSorted) {
  for (const auto& [name, csr] : patterns())
    for (const PreconditionerOptions& options : all_options()) {
      if (options.block_size % 3 != 0) continue;
      SCOPED_TRACE(name);
      expect_blocks(*ready<double>("block-jacobi", Entries(context_, backwards(csr)), options), csr, options);
    }
  // The first two, or the last two, entries of one row only.
  const CsrMatrix<double> csr = chain(random_nodes(1500, 5, 6));
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{700}, csr.rows() - 1})
    for (const std::int64_t at : {csr.pattern.row_ptr[row], csr.pattern.row_ptr[row + 1] - 2}) {
      CsrMatrix<double> other = deep_copy<double>(test_context(), csr);
      auto* const col = const_cast<std::int32_t*>(other.pattern.col) + at;
      auto* const values = const_cast<double*>(other.values) + at;
      std::swap(col[0], col[1]), std::swap(values[0], values[1]);
      expect_blocks(*ready<double>("block-jacobi", Entries(context_, other)), csr, {});
      // A column that a row has twice is refused in any case.
      col[0] = col[1];
      for (const PreconditionerOptions& options : all_options())
        EXPECT_THROW(ready<double>("block-jacobi", Entries(context_, other), options), BadMatrix);
    }
}

// An operator of a device may give its entries in host memory.
TEST_P(Blocks, OfEntriesInHostMemory) {
  for (const CsrMatrix<double>& csr : {chain(random_nodes(1500, 5, 7)), chain(nodes({{100, 3}}))}) {
    Entries A(context_, csr, Space::host);
    const auto M = ready<double>("block-jacobi", A);
    expect_blocks(*M, csr, {});
    const CsrMatrix<double> next = times(csr, 2);
    A.replace(next, false), M->ensure(A);
    expect_blocks(*M, next, {});
  }
}

// In a random sequence each setup gives the bits that a new object has.
TEST_P(Blocks, AreRenewedAsMadeAnew) {
  const std::vector<CsrMatrix<double>> some = {
      chain(nodes({{700, 3}})),           chain(nodes({{525, 4}})),           chain(nodes({{2100, 1}})),
      chain(nodes({{100, 1}, {400, 5}})), chain(nodes({{300, 2}, {500, 3}})), chain(nodes({{21, 100}}))};
  const std::vector<double> r = right_hand_side<double>(2100);
  std::mt19937 random(5);
  for (const PreconditionerOptions& options :
       {PreconditionerOptions{}, PreconditionerOptions{.block_size = 7},
        PreconditionerOptions{.block_size = 8, .blocks = DiagonalBlocks::equal}}) {
    Entries A(context_, some[0]);
    const auto M = make_preconditioner<double>("block-jacobi", A, options);
    std::size_t which = 0;
    for (int step = 0; step < 20; ++step) {
      SCOPED_TRACE(step);
      const bool pattern = random() % 2 == 0;
      if (pattern) which = random() % some.size();
      const CsrMatrix<double> next = times(some[which], 1 + static_cast<double>(random() % 1000) / 300);
      A.replace(next, pattern), M->ensure(A);
      const auto fresh = ready<double>("block-jacobi", Entries(context_, next), options);
      EXPECT_EQ(figure(*M, "blocks"), figure(*fresh, "blocks"));
      EXPECT_EQ(figure(*M, "block_size"), figure(*fresh, "block_size"));
      EXPECT_EQ(M->bytes(), fresh->bytes());
      EXPECT_EQ(apply(*M, r), apply(*fresh, r));
      EXPECT_EQ(figure(*M, "blocks"), static_cast<double>(starts_of(next, options).size() - 1));
    }
  }
}

TEST_P(Blocks, StayWhereANewPatternFails) {
  const CsrMatrix<double> good = chain(nodes({{100, 1}, {300, 3}})), other = chain(nodes({{250, 4}}));
  const std::vector<double> r = right_hand_side<double>(1000);
  for (const double wrong : {0.0, std::numeric_limits<double>::quiet_NaN()}) {
    Entries A(context_, good);
    const auto M = ready<double>("block-jacobi", A);
    const std::vector<double> z = apply(*M, r);
    const double blocks = figure(*M, "blocks");
    // The rows of node 150 are zero, or one entry is not finite.
    CsrMatrix<double> bad = deep_copy<double>(test_context(), other);
    auto* const values = const_cast<double*>(bad.values);
    std::fill(values + bad.pattern.row_ptr[600], values + bad.pattern.row_ptr[wrong == 0 ? 604 : 601], wrong);
    A.replace(bad, true);
    EXPECT_SAYS(message<BadMatrix>([&] { M->ensure(A); }),
                wrong == 0 ? "the block of rows 600 to 603 (from 0) is singular" : "row 600, column 596");
    EXPECT_EQ(figure(*M, "blocks"), blocks);
    EXPECT_EQ(figure(*M, "block_size"), 3);
    EXPECT_EQ(apply(*M, r), z);
    A.replace(other, true), M->ensure(A);
    EXPECT_EQ(apply(*M, r), apply(*ready<double>("block-jacobi", Entries(context_, other)), r));
  }
  // The same if blocks have different numbers of rows.
  CsrMatrix<double> bad = deep_copy<double>(test_context(), good);
  auto* const values = const_cast<double*>(bad.values);
  std::fill(values + bad.pattern.row_ptr[103], values + bad.pattern.row_ptr[106], 0.0);
  EXPECT_SAYS(message<BadMatrix>([&] { ready<double>("block-jacobi", Entries(context_, bad)); }),
              "the block of rows 103 to 105 (from 0) is singular");
}

// A setup on a device asks for the entries once and takes no memory of the host for them. It compares rows, for which
// it needs a byte per row, if the pattern is new.
std::atomic<std::size_t> bytes_of_host{0}, of_rows{0};
std::atomic<int> comparisons{0};
TEST_P(Blocks, AreNotReadByTheHost) {
  if (GetParam() == Where::host) GTEST_SKIP() << "no device in this case: a host reads its own matrix";
  for (const PreconditionerOptions& options :
       {PreconditionerOptions{}, PreconditionerOptions{.block_size = 8, .blocks = DiagonalBlocks::equal}}) {
    const CsrMatrix<double> csr = chain(random_nodes(3000, 6, 8)), next = times(csr, 3);
    Entries A(context_, csr);
    const auto M = make_preconditioner<double>("block-jacobi", A, options);
    of_rows = static_cast<std::size_t>(csr.rows());
    const auto setup = [&](bool analyses) {
      bytes_of_host = 0, comparisons = 0;
      detail::allocation_hook = [](Space space, std::size_t bytes) {
        if (space == Space::host) bytes_of_host += bytes;
        comparisons += space == Space::device && bytes == of_rows;
      };
      M->ensure(A);
      detail::allocation_hook = nullptr;
      EXPECT_EQ(A.asked(), 1);
      EXPECT_EQ(bytes_of_host, 0u);
      EXPECT_EQ(comparisons, analyses ? 1 : 0);
    };
    setup(true);
    A.replace(next, false), setup(false);
    expect_blocks(*M, next, options);
    A.replace(csr, true), setup(true);
    expect_blocks(*M, csr, options);
  }
}

// Blocks of equal numbers of rows need no arrays that say where they are, whether the rows were found or given.
TEST_P(Blocks, OfAsManyRowsTakeNoMemoryForTheirPlaces) {
  const auto bytes = [&](const std::vector<int>& unknowns, const PreconditionerOptions& options) {
    return ready<double>("block-jacobi", Entries(context_, chain(unknowns)), options)->bytes();
  };
  const std::size_t n = 300;
  for (const PreconditionerOptions& options : all_options()) {
    const auto size = static_cast<std::size_t>(options.block_size);
    if (size != 1 && size != 3) continue;
    EXPECT_EQ(bytes(nodes({{100, 3}}), options), (size + 1) * n * sizeof(double));
  }
  EXPECT_EQ(bytes(nodes({{100, 3}}), {}), 4 * n * sizeof(double));
  const std::size_t blocks = 101, of_places = (blocks + 1) * 8 + (GetParam() == Where::host ? 0 : 2 * n);
  EXPECT_EQ(bytes(nodes({{1, 2}, {99, 3}, {1, 1}}), {}), 4 * n * sizeof(double) + of_places);
}

}  // namespace
}  // namespace protean::test
