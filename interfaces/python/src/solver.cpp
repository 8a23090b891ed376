// Solves for Python: a kept solver with all settings, and the one call behind SciPy's functions.
#include <limits>
#include <mutex>

#include "core/background.hpp"
#include "core/error.hpp"
#include "matrix.hpp"
#include "preconditioner.hpp"
#include "settings.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_matrix.hpp"
#include "systems/system_solver.hpp"
#include "watch.hpp"

namespace protean::python {
namespace {

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

nb::object array_of(const std::vector<double>& values) {
  return nb::cast(nb::ndarray<nb::numpy, const double, nb::ndim<1>>(values.data(), {values.size()}),
                  nb::rv_policy::copy);
}

nb::dict dict_of(const FormatParams& params) {
  nb::dict result;
  for (const auto& [key, value] : params.all()) result[text(key)] = value;
  return result;
}

void put(nb::dict& into, const SolveReport& report) {
  into["converged"] = report.converged();
  into["reason"] = text(to_string(report.reason));
  into["iterations"] = report.iterations;
  into["restarts"] = report.restarts;
  into["corrections"] = report.corrections;
  into["left_rounding"] = report.left_rounding;
  into["rhs_norm"] = report.rhs_norm;
  into["initial_residual"] = report.initial_residual;
  into["recurrence_residual"] = report.recurrence_residual;
  into["true_residual"] = report.true_residual;
  into["recurrence_relative"] = report.recurrence_relative;
  into["true_relative"] = report.true_relative;
  into["solve_seconds"] = report.seconds;
  into["detail"] = report.detail;
  into["advice"] = report.advice;
}

nb::dict dict_of(const SwitchRecord& one) {
  nb::dict result;
  result["iteration"] = one.iteration;
  result["from"] = one.from;
  result["to"] = one.to;
  result["from_kernel"] = one.from_kernel;
  result["to_kernel"] = one.to_kernel;
  result["from_order"] = one.from_order;
  result["to_order"] = one.to_order;
  result["from_values"] = one.from_values;
  result["to_values"] = one.to_values;
  result["parameters"] = dict_of(one.parameters);
  result["convert_seconds"] = one.convert_seconds;
  result["wait_seconds"] = one.wait_seconds;
  result["overlapped"] = one.overlapped;
  result["reason"] = one.reason;
  return result;
}

nb::dict dict_of(const FailedSwitch& one) {
  nb::dict result;
  result["iteration"] = one.iteration;
  result["to"] = one.to;
  result["order"] = one.order;
  result["reason"] = one.reason;
  result["failure"] = text(to_string(one.failure));
  result["why"] = one.why;
  return result;
}

nb::dict dict_of(const DecisionRecord& one) {
  nb::dict result;
  result["iteration"] = one.iteration;
  result["seconds"] = one.seconds;
  result["action"] = text(to_string(one.action));
  result["format"] = one.format;
  result["reason"] = one.reason;
  return result;
}

nb::dict dict_of(const CandidateRecord& one) {
  nb::dict result;
  result["format"] = one.format;
  result["admitted"] = one.admitted;
  result["ran"] = one.ran;
  result["lost"] = one.lost;
  result["bytes"] = one.bytes;
  result["predicted_product"] = one.predicted_product;
  result["measured_product"] = one.measured_product;
  result["predicted_convert"] = one.predicted_convert;
  result["measured_convert"] = one.measured_convert;
  result["why"] = one.why;
  return result;
}

nb::dict dict_of(const ScheduleEvent& one) {
  nb::dict result;
  result["iteration"] = one.iteration;
  result["seconds"] = one.seconds;
  result["action"] = text(to_string(one.action));
  result["to"] = one.to;
  result["reason"] = one.reason;
  return result;
}

nb::dict dict_of(const MethodChange& one) {
  nb::dict result;
  result["iteration"] = one.iteration;
  result["seconds"] = one.seconds;
  result["relative_residual"] = one.relative_residual;
  result["action"] = text(to_string(one.action));
  result["from"] = one.from;
  result["to"] = one.to;
  result["restart"] = one.restart;
  result["reason"] = one.reason;
  result["columns"] = one.columns;
  return result;
}

nb::dict dict_of(const PreconditionerChange& one) {
  nb::dict result;
  result["iteration"] = one.iteration;
  result["seconds"] = one.seconds;
  result["relative_residual"] = one.relative_residual;
  result["action"] = text(to_string(one.action));
  result["from"] = one.from;
  result["to"] = one.to;
  result["reason"] = one.reason;
  result["setup_seconds"] = one.setup_seconds;
  result["application_seconds"] = one.application_seconds;
  result["gained_seconds"] = one.gained_seconds;
  result["columns"] = one.columns;
  return result;
}

template <class Record>
nb::list list_of(const std::vector<Record>& records) {
  nb::list result;
  for (const Record& one : records) result.append(dict_of(one));
  return result;
}

// What solves with one and with several right-hand sides have in common.
template <class Result>
void put_common(nb::dict& into, const Result& result) {
  into["format"] = result.format;
  into["kernel"] = result.kernel;
  into["order"] = result.order;
  into["format_reason"] = result.format_reason;
  into["values"] = result.values;
  into["values_reason"] = result.values_reason;
  nb::dict choice;
  if (!result.choice.taken.empty())
    choice["wanted"] = result.choice.wanted, choice["refused"] = result.choice.refused,
    choice["taken"] = result.choice.taken;
  into["choice"] = choice;
  into["order_reason"] = result.order_reason;
  into["method"] = result.method;
  into["method_reason"] = result.method_reason;
  into["preconditioner"] = result.preconditioner;
  into["preconditioner_reason"] = result.preconditioner_reason;
  into["storage_reason"] = result.storage_reason;
  into["method_changes"] = list_of(result.method_changes);
  into["preconditioner_changes"] = list_of(result.preconditioner_changes);
  nb::dict seconds;
  seconds["check"] = result.check_seconds;
  seconds["order"] = result.order_seconds;
  seconds["convert"] = result.convert_seconds;
  seconds["setup"] = result.setup_seconds;
  seconds["solve"] = result.report.seconds;
  into["seconds"] = seconds;
  into["switches"] = list_of(result.switches);
  into["failed_switches"] = list_of(result.failed_switches);
  into["decisions"] = list_of(result.decisions);
  into["candidates"] = list_of(result.candidates);
  into["events"] = list_of(result.events);
}

// The array that gets the solution.
template <class T>
VectorArray<T> writable(nb::handle x) {
  VectorArray<T> array;
  if (!nb::try_cast(x, array, false))
    throw BadArgument(std::string("x must be a contiguous vector of ") +
                      (sizeof(T) == 8 ? "float64" : "float32") + " that may be written");
  return array;
}

template <class T>
using Source = std::shared_ptr<PreconditionerSource<T>>;

template <class T>
void use(SystemSolver<T>& solver, Source<T> source) {
  if (source)
    solver.set_preconditioner(
        [source = std::move(source)](const LinearOperator<T>& A) { return source->make(A); });
}

// Solves without the GIL, and throws what the callback or a signal raised.
template <class T>
SolveResult run(SystemSolver<T>& solver, Matrix<T>& matrix, VectorView<const T> b, VectorView<T> x,
                Watch& watch) {
  SolveResult result;
  {
    const WithoutGil no_gil;
    const std::lock_guard lock(matrix.mutex());
    const detail::StopQuestion question([&] { return watch.asked_to_stop(); });
    result = solver.solve(matrix.system(), b, x, &watch);
  }
  watch.finish(result.report);
  return result;
}

// The same on a GPU.
template <class T>
SolveResult run(SystemSolver<T>& solver, Matrix<T>& matrix, const DeviceArray& b, const DeviceArray& x,
                Watch& watch) {
  Gpu& gpu = matrix.require_gpu();
  SolveResult result;
  {
    const WithoutGil no_gil;
    const std::lock_guard lock(matrix.mutex());
    Joined joined(gpu, {&b, &x});
    watch.set_joined(&joined);
    const detail::StopQuestion question([&] { return watch.asked_to_stop(); });
    result = solver.solve(matrix.system(), vector_of<const T>(b, gpu), vector_of<T>(x, gpu), &watch);
    watch.set_joined(nullptr);
    joined.done();
  }
  watch.finish(result.report);
  return result;
}

template <class T>
MultiSolveResult run_columns(SystemSolver<T>& solver, Matrix<T>& matrix, const ColumnsArray<const T>& b,
                             const ColumnsArray<T>& x, std::span<const StoppingRule> rules) {
  ColumnsWatch watch;
  MultiSolveResult result;
  {
    const WithoutGil no_gil;
    const std::lock_guard lock(matrix.mutex());
    const detail::StopQuestion question([&] { return watch.asked_to_stop(); });
    result = solver.multi_solve(matrix.system(), view_of<const T>(b), view_of<T>(x), &watch, rules);
  }
  watch.finish();
  return result;
}
template <class T>
MultiSolveResult run_columns(SystemSolver<T>& solver, Matrix<T>& matrix, const DeviceArray& b,
                             const DeviceArray& x, std::span<const StoppingRule> rules) {
  Gpu& gpu = matrix.require_gpu();
  ColumnsWatch watch;
  MultiSolveResult result;
  {
    const WithoutGil no_gil;
    const std::lock_guard lock(matrix.mutex());
    Joined joined(gpu, {&b, &x});
    const detail::StopQuestion question([&] { return watch.asked_to_stop(); });
    result = solver.multi_solve(matrix.system(), columns_of<const T>(b, gpu), columns_of<T>(x, gpu), &watch,
                                rules);
    joined.done();
  }
  watch.finish();
  return result;
}

// A solver that is kept: workspace and preconditioner serve the next solve with the same matrix.
template <class T>
class KeptSolver {
 public:
  KeptSolver(const nb::dict& keywords, Source<T> source) : KeptSolver(settings_of(keywords)) {
    use(solver_, std::move(source));
  }

