// Option `storage` in solves: iterations, who reads it, what `auto` takes, and what is reported.
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "preconditioners/all_ids.hpp"
#include "preconditioners/dense_reference.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "preconditioners/stored_types.hpp"
#include "solvers/systems.hpp"
#include "support/space.hpp"
#include "systems/linear_system.hpp"
#include "systems/system_solver.hpp"

namespace protean::test {
namespace {

// What M^-1 loses by float costs next to no iterations of cg, fcg and fgmres, also with rows of very different sizes.
// Every method comes to the residual to which it comes with doubles.
TEST(StorageOption, AsManyIterations) {
  struct System {
    std::string name;
    CsrMatrix<double> csr;
    bool symmetric = true;
  };
  std::vector<System> systems = {
      {"poisson-3d", generate(test_context(), "poisson-3d", {{"n", 12}})},
      {"elasticity-3d", generate(test_context(), "elasticity-3d", {{"n", 4}})},
      {"convection", generate(test_context(), "convection-diffusion-3d", {{"n", 10}}), false}};
  std::mt19937 random(7);
  // D A D, whose condition is up to 10^(2 digits) times the one of A.
  for (const double digits : {1.0, 3.0, 5.0, 7.0}) {
    std::uniform_real_distribution<double> power(-digits / 2, digits / 2);
    Dense A = thirds(poisson_2d(14));
    std::vector<double> d(static_cast<std::size_t>(A.n));
    for (double& x : d) x = std::pow(10.0, power(random));
    for (std::int64_t i = 0; i < A.n; ++i)
      for (std::int64_t j = 0; j < A.n; ++j) A(i, j) *= d[i] * d[j];
    systems.push_back({"scaled by 1e" + std::to_string(digits), sparse(A)});
  }
  // A + s I of a singular A: condition about 8 / s.
  for (const double shift : {1e-3, 1e-6, 1e-9, 1e-12}) {
    Dense A = poisson_2d(14);
    for (std::int64_t i = 0; i < A.n; ++i) {
      A(i, i) = shift;
      for (std::int64_t j = 0; j < A.n; ++j)
        if (j != i) A(i, i) -= A(i, j);
    }
    systems.push_back({"shifted by " + std::to_string(shift), sparse(A)});
  }
  for (const System& system : systems) {
    const auto A = assembled(system.csr);
    const std::int64_t n = A->rows();
    const std::vector<double> solution = random_vector(n, 3);
    std::vector<double> b(solution.size());
    A->apply(view(solution), view(b));
    for (const std::string& id : stored_ids())
      for (const char* method : {"cg", "fcg", "minres", "bicgstab", "idr", "fgmres"}) {
        const std::string_view name = method;
        const bool for_symmetric = name == "cg" || name == "fcg" || name == "minres";
        if (for_symmetric && (!system.symmetric || !is_symmetric_type(id))) continue;
        // The others wander on ill-conditioned systems, in double precision, too.
        if (!for_symmetric && system.name.starts_with("s")) continue;
        if (!system.symmetric && id.find("ic") != std::string::npos) continue;
        if (!system.symmetric && id == "isai") continue;
        for (const double tolerance : {1e-8, 1e-10, 1e-12}) {
          std::int64_t iterations[2];
          bool converged[2];
          for (const bool in_float : {false, true}) {
            const auto M = ready<double>(id, *A, options_of(id, in_float ? single : twice));
            std::vector<double> x(b.size());
            const SolveReport report =
                make_solver<double>(method,
                                    {.stopping = {.relative_tolerance = tolerance, .max_iterations = 3000}})
                    ->solve(*A, view(std::as_const(b)), view(x), M.get());
            iterations[in_float] = report.iterations, converged[in_float] = report.converged();
          }
          if (!converged[0]) continue;
          EXPECT_TRUE(converged[1]) << system.name << ' ' << method << ' ' << id << ' ' << tolerance;
          // The smallest eigenvalue of a shifted matrix is lost in float, and minres and the methods with two
          // sequences of vectors depend on rounding.
          const bool shifted = system.name.starts_with("shifted");
          if (name == "minres" || name == "bicgstab" || name == "idr") continue;
          const double most = shifted ? 1.5 * static_cast<double>(iterations[0]) + 10
                                      : 1.1 * static_cast<double>(iterations[0]) + 2;
          EXPECT_LE(static_cast<double>(iterations[1]), most)
              << system.name << ' ' << method << ' ' << id << ' ' << tolerance << ": " << iterations[0];
        }
      }
  }
}

// gmres and bicgstab2 apply M to sums at the end of a cycle, and minres goes on slowly once its vectors are no longer
// orthogonal: auto takes doubles with them.
TEST(StorageOption, AutoDependsOnTheMethod) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 8}});
  for (const SolverEntry& method : solvers())
    for (const std::string& id : {std::string("amg"), std::string("ssor")}) {
      LinearSystem<double> system(csr, {.method = std::string(method.id),
                                        .preconditioner = id,
                                        .preconditioning = {.storage = automatic},
                                        .context = test_context()});
      std::vector<double> b = right_hand_side<double>(512), x(512);
      EXPECT_TRUE(system.solve(view(std::as_const(b)), view(x)).converged()) << method.id;
      const bool sums = method.id == "gmres" || method.id == "bicgstab2" || method.id == "minres";
      EXPECT_EQ(system.solver().preconditioner()->storage(), sums ? "double" : "float") << method.id;
    }
}

