// Problems by name for `protean generate`: the artificial matrices of Mpakos et al., "Feature-based SpMV
// Performance Analysis on Contemporary Devices" (IPDPS 2023).
#pragma once
#include <string>

namespace protean::apps {

// The text of a problem file whose matrix has these features:
//   table1/FOOTPRINT/MEAN/SKEW/SIMILARITY/NEIGHBOURS   a point of Table I, as small/20/100/0.5/0.95;
//   FOOTPRINT is
//       small, middle or large, about 11, 128 and 1024 MiB as CSR: the middles (of logarithms) of its ranges;
//   friends/NAME      like the matrix NAME of Table III: its features f1 to f3, and of f4, for which the
//   table has
//       the thirds S, M and L of the range, the middle of the third;
//   friends/NAME/K    another, K from 1: each feature between 70 % and 130 % of that, as in the paper.
// Throws BadArgument for any other name, with the nearest.
std::string preset_problem(const std::string& name);

// All of them, for a person.
std::string presets_text();

}  // namespace protean::apps
