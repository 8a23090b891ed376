// What a model of an iteration needs, and the iteration itself: CG with Jacobi of PETSc on the Poisson matrix of seven
// points, n^3 rows in slabs on the ranks of MPI_COMM_WORLD. benchmarks/ranks_model.py calls it.
//
// It prints JSON on rank 0. Seconds are the least of the rounds, on the slowest rank. The first N is the one that the
// rates are measured with.
#include <petscksp.h>

#include <protean/petsc/protean_petsc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/common/options.hpp"

namespace protean::bench {
namespace {

int rank = 0, ranks = 1;
constexpr PetscInt iterations = 50;

void ok(PetscErrorCode code) {
  if (code) MPI_Abort(MPI_COMM_WORLD, 2);
}

// Seconds of one call, if there are several in a row: from the first rank that begins to the last one that ends, since
// ranks may share processors. The ranks are on one machine, whose clock they share.
double seconds(int calls, const std::function<void()>& f) {
  MPI_Barrier(MPI_COMM_WORLD);
  double times[2] = {-MPI_Wtime(), 0}, all[2] = {0, 0};
  for (int k = 0; k < calls; ++k) f();
  times[1] = MPI_Wtime();
  MPI_Allreduce(times, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return (all[0] + all[1]) / calls;
}

Mat poisson(PetscInt n, const std::string& format) {
  const PetscInt all = n * n * n, square = n * n;
  const PetscInt first = n * rank / ranks * square, end = n * (rank + 1) / ranks * square;
  std::vector<PetscInt> row_ptr{0}, col;
  std::vector<double> values;
  for (PetscInt i = first; i < end; ++i) {
    const PetscInt x = i % n, y = i / n % n, z = i / square;
    const auto add = [&](bool there, PetscInt j, double value) {
      if (there) col.push_back(j), values.push_back(value);
    };
    add(z > 0, i - square, -1), add(y > 0, i - n, -1), add(x > 0, i - 1, -1), add(true, i, 6);
    add(x < n - 1, i + 1, -1), add(y < n - 1, i + n, -1), add(z < n - 1, i + square, -1);
    row_ptr.push_back(static_cast<PetscInt>(col.size()));
  }
  ok(PetscOptionsClearValue(nullptr, "-mat_protean_format"));
  if (format != "aij") ok(PetscOptionsSetValue(nullptr, "-mat_protean_format", format.c_str()));
  Mat A = nullptr;
  ok(MatCreate(PETSC_COMM_WORLD, &A)), ok(MatSetSizes(A, end - first, end - first, all, all));
  ok(MatSetType(A, format == "aij" ? MATAIJ : "aijprotean")), ok(MatSetFromOptions(A));
  ok(MatSeqAIJSetPreallocationCSR(A, row_ptr.data(), col.data(), values.data()));
  ok(MatMPIAIJSetPreallocationCSR(A, row_ptr.data(), col.data(), values.data()));
  return A;
}

struct System {
  Mat A = nullptr, own = nullptr;  // own: the diagonal block
  Vec x = nullptr, y = nullptr, u = nullptr, from = nullptr, to = nullptr;
  KSP ksp = nullptr;
  double iteration = 1e300, product = 1e300, work = 1e300;  // work: product and vectors

  System(PetscInt n, const std::string& format) : A(poisson(n, format)) {
    PC pc = nullptr;
    ok(MatCreateVecs(A, &x, &y)), ok(VecDuplicate(x, &u)), ok(VecSet(x, 1)), ok(VecSet(u, 0.5)),
        ok(MatMult(A, x, y));
    own = A;
    if (ranks > 1) ok(MatMPIAIJGetSeqAIJ(A, &own, nullptr, nullptr));
    ok(MatCreateVecs(own, &from, &to)), ok(VecSet(from, 1));
    ok(KSPCreate(PETSC_COMM_WORLD, &ksp)), ok(KSPSetOperators(ksp, A, A)), ok(KSPSetType(ksp, KSPCG));
    ok(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED)), ok(KSPGetPC(ksp, &pc)), ok(PCSetType(pc, PCJACOBI));
    ok(KSPSetTolerances(ksp, 1e-300, 1e-300, PETSC_DEFAULT, iterations)), ok(KSPSetUp(ksp));
  }
  ~System() {
    ok(KSPDestroy(&ksp)), ok(MatDestroy(&A));
    for (Vec* each : {&x, &y, &u, &from, &to}) ok(VecDestroy(each));
  }
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  void measure(bool rates) {
    // A solve begins with less than the work of one iteration.
    iteration = std::min(iteration, seconds(1, [&] { ok(KSPSolve(ksp, x, u)); }) / iterations);
    if (!rates) return;
    // A reduction keeps the ranks in step, as in an iteration, so that they do not find the arrays in the caches that
    // an iteration would not find there.
    double in = 1, out = 0;
    const auto in_step = [&] { MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); };
    const double step = ranks > 1 ? seconds(200, in_step) : 0;
    product = std::min(product, seconds(10, [&] { ok(MatMult(own, from, to)), in_step(); }) - step);
    // The vectors of an iteration: three updates, a product of vectors, three dot products; without communication.
    PetscInt size = 0;
    double *a = nullptr, *b = nullptr, *c = nullptr;
    ok(VecGetLocalSize(x, &size));
    ok(VecGetArray(x, &a)), ok(VecGetArray(y, &b)), ok(VecGetArray(u, &c));
    Vec va = nullptr, vb = nullptr, vc = nullptr;
    ok(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, size, a, &va)),
        ok(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, size, b, &vb));
    ok(VecCreateSeqWithArray(PETSC_COMM_SELF, 1, size, c, &vc));
    double s = 0;
    work = std::min(work, seconds(10, [&] {
                            ok(MatMult(own, from, to));
                            ok(VecAXPY(vb, 1e-9, va)), ok(VecAXPY(vc, -1e-9, va)), ok(VecAYPX(vb, 0.5, vc)),
                                ok(VecPointwiseMult(to, va, vb));
                            ok(VecDot(va, vb, &s)), ok(VecDot(vb, vc, &s)), ok(VecNorm(vc, NORM_2, &s)),
                                in_step();
                          }) - step);
    for (Vec* each : {&va, &vb, &vc}) ok(VecDestroy(each));
    ok(VecRestoreArray(x, &a)), ok(VecRestoreArray(y, &b)), ok(VecRestoreArray(u, &c));
  }
};

