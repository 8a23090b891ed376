#include "systems/method_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace protean::detail {
namespace {

constexpr std::int64_t most_changes = 3;

constexpr std::string_view not_definite = "minres takes a symmetric matrix with eigenvalues of both signs";
constexpr std::string_view any_preconditioner = "gmres takes a preconditioner that is not positive definite";
constexpr std::string_view smooth =
    "residuals of gmres do not grow, and it breaks down at the solution alone";

// Of 32 real systems on which bicgstab was given up gmres(30) solved none, idr five and gmres(200) four.
constexpr std::string_view more_vectors = "idr has several shadow vectors, where bicgstab has one";

constexpr MethodStep steps[] = {
    {"cg", StopReason::indefinite_operator, "minres", not_definite},
    {"cg", StopReason::negative_definite, "minres", not_definite},
    {"cg", StopReason::divergence, "minres", "residuals of minres do not grow"},
    {"cg", StopReason::breakdown, "minres", "minres rarely breaks down"},
    {"cg", StopReason::indefinite_preconditioner, "gmres", any_preconditioner},
    {"minres", StopReason::indefinite_preconditioner, "gmres", any_preconditioner},
    {"minres", StopReason::negative_definite, "gmres", any_preconditioner},
    {"minres", StopReason::breakdown, "gmres", smooth},
    {"bicgstab", StopReason::stagnation, "idr", more_vectors},
    {"bicgstab", StopReason::divergence, "idr", more_vectors},
    {"bicgstab", StopReason::breakdown, "idr", more_vectors},
    {"gmres", StopReason::stagnation, "idr", "idr keeps what it has found: it has no cycles"},
    {"idr", StopReason::stagnation, "gmres", smooth},
    {"idr", StopReason::divergence, "gmres", smooth},
    {"idr", StopReason::breakdown, "gmres", smooth},
};

bool depends_on_matrix(StopReason reason) {
  return reason == StopReason::stagnation ||
         std::any_of(std::begin(steps), std::end(steps),
                     [&](const auto& step) { return step.from == "cg" && step.reason == reason; });
}

// Residuals of bicgstab and idr go up and down, and what they lose in that another method need not lose.
bool is_smooth(std::string_view method) { return method != "bicgstab" && method != "idr"; }

}  // namespace

bool MethodRule::was_used(std::string_view method) const {
  return std::find(used_.begin(), used_.end(), method) != used_.end();
}

std::optional<NextMethod> MethodRule::after(const MethodEnd& end) const {
  if (changes_ >= most_changes) return std::nullopt;
  NextMethod next;
  const std::string how =
      end.how.empty() ? fmt::format("{} ended with {}", end.method, to_string(end.reason)) : end.how;
  const bool for_symmetric = end.method == "cg" || end.method == "minres";
  if (for_symmetric && !end.symmetric) {
    if (!depends_on_matrix(end.reason)) return std::nullopt;
    next = {"bicgstab", 0, how + "; the matrix is not symmetric"};
  } else {
    const auto* const step = std::find_if(std::begin(steps), std::end(steps), [&](const MethodStep& one) {
      return one.from == end.method && one.reason == end.reason;
    });
    const bool lost = end.reason == StopReason::stagnation && end.rounding && is_smooth(end.method);
    if (step == std::end(steps) || lost) return std::nullopt;
    next = {step->to, 0, fmt::format("{}; {}", how, step->why)};
  }
  if (end.symmetric_only && next.method != "cg" && next.method != "minres") return std::nullopt;
  const bool again = was_used(next.method);
  if (next.method == "gmres") {
    const bool longer = again || end.method == "idr";
    next.restart = longer ? end.longest : end.restart;
    if (again && next.restart <= restart_) return std::nullopt;
    if (longer)
      next.reason += fmt::format(", {}with cycles of {} iterations", again ? "now " : "", next.restart);
  } else if (again) {
    return std::nullopt;
  }
  return next;
}

void MethodRule::note(const MethodEnd& end, const NextMethod& next) {
  for (const std::string_view method : {end.method, next.method}) {
    // The name in the table lives as long as the program.
    const auto* const known = std::find_if(std::begin(steps), std::end(steps),
                                           [&](const MethodStep& one) { return one.from == method; });
    if (known != std::end(steps) && !was_used(method)) used_.push_back(known->from);
  }
  if (end.method == "gmres") restart_ = std::max(restart_, end.restart);
  restart_ = std::max(restart_, next.restart);
  ++changes_;
}

bool SlowProgress::add(std::int64_t iteration, double residual) {
  residuals_.add(iteration, residual);
  const auto first = static_cast<std::int64_t>(looks_.share * static_cast<double>(max_iterations_));
  if (iteration < std::max(first, 4 * looks_.every) || iteration % looks_.every != 0) return false;
  const Forecast left = residuals_.remaining(goal_, std::numeric_limits<std::int64_t>::max());
  const std::int64_t rest = max_iterations_ - iteration;
  if (left.known && left.likely <= 2 * static_cast<double>(rest)) return false;
  const std::string cycles =
      looks_.cycles ? fmt::format("in cycles of {} iterations ", looks_.every) : std::string();
  reason_ = left.known ? fmt::format("{}it would likely take {:.0f} iterations more; {} are left", cycles,
                                     left.likely, rest)
                       : fmt::format("{}the residual does not fall", cycles);
  return true;
}

std::optional<SlowProgress::Looks> looks_of(std::string_view method, std::int64_t restart) noexcept {
  if (method == "gmres") return SlowProgress::Looks{.every = restart, .cycles = true};
  // A plateau of these may end, other than one of gmres in cycles.
  if (method == "bicgstab") return SlowProgress::Looks{.share = 0.3};
  if (method == "idr") return SlowProgress::Looks{.share = 0.5};
  if (method == "cg" || method == "minres") return SlowProgress::Looks{};
  return std::nullopt;
}

}  // namespace protean::detail
