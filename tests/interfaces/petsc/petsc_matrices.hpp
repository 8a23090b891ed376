// Matrices of type aijprotean and of type aij with the same entries, and products of both.
#pragma once
#include <petscksp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace petsc_matrices {

inline int failures = 0;
inline MPI_Comm world = MPI_COMM_NULL;

inline void ok(PetscErrorCode code) {
  if (code) {
    std::fprintf(stderr, "a call of PETSc returned %d\n", static_cast<int>(code));
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
}

inline void expect(bool good, const std::string& what) {
  int mine = good ? 0 : 1, any = 0, rank = 0;
  MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_SUM, world);
  MPI_Comm_rank(world, &rank);
  if (any > 0) ++failures;
  if (rank == 0) std::printf("%s: %s\n", any ? "FAILED" : "ok", what.c_str());
}

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
inline double number(std::uint64_t a, std::uint64_t b) {
  return 0.5 + static_cast<double>(mixed(a, b) >> 11) * 0x1p-53;
}

// Entries of row i: near the diagonal, and some far away, so that off-diagonal blocks have entries in all rows, in some
// or in none (`far`).
inline void columns_of(PetscInt i, PetscInt cols, PetscInt seed, bool far, std::vector<PetscInt>& found) {
  found.clear();
  if (cols == 0) return;
  for (PetscInt d = -2; d <= 2; ++d)
    if (i + d >= 0 && i + d < cols) found.push_back(i + d);
  if (far && mixed(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(seed)) % 3 == 0)
    for (std::uint64_t k = 0; k < 3; ++k)
      found.push_back(static_cast<PetscInt>(
          mixed(static_cast<std::uint64_t>(i) * 7 + k, static_cast<std::uint64_t>(seed)) %
          static_cast<std::uint64_t>(cols)));
}

struct Shape {
  PetscInt rows, cols;
  // Rows and columns of this rank; PETSC_DECIDE: as PETSc divides them.
  PetscInt own_rows = PETSC_DECIDE, own_cols = PETSC_DECIDE;
};

inline void fill(Mat A, PetscInt seed, bool far, double scale = 1) {
  PetscInt begin = 0, end = 0, cols = 0;
  ok(MatGetOwnershipRange(A, &begin, &end)), ok(MatGetSize(A, nullptr, &cols));
  std::vector<PetscInt> found;
  for (PetscInt i = begin; i < end; ++i) {
    columns_of(i, cols, seed, far, found);
    for (const PetscInt j : found)
      ok(MatSetValue(
          A, i, j,
          scale * (i == j ? 8 : -number(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(j))),
          INSERT_VALUES));
  }
  ok(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY)), ok(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
}

inline Mat made(MPI_Comm comm, const char* type, Shape shape, PetscInt seed, bool far,
                const char* prefix = nullptr) {
  Mat A = nullptr;
  ok(MatCreate(comm, &A));
  ok(MatSetSizes(A, shape.own_rows, shape.own_cols, shape.rows, shape.cols));
  ok(MatSetType(A, type));
  if (prefix) ok(MatSetOptionsPrefix(A, prefix));
  ok(MatSetFromOptions(A));
  ok(MatSetUp(A));
  ok(MatSetOption(A, MAT_NEW_NONZERO_ALLOCATION_ERR, PETSC_FALSE));
  fill(A, seed, far);
  return A;
}

inline std::string type_of(Mat A) {
  MatType type = nullptr;
  ok(MatGetType(A, &type));
  return type;
}
inline bool is_ours(Mat A) { return type_of(A).find("aijprotean") == 3; }

