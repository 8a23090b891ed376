#include "interfaces/c/handles.hpp"

#include <algorithm>
#include <cstddef>

namespace protean::capi {

FormatParams parse_parameters(const char* text) {
  FormatParams params;
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, end);
    const std::size_t equal = one.find('=');
    if (equal == std::string_view::npos || equal == 0)
      throw BadArgument("'" + std::string(one) +
                        "' among the format's parameters is not of the form name=value");
    params.set(std::string(one.substr(0, equal)), std::string(one.substr(equal + 1)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return params;
}

void require_no_solve(const protean_matrix& matrix) {
  if (matrix.solves > 0)
    throw BadArgument(
        "a solve is running with this matrix; change its format by protean_solver_schedule(), its order by "
        "protean_solver_schedule_order(), or both after the solve");
}
void require_between_steps(const protean_matrix& matrix) {
  if (matrix.solves > matrix.monitored)
    throw BadArgument(
        "a solve is in the middle of a step with this matrix; give it new values in the monitor of the "
        "solve, or after the solve");
}
void require_not_running(const protean_solver& solver) {
  if (solver.running)
    throw BadArgument(
        "a solve is running with this solver; change its options, functions and schedule after the solve, "
        "and take another solver for a solve within a solve");
}

}  // namespace protean::capi
