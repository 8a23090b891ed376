// Solves by Kokkos on the host and on a device, with Kokkos' own profiling hook as the witness that its kernels
// ran. The contract of the formats is tested in test_formats.cpp, the vector operations in test_blas1.cpp and
// test_blas1_spaces.cpp.
#include <map>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#include "support/kokkos_witness.hpp"
#include "support/multi.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

ContextPtr context_of(Space space, VectorKernels kernels) {
  if (space == Space::host) return Context::host(2, {.vector_kernels = kernels});
  return Context::device(0, {.vector_kernels = kernels});
}

struct Case {
  std::string method;
  Space space;
};

class KokkosSolves : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!test_context(GetParam().space)) GTEST_SKIP() << no_device;
    if (const auto why = unavailable(VectorKernels::kokkos, GetParam().space); !why.empty())
      GTEST_SKIP() << why;
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, KokkosSolves,
                         testing::Values(Case{"cg", Space::host}, Case{"bicgstab", Space::host},
                                         Case{"gmres", Space::host}, Case{"cg", Space::device},
                                         Case{"bicgstab", Space::device}, Case{"gmres", Space::device}),
                         [](const auto& one) {
                           return one.param.method + "_" + std::string(to_string(one.param.space));
                         });

struct Solved {
  SolveReport report;
  std::vector<double> x;
  std::map<std::string, std::int64_t> loops;
};

CsrMatrix<double> matrix_for(const std::string& method) {
  return method == "cg" ? generate(test_context(), "poisson-2d", GeneratorParams{{"n", 90}})
                        : generate(test_context(), "convection-diffusion-3d", GeneratorParams{{"n", 20}});
}

Solved solved(const Case& one, VectorKernels kernels, bool watched = true) {
  const auto context = context_of(one.space, kernels);
  const auto csr = placed(context, matrix_for(one.method));
  const auto A = make_matrix(find_format("csr"), csr, context, {}, to_string(kernels));
  const auto M = make_preconditioner<double>("jacobi", *A, {});
  const auto b = right_hand_side<double>(csr.rows());
  const Placed<double> device_b(context, b);
  Placed<double> x(context, std::vector<double>(b.size(), 0.0));
  const auto solver =
      make_solver<double>(one.method, {.device_steps = one.space == Space::device ? "graph" : "auto"});
  Solved result;
  {
    std::unique_ptr<KokkosWitness> witness;
    if (watched) witness = std::make_unique<KokkosWitness>();
    M->ensure(*A);
    result.report = solver->solve(*A, device_b.read(), x.view(), M.get());
    if (watched) result.loops = witness->loops();
  }
  result.x = x.fetch();
  return result;
}

void expect_same_solution(const Solved& found, const Solved& expected) {
  ASSERT_TRUE(found.report.converged()) << found.report.detail;
  EXPECT_NEAR(static_cast<double>(found.report.iterations), static_cast<double>(expected.report.iterations),
              2 + 0.05 * static_cast<double>(expected.report.iterations));
  for (std::size_t i = 0; i < expected.x.size(); ++i) ASSERT_NEAR(found.x[i], expected.x[i], 1e-5) << i;
}

TEST_P(KokkosSolves, ThroughItsOwnKernels) {
  const Solved native = solved(GetParam(), VectorKernels::native);
  ASSERT_TRUE(native.report.converged());
  EXPECT_TRUE(native.loops.empty()) << "native kernels called " << native.loops.begin()->first;

  Solved by_kokkos = solved(GetParam(), VectorKernels::kokkos);
  expect_same_solution(by_kokkos, native);

  // Every step of the method, not some of them; Jacobi's setup once.
  const std::map<std::string, std::vector<std::string>> steps = {
      {"cg", {"protean::csr", "protean::dot", "protean::cg_residual", "protean::cg_direction"}},
      {"bicgstab", {"protean::csr", "protean::bicgstab_direction", "protean::bicgstab_update"}},
      {"gmres", {"protean::csr", "protean::block_dot", "protean::block_axpy"}}};
  for (const std::string& step : steps.at(GetParam().method))
    EXPECT_GE(by_kokkos.loops[step], by_kokkos.report.iterations) << step;
  EXPECT_GE(by_kokkos.loops["protean::csr_diagonal"], 1);
  EXPECT_GE(by_kokkos.loops["protean::reciprocal"], 1);
}

