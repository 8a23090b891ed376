// Solves with an operator whose format changes while they run.
#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "operators/policy/adaptive_operator.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"

namespace protean::test {

// A method and a system that it can solve.
struct SwitchedSystem {
  const char* label;
  const char* method;
  const char* kind;
  double n;
  std::int64_t restart = 30;
};
inline constexpr SwitchedSystem switched_systems[] = {{"cg", "cg", "poisson-2d", 30},
                                                      {"bicgstab", "bicgstab", "convection-diffusion-3d", 9},
                                                      {"gmres", "gmres", "convection-diffusion-3d", 9, 12}};

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

struct Solved {
  SolveReport report;
  std::vector<double> x;
  double residual = 0;  // ||b - A x|| / ||b||, by the host from the original matrix in long double
};

inline std::vector<double> rhs_of(const CsrMatrix<double>& csr) {
  std::vector<double> b(static_cast<std::size_t>(csr.rows()));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 1.0 / static_cast<double>(1 + i % 7) - 0.3;
  return b;
}

inline Solved solve_with(const LinearOperator<double>& A, const CsrMatrix<double>& csr,
                         const SwitchedSystem& system, SolveObserver* observer, double tolerance = 1e-9) {
  SolverOptions options;
  options.stopping.relative_tolerance = tolerance;
  options.restart = system.restart;
  const std::vector<double> rhs = rhs_of(csr);
  const Placed<double> b(A.context(), rhs);
  Placed<double> x(A.context(), std::vector<double>(rhs.size(), 0.0));
  Solved solved;
  solved.report =
      make_solver<double>(system.method, options)->solve(A, b.read(), x.view(), nullptr, observer);
  solved.x = x.fetch();
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
