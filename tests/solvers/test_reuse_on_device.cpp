// A solver on a GPU that is used for one system, then another, then the first again: what it keeps of the first solve
// must not be used if vectors have moved since. CUDA builds only.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "operators/row_arrays.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "solvers/device_kernels.hpp"
#include "solvers/solver.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

struct Given {
  ContextPtr context;
  std::unique_ptr<AssembledMatrix<double>> A;
  Vector<double> b, x;

  Given(const ContextPtr& where, const CsrMatrix<double>& csr, const std::string& format = "csr")
      : context(where),
        A(make_matrix(find_format(format), placed(where, csr), where)),
        b(where, csr.rows()),
        x(where, csr.rows()) {
    std::vector<double> values(static_cast<std::size_t>(csr.rows()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 + 0.25 * static_cast<double>(i % 13);
    copy<double>(*where, {values.data(), csr.rows()}, b.view());
  }
  struct Outcome {
    SolveReport report;
    std::vector<double> x;
  };
  Outcome solve(Solver<double>& solver, const Preconditioner<double>* M = nullptr) {
    fill<double>(*context, 0.0, x);
    Outcome outcome{solver.solve(*A, b, x, M), std::vector<double>(static_cast<std::size_t>(x.size()))};
    copy<double>(*context, x.view(), {outcome.x.data(), x.size()});
    return outcome;
  }
};

void expect_equal(const Given::Outcome& one, const Given::Outcome& other, const std::string& what) {
  EXPECT_TRUE(one.report.converged()) << what << ": " << one.report.detail;
  EXPECT_EQ(one.report.iterations, other.report.iterations) << what;
  EXPECT_EQ(one.x, other.x) << what;
}

class ReuseOnDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!test_context(Space::device)) GTEST_SKIP() << no_device;
  }
  static std::unique_ptr<Solver<double>> solver() {
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-9;
    return make_solver<double>(GetParam(), options);
  }
};

// 512,000 rows do not fit into shared memory, so cg uses a graph for the large system; the small one is
// resident there, or lies on the host.
TEST_P(ReuseOnDevice, LargeThenSmallThenLarge) {
  const ContextPtr device = test_context(Space::device), host = test_context();
  const CsrMatrix<double> large = generate(host, "poisson-3d", {{"n", 80}});
  const CsrMatrix<double> small = generate(host, "poisson-3d", {{"n", 9}});
  for (const Space space : {Space::device, Space::host}) {
    Given first(device, large), second(space == Space::device ? device : host, small);
    const auto reused = solver();
    const Given::Outcome before = first.solve(*reused);
    const Given::Outcome between = second.solve(*reused);
    // Memory that the solver has given back is overwritten, so that using it shows.
    std::vector<Vector<double>> others;
    for (int k = 0; k < 12; ++k)
      others.emplace_back(device, large.rows()), fill<double>(*device, 1e30, others.back());
    const Given::Outcome after = first.solve(*reused);
    expect_equal(after, before,
                 std::string(GetParam()) + " after a system on the " + std::string(to_string(space)));
    for (const Vector<double>& other : others) {
      std::vector<double> values(static_cast<std::size_t>(other.size()));
      copy<double>(*device, other.view(), {values.data(), other.size()});
      EXPECT_EQ(std::count(values.begin(), values.end(), 1e30), other.size())
          << "somebody else's memory was written";
    }
    EXPECT_TRUE(between.report.converged());
  }
}

TEST_P(ReuseOnDevice, OtherPreconditionersBetween) {
  const ContextPtr device = test_context(Space::device);
  Given given(device, generate(test_context(), "poisson-3d", {{"n", 20}}), "sell-c-sigma");
  const auto jacobi = make_preconditioner<double>("jacobi", *given.A);
  jacobi->ensure(*given.A);
  CallbackPreconditioner<double> general(
      device, given.A->shape(), [n = given.A->rows()](const double* r, double* z, CUstream_st* stream) {
        queue_scaled(n, 0.25, r, z, stream);
      });
  general.ensure(*given.A);
  const std::vector<const Preconditioner<double>*> all = {nullptr, jacobi.get(), &general};
  const auto reused = solver();
  for (int round = 0; round < 8; ++round) {
    const auto* const M = all[(round * 5 + round / 3) % 3];
    expect_equal(given.solve(*reused, M), given.solve(*solver(), M), "round " + std::to_string(round));
  }
}

