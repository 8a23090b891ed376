// The life of C handles: contexts, matrices and solvers of protean.h are reused through random steps, and after
// each solve they agree with fresh handles, to the bit on the host. Calls that must fail come between, and from
// monitors in the middle of a solve, and may change nothing. The environment variables are those of test_life.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "interfaces/c/protean.h"
#include "life/replay.hpp"
#include "life/solve.hpp"
#include "life/systems.hpp"
#include "life/world.hpp"
#include "support/space.hpp"

namespace protean::test::life {
namespace {

using ContextHandle = std::unique_ptr<protean_context, void (*)(protean_context*)>;
using MatrixHandle = std::unique_ptr<protean_matrix, void (*)(protean_matrix*)>;
using SolverHandle = std::unique_ptr<protean_solver, void (*)(protean_solver*)>;

// Where a call of the C interface must succeed.
void must(protean_status status) {
  if (status != PROTEAN_OK)
    throw std::runtime_error(fmt::format("{}: {}", protean_status_name(status), protean_last_error()));
}

ContextHandle make_context_handle(bool gpu, int threads) {
  protean_context* made = nullptr;
  must(gpu ? protean_context_device(0, &made) : protean_context_host(threads, &made));
  return {made, protean_context_free};
}

// A matrix, with what is needed to make it once more.
struct Matrix {
  int system = 0, index_base = 0, threads = 2;
  bool gpu = false, wide = false;
  unsigned generation = 0;
  std::vector<std::pair<bool, std::string>>
      changes;                     // of the order (true) or the format, one after the other
  std::string variant = "gather";  // of element matrices

  ContextHandle context{nullptr, protean_context_free};
  // The arrays handed over: of the host, or copies on the GPU.
  std::shared_ptr<const Numbers<double>> numbers;
  std::vector<std::int64_t> row_ptr64;
  std::vector<std::int32_t> row_ptr32, col;
  CsrMatrix<double> there;  // on the GPU
  std::vector<CsrMatrix<double>> values_there;
  MatrixHandle handle{nullptr, protean_matrix_free};

  std::int64_t size() const { return systems()[system].size; }
  bool elements() const { return systems()[system].elements; }

  Matrix recipe() const {
    Matrix copy;
    copy.system = system, copy.index_base = index_base, copy.threads = threads, copy.gpu = gpu;
    copy.wide = wide, copy.generation = generation, copy.changes = changes, copy.variant = variant;
    return copy;
  }

  void make() {
    context = make_context_handle(gpu, threads);
    numbers = life::numbers<double>(system, generation);
    protean_matrix* made = nullptr;
    if (elements()) {
      const auto count = static_cast<std::int64_t>(numbers->elements.size() / 4);
      col = numbers->elements;
      for (std::int32_t& node : col) node += index_base;
      must(protean_matrix_elements(context.get(), size(), 1, count, 4, col.data(), numbers->matrices.data(),
                                   index_base, nullptr, 0, systems()[system].symmetric, variant.c_str(),
                                   &made));
    } else if (gpu) {
      there = upload(test_context(Space::device), numbers->csr);
      must(protean_matrix_csr(context.get(), size(), size(), there.nonzeros(), there.pattern.row_ptr.p32,
                              there.pattern.col, there.values, 0, &made));
    } else {
      take_arrays();
      const auto nonzeros = numbers->csr.nonzeros();
      must(wide ? protean_matrix_csr64(context.get(), size(), size(), nonzeros, row_ptr64.data(), col.data(),
                                       numbers->csr.values, index_base, &made)
                : protean_matrix_csr(context.get(), size(), size(), nonzeros, row_ptr32.data(), col.data(),
                                     numbers->csr.values, index_base, &made));
    }
    handle.reset(made);
    // A format that "auto" chooses depends on the memory at that time, which these tests take away.
    if (!elements()) must(change(false, "csr"));
    for (const auto& [order, name] : changes) must(change(order, name));
  }
  protean_status change(bool order, const std::string& name) {
    return order ? protean_matrix_set_order(handle.get(), name.c_str())
                 : protean_matrix_set_format(handle.get(), name.c_str(), nullptr, nullptr);
  }

  void take_arrays() {
    const SparsityPattern& pattern = numbers->csr.pattern;
    row_ptr64.clear(), row_ptr32.clear();
    for (std::int64_t i = 0; i <= pattern.rows; ++i) {
      row_ptr64.push_back(pattern.row_ptr[i] + index_base);
      row_ptr32.push_back(static_cast<std::int32_t>(row_ptr64.back()));
    }
    col.assign(pattern.col, pattern.col + pattern.nonzeros);
    for (std::int32_t& one : col) one += index_base;
  }

