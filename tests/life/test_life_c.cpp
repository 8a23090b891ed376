// The life of C handles: contexts, matrices and solvers of protean.h are reused through random steps, and after
// each solve they agree with fresh handles, to the bit on the host. Calls that must fail come between, and from
// monitors in the middle of a solve, and may change nothing. The environment variables are the same as for
// test_life.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "c_handles.hpp"
#include "interfaces/c/protean.h"
#include "life/replay.hpp"
#include "life/solve.hpp"
#include "life/systems.hpp"
#include "life/world.hpp"
#include "support/space.hpp"

namespace protean::test::life {
namespace {

class CWorld {
 public:
  static constexpr int matrices = 4, solvers = 3;
  CWorld(bool gpu, std::uint64_t seed) : gpu_(gpu) {
    for (int slot = 0; slot < matrices; ++slot) {
      Draw draw(mixed(seed, 11, slot));
      new_matrix(slot, draw);
    }
    for (int slot = 0; slot < solvers; ++slot) {
      Draw draw(mixed(seed, 12, slot));
      new_solver(slot, draw);
    }
  }

  // Empty, or what is wrong.
  std::string step(std::uint64_t seed, int number) {
    Draw draw(mixed(seed, 13, static_cast<std::uint64_t>(number)));
    const int kind = draw.below(16), matrix = draw.below(matrices), solver = draw.below(solvers);
    prefix_ = fmt::format("step {}: ", number);
    if (kind < 6) return compare_solve(matrix, solver, draw);
    if (kind == 6) return there_and_back(matrix, draw.below(matrices), solver, draw);
    if (kind == 7) new_matrix(matrix, draw);
    if (kind == 8) new_solver(solver, draw);
    if (kind == 9) set_format(matrix, draw);
    if (kind == 10) new_values(matrix, draw);
    if (kind == 11) set_option(solver, draw);
    if (kind == 12) watch(matrix);
    if (kind == 13) return calls_that_fail(matrix, solver);
    if (kind > 13) set_order(matrix, draw);
    return {};
  }

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void note(const std::string& text) { notes_.push_back(prefix_ + text); }

  void new_matrix(int slot, Draw& draw) {
    Matrix& A = matrices_[slot];
    if (draw.one_in(2)) A.handle.reset();
    Matrix next;
    next.gpu = gpu_ && !draw.one_in(4), next.threads = 1 + draw.below(2);
    next.system = draw.below(static_cast<int>(systems().size()));
    next.index_base = next.gpu && !next.elements() ? 0 : draw.below(2);
    next.wide = draw.one_in(3), next.generation = draw_finite(draw);
    next.variant = draw.of({"gather", "coloured", "automatic"});
    next.make();
    A = std::move(next);
    note(fmt::format("matrix {} is now '{}', values {}, base {}, {}", slot, systems()[A.system].name,
                     A.generation, A.index_base,
                     A.gpu ? "on the GPU" : fmt::format("{} threads", A.threads)));
  }

  void new_solver(int slot, Draw& draw) {
    SolverOf& one = solvers_[slot];
    one.method = draw.of({"cg", "cg", "bicgstab", "gmres", "fcg", "minres", "bicgstab2", "idr", "fgmres"});
    one.preconditioner = draw.one_in(3) ? "none" : "jacobi";
    one.options = {{"max_iterations", 400}};
    one.make();
    note(fmt::format("solver {} is now {} with {}", slot, one.method, one.preconditioner));
  }

