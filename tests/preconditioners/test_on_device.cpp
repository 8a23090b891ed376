// Triangular solves of preconditioners in both spaces against dense computations: on the host, on a simulated device,
// and on a GPU if there is one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Spaces, InSpace, testing::Values(Where::host, Where::simulated, Where::gpu),
                         name_of_space);

// A chain of nodes, each with the next one of these numbers of unknowns: rows of a node have the same columns.
Dense in_nodes(std::int64_t n, const std::vector<std::int64_t>& unknowns) {
  std::vector<std::int64_t> node;
  for (std::int64_t k = 0; static_cast<std::int64_t>(node.size()) < n; ++k)
    for (std::int64_t i = 0; i < unknowns[k % unknowns.size()]; ++i) node.push_back(k);
  Dense A(n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      if (std::abs(node[i] - node[j]) <= 1)
        A(i, j) = i == j ? 20 : 1.0L / static_cast<long double>(2 + i + j);
  return A;
}
TEST_P(InSpace, ColouredSolvesAreThoseOfTheDenseFormulas) {
  std::vector<Dense> battery = symmetric_battery();
  for (Dense& A : general_battery()) battery.push_back(std::move(A));
  for (const Dense& A : battery) {
    const auto A_here = matrix(sparse(A));
    expect_same(dense(*ready<double>("gauss-seidel", *A_here)), inverse(gauss_seidel_matrix(A)), 1e-13);
    for (const double omega : {1.0, 0.7, 1.6})
      expect_same(dense(*ready<double>("ssor", *A_here, {.omega = omega})), inverse(ssor_matrix(A, omega)),
                  1e-13);
    const auto single = matrix(sparse<float>(A));
    expect_same(dense(*ready<float>("ssor", *single)), inverse(ssor_matrix(A, 1)), 3e-6);
  }
}

TEST_P(InSpace, FactorsAreThoseOfTheDenseAlgorithm) {
  for (const TriangularSolve how : exact())
    for (const int fill : {0, 1, 3}) {
      const PreconditionerOptions options{.fill = fill, .ordering = FactorOrdering::natural, .solve = how};
      for (const Dense& A : symmetric_battery()) {
        const auto M = ready_with_read<double>(fill == 0 ? "ic0" : "ic", *matrix(sparse(A)), options);
        expect_same(dense(*M), inverse(incomplete_product(A, fill)), 1e-12);
      }
      for (const Dense& A : general_battery()) {
        const Dense expected = inverse(incomplete_product(A, fill));
        const auto M = ready_with_read<double>(fill == 0 ? "ilu0" : "ilu", *matrix(sparse(A)), options);
        expect_same(dense(*M), expected, 1e-12);
        const auto single =
            ready_with_read<float>(fill == 0 ? "ilu0" : "ilu", *matrix(sparse<float>(A)), options);
        expect_same(dense(*single), expected, 1e-5);
      }
    }
}

TEST_P(InSpace, SweepsAreTheTruncatedSeries) {
  for (const int sweeps : {1, 2, 3, 4, 7}) {
    const PreconditionerOptions options{.fill = 1, .solve = TriangularSolve::sweeps, .sweeps = sweeps};
    for (const Dense& A : symmetric_battery()) {
      const auto M = ready<double>("ic", *matrix(sparse(A)), options);
      EXPECT_EQ(figure(*M, "sweeps"), sweeps);
      const Dense got = dense(*M);
      expect_same(got, swept_inverse(A, 1, sweeps), 1e-13);
      // Symmetric, which cg needs.
      Dense transposed(A.n);
      for (std::int64_t i = 0; i < A.n; ++i)
        for (std::int64_t j = 0; j < A.n; ++j) transposed(i, j) = got(j, i);
      expect_same(got, transposed, 1e-15);
    }
    for (const Dense& A : general_battery())
      expect_same(dense(*ready<double>("ilu0", *matrix(sparse(A)), options)), swept_inverse(A, 0, sweeps),
                  1e-13);
  }
  // As many sweeps as there are rows are an exact solve; a few are not.
  const Dense A = poisson_2d(6);
  const auto with = [&](int sweeps) {
    return dense(
        *ready<double>("ic0", *matrix(sparse(A)), {.solve = TriangularSolve::sweeps, .sweeps = sweeps}));
  };
  expect_same(with(36), inverse(incomplete_product(A, 0)), 1e-13);
  const Dense few = with(2), exact = inverse(incomplete_product(A, 0));
  EXPECT_GT(std::abs(few(35, 0) - exact(35, 0)), 1e-6L);
}

TEST_P(InSpace, AlphaAndBetaOfEveryWay) {
  const auto A = matrix(sparse(poisson_2d(8)));
  const std::vector<double> r = right_hand_side<double>(64);
  std::vector<TriangularSolve> ways = exact();
  ways.push_back(TriangularSolve::sweeps);
  for (const TriangularSolve how : ways) {
    const auto M = ready<double>("ic0", *A, {.ordering = FactorOrdering::natural, .solve = how});
    const std::vector<double> z = apply(*M, r);
    const Placed<double> x(context_, r);
    Placed<double> y(context_, std::vector<double>(64, 2.0));
    M->apply(3, x.read(), -2, y.view());
    const std::vector<double> got = y.fetch();
    for (std::size_t i = 0; i < r.size(); ++i) EXPECT_NEAR(got[i], 3 * z[i] - 4, 1e-13);
    EXPECT_EQ(apply(*M, r), z) << "two applications gave different bits";
    EXPECT_GT(M->bytes(), 64u * 8);
  }
}

// A result that is NaN must not be taken for one that is not there yet, whatever its bits.
TEST_P(InSpace, NaNsPassAndLeaveNothingBehind) {
  const auto with_bits = [](auto bits, auto value) { return std::bit_cast<decltype(value)>(bits); };
  const auto check = [&]<class T>(T, const std::vector<T>& nans) {
    for (const Dense& A : {poisson_1d(80), poisson_2d(9)})
      for (const char* id : {"ic0", "ssor"}) {
        const auto A_here = matrix(sparse<T>(A));
        const auto M = ready<T>(id, *A_here);
        const std::vector<T> r = right_hand_side<T>(A.n), z = apply(*M, r);
        for (const T nan : nans) {
          std::vector<T> bad = r;
          bad[0] = nan;
          EXPECT_TRUE(std::isnan(apply(*M, bad)[0]));
          bad.assign(r.size(), nan);
          for (const T value : apply(*M, bad)) EXPECT_TRUE(std::isnan(value));
          EXPECT_EQ(apply(*M, r), z);
        }
      }
  };
  check(double{}, {std::numeric_limits<double>::quiet_NaN(), with_bits(~std::uint64_t{0}, double{})});
  check(float{}, {std::numeric_limits<float>::quiet_NaN(), with_bits(~std::uint32_t{0}, float{})});
}

// New values and new patterns in a random sequence: the bits of an object that is made anew. New values leave all
// arrays where they are, so steps that a solver has recorded need not be recorded again.
TEST_P(InSpace, RenewedAsMadeAnew) {
  struct Kind {
    const char* id;
    PreconditionerOptions options;
  };
  std::vector<Kind> kinds = {{"gauss-seidel", {}},
                             {"ssor", {.omega = 1.3}},
                             {"block-jacobi", {.block_size = 3, .blocks = DiagonalBlocks::found}},
                             {"block-jacobi", {.block_size = 3, .blocks = DiagonalBlocks::equal}},
                             {"block-jacobi", {}},
                             {"ic0", {.solve = TriangularSolve::sweeps, .sweeps = 3}},
                             {"ilu", {.fill = 2, .solve = TriangularSolve::sweeps}}};
  for (const TriangularSolve how : exact()) {
    // auto may choose another way for the new object, which gives other bits.
    if (how == TriangularSolve::automatic) continue;
    kinds.push_back({"ic0", {.solve = how}});
    kinds.push_back({"ilu", {.fill = 1, .solve = how}});
  }
  std::mt19937 random(71);
  for (const Kind& kind : kinds) {
    std::vector<CsrMatrix<double>> patterns;
    std::vector<std::unique_ptr<AssembledMatrix<double>>> matrices;
    // With blocks found they are 22 of up to three rows, 32 of the two rows of a node, and 16 of up to four rows.
    for (const Dense& A : {poisson_2d(8), poisson_1d(64), full(64), in_nodes(64, {2}), in_nodes(64, {3, 1})})
      patterns.push_back(sparse(A)), matrices.push_back(matrix(patterns.back()));
    const auto M = make_preconditioner<double>(kind.id, *matrices[0], kind.options);
    const std::vector<double> r = right_hand_side<double>(64);
    std::size_t last = patterns.size();
    std::uint64_t version = 0;
    for (int step = 0; step < 24; ++step) {
      const std::size_t which = random() % 3 == 0 ? random() % patterns.size() : step == 0 ? 0 : last;
      const CsrMatrix<double>& csr = patterns[which];
      std::vector<double> values(csr.values, csr.values + csr.nonzeros());
      const double factor = 1 + static_cast<double>(random() % 1000) / 300;
      for (std::int64_t i = 0; i < csr.rows(); ++i)
        for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
          values[p] *= csr.pattern.col[p] == i ? 1.5 * factor : factor;
      CsrMatrix<double> next = csr;
      next.values = values.data(), next.values_owner = nullptr;
      matrices[which]->update_values(placed(context_, next));
      M->ensure(*matrices[which]);
      const auto fresh_matrix = matrix(next);
      EXPECT_EQ(apply(*M, r), apply(*ready<double>(kind.id, *fresh_matrix, kind.options), r))
          << kind.id << ' ' << step;
      // block-jacobi queues the same work for any pattern.
      if (GetParam() != Where::host && kind.id != std::string_view("block-jacobi")) {
        EXPECT_EQ(M->recording().version == version, which == last) << kind.id << ' ' << step;
      }
      last = which, version = M->recording().version;
    }
  }
}

TEST_P(InSpace, AFailedRenewalKeepsTheOldOne) {
  const Dense good = poisson_2d(6);
  const CsrMatrix<double> csr = sparse(good);
  for (const char* id : {"ssor", "ic0", "ilu0"}) {
    const auto A = matrix(csr);
    const auto M = ready<double>(id, *A);
    const std::vector<double> r = right_hand_side<double>(36), z = apply(*M, r);
    std::vector<double> values(csr.values, csr.values + csr.nonzeros());
    values[0] = 0;  // a zero on the diagonal
    CsrMatrix<double> bad = csr;
    bad.values = values.data(), bad.values_owner = nullptr;
    A->update_values(placed(context_, bad));
    EXPECT_THROW(M->ensure(*A), BadMatrix);
    EXPECT_EQ(apply(*M, r), z);
  }
}

// A program may change the values and renew M while a solve runs: the rest of the solve uses the new M.
class NewValues final : public SolveObserver {
 public:
  NewValues(AssembledMatrix<double>& A, Preconditioner<double>& M, CsrMatrix<double> next)
      : A_(A), M_(M), next_(std::move(next)) {}
  bool on_iteration(const IterationInfo& info) override {
    if (info.iteration != 3) return true;
    A_.update_values(next_), M_.ensure(A_);
    return true;
  }
  std::int64_t next_stop() const noexcept override { return 3; }

 private:
  AssembledMatrix<double>& A_;
  Preconditioner<double>& M_;
  CsrMatrix<double> next_;
};

TEST_P(InSpace, NewValuesInTheMiddleOfASolve) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", 24}});
  // D A D, for which the old M is of no use.
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  const auto scale = [](std::int64_t i) { return i % 3 == 0 ? 30.0 : 1.0; };
  for (std::int64_t i = 0; i < csr.rows(); ++i)
    for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
      values[p] *= scale(i) * scale(csr.pattern.col[p]);
  CsrMatrix<double> next = csr;
  next.values = values.data(), next.values_owner = nullptr;
  const std::vector<double> ones(static_cast<std::size_t>(csr.rows()), 1.0);
  const Placed<double> b(context_, ones);
  for (const char* method : {"cg", "bicgstab", "minres"})
    for (const char* id : {"jacobi", "spai0", "block-jacobi", "ssor", "ic0", "chebyshev", "amg"}) {
      const auto solved = [&](bool change) {
        const auto A = matrix(change ? csr : next);
        const auto M = ready<double>(id, *A);
        NewValues observer(*A, *M, placed(context_, next));
        Placed<double> x(context_, std::vector<double>(ones.size(), 0.0));
        const SolveReport report =
            make_solver<double>(method)->solve(*A, b.read(), x.view(), M.get(), change ? &observer : nullptr);
        EXPECT_TRUE(report.converged()) << method << ' ' << id << ' ' << report.detail;
        return report.iterations;
      };
      const std::int64_t fresh = solved(false);
      // With the old M it would be more than three times as many.
      EXPECT_LE(solved(true), 2 * fresh + 30) << method << ' ' << id;
    }
}

