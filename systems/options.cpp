#include "systems/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/option_checks.hpp"
#include "formats/catalogue.hpp"
#include "formats/choose.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/options.hpp"
#include "solvers/solver.hpp"

namespace protean {
namespace {

using Words = std::vector<std::string_view>;

template <class Entries>
Words ids_of(const Entries& entries, bool with_auto) {
  Words ids;
  for (const auto& entry : entries)
    if constexpr (requires { entry->id; })
      ids.push_back(entry->id);
    else
      ids.push_back(entry.id);
  if (with_auto) ids.emplace_back("auto");
  return ids;
}

Words composition_words() {
  Words words;
  for (const Composition one : compositions) words.push_back(to_string(one));
  return words;
}

constexpr std::string_view policies[] = {"by-format", "auto", "none"};
constexpr std::string_view precisions[] = {"double", "auto"};

std::vector<Setting> make_table() {
  using S = SolveSettings;
  static const Words methods = ids_of(solvers(), true), types = ids_of(preconditioners(), false),
                     combinations = composition_words(), formats = ids_of(catalogue(), true),
                     orders = order_words(), selectors = selector_words();
  return {
      {option<&S::method>({.name = "method",
                           .words = methods,
                           .about =
                               "The Krylov method; auto: cg for a symmetric matrix, minres if its diagonal "
                               "shows that it is indefinite, gmres for fields with a constraint and cells "
                               "with a pressure, bicgstab for any other matrix"}),
       "solver", "method", false, Remakes::choice},
      {option<&S::preconditioner>(
           {.name = "preconditioner",
            .words = types,
            .about =
                "The preconditioner; auto: jacobi, in a long solve another one that pays; if the diagonal has "
                "a zero, fields for a saddle point, else none"}),
       "preconditioner", "type", false, Remakes::preconditioner},
      {option<&S::combine>(
           {.name = "combine", .words = combinations, .about = "How the parts are applied (composition)"}),
       "preconditioner", "combine", false, Remakes::preconditioner},
      {option<&S::format>({.name = "format",
                           .words = formats,
                           .allowed = "auto, or a format of `protean formats`",
                           .about =
                               "How the matrix is stored; auto begins with csr, and a policy changes the "
                               "format when that pays"}),
       "operator", "format"},
      {option<&S::kernel>(
           {.name = "kernel", .allowed = "a kernel of the format", .about = "Code of the product"}),
       "operator", "kernel"},
      {option<&S::order>(
           {.name = "order", .words = orders, .about = "Order of rows and columns in the solve"}),
       "matrix", "order"},
      {option<&S::expected_iterations>(
           {.name = "expected_iterations",
            .range = {1, 1e9},
            .zero = "unknown",
            .about = "Expected number of iterations, for format, order and policy auto; format auto is then "
                     "chosen before the solve"}),
       "operator", "expected_iterations", true, Remakes::first_choice},
      {option<&S::selector>({.name = "selector",
                             .words = selectors,
                             .about = "What chooses the format, or the formats that the policy considers "
                                      "(format and policy auto)"}),
       "operator", "selector", true},
      {option<&S::precision>(
           {.name = "precision",
            .words = precisions,
            .about =
                "Whether a policy may store the values in float during the solve if that pays (auto); the "
                "solve ends by the values that were given in any case"}),
       "operator", "precision", true},
      {option<&S::policy>({.name = "policy",
                           .words = policies,
                           .about =
                               "Whether a policy may change format and order during the solve; by-format: "
                               "auto for format auto, else none"}),
       "schedule", "policy", true},
  };
}

// The options of a type. `others`: the options that stand next to its name; a type takes their place.
template <class Options>
void take_options(std::span<const Option<Options>> table, const Selection<Options>& selected, Options& others,
                  std::string_view member, std::string_view of) {
  for (const Option<Options>& one : table)
    if (!one.is_default(others) && one.value(others) != one.value(*selected.options()))
      throw BadArgument(fmt::format(
          "SolveSettings::{}.{} is {}, and {} {} is a type with options of its own: "
          "set the option there, or take the name \"{}\"",
          member, one.name, value_text(one, one.value(others)), of, selected.name(), selected.name()));
  others = *selected.options();
}

}  // namespace

SolveSettings with_names(SolveSettings settings) {
  if (settings.method.options()) {
    const StoppingRule rule = settings.solver.stopping;
    settings.solver.stopping = {};  // a type has none
    take_options(solver_options(), settings.method, settings.solver, "solver", "method");
    settings.solver.stopping = rule;
    settings.method = settings.method.name();
  }
  if (settings.preconditioner.options()) {
    const PreconditionerOptions before = settings.preconditioning;
    take_options(preconditioner_options(), settings.preconditioner, settings.preconditioning,
                 "preconditioning", "preconditioner");
    // These have no entry in the table.
    const PreconditionerOptions& now = settings.preconditioning;
    const bool vectors = before.near_null_space && before.near_null_space != now.near_null_space;
    if (vectors || (before.schur_operator && before.schur_operator != now.schur_operator))
      throw BadArgument(fmt::format(
          "SolveSettings::preconditioning.{} is set, and preconditioner {} is a type with options "
          "of its own: set it there, if it has it",
          vectors ? "near_null_space" : "schur_operator", settings.preconditioner.name()));
    settings.preconditioner = settings.preconditioner.name();
  }
  return settings;
}

std::span<const Setting> solve_settings() {
  static const std::vector<Setting> table = make_table();
  return table;
}

const Setting& solve_setting(std::string_view name) {
  for (const Setting& one : solve_settings())
    if (one.name == name) return one;
  throw std::out_of_range("solve_setting: there is no setting " + std::string(name));
}

bool may_decide(const SolveSettings& settings) {
  if (settings.policy != "by-format") return settings.policy == "auto";
  return settings.format == "auto" && settings.schedule.empty() && settings.expected_iterations == 0;
}

bool any_differs(Remakes remakes, const SolveSettings& before, const SolveSettings& after) {
  return std::ranges::any_of(solve_settings(), [&](const Setting& one) {
    return one.remakes == remakes && one.differs(before, after);
  });
}

}  // namespace protean
