// A solve with several right-hand sides as it was drawn, with kept and with fresh objects.
#pragma once
#include <cstdint>
#include <string>

#include "core/multi_vector.hpp"
#include "life/solve.hpp"
#include "life/world.hpp"

namespace protean::test::life {

// What is not in the SolvePlan. From the SolvePlan, the observer itself makes the change of format or order: at once
// (now), built next to the solve and waited for two iterations later (beside), or begun and left behind.
struct ColumnsPlan {
  int solver = 0;          // slot of World::multi_solver()
  std::int64_t count = 0;  // of right-hand sides, 0 or more
  VectorLayout layout = VectorLayout::columns;
  bool own_rules = false;  // each column has its own tolerance
};
ColumnsPlan draw_columns(Draw& draw);
std::string describe(const SolvePlan& plan, const ColumnsPlan& columns);

// Solves with the objects of the world, with fresh ones, and one of the columns alone. Empty, or what is wrong.
template <class T>
std::string solve_columns(World<T>& world, const SolvePlan& plan, const ColumnsPlan& columns);

}  // namespace protean::test::life
