// The setup of multigrid on a device: each step against the same on a host, and the levels as a whole. On a simulated
// device, and on a GPU where there is one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/transfer.hpp"
#include "gtest/gtest.h"
#include "operators/callback_operator.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/multigrid/host/aggregation_structure.hpp"
#include "preconditioners/multigrid/host/prolongator.hpp"
#include "preconditioners/sparse/dense_inverse.hpp"
#include "preconditioners/sparse/level_format.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

namespace protean::test {
namespace {

using detail::DeviceLevel;
using detail::DeviceNodes;
using detail::DeviceStructure;
using detail::LevelWork;

class DeviceLevels : public InSpace {
 protected:
  template <class T>
  std::unique_ptr<LevelWork<T>> work() const {
    return detail::level_work<T>(context_);
  }
  SparsityPattern here(const SparsityPattern& pattern) const {
    return detail::download_pattern(test_context(), *context_, pattern);
  }
  template <class T>
  CsrMatrix<T> here(const CsrMatrix<T>& csr) const {
    return download(test_context(), *context_, csr);
  }
  template <class N>
  std::vector<N> here(const Buffer<N>& numbers) const {
    std::vector<N> copied(static_cast<std::size_t>(numbers.size()));
    detail::copy_bytes(*context_, copied.data(), Space::host, numbers.data(), Space::device, numbers.bytes());
    return copied;
  }
  template <class T>
  DeviceLevel<T> finest(const CsrMatrix<T>& csr) const {
    bool unsorted = true;
    auto level = work<T>()->finest(upload(context_, csr), false, unsorted);
    EXPECT_FALSE(unsorted);
    EXPECT_TRUE(level.has_value());
    return *std::move(level);
  }
  DeviceNodes nodes_there(std::int64_t rows, std::int32_t unknowns, const std::vector<double>& values,
                          std::int64_t vectors) const {
    DeviceNodes nodes;
    nodes.rows = rows, nodes.count = rows / unknowns, nodes.size = unknowns, nodes.vectors = vectors;
    if (!values.empty()) {
      nodes.values = Buffer<double>(context_, static_cast<std::int64_t>(values.size()));
      detail::copy_bytes(*context_, nodes.values.data(), Space::device, values.data(), Space::host,
                         nodes.values.bytes());
    }
    return nodes;
  }
};
INSTANTIATE_TEST_SUITE_P(Spaces, DeviceLevels, testing::Values(Where::simulated, Where::gpu), name_of_space);

CsrMatrix<double> generated(const char* kind, double n) { return generate(test_context(), kind, {{"n", n}}); }

detail::Nodes nodes_of(std::int64_t rows, std::int64_t unknowns, const std::vector<double>& values = {},
                       std::int64_t vectors = 0) {
  detail::Nodes nodes;
  for (std::int64_t i = unknowns; i <= rows; i += unknowns)
    nodes.first.push_back(static_cast<std::int32_t>(i));
  nodes.number_rows();
  nodes.vectors = values.empty() ? unknowns : vectors, nodes.values = values;
  if (values.empty()) {
    nodes.values.assign(static_cast<std::size_t>(rows * unknowns), 0);
    for (std::int64_t i = 0; i < rows; ++i)
      nodes.values[static_cast<std::size_t>(i * unknowns + i % unknowns)] = 1;
  }
  return nodes;
}

// Few entries a row, but for some rows that have very many; some rows and columns have none.
CsrMatrix<double> uneven(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Triplet<double>> entries;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t count = i % 97 == 13  ? cols - 3
                               : i % 11 == 5 ? 0
                                             : 1 + static_cast<std::int64_t>(random() % 7);
    std::vector<std::int32_t> columns;
    if (count == cols - 3) {
      columns.resize(static_cast<std::size_t>(count));
      std::iota(columns.begin(), columns.end(), 2);
    } else {
      for (std::int64_t k = 0; k < count; ++k)
        columns.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(cols / 3)) * 3);
      std::sort(columns.begin(), columns.end());
      columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    }
    for (const std::int32_t j : columns)
      entries.push_back({static_cast<std::int32_t>(i), j, static_cast<double>(random() % 2001) / 500 - 2});
  }
  return csr_from_triplets<double>(test_context(), rows, cols, entries);
}

