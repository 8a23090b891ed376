// The C interface: handles that hold C++ objects. Exceptions become a status and a text.
#include "interfaces/c/protean.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "core/first_index.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "formats/survey.hpp"
#include "interfaces/c/options_c.hpp"
#include "operators/callback_operator.hpp"
#include "operators/elements/element_operator.hpp"
#include "operators/multi_product.hpp"
#include "operators/ordered_operator.hpp"
#include "operators/policy/adaptive_operator.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/solver.hpp"
#include "systems/linear_system.hpp"

using namespace protean;
using namespace protean::capi;

namespace {

// The matrix of a handle, in its precision.
template <class T>
struct MatrixOf {
  std::unique_ptr<SystemMatrix<T>> system;
  CallbackOperator<T>* callback = nullptr;  // the operator of `system`, where it is functions of the caller
  ElementGroup<T> group = {};               // of element matrices: sizes only

  const LinearOperator<T>& A() const { return system->A(); }
};

// The part of a solver that depends on the precision. It is made by the next solve where it is null.
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
  bool own_preconditioner = false;  // `apply` has changed since `system` was told
};

// A function of the caller returned a number other than 0.
class CallbackFailed : public Error {
 public:
  CallbackFailed(const std::string& what, int result)
      : Error(what + " returned " + std::to_string(result) + "; 0 means success") {}
};

}  // namespace

struct protean_context {
  ContextPtr context;
};

struct protean_matrix {
  ContextPtr context;
  std::variant<MatrixOf<double>, MatrixOf<float>> of;
  mutable std::string format, order = "none", order_reason;
  // Calls that are running with it: solves, those of them whose monitor runs, and products. More than one solve: a
  // function of the caller, which the first one has called, began the next one.
  mutable std::atomic<int> solves = 0, monitored = 0, products = 0;
};

struct protean_solver {
  std::string method, preconditioner_id;
  Settings settings;
  std::shared_ptr<const MultiVector<double>> near_null_space;  // to which the settings refer
  SolverOf<double> f64;
  SolverOf<float> f32;
  protean_monitor monitor = nullptr;
  void* monitor_user = nullptr;
  std::vector<SchedulePoint> schedule;
  std::atomic<bool> running = false;  // a solve with it
  // Of the last solve.
  SolveReport report;
  MultiSolveReport columns;  // of several right-hand sides; else empty
  std::string reason, advice;
  std::string last_method, method_reason, last_preconditioner, preconditioner_reason;
  std::vector<SwitchRecord> switches;
  std::vector<FailedSwitch> failed_switches;
  std::vector<std::string> decisions;
};

namespace {

thread_local std::string last_error;

protean_status failed(protean_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) { last_error.clear(); }
  return status;
}

// Runs body() and turns an exception into its status.
template <class Body>
protean_status guarded(Body body) noexcept {
  try {
    body();
    return PROTEAN_OK;
  } catch (const CallbackFailed& e) {
    return failed(PROTEAN_CALLBACK_FAILED, e.what());
  } catch (const FormatRefused& e) {
    return failed(PROTEAN_FORMAT_REFUSED, e.what());
  } catch (const ShapeMismatch& e) {
    return failed(PROTEAN_SHAPE_MISMATCH, e.what());
  } catch (const ArraysChanged& e) {
    return failed(PROTEAN_ARRAYS_CHANGED, e.what());
  } catch (const BadMatrix& e) {
    return failed(PROTEAN_BAD_MATRIX, e.what());
  } catch (const NotAvailable& e) {
    return failed(PROTEAN_NOT_AVAILABLE, e.what());
  } catch (const OutOfMemory& e) {
    return failed(PROTEAN_OUT_OF_MEMORY, e.what());
  } catch (const DeviceError& e) {
    return failed(PROTEAN_DEVICE_ERROR, e.what());
  } catch (const Error& e) {  // BadArgument, WrongSpace
    return failed(PROTEAN_BAD_ARGUMENT, e.what());
  } catch (const std::bad_alloc&) {
    return failed(PROTEAN_OUT_OF_MEMORY, "no memory left");
  } catch (const std::length_error&) {  // of a container of the standard library
    return failed(PROTEAN_OUT_OF_MEMORY,
                  "an array would be larger than any address space; give smaller sizes");
  } catch (const std::exception& e) { return failed(PROTEAN_INTERNAL_ERROR, e.what()); } catch (...) {
    return failed(PROTEAN_INTERNAL_ERROR, "unknown error");
  }
}

template <class Pointer>
Pointer* need(Pointer* pointer, const char* what) {
  if (!pointer) throw BadArgument(std::string(what) + " is a null pointer");
  return pointer;
}

IndexBase base_of(int index_base) {
  if (index_base != 0 && index_base != 1)
    throw BadArgument("index_base is " + std::to_string(index_base) + "; it must be 0 or 1");
  return index_base == 1 ? IndexBase::one : IndexBase::zero;
}

void require_range(const char* what, std::int64_t value, std::int64_t smallest, std::int64_t largest) {
  if (value < smallest || value > largest)
    throw BadArgument(std::string(what) + " is " + std::to_string(value) + "; it must be " +
                      std::to_string(smallest) + " to " + std::to_string(largest));
}

