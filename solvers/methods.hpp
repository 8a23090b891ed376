// All methods. Private to solvers/.
#pragma once
#include "solvers/multi_method.hpp"
#include "solvers/solver.hpp"

namespace protean::detail {
extern const SolverEntry cg, fcg, minres, bicgstab, bicgstab2, idr, gmres, fgmres;
extern const MultiMethodEntry cg_of_columns, fcg_of_columns, minres_of_columns, bicgstab_of_columns,
    bicgstab2_of_columns, idr_of_columns, gmres_of_columns, fgmres_of_columns;
}  // namespace protean::detail
