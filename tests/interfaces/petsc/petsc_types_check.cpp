// Matrices of type aijprotean compared with matrices of type aij, on any number of ranks. Each check prints a line on
// rank 0; the program ends with 1 if one failed on any rank.
#include <petscksp.h>

#include <protean/petsc/protean_petsc.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "petsc_matrices.hpp"

using namespace petsc_matrices;

namespace {

void shapes() {
  int ranks = 0, rank = 0;
  MPI_Comm_size(world, &ranks), MPI_Comm_rank(world, &rank);
  for (const bool far : {false, true}) {
    const std::string kind = far ? ", entries far away" : "";
    for (const Shape& shape : {Shape{200, 200}, {97, 97}, {3, 3}, {1, 1}, {0, 0}, {120, 70}, {60, 150}}) {
      const Pair pair(world, shape, 1, far);
      same_products(pair.ours, pair.aij,
                    std::to_string(shape.rows) + " x " + std::to_string(shape.cols) + kind);
    }
    // All rows on the last rank, all columns on the first.
    const PetscInt n = 50;
    const Pair last(world, {n, n, rank == ranks - 1 ? n : 0, rank == ranks - 1 ? n : 0}, 2, far);
    same_products(last.ours, last.aij, "ranks without rows" + kind);
    const Pair apart(world, {n, 2 * n, rank == ranks - 1 ? n : 0, rank == 0 ? 2 * n : 0}, 2, far);
    same_products(apart.ours, apart.aij, "rows on one rank, columns on another" + kind);
  }
}

void changes() {
  const Pair pair(world, {150, 150}, 4, true);
  same_products(pair.ours, pair.aij, "before changes");
  pair.both([](Mat A) { fill(A, 4, true, 3); }, "new values by MatSetValues");
  pair.both([](Mat A) { ok(MatScale(A, -0.5)); }, "MatScale");
  pair.both([](Mat A) { ok(MatShift(A, 2)); }, "MatShift");
  pair.both(
      [](Mat A) {
        Vec l = nullptr, r = nullptr;
        ok(MatCreateVecs(A, &r, &l)), numbers(l, 8), numbers(r, 9);
        ok(MatDiagonalScale(A, l, nullptr)), ok(MatDiagonalScale(A, nullptr, r)),
            ok(MatDiagonalScale(A, l, r));
        ok(MatDiagonalSet(A, l, ADD_VALUES));
        ok(VecDestroy(&l)), ok(VecDestroy(&r));
      },
      "MatDiagonalScale and MatDiagonalSet");
  pair.both(
      [](Mat A) {
        Mat B = nullptr;
        ok(MatDuplicate(A, MAT_COPY_VALUES, &B));
        ok(MatAXPY(A, 0.25, B, SAME_NONZERO_PATTERN));
        ok(MatDestroy(&B));
      },
      "MatAXPY of the same pattern");
  pair.both(
      [](Mat A) {
        PetscInt begin = 0, end = 0;
        ok(MatGetOwnershipRange(A, &begin, &end));
        std::vector<PetscInt> rows;
        for (PetscInt i = begin; i < end; i += 5) rows.push_back(i);
        ok(MatSetOption(A, MAT_KEEP_NONZERO_PATTERN, PETSC_TRUE));
        ok(MatZeroRows(A, static_cast<PetscInt>(rows.size()), rows.data(), 3, nullptr, nullptr));
      },
      "MatZeroRows");
  pair.both(
      [](Mat A) {  // the arrays of the blocks
        Mat blocks[2] = {A, nullptr};
        if (type_of(A).rfind("mpi", 0) == 0) ok(MatMPIAIJGetSeqAIJ(A, &blocks[0], &blocks[1], nullptr));
        for (Mat block : blocks) {
          if (!block) continue;
          MatInfo info;
          double* values = nullptr;
          ok(MatGetInfo(block, MAT_LOCAL, &info)), ok(MatSeqAIJGetArray(block, &values));
          for (PetscInt k = 0; k < static_cast<PetscInt>(info.nz_used); ++k) values[k] += 0.125 * (k % 7);
          ok(MatSeqAIJRestoreArray(block, &values));
        }
      },
      "values written into the arrays");
  const std::string text = view_of(pair.ours);
  expect(
      text.find("(1 times), new values") != std::string::npos && text.find("(2 times)") == std::string::npos,
      "no conversion for new values: " + text.substr(text.find("Protean"), 160));
  pair.both([](Mat A) { ok(MatZeroEntries(A)), fill(A, 4, true, 2); }, "MatZeroEntries, and values again");
  pair.both([](Mat A) { fill(A, 11, true); }, "a new pattern");
  pair.both([](Mat A) { fill(A, 23, true); }, "another new pattern");
  pair.both(
      [](Mat A) {
        Mat B = made(world, MATAIJ, {150, 150}, 31, true);
        ok(MatAXPY(A, 2, B, DIFFERENT_NONZERO_PATTERN));
        ok(MatDestroy(&B));
      },
      "MatAXPY of another pattern");
}

void duplicates_and_conversions() {
  const Pair pair(world, {140, 140}, 5, true);
  same_products(pair.ours, pair.aij, "before a duplicate");
  Mat B = nullptr, C = nullptr;
  ok(MatDuplicate(pair.ours, MAT_COPY_VALUES, &B));
  same_products(B, pair.aij, "MatDuplicate");
  ok(MatScale(B, 2)), ok(MatDestroy(&B));
  same_products(pair.ours, pair.aij, "after the change of a duplicate");
  ok(MatDuplicate(pair.ours, MAT_DO_NOT_COPY_VALUES, &B)), ok(MatCopy(pair.aij, B, SAME_NONZERO_PATTERN));
  same_products(B, pair.aij, "MatDuplicate without values, and MatCopy");
  ok(MatDestroy(&B));

  ok(MatConvert(pair.aij, "aijprotean", MAT_INITIAL_MATRIX, &B));
  same_products(B, pair.aij, "MatConvert from aij");
  ok(MatScale(pair.aij, 2)), ok(MatConvert(pair.aij, "aijprotean", MAT_REUSE_MATRIX, &B));
  same_products(B, pair.aij, "MatConvert into a matrix that is there");
  ok(MatConvert(B, MATAIJ, MAT_INITIAL_MATRIX, &C));
  expect(!is_ours(C), "MatConvert to aij: " + type_of(C));
  same_products(B, C, "MatConvert to aij");
  ok(MatConvert(C, "aijprotean", MAT_INPLACE_MATRIX, &C));
  same_products(C, pair.aij, "MatConvert in place");
  ok(MatConvert(C, MATAIJ, MAT_INPLACE_MATRIX, &C));
  same_products(B, C, "MatConvert back in place");
  ok(MatDestroy(&B)), ok(MatDestroy(&C));
}

// Products of matrices and transposes keep the type, and blocks are ours again.
void of_matrices() {
  const Pair a(world, {90, 70}, 6, true), b(world, {70, 70}, 7, true);
  Mat ours = nullptr, aij = nullptr;
  ok(MatMatMult(a.ours, b.ours, MAT_INITIAL_MATRIX, 2, &ours));
  ok(MatMatMult(a.aij, b.aij, MAT_INITIAL_MATRIX, 2, &aij));
  same_products(ours, aij, "MatMatMult");
  ok(MatScale(b.ours, 3)), ok(MatScale(b.aij, 3));
  ok(MatMatMult(a.ours, b.ours, MAT_REUSE_MATRIX, 2, &ours));
  ok(MatMatMult(a.aij, b.aij, MAT_REUSE_MATRIX, 2, &aij));
  same_products(ours, aij, "MatMatMult again");
  ok(MatDestroy(&ours)), ok(MatDestroy(&aij));
  ok(MatTranspose(a.ours, MAT_INITIAL_MATRIX, &ours)), ok(MatTranspose(a.aij, MAT_INITIAL_MATRIX, &aij));
  same_products(ours, aij, "MatTranspose");
  ok(MatDestroy(&ours)), ok(MatDestroy(&aij));
  const Pair p(world, {70, 20}, 8, true);
  ok(MatPtAP(b.ours, p.ours, MAT_INITIAL_MATRIX, 2, &ours));
  ok(MatPtAP(b.aij, p.aij, MAT_INITIAL_MATRIX, 2, &aij));
  same_products(ours, aij, "MatPtAP");
  ok(MatDestroy(&ours)), ok(MatDestroy(&aij));
}

void coordinates() {
  Mat A[2] = {nullptr, nullptr};
  const PetscInt n = 110;
  for (const int k : {0, 1}) {
    ok(MatCreate(world, &A[k])), ok(MatSetSizes(A[k], PETSC_DECIDE, PETSC_DECIDE, n, n));
    ok(MatSetType(A[k], k == 0 ? "aijprotean" : MATAIJ)), ok(MatSetFromOptions(A[k])), ok(MatSetUp(A[k]));
  }
  for (const PetscInt seed : {3, 9}) {  // the second time with another pattern
    PetscInt begin = 0, end = 0;
    ok(MatGetOwnershipRange(A[0], &begin, &end));
    std::vector<PetscInt> rows, cols, found;
    std::vector<double> values;
    for (PetscInt i = begin; i < end; ++i) {
      columns_of(i, n, seed, true, found);
      for (const PetscInt j : found)
        rows.push_back(i), cols.push_back(j),
            values.push_back(number(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(j)));
      // An entry in a row of another rank.
      rows.push_back((i + n / 2) % n), cols.push_back(i), values.push_back(0.5);
    }
    for (Mat each : A) {
      std::vector<PetscInt> i = rows, j = cols;  // PETSc may change them
      ok(MatSetPreallocationCOO(each, static_cast<PetscCount>(i.size()), i.data(), j.data()));
      ok(MatSetValuesCOO(each, values.data(), INSERT_VALUES));
    }
    const std::string pattern = ", pattern " + std::to_string(seed);
    same_products(A[0], A[1], "COO preallocation" + pattern);
    for (double& value : values) value *= -2;
    for (Mat each : A) ok(MatSetValuesCOO(each, values.data(), INSERT_VALUES));
    same_products(A[0], A[1], "COO, new values" + pattern);
    for (Mat each : A) ok(MatSetValuesCOO(each, values.data(), ADD_VALUES));
    same_products(A[0], A[1], "COO, added values" + pattern);
  }
  const std::string text = view_of(A[0]);
  int ranks = 0;
  MPI_Comm_size(world, &ranks);
  expect(count_of(text, "format ") >= ranks, "the blocks are ours after COO preallocation");
  ok(MatDestroy(&A[0])), ok(MatDestroy(&A[1]));
}

void communicators() {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(world, &rank), MPI_Comm_size(world, &ranks);
  MPI_Comm part = MPI_COMM_NULL, all = world;
  MPI_Comm_split(world, rank % 2, rank, &part);
  world = part;
  {
    const Pair pair(part, {60 + 10 * (rank % 2), 60 + 10 * (rank % 2)}, 12, true);
    same_products(pair.ours, pair.aij, "half of the ranks, colour " + std::to_string(rank % 2));
    const Pair own(PETSC_COMM_SELF, {40, 40}, rank, true);
    world = PETSC_COMM_SELF;
    const int before = failures;
    same_products(own.ours, own.aij, "a matrix of one rank");
    world = all;
    expect(failures == before, "matrices of one rank");
  }
  MPI_Comm_free(&part);
}

void prefixes() {
  ok(PetscOptionsInsertString(
      nullptr,
      "-one_mat_protean_format sell-packed -one_mat_protean_off_diagonal_format sell-packed "
      "-two_mat_protean_format sell-c-sigma -two_mat_protean_parameters C=4,sigma=16"));
  const Pair one(world, {160, 160}, 13, true, "one_"), two(world, {160, 160}, 13, true, "two_");
  same_products(one.ours, one.aij, "prefix one_"), same_products(two.ours, two.aij, "prefix two_");
  int ranks = 0;
  MPI_Comm_size(world, &ranks);
  const std::string first = view_of(one.ours), second = view_of(two.ours);
  const int blocks = ranks == 1 ? 1 : 2 * ranks;
  expect(count_of(first, "format sell-packed") == blocks &&
             count_of(second, "format sell-c-sigma") == ranks &&
             count_of(second, "format csr") == blocks - ranks,
         "two prefixes, two formats: " + first.substr(first.find("Protean"), 120));
  // A duplicate has the options of the matrix.
  Mat copy = nullptr;
  ok(MatDuplicate(two.ours, MAT_COPY_VALUES, &copy));
  same_products(copy, two.aij, "a duplicate of two_");
  const std::string third = view_of(copy);
  expect(count_of(third, "format sell-c-sigma") == ranks, "a duplicate has the format of its matrix");
  ok(MatDestroy(&copy));
  // Others for the same matrix.
  ok(PetscOptionsInsertString(nullptr,
                              "-one_mat_protean_format hyb -one_mat_protean_off_diagonal_format hyb"));
  ok(MatSetFromOptions(one.ours));
  same_products(one.ours, one.aij, "another format");
  expect(count_of(view_of(one.ours), "format hyb") == blocks, "another format by MatSetFromOptions()");
}

// What -ksp_view and -mat_view ::ascii_info show: the format that was taken, its kernel, and the bytes of all ranks.
void short_views() {
  int ranks = 0;
  MPI_Comm_size(world, &ranks);
  const auto view = [](Mat A) { return view_of(A, PETSC_VIEWER_ASCII_INFO); };
  ok(PetscOptionsInsertString(nullptr, "-short_mat_protean_format sell-packed"));
  const Pair pair(world, {160, 160}, 13, true, "short_");
  const std::string before = view(pair.ours);
  expect(count_of(before, "Protean: asked for sell-packed") == 1 &&
             count_of(before, "none before the first product") == (ranks == 1 ? 1 : 2),
         "a short view before the first product: " + before.substr(before.find("Protean"), 200));
  same_products(pair.ours, pair.aij, "prefix short_");
  const std::string after = view(pair.ours);
  const std::string counted = ranks == 1 ? "; " : " (" + std::to_string(ranks) + " ranks); ";
  expect(count_of(after, "format sell-packed, kernel native" + counted) == 1 &&
             count_of(after, "Protean, off-diagonal block: format csr, kernel native" + counted) ==
                 (ranks == 1 ? 0 : 1) &&
             count_of(after, " bytes\n") == (ranks == 1 ? 1 : 2) && count_of(after, "; 0 bytes") == 0,
         "a short view after it: " + after.substr(after.find("Protean"), 300));
  expect(count_of(view_of(pair.aij, PETSC_VIEWER_ASCII_INFO), "Protean") == 0,
         "PETSc's own matrix says nothing of us");
  ok(PetscOptionsClearValue(nullptr, "-short_mat_protean_format"));
}

// Each rank may change the formats of its blocks between two products; the products stay the same.
void policy() {
  ok(PetscOptionsInsertString(nullptr, "-many_mat_protean_policy"));
  const PetscInt n = 30000;
  const Pair pair(world, {n, n}, 17, true, "many_");
  Vec x = nullptr, y = nullptr, u = nullptr;
  ok(MatCreateVecs(pair.ours, &x, &y)), ok(VecDuplicate(y, &u));
  numbers(x, 21);
  double worst = 0;
  for (int set = 0; set < 2; ++set) {
    ok(MatMult(pair.aij, x, u));
    for (int k = 0; k < 1500; ++k) {
      ok(MatMult(pair.ours, x, y));
      if (k % 10 == 0) worst = std::max(worst, difference(y, u));
    }
    ok(MatScale(pair.ours, 2)), ok(MatScale(pair.aij, 2));  // new values, in whatever format they are now
  }
  same_products(pair.ours, pair.aij, "after 3000 products with the policy");
  std::string text = view_of(pair.ours), lines;
  for (std::size_t at = text.find("Protean"); at != std::string::npos; at = text.find("Protean", at + 1))
    lines += "\n  " + text.substr(at, text.find('\n', at) - at);
  text = lines;
  expect(worst < 1e-14 && text.find("products") != std::string::npos, "products with the policy: " + text);

  // By the residuals of a KSP.
  KSP ksp[2] = {nullptr, nullptr};
  PetscInt iterations[2] = {0, 0};
  for (const int k : {0, 1}) {
    PC pc = nullptr;
    ok(KSPCreate(world, &ksp[k]));
    ok(KSPSetOperators(ksp[k], k == 0 ? pair.ours : pair.aij, k == 0 ? pair.ours : pair.aij));
    ok(KSPSetType(ksp[k], KSPRICHARDSON)), ok(KSPGetPC(ksp[k], &pc)), ok(PCSetType(pc, PCJACOBI));
    ok(KSPSetTolerances(ksp[k], 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 400));
    if (k == 0) ok(KSPProteanWatch(ksp[k])), ok(KSPProteanWatch(ksp[k]));  // the second call has no effect
    for (int solve = 0; solve < 2; ++solve) ok(KSPSolve(ksp[k], y, k == 0 ? x : u));
    ok(KSPGetIterationNumber(ksp[k], &iterations[k]));
  }
  expect(iterations[0] == iterations[1] && iterations[0] > 10 && difference(x, u) < 1e-12,
         "a KSP that is watched: " + std::to_string(iterations[0]) + " iterations");
  ok(KSPDestroy(&ksp[0])), ok(KSPDestroy(&ksp[1]));
  ok(VecDestroy(&x)), ok(VecDestroy(&y)), ok(VecDestroy(&u));
}

std::string last_error;
PetscErrorCode keep_error(MPI_Comm, int, const char*, const char*, PetscErrorCode code, PetscErrorType type,
                          const char* message, void*) {
  if (type == PETSC_ERROR_INITIAL && message) last_error = message;
  return code;
}

void refusals() {
  int rank = 0;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
  const struct {
    const char *options, *part;
    PetscErrorCode code;
  } wrong[] = {
      {"-bad_mat_protean_format sel-packed", "Did you mean 'sell-packed'", PETSC_ERR_ARG_OUTOFRANGE},
      {"-bad_mat_protean_kernel fast", "fast", PETSC_ERR_ARG_OUTOFRANGE},
      {"-bad_mat_protean_order rcm", "MatPermute", PETSC_ERR_SUP},
      {"-bad_mat_protean_threads -3", "-3", PETSC_ERR_ARG_OUTOFRANGE},
      {"-bad_mat_protean_format sell-c-sigma -bad_mat_protean_parameters C", "name=value",
       PETSC_ERR_ARG_OUTOFRANGE},
      {"-bad_mat_protean_parameters C=4", "needs -mat_protean_format", PETSC_ERR_ARG_OUTOFRANGE},
      {"-bad_mat_protean_off_diagonal_format scr", "csr", PETSC_ERR_ARG_OUTOFRANGE},
      {"-bad_mat_protean_formt csr", "no option -bad_mat_protean_formt. Did you mean '-mat_protean_format'?",
       PETSC_ERR_ARG_OUTOFRANGE},
      {"-bad_mat_protean_zzz", "There are -mat_protean_format, ", PETSC_ERR_ARG_OUTOFRANGE}};
  for (const auto& each : wrong) {
    ok(PetscOptionsInsertString(nullptr, each.options));
    Mat A = nullptr;
    ok(MatCreate(world, &A)), ok(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, 30, 30));
    ok(MatSetType(A, "aijprotean")), ok(MatSetOptionsPrefix(A, "bad_"));
    last_error.clear();
    ok(PetscPushErrorHandler(keep_error, nullptr));
    const PetscErrorCode code = MatSetFromOptions(A);
    ok(PetscPopErrorHandler());
    for (const char* name :
         {"format", "kernel", "order", "threads", "parameters", "off_diagonal_format", "formt", "zzz"})
      ok(PetscOptionsClearValue(nullptr, ("-bad_mat_protean_" + std::string(name)).c_str()));
    expect(code == each.code && last_error.find(each.part) != std::string::npos &&
               last_error.find("rank " + std::to_string(rank)) != std::string::npos,
           std::string(each.options) + ": " + last_error.substr(0, 160));
    ok(MatDestroy(&A));
  }
  // Options of others are theirs: another prefix, a longer stem, a value that looks like one. Case does not matter.
  ok(PetscOptionsInsertString(nullptr,
                              "-other_mat_protean_formt csr -mat_protean_formt csr -bad_mat_proteanx 1 "
                              "-BAD_mat_Protean_Format csr"));
  {
    Mat A = nullptr;
    ok(MatCreate(world, &A)), ok(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, 30, 30));
    ok(MatSetType(A, "aijprotean")), ok(MatSetOptionsPrefix(A, "bad_"));
    expect(MatSetFromOptions(A) == 0, "options of others are no error");
    ok(MatDestroy(&A));
  }
  for (const char* name :
       {"-other_mat_protean_formt", "-mat_protean_formt", "-bad_mat_proteanx", "-BAD_mat_Protean_Format"})
    ok(PetscOptionsClearValue(nullptr, name));
  // The same of the KSP.
  for (const bool right : {false, true}) {
    const char* const option = right ? "-ksp_protean_method" : "-ksp_protean_metod";
    ok(PetscOptionsSetValue(nullptr, option, "minres"));
    KSP ksp = nullptr;
    ok(KSPCreate(PETSC_COMM_SELF, &ksp)), ok(KSPSetType(ksp, "protean"));
    last_error.clear();
    ok(PetscPushErrorHandler(keep_error, nullptr));
    const PetscErrorCode code = KSPSetFromOptions(ksp);
    ok(PetscPopErrorHandler());
    expect(right ? code == 0
                 : code == PETSC_ERR_ARG_OUTOFRANGE &&
                       last_error.find("no option -ksp_protean_metod. Did you mean '-ksp_protean_method'?") !=
                           std::string::npos,
           std::string(option) + ": " + last_error.substr(0, 160));
    ok(PetscOptionsClearValue(nullptr, option)), ok(KSPDestroy(&ksp));
  }
  // A format that the blocks cannot have: an error with rank and block, no other format in silence.
  ok(PetscOptionsInsertString(nullptr, "-bad_mat_protean_format sss"));
  Mat A = made(world, "aijprotean", {60, 60}, 3, true, "bad_");
  Vec x = nullptr, y = nullptr;
  ok(MatCreateVecs(A, &x, &y)), ok(VecSet(x, 1));
  last_error.clear();
  ok(PetscPushErrorHandler(keep_error, nullptr));
  const PetscErrorCode code = MatMult(A, x, y);
  ok(PetscPopErrorHandler());
  expect(code != 0 && last_error.find("rank " + std::to_string(rank)) != std::string::npos,
         "a format that is refused: " + last_error.substr(0, 200));
  ok(PetscOptionsClearValue(nullptr, "-bad_mat_protean_format"));
  ok(MatDestroy(&A)), ok(VecDestroy(&x)), ok(VecDestroy(&y));
}

}  // namespace

int main(int argc, char** argv) {
  ok(PetscInitialize(&argc, &argv, nullptr, nullptr));
  ok(PetscDLLibraryRegister_protean_petsc());
  world = PETSC_COMM_WORLD;
  int rank = 0;
  MPI_Comm_rank(world, &rank);
  shapes();
  changes();
  duplicates_and_conversions();
  of_matrices();
  coordinates();
  communicators();
  prefixes();
  short_views();
  policy();
  refusals();
  if (rank == 0) std::printf("%d failed\n", failures);
  ok(PetscFinalize());
  return failures == 0 ? 0 : 1;
}