bool same(const SparsityPattern& a, const detail::Graph& b) {
  if (a.rows != b.rows() || a.nonzeros != b.size()) return false;
  for (std::int64_t i = 0; i <= a.rows; ++i)
    if (a.row_ptr[i] != b.ptr[static_cast<std::size_t>(i)]) return false;
  return std::equal(b.col.begin(), b.col.end(), a.col);
}

TEST_P(DeviceLevels, TransposesPatterns) {
  for (const CsrMatrix<double>& csr :
       {uneven(300, 1500, 1), uneven(1500, 60, 2), generated("poisson-2d", 20),
        csr_from_triplets<double>(test_context(), 0, 7, std::vector<Triplet<double>>{}),
        csr_from_triplets<double>(test_context(), 5, 4, std::vector<Triplet<double>>{})}) {
    Buffer<std::int32_t> entries;
    const SparsityPattern found = here(work<double>()->transpose(upload(context_, csr).pattern, entries));
    const CsrMatrix<double> expected = transpose(test_context(), csr);
    EXPECT_TRUE(same_pattern(found, expected.pattern));
    const std::vector<std::int32_t> entry = here(entries);
    for (std::int64_t p = 0; p < csr.nonzeros(); ++p)
      ASSERT_EQ(csr.values[entry[static_cast<std::size_t>(p)]], expected.values[p]) << p;
  }
}

template <class T>
CsrMatrix<T> as(const CsrMatrix<double>& csr) {
  if constexpr (sizeof(T) == 8)
    return csr;
  else
    return convert_values<T>(test_context(), csr);
}

// The pattern is that of the host; the values are within rounding of sums in long double.
template <class T, class Test>
void expect_product(const Test& test, const LevelWork<T>& work, const ContextPtr& context,
                    const CsrMatrix<double>& wide_A, const CsrMatrix<double>& wide_B) {
  const CsrMatrix<T> A = as<T>(wide_A), B = as<T>(wide_B);
  const CsrMatrix<T> A_there = upload(context, A), B_there = upload(context, B);
  const SparsityPattern pattern = work.product_pattern(A_there.pattern, B_there.pattern);
  EXPECT_TRUE(same(test(pattern), detail::product_pattern(*test_context(), A.pattern, B.pattern)));
  const CsrMatrix<T> C_there = work.product(A_there, B_there, pattern), C = test(C_there);
  std::vector<long double> sum(static_cast<std::size_t>(B.cols())), size(sum.size());
  for (std::int64_t i = 0; i < A.rows(); ++i) {
    std::fill(sum.begin(), sum.end(), 0), std::fill(size.begin(), size.end(), 0);
    for (std::int64_t p = A.pattern.row_ptr[i]; p < A.pattern.row_ptr[i + 1]; ++p)
      for (std::int64_t q = B.pattern.row_ptr[A.pattern.col[p]]; q < B.pattern.row_ptr[A.pattern.col[p] + 1];
           ++q) {
        const long double term =
            static_cast<long double>(A.values[p]) * static_cast<long double>(B.values[q]);
        sum[static_cast<std::size_t>(B.pattern.col[q])] += term;
        size[static_cast<std::size_t>(B.pattern.col[q])] += std::abs(term);
      }
    const long double unit =
        static_cast<long double>(A.pattern.row_length(i) + 1) * std::numeric_limits<T>::epsilon();
    for (std::int64_t p = C.pattern.row_ptr[i]; p < C.pattern.row_ptr[i + 1]; ++p) {
      const auto j = static_cast<std::size_t>(C.pattern.col[p]);
      ASSERT_LE(std::abs(static_cast<long double>(C.values[p]) - sum[j]), unit * size[j]) << i << ' ' << j;
    }
  }
  // The same bits again.
  const CsrMatrix<T> again =
      test(work.product(A_there, B_there, work.product_pattern(A_there.pattern, B_there.pattern)));
  EXPECT_TRUE(identical(C, again));
}

