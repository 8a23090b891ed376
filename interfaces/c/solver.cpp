// Solvers: their options, preconditioners of the caller, monitors and schedules.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "interfaces/c/handles.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/format_schedule.hpp"
#include "solvers/solver.hpp"

using namespace protean;
using namespace protean::capi;

namespace {

constexpr ScheduleTrigger triggers[] = {ScheduleTrigger::iteration, ScheduleTrigger::residual,
                                        ScheduleTrigger::seconds};

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
  solver.settings.schedule.push_back(std::move(point));
  solver.f64.told = solver.f32.told = false;
}

// The next solve has them.
void accept(protean_solver& solver, SolveSettings settings) {
  solver.settings = std::move(settings);
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

}  // namespace

namespace protean::capi {

std::vector<std::string_view> trigger_names() {
  std::vector<std::string_view> names;
  for (const ScheduleTrigger one : triggers) names.push_back(to_string(one));
  return names;
}

}  // namespace protean::capi

extern "C" {

protean_status protean_solver_create(const char* method, const char* preconditioner,
                                     protean_solver** solver) {
  return guarded([&] {
    need(solver, "solver");
    auto made = std::make_unique<protean_solver>();
    if (method) made->settings.method = method;
    if (preconditioner) made->settings.preconditioner = preconditioner;
    check(made->settings);
    *solver = made.release();
  });
}

protean_status protean_solver_set(protean_solver* solver, const char* option, double value) {
  return guarded([&] {
    need(solver, "solver"), need(option, "option");
    require_not_running(*solver);
    SolveSettings settings = solver->settings;
    set_number(settings, option, value);
    accept(*solver, std::move(settings));
  });
}
protean_status protean_solver_set_text(protean_solver* solver, const char* option, const char* value) {
  return guarded([&] {
    need(solver, "solver"), need(option, "option"), need(value, "value");
    require_not_running(*solver);
    SolveSettings settings = solver->settings;
    set_text(settings, option, value);
    accept(*solver, std::move(settings));
  });
}
protean_status protean_solver_set_near_null_space(protean_solver* solver, int64_t rows, int64_t vectors,
                                                  const double* values) {
  return guarded([&] {
    require_not_running(*need(solver, "solver"));
    SolveSettings settings = solver->settings;
    std::shared_ptr<MultiVector<double>> given;
    if (vectors != 0) {
      if (!reads_near_null_space(settings.preconditioner))
        throw BadArgument("vectors near the null space are for preconditioners amg and auto, and " +
                          settings.preconditioner.name() + " does not read them; leave them out");
      constexpr std::int64_t most = 64;
      if (vectors < 0 || vectors > most || rows < 0)
        throw BadArgument("there are " + std::to_string(vectors) + " vectors near the null space of " +
                          std::to_string(rows) + " rows; there may be 0 to 64, of no less than 0 rows");
      if (rows > 0) need(values, "values");
      given = std::make_shared<MultiVector<double>>(Context::host(1), rows, vectors);
      std::copy_n(values, rows * vectors, given->data());
    }
    settings.preconditioning.near_null_space = given.get();
    accept(*solver, std::move(settings));
    solver->near_null_space = std::move(given);
  });
}
protean_status protean_solver_set_labels(protean_solver* solver, int64_t rows, const int32_t* labels) {
  return guarded([&] {
    require_not_running(*need(solver, "solver"));
    if (rows < 0)
      throw BadArgument("the number of labels is " + std::to_string(rows) + "; it must be 0 or more");
    SolveSettings settings = solver->settings;
    const std::string fields =
        labels ? fields_of_labels({labels, static_cast<std::size_t>(rows)}) : std::string("auto");
    set_text(settings, "fields", fields.c_str());
    accept(*solver, std::move(settings));
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
    solver->settings.schedule.clear();
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

}  // extern "C"