// Nodes with 3, 1, 2, 5, 3 and 1 unknowns in a ring: the rows of a node have the same columns.
TEST_P(InSpace, FoundBlocksKeepNodesTogether) {
  const std::vector<std::int64_t> node = {0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 5};
  const auto n = static_cast<std::int64_t>(node.size());
  Dense A(n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      if (const std::int64_t apart = std::abs(node[i] - node[j]); apart <= 1 || apart == 5)
        A(i, j) = i == j ? 20 : 1.0 / static_cast<double>(2 + i + j);
  const auto A_here = matrix(sparse(A));
  // Nodes join while they fit into a block; the node of 5 unknowns is cut where it does not fit.
  const std::pair<std::int64_t, std::vector<std::int64_t>> expected[] = {
      {3, {0, 3, 6, 9, 11, 14, 15}},
      {5, {0, 4, 6, 11, 15}},
      {1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
      {64, {0, 15}}};
  for (const auto& [most, starts] : expected) {
    SCOPED_TRACE(most);
    Dense blocks(n);
    for (std::size_t b = 0; b + 1 < starts.size(); ++b)
      for (std::int64_t i = starts[b]; i < starts[b + 1]; ++i)
        for (std::int64_t j = starts[b]; j < starts[b + 1]; ++j) blocks(i, j) = A(i, j);
    const auto M =
        ready<double>("block-jacobi", *A_here, {.block_size = most, .blocks = DiagonalBlocks::found});
    EXPECT_EQ(figure(*M, "blocks"), static_cast<double>(starts.size() - 1));
    expect_same(dense(*M), inverse(blocks), 1e-13);
  }
  const auto grid = matrix(sparse(poisson_2d(4)));
  EXPECT_EQ(figure(*ready<double>("block-jacobi", *grid, {.block_size = 3, .blocks = DiagonalBlocks::found}),
                   "blocks"),
            6)
      << "no two rows have the same columns: they join in threes";
}

TEST_P(InSpace, SweepsServeCg) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 14}});
  const auto A = matrix(csr);
  const Placed<double> b(context_, right_hand_side<double>(csr.rows()));
  const auto iterations = [&](const char* id, const PreconditionerOptions& options) {
    const auto M = make_preconditioner<double>(id, *A, options);
    if (M) M->ensure(*A);
    Placed<double> x(context_, std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0));
    const SolveReport report = make_solver<double>("cg")->solve(*A, b.read(), x.view(), M.get());
    EXPECT_TRUE(report.converged());
    return report.iterations;
  };
  const std::int64_t plain = iterations("none", {}),
                     exact = iterations("ic0", {.ordering = FactorOrdering::natural}),
                     one = iterations("ic0", {.solve = TriangularSolve::sweeps, .sweeps = 1}),
                     eight = iterations("ic0", {.solve = TriangularSolve::sweeps, .sweeps = 8});
  EXPECT_LT(one, plain);
  EXPECT_LT(eight, one);
  EXPECT_LE(eight, exact + 3);
}

