// The results of the last solve.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "interfaces/c/handles.hpp"

using namespace protean;
using namespace protean::capi;

namespace {

// Whatever the baseline of the solve is: protean.h promises residuals relative to the norm of b.
double relative_to_rhs(const SolveReport& report, double residual) {
  if (report.rhs_norm > 0) return residual / report.rhs_norm;
  return residual > 0 ? std::numeric_limits<double>::infinity() : residual;
}

template <class Record>
const Record& at(const std::vector<Record>& records, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(records.size()))
    throw BadArgument("index is " + std::to_string(index) + "; there are " + std::to_string(records.size()) +
                      ", counted from 0");
  return records[static_cast<std::size_t>(index)];
}

// Writes as many bytes of a struct as the program knows; bytes that only the program knows become 0.
template <class Struct>
void hand_over(const Struct& from, Struct* result, std::size_t size) {
  void* const to = need(result, "result");
  if (size == 0 || size > largest_struct)
    throw BadArgument("the size of the result is " + std::to_string(size) + " bytes; it must be 1 to " +
                      std::to_string(largest_struct) + ", such as sizeof of the struct");
  const std::size_t known = std::min(size, sizeof from);
  std::memcpy(to, &from, known);
  std::memset(static_cast<unsigned char*>(to) + known, 0, size - known);
}

}  // namespace

extern "C" {

int64_t protean_solver_columns(const protean_solver* solver) {
  return solver ? static_cast<int64_t>(solver->columns.columns.size()) : 0;
}
protean_status protean_solver_column_sized(const protean_solver* solver, int64_t index,
                                           protean_column* result, size_t size) {
  return guarded([&] {
    const SolveReport& one = at(need(solver, "solver")->columns.columns, index);
    // The names of reasons are constants.
    const protean_column column{one.converged() ? 1 : 0,
                                one.iterations,
                                one.restarts,
                                relative_to_rhs(one, one.true_residual),
                                relative_to_rhs(one, one.recurrence_residual),
                                one.seconds,
                                to_string(one.reason).data(),
                                one.detail.c_str()};
    hand_over(column, result, size);
  });
}
const char* protean_solver_multi_product(const protean_solver* solver) {
  return solver ? solver->columns.product.c_str() : "";
}

int64_t protean_solver_iterations(const protean_solver* solver) {
  return solver ? solver->report.iterations : 0;
}
double protean_solver_true_residual(const protean_solver* solver) {
  return solver ? relative_to_rhs(solver->report, solver->report.true_residual) : 0;
}
double protean_solver_recurrence_residual(const protean_solver* solver) {
  return solver ? relative_to_rhs(solver->report, solver->report.recurrence_residual) : 0;
}
double protean_solver_initial_residual(const protean_solver* solver) {
  return solver ? relative_to_rhs(solver->report, solver->report.initial_residual) : 0;
}
double protean_solver_seconds(const protean_solver* solver) { return solver ? solver->report.seconds : 0; }
int protean_solver_converged(const protean_solver* solver) {
  return solver && solver->report.converged() ? 1 : 0;
}
const char* protean_solver_method(const protean_solver* solver) {
  return solver ? solver->last_method.c_str() : "";
}
const char* protean_solver_method_reason(const protean_solver* solver) {
  return solver ? solver->method_reason.c_str() : "";
}
const char* protean_solver_preconditioner(const protean_solver* solver) {
  return solver ? solver->last_preconditioner.c_str() : "";
}
const char* protean_solver_preconditioner_reason(const protean_solver* solver) {
  return solver ? solver->preconditioner_reason.c_str() : "";
}
const char* protean_solver_reason(const protean_solver* solver) {
  return solver ? solver->reason.c_str() : "";
}
const char* protean_solver_advice(const protean_solver* solver) {
  return solver ? solver->advice.c_str() : "";
}
const char* protean_solver_detail(const protean_solver* solver) {
  return solver ? solver->report.detail.c_str() : "";
}
int64_t protean_solver_restarts(const protean_solver* solver) { return solver ? solver->report.restarts : 0; }

int64_t protean_solver_switches(const protean_solver* solver) {
  return solver ? static_cast<int64_t>(solver->switches.size()) : 0;
}
protean_status protean_solver_switch_sized(const protean_solver* solver, int64_t index,
                                           protean_switch* result, size_t size) {
  return guarded([&] {
    const SwitchRecord& one = at(need(solver, "solver")->switches, index);
    const protean_switch change{one.iteration,        one.begun_iteration,     one.from.c_str(),
                                one.to.c_str(),       one.reason.c_str(),      one.convert_seconds,
                                one.wait_seconds,     one.overlapped ? 1 : 0,  one.from_order.c_str(),
                                one.to_order.c_str(), one.from_values.c_str(), one.to_values.c_str()};
    hand_over(change, result, size);
  });
}
int64_t protean_solver_failed_switches(const protean_solver* solver) {
  return solver ? static_cast<int64_t>(solver->failed_switches.size()) : 0;
}
protean_status protean_solver_failed_switch_sized(const protean_solver* solver, int64_t index,
                                                  protean_failed_switch* result, size_t size) {
  return guarded([&] {
    const FailedSwitch& one = at(need(solver, "solver")->failed_switches, index);
    const protean_failed_switch change{one.iteration, one.to.c_str(), one.reason.c_str(), one.why.c_str(),
                                       one.order.c_str()};
    hand_over(change, result, size);
  });
}
int64_t protean_solver_decisions(const protean_solver* solver) {
  return solver ? static_cast<int64_t>(solver->decisions.size()) : 0;
}
const char* protean_solver_decision(const protean_solver* solver, int64_t index) {
  if (!solver || index < 0 || index >= static_cast<int64_t>(solver->decisions.size())) return "";
  return solver->decisions[static_cast<std::size_t>(index)].c_str();
}

}  // extern "C"
