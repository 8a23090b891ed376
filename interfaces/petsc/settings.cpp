#include "interfaces/petsc/settings.hpp"

#include <protean/protean.hpp>
#include <string_view>
#include <vector>

#include "interfaces/petsc/guard.hpp"
#include "interfaces/petsc/options.hpp"

namespace protean_types {
namespace {

std::string word(const char* prefix, const char* name, std::string standard) {
  char text[1024] = "";
  PetscBool set = PETSC_FALSE;
  must(PetscOptionsGetString(nullptr, prefix, name, text, sizeof text, &set));
  return set ? std::string(text) : std::move(standard);
}

void refuse_wrong(const Settings& settings) {
  protean_petsc::detail::require_format(settings.format, settings.parameters, settings.kernel);
  if (settings.format == "auto" && !settings.parameters.all().empty())
    throw protean::BadArgument("-mat_protean_parameters needs -mat_protean_format with the name of a format");
  if (settings.off_diagonal_format != "auto") (void)protean::find_format(settings.off_diagonal_format);
  if (settings.agree && !settings.policy)
    throw protean::BadArgument(
        "-mat_protean_agree is how ranks decide with -mat_protean_policy, which is not given");
  if (settings.threads < 0)
    throw protean::BadArgument("-mat_protean_threads is " + std::to_string(settings.threads) +
                               "; it must be 0 (as many as the rank may use) or more");
}

}  // namespace

Settings read_settings(Mat A) {
  const char* prefix = nullptr;
  must(PetscObjectGetOptionsPrefix(object(A), &prefix));
  Settings settings;
  settings.format = word(prefix, "-mat_protean_format", settings.format);
  settings.off_diagonal_format =
      word(prefix, "-mat_protean_off_diagonal_format", settings.off_diagonal_format);
  settings.parameters = protean_petsc::detail::parameters_in("-mat_protean_parameters",
                                                             word(prefix, "-mat_protean_parameters", {}));
  settings.kernel = word(prefix, "-mat_protean_kernel", {});
  if (const std::string order = word(prefix, "-mat_protean_order", "none"); order != "none")
    throw protean::NotAvailable("-mat_protean_order " + order +
                                ": a product alone cannot have its own order, since it would permute x "
                                "and y each time. Permute the matrix (MatGetOrdering(), MatPermute()), or on "
                                "one rank solve with -ksp_type protean -ksp_protean_order " +
                                order);
  PetscBool policy = PETSC_FALSE, agree = PETSC_FALSE, set = PETSC_FALSE;
  PetscInt threads = settings.threads;
  must(PetscOptionsGetBool(nullptr, prefix, "-mat_protean_policy", &policy, &set));
  must(PetscOptionsGetBool(nullptr, prefix, "-mat_protean_agree", &agree, &set));
  must(PetscOptionsGetInt(nullptr, prefix, "-mat_protean_threads", &threads, &set));
  settings.policy = policy == PETSC_TRUE, settings.agree = agree == PETSC_TRUE,
  settings.threads = static_cast<int>(threads);
  std::vector<std::string_view> known;
  for (const Option& option : all_options) known.emplace_back(option.name);
  PetscOptions options = nullptr;
  must(PetscObjectGetOptions(object(A), &options));
  protean_petsc::detail::refuse_unknown_options(options, prefix, "-mat_protean_", known);
  refuse_wrong(settings);
  return settings;
}

}  // namespace protean_types
