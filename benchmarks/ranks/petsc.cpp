// Matrices of type aijprotean next to PETSc's own types, on any number of ranks that mpirun -n N --bind-to none starts.
//
// The ranks bind themselves to a processor each; two that wait for each other on one processor would measure its
// scheduler. A rank that computes alone has all processors.
//
// Each rank has as many rows as PETSC_DECIDE gives. Contestants take turns in rounds; a time is the time of the slowest
// rank, and the script takes the median of the rounds. Three measurements:
//
// - products by MatMult(), in seconds each, from batches of them;
// - with --cg, for a positive definite matrix: solves by KSPCG with PCJACOBI to 1e-8. The KSP is created and
//   set up anew, and the matrix is converted, in each solve. Filling the matrix is not part: it is the same for all;
// - with --threads N: the same products on rank 0 alone, by N threads, while the other ranks sleep.
//
// Prints one line of JSON on rank 0. petsc_ranks.py runs it for ten matrices.
#include <petscksp.h>
#include <sched.h>
#include <unistd.h>

#include <protean/petsc/protean_petsc.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <protean/core/context.hpp>
#include <protean/core/io/matrix_market.hpp>
#include <protean/core/io/pbin.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/common/options.hpp"

namespace protean::bench {
namespace {

using json = nlohmann::ordered_json;

void ok(PetscErrorCode code) {
  if (code) MPI_Abort(MPI_COMM_WORLD, 2);
}

constexpr int product_rounds = 15, least_solves = 3, most_solves = 9;
constexpr double batch_seconds = 0.04, solves_seconds = 15;

struct Contestant {
  std::string name, type, options;  // options without the prefix of the matrix
  bool watched = false;             // by KSPProteanWatch()
  Mat A = nullptr;
  std::vector<double> seconds = {};
  int iterations = 0;
  double residual = 0;
};

const char* const packed = "-mat_protean_format sell-packed";

// The rows of this process, from which all matrices are filled.
struct Rows {
  MPI_Comm comm = MPI_COMM_NULL;
  PetscInt rows = 0, cols = 0;
  std::vector<PetscInt> row_ptr{0}, col;
  std::vector<double> values;

  Rows(MPI_Comm communicator, const CsrMatrix<double>& csr)
      : comm(communicator), rows(static_cast<PetscInt>(csr.rows())), cols(static_cast<PetscInt>(csr.cols())) {
    PetscInt own = PETSC_DECIDE, all = rows, begin = 0, end = 0;
    ok(PetscSplitOwnership(comm, &own, &all));
    MPI_Scan(&own, &end, 1, MPIU_INT, MPI_SUM, comm);
    begin = end - own;
    for (PetscInt i = begin; i < end; ++i) {
      for (std::int64_t k = csr.pattern.row_ptr[i]; k < csr.pattern.row_ptr[i + 1]; ++k)
        col.push_back(csr.pattern.col[k]), values.push_back(csr.values[k]);
      row_ptr.push_back(static_cast<PetscInt>(col.size()));
    }
  }