  nb::dict solve(Matrix<T>& matrix, const VectorArray<const T>& b, nb::object x, nb::object callback) {
    const auto to = writable<T>(x);
    const Running running(*this);
    Watch watch(std::move(callback), Calls::info, std::move(x), true);
    return report_of(run<T>(solver_, matrix, view_of<const T>(b), view_of<T>(to), watch), watch);
  }

  nb::dict solve_on_device(Matrix<T>& matrix, const DeviceArray& b, const DeviceArray& x,
                           nb::object callback) {
    const Running running(*this);
    Watch watch(std::move(callback), Calls::info, nb::none(), true);
    return report_of(run<T>(solver_, matrix, b, x, watch), watch);
  }

  static nb::dict report_of(const SolveResult& result, Watch& watch) {
    nb::dict report;
    put(report, result.report);
    put_common(report, result);
    report["residuals"] = array_of(watch.residuals());
    return report;
  }

  // Arrays of NumPy, or those on a GPU.
  template <class Columns, class Results>
  nb::dict solve_columns(Matrix<T>& matrix, const Columns& b, const Results& x) {
    const Running running(*this);
    const MultiSolveResult result = run_columns<T>(solver_, matrix, b, x, {});
    nb::dict report;
    put_common(report, result);
    nb::list columns;
    for (const SolveReport& one : result.report.columns) {
      nb::dict column;
      put(column, one);
      columns.append(column);
    }
    report["columns"] = columns;
    report["converged"] = result.converged();
    report["iterations"] = result.report.iterations;
    report["product"] = result.report.product;
    return report;
  }

