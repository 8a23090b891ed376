#include "benchmarks/peers/preconditioned.hpp"

#if defined(PROTEAN_HAVE_PETSC)
#include <fmt/format.h>
#include <petscksp.h>

#include <stdexcept>

namespace protean::bench {
namespace {

void require_done(PetscErrorCode code, const char* what) {
  if (code != 0)
    throw std::runtime_error(fmt::format("PETSc: {} failed with code {}", what, static_cast<int>(code)));
}

struct Split {
  Mat matrix = nullptr, schur = nullptr;
  MatNullSpace constants = nullptr;
  Vec x = nullptr, b = nullptr;
  KSP ksp = nullptr;
  IS rows[2] = {nullptr, nullptr};
  ~Split() {
    KSPDestroy(&ksp), MatDestroy(&matrix), MatDestroy(&schur), VecDestroy(&x), VecDestroy(&b);
    MatNullSpaceDestroy(&constants);
    ISDestroy(&rows[0]), ISDestroy(&rows[1]);
  }
};

}  // namespace

std::optional<PreconditionedResult> petsc_fieldsplit(const CsrMatrix<double>& A, const std::vector<double>& b,
                                                     const TwoFields& fields,
                                                     const PreconditionedSolve& wanted,
                                                     std::vector<double>& x) {
  const SparsityPattern& p = A.pattern;
  if (!p.row_ptr.p32) return std::nullopt;
  require_done(PetscInitializeNoArguments(), "PetscInitialize");
  const auto n = static_cast<PetscInt>(p.rows);
  Split h;
  const auto indices = [](const std::int32_t* v) { return const_cast<PetscInt*>(v); };
  require_done(MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, n, n, indices(p.row_ptr.p32), indices(p.col),
                                         const_cast<double*>(A.values), &h.matrix),
               "MatCreateSeqAIJWithArrays");
  require_done(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, x.data(), &h.x), "VecCreate");
  require_done(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, b.data(), &h.b), "VecCreate");
  require_done(KSPCreate(PETSC_COMM_SELF, &h.ksp), "KSPCreate");
  require_done(KSPSetOperators(h.ksp, h.matrix, h.matrix), "KSPSetOperators");
  require_done(KSPSetType(h.ksp, KSPFGMRES), "KSPSetType");
  require_done(KSPSetTolerances(h.ksp, wanted.tolerance, 1e-300, 1e300, wanted.max_iterations),
               "KSPSetTolerances");
  PC pc = nullptr;
  require_done(KSPGetPC(h.ksp, &pc), "KSPGetPC");
  require_done(PCSetType(pc, PCFIELDSPLIT), "PCSetType");
  const char* const names[] = {"u", "p"};
  for (int field = 0; field < 2; ++field) {
    std::vector<PetscInt> rows;
    for (std::size_t i = 0; i < fields.field_of_row.size(); ++i)
      if (fields.field_of_row[i] == field) rows.push_back(static_cast<PetscInt>(i));
    require_done(ISCreateGeneral(PETSC_COMM_SELF, static_cast<PetscInt>(rows.size()), rows.data(),
                                 PETSC_COPY_VALUES, &h.rows[field]),
                 "ISCreateGeneral");
    if (field == 0)
      require_done(ISSetBlockSize(h.rows[field], static_cast<PetscInt>(fields.unknowns)), "ISSetBlockSize");
    if (field == 1 && fields.constant) {
      require_done(MatNullSpaceCreate(PETSC_COMM_SELF, PETSC_TRUE, 0, nullptr, &h.constants),
                   "MatNullSpaceCreate");
      require_done(PetscObjectCompose(reinterpret_cast<PetscObject>(h.rows[field]), "nullspace",
                                      reinterpret_cast<PetscObject>(h.constants)),
                   "PetscObjectCompose");
    }
    require_done(PCFieldSplitSetIS(pc, names[field], h.rows[field]), "PCFieldSplitSetIS");
  }
  const bool schur = wanted.preconditioner.starts_with("schur");
  if (schur) {
    require_done(PCFieldSplitSetType(pc, PC_COMPOSITE_SCHUR), "PCFieldSplitSetType");
    require_done(PCFieldSplitSetSchurFactType(pc, wanted.preconditioner == "schur-upper"
                                                      ? PC_FIELDSPLIT_SCHUR_FACT_UPPER
                                                      : PC_FIELDSPLIT_SCHUR_FACT_FULL),
                 "PCFieldSplitSetSchurFactType");
    if (fields.schur) {
      const CsrMatrix<double>& given = *fields.schur;
      const auto m = static_cast<PetscInt>(given.rows());
      if (!given.pattern.row_ptr.p32) return std::nullopt;
      Mat mine = nullptr;
      require_done(
          MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, m, m, indices(given.pattern.row_ptr.p32),
                                    indices(given.pattern.col), const_cast<double*>(given.values), &mine),
          "MatCreateSeqAIJWithArrays");
      const PetscErrorCode copied = MatDuplicate(mine, MAT_COPY_VALUES, &h.schur);
      MatDestroy(&mine);
      require_done(copied, "MatDuplicate");
      require_done(MatScale(h.schur, -1), "MatScale");  // the complement is negative
      require_done(PCFieldSplitSetSchurPre(pc, PC_FIELDSPLIT_SCHUR_PRE_USER, h.schur),
                   "PCFieldSplitSetSchurPre");
    } else {
      require_done(PCFieldSplitSetSchurPre(pc, PC_FIELDSPLIT_SCHUR_PRE_SELFP, nullptr),
                   "PCFieldSplitSetSchurPre");
    }
  } else {
    require_done(PCFieldSplitSetType(pc, PC_COMPOSITE_MULTIPLICATIVE), "PCFieldSplitSetType");
  }
  PreconditionedResult result;
  result.what = fmt::format("fieldsplit, {}, gamg and {}",
                            !schur         ? "multiplicative"
                            : fields.schur ? wanted.preconditioner + " mass"
                                           : wanted.preconditioner + " selfp",
                            fields.inner);
  auto begin = Clock::now();
  require_done(PCSetUp(pc), "PCSetUp");
  KSP* inner = nullptr;
  PetscInt count = 0;
  require_done(PCFieldSplitGetSubKSP(pc, &count, &inner), "PCFieldSplitGetSubKSP");
  for (PetscInt k = 0; k < count; ++k) {
    PC one = nullptr;
    require_done(KSPSetType(inner[k], KSPPREONLY), "KSPSetType");
    require_done(KSPGetPC(inner[k], &one), "KSPGetPC");
    require_done(PCSetType(one, k == 1 ? fields.inner.c_str() : PCGAMG), "PCSetType");
  }
  require_done(PetscFree(inner), "PetscFree");
  require_done(KSPSetUp(h.ksp), "KSPSetUp");
  require_done(KSPSetUpOnBlocks(h.ksp), "KSPSetUpOnBlocks");
  result.setup_seconds = seconds_since(begin);
  begin = Clock::now();
  require_done(KSPSolve(h.ksp, h.b, h.x), "KSPSolve");
  result.solve_seconds = seconds_since(begin);
  PetscInt iterations = 0;
  require_done(KSPGetIterationNumber(h.ksp, &iterations), "KSPGetIterationNumber");
  result.iterations = iterations;
  return result;
}

}  // namespace protean::bench
#else
std::optional<protean::bench::PreconditionedResult> protean::bench::petsc_fieldsplit(
    const CsrMatrix<double>&, const std::vector<double>&, const TwoFields&, const PreconditionedSolve&,
    std::vector<double>&) {
  return std::nullopt;
}
#endif
