// Solves with an operator whose format changes while they run.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "solvers/options.hpp"
#include "solvers/solver.hpp"
#include "support/engines.hpp"
#include "support/space.hpp"

namespace protean::test {

// A method and a system that it can solve in more than 20 iterations, the same number for any rounding. BiCGStab
// amplifies rounding if convection is strong: velocity 0.58 makes 48 to 54 iterations of the same system with relative
// changes of its values of 1e-15, velocity 0.1 makes 23.
struct SwitchedSystem {
  const char* label;
  const char* method;
  const char* kind;
  double n;
  std::int64_t restart = 30;
  double velocity = 0;  // along each axis; 0: the generator's default
};
inline constexpr SwitchedSystem switched_systems[] = {
    {"cg", "cg", "poisson-2d", 30},
    {"bicgstab", "bicgstab", "convection-diffusion-3d", 9, 30, 0.1},
    {"gmres", "gmres", "convection-diffusion-3d", 9, 12}};

inline CsrMatrix<double> matrix_of(const ContextPtr& context, const SwitchedSystem& system) {
  GeneratorParams params{{"n", system.n}};
  if (system.velocity != 0)
    for (const char* along : {"b1", "b2", "b3"}) params[along] = system.velocity;
  return generate(context, system.kind, params);
}

// Calls a function between iterations.
struct Between final : SolveObserver {
  std::function<void(const IterationInfo&)> then;
  std::int64_t stop = std::numeric_limits<std::int64_t>::max();
  explicit Between(std::function<void(const IterationInfo&)> f) : then(std::move(f)) {}
  bool on_iteration(const IterationInfo& info) override {
    then(info);
    return true;
  }
  std::int64_t next_stop() const noexcept override { return stop; }
};

// Notes the residual of each iteration.
struct Residuals final : SolveObserver {
  SolveObserver* next;
  std::vector<double> norms;
  explicit Residuals(SolveObserver* after) : next(after) {}
  bool on_iteration(const IterationInfo& info) override {
    norms.push_back(info.residual);
    return !next || next->on_iteration(info);
  }
  std::int64_t next_stop() const noexcept override {
    return next ? next->next_stop() : SolveObserver::next_stop();
  }
};

struct Solved {
  SolveReport report;
  std::vector<double> x;
  std::vector<double> residuals;  // of each iteration, as the method reports them
  double residual = 0;            // ||b - A x|| / ||b||, by the host from the original matrix in long double
};

inline std::vector<double> rhs_of(const CsrMatrix<double>& csr) {
  std::vector<double> b(static_cast<std::size_t>(csr.rows()));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 1.0 / static_cast<double>(1 + i % 7) - 0.3;
  return b;
}

inline Solved solve_with(const LinearOperator<double>& A, const CsrMatrix<double>& csr,
                         const SwitchedSystem& system, SolveObserver* observer, double tolerance = 1e-9,
                         const Preconditioner<double>* M = nullptr) {
  SolverOptions options;
  options.stopping.relative_tolerance = tolerance;
  options.restart = system.restart;
  options = options_read_by(system.method, options);
  const std::vector<double> rhs = rhs_of(csr);
  const Placed<double> b(A.context(), rhs);
  Placed<double> x(A.context(), std::vector<double>(rhs.size(), 0.0));
  Residuals residuals(observer);
  Solved solved;
  solved.report = make_solver<double>(system.method, options)->solve(A, b.read(), x.view(), M, &residuals);
  solved.x = x.fetch();
  solved.residuals = std::move(residuals.norms);
  long double residual = 0, norm = 0;
  for (std::int64_t row = 0; row < csr.rows(); ++row) {
    long double r = rhs[row];
    for (std::int64_t k = csr.pattern.row_ptr[row]; k < csr.pattern.row_ptr[row + 1]; ++k)
      r -= static_cast<long double>(csr.values[k]) * solved.x[csr.pattern.col[k]];
    residual += r * r, norm += static_cast<long double>(rhs[row]) * rhs[row];
  }
  solved.residual = static_cast<double>(std::sqrt(residual / norm));
  return solved;
}

// The solve equals the solve of `plain` except for rounding. Rounding changes the residuals of switched_systems by up
// to 2e-8 of themselves (all formats, 1 to 4 threads, and values changed by 1e-15). A method that begins again in the
// middle of the solve changes one of them by 5e-3 at least, even if it needs no more iterations.
inline void expect_same_course(const Solved& solved, const Solved& plain) {
  EXPECT_TRUE(solved.report.converged()) << to_string(solved.report.reason) << " " << solved.report.detail;
  EXPECT_LE(solved.residual, 1e-9 * 1.001);
  EXPECT_LE(std::abs(solved.report.iterations - plain.report.iterations), 1);
  for (std::size_t i = 0; i < std::min(solved.residuals.size(), plain.residuals.size()); ++i)
    ASSERT_NEAR(solved.residuals[i], plain.residuals[i], 1e-4 * plain.residuals[i]) << "iteration " << i;
}

// Parameters that allow any fill, so that no format refuses the matrix.
inline FormatSpec spec_of(const FormatEntry& entry) {
  FormatSpec spec{.entry = &entry, .params = {}, .kernel = {}};
  for (const ParamDoc& doc : entry.params)
    if (doc.name == "max_fill") spec.params.set("max_fill", doc.largest);
  return spec;
}

inline std::string identifier(std::string_view id) {
  std::string name(id);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

}  // namespace protean::test
