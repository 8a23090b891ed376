// The random steps. A step follows from a seed and its number alone, so any selection of steps can be
// repeated: what a step refers to (operator 2, solver 0) is what the world holds there at that time.
#pragma once
#include <cstdint>
#include <string>

#include "life/columns.hpp"
#include "life/solve.hpp"
#include "life/world.hpp"

namespace protean::test::life {

enum class StepKind : unsigned char {
  solve,
  there_and_back,  // one solver: operator A, then B, then A again, each with the x of before
  twice,           // one solver, one operator, the same x: what is kept is used as it is
  columns,         // several right-hand sides
  two_threads,     // two solvers with operators of two contexts, at the same time
  product,         // y := alpha A x + beta y
  new_values,
  change_format,  // outside of a solve: at once, begun, cancelled, adopted
  new_operator,
  new_solver,
  new_preconditioners
};

struct Step {
  int number = 0;
  StepKind kind = StepKind::solve;
  SolvePlan plan, second;  // second: of two solves
  ColumnsPlan columns;
  std::uint64_t seed = 0;               // of what is drawn when the step is carried out
  std::int64_t failing_allocation = 0;  // of changes outside of a solve
};

Step draw_step(std::uint64_t seed, int number);

// Empty, or what is wrong: kept objects do not agree with fresh ones, or something was thrown that should not
// be.
template <class T>
std::string carry_out(World<T>& world, const Step& step);

}  // namespace protean::test::life
