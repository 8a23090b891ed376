// Method and preconditioner `auto`, which are the defaults: what they take, and why they say they did.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/symmetry.hpp"
#include "gtest/gtest.h"
#include "interfaces/c/protean.h"
#include "operators/callback_operator.hpp"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/elements.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "support/text.hpp"
#include "systems/method_choice.hpp"

namespace protean::test {
namespace {

// A matrix of 40 rows on three diagonals. `upper` is right of the diagonal, `lower` left of it.
struct Line {
  static constexpr std::int64_t n = 40;
  std::vector<std::int32_t> row_ptr{0}, col;
  std::vector<double> values, b = sample_vector<double>(n, 5), x = std::vector<double>(n, 0.0);

  Line(const std::function<double(std::int64_t)>& diagonal, double lower, double upper) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (i > 0) add(i - 1, lower);
      if (const double d = diagonal(i); d != 0) add(i, d);
      if (i + 1 < n) add(i + 1, upper);
      row_ptr.push_back(static_cast<std::int32_t>(col.size()));
    }
  }
  void add(std::int64_t j, double value) {
    col.push_back(static_cast<std::int32_t>(j)), values.push_back(value);
  }
  CsrMatrix<double> csr() const { return csr_view(n, n, row_ptr.data(), col.data(), values.data()); }
  double residual() const { return relative_residual_of(csr(), b, x); }
};
Line definite() {
  return {[](std::int64_t) { return 3.0; }, -1, -1};
}
Line unsymmetric() {
  return {[](std::int64_t) { return 3.0; }, -1.5, -1};
}
// As of a saddle point: every fourth diagonal entry is missing.
Line without_some() {
  return {[](std::int64_t i) { return i % 4 == 3 ? 0.0 : 3.0; }, -1, -1};
}
// Rows without a diagonal entry that are coupled with each other are no constraint.
Line coupled_zeros() {
  return {[](std::int64_t i) { return i % 4 >= 2 ? 0.0 : 3.0; }, -1, -1};
}
Line negative() {
  return {[](std::int64_t i) { return i % 4 == 3 ? -3.0 : 3.0; }, -1, -1};
}
Line unsymmetric_without_some() {
  return {[](std::int64_t i) { return i % 4 == 3 ? 0.0 : 3.0; }, -1.5, -1};
}

Line unsymmetric_coupled_zeros() {
  return {[](std::int64_t i) { return i % 4 >= 2 ? 0.0 : 3.0; }, -1.5, -1};
}

struct Expected {
  const char* name;
  Line line;
  std::int64_t not_positive;  // diagonal entries
  std::string method, why, preconditioner;
};
std::vector<Expected> expected() {
  return {
      {"definite", definite(), 0, "cg", "the matrix is symmetric, and its diagonal is positive", "jacobi"},
      {"unsymmetric", unsymmetric(), 0, "bicgstab", "not symmetric; entries differ", "jacobi"},
      {"a diagonal with zeros", without_some(), 10, "gmres", "10 of its diagonal entries are not positive",
       "fields"},
      {"a negative diagonal", negative(), 10, "gmres", "10 of its diagonal entries are not positive",
       "fields"},
      {"zeros that are coupled", coupled_zeros(), 20, "minres", "20 of its diagonal entries are not positive",
       "none"},
      {"unsymmetric with zeros", unsymmetric_without_some(), 10, "gmres", "not symmetric; entries differ",
       "fields"},
      {"unsymmetric with zeros that are coupled", unsymmetric_coupled_zeros(), 20, "bicgstab",
       "not symmetric", "none"}};
}

// On the host, and on a GPU with arrays of the host and of the device.
class MethodChoice : public testing::TestWithParam<std::pair<Space, bool>> {
 protected:
  void SetUp() override {
    context_ = test_context(GetParam().first);
    if (!context_) GTEST_SKIP() << no_device;
  }
  SolveResult solve(Line& line, const SolveSettings& settings) {
    LinearSystem<double> system(GetParam().second ? placed(context_, line.csr()) : line.csr(), settings);
    return solve(line, system);
  }
  SolveResult solve(Line& line, LinearSystem<double>& system) {
    const Placed<double> b(context_, line.b);
    Placed<double> x(context_, std::vector<double>(line.x.size(), 0.0));
    SolveResult result = system.solve(b.read(), x.view());
    line.x = x.fetch();
    return result;
  }
  ContextPtr context_;
};
INSTANTIATE_TEST_SUITE_P(Spaces, MethodChoice,
                         testing::Values(std::pair(Space::host, false), std::pair(Space::device, false),
                                         std::pair(Space::device, true)));

