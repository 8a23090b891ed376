// Changes of format and of the order of the rows in the middle of a solve, by hand, by a schedule and by the policy.
#include <memory>

#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "faults/scenarios.hpp"
#include "formats/survey.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/builtin_machine.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/options.hpp"
#include "solvers/solver.hpp"
#include "support/engines.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"

namespace protean::test {
namespace {

constexpr double rounding = 1e-6;  // of solutions to a relative residual of 1e-9

// Calls a function between two iterations.
struct Between final : SolveObserver {
  std::function<void(const IterationInfo&)> then;
  explicit Between(std::function<void(const IterationInfo&)> f) : then(std::move(f)) {}
  bool on_iteration(const IterationInfo& info) override {
    then(info);
    return true;
  }
};

// One adaptive operator with its solver, and a solve that changes to `to` at iteration 3.
struct Changing {
  Matrix<double> A;
  FormatSpec to;
  bool overlapped;
  std::unique_ptr<Solver<double>> solver;
  Placed<double> b, x;
  Changing(Where where, std::unique_ptr<AssembledMatrix<double>> start, FormatSpec spec, bool beside)
      : A(placed(context_at(where), small_matrix()), std::move(start)),
        to(std::move(spec)),
        overlapped(beside),
        solver(make_solver<double>("cg", {.stopping = {.relative_tolerance = 1e-9}})),
        b(context_at(where), sample_vector<double>(small_matrix().rows(), 5)),
        x(context_at(where), std::vector<double>(static_cast<std::size_t>(small_matrix().rows()), 0.0)) {}
  void solve(bool changes) {
    Between observer([&](const IterationInfo& info) {
      if (!changes) return;
      if (!overlapped && info.iteration == 3) (void)A.switch_to(to, info.iteration, "a test");
      if (overlapped && info.iteration == 3) A.prepare(to, "a test", info.iteration);
      if (overlapped && info.iteration == 6) (void)A.wait_prepared();
      if (overlapped && info.iteration == 6) (void)A.adopt_prepared(info.iteration);
    });
    fill<double>(*A.context(), 0.0, x.view());
    const SolveReport report = solver->solve(A, b.read(), x.view(), nullptr, &observer);
    EXPECT_TRUE(report.converged()) << to_string(report.reason) << report.detail;
    // A change that failed says why. A GPU whose calls fail is no lack of memory.
    const bool gpu = A.context()->space() == Space::device && !A.context()->simulated();
    for (const FailedSwitch& failed : A.failures())
      EXPECT_TRUE(failed.failure == SwitchFailure::out_of_memory ||
                  (gpu && failed.failure == SwitchFailure::failed && !failed.why.empty()))
          << to_string(failed.failure) << ": " << failed.why;
  }
};

Scenario change_to(Where where, const std::string& format, const std::string& order, bool overlapped) {
  const ContextPtr context = context_at(where);
  const std::string name = std::string(overlapped ? "built next to the solve: " : "change to ") + format +
                           (order.empty() ? "" : " in order " + order);
  return {name, context,
          [=] {
            FormatSpec spec;
            if (!format.empty()) {
              spec.entry = &format_at(where, format);
              spec.params = most_tolerant(*spec.entry);
            }
            spec.order = order;
            const auto changing =
                std::make_shared<Changing>(where, matrix_at(where, "csr", small_matrix()), spec, overlapped);
            return Trial{[=] { changing->solve(true); },
                         [=] {
                           changing->solve(false);
                           (void)changing->A.wait_prepared();
                           changing->solve(true);
                           return changing->x.fetch();
                         }};
          },
          rounding};
}

// Squares with bilinear elements of -div grad u + u.
std::unique_ptr<ElementOperator<double>> squares(const ContextPtr& context) {
  constexpr int side = 8;
  constexpr double stiffness[4] = {4.0 / 6, -1.0 / 6, -2.0 / 6, -1.0 / 6};
  std::vector<std::int32_t> connectivity;
  std::vector<double> matrices;
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      const int at = y * (side + 1) + x;
      for (const int node : {at, at + 1, at + side + 2, at + side + 1}) connectivity.push_back(node);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) matrices.push_back(stiffness[(j - i + 4) % 4] + (i == j ? 0.01 : 0));
    }
  const ElementGroup<double> groups[] = {{side * side, 4, connectivity, matrices}};
  return make_element_operator<double>(context, (side + 1) * (side + 1), groups);
}

