// Nothing of the steps after the end of a solve with several columns may be seen: see test_after_end.cpp.
#include <hwy/targets.h>

#include <cmath>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/elements/element_operator.hpp"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/device_kernels.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "solvers/users_operator.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/space.hpp"
#include "support/users_preconditioner.hpp"

namespace protean::test {
namespace {

// Several right-hand sides: a device does batches of steps, in which lanes that have ended go on next to lanes that
// have not. On a simulated device a solve in batches must be, bit for bit, the solve without batches: each column has
// its own recurrences, and columns that have ended are left as they are, also what a restart begins from.
class AfterEndOfColumns : public testing::TestWithParam<std::tuple<bool, const char*>> {
 protected:
  static bool heeds() { return std::get<0>(GetParam()); }
  static const char* method() { return std::get<1>(GetParam()); }
  struct Solution {
    MultiSolveReport report;
    Columns<double> x;
    std::vector<std::vector<double>> residuals;  // of each column, as the observer saw them
  };
  enum class Use { plain, user, order };

  // Bits are compared, and a product with one vector may round in another way than the product with several if there
  // are several lanes or fused multiply-adds: one lane at a time has neither. (Highway gives better sets lower bits.)
  static void take(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();  // the next product chooses again
  }
  void TearDown() override { take(0); }
  void SetUp() override {
    take(hwy::SupportedTargets() & ~(2 * HWY_AVX2 - 1));
    csr_ = deep_copy(test_context(), generate(test_context(), "poisson-3d", {{"n", 4}}));
    auto* const values = const_cast<double*>(csr_.values);
    const auto d = [](std::int64_t i) { return 1 + 0.25 * static_cast<double>(i * 7 % 13); };
    for (std::int64_t i = 0; i < csr_.rows(); ++i)
      for (std::int64_t k = csr_.pattern.row_ptr[i]; k < csr_.pattern.row_ptr[i + 1]; ++k)
        values[k] *= d(i) * d(csr_.pattern.col[k]);
  }

  // ahead: steps of a batch but one; 0: the host reads each step before the next is done.
  Solution solve(std::int64_t ahead, std::string_view format, Use use, std::string_view preconditioner,
                 bool users_preconditioner, bool hard) const {
    const ContextPtr context = fake_device_context({.steps_ahead = ahead, .products_heed_stop = heeds()});
    const CsrMatrix<double> there = upload(context, csr_);
    std::unique_ptr<LinearOperator<double>> A;
    if (use == Use::order) {
      const auto order = make_order("rcm", *test_context(), csr_.pattern);
      PermutedMatrix<double> permuted(test_context(), there, Permutation(context, order));
      auto B = make_matrix(fake_format(format), permuted.matrix(), context);
      A = std::make_unique<Matrix<double>>(there, "rcm", std::move(permuted), std::move(B),
                                           MatrixOptions{.changes = false});
    } else {
      auto matrix = make_matrix(fake_format(format), there, context, most_tolerant(find_format(format)));
      if (use == Use::user)
        A = std::make_unique<OfAUser>(std::move(matrix));
      else
        A = std::move(matrix);
    }
    std::unique_ptr<Preconditioner<double>> M, users;
    if (preconditioner != "none") {
      PreconditionerOptions options;
      options.solve = TriangularSolve::levels;
      options.max_levels = 1;  // else amg is exact for so few rows, and all columns end at once
      options = preconditioner_options_read_by(preconditioner, options);
      if (preconditioner == "fields") options.inner = "u jacobi";  // else one application solves the system
      M = make_preconditioner<double>(preconditioner, *A, options);
      M->ensure(*A);
      if (users_preconditioner) users = std::make_unique<PreconditionerOfAUser>(*M);
    }
    // Seven columns: of many tolerances and limits; b = 0; tolerances that cannot be reached.
    const std::int64_t n = csr_.rows(), k = 7;
    Columns<double> b = sample_columns<double>(n, k, 5), x0(static_cast<std::size_t>(k));
    std::vector<StoppingRule> rules(static_cast<std::size_t>(k));
    for (std::size_t c = 0; c < rules.size(); ++c) {
      x0[c].assign(static_cast<std::size_t>(n), 0.0);
      rules[c].relative_tolerance = std::pow(10.0, -2.0 - 1.5 * static_cast<double>(c));
      rules[c].max_iterations = 200;
    }
    b[2].assign(static_cast<std::size_t>(n), 0.0);
    for (double& v : b[4]) v *= 1e5;
    rules[3].max_iterations = 4, rules[3].relative_tolerance = 1e-12;
    x0[1] = b[1];
    if (hard) rules[5].relative_tolerance = 0, rules[6].relative_tolerance = 1e-16;
    if (hard) rules[5].max_iterations = rules[6].max_iterations = 70;

    class Seen final : public MultiSolveObserver {
     public:
      bool on_iteration(const MultiIterationInfo& info) override {
        residuals.emplace_back(info.residuals.begin(), info.residuals.end());
        return true;
      }
      std::vector<std::vector<double>> residuals;
    } seen;
    PlacedColumns<double> B(context, b, n, {VectorLayout::columns, 0}),
        X(context, x0, n, {VectorLayout::columns, 0});
    MultiSolver<double> solver(method(), options_read_by(method(), {.restart = 9}));
    Solution one;
    one.report = solver.solve(*A, B.read(), X.view(), users ? users.get() : M.get(), &seen, std::span(rules));
    one.x = X.fetch(), one.residuals = std::move(seen.residuals);
    return one;
  }