TEST_P(DeviceLevels, MultipliesMatrices) {
  const auto fetch = [&](const auto& one) { return here(one); };
  const CsrMatrix<double> poisson = generated("poisson-3d", 11);
  const std::pair<CsrMatrix<double>, CsrMatrix<double>> pairs[] = {
      {poisson, poisson},
      {uneven(400, 700, 3), uneven(700, 900, 4)},
      {uneven(300, 2000, 5), uneven(2000, 2500, 6)},  // rows of more keys than the small tables take
      {uneven(100, 40, 7), uneven(40, 6000, 8)},
      {csr_from_triplets<double>(test_context(), 3, 0, std::vector<Triplet<double>>{}),
       csr_from_triplets<double>(test_context(), 0, 5, std::vector<Triplet<double>>{})}};
  for (const auto& [A, B] : pairs) {
    expect_product<double>(fetch, *work<double>(), context_, A, B);
    expect_product<float>(fetch, *work<float>(), context_, A, B);
  }
}

struct Problem {
  std::string name;
  CsrMatrix<double> csr;
  std::int64_t unknowns = 1;
  std::vector<double> vectors = {};
  std::int64_t vector_count = 0;
};

// Couplings of one side, and rows with none.
CsrMatrix<double> one_sided() {
  std::vector<Triplet<double>> entries;
  for (std::int32_t i = 0; i < 900; ++i) {
    entries.push_back({i, i, 2.0 + i % 3});
    if (i % 7 == 6) continue;
    if (i >= 1) entries.push_back({i, i - 1, -1});
    if (i >= 30 && i % 2) entries.push_back({i, i - 30, -0.5});
    if (i + 30 < 900 && i % 3) entries.push_back({i, i + 30, -0.7});
  }
  return csr_from_triplets<double>(test_context(), 900, 900, entries);
}

std::vector<Problem> problems() {
  std::vector<Problem> all = {
      {"2-D", generated("poisson-2d", 40)},
      {"3-D", generated("poisson-3d", 13)},
      {"anisotropic", generate(test_context(), "anisotropic-2d", {{"n", 40}, {"epsilon_y", 0.01}})},
      {"convection", generated("convection-diffusion-3d", 12)},
      {"random", generate(test_context(), "random-spd", {{"n", 900}})},
      {"one-sided", one_sided()},
      {"elasticity", generated("elasticity-3d", 6), 3}};
  // A vector that is a multiple of another one in some aggregates, so that ranks differ.
  Problem given{"given vectors", generated("elasticity-3d", 6), 3, {}, 4};
  const std::int64_t rows = given.csr.rows();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < 4; ++k)
      given.vectors.push_back(k < 3          ? (i % 3 == k ? 1.0 : 0.0)
                              : 2 * i < rows ? (i % 3 == 0 ? 1.0 : 0.0)
                                             : std::sin(0.01 * static_cast<double>(i)));
  all.push_back(std::move(given));
  // A hub, whose row is longer than any table of the first kind.
  std::vector<Triplet<double>> star;
  for (std::int32_t i = 0; i < 3000; ++i) {
    star.push_back({i, i, i == 0 ? 3000.0 : 3.0});
    if (i > 0) star.insert(star.end(), {{0, i, -1}, {i, 0, -1}});
    if (i > 1 && i % 50) star.insert(star.end(), {{i, i - 1, -1}, {i - 1, i, -1}});
  }
  all.push_back({"star", csr_from_triplets<double>(test_context(), 3000, 3000, star)});
  return all;
}

