#include "benchmarks/peers/peers.hpp"

#if defined(PROTEAN_HAVE_PETSC)
#include <fmt/format.h>
#include <petscksp.h>

#include <memory>
#include <stdexcept>

namespace protean::bench {
namespace {

void require_success(PetscErrorCode code, const char* what) {
  if (code != 0)
    throw std::runtime_error(fmt::format("PETSc: {} failed with code {}", what, static_cast<int>(code)));
}

struct Handles {
  Mat matrix = nullptr;
  Vec x = nullptr, b = nullptr;
  KSP ksp = nullptr;
  ~Handles() { KSPDestroy(&ksp), MatDestroy(&matrix), VecDestroy(&x), VecDestroy(&b); }
};

}  // namespace

std::vector<CgSolve> petsc_cg(const CsrMatrix<double>& csr) {
  const auto& p = csr.pattern;
  if (!p.row_ptr.p32) return {};
  const auto n = static_cast<PetscInt>(p.rows);
  std::vector<CgSolve> list;
  for (const auto& [name, type] :
       {std::pair{"petsc aij", MATSEQAIJ}, {"petsc sell", MATSEQSELL}, {"petsc sbaij", MATSEQSBAIJ}}) {
    auto h = std::make_shared<Handles>();
    Mat view = nullptr;
    require_success(
        MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, n, n, const_cast<PetscInt*>(p.row_ptr.p32),
                                  const_cast<PetscInt*>(p.col), const_cast<double*>(csr.values), &view),
        "MatCreateSeqAIJWithArrays");
    require_success(MatSetOption(view, MAT_SYMMETRIC, PETSC_TRUE), "MatSetOption");
    require_success(std::string(type) == MATSEQAIJ ? MatDuplicate(view, MAT_COPY_VALUES, &h->matrix)
                                                   : MatConvert(view, type, MAT_INITIAL_MATRIX, &h->matrix),
                    "MatConvert");
    MatDestroy(&view);
    require_success(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, nullptr, &h->x), "VecCreate");
    require_success(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, n, nullptr, &h->b), "VecCreate");
    require_success(KSPCreate(PETSC_COMM_SELF, &h->ksp), "KSPCreate");
    require_success(KSPSetOperators(h->ksp, h->matrix, h->matrix), "KSPSetOperators");
    require_success(KSPSetType(h->ksp, KSPCG), "KSPSetType");
    PC pc = nullptr;
    require_success(KSPGetPC(h->ksp, &pc), "KSPGetPC");
    require_success(PCSetType(pc, PCJACOBI), "PCSetType");
    require_success(KSPSetUp(h->ksp), "KSPSetUp");
    list.push_back({name, [h](const double* b, double* x, int iterations) {
                      KSPSetTolerances(h->ksp, 1e-50, 1e-300, 1e300, iterations);
                      VecPlaceArray(h->b, b), VecPlaceArray(h->x, x);
                      require_success(KSPSolve(h->ksp, h->b, h->x), "KSPSolve");
                      VecResetArray(h->b), VecResetArray(h->x);
                    }});
  }
  return list;
}

}  // namespace protean::bench
#else
std::vector<protean::bench::CgSolve> protean::bench::petsc_cg(const CsrMatrix<double>&) { return {}; }
#endif