Scenario leave_elements(Where where, bool overlapped) {
  const ContextPtr context = context_at(where);
  return {std::string("elements assembled ") + (overlapped ? "beside the solve" : "in the solve"), context,
          [=] {
            struct Object {
              Matrix<double> A;
              std::unique_ptr<Solver<double>> solver;
              Placed<double> b, x;
              void solve(bool overlapped) {
                const FormatSpec to{.entry = &find_format("sell-c-sigma")};
                Between observer([&](const IterationInfo& info) {
                  if (!A.on_elements()) return;
                  if (!overlapped && info.iteration == 3) (void)A.switch_to(to, info.iteration);
                  if (overlapped && info.iteration == 3) A.prepare(to, "", info.iteration);
                  if (overlapped && info.iteration == 6) (void)A.wait_prepared();
                  if (overlapped && info.iteration == 6) (void)A.adopt_prepared(info.iteration);
                });
                fill<double>(*A.context(), 0.0, x.view());
                const SolveReport report = solver->solve(A, b.read(), x.view(), nullptr, &observer);
                EXPECT_TRUE(report.converged()) << to_string(report.reason) << report.detail;
              }
            };
            auto elements = squares(context);
            const std::int64_t n = elements->rows();
            const auto object = std::shared_ptr<Object>(
                new Object{Matrix<double>(std::move(elements)),
                           make_solver<double>("cg", {.stopping = {.relative_tolerance = 1e-9}}),
                           Placed<double>(context, sample_vector<double>(n, 5)),
                           Placed<double>(context, std::vector<double>(static_cast<std::size_t>(n), 0.0))});
            return Trial{[=] { object->solve(overlapped); },
                         [=] {
                           object->solve(overlapped);
                           return object->x.fetch();
                         }};
          },
          rounding};
}

// The policy, with a clock that counts its readings: the decisions are the same each time, except for the failures.
Scenario policy(Where where, bool overlapped) {
  const ContextPtr context = context_at(where);
  return {std::string("policy, ") + (overlapped ? "beside the solve" : "the solve waits"), context,
          [=] {
            struct Object {
              std::shared_ptr<std::atomic<std::int64_t>> readings =
                  std::make_shared<std::atomic<std::int64_t>>(0);
              CsrMatrix<double> csr =
                  generate(test_context(), "anisotropic-2d", {{"n", 40.0}, {"epsilon_y", 0.01}});
              Matrix<double> A;
              AutoSwitcher<double> switcher;
              Placed<double> b, x;
              Object(Where where, bool overlapped)
                  : A(placed(context_at(where), csr), matrix_at(where, "csr", csr), options()),
                    switcher(
                        A, CostModel(A.context()->space()),
                        [space = A.context()->space(), pattern = csr.pattern] {
                          return survey_formats(pattern, space);
                        },
                        switching(overlapped)),
                    b(A.context(), sample_vector<double>(csr.rows(), 5)),
                    x(A.context(), std::vector<double>(static_cast<std::size_t>(csr.rows()), 0.0)) {}
              MatrixOptions options() const {
                MatrixOptions result;
                result.clock = [count = readings] { return 1e-4 * static_cast<double>(++*count); };
                return result;
              }
              static AutoSwitchOptions switching(bool overlapped) {
                AutoSwitchOptions result;
                result.goal = 1e-9, result.policy.overlapped = overlapped;
                result.policy.worst_factor = 10, result.cached_x = 0;
                return result;
              }
              void solve(bool overlapped) {
                switcher.begin(switching(overlapped), nullptr);
                fill<double>(*A.context(), 0.0, x.view());
                const auto solver = make_solver<double>("cg", {.stopping = {.relative_tolerance = 1e-9}});
                const SolveReport report = solver->solve(A, b.read(), x.view(), nullptr, &switcher);
                EXPECT_TRUE(report.converged()) << to_string(report.reason) << report.detail;
                switcher.finish();
              }
            };
            const auto object = std::make_shared<Object>(where, overlapped);
            return Trial{[=] { object->solve(overlapped); },
                         [=] {
                           object->solve(overlapped);
                           (void)object->A.wait_prepared();
                           return object->x.fetch();
                         }};
          },
          rounding};
}

}  // namespace

