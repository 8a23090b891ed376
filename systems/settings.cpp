#include "systems/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "operators/policy/policy_options.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/solver.hpp"
#include "systems/method_choice.hpp"
#include "systems/options.hpp"
#include "systems/schedule_points.hpp"

namespace protean {
namespace {

// The point with the entry of the format that it names, and with parameters that the format has.
SchedulePoint with_entry(SchedulePoint point) {
  if (point.format.empty()) return point;
  if (point.to.entry || point.to.elements)
    throw BadArgument(fmt::format("a point of the schedule names format {} and another one in `to`; name one",
                                  point.format));
  point.to.entry = &find_format(point.format);
  (void)resolve_params(*point.to.entry, point.to.params);
  return point;
}

}  // namespace

std::vector<SchedulePoint> detail::with_entries(std::vector<SchedulePoint> points) {
  for (SchedulePoint& point : points) point = with_entry(std::move(point));
  return points;
}

namespace {

void require_preconditioner(std::string_view id) {
  std::vector<std::string_view> ids;
  for (const PreconditionerEntry& entry : preconditioners()) {
    ids.push_back(entry.id);
    if (entry.id == id && !entry.unavailable.empty())
      throw NotAvailable(fmt::format("preconditioner {}: {}", id, entry.unavailable));
  }
  if (std::find(ids.begin(), ids.end(), id) == ids.end())
    throw BadArgument(fmt::format("there is no preconditioner '{}'; there are {}.{}", id,
                                  fmt::join(ids, ", "), detail::did_you_mean(id, ids)));
}

void require_preconditioner(const SolveSettings& settings) {
  if (!settings.parts.empty()) {
    for (const PreconditionerPart& part : settings.parts) require_preconditioner(part.id);
    return;
  }
  require_preconditioner(settings.preconditioner);
  check_options(preconditioner_options(), settings.preconditioning);
  require_read(preconditioner_options(), settings.preconditioning, "preconditioner", settings.preconditioner);
}

}  // namespace

void check(const SolveSettings& given) {
  const SolveSettings settings = with_names(given);
  if (settings.method == detail::automatic_method) {
    check_options(solver_options(), settings.solver);
    require_read(solver_options(), settings.solver, "method", settings.method);
  } else {
    (void)make_solver<double>(settings.method, settings.solver);
  }
  require_preconditioner(settings);
  const bool may_change = settings.policy == "auto";
  if (may_change && !settings.schedule.empty())
    throw BadArgument("policy and schedule exclude each other; take one of them");
  if (may_change)
    check_policy(settings.policy_options);
  else
    require_no_policy(settings.policy_options);
  if (settings.format != "auto") (void)resolve_params(find_format(settings.format), settings.parameters);
  require_order(settings.order);
  require_selector(settings.selector);
  for (const Setting& one : solve_settings()) require_allowed(one, one.value(settings));
  for (const SchedulePoint& point : settings.schedule) {
    if (!point.to.order.empty()) require_order(point.to.order, false);
    (void)with_entry(point);
  }
  if (settings.selector != default_selector && settings.format != "auto" && !may_change)
    throw BadArgument(
        fmt::format("selector {} chooses among formats where format is auto, or where a policy decides; the "
                    "format is {}: leave the selector out, or take format auto",
                    settings.selector, settings.format));
  if (settings.precision != "double" && !may_decide(settings))
    throw BadArgument(fmt::format(
        "precision is {}, which lets a policy decide, and the solve has none: leave precision out, or take policy auto",
        settings.precision));
}

}  // namespace protean