// "C=8,sigma=1"
FormatParams parse_parameters(const char* text) {
  FormatParams params;
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, end);
    const std::size_t equal = one.find('=');
    if (equal == std::string_view::npos || equal == 0)
      throw BadArgument("'" + std::string(one) +
                        "' among the format's parameters is not of the form name=value");
    params.set(std::string(one.substr(0, equal)), std::string(one.substr(equal + 1)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return params;
}

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

void require_no_solve(const protean_matrix& matrix) {
  if (matrix.solves > 0)
    throw BadArgument(
        "a solve is running with this matrix; change its format by protean_solver_schedule(), its order by "
        "protean_solver_schedule_order(), or both after the solve");
}

// While a solve runs, values change between two of its steps only, which is when it calls its monitor.
void require_between_steps(const protean_matrix& matrix) {
  if (matrix.solves > matrix.monitored)
    throw BadArgument(
        "a solve is in the middle of a step with this matrix; give it new values in the monitor of the "
        "solve, or after the solve");
}
void require_not_running(const protean_solver& solver) {
  if (solver.running)
    throw BadArgument(
        "a solve is running with this solver; change its options, functions and schedule after the solve, "
        "and take another solver for a solve within a solve");
}

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

// A new handle for a matrix with values of type T, and its part.
template <class T>
std::unique_ptr<protean_matrix> new_matrix(protean_context* context, protean_matrix** matrix) {
  need(matrix, "matrix");
  auto made = std::make_unique<protean_matrix>();
  made->of.template emplace<MatrixOf<T>>();
  made->context = need(context, "context")->context;
  return made;
}
template <class T>
void hand_over(std::unique_ptr<protean_matrix> made, protean_matrix** matrix) {
  tell(*made, part_of<T>(made.get()));
  *matrix = made.release();
}

template <class T, class Index>
protean_status make_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                        const Index* row_ptr, const int32_t* col, const T* values, int index_base,
                        protean_matrix** matrix) {
  return guarded([&] {
    auto made = new_matrix<T>(context, matrix);
    MatrixOf<T>& part = part_of<T>(made.get());
    part.system = std::make_unique<SystemMatrix<T>>(
        made->context,
        csr_view(made->context, rows, cols, nonzeros, row_ptr, col, values, base_of(index_base)));
    part.system->settle_named();  // csr, until the first solve chooses
    hand_over<T>(std::move(made), matrix);
  });
}

template <class T>
protean_status make_elements(protean_context* context, int64_t nodes, int components, int64_t elements,
                             int nodes_of_element, const int32_t* connectivity, const T* matrices,
                             int index_base, const int64_t* constrained, int64_t constrained_count,
                             int symmetric, const char* variant, protean_matrix** matrix) {
  return guarded([&] {
    auto made = new_matrix<T>(context, matrix);
    // Before anything of these sizes is allocated.
    require_range("components", components, 1, largest_element);
    require_range("nodes", nodes, 0, std::numeric_limits<std::int32_t>::max() / components);
    require_range("elements", elements, 0, most_elements);
    require_range("nodes_of_element", nodes_of_element, 1, largest_element / components);
    require_range("constrained_count", constrained_count, 0, nodes * components);
    const IndexBase base = base_of(index_base);
    const auto nodes_in = static_cast<std::size_t>(elements * nodes_of_element);
    std::vector<std::int32_t> from_zero(nodes_in);
    if (nodes_in > 0) need(connectivity, "connectivity"), need(matrices, "matrices");
    for (std::size_t i = 0; i < nodes_in; ++i)
      from_zero[i] = base == IndexBase::one ? detail::less_one(connectivity[i]) : connectivity[i];
    if (constrained_count > 0) need(constrained, "constrained");
    std::vector<std::int64_t> given(static_cast<std::size_t>(constrained_count));
    for (std::size_t i = 0; i < given.size(); ++i)
      given[i] = base == IndexBase::one ? detail::less_one(constrained[i]) : constrained[i];
    ElementOptions options;
    options.components = components, options.symmetric = symmetric != 0, options.constrained = given;
    const std::string_view name = variant ? variant : "automatic";
    bool known = false;
    for (const auto scatter : {ElementScatter::automatic, ElementScatter::atomic, ElementScatter::coloured,
                               ElementScatter::gather})
      if (to_string(scatter) == name) options.scatter = scatter, known = true;
    if (!known)
      throw BadArgument("there is no variant '" + std::string(name) +
                        "'; there are automatic, atomic, coloured and gather");
    const std::size_t m = static_cast<std::size_t>(nodes_of_element) * static_cast<std::size_t>(components);
    MatrixOf<T>& part = part_of<T>(made.get());
    part.group = {
        elements, nodes_of_element, from_zero, {matrices, static_cast<std::size_t>(elements) * m * m}};
    const ElementGroup<T> group[] = {part.group};
    part.system =
        std::make_unique<SystemMatrix<T>>(make_element_operator<T>(made->context, nodes, group, options));
    part.group.connectivity = {};
    hand_over<T>(std::move(made), matrix);
  });
}

// The caller's function as a ProductFunction; `what` is for messages.
template <class T, class Product>
ProductFunction<T> product_function(Product product, void* user, std::string what) {
  return [product, user, what = std::move(what)](const T* x, T* y, CUstream_st* stream) {
    if (const int result = product(user, x, y, stream)) throw CallbackFailed(what, result);
  };
}

