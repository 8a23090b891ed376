#include "apps/ranks/automatic.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "interfaces/petsc/guard.hpp"
#include "interfaces/petsc/mat_types.hpp"
#include "systems/method_choice.hpp"

namespace protean::apps::ranks {
namespace {

using protean_types::must;

// 1 or -1 for each global row, the same for any number of ranks.
void fill_with_signs(Vec v, std::uint64_t seed) {
  PetscInt first = 0, end = 0;
  double* data = nullptr;
  must(VecGetOwnershipRange(v, &first, &end)), must(VecGetArrayWrite(v, &data));
  for (PetscInt i = first; i < end; ++i)
    data[i - first] = detail::random_sign(seed, static_cast<std::uint64_t>(i));
  must(VecRestoreArrayWrite(v, &data));
}

bool looks_symmetric(Mat A) {
  Vec x = nullptr, y = nullptr, Ax = nullptr, Ay = nullptr;
  must(MatCreateVecs(A, &x, &Ax)), must(VecDuplicate(x, &y)), must(VecDuplicate(Ax, &Ay));
  fill_with_signs(x, 1), fill_with_signs(y, 2);
  must(MatMult(A, x, Ax)), must(MatMult(A, y, Ay));
  double left = 0, right = 0, first = 0, second = 0;
  must(VecDot(Ax, y, &left)), must(VecDot(Ay, x, &right));
  must(VecNorm(Ax, NORM_2, &first)), must(VecNorm(Ay, NORM_2, &second));
  PetscInt rows = 0;
  must(VecGetSize(x, &rows));
  for (Vec* const each : {&x, &y, &Ax, &Ay}) must(VecDestroy(each));
  return detail::is_rounding(left - right, std::hypot(first, second), rows,
                             std::numeric_limits<double>::epsilon());
}

struct Signs {
  PetscInt zero = 0, negative = 0;
};
Signs signs_of_diagonal(Mat A) {
  Vec d = nullptr;
  must(MatCreateVecs(A, nullptr, &d)), must(MatGetDiagonal(A, d));
  PetscInt size = 0, counts[2] = {0, 0}, sums[2] = {0, 0};
  const double* data = nullptr;
  must(VecGetLocalSize(d, &size)), must(VecGetArrayRead(d, &data));
  for (PetscInt i = 0; i < size; ++i) counts[0] += data[i] == 0, counts[1] += data[i] < 0;
  must(VecRestoreArrayRead(d, &data));
  MPI_Comm comm = MPI_COMM_NULL;
  must(PetscObjectGetComm(reinterpret_cast<PetscObject>(A), &comm));
  MPI_Allreduce(counts, sums, 2, MPIU_INT, MPI_SUM, comm);
  must(VecDestroy(&d));
  return {sums[0], sums[1]};
}

}  // namespace

Problem without_auto(const Problem& problem, Mat A, SolveRecord& record) {
  Problem chosen = problem;
  const SolveSettings& given = problem.settings;
  const Signs signs = signs_of_diagonal(A);
  if (problem.settings.method == detail::automatic_method) {
    detail::MethodTraits traits;
    traits.symmetric = looks_symmetric(A);
    traits.not_positive = signs.zero + signs.negative;
    if (!traits.symmetric) traits.difference = detail::products_differ;
    detail::MethodChoice choice = detail::choose_method(
        traits, detail::preconditioner_traits(given.preconditioner, given.preconditioning, given.parts,
                                              given.combine));
    chosen.settings.method = choice.method, record.method_reason = std::move(choice.reason);
  }
  record.method = chosen.settings.method;
  if (preconditioner_type(given) != "auto") return chosen;
  const bool definite = make_solver<double>(record.method)->needs_symmetric_preconditioner();
  std::string refused;
  if (signs.zero > 0 && given.preconditioning.zero_diagonal == ZeroDiagonal::error)
    refused = fmt::format("none: {} diagonal entries are 0 or missing", signs.zero);
  else if (signs.negative > 0 && definite)
    refused = fmt::format("none: {} diagonal entries are negative, and {} needs a positive definite one",
                          signs.negative, record.method);
  chosen.settings.preconditioner = record.chosen_preconditioner = refused.empty() ? "jacobi" : "none";
  record.preconditioner_reason = refused.empty() ? "jacobi, whose setup costs next to nothing" : refused;
  return chosen;
}

}  // namespace protean::apps::ranks