TEST(StorageOption, WhoReadsIt) {
  const auto A = assembled(sparse(poisson_2d(4)));
  for (const std::string& id : all_ids()) {
    const bool reads = find_option(preconditioner_options(), "storage")->readers.has(id);
    EXPECT_EQ(reads, id != "jacobi" && id != "spai0" && id != "chebyshev" && id != "fields") << id;
    if (!reads) {
      EXPECT_SAYS(message<BadArgument>([&] { make_preconditioner<double>(id, *A, {.storage = single}); }),
                  "storage is for each preconditioner except none, jacobi, spai0, chebyshev and fields");
    }
  }
  EXPECT_EQ(to_string(automatic), "auto");
  EXPECT_EQ(to_string(single), "float");
  EXPECT_EQ(to_string(twice), "double");
  // In single precision everything is float.
  const auto B = assembled(sparse<float>(poisson_2d(4)));
  for (const PreconditionerStorage storage : preconditioner_storages)
    EXPECT_EQ(ready<float>("ic0", *B, {.storage = storage})->storage(), "float");
  // hypre computes in double.
  const PreconditionerOptions classical{.storage = single, .setup = AmgSetup::classical};
  EXPECT_SAYS(message<BadArgument>([&] { make_preconditioner<double>("amg", *A, classical); }),
              "storage float is not for amg with setup classical");
}

TEST(StorageOption, InCompositionsAndInAuto) {
  const auto A = assembled(sparse(thirds(poisson_2d(12))));
  const std::vector<PreconditionerPart> parts = {{"ssor", {.storage = single}}, {"ic0", {}}};
  const auto M = make_composition<double>(*A, parts, Composition::symmetric);
  M->ensure(*A);
  EXPECT_EQ(M->storage(), "float and double");
  const std::vector<double> b = right_hand_side<double>(144);
  std::vector<double> x(144);
  EXPECT_TRUE(make_solver<double>("cg")->solve(*A, view(b), view(x), M.get()).converged());
  // auto begins with jacobi, which has no entries to store.
  const auto chosen = ready<double>("auto", *A, {.storage = single});
  EXPECT_EQ(chosen->storage(), "double");
}

// Vectors near the null space may be gone when storage auto takes double.
TEST(StorageOption, VectorsNearTheNullSpaceAreKept) {
  Dense A = thirds(poisson_2d(20));
  const auto A_here = assembled(sparse(A));
  std::unique_ptr<Preconditioner<double>> M;
  {
    MultiVector<double> ones(test_context(), A.n, 1);
    for (std::int64_t i = 0; i < A.n; ++i) ones.view()(i, 0) = 1;
    M = make_amg<double>(*A_here, ones.view(), {.storage = automatic});
  }
  A(7, 7) = 1e60L;
  const auto B = assembled(sparse(A));
  M->ensure(*A_here);
  EXPECT_EQ(M->storage(), "float");
  M->ensure(*B);
  EXPECT_EQ(M->storage(), "double");
  M->ensure(*A_here);
  EXPECT_EQ(M->storage(), "float") << "another pattern may fit again";
}

// Results say what was stored.
TEST(StorageOption, IsReported) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-3d", {{"n", 10}});
  LinearSystem<double> system(csr, {.method = "cg",
                                    .preconditioner = "ic0",
                                    .preconditioning = {.storage = single},
                                    .context = test_context()});
  std::vector<double> b = right_hand_side<double>(1000), x(1000);
  EXPECT_TRUE(system.solve(view(std::as_const(b)), view(x)).converged());
  EXPECT_SAYS(system.describe(), " in float\n");
  EXPECT_SAYS(system.describe(), "preconditioner  ic0, ");
}

}  // namespace
}  // namespace protean::test
