// Products by MatMult() of PETSc with matrices of type aij, aijsell and aijprotean, on any number of ranks:
//
//   mpirun -n 2 --bind-to core petsc_ranks_benchmark MATRIX -dll_append libprotean_petsc.so
//
// MATRIX: .mtx, .mtx.xz or .pbin. Each rank has as many rows as PETSC_DECIDE gives. Contestants take turns in rounds;
// a time is that of the slowest rank in a batch of products, divided by their number, and the median of the rounds.
// Prints one line: name, rows, entries, the largest relative difference of a product from that of aij, and for each
// contestant its microseconds a product.
#include <petscmat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <protean/core/context.hpp>
#include <protean/core/io/matrix_market.hpp>
#include <protean/core/io/pbin.hpp>
#include <string>
#include <vector>

namespace {

void ok(PetscErrorCode code) {
  if (code) MPI_Abort(MPI_COMM_WORLD, 2);
}

constexpr int rounds = 15;
constexpr double batch_seconds = 0.05;

struct Contestant {
  const char *name, *type, *options;
  Mat A = nullptr;
  std::vector<double> seconds = {};
};

double batch(Mat A, Vec x, Vec y, int products) {
  MPI_Barrier(PETSC_COMM_WORLD);
  double begin = MPI_Wtime(), mine = 0, slowest = 0;
  for (int k = 0; k < products; ++k) ok(MatMult(A, x, y));
  mine = MPI_Wtime() - begin;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, PETSC_COMM_WORLD);
  return slowest / products;
}

}  // namespace

int main(int argc, char** argv) {
  ok(PetscInitialize(&argc, &argv, nullptr, nullptr));
  if (argc < 2) {
    std::fprintf(stderr, "usage: petsc_ranks_benchmark MATRIX\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const std::string path = argv[1];
  const auto context = protean::Context::host(1);
  const bool binary = path.size() > 5 && path.substr(path.size() - 5) == ".pbin";
  const auto csr = binary ? protean::read_pbin(context, path) : protean::read_matrix_market(context, path);

  int rank = 0;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  const auto rows = static_cast<PetscInt>(csr.rows()), cols = static_cast<PetscInt>(csr.cols());
  // Aijsell is converted where it is filled; MatConvert() would leave its blocks as they are.
  std::vector<PetscInt> row_ptr{0}, col;
  std::vector<double> values;
  const auto make = [&](const char* type, const std::string& prefix) {
    Mat B = nullptr;
    ok(MatCreate(PETSC_COMM_WORLD, &B)), ok(MatSetSizes(B, PETSC_DECIDE, PETSC_DECIDE, rows, cols));
    ok(MatSetOptionsPrefix(B, prefix.c_str())), ok(MatSetType(B, type)), ok(MatSetFromOptions(B));
    if (col.empty()) {
      PetscInt begin = 0, end = 0;
      ok(MatSetUp(B)), ok(MatGetOwnershipRange(B, &begin, &end));
      for (PetscInt i = begin; i < end; ++i) {
        for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
          col.push_back(csr.pattern.col[k]), values.push_back(csr.values[k]);
        row_ptr.push_back(static_cast<PetscInt>(col.size()));
      }
    }
    ok(MatSeqAIJSetPreallocationCSR(B, row_ptr.data(), col.data(), values.data()));
    ok(MatMPIAIJSetPreallocationCSR(B, row_ptr.data(), col.data(), values.data()));
    return B;
  };

  Contestant contestants[] = {{"aij", MATAIJ, ""},
                              {"aijsell", MATAIJSELL, ""},
                              {"csr", "aijprotean", "-csr_mat_protean_format csr"},
                              {"sell-packed", "aijprotean", "-sell-packed_mat_protean_format sell-packed"},
                              {"auto", "aijprotean", ""},
                              {"policy", "aijprotean", "-policy_mat_protean_policy"}};
  for (Contestant& each : contestants) {
    ok(PetscOptionsInsertString(nullptr, each.options));
    each.A = make(each.type, std::string(each.name) + "_");
  }
  const Mat A = contestants[0].A;
  Vec x = nullptr, y = nullptr, expected = nullptr;
  ok(MatCreateVecs(A, &x, &y)), ok(VecDuplicate(y, &expected));
  ok(VecSetRandom(x, nullptr)), ok(MatMult(A, x, expected));
  double worst = 0, scale = 0;
  ok(VecNorm(expected, NORM_INFINITY, &scale));
  for (Contestant& each : contestants) {
    double norm = 0;
    ok(MatMult(each.A, x, y)), ok(VecAXPY(y, -1, expected)), ok(VecNorm(y, NORM_INFINITY, &norm));
    worst = std::max(worst, norm / scale);
  }
  batch(A, x, y, 3);
  const int products = std::clamp(static_cast<int>(batch_seconds / batch(A, x, y, 10)), 10, 20000);
  for (int k = 0; k < 12; ++k) batch(contestants[5].A, x, y, products / 2);  // until the policy has decided
  for (int round = 0; round < rounds; ++round)
    for (Contestant& each : contestants) each.seconds.push_back(batch(each.A, x, y, products));
  if (rank == 0) {
    std::printf("%s\t%d\t%lld\t%.1e", path.substr(path.rfind('/') + 1).c_str(), static_cast<int>(rows),
                static_cast<long long>(csr.nonzeros()), worst);
    for (Contestant& each : contestants) {
      std::sort(each.seconds.begin(), each.seconds.end());
      std::printf("\t%s %.1f (%.1f to %.1f)", each.name, 1e6 * each.seconds[rounds / 2],
                  1e6 * each.seconds.front(), 1e6 * each.seconds.back());
    }
    std::printf("\n");
  }
  for (Contestant& each : contestants) ok(MatDestroy(&each.A));
  ok(VecDestroy(&x)), ok(VecDestroy(&y)), ok(VecDestroy(&expected));
  ok(PetscFinalize());
  return worst < 1e-13 ? 0 : 1;
}
