// One system through all entrances: the command, solve() and LinearSystem of C++, and C. They must take the same format
// and order for the same reasons, and do the same iterations. (PETSc's entrance:
// tests/install/consumer/petsc_solves.cpp.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/generate/generate.hpp"
#include "core/io/vector_file.hpp"
#include "interfaces/c/protean.h"
#include "protean.hpp"
#include "support/battery.hpp"
#include "support/command.hpp"
#include "support/oracle.hpp"

namespace protean::test {
namespace {

using Json = nlohmann::json;

struct System {
  const char* kind;
  GeneratorParams params;
  const char* generate;  // the same for the problem file
  SolveSettings settings;
};

// What an entrance says of a solve.
struct Said {
  std::string refused;  // empty if it was solved
  std::string format, order, reason;
  std::vector<double> residuals;
};

// may_change: measured times decide at which iteration preconditioner auto changes, but not before its first look.
void expect_same(const Said& said, const Said& expected, const std::string& entrance,
                 bool may_change = false) {
  constexpr std::size_t first_look = 16;
  SCOPED_TRACE(entrance);
  EXPECT_EQ(said.refused.empty(), expected.refused.empty()) << said.refused << expected.refused;
  EXPECT_EQ(said.format, expected.format);
  EXPECT_EQ(said.order, expected.order);
  EXPECT_EQ(said.reason, expected.reason);
  std::size_t same = expected.residuals.size();
  if (may_change && same > first_look) {
    same = first_look;
    ASSERT_GE(said.residuals.size(), same);
  } else {
    ASSERT_EQ(said.residuals.size(), same);
  }
  for (std::size_t i = 0; i < same; ++i)
    ASSERT_NEAR(said.residuals[i], expected.residuals[i], 1e-12 * expected.residuals[i]) << "iteration " << i;
}

class Entrances : public CommandTest {
 protected:
  class Recorder final : public SolveObserver {
   public:
    explicit Recorder(std::vector<double>& to) : to_(to) {}
    bool on_iteration(const IterationInfo& info) override {
      to_.push_back(info.residual);
      return true;
    }

   private:
    std::vector<double>& to_;
  };

  // Two solves of a kept system; `once`: solve(), which keeps nothing.
  std::vector<Said> in_cpp(const System& system, const CsrMatrix<double>& csr, const std::vector<double>& b,
                           bool once) {
    std::vector<Said> all;
    const std::int64_t n = csr.rows();
    std::optional<LinearSystem<double>> kept;
    if (!once) kept.emplace(csr, system.settings);
    for (int i = 0; i < (once ? 1 : 2); ++i) {
      Said said;
      Recorder recorder(said.residuals);
      std::vector<double> x(b.size(), 0.0);
      SolveSettings settings = system.settings;
      settings.observer = &recorder;
      try {
        const SolveResult result = once ? solve(csr, {b.data(), n}, {x.data(), n}, settings)
                                        : kept->solve({b.data(), n}, {x.data(), n}, &recorder);
        said.format = result.format, said.order = result.order, said.reason = to_string(result.report.reason);
      } catch (const Error& error) { said.refused = error.what(); }
      all.push_back(std::move(said));
    }
    return all;
  }