TEST_P(DeviceLevels, CouplingsAndAggregatesAreThoseOfTheHost) {
  for (const Problem& problem : problems())
    for (const double strength : {0.0, 0.02, 0.08, 0.3}) {
      const std::string what = problem.name + ' ' + std::to_string(strength);
      const detail::Nodes nodes = nodes_of(problem.csr.rows(), problem.unknowns);
      const detail::Graph expected =
          detail::strong_couplings<double>(*test_context(), problem.csr, nodes.first, nodes.of, strength);
      const DeviceNodes nodes_here =
          nodes_there(problem.csr.rows(), static_cast<std::int32_t>(problem.unknowns), {}, problem.unknowns);
      const SparsityPattern found = work<double>()->couplings(finest(problem.csr), nodes_here, strength);
      EXPECT_TRUE(same(here(found), expected)) << what;
      const detail::Aggregates aggregates = detail::aggregate(*test_context(), expected);
      Buffer<std::int32_t> of;
      EXPECT_EQ(work<double>()->aggregate(found, of), aggregates.count) << what;
      EXPECT_EQ(here(of), aggregates.of) << what;
    }
  // In any unit.
  const CsrMatrix<double> csr = generated("poisson-2d", 20);
  const detail::Nodes nodes = nodes_of(csr.rows(), 1);
  const detail::Graph expected =
      detail::strong_couplings<double>(*test_context(), csr, nodes.first, nodes.of, 0.1);
  for (const int exponent : {-600, 600}) {
    CsrMatrix<double> scaled = deep_copy(test_context(), csr);
    for (std::int64_t p = 0; p < csr.nonzeros(); ++p)
      const_cast<double*>(scaled.values)[p] = std::ldexp(csr.values[p], exponent);
    EXPECT_TRUE(same(here(work<double>()->couplings(finest(scaled), nodes_there(csr.rows(), 1, {}, 1), 0.1)),
                     expected))
        << exponent;
  }
}

template <class T>
void expect_near_values(const CsrMatrix<T>& found, const CsrMatrix<T>& expected, double tolerance,
                        const std::string& what) {
  ASSERT_TRUE(same_pattern(found.pattern, expected.pattern)) << what;
  double largest = 0, difference = 0;
  for (std::int64_t p = 0; p < found.nonzeros(); ++p) {
    largest = std::max(largest, std::abs(static_cast<double>(expected.values[p])));
    difference = std::max(
        difference, std::abs(static_cast<double>(found.values[p]) - static_cast<double>(expected.values[p])));
  }
  EXPECT_LE(difference, tolerance * largest) << what;
}

