// Several GPUs in one program: contexts of two of them used alternately, and the program's own current GPU as it
// was after each call. CUDA builds only.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "core/generate/generate.hpp"
#include "core/identical.hpp"
#include "formats/catalogue.hpp"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/device_kernels.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

class SeveralGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_context(Space::device)) GTEST_SKIP() << no_device;
    if (Context::device_count() < 2) GTEST_SKIP() << "no device: this machine has one GPU, two are needed";
  }
};

// A system on one GPU with all that a program keeps between solves.
struct System {
  ContextPtr context;
  CsrMatrix<double> csr;
  std::unique_ptr<AssembledMatrix<double>> A;
  std::unique_ptr<Preconditioner<double>> M;
  Vector<double> b, x;
  std::unique_ptr<Solver<double>> solver;

  System(int gpu, const std::string& method, const std::string& format, const std::string& steps,
         std::int64_t n)
      : context(Context::device(gpu)),
        csr(upload(context, generate(test_context(), "poisson-3d", {{"n", n}}))) {
    A = make_matrix(find_format(format), csr, context);
    M = make_preconditioner<double>("jacobi", *A);
    M->ensure(*A);
    b = Vector<double>(context, csr.rows()), x = Vector<double>(context, csr.rows());
    fill<double>(*context, 1.0, b);
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-9, options.device_steps = steps;
    solver = make_solver<double>(method, options);
  }
  SolveReport solve(SolveObserver* observer = nullptr) {
    fill<double>(*context, 0.0, x);
    return solver->solve(*A, b, x, M.get(), observer);
  }
};

TEST_F(SeveralGpus, ContextsUsedAlternately) {
  for (const int callers : {0, 1})
    for (const std::string method : {"cg", "bicgstab", "gmres"})
      for (const std::string steps : {"auto", "graph"}) {
        set_current_gpu(callers);
        std::array<std::unique_ptr<System>, 2> systems;
        for (int gpu : {0, 1}) {
          systems[gpu] = std::make_unique<System>(gpu, method, gpu ? "sell-c-sigma" : "csr", steps, 12 + gpu);
          EXPECT_EQ(current_gpu(), callers);
        }
        std::int64_t iterations[2] = {};
        for (int round = 0; round < 3; ++round)
          for (int gpu : {0, 1, 1, 0}) {
            const SolveReport report = systems[gpu]->solve();
            EXPECT_TRUE(report.converged()) << method << " on GPU " << gpu << ": " << report.detail;
            EXPECT_EQ(current_gpu(), callers) << method;
            if (round == 0) iterations[gpu] = report.iterations;
            EXPECT_EQ(report.iterations, iterations[gpu]) << method;
          }
        systems[0].reset();
        EXPECT_EQ(current_gpu(), callers);
        EXPECT_TRUE(systems[1]->solve().converged());
        systems[1].reset();
        EXPECT_EQ(current_gpu(), callers);
      }
  set_current_gpu(0);
}

TEST_F(SeveralGpus, ASolveInsideTheObserverOfAnother) {
  set_current_gpu(0);
  System outer(0, "cg", "csr", "graph", 20), inner(1, "cg", "csr", "auto", 8),
      alone(0, "cg", "csr", "graph", 20);
  struct SolvesInside final : SolveObserver {
    System* system = nullptr;
    bool on_iteration(const IterationInfo& info) override {
      if (info.iteration % 7 == 3) { EXPECT_TRUE(system->solve().converged()); }
      return true;
    }
  } observer;
  observer.system = &inner;
  const SolveReport report = outer.solve(&observer), reference = alone.solve();
  EXPECT_TRUE(report.converged());
  EXPECT_EQ(report.iterations, reference.iterations);
  EXPECT_EQ(report.true_residual, reference.true_residual);
  EXPECT_EQ(current_gpu(), 0);
}

TEST_F(SeveralGpus, EveryFormatOnBothAndBack) {
  const CsrMatrix<double> csr = battery_matrix("one_full_row_300");
  const std::array<ContextPtr, 2> contexts = {Context::device(0), Context::device(1)};
  for (const FormatEntry* entry : catalogue())
    for (const int callers : {0, 1}) {
      set_current_gpu(callers);
      for (const ContextPtr& context : contexts) {
        if (!entry->device) continue;
        try {
          const auto A = make_matrix(*entry, upload(context, csr), context);
          EXPECT_TRUE(identical(download(test_context(), *context, A->to_csr()), csr)) << entry->id;
          Vector<double> d(context, std::min(csr.rows(), csr.cols())), x(context, csr.cols()),
              y(context, csr.rows());
          A->diagonal(d);
          fill<double>(*context, 1.0, x);
          A->apply(x, y);
          A->update_values(upload(context, csr));
          context->synchronize();
        } catch (const FormatRefused&) {}
        EXPECT_EQ(current_gpu(), callers) << entry->id;
      }
    }
  set_current_gpu(0);
}

TEST_F(SeveralGpus, ACallbackThatChangesTheCurrentGpu) {
  // The solve goes on with its own GPU although the observer leaves the other one current.
  set_current_gpu(0);
  System system(0, "bicgstab", "csr", "auto", 12);
  struct Changes final : SolveObserver {
    bool on_iteration(const IterationInfo&) override {
      set_current_gpu(1);
      return true;
    }
  } observer;
  EXPECT_TRUE(system.solve(&observer).converged());
  EXPECT_EQ(current_gpu(), 0);
}

}  // namespace
}  // namespace protean::test