  // Values that are not finite may be refused, and memory may be short for new ones; the old ones stay then.
  void set_values(unsigned next, std::int64_t failing_allocation) {
    const auto changed = life::numbers<double>(system, next);
    const double* values = elements() ? changed->matrices.data() : changed->csr.values;
    if (gpu && !elements()) {
      values_there.push_back(upload(test_context(Space::device), changed->csr));
      values = values_there.back().values;
    }
    protean_status status = PROTEAN_OK;
    {
      const FailingAllocation failing(failing_allocation);
      status = protean_matrix_update_values(handle.get(), values);
    }
    if (status == PROTEAN_BAD_MATRIX && quality(next) == Quality::not_finite) return;
    if (status == PROTEAN_OUT_OF_MEMORY && failing_allocation > 0) return;
    must(status);
    numbers = changed, generation = next;
  }
};

unsigned draw_finite(Draw& draw) {
  unsigned generation = draw.number();
  while (quality(generation) == Quality::not_finite) generation = draw.number();
  return generation;
}

struct SolverOf {
  std::string method = "cg", preconditioner = "none";
  std::vector<std::pair<std::string, double>> options;
  SolverHandle handle{nullptr, protean_solver_free};

  void make() {
    protean_solver* made = nullptr;
    must(protean_solver_create(method.c_str(), preconditioner.c_str(), &made));
    handle.reset(made);
    for (const auto& [name, value] : options) must(protean_solver_set(made, name.c_str(), value));
  }
};

struct Answer {
  protean_status status = PROTEAN_OK;
  std::int64_t iterations = 0;
  double true_residual = 0, recurrence_residual = 0;
  std::string reason, error;
  std::vector<double> x;
};

// What the monitor of a solve calls, and at which iteration. With fresh handles it gives new values only: the other
// calls change nothing.
struct Nested {
  enum Kind {
    set,
    set_text,
    set_preconditioner,
    set_monitor,
    schedule,
    schedule_clear,
    free_solver,
    free_matrix,
    set_format,
    set_order,
    watch,
    solve,
    solve_other,
    solve_multi,
    second_solver,
    second_solver_other,
    second_solver_schedule,
    product,
    results,
    new_values,
    kinds
  };
  struct Call {
    std::int64_t iteration;
    Kind kind;
    unsigned number;
  };
  std::vector<Call> calls;
  protean_solver* solver = nullptr;
  Matrix* A = nullptr;
  // Another solver and another matrix; null with fresh handles.
  protean_solver* second = nullptr;
  const Matrix* other = nullptr;
  std::string wrong;  // the first call that did not do what it must

  static int monitor(void* user, const protean_iteration* now) {
    Nested& me = *static_cast<Nested*>(user);
    for (const Call& call : me.calls)
      if (call.iteration == now->iteration && (me.second || call.kind == new_values)) me.make(call);
    return 0;
  }

