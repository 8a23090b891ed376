// What the options -mat_protean_* of a matrix say.
#pragma once
#include <petscmat.h>

#include <protean/operators/assembled_matrix.hpp>
#include <string>

namespace protean_types {

struct Settings {
  std::string format = "auto";
  // The format of the off-diagonal block, which has other rows: few, short ones. Parameters and kernel are not for it.
  std::string off_diagonal_format = "auto";
  protean::FormatParams parameters = {};
  std::string kernel = {};
  bool policy = false;
  bool agree = false;  // with policy: ranks change together (KSPProteanWatch())
  int threads = 1;     // of each rank
  bool operator==(const Settings&) const = default;
};

// Those that stand in PETSc's database under the prefix of A. Throws protean::BadArgument for an unknown name or value,
// NotAvailable for a kernel that is not in this build, and Failure.
Settings read_settings(Mat A);

struct Option {
  const char *name, *text, *standard;
};
// All of them, for -help.
inline constexpr Option all_options[] = {
    {"-mat_protean_format", "storage format of the diagonal block of each rank, or auto", "auto"},
    {"-mat_protean_off_diagonal_format", "format of the off-diagonal block of each rank, or auto", "auto"},
    {"-mat_protean_parameters", "parameters of the format, name=value,name=value", ""},
    {"-mat_protean_kernel", "kernel of the format", ""},
    {"-mat_protean_order", "order of the rows: none", "none"},
    {"-mat_protean_policy", "each rank changes the formats of its blocks when that pays", "false"},
    {"-mat_protean_agree", "with the policy: ranks change together, and those alone that the others wait for",
     "false"},
    {"-mat_protean_threads", "threads of each rank, 0: as many as it may use", "1"}};

}  // namespace protean_types