TEST_P(InSpace, CusparseIsRefusedWhereItIsNot) {
  const auto A = matrix(sparse(poisson_2d(5)));
  const auto with = [&](const char* id, const AssembledMatrix<double>& matrix) {
    return message<NotAvailable>([&] { ready<double>(id, matrix, {.solve = TriangularSolve::cusparse}); });
  };
  if (!gpu()) {
    EXPECT_SAYS(with("ic0", *A), "ic0 with solve cusparse runs on a GPU only; take levels or sweeps");
    EXPECT_SAYS(with("ilu", *A), "ilu with solve cusparse");
    EXPECT_THROW(ready<double>("ssor", *A, {.solve = TriangularSolve::cusparse}), BadArgument)
        << "ssor does not read the option";
    return;
  }
  const ContextPtr context = Context::device(0, {.deterministic = true});
  const auto B = make_matrix(find_format("csr"), upload(context, sparse(poisson_2d(5))), context);
  EXPECT_SAYS(with("ic0", *B), "ic0 with solve cusparse is not for deterministic mode");
  const auto M = ready<double>("ic0", *B);
  for (const PreconditionerFigure& one : M->figures())
    EXPECT_EQ(one.name.find("microseconds"), std::string_view::npos) << "auto measured in deterministic mode";
}

