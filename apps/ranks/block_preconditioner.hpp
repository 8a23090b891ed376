// Our own preconditioners of the diagonal block of each rank, in PETSc's Krylov methods.
#pragma once
#include <petscksp.h>

#include <memory>
#include <string_view>

#include "apps/problem/problem_file.hpp"
#include "core/vector.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::apps::ranks {

// On one rank M is the M of engine protean; on several ranks there is one for the block of each rank, whose rows do not
// see the rows of other ranks.
class BlockPreconditioner {
 public:
  // Whether a type is computed by us and not by PETSc: factors and blocks, which PETSc shifts, orders or cuts in other
  // ways.
  static bool has(std::string_view type) noexcept;

  // Sets up M of the block of this rank. A: not collective; it must live as long as this object. Throws what
  // make_preconditioner() and ensure() throw; BadMatrix says which row of A the numbers count from.
  void set_up(Mat A, const SolveSettings& settings, const ContextPtr& host);
  // Makes a PCSHELL compute with it.
  void attach(PC pc);

 private:
  static PetscErrorCode apply(PC pc, Vec r, Vec z);

  Mat A_ = nullptr;
  std::string name_;
  std::unique_ptr<LinearOperator<double>> block_;
  std::unique_ptr<Preconditioner<double>> M_;
};

}  // namespace protean::apps::ranks