 private:
  void make(const Call& call) {
    try {
      const std::string text = what_is_wrong(call);
      if (wrong.empty() && !text.empty())
        wrong = fmt::format("call {} in the monitor at iteration {}: {}", static_cast<int>(call.kind),
                            call.iteration, text);
    } catch (const std::exception& e) { wrong = e.what(); }
  }
  static std::string refused(protean_status status) {
    return status == PROTEAN_BAD_ARGUMENT ? "" : fmt::format("not refused: {}", protean_status_name(status));
  }
  static std::string not_freed() {
    const std::string text = protean_last_error();
    return text.find("not freed") != std::string::npos ? "" : "the handle is not said to stay: " + text;
  }
  // A solve that is allowed: whatever becomes of it is a result, or bad input, such as several columns with fcg.
  static std::string allowed(protean_status status) {
    return status <= PROTEAN_BAD_MATRIX
               ? ""
               : fmt::format("{}: {}", protean_status_name(status), protean_last_error());
  }
  std::string what_is_wrong(const Call& call) {
    const auto sized = [](const Matrix& matrix) {
      return std::vector<double>(static_cast<std::size_t>(matrix.size()), 1.0);
    };
    std::vector<double> b = sized(*A), x = b, far = sized(*other_or_own()), y = far;
    protean_matrix* const matrix = A->handle.get();
    switch (call.kind) {
      case set:
        return refused(protean_solver_set(solver, "max_iterations", 3));
      case set_text:
        return refused(protean_solver_set_text(solver, "baseline", "initial-residual"));
      case set_preconditioner:
        return refused(protean_solver_set_preconditioner(solver, nullptr, nullptr, nullptr, 0));
      case set_monitor:
        return refused(protean_solver_set_monitor(solver, nullptr, nullptr));
      case schedule:
        return refused(protean_solver_schedule(solver, "at_iteration", 1, "ell", nullptr, nullptr, 0));
      case schedule_clear:
        return refused(protean_solver_schedule_clear(solver));
      case free_solver:
        protean_solver_free(solver);
        return not_freed();
      case free_matrix:
        protean_matrix_free(matrix);
        return not_freed();
      case set_format:
        return refused(protean_matrix_set_format(matrix, "coo", nullptr, nullptr));
      case set_order:
        return refused(protean_matrix_set_order(matrix, "rcm"));
      case watch:
        return refused(protean_matrix_watch(matrix));
      case solve:
        return refused(protean_solve(solver, matrix, b.data(), x.data()));
      case solve_other:
        return refused(protean_solve(solver, other->handle.get(), far.data(), y.data()));
      case solve_multi:
        return refused(protean_solve_multi(solver, matrix, 1, b.data(), A->size(), x.data(), A->size()));
      case second_solver:
        x.assign(x.size(), 0.0);
        if (call.number % 2 == 0)
          return allowed(protean_solve_multi(second, matrix, 1, b.data(), A->size(), x.data(), A->size()));
        return allowed(protean_solve(second, matrix, b.data(), x.data()));
      case second_solver_other:
        y.assign(y.size(), 0.0);
        return allowed(protean_solve(second, other->handle.get(), far.data(), y.data()));
      case second_solver_schedule: {
        must(protean_solver_schedule(second, "at_iteration", 1, "csr", nullptr, nullptr, 0));
        const std::string text = refused(protean_solve(second, matrix, b.data(), x.data()));
        must(protean_solver_schedule_clear(second));
        return text;
      }
      case product:
        must(protean_matrix_apply(matrix, 1, b.data(), 0, x.data()));
        return {};
      case results:
        return protean_solver_iterations(solver) == 0 && protean_solver_switches(solver) == 0
                   ? ""
                   : "results before the end of the solve";
      case new_values:
        A->set_values(call.number, 0);
        return {};
      case kinds:
        break;
    }
    return "unknown";
  }
  const Matrix* other_or_own() const { return other ? other : A; }
};

Answer solve(protean_solver* solver, const Matrix& A, const std::vector<double>& b,
             Nested* nested = nullptr) {
  const ContextPtr& memory = test_context(A.gpu ? Space::device : Space::host);
  const Placed<double> there(memory, b);
  Placed<double> x(memory, std::vector<double>(b.size(), 0.0));
  memory->synchronize();
  Answer answer;
  if (nested) must(protean_solver_set_monitor(solver, Nested::monitor, nested));
  answer.status = protean_solve(solver, A.handle.get(), there.read().data, x.data());
  if (answer.status != PROTEAN_OK) answer.error = protean_last_error();
  if (nested) must(protean_solver_set_monitor(solver, nullptr, nullptr));
  answer.iterations = protean_solver_iterations(solver);
  answer.true_residual = protean_solver_true_residual(solver);
  answer.recurrence_residual = protean_solver_recurrence_residual(solver);
  answer.reason = protean_solver_reason(solver);
  answer.x = x.fetch();
  return answer;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string difference(const Answer& kept, const Answer& fresh, bool bits) {
  if (kept.status != fresh.status || kept.error != fresh.error)
    return fmt::format("status {} '{}' and {} '{}' with fresh handles", protean_status_name(kept.status),
                       kept.error, protean_status_name(fresh.status), fresh.error);
  const bool failed = kept.status != PROTEAN_OK && kept.status != PROTEAN_NOT_CONVERGED;
  if (failed) return {};  // what the getters say is of the solve before
  const auto apart = std::abs(kept.iterations - fresh.iterations);
  const auto most = bits ? 0 : 10 + std::max(kept.iterations, fresh.iterations) / 2;
  if (apart > most)
    return fmt::format("{} iterations and {} with fresh handles", kept.iterations, fresh.iterations);
  if (!bits) return {};
  if (kept.reason != fresh.reason)
    return fmt::format("reason {} and {} with fresh handles", kept.reason, fresh.reason);
  if (!same(kept.true_residual, fresh.true_residual) ||
      !same(kept.recurrence_residual, fresh.recurrence_residual))
    return fmt::format("residuals {}, {} and {}, {} with fresh handles", kept.true_residual,
                       kept.recurrence_residual, fresh.true_residual, fresh.recurrence_residual);
  for (std::size_t i = 0; i < kept.x.size(); ++i)
    if (!same(kept.x[i], fresh.x[i]))
      return fmt::format("x[{}] is {} and {} with fresh handles", i, kept.x[i], fresh.x[i]);
  return {};
}

// Empty, or how far ||b - A x|| / ||b||, which is computed in long double, is from what the handle says.
std::string lie(const Answer& answer, const Matrix& A, const std::vector<double>& b) {
  if (answer.status > PROTEAN_NOT_CONVERGED || !std::isfinite(answer.true_residual)) return {};
  std::vector<long double> r(b.begin(), b.end());
  long double squares = 0, norm = 0, rounding = 0;
  for (const Triplet<double>& a : A.numbers->terms) {
    const long double product = static_cast<long double>(a.value) * answer.x[a.col];
    r[a.row] -= product, rounding += std::abs(product);
  }
  for (std::size_t i = 0; i < b.size(); ++i)
    squares += r[i] * r[i], norm += static_cast<long double>(b[i]) * b[i];
  if (norm == 0) return {};
  const auto truth = static_cast<double>(std::sqrt(squares / norm));
  const auto most = static_cast<double>(1e-14L * rounding / std::sqrt(norm)) + 1e-9 * truth;
  if (std::abs(truth - answer.true_residual) <= most) return {};
  return fmt::format("||b - A x|| / ||b|| is {} +- {}, the handle says {}", truth, most,
                     answer.true_residual);
}

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

  // Calls from the monitor of a solve with this matrix and this solver, in one solve of two. On a GPU only those that
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