// What auto has measured is in the figures, and only there where it chose by it.
TEST_P(InSpace, AutoSaysWhatItMeasured) {
  const auto A = matrix(sparse(poisson_2d(20)));
  const auto measured = [&](TriangularSolve how) {
    int found = 0;
    const auto M = ready<double>("ilu0", *A, {.ordering = FactorOrdering::natural, .solve = how});
    for (const PreconditionerFigure& one : M->figures())
      if (one.name.ends_with("_microseconds")) found += one.value > 0;
    return found;
  };
  EXPECT_EQ(measured(TriangularSolve::automatic), gpu() ? 2 : 0);
  EXPECT_EQ(measured(TriangularSolve::levels), 0);
}

// M^-1 r by the definitions, in long double, for large sparse matrices.
std::vector<long double> by_definition(const CsrMatrix<double>& csr, std::string_view id,
                                       const std::vector<double>& r) {
  const std::int64_t n = csr.rows();
  std::vector<std::map<std::int32_t, long double>> lower(static_cast<std::size_t>(n)), upper(lower.size());
  std::vector<long double> d(lower.size()), z(r.begin(), r.end());
  std::vector<std::int64_t> order(lower.size());  // of a forward solve
  std::iota(order.begin(), order.end(), 0);
  const auto entries = [&](std::int64_t i, auto f) {
    for (std::int64_t p = csr.pattern.row_ptr[i]; p < csr.pattern.row_ptr[i + 1]; ++p)
      f(csr.pattern.col[p], static_cast<long double>(csr.values[p]));
  };
  if (id == "ssor" ||
      id == "gauss-seidel") {  // (I + D^-1 U) z = D^-1 (I + L D^-1)^-1 r in the order of the colours
    std::vector<int> colour(lower.size(), 0);
    for (std::int64_t i = 0; i < n; ++i) {
      std::set<int> taken;
      entries(i, [&](std::int32_t j, long double a) {
        if (j < i) taken.insert(colour[j]);
        if (j == i) d[i] = a;
      });
      while (taken.contains(colour[i])) ++colour[i];
    }
    for (std::int64_t i = 0; i < n; ++i)
      entries(i, [&](std::int32_t j, long double a) {
        if (colour[j] < colour[i]) lower[i][j] = a / d[j];
        if (colour[j] > colour[i] && id == "ssor") upper[i][j] = a / d[i];
      });
    std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return colour[i]; });
  } else {  // algorithm 10.5 of Saad: levels of fill first, then numbers
    const int fill = id == "ilu" ? 1 : 0;
    std::vector<std::map<std::int32_t, int>> level(lower.size());
    for (std::int64_t i = 0; i < n; ++i) {
      std::map<std::int32_t, int>& row = level[i];
      entries(i, [&](std::int32_t j, long double) { row[j] = 0; });
      for (const auto& [k, own] : row) {
        if (k >= i) break;
        for (auto next = level[k].upper_bound(k); next != level[k].end(); ++next) {
          const int one = own + next->second + 1;
          if (const auto at = row.find(next->first); at != row.end())
            at->second = std::min(at->second, one);
          else if (one <= fill)
            row[next->first] = one;
        }
      }
      std::map<std::int32_t, long double> values;
      for (const auto& [j, own] : row) values[j] = 0;
      entries(i, [&](std::int32_t j, long double a) { values[j] = a; });
      for (auto& [k, value] : values) {
        if (k >= i) break;
        value /= d[k];
        for (const auto& [j, u] : upper[k])
          if (const auto at = values.find(j); at != values.end()) at->second -= value * d[k] * u;
      }
      d[i] = values.at(static_cast<std::int32_t>(i));
      for (const auto& [j, value] : values) {
        if (j < i) lower[i][j] = value;
        if (j > i) upper[i][j] = value / d[i];
      }
    }
  }
  for (const std::int64_t i : order)
    for (const auto& [j, l] : lower[i]) z[i] -= l * z[j];
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    z[*i] /= d[*i];
    for (const auto& [j, u] : upper[*i]) z[*i] -= u * z[j];
  }
  return z;
}

