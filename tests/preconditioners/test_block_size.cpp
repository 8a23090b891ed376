// The rows that block-jacobi takes together where no number is given: the unknowns of a node, found in the pattern.
#include <array>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"

namespace protean::test {
namespace {

// A chain of nodes with so many unknowns: the rows of a node have the columns of the node and its neighbours.
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

TEST(BlockSize, OfAScalarProblemIsOneAsInJacobi) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 20}});
  EXPECT_EQ(size_in(csr), 1);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  const auto A = assembled(csr);
  EXPECT_EQ(applied(*ready<double>("block-jacobi", *A), r), applied(*ready<double>("jacobi", *A), r));
  EXPECT_EQ(figure(*ready<double>("block-jacobi", *A, {.block_size = 4}), "blocks"), 100);
}

}  // namespace
}  // namespace protean::test
