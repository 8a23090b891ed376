// Finite elements on several ranks: each rank has some of the elements.
//
//   A = sum over ranks r of  S_r' A_r S_r      A_r: the ElementOperator of the elements of rank r, on their unknowns
//                                              S_r: selects these from x, a VecScatter; S_r' adds
//
// A product sends the entries of x that other ranks' elements have, and gets their contributions back: two messages
// if an assembled matrix needs one.
#pragma once
#include <petscmat.h>

#include <memory>
#include <vector>

#include "apps/problem/problem_file.hpp"
#include "apps/ranks/agree.hpp"
#include "operators/elements/element_operator.hpp"

namespace protean::apps::ranks {

struct OwnElements {
  std::unique_ptr<ElementOperator<double>>
      op;                          // of the elements of this rank, without constrained unknowns; null: none
  std::vector<PetscInt> unknowns;  // number of each of its rows in the system
  std::int64_t rows = 0, elements = 0, all_elements = 0;  // of the system, of this rank, of all
  mutable double seconds = 0;                             // in products of op
};

// Each rank makes the mesh, and the matrices of its elements alone. Collective.
OwnElements make_elements(const Ranks& ranks, const Problem& problem);

// A as a MATSHELL with products (also added), diagonal and -view; `own` must live as long. Collective.
Mat element_matrix(const Ranks& ranks, const OwnElements& own);
// A assembled, each rank adding the entries of its elements. Collective.
Mat assembled_matrix(const Ranks& ranks, const OwnElements& own);

}  // namespace protean::apps::ranks