  // Aijsell is converted when it is filled; MatConvert() would leave its blocks as they are.
  Mat make(const Contestant& contestant) const {
    const std::string prefix = contestant.name + "_";
    ok(PetscOptionsPrefixPush(nullptr, prefix.c_str()));
    ok(PetscOptionsInsertString(nullptr, contestant.options.c_str()));
    ok(PetscOptionsPrefixPop(nullptr));
    Mat B = nullptr;
    ok(MatCreate(comm, &B)), ok(MatSetSizes(B, PETSC_DECIDE, PETSC_DECIDE, rows, cols));
    ok(MatSetOptionsPrefix(B, prefix.c_str())), ok(MatSetType(B, contestant.type.c_str()));
    ok(MatSetFromOptions(B));
    ok(MatSeqAIJSetPreallocationCSR(B, row_ptr.data(), col.data(), values.data()));
    ok(MatMPIAIJSetPreallocationCSR(B, row_ptr.data(), col.data(), values.data()));
    return B;
  }
};

double slowest_of(MPI_Comm comm, double mine) {
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
  return slowest;
}

double batch(MPI_Comm comm, Mat A, Vec x, Vec y, int products) {
  MPI_Barrier(comm);
  const double begin = MPI_Wtime();
  for (int k = 0; k < products; ++k) ok(MatMult(A, x, y));
  return slowest_of(comm, MPI_Wtime() - begin) / products;
}

// The largest relative difference of a product from the product of the first contestant.
double products(const Rows& given, std::vector<Contestant>& contestants) {
  for (Contestant& each : contestants) each.A = given.make(each);
  Vec x = nullptr, y = nullptr, expected = nullptr;
  const Mat first = contestants[0].A;
  ok(MatCreateVecs(first, &x, &y)), ok(VecDuplicate(y, &expected));
  ok(VecSetRandom(x, nullptr)), ok(MatMult(first, x, expected));
  double worst = 0, scale = 0;
  ok(VecNorm(expected, NORM_INFINITY, &scale));
  for (const Contestant& each : contestants) {
    double norm = 0;
    ok(MatMult(each.A, x, y)), ok(VecAXPY(y, -1, expected)), ok(VecNorm(y, NORM_INFINITY, &norm));
    worst = std::max(worst, norm / scale);
  }
  batch(given.comm, first, x, y, 3);
  const int number =
      std::clamp(static_cast<int>(batch_seconds / batch(given.comm, first, x, y, 10)), 10, 20000);
  for (const Contestant& each : contestants)  // until the policy has decided
    for (int k = 0; k < (each.name == "policy" ? 12 : 1); ++k) batch(given.comm, each.A, x, y, number / 2);
  for (int round = 0; round < product_rounds; ++round)
    for (Contestant& each : contestants) each.seconds.push_back(batch(given.comm, each.A, x, y, number));
  for (Contestant& each : contestants) ok(MatDestroy(&each.A));
  ok(VecDestroy(&x)), ok(VecDestroy(&y)), ok(VecDestroy(&expected));
  return worst;
}

void solve(const Rows& given, Contestant& contestant, Vec b, Vec x, Vec r) {
  const Mat A = given.make(contestant);
  KSP ksp = nullptr;
  PC pc = nullptr;
  MPI_Barrier(given.comm);
  const double begin = MPI_Wtime();
  ok(KSPCreate(given.comm, &ksp)), ok(KSPSetType(ksp, KSPCG)), ok(KSPGetPC(ksp, &pc)),
      ok(PCSetType(pc, PCJACOBI));
  ok(KSPSetOperators(ksp, A, A)), ok(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, 100000));
  ok(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
  if (contestant.watched) ok(KSPProteanWatch(ksp));
  ok(KSPSolve(ksp, b, x));
  contestant.seconds.push_back(slowest_of(given.comm, MPI_Wtime() - begin));
  PetscInt iterations = 0;
  double norm = 0, scale = 0;
  ok(KSPGetIterationNumber(ksp, &iterations));
  ok(MatMult(A, x, r)), ok(VecAYPX(r, -1, b)), ok(VecNorm(r, NORM_2, &norm)), ok(VecNorm(b, NORM_2, &scale));
  contestant.iterations = static_cast<int>(iterations), contestant.residual = norm / scale;
  ok(KSPDestroy(&ksp));
  Mat done = A;
  ok(MatDestroy(&done));
}

void solves(const Rows& given, std::vector<Contestant>& contestants) {
  const Mat A = given.make(contestants[0]);
  Vec x = nullptr, b = nullptr, r = nullptr;
  ok(MatCreateVecs(A, &x, &b)), ok(VecDuplicate(b, &r));
  ok(VecSetRandom(x, nullptr)), ok(MatMult(A, x, b));
  Mat done = A;
  ok(MatDestroy(&done));
  // The first solve of a process is slower, which counts if it is short.
  solve(given, contestants[0], b, x, r);
  if (contestants[0].seconds[0] < 1)
    for (Contestant& each : contestants) solve(given, each, b, x, r);
  for (Contestant& each : contestants) each.seconds.clear();
  double begin = MPI_Wtime(), spent = 0;
  for (int round = 0; round < least_solves || (round < most_solves && spent < solves_seconds); ++round) {
    for (Contestant& each : contestants) solve(given, each, b, x, r);
    spent = slowest_of(given.comm, MPI_Wtime() - begin);  // all ranks must end in the same round
  }
  ok(VecDestroy(&x)), ok(VecDestroy(&b)), ok(VecDestroy(&r));
}

// The processors that this process may use: all that it had at the start, or the one of its rank.
class Processors {
 public:
  explicit Processors(int rank) {
    if (sched_getaffinity(0, sizeof all_, &all_) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    int left = rank % std::max(CPU_COUNT(&all_), 1);
    CPU_ZERO(&one_);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &all_) && left-- == 0) CPU_SET(cpu, &one_);
  }
  void take_one() const { take(one_); }
  void take_all() const { take(all_); }