// Many rows, levels and blocks of a kernel, or of several threads of a host.
TEST_P(InSpace, LargeFactors) {
  const std::int64_t n = gpu() ? 60 : 18;
  const CsrMatrix<double> csr = generate(test_context(), "convection-diffusion-3d",
                                         {{"n", static_cast<double>(n)}}),
                          symmetric =
                              generate(test_context(), "anisotropic-3d", {{"n", static_cast<double>(n)}});
  const std::vector<double> r = right_hand_side<double>(csr.rows());
  for (const char* id : {"ic0", "ilu0", "ilu", "ssor", "gauss-seidel"}) {
    const CsrMatrix<double>& here = id == std::string_view("ic0") ? symmetric : csr;
    const std::vector<long double> expected = by_definition(here, id, r);
    long double largest = 0;
    for (const long double value : expected) largest = std::max(largest, std::abs(value));
    const auto M = ready_with_read<double>(id, *matrix(here), {.solve = TriangularSolve::levels});
    for (int k = 0; k < (gpu() ? 20 : 2); ++k) {
      const std::vector<double> got = apply(*M, r);
      long double difference = 0;
      for (std::size_t i = 0; i < r.size(); ++i)
        difference = std::max(difference, std::abs(static_cast<long double>(got[i]) - expected[i]));
      EXPECT_LE(difference, 1e-12L * largest) << id << ' ' << k;
    }
  }
}

}  // namespace
}  // namespace protean::test
