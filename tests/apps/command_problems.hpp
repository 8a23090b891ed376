// Problems for the command.
#pragma once
#include <string>

#include "support/command.hpp"

namespace protean::test {

inline const std::string poisson = R"(matrix: {generate: {kind: poisson-2d, n: 30}}
rhs: {solution: ones}
solver: {method: cg, relative_tolerance: 1.0e-9}
preconditioner: {type: jacobi}
output: {solution: x.mtx, report: r.json, history: h.csv}
)";

class Command : public CommandTest {};

}  // namespace protean::test