  void set_option(int slot, Draw& draw) {
    SolverOf& one = solvers_[slot];
    const auto [name, value] =
        draw.of<std::pair<const char*, double>>({{"relative_tolerance", draw.of({1e-4, 1e-6, 1e-9})},
                                                 {"absolute_tolerance", 1e-3},
                                                 {"max_iterations", draw.of({5.0, 60.0, 400.0})},
                                                 {"restart", draw.of({1.0, 5.0, 40.0})},
                                                 {"directions", draw.of({1.0, 3.0, 8.0})},
                                                 {"s", draw.of({1.0, 2.0, 8.0})},
                                                 {"stagnation_window", draw.of({0.0, 25.0})}});
    const std::string option = name, method = one.method;
    const bool reads = option == "restart"      ? method.ends_with("gmres")
                       : option == "directions" ? method == "fcg"
                       : option == "s"          ? method == "idr"
                                                : true;
    const protean_status status = protean_solver_set(one.handle.get(), name, value);
    if (!reads) {
      if (status != PROTEAN_BAD_ARGUMENT)
        throw std::runtime_error(fmt::format("{} is taken by {}", name, method));
      return note(fmt::format("solver {}: {} is refused", slot, name));
    }
    must(status);
    one.options.push_back({name, value});
    note(fmt::format("solver {}: {} = {}", slot, name, value));
  }

  void set_format(int slot, Draw& draw) {
    Matrix& A = matrices_[slot];
    const FormatSpec format = pick_format(A.gpu ? Place::device : Place::host, draw.number());
    change(slot, false, std::string(format.entry->id));
  }

  void set_order(int slot, Draw& draw) {
    change(slot, true, draw.of({"rcm", "length", "cluster", "auto", "none"}));
  }

  void change(int slot, bool order, const std::string& name) {
    Matrix& A = matrices_[slot];
    note(fmt::format("matrix {} is brought into {}{}", slot, order ? "order " : "", name));
    const bool fault = notes_.size() % 7 == 0;
    protean_status status = PROTEAN_OK;
    {
      const FailingAllocation failing(fault ? 1 + static_cast<std::int64_t>(notes_.size() % 5) : 0);
      status = A.change(order, name);
    }
    if (status == PROTEAN_OK) A.changes.emplace_back(order, name);
    const bool may_refuse = status == PROTEAN_FORMAT_REFUSED ||
                            (A.elements() && status == PROTEAN_BAD_ARGUMENT) ||
                            (fault && status == PROTEAN_OUT_OF_MEMORY);
    if (status != PROTEAN_OK && !may_refuse) must(status);
  }

  void new_values(int slot, Draw& draw) {
    Matrix& A = matrices_[slot];
    A.set_values(draw.number(), draw.one_in(3) ? 1 + draw.below(5) : 0);
    note(fmt::format("matrix {} gets values {}", slot, A.generation));
  }

  void watch(int slot) {
    note(fmt::format("matrix {} is watched", slot));
    must(protean_matrix_watch(matrices_[slot].handle.get()));
  }

  std::string compare_solve(int matrix, int solver, Draw& draw) {
    Matrix& A = matrices_[matrix];
    SolverOf& one = solvers_[solver];
    note(fmt::format("solver {} ({}, {}) solves with matrix {} ('{}', values {}, {}, order {})", solver,
                     one.method, one.preconditioner, matrix, systems()[A.system].name, A.generation,
                     protean_matrix_format(A.handle.get()), protean_matrix_order(A.handle.get())));
    std::vector<double> b(static_cast<std::size_t>(A.size()));
    const bool zero = draw.one_in(20);
    const std::uint64_t seed = draw.number();
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = zero ? 0 : uniform(seed, i);
    if (draw.one_in(10)) fail_an_allocation(one, A, b, 1 + draw.below(12));
    Matrix fresh = A.recipe();
    Nested nested = draw_nested(matrix, solver, draw), nested_fresh;
    nested_fresh.calls = nested.calls;
    const Answer kept = solve(one.handle.get(), A, b, nested.calls.empty() ? nullptr : &nested);
    if (!nested.wrong.empty()) return nested.wrong;
    if (std::string text = lie(kept, A, b); !text.empty()) return text;
    fresh.make();
    SolverOf again{.method = one.method, .preconditioner = one.preconditioner, .options = one.options};
    again.make();
    nested_fresh.solver = again.handle.get(), nested_fresh.A = &fresh;
    const Answer other = solve(again.handle.get(), fresh, b, nested.calls.empty() ? nullptr : &nested_fresh);
    const std::string order = protean_matrix_order(A.handle.get()),
                      fresh_order = protean_matrix_order(fresh.handle.get());
    if (order != fresh_order)
      return fmt::format("the order is {} and {} with fresh handles", order, fresh_order);
    return difference(kept, other, !A.gpu);
  }

