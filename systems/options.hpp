// The settings of a solve that are one word or one number, as data: every entrance reads, checks, reports and compares
// them by this table. Private to the library and its entrances.
#pragma once
#include <span>
#include <string_view>

#include "core/options.hpp"
#include "systems/settings.hpp"

namespace protean {

// What a kept system makes anew when a setting has changed.
enum class Remakes : unsigned char {
  nothing,         // each solve reads it
  preconditioner,  // the preconditioner is another one
  choice,          // the choice of type auto, which was given it and has measured with it
  first_choice     // the same, until iterations have been measured
};

struct Setting : Option<SolveSettings> {
  std::string_view section, key;  // in a problem file: "preconditioner", "type"
  bool c_option =
      false;  // of a solver in C; the others are arguments of functions, or belong to the matrix there
  Remakes remakes = Remakes::nothing;

  // Whether the two settings have another value of it.
  bool differs(const SolveSettings& a, const SolveSettings& b) const { return value(a) != value(b); }
};

// An entry for each member of SolveSettings that is one word or one number, under the name of the member.
std::span<const Setting> solve_settings();
// Throws std::out_of_range if there is none.
const Setting& solve_setting(std::string_view name);

// Whether a policy may decide in a solve with these settings; by-format, the matrix has a word in it, too.
bool may_decide(const SolveSettings& settings);

// Whether a setting that remakes this has another value.
bool any_differs(Remakes remakes, const SolveSettings& before, const SolveSettings& after);

// The settings with names only: the options of a type (systems/types.hpp) become options of `solver` and
// `preconditioning`. Throws BadArgument if an option has been set there, too, to another value.
SolveSettings with_names(SolveSettings settings);

}  // namespace protean
