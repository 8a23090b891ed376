#include "benchmarks/peers/peers.hpp"

#if defined(PROTEAN_HAVE_PETSC)
#include <fmt/format.h>
#include <petscmat.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "benchmarks/common/clock.hpp"

namespace protean::bench {
namespace {

void require_success(PetscErrorCode code, const char* what) {
  if (code != 0)
    throw std::runtime_error(fmt::format("PETSc: {} failed with code {}", what, static_cast<int>(code)));
}

struct Handles {
  Mat matrix = nullptr;
  Vec x = nullptr, y = nullptr;
  ~Handles() { MatDestroy(&matrix), VecDestroy(&x), VecDestroy(&y); }
};

std::vector<Product> products(const CsrMatrix<double>& csr, bool symmetric, int) {
  const auto& p = csr.pattern;
  if (!p.row_ptr.p32) return {};
  std::vector<Product> list;
  for (const auto& [name, type] :
       {std::pair{"petsc aij", MATSEQAIJ}, {"petsc sell", MATSEQSELL}, {"petsc sbaij", MATSEQSBAIJ}}) {
    const bool half = std::string(type) == MATSEQSBAIJ;
    if (half && !symmetric) continue;
    const auto start = Clock::now();
    auto handles = std::make_shared<Handles>();
    Mat view = nullptr;
    require_success(
        MatCreateSeqAIJWithArrays(PETSC_COMM_SELF, static_cast<PetscInt>(p.rows),
                                  static_cast<PetscInt>(p.cols), const_cast<PetscInt*>(p.row_ptr.p32),
                                  const_cast<PetscInt*>(p.col), const_cast<double*>(csr.values), &view),
        "MatCreateSeqAIJWithArrays");
    if (half) require_success(MatSetOption(view, MAT_SYMMETRIC, PETSC_TRUE), "MatSetOption");
    require_success(std::string(type) == MATSEQAIJ
                        ? MatDuplicate(view, MAT_COPY_VALUES, &handles->matrix)
                        : MatConvert(view, type, MAT_INITIAL_MATRIX, &handles->matrix),
                    "MatConvert");
    MatDestroy(&view);
    require_success(
        VecCreateSeqWithArray(PETSC_COMM_SELF, 1, static_cast<PetscInt>(p.cols), nullptr, &handles->x),
        "VecCreate");
    require_success(
        VecCreateSeqWithArray(PETSC_COMM_SELF, 1, static_cast<PetscInt>(p.rows), nullptr, &handles->y),
        "VecCreate");
    list.push_back({name,
                    [handles](const double* x, double* y) {
                      VecPlaceArray(handles->x, x), VecPlaceArray(handles->y, y);
                      require_success(MatMult(handles->matrix, handles->x, handles->y), "MatMult");
                      VecResetArray(handles->x), VecResetArray(handles->y);
                    },
                    seconds_since(start)});
  }
  return list;
}

}  // namespace

Peer petsc() {
  // One process without a launcher.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0), setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  require_success(PetscInitializeNoArguments(), "PetscInitialize");
  return {"PETSc", fmt::format("{}.{}.{}", PETSC_VERSION_MAJOR, PETSC_VERSION_MINOR, PETSC_VERSION_SUBMINOR),
          products};
}

}  // namespace protean::bench
#else
protean::bench::Peer protean::bench::petsc() { return {"PETSc", "", nullptr}; }
#endif
