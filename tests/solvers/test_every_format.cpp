// Every storage format in every method on ten real systems. The right-hand side is A times ones, so the solution is
// known. The error of x is held to what the residual and the norm of the inverse allow, the residual to the tolerance,
// and the number of iterations to the number of csr.
//
// On a device each format takes part with each of its own kernels; on a host one format of each engine (csr alone on
// the largest system), or all formats if the environment has PROTEAN_TEST_ALL_FORMATS: that takes minutes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/io/matrix_market.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct System {
  const char* name;
  double tolerance;
  double inverse_norm;  // of the matrix, in the 1-norm, by SciPy's onenormest and a sparse direct solver
  bool symmetric;       // and positive definite
  // Left out are methods that take too long with Jacobi, and bicgstab and bicgstab2 on jpwh_991, which break down in
  // every format.
  std::vector<std::string_view> methods;
};
const std::vector<std::string_view> all_methods = {"cg",     "fcg",      "minres",    "gmres",
                                                   "fgmres", "bicgstab", "bicgstab2", "idr"};
const std::vector<std::string_view> unsymmetric = {"gmres", "fgmres", "bicgstab", "bicgstab2", "idr"};
const System systems[] = {
    {"bcsstk16", 1e-8, 1.000, true, all_methods},
    {"fv2", 1e-10, 1.961, true, all_methods},
    {"s1rmt3m1", 1e-8, 4.478, true, {"cg", "fcg", "minres"}},
    {"Trefethen_2000", 1e-10, 1.295, true, all_methods},
    {"G2_circuit", 1e-6, 869.3, true, {"cg", "fcg", "minres", "bicgstab"}},
    {"orsirr_1", 1e-8, 0.2942, false, unsymmetric},
    {"sherman4", 1e-8, 99.95, false, unsymmetric},
    {"jpwh_991", 1e-10, 24.24, false, {"gmres", "fgmres", "idr"}},
    {"cage8", 1e-10, 58.24, false, unsymmetric},
    {"add20", 1e-8, 17710, false, unsymmetric},
};

// Methods with two-sided recurrences amplify the last bits of a sum: their counts differ between formats.
bool amplifies(std::string_view method) { return method.starts_with("bicgstab") || method == "idr"; }

class EveryFormat : public testing::TestWithParam<std::tuple<Space, System>> {};

TEST_P(EveryFormat, SolvesByEveryMethod) {
  const auto& [space, system] = GetParam();
  const ContextPtr context = test_context(space);
  if (!context) GTEST_SKIP() << no_device;
  const bool all = space == Space::device || std::getenv("PROTEAN_TEST_ALL_FORMATS");
  const ContextPtr host = test_context();
  const CsrMatrix<double> csr =
      read_matrix(host, std::string(PROTEAN_SOURCE_DIR) + "/problems/matrices/" + system.name + ".mtx.xz");
  const CsrMatrix<double> there = space == Space::host ? csr : upload(context, csr);
  const auto n = static_cast<std::size_t>(csr.rows());
  std::vector<double> rhs(n);
  double norm_1 = 0, norm_2 = 0, largest_row = 0;
  for (std::size_t i = 0; i < n; ++i) {
    long double sum = 0, size = 0;
    for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
      sum += csr.values[k], size += std::abs(csr.values[k]);
    rhs[i] = static_cast<double>(sum);
    norm_1 += std::abs(rhs[i]), norm_2 += rhs[i] * rhs[i];
    largest_row = std::max(largest_row, static_cast<double>(size));
  }
  norm_2 = std::sqrt(norm_2);
  const double slack = 1e-14 * largest_row * std::sqrt(static_cast<double>(n)) / norm_2;  // of b - A x itself
  const Placed<double> b(context, rhs);

  std::vector<std::int64_t> counts(system.methods.size(), -1);  // of csr, the first of the catalogue
  int solved = 0, refused = 0;
  std::set<std::string_view> engines;
  const auto try_one = [&](const FormatEntry& entry, std::string_view kernel) {
    SCOPED_TRACE(std::string(entry.id) + " " + std::string(kernel));
    std::unique_ptr<AssembledMatrix<double>> A;
    try {
      A = make_matrix(entry, there, context, {}, kernel);
    } catch (const FormatRefused&) {
      ++refused;
      return;
    }
    const auto M = make_preconditioner<double>("jacobi", *A);
    M->ensure(*A);
    for (std::size_t m = 0; m < system.methods.size(); ++m) {
      const std::string_view method = system.methods[m];
      SCOPED_TRACE(std::string(method));
      Placed<double> x(context, std::vector<double>(n, 0.0));
      const SolveReport report =
          make_solver<double>(method,
                              options_read_by(method, {.stopping = {.relative_tolerance = system.tolerance,
                                                                    .max_iterations = 20000},
                                                       .restart = 60}))
              ->solve(*A, b.read(), x.view(), M.get());
      ++solved;
      EXPECT_TRUE(report.converged()) << to_string(report.reason);
      if (counts[m] < 0) counts[m] = report.iterations;
      if (!amplifies(method)) {
        EXPECT_NEAR(static_cast<double>(report.iterations), static_cast<double>(counts[m]),
                    0.01 * static_cast<double>(counts[m]) + 2);
      }
      const std::vector<double> found = x.fetch();
      long double residual_1 = 0, residual_2 = 0, error = 0;
      for (std::size_t i = 0; i < n; ++i) {
        long double r = rhs[i];
        for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
          r -= static_cast<long double>(csr.values[k]) * found[static_cast<std::size_t>(csr.pattern.col[k])];
        residual_1 += std::abs(r), residual_2 += r * r, error += std::abs(found[i] - 1);
      }
      const double relative = static_cast<double>(std::sqrt(residual_2)) / norm_2;
      EXPECT_LE(relative, system.tolerance + slack);
      EXPECT_NEAR(report.true_relative, relative, 0.01 * relative + slack);
      EXPECT_LE(static_cast<double>(error),
                system.inverse_norm * (2 * static_cast<double>(residual_1) + 1e-13 * norm_1));
    }
  };
  for (const FormatEntry* entry : catalogue()) {
    if (kernels_in(*entry, space).empty()) continue;
    if (entry->traits.symmetric_only && !system.symmetric) continue;
    const bool first = engines.insert(entry->engine).second;
    // A large system: csr only, the first of the catalogue.
    const bool only_first = csr.rows() > 100000 && engines.size() > 1;
    if (!all && (!first || only_first)) continue;
    for (const Kernel& kernel : kernels_in(*entry, space)) {
      const bool another_library =
          kernel.name == "cusparse" || kernel.name == "kokkos" || kernel.name == "mkl";
      if (kernel.unavailable.empty() && !another_library) try_one(*entry, kernel.name);
    }
  }
  RecordProperty("solves", solved);
  RecordProperty("refused", refused);
  EXPECT_GT(solved, 0);
}

INSTANTIATE_TEST_SUITE_P(Real, EveryFormat,
                         testing::Combine(testing::Values(Space::host, Space::device),
                                          testing::ValuesIn(systems)),
                         [](const auto& one) {
                           return std::string(std::get<1>(one.param).name) +
                                  (std::get<0>(one.param) == Space::host ? "_host" : "_device");
                         });

}  // namespace
}  // namespace protean::test