// P of two levels as on the host, and P^T A P as the host multiplies the same P.
template <class T, class Test>
void expect_levels(const Test& test, const LevelWork<T>& work, DeviceLevel<T> level, DeviceNodes first_nodes,
                   const CsrMatrix<T>& csr, detail::Nodes host_nodes, const std::string& what) {
  const ContextPtr& host = test_context();
  const double eps = std::numeric_limits<T>::epsilon();
  CsrMatrix<T> A = csr;
  std::vector<double> scale;
  for (std::int64_t i = 0; i < A.rows(); ++i)
    for (std::int64_t p = A.pattern.row_ptr[i]; p < A.pattern.row_ptr[i + 1]; ++p)
      if (A.pattern.col[p] == i) scale.push_back(std::abs(static_cast<double>(A.values[p])));
  const DeviceNodes* nodes = &first_nodes;
  std::vector<std::shared_ptr<DeviceStructure>> kept;
  for (int l = 0; l < 2; ++l) {
    const std::string here = what + ", level " + std::to_string(l);
    detail::Structure expected;
    expected.strong = detail::strong_couplings<T>(*host, A, host_nodes.first, host_nodes.of, 0.02);
    expected.aggregates = detail::aggregate(*host, expected.strong);
    detail::orthogonalise(*host, host_nodes, expected);
    const auto structure = work.structure(level, *nodes, {0.02, 0, 1.0}, nullptr);
    if (!structure) {
      EXPECT_TRUE(l > 0 || expected.coarse.rows() == 0) << here;
      return;
    }
    ASSERT_EQ(structure->aggregates, expected.aggregates.count) << here;
    ASSERT_EQ(structure->coarse.rows, expected.coarse.rows()) << here;
    expected.P =
        std::make_shared<const detail::Graph>(detail::prolongator_pattern(*host, host_nodes, expected));
    ASSERT_TRUE(same(test(structure->P), *expected.P)) << here;
    Vector<T> diagonal(host, A.rows());
    extract_diagonal<T>(*host, A, diagonal.data());
    const CsrMatrix<T> expected_P = detail::matrix_of<T>(
        expected.P, expected.coarse.rows(),
        detail::prolongator_values<T>(host, A, detail::divisors<T>(diagonal, scale), host_nodes, expected));
    const CsrMatrix<T> P_there = work.prolongator(level, *nodes, *structure), P = test(P_there);
    expect_near_values(P, expected_P, 100 * eps, here + ", P");
    const CsrMatrix<T> R_there = work.restriction(P_there, *structure);
    const CsrMatrix<T> R = transpose(host, P);
    EXPECT_TRUE(identical(test(R_there), R)) << here;
    const CsrMatrix<T> coarse_there =
        work.product(R_there, work.product(level.csr, P_there, structure->AP), structure->coarse_pattern);
    const auto AP_pattern =
        std::make_shared<const detail::Graph>(detail::product_pattern(*host, A.pattern, P.pattern));
    const CsrMatrix<T> AP =
        detail::matrix_of<T>(AP_pattern, P.cols(), detail::product_values(host, A, P, *AP_pattern));
    const auto coarse_pattern =
        std::make_shared<const detail::Graph>(detail::product_pattern(*host, R.pattern, AP.pattern));
    const CsrMatrix<T> coarse =
        detail::matrix_of<T>(coarse_pattern, P.cols(), detail::product_values(host, R, AP, *coarse_pattern));
    expect_near_values(test(coarse_there), coarse, 20 * eps, here + ", P^T A P");
    // The same bits again, and kept where the couplings are the same.
    const auto again = work.structure(level, *nodes, {0.02, 0, 1.0}, nullptr);
    EXPECT_TRUE(identical(test(work.prolongator(level, *nodes, *again)), P)) << here;
    EXPECT_EQ(work.structure(level, *nodes, {0.02, 0, 1.0}, structure), structure) << here;
    EXPECT_NE(work.structure(level, *nodes, {0.9, 0, 2.0}, structure), structure) << here;
    scale = detail::coarse_scale(scale, host_nodes, expected);
    std::int64_t bad = 0;
    DeviceLevel<T> next = work.coarser(coarse_there, level, *nodes, *structure, bad);
    EXPECT_EQ(bad, -1);
    const std::vector<double> next_scale = test(next.scale);
    ASSERT_EQ(next_scale.size(), scale.size());
    for (std::size_t c = 0; c < scale.size(); ++c) ASSERT_EQ(next_scale[c], scale[c]) << here << ' ' << c;
    level = std::move(next), A = test(coarse_there);
    kept.push_back(structure), nodes = &structure->coarse, host_nodes = expected.coarse;
    // Compare the next level with what the device has, not with a rounding of it.
    host_nodes.values = test(structure->coarse.values);
    for (std::size_t k = 0; k < host_nodes.values.size(); ++k)
      ASSERT_NEAR(host_nodes.values[k], expected.coarse.values[k],
                  1e-13 * std::max(1.0, std::abs(expected.coarse.values[k])));
  }
}

TEST_P(DeviceLevels, ProlongatorsAndCoarserMatricesAreThoseOfTheHost) {
  const auto fetch = [&](const auto& one) { return here(one); };
  for (const Problem& problem : problems()) {
    const auto unknowns = static_cast<std::int32_t>(problem.unknowns);
    const std::int64_t rows = problem.csr.rows(),
                       vectors = problem.vectors.empty() ? unknowns : problem.vector_count;
    const detail::Nodes nodes = nodes_of(rows, unknowns, problem.vectors, problem.vector_count);
    expect_levels<double>(fetch, *work<double>(), finest(problem.csr),
                          nodes_there(rows, unknowns, problem.vectors, vectors), problem.csr, nodes,
                          problem.name);
    const CsrMatrix<float> narrow = convert_values<float>(test_context(), problem.csr);
    expect_levels<float>(fetch, *work<float>(), finest(narrow),
                         nodes_there(rows, unknowns, problem.vectors, vectors), narrow, nodes,
                         problem.name + ", float");
  }
}

