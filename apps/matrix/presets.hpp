// Problems by name for `protean generate`: the artificial matrices of Mpakos et al., "Feature-based SpMV
// Performance Analysis on Contemporary Devices" (IPDPS 2023).
#pragma once
#include <cstdint>
#include <string>

namespace protean::apps {

// The text of a problem file whose matrix has these features:
//   table1/FOOTPRINT/MEAN/SKEW/SIMILARITY/NEIGHBOURS
//       a point of Table I, for instance table1/small/20/100/0.5/0.95. FOOTPRINT is small, middle or large:
//       about 11, 128 or 1024 MiB as CSR, the geometric means of the ranges of the table
//   friends/NAME
//       like the matrix NAME of Table III: its features f1 to f3. For f4 the table names a third of the range
//       (S, M or L); the middle of that third is taken
//   friends/NAME/K
//       a variation of it, K = 1, 2, ...: each feature between 70 % and 130 % of that value, as in the paper
// Throws BadArgument for any other name; the message has the nearest known one.
std::string preset_problem(const std::string& name);

// By how much feature `feature` (1 to 5) of the K-th friend differs: a random factor from 0.7 to 1.3 (splitmix64).
double friend_factor(std::uint64_t k, std::uint64_t feature);

// The list of all names, for people.
std::string presets_text();

}  // namespace protean::apps
