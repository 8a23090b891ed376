// Settings of a solve from the keywords of Python, which are the keys of a problem file.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "common.hpp"
#include "core/multi_vector.hpp"
#include "systems/settings.hpp"

namespace protean::python {

// The options of a method as keywords, and
//   method, format, kernel, order   a name
//   parameters                      dict: of the format
//   preconditioner                  a name, or a dict with `type` and its options, near_null_space among them (an array
//                                   of rows x vectors); a dict with `parts` is a composition
//   policy                          "by-format" or None, "auto", "none", or a dict of its options, which means "auto"
//   schedule                        a list of dicts: at_iteration, at_residual or after_seconds, with format or order
//   devices                         GPUs that share the rows: "all", a number, or a list of their numbers
//   partition                       "rows", "graph": which rows a device has
//   expected_iterations             a number; "unknown" or 0: not known
//   selector                        what chooses format "auto"
//   precision                       "double"; "auto": the policy may store the values in float
//
// Throws BadArgument for another keyword, with the nearest one, and for a value that a key cannot have; an option that
// nobody reads is refused as in a problem file.
struct Settings {
  SolveSettings settings;
  // What preconditioners of the settings refer to, which must live as long as they are used.
  std::vector<std::shared_ptr<const MultiVector<double>>> near_null_spaces;
};
Settings settings_of(const nb::dict& keywords);

// {"type": "ic", "fill": 2} or "ic": the name and its options.
struct NamedPreconditioner {
  std::string id = "none";
  PreconditionerOptions options;
  std::shared_ptr<const MultiVector<double>> near_null_space;  // from the options, if they have one
};
NamedPreconditioner preconditioner_of(nb::handle given);

// {"C": 8}: values are whole numbers or words.
FormatParams parameters_of(nb::handle given);

}  // namespace protean::python