  void same_in_batches(std::string_view format, Use use, std::string_view preconditioner, bool users,
                       bool hard) {
    const std::string what = std::string(format) + ", " + std::string(preconditioner) +
                             (users ? " of a user" : "") + ", use " + std::to_string(static_cast<int>(use)) +
                             (hard ? ", hard" : "");
    const Solution plain = solve(0, format, use, preconditioner, users, hard);
    ++compared_;
    std::set<std::int64_t> ends;
    for (const SolveReport& c : plain.report.columns) ends.insert(c.iterations);
    EXPECT_GE(ends.size(), 4u) << what;  // columns that end at different iterations
    for (const std::int64_t ahead : {2, 7}) {
      if (!hard && ahead != (compared_ % 2 == 1 ? 2 : 7)) continue;
      const Solution batches = solve(ahead, format, use, preconditioner, users, hard);
      const std::string which = what + ", batches of " + std::to_string(ahead + 1);
      ASSERT_LT(batches.residuals.size(), plain.residuals.size()) << which;  // they were batches
      for (std::size_t c = 0; c < plain.report.columns.size(); ++c) {
        const SolveReport &is = batches.report.columns[c], &was = plain.report.columns[c];
        const std::string column = which + ", column " + std::to_string(c);
        ASSERT_EQ(to_string(is.reason), to_string(was.reason)) << column << ": " << is.detail;
        reasons_.insert(was.reason);
        // b - A x is computed together for the columns that ask for it, and a product with one vector may round in
        // another way than the product with several: the product of bcsr, and with some instruction sets others.
        if (format == "bcsr" || is.true_residual != was.true_residual) {
          ASSERT_NEAR(is.true_residual, was.true_residual, 1e-6 * was.rhs_norm) << column;
          ASSERT_NEAR(static_cast<double>(is.iterations), static_cast<double>(was.iterations), 2) << column;
          continue;
        }
        ASSERT_EQ(is.iterations, was.iterations) << column;
        ASSERT_EQ(is.restarts, was.restarts) << column;
        ASSERT_EQ(is.recurrence_residual, was.recurrence_residual) << column;
        ASSERT_EQ(is.true_residual, was.true_residual) << column;
        ASSERT_EQ(batches.x[c], plain.x[c]) << column;
      }
    }
  }

  CsrMatrix<double> csr_;
  std::set<StopReason> reasons_;
  int compared_ = 0;
};

TEST_P(AfterEndOfColumns, NothingIsSeenWithAnyPreconditioner) {
  for (const PreconditionerEntry& entry : preconditioners()) {
    if (!entry.unavailable.empty()) continue;
    if (!entry.symmetric && make_solver<double>(method())->needs_symmetric_preconditioner()) continue;
    same_in_batches("csr", Use::plain, entry.id, false, false);
    if (entry.id == "ssor" || entry.id == "ilu0") same_in_batches("csr", Use::plain, entry.id, true, false);
  }
  for (const StopReason reason : {StopReason::relative_tolerance, StopReason::zero_right_hand_side})
    EXPECT_TRUE(reasons_.contains(reason)) << to_string(reason);
}

TEST_P(AfterEndOfColumns, NothingIsSeenWithAnyOperator) {
  for (const char* format : {"csr", "coo", "sell-c-sigma", "bcsr", "dia", "merge-csr", "sum"})
    for (const char* preconditioner : {"none", "ssor"})
      same_in_batches(format, Use::plain, preconditioner, false, false);
  for (const Use use : {Use::user, Use::order})
    for (const char* preconditioner : {"none", "jacobi", "chebyshev"})
      same_in_batches("csr", use, preconditioner, preconditioner != std::string("none"), false);
  EXPECT_TRUE(reasons_.contains(StopReason::max_iterations));
}

// Columns whose tolerance no solve reaches begin again, and end by stagnation, while others are in the middle of steps.
// Not columns of idr: the first cycle of a column that begins again is as long as what is left of the others' cycle,
// and a device that runs ahead has done other steps by then.
class AfterEndOfColumnsThatBeginAgain : public AfterEndOfColumns {};

TEST_P(AfterEndOfColumnsThatBeginAgain, NothingIsSeen) {
  for (const char* preconditioner : {"none", "jacobi", "chebyshev"})
    for (const Use use : {Use::plain, Use::user})
      same_in_batches("csr", use, preconditioner, preconditioner == std::string("chebyshev"), true);
  EXPECT_TRUE(reasons_.contains(StopReason::stagnation) || reasons_.contains(StopReason::breakdown));
}

std::string name_of_columns(const testing::TestParamInfo<std::tuple<bool, const char*>>& instance) {
  return std::string(std::get<1>(instance.param)) +
         (std::get<0>(instance.param) ? "_simulated" : "_simulated_foreign");
}
INSTANTIATE_TEST_SUITE_P(All, AfterEndOfColumns,
                         testing::Combine(testing::Bool(), testing::ValuesIn(all_methods())),
                         name_of_columns);
INSTANTIATE_TEST_SUITE_P(All, AfterEndOfColumnsThatBeginAgain,
                         testing::Combine(testing::Bool(), testing::Values("cg", "fcg", "minres", "bicgstab",
                                                                           "bicgstab2", "gmres", "fgmres")),
                         name_of_columns);

}  // namespace
}  // namespace protean::test