 private:
  static void take(const cpu_set_t& set) {
    if (sched_setaffinity(0, sizeof set, &set) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  }
  cpu_set_t all_, one_;
};

// The other ranks sleep: a barrier of MPI would compute while it waits.
void sleep_until_done(bool working) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
    if (!working) usleep(2000);
}

json as_json(const std::vector<Contestant>& contestants) {
  json all = json::object();
  for (const Contestant& each : contestants) {
    all[each.name]["seconds"] = each.seconds;
    if (each.iterations > 0)
      all[each.name]["iterations"] = each.iterations, all[each.name]["residual"] = each.residual;
  }
  return all;
}

}  // namespace

int run_petsc(Arguments& arguments) {
  std::string path;
  bool positive_definite = false;
  int threads = 0;
  arguments.read(
      {{"--matrix FILE", &path, ".mtx, .mtx.xz or .pbin", required()},
       {"--cg", &positive_definite, "solves, too; the matrix is positive definite"},
       {"--threads", &threads, "products on one rank with as many threads, too; 0: none", at_least(0)}});
  ok(PetscInitialize(nullptr, nullptr, nullptr, nullptr));
  ok(PetscDLLibraryRegister_protean_petsc());
  const auto context = Context::host(1);
  const bool binary = path.size() > 5 && path.substr(path.size() - 5) == ".pbin";
  const auto csr = binary ? read_pbin(context, path) : read_matrix_market(context, path);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(PETSC_COMM_WORLD, &rank), MPI_Comm_size(PETSC_COMM_WORLD, &ranks);

  const Processors processors(rank);
  processors.take_one();
  const Rows rows(PETSC_COMM_WORLD, csr);
  std::vector<Contestant> multiplied {
    {"aij", MATAIJ, ""}, {"aijsell", MATAIJSELL, ""},
#if defined(PETSC_HAVE_MKL_SPARSE)
        {"aijmkl", MATAIJMKL, ""},
#endif
        {"csr", "aijprotean", "-mat_protean_format csr"}, {"sell-packed", "aijprotean", packed},
        {"auto", "aijprotean", ""}, {
      "policy", "aijprotean", "-mat_protean_policy"
    }
  };
  double worst = products(rows, multiplied);
  json result{{"matrix", path.substr(path.rfind('/') + 1)},
              {"rows", csr.rows()},
              {"entries", csr.nonzeros()},
              {"ranks", ranks},
              {"products", as_json(multiplied)}};
  if (positive_definite) {
    std::vector<Contestant> solved{{"aij", MATAIJ, ""},
                                   {"aijsell", MATAIJSELL, ""},
                                   {"auto", "aijprotean", ""},
                                   {"policy", "aijprotean", "-mat_protean_policy"},
                                   {"watched", "aijprotean", "-mat_protean_policy", true}};
    solves(rows, solved);
    result["solves"] = as_json(solved);
  }
  if (threads > 0) {
    if (rank == 0) {
      processors.take_all();
      const Rows all(PETSC_COMM_SELF, csr);
      const std::string with = " -mat_protean_threads " + std::to_string(threads);
      std::vector<Contestant> alone{{"one-csr", "aijprotean", "-mat_protean_format csr" + with},
                                    {"one-sell-packed", "aijprotean", packed + with}};
      worst = std::max(worst, products(all, alone));
      result["threads"] = threads;
      result["one_rank"] = {{"csr", as_json(alone)["one-csr"]},
                            {"sell-packed", as_json(alone)["one-sell-packed"]}};
    }
    sleep_until_done(rank == 0);
  }
  result["difference"] = worst;
  if (rank == 0) std::printf("%s\n", result.dump().c_str());
  ok(PetscFinalize());
  return worst < 1e-13 ? 0 : 1;
}

}  // namespace protean::bench