template <class T, class Product, class Diagonal>
protean_status make_callback(protean_context* context, int64_t rows, int64_t cols, const char* name,
                             Product product, Diagonal diagonal, void* user, int recordable,
                             protean_matrix** matrix) {
  return guarded([&] {
    auto made = new_matrix<T>(context, matrix);
    if (rows < 0 || cols < 0)
      throw BadArgument("the operator is " + std::to_string(rows) + " x " + std::to_string(cols) +
                        "; rows and cols must be 0 or more");
    const CallbackOptions options{name ? name : "callback", recordable != 0};
    MatrixOf<T>& part = part_of<T>(made.get());
    auto callback = std::make_shared<CallbackOperator<T>>(
        made->context, Shape{rows, cols},
        product_function<T>(need(product, "product"), user, "the product of operator " + options.name),
        options);
    if (diagonal)
      callback->set_diagonal([diagonal, user, name_of = options.name](T* d, CUstream_st* stream) {
        if (const int result = diagonal(user, d, stream))
          throw CallbackFailed("the diagonal of operator " + name_of, result);
      });
    part.callback = callback.get();
    part.system = std::make_unique<SystemMatrix<T>>(std::move(callback));
    hand_over<T>(std::move(made), matrix);
  });
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

// Named formats and orders are made at once, so that a refusal belongs to this call. "auto" waits for the next solve,
// whose method it depends on.
template <class T>
void set_format(protean_matrix& matrix, MatrixOf<T>& part, const char* format, const char* parameters,
                const char* kernel) {
  require_no_solve(matrix);
  part.system->set_format(format, parse_parameters(parameters), kernel ? kernel : "");
  part.system->settle_named();
  tell(matrix, part);
}

template <class T>
void set_order(protean_matrix& matrix, MatrixOf<T>& part, const char* order) {
  require_no_solve(matrix);
  part.system->set_order(order);
  part.system->settle_named();
  tell(matrix, part);
}

template <class T>
protean_status update_values(protean_matrix* matrix, const T* values) {
  return guarded([&] {
    MatrixOf<T>& part = part_of<T>(matrix);
    need(values, "values");
    if (part.callback)
      throw BadArgument("operator " + std::string(part.callback->name()) +
                        " is functions of the caller; call protean_matrix_changed()");
    require_between_steps(*matrix);
    if (part.system->of_elements()) {
      const ElementGroup<T> group[] = {
          {part.group.elements, part.group.nodes, {}, {values, part.group.matrices.size()}}};
      part.system->update_values(group);
      tell(*matrix, part);
      return;
    }
    part.system->update_values(with_values(part.system->given(), values), SamePattern());
  });
}

template <class T>
void watch(const protean_matrix& matrix, MatrixOf<T>& part) {
  if (matrix.solves > 0)
    throw BadArgument("a solve is running with this matrix; call protean_matrix_watch() before or after it");
  part.system->watch();
}

template <class T>
protean_status apply(const protean_matrix* matrix, T alpha, const T* x, T beta, T* y) {
  return guarded([&] {
    const LinearOperator<T>& A = part_of<T>(matrix).A();
    const Counted running(matrix->products);
    A.apply(alpha, input(*matrix, x, "x"), beta, output(*matrix, y, "y"));
    matrix->context->synchronize();
  });
}

// The caller's vectors, one after another.
template <class T>
MultiVectorView<T> several(const protean_matrix& matrix, T* data, std::int64_t rows, std::int64_t count,
                           std::int64_t stride, const char* what) {
  if (count < 0) throw BadArgument("count is " + std::to_string(count) + "; it must be 0 or more");
  if (count > 0 && rows > 0) need(data, what);
  return {data, rows, count, stride, VectorLayout::columns, matrix.context->space()};
}

template <class T>
protean_status apply_multi(const protean_matrix* matrix, int64_t count, T alpha, const T* X, int64_t ldx,
                           T beta, T* Y, int64_t ldy) {
  return guarded([&] {
    const LinearOperator<T>& A = part_of<T>(matrix).A();
    const Counted running(matrix->products);
    multi_apply<T>(A, alpha, several<const T>(*matrix, X, A.cols(), count, ldx, "X"), beta,
                   several<T>(*matrix, Y, A.rows(), count, ldy, "Y"));
    matrix->context->synchronize();
  });
}

constexpr ScheduleTrigger triggers[] = {ScheduleTrigger::iteration, ScheduleTrigger::residual,
                                        ScheduleTrigger::seconds};
std::vector<std::string_view> trigger_names() {
  std::vector<std::string_view> names;
  for (const ScheduleTrigger one : triggers) names.push_back(to_string(one));
  return names;
}

// A point of the schedule. order null: the order stays; format null: the format stays.
void add_point(protean_solver& solver, const char* trigger, double at, const char* order, const char* format,
               const char* parameters, const char* kernel, int overlapped) {
  SchedulePoint point;
  bool known = false;
  for (const ScheduleTrigger one : triggers)
    if (to_string(one) == trigger) point.trigger = one, known = true;
  if (!known) require_name("trigger", trigger, trigger_names());
  if (!(at >= 0)) throw BadArgument("at is " + std::to_string(at) + "; it must be 0 or more");
  point.at = at, point.overlapped = overlapped != 0;
  const std::string_view id = format ? format : "";
  if (id == "auto") throw BadArgument("a schedule names its formats; auto does not. Use policy auto instead");
  if (!format && (parameters || kernel))
    throw BadArgument("parameters and kernel belong to a format; name the format, too, or leave them NULL");
  if (order) require_order(order, false);
  if (order && id == "element")
    throw BadArgument("element matrices have no order of rows; leave the order out, or name another format");
  if (id == "element")
    point.to.elements = true;
  else if (format)
    point.to = {&find_format(format), parse_parameters(parameters), kernel ? kernel : "", false};
  if (order) point.to.order = order;
  if (point.to.entry) (void)resolve_params(*point.to.entry, point.to.params);
  solver.schedule.push_back(std::move(point));
  solver.f64.told = solver.f32.told = false;
}

// The next solve has them.
void accept(protean_solver& solver, const Settings& settings) {
  solver.settings = settings;
  solver.f64.told = solver.f32.told = false;
}

template <class T, class Product>
protean_status set_preconditioner(protean_solver* solver, Product apply, protean_setup setup, void* user,
                                  int recordable) {
  return guarded([&] {
    require_not_running(*need(solver, "solver"));
    SolverOf<T> part;
    if (apply) part.apply = product_function<T>(apply, user, "the preconditioner");
    if (setup)
      part.setup = [setup, user](const LinearOperator<T>&, bool pattern_changed) {
        if (const int result = setup(user, pattern_changed ? 1 : 0))
          throw CallbackFailed("the setup of the preconditioner", result);
      };
    part.recordable = recordable != 0;
    solver->f64.apply = nullptr, solver->f32.apply = nullptr;
    solver->f64.own_preconditioner = solver->f32.own_preconditioner = true;
    SolverOf<T>& old = part_of<T>(*solver);
    old.apply = std::move(part.apply), old.setup = std::move(part.setup), old.recordable = part.recordable;
  });
}

// The settings of the solver as those of every entrance.
SolveSettings settings_of(const protean_solver& solver) {
  SolveSettings settings;
  settings.method = solver.method, settings.solver = solver.settings.solver;
  settings.preconditioner = solver.preconditioner_id;
  settings.preconditioning = solver.settings.preconditioner;
  settings.policy = solver.settings.use_policy, settings.policy_options = solver.settings.policy;
  settings.schedule = solver.schedule;
  settings.expected_iterations = solver.settings.expected_iterations;
  settings.selector = solver.settings.selector;
  return settings;
}

// The solver for this precision, with all that was set.
template <class T>
SystemSolver<T>& system_of(protean_solver& solver) {
  SolverOf<T>& part = part_of<T>(solver);
  const bool others =
      sizeof(T) == 8 ? static_cast<bool>(solver.f32.apply) : static_cast<bool>(solver.f64.apply);
  if (others)
    throw BadArgument(std::string("the preconditioner of the caller is not in ") + precision<T> +
                      " precision, the matrix is");
  if (!part.system)
    part.system = std::make_unique<SystemSolver<T>>(settings_of(solver));
  else if (!part.told)
    part.system->set(settings_of(solver));
  part.told = true, part.near_null_space = solver.near_null_space;
  if (part.own_preconditioner) {
    part.own_preconditioner = false;
    if (part.apply)
      part.system->set_preconditioner([&part](
                                          const LinearOperator<T>& A) -> std::unique_ptr<Preconditioner<T>> {
        return std::make_unique<CallbackPreconditioner<T>>(A.context(), A.shape(), part.apply, part.setup,
                                                           CallbackOptions{"of the caller", part.recordable});
      });
    else
      part.system->set_preconditioner({});
  }
  return *part.system;
}

// Calls the monitor of the caller.
template <class T>
class Monitor final : public SolveObserver {
 public:
  Monitor(const protean_solver& solver, const protean_matrix& matrix, const MatrixOf<T>& part)
      : solver_(solver), matrix_(matrix), part_(part) {}
  bool on_iteration(const IterationInfo& info) override {
    const Counted running(matrix_.monitored);
    const std::string format(part_.A().name()), order(part_.system->order());
    const protean_iteration now{info.iteration, info.residual,  info.relative_residual, info.seconds,
                                info.restarts,  format.c_str(), order.c_str()};
    return solver_.monitor(solver_.monitor_user, &now) == 0;
  }

 private:
  const protean_solver& solver_;
  const protean_matrix& matrix_;
  const MatrixOf<T>& part_;
};

std::string line_of(const DecisionRecord& one) {
  return "iteration " + std::to_string(one.iteration) + ": " + std::string(to_string(one.action)) +
         (one.format.empty() ? "" : " ") + one.format + ": " + one.reason;
}

// Whether solves with it change format or order of the matrix.
bool changes_matrix(const protean_solver& solver) {
  return solver.settings.use_policy || !solver.schedule.empty();
}

// The solver and the matrix of a solve, which are in use while it lives. The results of the last solve end with it.
template <class T>
class Running {
 public:
  Running(protean_solver& solver, const protean_matrix& matrix, const MatrixOf<T>& part)
      : solver_(solver), part_(part), matrix_(matrix), solve_(matrix.solves) {
    if (matrix.solves > 1 && changes_matrix(solver))
      throw BadArgument(
          "a solve is running with this matrix, so that another one cannot change its format and order; take "
          "a solver without schedule and policy");
    require_not_running(solver);
    check_effects(solver.settings);
    solver.running = true;
    solver.report = {}, solver.columns = {};
    solver.reason.clear(), solver.advice.clear();
    solver.last_method.clear(), solver.method_reason.clear();
    solver.last_preconditioner.clear(), solver.preconditioner_reason.clear();
    solver.switches.clear(), solver.failed_switches.clear(), solver.decisions.clear();
  }
  // Also when the solve throws: the format may have changed before.
  ~Running() {
    solver_.running = false;
    try {
      const auto lock = part_.system->preparing();  // other solves may begin, end and change the format
      tell(matrix_, part_);
    } catch (...) {}
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  protean_solver& solver_;
  const MatrixOf<T>& part_;
  const protean_matrix& matrix_;
  const Counted solve_;
};

// What the solve has used, and why `auto` took it.
template <class Result>
void keep_choices(protean_solver& solver, Result& result) {
  solver.last_method = std::move(result.method), solver.method_reason = std::move(result.method_reason);
  solver.last_preconditioner = std::move(result.preconditioner);
  solver.preconditioner_reason = std::move(result.preconditioner_reason);
}

template <class T>
void run(protean_solver& solver, const protean_matrix& matrix, MatrixOf<T>& part, VectorView<const T> b,
         VectorView<T> x) {
  Monitor<T> monitor(solver, matrix, part);
  SolveResult result = system_of<T>(solver).solve(*part.system, b, x, solver.monitor ? &monitor : nullptr);
  solver.report = std::move(result.report);
  keep_choices(solver, result);
  solver.switches = std::move(result.switches), solver.failed_switches = std::move(result.failed_switches);
  for (const DecisionRecord& one : result.decisions) solver.decisions.push_back(line_of(one));
}

template <class T>
protean_status solve(protean_solver* solver, const protean_matrix* matrix, const T* b, T* x) {
  bool converged = false;
  const protean_status status = guarded([&] {
    require_not_running(*need(solver, "solver"));
    // A change of format during the solve is no change of the operator, so the handle of the caller is const.
    MatrixOf<T>& part = const_cast<MatrixOf<T>&>(part_of<T>(matrix));
    const VectorView<const T> from = input(*matrix, b, "b");
    const VectorView<T> to = output(*matrix, x, "x");
    if (solver->settings.use_policy && !solver->schedule.empty())
      throw BadArgument(
          "policy auto and a schedule exclude each other; call protean_solver_schedule_clear()");
    const Running<T> running(*solver, *matrix, part);
    run(*solver, *matrix, part, from, to);
    solver->reason = to_string(solver->report.reason);
    converged = solver->report.converged();
    if (!converged) solver->advice = solver->report.advice;
  });
  if (status != PROTEAN_OK || converged) return status;
  return failed(PROTEAN_NOT_CONVERGED, (solver->reason + ". " + solver->advice).c_str());
}

// Whatever the baseline of the solve is: protean.h promises residuals relative to the norm of b.
double relative_to_rhs(const SolveReport& report, double residual) {
  if (report.rhs_norm > 0) return residual / report.rhs_norm;
  return residual > 0 ? std::numeric_limits<double>::infinity() : residual;
}

// What is told of the last solve where it had several columns: the first that has not converged, else the longest.
const SolveReport* worst(const MultiSolveReport& all) {
  const SolveReport* found = nullptr;
  for (const SolveReport& one : all.columns) {
    if (!one.converged()) return &one;
    if (!found || one.iterations > found->iterations) found = &one;
  }
  return found;
}

template <class T>
protean_status solve_multi(protean_solver* solver, const protean_matrix* matrix, int64_t count, const T* B,
                           int64_t ldb, T* X, int64_t ldx) {
  bool converged = false;
  const protean_status status = guarded([&] {
    require_not_running(*need(solver, "solver"));
    MatrixOf<T>& part = const_cast<MatrixOf<T>&>(part_of<T>(matrix));
    const auto from = several<const T>(*matrix, B, part.A().rows(), count, ldb, "B");
    const auto to = several<T>(*matrix, X, part.A().rows(), count, ldx, "X");
    if (solver->monitor || !solver->schedule.empty() || solver->settings.use_policy)
      throw BadArgument(
          "a monitor, a schedule and policy auto are for one right-hand side; take them off, or solve the "
          "columns one after another");
    const Running<T> running(*solver, *matrix, part);
    MultiSolveResult result = system_of<T>(*solver).multi_solve(*part.system, from, to);
    solver->columns = std::move(result.report);
    keep_choices(*solver, result);
    converged = solver->columns.converged();
    if (const SolveReport* const one = worst(solver->columns)) {
      solver->report = *one;
      solver->report.seconds = solver->columns.seconds;
      solver->reason = to_string(one->reason);
      if (!converged) solver->advice = one->advice;
    }
  });
  if (status != PROTEAN_OK || converged) return status;
  return failed(PROTEAN_NOT_CONVERGED, (solver->reason + ". " + solver->advice).c_str());
}

template <class Record>
const Record& at(const std::vector<Record>& records, int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(records.size()))
    throw BadArgument("index is " + std::to_string(index) + "; there are " + std::to_string(records.size()) +
                      ", counted from 0");
  return records[static_cast<std::size_t>(index)];
}

std::vector<std::string_view> names_of(std::string_view kind) {
  if (kind == "method") return ids_of(solvers());
  if (kind == "preconditioner") return ids_of(preconditioners());
  if (kind == "option") return number_option_names();
  if (kind == "text-option") return text_option_names();
  if (kind == "trigger") return trigger_names();
  if (kind == "order") return order_words();
  if (kind == "selector") return selector_words();
  std::vector<std::string_view> names;
  if (kind == "format")
    for (const FormatEntry* entry : catalogue()) names.push_back(entry->id);
  return names;
}

}  // namespace