TEST_P(MethodChoice, TheDefaultFollowsTheMatrix) {
  for (Expected& one : expected()) {
    SCOPED_TRACE(one.name);
    const SolveResult result = solve(one.line, {.context = context_});
    EXPECT_EQ(result.method, one.method);
    EXPECT_TRUE(has(result.method_reason, one.why)) << result.method_reason;
    EXPECT_EQ(result.preconditioner, one.preconditioner);
    EXPECT_EQ(result.preconditioner_reason.substr(0, one.preconditioner.size()), one.preconditioner);
    EXPECT_TRUE(result.converged()) << to_string(result.report.reason);
    EXPECT_LE(one.line.residual(), 1.01e-8);
  }
}

TEST_P(MethodChoice, WhatIsNamedStays) {
  for (Expected& one : expected()) {
    SCOPED_TRACE(one.name);
    const SolveResult result =
        solve(one.line, {.method = "idr", .preconditioner = "none", .context = context_});
    EXPECT_EQ(result.method, "idr");
    EXPECT_EQ(result.method_reason, "");
    EXPECT_EQ(result.preconditioner, "none");
    EXPECT_EQ(result.preconditioner_reason, "");
  }
}

TEST_P(MethodChoice, NewValuesAreLookedAt) {
  Line good = definite(), bad = unsymmetric();
  LinearSystem<double> system(GetParam().second ? placed(context_, good.csr()) : good.csr(),
                              {.context = context_});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(solve(good, system).method, "cg");
    EXPECT_LE(good.residual(), 1.01e-8);
    const CsrMatrix<double> other = GetParam().second ? placed(context_, bad.csr()) : bad.csr();
    system.update_values(other.values);
    const SolveResult result = solve(bad, system);
    EXPECT_EQ(result.method, "bicgstab");
    EXPECT_LE(bad.residual(), 1.01e-8);
    const CsrMatrix<double> again = GetParam().second ? placed(context_, good.csr()) : good.csr();
    system.update_values(again.values);
    EXPECT_EQ(solve(good, system).method, "cg");
  }
}

// Another format makes another matrix, whose revisions begin again.
TEST_P(MethodChoice, NewValuesAreSeenInANewFormat) {
  Line good = definite(), bad = unsymmetric();
  SolveSettings settings{.format = "csr", .context = context_};
  LinearSystem<double> system(GetParam().second ? placed(context_, good.csr()) : good.csr(), settings);
  EXPECT_EQ(solve(good, system).method, "cg");
  const CsrMatrix<double> other = GetParam().second ? placed(context_, bad.csr()) : bad.csr();
  system.update_values(other.values);
  settings.format = "ell";
  system.set(settings);
  EXPECT_EQ(solve(bad, system).method, "bicgstab");
  EXPECT_LE(bad.residual(), 1.01e-8);
}

// cg and minres take a symmetric positive definite preconditioner only.
TEST_P(MethodChoice, AnUnsymmetricPreconditionerTakesBicgstab) {
  Line line = definite();
  const SolveResult result = solve(line, {.preconditioner = "gauss-seidel", .context = context_});
  EXPECT_EQ(result.method, "bicgstab");
  EXPECT_TRUE(has(result.method_reason, "preconditioner gauss-seidel is not")) << result.method_reason;
  EXPECT_TRUE(result.converged());
}

// Jacobi with a negative entry is for methods that need no definite preconditioner.
TEST_P(MethodChoice, JacobiIsDefiniteForMethodsThatNeedIt) {
  // Not in equal distances, as the rows of a constraint of a saddle point.
  Line line = {[](std::int64_t i) { return i == 3 || i == 8 || i == 20 ? -3.0 : 3.0; }, -1, -1};
  const SolveResult with = solve(line, {.method = "gmres", .context = context_});
  EXPECT_EQ(with.preconditioner, "jacobi");
  EXPECT_TRUE(with.converged());
  const SolveResult without = solve(line, {.method = "minres", .context = context_});
  EXPECT_EQ(without.preconditioner, "none");
  EXPECT_TRUE(has(without.preconditioner_reason, "row 3 (counted from 0) is negative"))
      << without.preconditioner_reason;
  EXPECT_TRUE(without.converged());
}

TEST(MethodChoiceOptions, ThoseOfEachMethodThatMayBeTakenAreAllowed) {
  SolveSettings settings;
  settings.solver.restart = 7;  // of gmres, with which auto may go on
  Line line = definite(), other = unsymmetric();
  EXPECT_EQ(solve<double>(line.csr(), {line.b.data(), Line::n}, {line.x.data(), Line::n}, settings).method,
            "cg");
  EXPECT_EQ(solve<double>(other.csr(), {other.b.data(), Line::n}, {other.x.data(), Line::n}, settings).method,
            "bicgstab");
  settings.solver.s = 7;  // of idr alone
  EXPECT_THROW((void)solve<double>(line.csr(), {line.b.data(), Line::n}, {line.x.data(), Line::n}, settings),
               BadArgument);
  settings.solver = {};
  settings.solver.null_space = "constant";
  try {
    (void)solve<double>(other.csr(), {other.b.data(), Line::n}, {other.x.data(), Line::n}, settings);
    ADD_FAILURE() << "bicgstab does not know null_space";
  } catch (const BadArgument& error) {
    EXPECT_TRUE(has(error.what(), "a null space is for methods cg, fcg and minres")) << error.what();
  }
}

