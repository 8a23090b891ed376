// Solves that change in the middle: a problem on the host or on a simulated device, an observer that keeps what it has
// seen, and a clock in which an iteration takes as long as its products.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/generate/generate.hpp"
#include "gtest/gtest.h"
#include "protean.hpp"
#include "support/fake_device.hpp"
#include "support/oracle.hpp"
#include "support/space.hpp"
#include "systems/grown.hpp"
#include "systems/seconds.hpp"

namespace protean::test {

inline double slowness = 1, passed = 0, seen_products = 0;
inline double clock_of_products() {
  const double now = products();
  passed += slowness * (now - seen_products), seen_products = now;
  return passed;
}

struct SeenIterations final : SolveObserver {
  bool on_iteration(const IterationInfo& info) override {
    infos.push_back(info);
    if (on_each) on_each(info);
    return info.iteration != stop_at;
  }
  std::vector<IterationInfo> infos;
  std::function<void(const IterationInfo&)> on_each;
  std::int64_t stop_at = -1;
};

// A grid whose diagonal is not constant, since jacobi of a constant one is left out.
inline CsrMatrix<double> uneven_grid(double n = 80) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", n}});
  std::vector<Triplet<double>> entries;
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      entries.push_back({static_cast<std::int32_t>(r), csr.pattern.col[k],
                         csr.values[k] + (csr.pattern.col[k] == r ? 1e-3 * static_cast<double>(r % 7) : 0)});
  return csr_from_triplets<double>(test_context(), csr.rows(), csr.cols(), entries);
}

struct ChangingProblem {
  explicit ChangingProblem(ContextPtr where = test_context(), CsrMatrix<double> matrix = uneven_grid())
      : context(std::move(where)), csr(std::move(matrix)) {
    for (std::int64_t i = 0; i < csr.rows(); ++i) b.push_back(std::sin(static_cast<double>(i + 1)));
  }
  SolveSettings settings(std::string_view method = "cg", std::string_view preconditioner = "auto") const {
    return {.method = std::string(method),
            .preconditioner = std::string(preconditioner),
            .format = "csr",
            .context = context};
  }
  std::unique_ptr<LinearSystem<double>> system(SolveSettings made) const {
    if (context->space() == Space::host) return std::make_unique<LinearSystem<double>>(csr, std::move(made));
    made.format = "auto";
    std::shared_ptr<LinearOperator<double>> A =
        make_matrix(fake_format("csr"), upload(context, csr), context);
    return std::make_unique<LinearSystem<double>>(std::move(A), std::move(made));
  }
  SolveResult solve(LinearSystem<double>& system, SolveObserver* observer = nullptr) {
    system.set_up();
    counted_matrix = &system.A();
    seen_products = products();
    const Placed<double> of(context, b);
    Placed<double> to(context, std::vector<double>(b.size(), 0.0));
    const SolveResult result = system.solve(of.read(), to.view(), observer);
    x = to.fetch();
    return result;
  }
  double residual() const { return residual_of(csr, b, x); }
  ContextPtr context;
  CsrMatrix<double> csr;
  std::vector<double> b, x;
};

inline void expect_one_numbering(const SeenIterations& seen, const SolveResult& result) {
  ASSERT_EQ(std::ssize(seen.infos), result.report.iterations + 1);
  for (std::int64_t i = 0; i <= result.report.iterations; ++i) {
    const IterationInfo& info = seen.infos[static_cast<std::size_t>(i)];
    ASSERT_EQ(info.iteration, i);
    EXPECT_NEAR(info.relative_residual * result.report.rhs_norm, info.residual, 1e-12 * info.residual);
    if (i == 0) continue;
    const IterationInfo& before = seen.infos[static_cast<std::size_t>(i - 1)];
    EXPECT_GE(info.seconds, before.seconds);
    EXPECT_GE(info.restarts, before.restarts);
  }
}

}  // namespace protean::test