TEST_P(DeviceLevels, DenseInverses) {
  std::vector<Dense> all = {poisson_2d(5), scattered(25, 4), scattered(200, 5), poisson_1d(256),
                            poisson_1d(1)};
  Dense free = poisson_1d(60);
  free(0, 0) = free(59, 59) = 1;
  all.push_back(free);
  Dense exchanged(30);  // whose diagonal is far smaller than its other entries
  for (std::int64_t i = 0; i < 30; ++i) exchanged(i, i) = 1e-3L, exchanged(i, (7 * i + 3) % 30) += 2 + i % 5;
  all.push_back(exchanged);
  for (std::size_t which = 0; which < all.size(); ++which) {
    const Dense& A = all[which];
    const std::int64_t n = A.n;
    const DeviceLevel<double> level = finest(sparse(A));
    Vector<double> X(context_, n * n);
    ASSERT_TRUE(work<double>()->dense(level, X));
    std::vector<double> x(static_cast<std::size_t>(n * n));
    copy<double>(*context_, X.view(), {x.data(), n * n});
    Dense found(n);
    std::copy(x.begin(), x.end(), found.a.begin());
    expect_same(product(A, product(found, A)), A, which == 5 ? 1e-12L : 1e-11L);
    if (which != 5) expect_same(found, inverse(A), 1e-9L);
  }
}

// Where the strength is halved, kept structures are found to be right, too.
TEST_P(DeviceLevels, KeptWhereTheStrengthIsHalved) {
  const CsrMatrix<double> csr = trilinear(9);
  const DeviceLevel<double> level = finest(csr);
  const DeviceNodes nodes = nodes_there(csr.rows(), 1, {}, 1);
  const detail::CouplingRules rules{0.08, 4, 0.8};
  EXPECT_EQ(work<double>()->couplings(level, nodes, rules.strength).nonzeros, 0);
  const auto made = work<double>()->structure(level, nodes, rules, nullptr);
  ASSERT_NE(made, nullptr);
  EXPECT_GT(made->strong.nonzeros, csr.rows());
  EXPECT_EQ(work<double>()->structure(level, nodes, rules, made), made);
  EXPECT_NE(work<double>()->structure(finest(generated("poisson-3d", 9)), nodes, rules, made), made);
  EXPECT_EQ(work<double>()->structure(level, nodes, {0.08, 0, 0.8}, nullptr), nullptr);
}

// Levels, figures and iterations of whole setups.
TEST_P(DeviceLevels, SetupsAreAsOnTheHost) {
  std::vector<Problem> all = problems();
  all.push_back({"many levels", generated("poisson-2d", 100)});
  all.push_back({"hexahedra", trilinear(12)});  // whose strength is halved
  all.push_back({"small", generated("poisson-2d", 12)});
  all.push_back({"empty", csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{})});
  for (const Problem& problem : all)
    for (const Smoother smoother : smoothers) {
      if (problem.name == "convection" || problem.name == "one-sided" || !problem.vectors.empty()) continue;
      for (const std::int64_t most : {25, 2, 1}) {
        if (most < 25 && smoother == Smoother::gauss_seidel) continue;
        const std::string what =
            problem.name + ' ' + std::string(to_string(smoother)) + ' ' + std::to_string(most);
        const PreconditionerOptions options{
            .smoother = smoother, .max_levels = most, .unknowns = problem.unknowns};
        const auto A = assembled(problem.csr), A_there = matrix(problem.csr);
        const auto M = ready<double>("amg", *A, options), M_there = ready<double>("amg", *A_there, options);
        const auto expected = M->figures(), found = M_there->figures();
        ASSERT_EQ(found.size(), expected.size()) << what << ": " << (found.empty() ? "" : found.back().name);
        for (std::size_t k = 0; k < found.size(); ++k) {
          EXPECT_EQ(found[k].name, expected[k].name);
          if (found[k].name == "cycle_products") continue;  // formats differ
          EXPECT_NEAR(found[k].value, expected[k].value, 0.01 * expected[k].value)
              << what << ' ' << found[k].name;
        }
        if (problem.csr.rows() == 0 || most < 25) continue;
        const auto iterations = [&](const LinearOperator<double>& by, const Preconditioner<double>& with,
                                    const ContextPtr& context) {
          const Placed<double> b(context, right_hand_side<double>(problem.csr.rows()));
          Placed<double> x(context, std::vector<double>(static_cast<std::size_t>(problem.csr.rows()), 0.0));
          const SolveReport report = make_solver<double>("cg")->solve(by, b.read(), x.view(), &with);
          EXPECT_TRUE(report.converged()) << what << ' ' << report.detail;
          return static_cast<double>(report.iterations);
        };
        const double on_host = iterations(*A, *M, test_context());
        EXPECT_NEAR(iterations(*A_there, *M_there, context_), on_host, std::max(1.0, 0.15 * on_host)) << what;
      }
    }
}

