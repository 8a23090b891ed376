// What the handles of the C interface hold. Private to interfaces/c/.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "interfaces/c/errors.hpp"
#include "interfaces/c/options_c.hpp"
#include "interfaces/c/protean.h"
#include "operators/callback_operator.hpp"
#include "operators/elements/element_operator.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/solver.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"

namespace protean::capi {

// The matrix of a handle, in its precision.
template <class T>
struct MatrixOf {
  std::unique_ptr<SystemMatrix<T>> system;
  CallbackOperator<T>* callback = nullptr;  // the operator of `system`, if it is functions of the caller
  ElementGroup<T> group = {};               // of element matrices: sizes only

  const LinearOperator<T>& A() const { return system->A(); }
};

// The part of a solver that depends on the precision. It is made by the next solve if it is null.
template <class T>
struct SolverOf {
  std::unique_ptr<SystemSolver<T>> system;
  // The preconditioner of the caller; empty: the one by name.
  ProductFunction<T> apply;
  typename CallbackPreconditioner<T>::Setup setup;
  bool recordable = false;
  bool told = false;  // `system` has the present settings
  // What these refer to. It outlives the settings of `system`, so that the next one has another address.
  std::shared_ptr<const MultiVector<double>> near_null_space;
  bool own_preconditioner = false;  // `apply` has changed since `system` was set
};

}  // namespace protean::capi

struct protean_context {
  protean::ContextPtr context;
};

struct protean_matrix {
  protean::ContextPtr context;
  std::variant<protean::capi::MatrixOf<double>, protean::capi::MatrixOf<float>> of;
  mutable std::string format, order = "none", order_reason;
  // Calls that are running with it: solves, solves whose monitor runs, and products. More than one solve: a
  // function of the caller, which the first one has called, began the next one.
  mutable std::atomic<int> solves = 0, monitored = 0, products = 0;
};

struct protean_solver {
  protean::SolveSettings settings;
  std::shared_ptr<const protean::MultiVector<double>> near_null_space;  // to which the settings refer
  protean::capi::SolverOf<double> f64;
  protean::capi::SolverOf<float> f32;
  protean_monitor monitor = nullptr;
  void* monitor_user = nullptr;
  std::atomic<bool> running = false;  // a solve with it
  // Results of the last solve.
  protean::SolveReport report;
  protean::MultiSolveReport columns;  // of several right-hand sides; else empty
  std::string reason, advice;
  std::string last_method, method_reason, last_preconditioner, preconditioner_reason;
  std::vector<protean::SwitchRecord> switches;
  std::vector<protean::FailedSwitch> failed_switches;
  std::vector<std::string> decisions;
};

namespace protean::capi {

// "C=8,sigma=1"
FormatParams parse_parameters(const char* text);

template <class T>
constexpr const char* precision = sizeof(T) == 8 ? "double" : "single";

// The part of a matrix with values of type T. Throws BadArgument for a null pointer and for the other precision.
template <class T, class Matrix>
auto& part_of(Matrix* matrix) {
  auto* const part = std::get_if<MatrixOf<T>>(&need(matrix, "matrix")->of);
  if (!part)
    throw BadArgument(std::string("the matrix is not in ") + precision<T> + " precision; call the function " +
                      (sizeof(T) == 8 ? "with _f32" : "without _f32"));
  return *part;
}
template <class T>
SolverOf<T>& part_of(protean_solver& solver) {
  if constexpr (sizeof(T) == 8)
    return solver.f64;
  else
    return solver.f32;
}

// Each throws BadArgument when a call is running that the next one would disturb.
void require_no_solve(const protean_matrix& matrix);
// While a solve runs, values change between two of its steps only, which is when it calls its monitor.
void require_between_steps(const protean_matrix& matrix);
void require_not_running(const protean_solver& solver);

// Counts a call in one of the counters of a matrix while it runs.
class Counted {
 public:
  explicit Counted(std::atomic<int>& counter) : counter_(counter) { ++counter_; }
  ~Counted() { --counter_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& counter_;
};

// Says in the handle what format and order its part has now.
template <class T>
void tell(const protean_matrix& matrix, const MatrixOf<T>& part) {
  matrix.format = part.A().name(), matrix.order = part.system->order();
  matrix.order_reason = part.system->order_reason();
}

// The caller's function as a ProductFunction; `what` is for messages.
template <class T, class Product>
ProductFunction<T> product_function(Product product, void* user, std::string what) {
  return [product, user, what = std::move(what)](const T* x, T* y, CUstream_st* stream) {
    if (const int result = product(user, x, y, stream)) throw CallbackFailed(what, result);
  };
}

template <class T>
VectorView<const T> input(const protean_matrix& matrix, const T* data, const char* what) {
  const std::int64_t size = part_of<T>(&matrix).A().cols();
  if (size > 0) need(data, what);
  return {data, size, matrix.context->space()};
}
template <class T>
VectorView<T> output(const protean_matrix& matrix, T* data, const char* what) {
  const std::int64_t size = part_of<T>(&matrix).A().rows();
  if (size > 0) need(data, what);
  return {data, size, matrix.context->space()};
}

// The caller's vectors, one after another.
template <class T>
MultiVectorView<T> several(const protean_matrix& matrix, T* data, std::int64_t rows, std::int64_t count,
                           std::int64_t stride, const char* what) {
  if (count < 0) throw BadArgument("count is " + std::to_string(count) + "; it must be 0 or more");
  if (count > 0 && rows > 0) need(data, what);
  return {data, rows, count, stride, VectorLayout::columns, matrix.context->space()};
}

// The triggers of a schedule by name.
std::vector<std::string_view> trigger_names();

}  // namespace protean::capi
