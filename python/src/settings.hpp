// Settings of a solve from the keywords of Python, which are the keys of a problem file.
#pragma once
#include "common.hpp"
#include "systems/settings.hpp"

namespace protean::python {

// The options of a method as keywords, and
//   method, format, kernel, order   a name
//   parameters                      dict: of the format
//   preconditioner                  a name, or a dict with `type` and its options; a dict with `parts` is a composition
//   policy                          None, "auto", or a dict of its options
//   schedule                        a list of dicts: at_iteration, at_residual or after_seconds, with format or order
//   expected_iterations
// Throws BadArgument for another keyword, with the nearest one, and for a value that a key cannot have; an option that
// nobody reads is refused as in a problem file.
SolveSettings settings_of(const nb::dict& keywords);

// {"type": "ic", "fill": 2} or "ic": the name and its options.
std::pair<std::string, PreconditionerOptions> preconditioner_of(nb::handle given);

// {"C": 8}: values are whole numbers or words.
FormatParams parameters_of(nb::handle given);

}  // namespace protean::python