extern "C" {

const char* protean_version(void) { return PROTEAN_VERSION_TEXT; }
const char* protean_last_error(void) { return last_error.c_str(); }
const char* protean_status_name(protean_status status) {
  switch (status) {
    case PROTEAN_OK:
      return "ok";
    case PROTEAN_NOT_CONVERGED:
      return "not-converged";
    case PROTEAN_BAD_ARGUMENT:
      return "bad-argument";
    case PROTEAN_BAD_MATRIX:
      return "bad-matrix";
    case PROTEAN_SHAPE_MISMATCH:
      return "shape-mismatch";
    case PROTEAN_FORMAT_REFUSED:
      return "format-refused";
    case PROTEAN_NOT_AVAILABLE:
      return "not-available";
    case PROTEAN_OUT_OF_MEMORY:
      return "out-of-memory";
    case PROTEAN_DEVICE_ERROR:
      return "device-error";
    case PROTEAN_ARRAYS_CHANGED:
      return "arrays-changed";
    case PROTEAN_CALLBACK_FAILED:
      return "callback-failed";
    case PROTEAN_INTERNAL_ERROR:
      return "internal-error";
  }
  return "unknown";
}
const char* protean_name(const char* kind, int64_t index) {
  const char* name = nullptr;
  (void)guarded([&] {
    const std::vector<std::string_view> names = names_of(need(kind, "kind"));
    // All of them are constants that end with 0.
    if (index >= 0 && index < static_cast<int64_t>(names.size()))
      name = names[static_cast<std::size_t>(index)].data();
  });
  return name;
}

protean_status protean_context_host(int threads, protean_context** context) {
  return guarded([&] {
    need(context, "context");
    *context = new protean_context{Context::host(threads)};
  });
}
protean_status protean_context_device(int ordinal, protean_context** context) {
  return guarded([&] {
    need(context, "context");
    *context = new protean_context{Context::device(ordinal)};
  });
}
protean_status protean_context_make(const char* space, int number, const char* options,
                                    protean_context** context) {
  return guarded([&] {
    need(context, "context"), need(space, "space");
    HostOptions host;
    for (const std::string_view option : split(options ? options : "", ','))
      if (option == "deterministic")
        host.deterministic = true;
      else if (option == "vector_kernels=kokkos")
        host.vector_kernels = VectorKernels::kokkos;
      else if (!option.empty() && option != "vector_kernels=native")
        throw BadArgument("there is no option '" + std::string(option) +
                          "' of a context; there are deterministic, vector_kernels=native and "
                          "vector_kernels=kokkos");
    const bool on_device = second_of("space", space, "host", "device");
    *context =
        new protean_context{on_device ? Context::device(number, {host.vector_kernels, host.deterministic})
                                      : Context::host(number, host)};
  });
}
void protean_context_free(protean_context* context) { delete context; }

protean_status protean_matrix_csr(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                  const int32_t* row_ptr, const int32_t* col, const double* values,
                                  int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_csr64(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                    const int64_t* row_ptr, const int32_t* col, const double* values,
                                    int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_csr_f32(protean_context* context, int64_t rows, int64_t cols, int64_t nonzeros,
                                      const int32_t* row_ptr, const int32_t* col, const float* values,
                                      int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_csr64_f32(protean_context* context, int64_t rows, int64_t cols,
                                        int64_t nonzeros, const int64_t* row_ptr, const int32_t* col,
                                        const float* values, int index_base, protean_matrix** matrix) {
  return make_csr(context, rows, cols, nonzeros, row_ptr, col, values, index_base, matrix);
}
protean_status protean_matrix_elements(protean_context* context, int64_t nodes, int components,
                                       int64_t elements, int nodes_of_element, const int32_t* connectivity,
                                       const double* matrices, int index_base, const int64_t* constrained,
                                       int64_t constrained_count, int symmetric, const char* variant,
                                       protean_matrix** matrix) {
  return make_elements(context, nodes, components, elements, nodes_of_element, connectivity, matrices,
                       index_base, constrained, constrained_count, symmetric, variant, matrix);
}
protean_status protean_matrix_elements_f32(protean_context* context, int64_t nodes, int components,
                                           int64_t elements, int nodes_of_element,
                                           const int32_t* connectivity, const float* matrices, int index_base,
                                           const int64_t* constrained, int64_t constrained_count,
                                           int symmetric, const char* variant, protean_matrix** matrix) {
  return make_elements(context, nodes, components, elements, nodes_of_element, connectivity, matrices,
                       index_base, constrained, constrained_count, symmetric, variant, matrix);
}
protean_status protean_matrix_callback(protean_context* context, int64_t rows, int64_t cols, const char* name,
                                       protean_product product, protean_diagonal diagonal, void* user,
                                       int recordable, protean_matrix** matrix) {
  return make_callback<double>(context, rows, cols, name, product, diagonal, user, recordable, matrix);
}
protean_status protean_matrix_callback_f32(protean_context* context, int64_t rows, int64_t cols,
                                           const char* name, protean_product_f32 product,
                                           protean_diagonal_f32 diagonal, void* user, int recordable,
                                           protean_matrix** matrix) {
  return make_callback<float>(context, rows, cols, name, product, diagonal, user, recordable, matrix);
}
protean_status protean_matrix_changed(protean_matrix* matrix, int pattern) {
  return guarded([&] {
    std::visit(
        [&](auto& part) {
          if (!part.callback)
            throw BadArgument(
                "the matrix has arrays; protean_matrix_update_values() sets new values of them");
          require_between_steps(*matrix);
          part.callback->changed(pattern != 0);
        },
        need(matrix, "matrix")->of);
  });
}
void protean_matrix_free(protean_matrix* matrix) {
  if (matrix && (matrix->solves > 0 || matrix->products > 0))
    return (void)failed(
        PROTEAN_BAD_ARGUMENT,
        "protean_matrix_free(): a solve or a product is running with this matrix, which is not "
        "freed; free it afterwards");
  delete matrix;
}

protean_status protean_matrix_set_format(protean_matrix* matrix, const char* format, const char* parameters,
                                         const char* kernel) {
  return guarded([&] {
    need(matrix, "matrix"), need(format, "format");
    std::visit([&](auto& part) { set_format(*matrix, part, format, parameters, kernel); }, matrix->of);
  });
}
protean_status protean_matrix_set_order(protean_matrix* matrix, const char* order) {
  return guarded([&] {
    need(matrix, "matrix"), need(order, "order");
    std::visit([&](auto& part) { set_order(*matrix, part, order); }, matrix->of);
  });
}
protean_status protean_matrix_update_values(protean_matrix* matrix, const double* values) {
  return update_values(matrix, values);
}
protean_status protean_matrix_update_values_f32(protean_matrix* matrix, const float* values) {
  return update_values(matrix, values);
}
protean_status protean_matrix_watch(protean_matrix* matrix) {
  return guarded([&] { std::visit([&](auto& part) { watch(*matrix, part); }, need(matrix, "matrix")->of); });
}
protean_status protean_matrix_apply(const protean_matrix* matrix, double alpha, const double* x, double beta,
                                    double* y) {
  return apply(matrix, alpha, x, beta, y);
}
protean_status protean_matrix_apply_f32(const protean_matrix* matrix, float alpha, const float* x, float beta,
                                        float* y) {
  return apply(matrix, alpha, x, beta, y);
}
protean_status protean_matrix_apply_multi(const protean_matrix* matrix, int64_t count, double alpha,
                                          const double* X, int64_t ldx, double beta, double* Y, int64_t ldy) {
  return apply_multi(matrix, count, alpha, X, ldx, beta, Y, ldy);
}
protean_status protean_matrix_apply_multi_f32(const protean_matrix* matrix, int64_t count, float alpha,
                                              const float* X, int64_t ldx, float beta, float* Y,
                                              int64_t ldy) {
  return apply_multi(matrix, count, alpha, X, ldx, beta, Y, ldy);
}
int protean_matrix_is_f32(const protean_matrix* matrix) {
  return matrix && std::holds_alternative<MatrixOf<float>>(matrix->of) ? 1 : 0;
}
int64_t protean_matrix_rows(const protean_matrix* matrix) {
  return matrix ? std::visit([](const auto& part) { return part.A().rows(); }, matrix->of) : 0;
}
int64_t protean_matrix_cols(const protean_matrix* matrix) {
  return matrix ? std::visit([](const auto& part) { return part.A().cols(); }, matrix->of) : 0;
}
size_t protean_matrix_bytes(const protean_matrix* matrix) {
  return matrix ? std::visit([](const auto& part) { return part.system->bytes(); }, matrix->of) : 0;
}
const char* protean_matrix_format(const protean_matrix* matrix) {
  return matrix ? matrix->format.c_str() : "";
}
const char* protean_matrix_order(const protean_matrix* matrix) { return matrix ? matrix->order.c_str() : ""; }
const char* protean_matrix_order_reason(const protean_matrix* matrix) {
  return matrix ? matrix->order_reason.c_str() : "";
}

protean_status protean_solver_create(const char* method, const char* preconditioner,
                                     protean_solver** solver) {
  return guarded([&] {
    need(solver, "solver");
    auto made = std::make_unique<protean_solver>();
    made->method = method ? method : "auto";
    made->preconditioner_id = preconditioner ? preconditioner : "auto";
    require_name("preconditioner", made->preconditioner_id, ids_of(preconditioners()));
    for (const PreconditionerEntry& entry : preconditioners())
      if (entry.id == made->preconditioner_id && !entry.unavailable.empty())
        throw NotAvailable("preconditioner " + made->preconditioner_id + ": " +
                           std::string(entry.unavailable));
    if (made->method != "auto") (void)make_solver<double>(made->method, made->settings.solver);
    *solver = made.release();
  });
}

protean_status protean_solver_set(protean_solver* solver, const char* option, double value) {
  return guarded([&] {
    need(solver, "solver"), need(option, "option");
    require_not_running(*solver);
    Settings settings = solver->settings;
    set_number(settings, solver->method, solver->preconditioner_id, option, value);
    accept(*solver, settings);
  });
}
protean_status protean_solver_set_text(protean_solver* solver, const char* option, const char* value) {
  return guarded([&] {
    need(solver, "solver"), need(option, "option"), need(value, "value");
    require_not_running(*solver);
    Settings settings = solver->settings;
    set_text(settings, solver->method, solver->preconditioner_id, option, value);
    accept(*solver, settings);
  });
}
protean_status protean_solver_set_near_null_space(protean_solver* solver, int64_t rows, int64_t vectors,
                                                  const double* values) {
  return guarded([&] {
    require_not_running(*need(solver, "solver"));
    Settings settings = solver->settings;
    std::shared_ptr<MultiVector<double>> given;
    if (vectors != 0) {
      if (!reads_near_null_space(solver->preconditioner_id))
        throw BadArgument("vectors near the null space are for preconditioners amg and auto, and " +
                          solver->preconditioner_id + " does not read them; leave them out");
      constexpr std::int64_t most = 64;
      if (vectors < 0 || vectors > most || rows < 0)
        throw BadArgument("there are " + std::to_string(vectors) + " vectors near the null space of " +
                          std::to_string(rows) + " rows; there may be 0 to 64, of no less than 0 rows");
      if (rows > 0) need(values, "values");
      given = std::make_shared<MultiVector<double>>(Context::host(1), rows, vectors);
      std::copy_n(values, rows * vectors, given->data());
    }
    settings.preconditioner.near_null_space = given.get();
    accept(*solver, settings);
    solver->near_null_space = std::move(given);
  });
}
protean_status protean_rigid_body_modes(int64_t nodes, int dimensions, const double* coordinates,
                                        double* modes) {
  return guarded([&] {
    if (nodes < 0)
      throw BadArgument("the number of nodes is " + std::to_string(nodes) + "; it must be 0 or more");
    if (nodes > 0) need(coordinates, "coordinates"), need(modes, "modes");
    const MultiVectorView<const double> given{coordinates, nodes, dimensions, dimensions,
                                              VectorLayout::interleaved};
    const MultiVector<double> made = rigid_body_modes(Context::host(1), given);
    std::copy_n(made.data(), made.rows() * made.columns(), modes);
  });
}
protean_status protean_solver_set_preconditioner(protean_solver* solver, protean_product apply,
                                                 protean_setup setup, void* user, int recordable) {
  return set_preconditioner<double>(solver, apply, setup, user, recordable);
}
protean_status protean_solver_set_preconditioner_f32(protean_solver* solver, protean_product_f32 apply,
                                                     protean_setup setup, void* user, int recordable) {
  return set_preconditioner<float>(solver, apply, setup, user, recordable);
}
protean_status protean_solver_set_monitor(protean_solver* solver, protean_monitor monitor, void* user) {
  return guarded([&] {
    require_not_running(*need(solver, "solver"));
    solver->monitor = monitor, solver->monitor_user = user;
  });
}
protean_status protean_solver_schedule(protean_solver* solver, const char* trigger, double at,
                                       const char* format, const char* parameters, const char* kernel,
                                       int overlapped) {
  return guarded([&] {
    need(solver, "solver"), need(trigger, "trigger"), need(format, "format");
    require_not_running(*solver);
    add_point(*solver, trigger, at, nullptr, format, parameters, kernel, overlapped);
  });
}
protean_status protean_solver_schedule_order(protean_solver* solver, const char* trigger, double at,
                                             const char* order, const char* format, const char* parameters,
                                             const char* kernel, int overlapped) {
  return guarded([&] {
    need(solver, "solver"), need(trigger, "trigger"), need(order, "order");
    require_not_running(*solver);
    add_point(*solver, trigger, at, order, format, parameters, kernel, overlapped);
  });
}
protean_status protean_solver_schedule_clear(protean_solver* solver) {
  return guarded([&] {
    require_not_running(*need(solver, "solver"));
    solver->schedule.clear();
    solver->f64.told = solver->f32.told = false;
  });
}
void protean_solver_free(protean_solver* solver) {
  if (solver && solver->running)
    return (void)failed(
        PROTEAN_BAD_ARGUMENT,
        "protean_solver_free(): a solve is running with this solver, which is not freed; free "
        "it after the solve");
  delete solver;
}

protean_status protean_solve(protean_solver* solver, const protean_matrix* matrix, const double* b,
                             double* x) {
  return solve(solver, matrix, b, x);
}
protean_status protean_solve_f32(protean_solver* solver, const protean_matrix* matrix, const float* b,
                                 float* x) {
  return solve(solver, matrix, b, x);
}

protean_status protean_solve_multi(protean_solver* solver, const protean_matrix* matrix, int64_t count,
                                   const double* B, int64_t ldb, double* X, int64_t ldx) {
  return solve_multi(solver, matrix, count, B, ldb, X, ldx);
}
protean_status protean_solve_multi_f32(protean_solver* solver, const protean_matrix* matrix, int64_t count,
                                       const float* B, int64_t ldb, float* X, int64_t ldx) {
  return solve_multi(solver, matrix, count, B, ldb, X, ldx);
}
int64_t protean_solver_columns(const protean_solver* solver) {
  return solver ? static_cast<int64_t>(solver->columns.columns.size()) : 0;
}
protean_status protean_solver_column(const protean_solver* solver, int64_t index, protean_column* result) {
  return guarded([&] {
    const SolveReport& one = at(need(solver, "solver")->columns.columns, index);
    // The names of reasons are constants.
    *need(result, "result") = {one.converged() ? 1 : 0,
                               one.iterations,
                               one.restarts,
                               relative_to_rhs(one, one.true_residual),
                               relative_to_rhs(one, one.recurrence_residual),
                               one.seconds,
                               to_string(one.reason).data(),
                               one.detail.c_str()};
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
protean_status protean_solver_switch(const protean_solver* solver, int64_t index, protean_switch* result) {
  return guarded([&] {
    const SwitchRecord& one = at(need(solver, "solver")->switches, index);
    *need(result, "result") = {one.iteration,       one.begun_iteration,    one.from.c_str(),
                               one.to.c_str(),      one.reason.c_str(),     one.convert_seconds,
                               one.wait_seconds,    one.overlapped ? 1 : 0, one.from_order.c_str(),
                               one.to_order.c_str()};
  });
}
int64_t protean_solver_failed_switches(const protean_solver* solver) {
  return solver ? static_cast<int64_t>(solver->failed_switches.size()) : 0;
}
protean_status protean_solver_failed_switch(const protean_solver* solver, int64_t index,
                                            protean_failed_switch* result) {
  return guarded([&] {
    const FailedSwitch& one = at(need(solver, "solver")->failed_switches, index);
    *need(result, "result") = {one.iteration, one.to.c_str(), one.reason.c_str(), one.why.c_str(),
                               one.order.c_str()};
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