// Rows in slots whose order over the positions changes while shape, pattern, number of entries and the address
// of the columns stay. Only perm and recording() show it.
class Reordered final : public LinearOperator<double>, public HasRowArrays<double> {
 public:
  static constexpr std::int32_t n = 300, width = 3;
  explicit Reordered(const ContextPtr& context)
      : LinearOperator<double>(context, {n, n}),
        product_(make_matrix(find_format("csr"), ring(context), context)) {
    col_ = static_cast<std::int32_t*>(take(Kind::plain, sizeof(std::int32_t) * n * width));
    perm_ = static_cast<std::int32_t*>(take(Kind::plain, sizeof(std::int32_t) * n));
    values_ = static_cast<double*>(take(Kind::plain, sizeof(double) * n * width));
    lay_out(0);
  }
  ~Reordered() override {
    give_back(Kind::plain, col_), give_back(Kind::plain, perm_), give_back(Kind::plain, values_);
  }
  // Position p holds row (p * step) mod n; step 0: row p, without a permutation.
  void lay_out(std::int32_t step) {
    step_ = step, ++version_;
    std::vector<std::int32_t> col(n * width), perm(n);
    std::vector<double> values(n * width);
    for (std::int32_t p = 0; p < n; ++p) {
      const std::int32_t row = perm[p] = step ? p * step % n : p;
      std::int32_t cols[width] = {(row + n - 1) % n, row, (row + 1) % n};
      std::sort(cols, cols + width);
      for (std::int32_t k = 0; k < width; ++k)
        col[p + k * n] = cols[k], values[p + k * n] = cols[k] == row ? 4 + row % 3 : -1;
    }
    EXPECT_EQ(cudaMemcpy(col_, col.data(), sizeof(std::int32_t) * col.size(), cudaMemcpyDefault),
              cudaSuccess);
    EXPECT_EQ(cudaMemcpy(perm_, perm.data(), sizeof(std::int32_t) * perm.size(), cudaMemcpyDefault),
              cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values_, values.data(), sizeof(double) * values.size(), cudaMemcpyDefault),
              cudaSuccess);
  }
  std::string_view name() const noexcept override { return "reordered"; }
  Recording recording() const noexcept override { return {true, version_}; }
  RowArrays<double> row_arrays() const noexcept override {
    RowArrays<double> rows;
    rows.kind = RowArrays<double>::Kind::slices, rows.rows = n, rows.stored = n * width;
    rows.values = values_, rows.col = col_, rows.stride = n, rows.longest = width, rows.shift = 0;
    rows.perm = step_ ? perm_ : nullptr, rows.version = version_;
    return rows;
  }

 private:
  static CsrMatrix<double> ring(const ContextPtr& context) {
    std::vector<Triplet<double>> entries;
    for (std::int32_t i = 0; i < n; ++i)
      for (const std::int32_t j : {(i + n - 1) % n, i, (i + 1) % n})
        entries.push_back({i, j, i == j ? 4.0 + i % 3 : -1.0});
    return upload(context, csr_from_triplets<double>(test_context(), n, n, entries));
  }
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    product_->apply(alpha, x, beta, y);
  }
  std::unique_ptr<AssembledMatrix<double>> product_;
  std::int32_t *col_ = nullptr, *perm_ = nullptr, step_ = 0;
  double* values_ = nullptr;
  std::uint64_t version_ = 0;
};

TEST(ReuseResident, RowsThatComeInAnotherOrderArePlannedAnew) {
  const ContextPtr device = test_context(Space::device);
  if (!device) GTEST_SKIP() << no_device;
  Reordered A(device);
  Vector<double> b(device, Reordered::n), x(device, Reordered::n);
  fill<double>(*device, 1.0, b);
  SolverOptions options;
  options.stopping.relative_tolerance = 1e-10, options.device_steps = "resident";
  const auto reused = make_solver<double>("cg", options);
  for (const std::int32_t step : {0, 7, 11, 0, 13, 299}) {
    A.lay_out(step);
    fill<double>(*device, 0.0, x);
    const SolveReport report = reused->solve(A, b, x);
    fill<double>(*device, 0.0, x);
    const SolveReport fresh = make_solver<double>("cg", options)->solve(A, b, x);
    EXPECT_TRUE(report.converged()) << step << ": " << report.detail;
    EXPECT_EQ(report.restarts, 0) << step;
    EXPECT_EQ(report.iterations, fresh.iterations) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, ReuseOnDevice, testing::Values("cg", "bicgstab", "gmres"),
                         [](const auto& method) { return std::string(method.param); });

}  // namespace
}  // namespace protean::test