// What the host has to do is said.
TEST_P(DeviceLevels, ReasonsForTheHost) {
  const CsrMatrix<double> csr = generated("poisson-2d", 20);
  CsrMatrix<double> unsorted = deep_copy(test_context(), csr);
  std::swap(const_cast<std::int32_t*>(unsorted.pattern.col)[0],
            const_cast<std::int32_t*>(unsorted.pattern.col)[1]);
  std::swap(const_cast<double*>(unsorted.values)[0], const_cast<double*>(unsorted.values)[1]);
  const auto A = matrix(unsorted), sorted = matrix(csr);
  const auto M = ready<double>("amg", *A), of_sorted = ready<double>("amg", *sorted);
  EXPECT_EQ(figure(*M, "setup_on_host_unsorted_rows"), 1);
  for (const PreconditionerFigure& one : of_sorted->figures())
    EXPECT_FALSE(one.name.starts_with("setup_on_host")) << one.name;
  const std::vector<double> r = right_hand_side<double>(csr.rows()), z = apply(*M, r),
                            expected = apply(*of_sorted, r);
  for (std::size_t i = 0; i < z.size(); ++i)
    ASSERT_NEAR(z[i], expected[i], 1e-11 * std::abs(expected[i]) + 1e-12);
  // From one way to the other and back, with the same object.
  const auto kept = ready<double>("amg", *sorted);
  kept->ensure(*A);
  EXPECT_EQ(figure(*kept, "setup_on_host_unsorted_rows"), 1);
  EXPECT_EQ(apply(*kept, r), z);
  kept->ensure(*sorted);
  EXPECT_EQ(kept->figures().size(), of_sorted->figures().size());
  EXPECT_EQ(apply(*kept, r), expected);

  // Zeros on the diagonal: refused by the host's message, or taken as ones.
  CsrMatrix<double> zero = deep_copy(test_context(), csr);
  for (std::int64_t p = csr.pattern.row_ptr[7]; p < csr.pattern.row_ptr[8]; ++p)
    if (csr.pattern.col[p] == 7) const_cast<double*>(zero.values)[p] = 0;
  const auto B = matrix(zero);
  EXPECT_SAYS(message<BadMatrix>([&] { (void)ready<double>("amg", *B); }), "row 7 (0)");
  const auto with_one = ready<double>("amg", *B, {.zero_diagonal = ZeroDiagonal::one});
  const auto B_on_host = assembled(zero);
  const auto on_host = ready<double>("amg", *B_on_host, {.zero_diagonal = ZeroDiagonal::one});
  EXPECT_EQ(with_one->figures().size(), on_host->figures().size());
  const std::vector<double> one = apply(*with_one, r), other = applied(*on_host, r);
  for (std::size_t i = 0; i < one.size(); ++i)
    ASSERT_NEAR(one[i], other[i], 1e-10 * std::abs(other[i]) + 1e-11);

  // Products that T cannot hold.
  CsrMatrix<double> large = deep_copy(test_context(), csr);
  for (std::int64_t p = 0; p < csr.nonzeros(); ++p)
    const_cast<double*>(large.values)[p] *= 0.24 * std::numeric_limits<double>::max();
  const std::string text = message<BadMatrix>([&] { (void)ready<double>("amg", *matrix(large)); });
  EXPECT_EQ(text, message<BadMatrix>([&] { (void)ready<double>("amg", *assembled(large)); }));
}

// A pattern on the device is looked at there, and gets the format of the same pattern on the host.
TEST_P(DeviceLevels, FormatsOfPatternsOnADevice) {
  for (const CsrMatrix<double>& csr : {generated("poisson-3d", 30), generated("elasticity-3d", 9),
                                       uneven(300, 900, 9), generated("poisson-2d", 5)}) {
    const CsrMatrix<double> there = upload(context_, csr);
    std::string chosen, expected;
    const auto matrix = detail::in_format<double>(context_, there, there.pattern, chosen);
    (void)detail::in_format<double>(context_, there, csr.pattern, expected);
    EXPECT_EQ(chosen, expected);
    EXPECT_EQ(matrix->name(), expected);
    EXPECT_TRUE(identical(here(matrix->to_csr()), csr));
  }
}

