// The types that read option `storage`, and matrices for them.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "preconditioners/all_ids.hpp"
#include "preconditioners/in_space.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "systems/linear_system.hpp"

namespace protean::test {

inline constexpr auto automatic = PreconditionerStorage::automatic,
                      single = PreconditionerStorage::single_precision,
                      twice = PreconditionerStorage::double_precision;

inline bool is_symmetric_type(std::string_view id) {
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == id) return entry.symmetric;
  return false;
}

// The types that have the option, without the one that gives it to others.
inline std::vector<std::string> stored_ids() {
  std::vector<std::string> ids;
  for (const std::string& id : all_ids())
    if (id != "auto" && find_option(preconditioner_options(), "storage")->readers.has(id)) ids.push_back(id);
  return ids;
}
// As in single precision: with what is measured left out, so that two objects compute the same.
inline PreconditionerOptions options_of(std::string_view id, PreconditionerStorage storage) {
  return preconditioner_options_read_by(
      id, {.storage = storage, .solve = TriangularSolve::levels, .level_format = LevelFormat::csr});
}
// With entries that float does not have.
inline Dense thirds(Dense A) {
  for (long double& a : A.a) a = static_cast<double>(a / 3);
  return A;
}
inline std::vector<Dense> matrices_for(std::string_view id) {
  std::vector<Dense> all;
  for (Dense& A : symmetric_battery()) all.push_back(thirds(std::move(A)));
  if (!is_symmetric_type(id))
    for (Dense& A : general_battery()) all.push_back(thirds(std::move(A)));
  return all;
}
inline std::vector<double> random_vector(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> entry(-1, 1);
  std::vector<double> v(static_cast<std::size_t>(n));
  for (double& x : v) x = entry(random);
  return v;
}

}  // namespace protean::test