TEST(MethodChoiceColumns, TakeTheMethodOfOneColumn) {
  for (Expected& one : expected()) {
    SCOPED_TRACE(one.name);
    std::vector<double> B(one.line.b), X(2 * Line::n, 0.0);
    B.insert(B.end(), one.line.b.begin(), one.line.b.end());
    const MultiSolveResult result =
        multi_solve<double>(one.line.csr(), {B.data(), Line::n, 2, Line::n}, {X.data(), Line::n, 2, Line::n});
    EXPECT_EQ(result.method, one.method);
    EXPECT_TRUE(result.converged());
    std::copy(X.end() - Line::n, X.end(), one.line.x.begin());
    EXPECT_LE(one.line.residual(), 1.01e-8);
  }
}

// The vectors of gmres need memory. A null space is for minres, and so is the name of a method.
TEST(MethodChoiceConstraints, TakeGmresIfThereIsRoom) {
  const detail::MethodTraits traits{
      .symmetric = true, .difference = "", .not_positive = 10, .constraint = true};
  EXPECT_EQ(detail::choose_method(traits, {}, {.of_gmres = 31, .vectors = 31}).method, "gmres");
  const detail::MethodChoice none = detail::choose_method(traits, {}, {.of_gmres = 31, .vectors = 30});
  EXPECT_EQ(none.method, "minres");
  EXPECT_TRUE(has(none.reason, "no memory for the 31 vectors of gmres")) << none.reason;
  detail::MethodTraits other = traits;
  other.symmetric = false;
  EXPECT_EQ(detail::choose_method(other, {}, {.of_gmres = 31, .vectors = 31}).method, "gmres");
  const detail::MethodChoice short_one = detail::choose_method(other, {}, {.of_gmres = 31, .vectors = 30});
  EXPECT_EQ(short_one.method, "bicgstab");
  EXPECT_TRUE(has(short_one.reason, "no memory for the 31 vectors of gmres")) << short_one.reason;
  const Context& context = *test_context();
  const detail::Basis small = detail::basis_of(context, 1000, 8, 30, 1);
  EXPECT_EQ(small.of_gmres, 31);
  EXPECT_GE(small.vectors, 31);
  EXPECT_EQ(detail::basis_of(context, 5, 8, 30, 1).of_gmres, 6);
  EXPECT_EQ(detail::basis_of(context, std::int64_t{1} << 50, 8, 30, 4).vectors, 0);
  const ContextPtr deterministic = Context::host(1, {.deterministic = true});
  EXPECT_EQ(detail::basis_of(*deterministic, std::int64_t{1} << 50, 8, 30, 4).vectors, 31);
}

TEST(MethodChoiceConstraints, FollowThePreconditioner) {
  Line line = without_some();
  LinearSystem<double> system(line.csr(), {.context = test_context()});
  const auto solved = [&](SolveSettings settings) {
    settings.context = test_context();
    system.set(std::move(settings));
    std::fill(line.x.begin(), line.x.end(), 0.0);
    const SolveResult result = system.solve({line.b.data(), Line::n}, {line.x.data(), Line::n});
    EXPECT_TRUE(result.converged());
    EXPECT_LE(line.residual(), 1.01e-8);
    return result.method + " " + result.preconditioner;
  };
  SolveSettings fields{.preconditioner = "fields"}, diagonal = fields, minres{.method = "minres"};
  diagonal.preconditioning.recipe = FieldRecipe::schur_diagonal;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(solved({}), "gmres fields");
    EXPECT_EQ(solved({.preconditioner = "none"}), "minres none");
    EXPECT_EQ(solved(fields), "gmres fields");
    EXPECT_EQ(solved(diagonal), "minres fields");
    EXPECT_EQ(solved(minres), "minres fields");
  }
}

