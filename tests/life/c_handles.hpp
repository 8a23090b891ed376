// Handles of C, and what is done with them.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "interfaces/c/protean.h"
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

}  // namespace
}  // namespace protean::test::life
