// Solves on Kokkos' loops, with Kokkos' own profiling hook as the witness that they ran.
#include <map>

#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "preconditioners/preconditioner.hpp"
#include "solvers/systems.hpp"
#if defined(PROTEAN_HAVE_KOKKOS)
#include <Kokkos_Core.hpp>
#endif

namespace protean::test {
namespace {

std::map<std::string, std::int64_t>& loops_seen() {
  static std::map<std::string, std::int64_t> counts;
  return counts;
}

// While it lives, loops that Kokkos runs are counted by name. After Kokkos has been started.
class Witness {
 public:
  Witness() {
    watch([](const char* name, std::uint32_t, std::uint64_t*) { ++loops_seen()[name]; });
  }
  ~Witness() { watch(nullptr); }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

 private:
  using Callback = void (*)(const char*, std::uint32_t, std::uint64_t*);
  static void watch([[maybe_unused]] Callback callback) {
    loops_seen().clear();
#if defined(PROTEAN_HAVE_KOKKOS)
    Kokkos::Tools::Experimental::set_begin_parallel_for_callback(callback);
    Kokkos::Tools::Experimental::set_begin_parallel_reduce_callback(callback);
#endif
  }
};

class KokkosSolves : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const auto why = unavailable(VectorKernels::kokkos); !why.empty()) GTEST_SKIP() << why;
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, KokkosSolves, testing::Values("cg", "bicgstab", "gmres"),
                         [](const auto& one) { return one.param; });

struct Solved {
  SolveReport report;
  std::vector<double> x;
  std::map<std::string, std::int64_t> loops;
};

Solved solved(const std::string& method, VectorKernels kernels) {
  const auto context = Context::host(2, {.vector_kernels = kernels});
  const auto csr = generate(context, method == "cg" ? "poisson-2d" : "convection-diffusion-3d",
                            GeneratorParams{{"n", method == "cg" ? 90 : 20}});
  const auto A = make_matrix(find_format("csr"), csr, context, {}, to_string(kernels));
  const auto M = make_preconditioner<double>("jacobi", *A, {});
  M->ensure(*A);
  const auto b = right_hand_side<double>(csr.rows());
  Solved result{{}, std::vector<double>(b.size(), 0.0), {}};
  const Witness witness;
  result.report = make_solver<double>(method, {})->solve(*A, view(b), view(result.x), M.get());
  result.loops = loops_seen();
  return result;
}

TEST_P(KokkosSolves, ThroughItsOwnLoops) {
  const Solved native = solved(GetParam(), VectorKernels::native);
  ASSERT_TRUE(native.report.converged());
  EXPECT_TRUE(native.loops.empty()) << "native kernels called " << native.loops.begin()->first;

  Solved by_kokkos = solved(GetParam(), VectorKernels::kokkos);
  ASSERT_TRUE(by_kokkos.report.converged());
  const std::int64_t iterations = by_kokkos.report.iterations;
  EXPECT_NEAR(static_cast<double>(iterations), static_cast<double>(native.report.iterations),
              2 + 0.05 * static_cast<double>(iterations));
  for (std::size_t i = 0; i < native.x.size(); ++i) ASSERT_NEAR(by_kokkos.x[i], native.x[i], 1e-5) << i;

  // Every step of the method, not some of them.
  const std::map<std::string, std::vector<std::string>> steps = {
      {"cg", {"protean::csr", "protean::dot", "protean::cg_residual", "protean::cg_direction"}},
      {"bicgstab", {"protean::csr", "protean::bicgstab_direction", "protean::bicgstab_update"}},
      {"gmres", {"protean::csr", "protean::block_dot", "protean::block_axpy"}}};
  for (const std::string& step : steps.at(GetParam())) EXPECT_GE(by_kokkos.loops[step], iterations) << step;
}

}  // namespace
}  // namespace protean::test