  const SolveSettings& settings() const { return solver_.settings(); }

 private:
  // One thread at a time uses it, and no function that its solve calls. With the GIL.
  class Running {
   public:
    explicit Running(KeptSolver& solver) : solver_(solver) {
      if (solver_.running_)
        throw BadArgument(
            "this solver is solving already; give each thread, and each function that a solve calls, its "
            "own solver");
      solver_.running_ = true;
    }
    ~Running() { solver_.running_ = false; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    KeptSolver& solver_;
  };

  explicit KeptSolver(Settings all)
      : near_null_spaces_(std::move(all.near_null_spaces)), solver_(std::move(all.settings)) {}

  std::vector<std::shared_ptr<const MultiVector<double>>> near_null_spaces_;
  SystemSolver<T> solver_;
  bool running_ = false;
};

// SciPy's rule: ||b - A x|| <= `absolute`, and nothing else ends a solve but the number of iterations.
SolveSettings scipy_settings(const std::string& method, double absolute, std::int64_t max_iterations,
                             std::int64_t number) {
  SolveSettings settings;
  settings.method = method, settings.preconditioner = "none";  // SciPy's M is given apart
  SolverOptions& options = settings.solver;
  options.stopping.relative_tolerance = 0;
  options.stopping.absolute_tolerance = std::min(absolute, std::numeric_limits<double>::max());
  options.stopping.max_iterations = max_iterations;
  options.stopping.divergence = std::numeric_limits<double>::infinity();
  if (number > 0) {
    if (method == "gmres" || method == "fgmres") options.restart = number;
    if (method == "idr") options.s = number;
    if (method == "fcg") options.directions = number;
  }
  return settings;
}

template <class T>
nb::tuple solve_scipy(Matrix<T>& matrix, const std::string& method, const VectorArray<const T>& b,
                      nb::object x, double absolute, std::int64_t max_iterations, std::int64_t number,
                      Source<T> source, nb::object callback, int calls) {
  const auto to = writable<T>(x);
  SystemSolver<T> solver(scipy_settings(method, absolute, max_iterations, number));
  use(solver, std::move(source));
  Watch watch(std::move(callback), static_cast<Calls>(calls), std::move(x), false);
  const SolveResult result = run<T>(solver, matrix, view_of<const T>(b), view_of<T>(to), watch);
  return nb::make_tuple(static_cast<int>(result.report.reason), result.report.iterations);
}

// The same on a GPU; b stays there: ||b - A x|| <= max(relative ||b||, absolute). `shown`: x as the callback gets it.
SolveSettings scipy_settings(const std::string& method, double relative, double absolute,
                             std::int64_t max_iterations, std::int64_t number) {
  SolveSettings settings = scipy_settings(method, absolute, max_iterations, number);
  settings.solver.stopping.relative_tolerance = relative;
  return settings;
}

template <class T>
nb::tuple solve_scipy_on_device(Matrix<T>& matrix, const std::string& method, const DeviceArray& b,
                                const DeviceArray& x, nb::object shown, double relative, double absolute,
                                std::int64_t max_iterations, std::int64_t number, Source<T> source,
                                nb::object callback, int calls) {
  SystemSolver<T> solver(scipy_settings(method, relative, absolute, max_iterations, number));
  use(solver, std::move(source));
  Watch watch(std::move(callback), static_cast<Calls>(calls), std::move(shown), false);
  const SolveResult result = run<T>(solver, matrix, b, x, watch);
  return nb::make_tuple(static_cast<int>(result.report.reason), result.report.iterations);
}

nb::list ends_of(const MultiSolveResult& result) {
  nb::list all;
  for (const SolveReport& one : result.report.columns)
    all.append(nb::make_tuple(static_cast<int>(one.reason), one.iterations));
  return all;
}

template <class T>
nb::list solve_scipy_columns(Matrix<T>& matrix, const std::string& method, const ColumnsArray<const T>& b,
                             const ColumnsArray<T>& x, const nb::list& absolutes, std::int64_t max_iterations,
                             std::int64_t number, Source<T> source) {
  SystemSolver<T> solver(scipy_settings(method, 0, max_iterations, number));
  use(solver, std::move(source));
  std::vector<StoppingRule> rules;
  for (const nb::handle absolute : absolutes)
    rules.push_back(
        scipy_settings(method, nb::cast<double>(absolute), max_iterations, number).solver.stopping);
  return ends_of(run_columns<T>(solver, matrix, b, x, rules));
}

template <class T>
nb::list solve_scipy_columns_on_device(Matrix<T>& matrix, const std::string& method, const DeviceArray& b,
                                       const DeviceArray& x, double relative, double absolute,
                                       std::int64_t max_iterations, std::int64_t number, Source<T> source) {
  SystemSolver<T> solver(scipy_settings(method, relative, absolute, max_iterations, number));
  use(solver, std::move(source));
  return ends_of(run_columns<T>(solver, matrix, b, x, {}));
}

template <class T>
void bind(nb::module_& m, const std::string& suffix) {
  using S = KeptSolver<T>;
  nb::class_<S>(m, ("Solver" + suffix).c_str())
      .def(nb::init<const nb::dict&, Source<T>>(), nb::arg("keywords"), nb::arg("preconditioner").none())
      .def("solve", &S::solve, nb::arg("matrix"), nb::arg("b").noconvert(), nb::arg("x"),
           nb::arg("callback").none())
      .def("solve_on_device", &S::solve_on_device, nb::arg("matrix"), nb::arg("b"), nb::arg("x"),
           nb::arg("callback").none())
      .def("solve_columns", &S::template solve_columns<ColumnsArray<const T>, ColumnsArray<T>>,
           nb::arg("matrix"), nb::arg("b").noconvert(), nb::arg("x").noconvert())
      .def("solve_columns_on_device", &S::template solve_columns<DeviceArray, DeviceArray>, nb::arg("matrix"),
           nb::arg("b"), nb::arg("x"))
      .def_prop_ro("method", [](const S& solver) { return solver.settings().method; })
      .def_prop_ro("format", [](const S& solver) { return solver.settings().format; })
      .def_prop_ro("kernel", [](const S& solver) { return solver.settings().kernel; })
      .def_prop_ro("order", [](const S& solver) { return solver.settings().order; })
      .def_prop_ro("parameters", [](const S& solver) { return dict_of(solver.settings().parameters); });
  m.def("solve_scipy", &solve_scipy<T>, nb::arg("matrix"), nb::arg("method"), nb::arg("b").noconvert(),
        nb::arg("x"), nb::arg("absolute"), nb::arg("max_iterations"), nb::arg("number"),
        nb::arg("preconditioner").none(), nb::arg("callback").none(), nb::arg("calls"));
  m.def("solve_scipy_columns", &solve_scipy_columns<T>, nb::arg("matrix"), nb::arg("method"),
        nb::arg("b").noconvert(), nb::arg("x").noconvert(), nb::arg("absolutes"), nb::arg("max_iterations"),
        nb::arg("number"), nb::arg("preconditioner").none());
  m.def("solve_scipy_on_device", &solve_scipy_on_device<T>, nb::arg("matrix"), nb::arg("method"),
        nb::arg("b"), nb::arg("x"), nb::arg("shown"), nb::arg("relative"), nb::arg("absolute"),
        nb::arg("max_iterations"), nb::arg("number"), nb::arg("preconditioner").none(),
        nb::arg("callback").none(), nb::arg("calls"));
  m.def("solve_scipy_columns_on_device", &solve_scipy_columns_on_device<T>, nb::arg("matrix"),
        nb::arg("method"), nb::arg("b"), nb::arg("x"), nb::arg("relative"), nb::arg("absolute"),
        nb::arg("max_iterations"), nb::arg("number"), nb::arg("preconditioner").none());
}

}  // namespace

void bind_solvers(nb::module_& m) {
  bind<double>(m, "F64");
  bind<float>(m, "F32");
}

}  // namespace protean::python
