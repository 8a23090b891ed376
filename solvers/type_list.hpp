// The methods, and auto, with the options of SolverOptions that each reads:
//
//   PROTEAN_METHOD_TYPES(TYPE, READS) is TYPE(type, "name", READS(option) READS(option) ...) for each.
//
// systems/types.hpp makes the types of it, protean::Gmres{.restart = 50}, and the table of options
// (solvers/options.cpp) the readers of each option. Every method reads the members of StoppingRule, which are not named
// here.
#pragma once

#define PROTEAN_METHOD_TYPES(TYPE, READS)                                                                  \
  TYPE(Cg, "cg", READS(null_space) READS(device_steps) READS(residual_norm))                               \
  TYPE(Fcg, "fcg", READS(directions) READS(null_space) READS(device_steps) READS(residual_norm))           \
  TYPE(Minres, "minres", READS(null_space) READS(device_steps) READS(residual_norm))                       \
  TYPE(Bicgstab, "bicgstab", READS(device_steps) READS(residual_norm))                                     \
  TYPE(Bicgstab2, "bicgstab2", READS(device_steps) READS(residual_norm))                                   \
  TYPE(Idr, "idr", READS(s) READS(device_steps) READS(residual_norm))                                      \
  TYPE(Gmres, "gmres", READS(restart) READS(orthogonalization) READS(device_steps) READS(residual_norm))   \
  TYPE(Fgmres, "fgmres", READS(restart) READS(orthogonalization) READS(device_steps) READS(residual_norm)) \
  TYPE(AutoMethod, "auto",                                                                                 \
       READS(restart) READS(orthogonalization) READS(null_space) READS(device_steps) READS(residual_norm))