  static int monitor(void* user, const protean_iteration* now) {
    static_cast<std::vector<double>*>(user)->push_back(now->residual);
    return 0;
  }
  Said in_c(const System& system, const CsrMatrix<double>& csr, const std::vector<double>& b) {
    Said said;
    const SolveSettings& s = system.settings;
    protean_context* context = nullptr;
    protean_matrix* A = nullptr;
    protean_solver* solver = nullptr;
    EXPECT_EQ(protean_context_host(1, &context), PROTEAN_OK);
    EXPECT_EQ(protean_matrix_csr(context, csr.rows(), csr.cols(), csr.nonzeros(), csr.pattern.row_ptr.p32,
                                 csr.pattern.col, csr.values, 0, &A),
              PROTEAN_OK);
    // What is the default is not said.
    protean_status status = PROTEAN_OK;
    const auto also = [&](protean_status next) { status = status == PROTEAN_OK ? next : status; };
    const SolveSettings plain;
    also(protean_solver_create(
        s.method.name().c_str(),
        s.preconditioner.name() == plain.preconditioner.name() ? nullptr : s.preconditioner.name().c_str(),
        &solver));
    if (s.format != plain.format) also(protean_matrix_set_format(A, s.format.c_str(), nullptr, nullptr));
    if (s.order != plain.order) also(protean_matrix_set_order(A, s.order.c_str()));
    also(protean_solver_set(solver, "relative_tolerance", s.solver.stopping.relative_tolerance));
    also(protean_solver_set(solver, "expected_iterations", static_cast<double>(s.expected_iterations)));
    if (s.selector != plain.selector) also(protean_solver_set_text(solver, "selector", s.selector.c_str()));
    for (const SchedulePoint& point : s.schedule)
      also(protean_solver_schedule_order(solver, "at_iteration", point.at,
                                         point.to.order.empty() ? nullptr : point.to.order.c_str(),
                                         point.to.entry ? std::string(point.to.entry->id).c_str() : nullptr,
                                         nullptr, nullptr, point.overlapped));
    also(protean_solver_set_monitor(solver, monitor, &said.residuals));
    std::vector<double> x(b.size(), 0.0);
    if (status == PROTEAN_OK) status = protean_solve(solver, A, b.data(), x.data());
    if (status == PROTEAN_OK || status == PROTEAN_NOT_CONVERGED)
      said.format = protean_matrix_format(A), said.order = protean_matrix_order(A),
      said.reason = protean_solver_reason(solver);
    else
      said.refused = protean_last_error();
    protean_solver_free(solver), protean_matrix_free(A), protean_context_free(context);
    return said;
  }