  // Calls from the monitor of a solve with this matrix and this solver, in one solve of two. On a GPU only calls that
  // are refused: it computes some iterations ahead of the monitor.
  Nested draw_nested(int matrix, int solver, Draw& draw) {
    Nested nested;
    nested.solver = solvers_[solver].handle.get(), nested.A = &matrices_[matrix];
    nested.second = solvers_[(solver + 1) % solvers].handle.get();
    nested.other = &matrices_[(matrix + 1) % matrices];
    for (int left = draw.one_in(2) ? 1 + draw.below(4) : 0; left > 0; --left) {
      const auto kind =
          static_cast<Nested::Kind>(draw.below(nested.A->gpu ? Nested::solve_multi + 1 : Nested::kinds));
      if (nested.other->gpu && kind == Nested::second_solver_other) continue;
      nested.calls.push_back({draw.below(12), kind, draw.number()});
      note(fmt::format("  its monitor makes call {} at iteration {}", static_cast<int>(kind),
                       nested.calls.back().iteration));
    }
    return nested;
  }

  // The handles are as they were afterwards: the solve that follows shows it.
  void fail_an_allocation(SolverOf& solver, const Matrix& A, const std::vector<double>& b, int n) {
    note(fmt::format("  allocation {} fails in a solve before it", n));
    const FailingAllocation fault(n);
    try {
      const protean_status status = solve(solver.handle.get(), A, b).status;
      if (status > PROTEAN_NOT_CONVERGED && status != PROTEAN_OUT_OF_MEMORY && status != PROTEAN_BAD_MATRIX)
        must(status);
    } catch (const OutOfMemory&) {}  // of the test's own vectors
  }

  std::string there_and_back(int first, int between, int solver, Draw& draw) {
    for (const int matrix : {first, between, first})
      if (std::string text = compare_solve(matrix, solver, draw); !text.empty()) return text;
    return {};
  }

  std::string calls_that_fail(int matrix, int solver) {
    note(fmt::format("calls with wrong arguments on matrix {} and solver {}", matrix, solver));
    protean_matrix* const A = matrices_[matrix].handle.get();
    protean_solver* const one = solvers_[solver].handle.get();
    double number = 0;
    const protean_status bad[] = {
        protean_matrix_set_format(A, "no-such-format", nullptr, nullptr),
        protean_matrix_set_format(A, "csr", "no_such_parameter=1", nullptr),
        protean_matrix_set_order(A, "no-such-order"),
        protean_matrix_update_values(A, nullptr),
        protean_solver_schedule_order(one, "at_iteration", 1, "auto", "csr", nullptr, nullptr, 0),
        protean_solver_set(one, "no_such_option", 1),
        protean_solver_set(one, "relative_tolerance", -1),
        protean_solver_set(one, "restart", 0.5),
        protean_solve(one, A, &number, nullptr),
        protean_solve(one, nullptr, &number, &number)};
    for (std::size_t i = 0; i < std::size(bad); ++i)
      if (bad[i] != PROTEAN_BAD_ARGUMENT)
        return fmt::format("wrong call {} returned {}", i, protean_status_name(bad[i]));
    return {};
  }

  bool gpu_;
  Matrix matrices_[matrices];
  SolverOf solvers_[solvers];
  std::vector<std::string> notes_;
  std::string prefix_;
};

class LifeOfCHandles : public testing::TestWithParam<const char*> {};

TEST_P(LifeOfCHandles, KeptHandlesAgreeWithFreshOnes) {
  const bool gpu = GetParam() == std::string_view("device");
  if (gpu && !test_context(Space::device)) GTEST_SKIP() << no_device;
  expect_good_lives({1, 2, 3, 4}, 150, [&](std::uint64_t seed, const StepList& steps) {
    CWorld world(gpu, seed);
    return live(world, steps, [&](int number) { return world.step(seed, number); });
  });
}

INSTANTIATE_TEST_SUITE_P(Spaces, LifeOfCHandles, testing::Values("host", "device"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace protean::test::life