// Without a profiling tool the steps of a device are recorded, and a solve that ends inside a graph has the same
// answer.
TEST_P(KokkosSolves, ByRecordedStepsOnADevice) {
  const Solved native = solved(GetParam(), VectorKernels::native, false);
  const Solved by_kokkos = solved(GetParam(), VectorKernels::kokkos, false);
  expect_same_solution(by_kokkos, native);
  if (GetParam().space == Space::host) {
    EXPECT_EQ(by_kokkos.report.steps, "host");
    return;
  }
  EXPECT_EQ(by_kokkos.report.steps, "graph");
  EXPECT_GE(by_kokkos.report.graphs_recorded, 1);
  // With the tool they are not recorded, since Kokkos waits for the device at each kernel.
  EXPECT_EQ(solved(GetParam(), VectorKernels::kokkos, true).report.graphs_recorded, 0);
}

// One solver, matrices of several formats and sizes, new values: the recorded steps follow.
TEST_P(KokkosSolves, ManySystemsWithOneSolver) {
  const Case& one = GetParam();
  const auto context = context_of(one.space, VectorKernels::kokkos);
  const auto solver = make_solver<double>(one.method, {});
  for (const std::int64_t n : {30, 12, 30})
    for (const std::string format : {"csr", "coo", "ell", "sell-c-sigma", "bcsr", "dia"}) {
      const auto host_csr = generate(test_context(), "poisson-2d", GeneratorParams{{"n", n}});
      FormatParams params;
      if (format == "bcsr") params.set("max_fill", 100);
      const auto A = make_matrix(find_format(format), placed(context, host_csr), context, params, "kokkos");
      const auto M = make_preconditioner<double>("jacobi", *A, {});
      for (const double factor : {1.0, 3.0}) {
        CsrMatrix<double> scaled = deep_copy(test_context(), host_csr);
        for (std::int64_t k = 0; k < scaled.nonzeros(); ++k) const_cast<double*>(scaled.values)[k] *= factor;
        A->update_values(placed(context, scaled));
        M->ensure(*A);
        const auto b = right_hand_side<double>(scaled.rows());
        const Placed<double> device_b(context, b);
        Placed<double> x(context, std::vector<double>(b.size(), 0.0));
        const SolveReport report = solver->solve(*A, device_b.read(), x.view(), M.get());
        ASSERT_TRUE(report.converged()) << format << " " << n << " " << factor << ": " << report.detail;
        const std::vector<double> found = x.fetch();
        EXPECT_LE(relative_residual_of(scaled, b, found), 1.05e-8) << format << " " << n << " " << factor;
      }
    }
}

TEST_P(KokkosSolves, DeterministicModeIsRefused) {
  const Space space = GetParam().space;
  if (space == Space::host) {
    EXPECT_THROW((void)Context::host(2, {.vector_kernels = VectorKernels::kokkos, .deterministic = true}),
                 NotAvailable);
  } else {
    EXPECT_THROW((void)Context::device(0, {.vector_kernels = VectorKernels::kokkos, .deterministic = true}),
                 NotAvailable);
  }
  const auto context = space == Space::host ? Context::host(2, {.deterministic = true})
                                            : Context::device(0, {.deterministic = true});
  const auto csr = placed(context, matrix_for("cg"));
  EXPECT_THROW((void)make_matrix(find_format("csr"), csr, context, {}, "kokkos"), FormatRefused);
}

}  // namespace
}  // namespace protean::test