  Said by_command(const System& system, const std::vector<double>& b) {
    Vector<double> right(test_context(), static_cast<std::int64_t>(b.size()));
    std::copy(b.begin(), b.end(), right.data());
    write_vector((work_ / "b.npy").string(), right, "");
    const SolveSettings& s = system.settings;
    std::ostringstream text;
    text << "matrix: {generate: " << system.generate << (s.order == "none" ? "" : ", order: " + s.order)
         << "}\n"
         << "rhs: {file: b.npy}\n"
         << "solver: {method: " << s.method.name()
         << ", relative_tolerance: " << s.solver.stopping.relative_tolerance << "}\n"
         << "operator: {threads: 1" << (s.format == "auto" ? "" : ", format: " + s.format)
         << (s.expected_iterations > 0 ? fmt::format(", expected_iterations: {}", s.expected_iterations) : "")
         << (s.selector == default_selector ? "" : ", selector: " + s.selector) << "}\n"
         << "output: {report: r.json, history: h.csv}\n";
    if (s.preconditioner != "none") text << "preconditioner: {type: " << s.preconditioner.name() << "}\n";
    if (!s.schedule.empty()) text << "schedule:\n";
    for (const SchedulePoint& point : s.schedule)
      text << "  - {at_iteration: " << point.at
           << (point.to.entry ? ", format: " + std::string(point.to.entry->id) : "")
           << (point.to.order.empty() ? "" : ", order: " + point.to.order) << ", overlapped: false}\n";
    write("p.yaml", text.str());
    Said said;
    const Outcome outcome = run({"solve", "p.yaml", "--quiet"});
    if (outcome.code > 1) {
      said.refused = outcome.err;
      return said;
    }
    const Json report = Json::parse(slurp(work_ / "r.json"));
    said.format = report["operator"]["format"];
    said.order = report.contains("order") ? report["order"]["order"].get<std::string>() : "none";
    for (const Json& change : report["switches"]) {
      said.format = change["to"];
      if (change.contains("order")) said.order = change["order"]["to"];
    }
    said.reason = report["reason"];
    std::istringstream lines(slurp(work_ / "h.csv"));
    for (std::string line; std::getline(lines, line);)
      if (line.front() != 'i') said.residuals.push_back(std::stod(line.substr(line.find(',') + 1)));
    return said;
  }
};

std::vector<System> systems() {
  struct Matrix {
    const char* kind;
    GeneratorParams params;
    const char* generate;
    bool symmetric;
  };
  const Matrix matrices[] = {
      {"poisson-2d", {{"n", 40}}, "{kind: poisson-2d, n: 40}", true},
      {"poisson-3d", {{"n", 12}}, "{kind: poisson-3d, n: 12}", true},
      {"anisotropic-2d", {{"n", 40}}, "{kind: anisotropic-2d, n: 40}", true},
      {"elasticity-3d", {{"n", 6}}, "{kind: elasticity-3d, n: 6}", true},
      {"random-spd", {{"n", 900}}, "{kind: random-spd, n: 900}", true},
      {"convection-diffusion-3d", {{"n", 12}}, "{kind: convection-diffusion-3d, n: 12}", false},
      {"poisson-3d", {{"n", 10}, {"points", 27}}, "{kind: poisson-3d, n: 10, points: 27}", true},
      {"poisson-2d", {{"n", 5}}, "{kind: poisson-2d, n: 5}", true}};
  constexpr std::int64_t expected = 300;
  std::vector<System> all;
  for (const Matrix& one : matrices) {
    const auto add = [&](SolveSettings settings) {
      settings.context = Context::host(1);
      // Chosen before the solve; a policy would decide by measured times.
      if (settings.format == "auto") settings.expected_iterations = expected;
      if (!one.symmetric && settings.method == "cg")
        settings.method = "bicgstab", settings.preconditioner = "jacobi";
      all.push_back({one.kind, one.params, one.generate, std::move(settings)});
    };
    add({});
    add({.method = "cg", .preconditioner = "ssor", .format = "sell-c-sigma"});
    add({.method = "bicgstab", .preconditioner = "ilu0", .order = "auto"});
    add({.method = "gmres",
         .solver = {.stopping = {.relative_tolerance = 1e-6}},
         .format = "bcsr",
         .order = "rcm"});
    add({.selector = "abu-sufah"});
    FormatSpec ell{.entry = &find_format("ell")}, back;
    ell.order = "length", back.order = "none";
    add({.method = "idr",
         .preconditioner = "jacobi",
         .order = "rcm",
         .schedule = {{.at = 3, .to = ell, .overlapped = false},
                      {.at = 6, .to = back, .overlapped = false}}});
  }
  return all;
}

TEST_F(Entrances, DoTheSameInFortyEightSystems) {
  const std::vector<System> all = systems();
  ASSERT_EQ(all.size(), 48u);
  int solved = 0, chosen = 0;
  for (const System& system : all) {
    SCOPED_TRACE(std::string(system.generate) + ", " + system.settings.method.name() + ", " +
                 system.settings.preconditioner.name() + ", " + system.settings.format + ", " +
                 system.settings.order);
    const auto csr = generate(test_context(), system.kind, system.params);
    const auto b = sample_vector<double>(csr.rows(), 3);
    const Said expected = in_cpp(system, csr, b, true).front();
    solved += expected.refused.empty();
    chosen += system.settings.format == "auto" && expected.format != "csr";
    const std::vector<Said> kept = in_cpp(system, csr, b, false);
    const bool may_change = system.settings.preconditioner == "auto";
    expect_same(kept[0], expected, "LinearSystem", may_change);
    // A schedule has left the format of the first solve, and auto knows more.
    if (system.settings.schedule.empty() && !may_change)
      expect_same(kept[1], expected, "LinearSystem, once more");
    expect_same(in_c(system, csr, b), expected, "C", may_change);
    expect_same(by_command(system, b), expected, "the command", may_change);
  }
  EXPECT_GE(solved, 41);
  EXPECT_GE(chosen, 5) << "auto must have something to choose";
}

}  // namespace
}  // namespace protean::test