std::vector<Scenario> change_scenarios(Where where) {
  std::vector<Scenario> all;
  const ContextPtr context = context_at(where);
  if (!context) return all;
  for (const FormatEntry* entry : one_of_each_engine(where == Where::fake ? Space::host : context->space())) {
    if (kernels_in(format_at(where, entry->id), context->space()).empty()) continue;
    for (const bool overlapped : {false, true})
      all.push_back(change_to(where, std::string(entry->id), "", overlapped));
  }
  if (where == Where::fake) return all;
  for (const OrderingEntry& order : orderings())
    if (order.unavailable.empty())
      for (const bool overlapped : {false, true}) {
        all.push_back(change_to(where, "", std::string(order.id), overlapped));
        all.push_back(change_to(where, "sell-c-sigma", std::string(order.id), overlapped));
      }
  for (const bool overlapped : {false, true}) {
    all.push_back(leave_elements(where, overlapped));
    all.push_back(policy(where, overlapped));
  }
  return all;
}

std::vector<Scenario> system_scenarios(Where where) {
  std::vector<Scenario> all;
  const ContextPtr context = context_at(where);
  if (!context || where == Where::fake) return all;
  struct Case {
    const char* name;
    SolveSettings settings;
  };
  SchedulePoint to_ell, to_rcm;
  to_ell.at = 2, to_ell.to.entry = &find_format("ell"), to_ell.overlapped = false;
  to_rcm.at = 3, to_rcm.to.order = "rcm", to_rcm.overlapped = false;
  const SolverOptions tight{.stopping = {.relative_tolerance = 1e-9}};
  const Case cases[] = {
      {"csr", {.solver = tight, .format = "csr"}},
      {"auto", {.solver = tight, .preconditioner = "ic0", .expected_iterations = 100000}},
      {"policy", {.solver = tight, .preconditioner = "jacobi", .policy = "auto"}},
      {"sell-c-sigma in order rcm",
       {.solver = tight, .preconditioner = "ssor", .format = "sell-c-sigma", .order = "rcm"}},
      {"order auto", {.solver = tight, .preconditioner = "jacobi", .format = "csr", .order = "auto"}},
      {"a schedule", {.solver = tight, .format = "csr", .schedule = {to_ell, to_rcm}}},
      {"a composition", {.solver = tight, .format = "csr", .parts = {{"jacobi", {}}, {"ssor", {}}}}},
  };
  for (const Case& one : cases) {
    SolveSettings settings = one.settings;
    settings.context = context;
    if (context->space() == Space::device && settings.preconditioner == "ssor")
      settings.preconditioner = "ic0";
    struct Object {
      CsrMatrix<double> csr = small_matrix();
      std::unique_ptr<LinearSystem<double>> system;
      std::vector<double> rhs = sample_vector<double>(csr.rows(), 5);
      Placed<double> b, x;
      explicit Object(const ContextPtr& context)
          : b(context, rhs), x(context, std::vector<double>(rhs.size(), 0.0)) {}
      void solve() {
        fill<double>(*system->matrix().context(), 0.0, x.view());
        const SolveResult result = system->solve(b.read(), x.view());
        EXPECT_TRUE(result.converged()) << to_string(result.report.reason);
      }
    };
    const auto first = [=] {
      const auto object = std::make_shared<Object>(context);
      const auto call = [=] {
        if (!object->system) object->system = std::make_unique<LinearSystem<double>>(object->csr, settings);
        fill<double>(*context, 0.0, object->x.view());
        const SolveResult result = object->system->solve(object->b.read(), object->x.view());
        EXPECT_TRUE(result.converged()) << to_string(result.report.reason);
      };
      return Trial{call, [=] {
                     call();
                     return object->x.fetch();
                   }};
    };
    all.push_back({std::string("system, ") + one.name, context, first, rounding});
    const auto again = [=] {
      const auto object = std::make_shared<Object>(context);
      object->system = std::make_unique<LinearSystem<double>>(object->csr, settings);
      object->solve();
      const auto call = [=] {
        object->system->update_values(other_values());
        object->solve();
      };
      return Trial{call, [=] {
                     call();
                     return object->x.fetch();
                   }};
    };
    all.push_back({std::string("new values for a system, ") + one.name, context, again, rounding, true});
    const auto other_settings = [=] {
      const auto object = std::make_shared<Object>(context);
      object->system = std::make_unique<LinearSystem<double>>(object->csr, settings);
      object->solve();
      SolveSettings other = settings;
      other.method = "minres", other.format = "ell", other.schedule = {}, other.policy = "by-format";
      other.expected_iterations = 0;
      const auto call = [=] {
        object->system->set(other);
        object->solve();
      };
      return Trial{call, [=] {
                     call();
                     return object->x.fetch();
                   }};
    };
    all.push_back(
        {std::string("other settings for a system, ") + one.name, context, other_settings, rounding});
  }
  return all;
}

}  // namespace protean::test
