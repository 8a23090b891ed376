// The makers in the table of preconditioners (preconditioner.cpp), each defined in a file of this folder for float and
// double. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <memory>

#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

template <class T>
using MadePreconditioner = std::unique_ptr<Preconditioner<T>>;

#define PROTEAN_MAKER(name) \
  template <class T>        \
  MadePreconditioner<T> name(const LinearOperator<T>& A, const PreconditionerOptions& options);
PROTEAN_MAKER(make_auto)
PROTEAN_MAKER(make_jacobi)
PROTEAN_MAKER(make_block_jacobi)
PROTEAN_MAKER(make_spai0)
PROTEAN_MAKER(make_gauss_seidel)
PROTEAN_MAKER(make_ssor)
PROTEAN_MAKER(make_ic0)
PROTEAN_MAKER(make_ic)
PROTEAN_MAKER(make_ilu0)
PROTEAN_MAKER(make_ilu)
PROTEAN_MAKER(make_isai)
PROTEAN_MAKER(make_isai_lu)
PROTEAN_MAKER(make_subdomain_ic0)
PROTEAN_MAKER(make_subdomain_ilu0)
PROTEAN_MAKER(make_chebyshev)
PROTEAN_MAKER(make_amg)
PROTEAN_MAKER(make_fields)
PROTEAN_MAKER(make_aggregation)  // amg by its setup
PROTEAN_MAKER(make_classical)    // only in a build with hypre
#undef PROTEAN_MAKER

// Throws what make_aggregation() throws of `unknowns` and `near_null_space` for a matrix of that many rows.
void require_nodes(std::int64_t rows, const PreconditionerOptions& options);

}  // namespace protean::detail