// Of an operator without entries products show it.
TEST(MethodChoiceOperators, AreAskedByProducts) {
  for (const bool symmetric : {true, false})
    for (const bool with_diagonal : {true, false}) {
      Line line = symmetric ? definite() : unsymmetric();
      const auto A = std::make_shared<CallbackOperator<double>>(
          test_context(), Shape{Line::n, Line::n}, [&](const double* x, double* y) {
            for (std::int64_t i = 0; i < Line::n; ++i) {
              double sum = 0;
              for (std::int32_t k = line.row_ptr[i]; k < line.row_ptr[i + 1]; ++k)
                sum += line.values[k] * x[line.col[k]];
              y[i] = sum;
            }
          });
      if (with_diagonal) A->set_diagonal([](double* d, CUstream_st*) { std::fill_n(d, Line::n, 3.0); });
      LinearSystem<double> system(A);
      const SolveResult result = system.solve({line.b.data(), Line::n}, {line.x.data(), Line::n});
      EXPECT_EQ(result.method, symmetric ? "cg" : "bicgstab");
      EXPECT_EQ(result.preconditioner, with_diagonal ? "jacobi" : "none");
      EXPECT_TRUE(result.converged());
      EXPECT_LE(line.residual(), 1.01e-8);
    }
}

// Rows that are not sorted are no reason to take another method.
TEST(MethodChoiceRows, NeedNotBeSorted) {
  for (const bool symmetric : {true, false}) {
    Line line = symmetric ? definite() : unsymmetric();
    std::swap(line.col[2], line.col[3]), std::swap(line.values[2], line.values[3]);
    const SolveResult result =
        solve<double>(line.csr(), {line.b.data(), Line::n}, {line.x.data(), Line::n}, {.format = "csr"});
    EXPECT_EQ(result.method, symmetric ? "cg" : "bicgstab");
    EXPECT_LE(line.residual(), 1.01e-8);
  }
}

// What the choice is made of, in each space.
TEST(MethodChoiceEntries, AreSeenAlikeInEachSpace) {
  for (Expected& one : expected()) {
    const detail::SymmetryFacts host = detail::symmetry_facts(*test_context(), one.line.csr());
    EXPECT_EQ(host.not_positive, one.not_positive) << one.name;
    EXPECT_EQ(host.asymmetry > 0, std::string_view(one.name).starts_with("unsymmetric")) << one.name;
    for (const ContextPtr& context : {fake_device_context(), test_context(Space::device)}) {
      if (!context) continue;
      const detail::SymmetryFacts there = detail::symmetry_facts(*context, upload(context, one.line.csr()));
      EXPECT_EQ(there.not_positive, host.not_positive) << one.name;
      EXPECT_EQ(there.asymmetry, host.asymmetry) << one.name;
    }
  }
}

// One entry of 180,000 that has another mirror is seen.
TEST(MethodChoiceEntries, OneEntryDecides) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 30}});
  std::vector<double> values(csr.values, csr.values + csr.nonzeros());
  const std::vector<double> b = sample_vector<double>(csr.rows(), 1);
  std::vector<double> x(b.size(), 0.0);
  const CsrMatrix<double> seen = with_values(csr, values.data());
  const std::int64_t n = csr.rows();
  EXPECT_EQ(solve<double>(seen, {b.data(), n}, {x.data(), n}).method, "cg");
  const std::int64_t row = n / 2, at = csr.pattern.row_ptr[row];  // the first entry lies left of the diagonal
  values[static_cast<std::size_t>(at)] *= 1 + 1e-12;              // rounding
  EXPECT_EQ(solve<double>(seen, {b.data(), n}, {x.data(), n}).method, "cg");
  values[static_cast<std::size_t>(at)] *= 2;
  EXPECT_EQ(solve<double>(seen, {b.data(), n}, {x.data(), n}).method, "bicgstab");
}

TEST(MethodChoiceOfC, NullIsAuto) {
  protean_context* context = nullptr;
  protean_matrix* matrix = nullptr;
  protean_solver* solver = nullptr;
  Line line = unsymmetric();
  ASSERT_EQ(protean_context_host(1, &context), PROTEAN_OK);
  ASSERT_EQ(protean_matrix_csr(context, Line::n, Line::n, static_cast<std::int64_t>(line.col.size()),
                               line.row_ptr.data(), line.col.data(), line.values.data(), 0, &matrix),
            PROTEAN_OK)
      << protean_last_error();
  ASSERT_EQ(protean_solver_create(nullptr, nullptr, &solver), PROTEAN_OK);
  EXPECT_STREQ(protean_solver_method(solver), "");
  EXPECT_EQ(protean_solve(solver, matrix, line.b.data(), line.x.data()), PROTEAN_OK) << protean_last_error();
  EXPECT_STREQ(protean_solver_method(solver), "bicgstab");
  EXPECT_TRUE(has(protean_solver_method_reason(solver), "not symmetric"));
  EXPECT_STREQ(protean_solver_preconditioner(solver), "jacobi");
  EXPECT_TRUE(has(protean_solver_preconditioner_reason(solver), "jacobi"));
  protean_solver_free(solver), protean_matrix_free(matrix), protean_context_free(context);
}

}  // namespace
}  // namespace protean::test
