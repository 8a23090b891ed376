// The setup of multigrid on a device: each step against the same on a host, and the levels as a whole. On a simulated
// device, and on a GPU if there is one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/device_level_work.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/multigrid/host/aggregation_structure.hpp"
#include "preconditioners/multigrid/host/prolongator.hpp"
#include "preconditioners/sparse/level_format.hpp"
#include "preconditioners/sparse/sparse_product.hpp"

namespace protean::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Spaces, DeviceLevels, testing::Values(Where::simulated, Where::gpu), name_of_space);

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
    const std::vector<double> divisors = detail::divisors<T>(diagonal, scale);
    const CsrMatrix<T> expected_P = detail::matrix_of<T>(
        expected.P, expected.coarse.rows(),
        detail::prolongator_values<T>(host, A, divisors, detail::prolongator_omega<T>(*host, A, divisors),
                                      host_nodes, expected));
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

// If the strength is halved, kept structures are found to be right, too.
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

}  // namespace
}  // namespace protean::test
