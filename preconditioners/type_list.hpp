// The preconditioners with the options of PreconditionerOptions that each reads:
//
//   PROTEAN_PRECONDITIONER_TYPES(TYPE, READS) is TYPE(type, "name", READS(option) READS(option) ...) for each.
//
// systems/types.hpp makes the types of it, protean::Amg{.unknowns = 3}, and the table of options
// (preconditioners/options.cpp) the readers of each option.
#pragma once

#define PROTEAN_PRECONDITIONER_TYPES(TYPE, READS)                                                           \
  TYPE(NoPreconditioner, "none", READS(refresh))                                                            \
  TYPE(Jacobi, "jacobi", READS(refresh) READS(zero_diagonal))                                               \
  TYPE(BlockJacobi, "block-jacobi", READS(refresh) READS(storage) READS(block_size) READS(blocks))          \
  TYPE(Spai0, "spai0", READS(refresh) READS(zero_diagonal))                                                 \
  TYPE(GaussSeidel, "gauss-seidel", READS(refresh) READS(storage) READS(zero_diagonal))                     \
  TYPE(Ssor, "ssor", READS(refresh) READS(storage) READS(zero_diagonal) READS(omega))                       \
  TYPE(Ic0, "ic0",                                                                                          \
       READS(refresh) READS(storage) READS(zero_diagonal) READS(ordering) READS(solve) READS(sweeps))       \
  TYPE(Ic, "ic", READS(refresh) READS(storage) READS(zero_diagonal) READS(fill) READS(solve) READS(sweeps)) \
  TYPE(Ilu0, "ilu0",                                                                                        \
       READS(refresh) READS(storage) READS(zero_diagonal) READS(ordering) READS(solve) READS(sweeps))       \
  TYPE(Ilu, "ilu",                                                                                          \
       READS(refresh) READS(storage) READS(zero_diagonal) READS(fill) READS(solve) READS(sweeps))           \
  TYPE(Isai, "isai", READS(refresh) READS(storage) READS(zero_diagonal) READS(power))                       \
  TYPE(IsaiLu, "isai-lu", READS(refresh) READS(storage) READS(zero_diagonal) READS(power))                  \
  TYPE(SubdomainIc0, "subdomain-ic0",                                                                       \
       READS(refresh) READS(storage) READS(zero_diagonal) READS(subdomain_size) READS(partition))           \
  TYPE(SubdomainIlu0, "subdomain-ilu0",                                                                     \
       READS(refresh) READS(storage) READS(zero_diagonal) READS(subdomain_size) READS(partition)            \
           READS(overlap))                                                                                  \
  TYPE(Chebyshev, "chebyshev", READS(refresh) READS(zero_diagonal) READS(degree) READS(eigenvalue_ratio))   \
  TYPE(Amg, "amg",                                                                                          \
       READS(refresh) READS(storage) READS(zero_diagonal) READS(setup) READS(smoother) READS(coarsening)    \
           READS(strong_threshold) READS(aggressive_levels) READS(strength) READS(level_format)             \
               READS(max_levels) READS(cycles) READS(unknowns) READS(near_null_space))                      \
  TYPE(Fields, "fields",                                                                                    \
       READS(refresh) READS(fields) READS(interleaved) READS(recipe) READS(schur) READS(inner)              \
           READS(schur_operator))                                                                           \
  TYPE(AutoPreconditioner, "auto",                                                                          \
       READS(refresh) READS(solves) READS(storage) READS(zero_diagonal) READS(unknowns)                     \
           READS(near_null_space))