inline void numbers(Vec v, std::uint64_t seed) {
  PetscInt begin = 0, end = 0;
  double* data = nullptr;
  ok(VecGetOwnershipRange(v, &begin, &end)), ok(VecGetArray(v, &data));
  for (PetscInt i = begin; i < end; ++i) data[i - begin] = number(static_cast<std::uint64_t>(i), seed) - 1;
  ok(VecRestoreArray(v, &data));
}
inline double difference(Vec a, Vec b) {
  double norm = 0, size = 0;
  ok(VecNorm(b, NORM_INFINITY, &size));
  ok(VecAXPY(a, -1, b)), ok(VecNorm(a, NORM_INFINITY, &norm));
  return norm / (size > 0 ? size : 1);
}

// Products of two matrices with the same entries.
inline void same_products(Mat A, Mat B, const std::string& what) {
  Vec x = nullptr, y = nullptr, u = nullptr, v = nullptr, w = nullptr;
  ok(MatCreateVecs(A, &x, &y)), ok(VecDuplicate(y, &u)), ok(VecDuplicate(y, &w)), ok(VecDuplicate(x, &v));
  numbers(x, 3), numbers(w, 5);
  double worst = 0;
  const auto keep = [&](Vec a, Vec b) { worst = std::max(worst, difference(a, b)); };
  ok(MatMult(A, x, y)), ok(MatMult(B, x, u)), keep(y, u);
  ok(VecSet(y, NAN)), ok(MatMult(A, x, y)), keep(y, u);  // y is not read
  ok(MatMultAdd(A, x, w, y)), ok(MatMultAdd(B, x, w, u)), keep(y, u);
  ok(VecCopy(w, y)), ok(MatMultAdd(A, x, y, y)), keep(y, u);
  Vec t = nullptr, s = nullptr;
  ok(VecDuplicate(x, &t)), ok(VecDuplicate(x, &s));
  ok(MatMultTranspose(A, w, t)), ok(MatMultTranspose(B, w, s)), keep(t, s);
  ok(MatMultTransposeAdd(A, w, x, t)), ok(MatMultTransposeAdd(B, w, x, s)), keep(t, s);
  PetscInt rows = 0, cols = 0;
  ok(MatGetSize(A, &rows, &cols));
  if (rows == cols) ok(MatGetDiagonal(A, y)), ok(MatGetDiagonal(B, u)), keep(y, u);
  char text[100];
  std::snprintf(text, sizeof text, ", relative difference %.1e", worst);
  expect(worst < 1e-14 && is_ours(A) && !is_ours(B), what + text);
  for (Vec* each : {&x, &y, &u, &v, &w, &t, &s}) ok(VecDestroy(each));
}

inline std::string view_of(Mat A, PetscViewerFormat format = PETSC_VIEWER_ASCII_INFO_DETAIL) {
  char* text = nullptr;
  std::size_t size = 0;
  MPI_Comm comm = PetscObjectComm(reinterpret_cast<PetscObject>(A));
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  FILE* const file = open_memstream(&text, &size);
  PetscViewer viewer = nullptr;
  ok(PetscViewerASCIIOpenWithFILE(comm, file, &viewer));
  ok(PetscViewerPushFormat(viewer, format));
  ok(MatView(A, viewer));
  ok(PetscViewerPopFormat(viewer)), ok(PetscViewerDestroy(&viewer));
  std::fclose(file);
  std::string result(text, size);
  std::free(text);
  int length = static_cast<int>(result.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, comm);
  result.resize(static_cast<std::size_t>(length));
  MPI_Bcast(result.data(), length, MPI_CHAR, 0, comm);
  return result;
}
inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// A matrix and the same one of type aij.
struct Pair {
  Mat ours = nullptr, aij = nullptr;
  Pair(MPI_Comm comm, Shape shape, PetscInt seed, bool far, const char* prefix = nullptr)
      : ours(made(comm, "aijprotean", shape, seed, far, prefix)), aij(made(comm, MATAIJ, shape, seed, far)) {}
  ~Pair() { ok(MatDestroy(&ours)), ok(MatDestroy(&aij)); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  void both(const std::function<void(Mat)>& f, const std::string& what) const {
    f(ours), f(aij);
    same_products(ours, aij, what);
  }
};

}  // namespace petsc_matrices
