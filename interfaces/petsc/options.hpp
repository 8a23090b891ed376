// The options of the KSP type protean, and of a Mat in one of our formats.
#pragma once
#include <petscksp.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <protean/protean.hpp>

#include "calls.hpp"

namespace protean_petsc {

struct MatrixOptions {
  std::string format = "auto";  // the one with the smallest predicted time of conversion and solve
  protean::FormatParams parameters = {};
  std::string kernel = {};     // empty: the default one of the format
  std::string order = "none";  // of the rows in the solve: "auto", or one of protean::orderings()
};

// Each has an option of PETSc's: -ksp_protean_method, -ksp_protean_format, -ksp_protean_parameters (name=value,
// name=value), -ksp_protean_kernel, -ksp_protean_order, -ksp_protean_policy, -ksp_protean_threads,
// -ksp_protean_restart, -ksp_protean_directions, -ksp_protean_s. A prefix of the KSP goes before them as usual.
struct Options {
  std::string method = "gmres";  // protean::solvers(); gmres is PETSc's own default, too
  MatrixOptions matrix = {};
  // The format and the order of the rows change during the solve when that pays (protean::AutoSwitcher), or at these
  // points (protean::FormatSchedule), which have no option. Not both.
  bool policy = false;
  protean::PolicyOptions policy_options = {};
  std::vector<protean::SchedulePoint> schedule = {};
  int threads = 0;  // 0: OMP_NUM_THREADS, else what affinity and control group allow
  // restart, directions, s and others of the method. The members of `stopping` that the KSP has are taken from there.
  protean::SolverOptions solver = {};
};

namespace detail {

// Throws BadArgument or NotAvailable unless the format, or auto, has this kernel and these parameters.
inline void require_format(std::string_view format, const protean::FormatParams& parameters,
                           std::string_view kernel_name) {
  const bool chosen = format == "auto";
  const protean::FormatEntry& entry = protean::find_format(chosen ? "csr" : format);
  const protean::Kernel& kernel = protean::find_kernel(entry, kernel_name, protean::Space::host);
  if (!chosen) protean::resolve_params(entry, parameters, &kernel);
}
inline void refuse_wrong(const Options& options) {
  protean::make_solver<double>(options.method, protean::options_read_by(options.method, options.solver));
  require_format(options.matrix.format, options.matrix.parameters, options.matrix.kernel);
  protean::require_order(options.matrix.order);
  if (options.policy && !options.schedule.empty())
    throw protean::BadArgument("policy and schedule exclude each other; take one of them");
  if (options.threads < 0)
    throw protean::BadArgument("the number of threads is " + std::to_string(options.threads) +
                               "; it must be 0 (as many as the process may use) or more");
}

// Throws BadArgument for an option in PETSc's database that begins with this prefix and this stem, such as
// "-ksp_protean_", and is not one of `known`. PETSc itself reports it only at the end, with -options_left.
inline void refuse_unknown_options(PetscOptions options, const char* prefix, std::string_view stem,
                                   const std::vector<std::string_view>& known) {
  char* text = nullptr;
  must(PetscOptionsGetAll(options, &text));
  const std::string all = text;
  must(PetscFree(text));
  std::string before = "-";
  before += prefix ? prefix : "";
  const std::string begin = before + std::string(stem.substr(1));
  // PETSc heeds no case.
  const auto same = [](std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
  };
  std::size_t at = 0;
  while ((at = all.find_first_not_of(' ', at)) != std::string::npos) {
    const std::string_view word = std::string_view(all).substr(at, all.find(' ', at) - at);
    at += word.size();
    if (!same(word.substr(0, begin.size()), begin)) continue;
    std::string name = "-";
    name += word.substr(before.size());
    if (std::any_of(known.begin(), known.end(), [&](std::string_view one) { return same(one, name); }))
      continue;
    std::string names;
    for (const std::string_view one : known) names += (names.empty() ? "" : ", ") + std::string(one);
    throw protean::BadArgument(
        "there is no option " + std::string(word) + "." + protean::detail::did_you_mean(name, known) +
        " There are " + names +
        (before.size() > 1 ? "; the prefix " + before.substr(1) + " goes before them" : ""));
  }
}

// "block_rows=4,block_cols=2". `option` is for the message.
inline protean::FormatParams parameters_in(const char* option, std::string_view text) {
  protean::FormatParams parameters;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw protean::BadArgument(std::string(option) + " has '" + std::string(part) +
                                 "'; it wants name=value,name=value");
    parameters.set(std::string(part.substr(0, equals)), std::string(part.substr(equals + 1)));
  }
  return parameters;
}

// complete: all options were read, and there was at least one. `known`: their names.
template <class Items>
PetscErrorCode read_options(Options& options, Items PetscOptionsObject, bool& complete,
                            std::vector<std::string_view>& known) {
  struct Word {
    const char *option, *text;
    std::string* value;
  };
  std::string parameters;
  const Word words[] = {
      {"-ksp_protean_method", "method: cg, fcg, minres, bicgstab, bicgstab2, idr, gmres, fgmres",
       &options.method},
      {"-ksp_protean_format", "storage format, or auto", &options.matrix.format},
      {"-ksp_protean_parameters", "its parameters, name=value,name=value", &parameters},
      {"-ksp_protean_kernel", "its kernel", &options.matrix.kernel},
      {"-ksp_protean_order", "order of the rows in the solve, or auto", &options.matrix.order}};
  struct Number {
    const char *option, *text;
    std::int64_t* value;
  };
  std::int64_t threads = options.threads;
  const Number numbers[] = {
      {"-ksp_protean_threads", "threads, 0: as many as the process may use", &threads},
      {"-ksp_protean_restart", "basis vectors of gmres and fgmres", &options.solver.restart},
      {"-ksp_protean_directions", "directions of fcg", &options.solver.directions},
      {"-ksp_protean_s", "dimension of the shadow space of idr", &options.solver.s}};
  PetscBool policy = options.policy ? PETSC_TRUE : PETSC_FALSE, any = PETSC_FALSE, set = PETSC_FALSE;
  PetscOptionsHeadBegin(PetscOptionsObject, "KSP protean options");
  for (const Word& word : words) {
    char text[1024] = "";
    PetscCall(PetscOptionsString(word.option, word.text, "KSPProteanSetOptions", word.value->c_str(), text,
                                 sizeof text, &set));
    if (set) *word.value = text, any = PETSC_TRUE;
  }
  for (const Number& number : numbers) {
    PetscInt value = static_cast<PetscInt>(*number.value);
    PetscCall(PetscOptionsInt(number.option, number.text, "KSPProteanSetOptions", value, &value, &set));
    if (set) *number.value = value, any = PETSC_TRUE;
  }
  PetscCall(PetscOptionsBool("-ksp_protean_policy", "change format and order in the solve when that pays",
                             "KSPProteanSetOptions", policy, &policy, &set));
  if (set) any = PETSC_TRUE;
  PetscOptionsHeadEnd();
  known = {"-ksp_protean_policy"};
  for (const Word& word : words) known.emplace_back(word.option);
  for (const Number& number : numbers) known.emplace_back(number.option);
  options.policy = policy == PETSC_TRUE, options.threads = static_cast<int>(threads);
  if (!parameters.empty()) options.matrix.parameters = parameters_in("-ksp_protean_parameters", parameters);
  complete = any == PETSC_TRUE;
  return PetscErrorCode(0);
}

}  // namespace detail
}  // namespace protean_petsc