// Seconds of a message of this many bytes from rank 0 to 1, half of there and back.
double message(int bytes) {
  if (ranks == 1) return 0;
  std::vector<char> data(static_cast<std::size_t>(bytes));
  const auto there_and_back = [&] {
    if (rank > 1) return;
    const int other = 1 - rank;
    for (int turn = 0; turn < 2; ++turn)
      if (turn == rank)
        MPI_Send(data.data(), bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD);
      else
        MPI_Recv(data.data(), bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  };
  (void)seconds(5, there_and_back);
  return seconds(50, there_and_back) / 2;
}

}  // namespace

int run_model(Arguments& arguments) {
  int rounds = 5;
  std::vector<std::string> sizes, formats = {"aij"};
  arguments.read({shared::repeat(rounds, "rounds; the least time counts"),
                  {"--sizes N,...", &sizes, "the first one is also the one that the rates are measured with",
                   required()},
                  shared::formats(formats, "aij, or our formats")});
  ok(PetscInitialize(nullptr, nullptr, nullptr, nullptr));
  ok(PetscDLLibraryRegister_protean_petsc());
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double reduction = 1e300, latency = 1e300, large = 1e300;
  constexpr int large_bytes = 1 << 18;
  std::string systems;
  for (const std::string& format : formats)
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      System system(std::atoi(sizes[k].c_str()), format);
      for (int round = 0; round < rounds; ++round) {
        system.measure(k == 0);
        double in = 1, out = 0;
        reduction =
            std::min(reduction,
                     seconds(200, [&] { MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }));
        latency = std::min(latency, message(8)), large = std::min(large, message(large_bytes));
      }
      char text[400];
      std::snprintf(text, sizeof text, "%s{\"format\": \"%s\", \"n\": %s, \"iteration\": %.4g",
                    systems.empty() ? "" : ",\n  ", format.c_str(), sizes[k].c_str(), system.iteration);
      systems += text;
      if (k == 0) {
        std::snprintf(text, sizeof text, ", \"product\": %.4g, \"vectors\": %.4g", system.product,
                      system.work - system.product);
        systems += text;
      }
      systems += "}";
    }
  if (rank == 0)
    std::printf(
        "{\"ranks\": %d, \"reduction\": %.4g, \"latency\": %.4g, \"seconds_per_byte\": %.4g, \"systems\": "
        "[\n  %s]}\n",
        ranks, ranks > 1 ? reduction : 0, latency, ranks > 1 ? (large - latency) / large_bytes : 0,
        systems.c_str());
  ok(PetscFinalize());
  return 0;
}

}  // namespace protean::bench
