// All methods. Private to solvers/.
#pragma once
#include "solvers/solver.hpp"

namespace protean::detail {
extern const SolverEntry cg, fcg, minres, bicgstab, bicgstab2, idr, gmres, fgmres;
}