// Triangles of rows with and without a diagonal entry, and without any.
TEST_P(DeviceLevels, Triangles) {
  for (const CsrMatrix<double>& csr :
       {uneven(300, 300, 1), generated("poisson-2d", 20),
        csr_from_triplets<double>(test_context(), 5, 5, std::vector<Triplet<double>>{}),
        csr_from_triplets<double>(test_context(), 0, 0, std::vector<Triplet<double>>{})})
    for (const bool lower : {true, false}) {
      std::vector<Triplet<double>> entries;
      for (std::int64_t i = 0; i < csr.rows(); ++i) {
        entries.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(i), 1.0});
        for (const std::int32_t j : csr.pattern.row(i))
          if (lower ? j < i : j > i) entries.push_back({static_cast<std::int32_t>(i), j, 1.0});
      }
      const auto expected =
          csr_from_triplets<double>(test_context(), csr.rows(), csr.rows(), entries).pattern;
      EXPECT_TRUE(
          same_pattern(here(work<double>()->triangle(upload(context_, csr).pattern, lower)), expected));
    }
}

TEST_P(DeviceLevels, PlacesInAPermutation) {
  const std::vector<std::int32_t> order = {3, 0, 4, 1, 2};
  Buffer<std::int32_t> there(context_, 5);
  detail::copy_bytes(*context_, there.data(), Space::device, order.data(), Space::host, there.bytes());
  EXPECT_EQ(here(work<double>()->places(there)), (std::vector<std::int64_t>{1, 3, 4, 0, 2}));
}

TEST_P(DeviceLevels, WhatCanBeDividedBy) {
  const auto can = [&]<class T>(std::vector<T> d) {
    const Placed<T> there(context_, d);
    return work<T>()->positive_divisors(there.read());
  };
  constexpr double infinity = std::numeric_limits<double>::infinity(), tiny = 1e-320;
  EXPECT_TRUE(can(std::vector<double>(1000, 2.0)));
  EXPECT_TRUE(can(std::vector<double>{}));
  for (const double bad : {0.0, -0.0, -1.0, infinity, -infinity, std::nan(""), tiny}) {
    std::vector<double> d(1000, 2.0);
    d[777] = bad;
    EXPECT_FALSE(can(d)) << bad;
  }
  EXPECT_FALSE(can(std::vector<float>{1, 1e-39F}));
}

// The bounds of eigenvalues of a host, from the same first vector: for this they must agree in all but rounding.
TEST_P(DeviceLevels, ChebyshevHasTheBoundsOfTheHost) {
  for (const char* kind : {"poisson-2d", "elasticity-3d"}) {
    const CsrMatrix<double> csr = generated(kind, 9);
    const double here = figure(*ready<double>("chebyshev", *matrix(csr)), "eigenvalue_bound"),
                 expected = figure(*ready<double>("chebyshev", *assembled(csr)), "eigenvalue_bound");
    EXPECT_NEAR(here, expected, 1e-6 * expected) << kind;
    EXPECT_NE(expected, 1);
  }
}

// Row pointers of 8 bytes.
TEST_P(DeviceLevels, WidePointers) {
  const CsrMatrix<double> csr = generated("poisson-2d", 30);
  CsrBuilder<double> builder(test_context(), csr.rows(), csr.cols(), csr.nonzeros(), true);
  for (std::int64_t i = 0; i <= csr.rows(); ++i) builder.set_row_ptr(i, csr.pattern.row_ptr[i]);
  std::copy_n(csr.pattern.col, csr.nonzeros(), builder.col()),
      std::copy_n(csr.values, csr.nonzeros(), builder.values());
  const auto A = matrix(builder.freeze()), B = matrix(csr);
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  // Products of csr add in another order there.
  const std::vector<double> z = apply(*ready<double>("amg", *A), r),
                            expected = apply(*ready<double>("amg", *B), r);
  for (std::size_t i = 0; i < z.size(); ++i) ASSERT_NEAR(z[i], expected[i], 1e-12);
}

}  // namespace
}  // namespace protean::test
