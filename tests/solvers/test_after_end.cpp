// A recorded graph always runs to its end, also after the step that ended or stopped the run. Nothing of these later
// steps may be seen. So a solve that an observer stops again and again must be the same as one without stops: on a
// simulated device, which runs some steps after each end as a graph does, and on a GPU. The simulated device's products
// come in two kinds: some heed the stop; others, such as operators of a library or of a user, do not.

#include <array>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/ordering.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/elements/element_operator.hpp"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/callback_preconditioner.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/device_kernels.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "solvers/users_operator.hpp"
#include "support/fake_device.hpp"
#include "support/space.hpp"

namespace protean::test {
namespace {

enum class Where { heeding, foreign, gpu };
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// Asks the solver to stop before each k-th iteration; 0: never.
class Stops final : public SolveObserver {
 public:
  explicit Stops(std::int64_t every) : every_(every), next_(every > 0 ? every : never) {}
  bool on_iteration(const IterationInfo& info) override {
    if (info.iteration >= next_) next_ = info.iteration + every_;
    residuals.push_back(info.residual);
    return true;
  }
  std::int64_t next_stop() const noexcept override { return next_; }
  std::vector<double> residuals;

 private:
  std::int64_t every_, next_;
};

struct Solved {
  SolveReport report;
  std::vector<double> residuals, x;
};

class AfterEnd : public testing::TestWithParam<std::tuple<Where, const char*>> {
 protected:
  void SetUp() override {
    if (gpu() && !test_context(Space::device)) GTEST_SKIP() << no_device;
    context_ =
        gpu()
            ? test_context(Space::device)
            : fake_device_context(
                  {.steps_ahead = 2, .steps_after_end = 7, .products_heed_stop = where() == Where::heeding});
    use(gpu() ? 12 : 4);
  }
  // poisson-3d of n^3 rows.
  void use(int n) {
    csr_ = deep_copy(test_context(), generate(test_context(), "poisson-3d", {{"n", n}}));
    // D A D, so that a diagonal matters and no two rows are alike.
    auto* const values = const_cast<double*>(csr_.values);
    const auto d = [](std::int64_t i) { return 1 + 0.25 * static_cast<double>(i * 7 % 13); };
    for (std::int64_t i = 0; i < csr_.rows(); ++i)
      for (std::int64_t k = csr_.pattern.row_ptr[i]; k < csr_.pattern.row_ptr[i + 1]; ++k)
        values[k] *= d(i) * d(csr_.pattern.col[k]);
    there_ = upload(context_, csr_);
  }
  static Where where() { return std::get<0>(GetParam()); }
  static const char* method() { return std::get<1>(GetParam()); }
  static bool gpu() { return where() == Where::gpu; }
  static bool symmetric() { return method() == std::string("cg") || method() == std::string("minres"); }
  const FormatEntry& format(std::string_view id) const { return gpu() ? find_format(id) : fake_format(id); }

  std::unique_ptr<LinearOperator<double>> matrix(std::string_view id, std::string_view kernel = {}) const {
    return make_matrix(format(id), there_, context_, most_tolerant(find_format(id)), kernel);
  }
  std::unique_ptr<Matrix<double>> ordered(std::string_view id, std::string_view kernel = {}) const {
    const auto order = make_order("rcm", *test_context(), csr_.pattern);
    PermutedMatrix<double> permuted(test_context(), there_, Permutation(context_, order));
    auto B = make_matrix(format(id), permuted.matrix(), context_, {}, kernel);
    return std::make_unique<Matrix<double>>(there_, "rcm", std::move(permuted), std::move(B),
                                            MatrixOptions{.changes = false});
  }

  Solved solve(const LinearOperator<double>& A, const Preconditioner<double>* M, std::int64_t every) const {
    std::vector<double> rhs(static_cast<std::size_t>(A.rows()));
    for (std::size_t i = 0; i < rhs.size(); ++i) rhs[i] = 1 + static_cast<double>(i * 37 % 100) * 0.01;
    const Placed<double> b(context_, rhs);
    Placed<double> x(context_, std::vector<double>(rhs.size(), 0.0));
    SolverOptions options;
    options.restart = 9, options.device_steps = gpu() ? "graph" : "auto";
    options.stopping.relative_tolerance = 1e-9, options.stopping.max_iterations = 400;
    Stops stops(every);
    Solved result;
    result.report = make_solver<double>(method(), options_read_by(method(), options))
                        ->solve(A, b.read(), x.view(), M, &stops);
    result.residuals = stops.residuals, result.x = x.fetch();
    return result;
  }

  // Stops after each step 1 to 12, or after two of these that change from call to call. exact: two solves have the same
  // bits.
  void same_with_stops(const LinearOperator<double>& A, const Preconditioner<double>* M, bool exact,
                       const std::string& what, bool all = true) {
    ++solved_;
    const Solved plain = solve(A, M, 0);
    ASSERT_TRUE(plain.report.converged()) << what << ": " << plain.report.detail;
    for (std::int64_t every = 1; every <= 12; ++every) {
      if (!all && every != 1 + solved_ % 3 && every != 4 + solved_ % 9) continue;
      const Solved stopped = solve(A, M, every);
      const std::string which = what + ", stops every " + std::to_string(every);
      ASSERT_TRUE(stopped.report.converged()) << which << ": " << stopped.report.detail;
      if (exact) {
        ASSERT_EQ(stopped.report.iterations, plain.report.iterations) << which;
        ASSERT_EQ(stopped.residuals, plain.residuals) << which;
        ASSERT_EQ(stopped.x, plain.x) << which;
      } else {
        ASSERT_NEAR(static_cast<double>(stopped.report.iterations),
                    static_cast<double>(plain.report.iterations), 2 + 0.1 * plain.report.iterations)
            << which;
      }
    }
  }

  // Each that this space has; the names go to used_.
  template <class Use>
  void for_each_preconditioner(const LinearOperator<double>& A, Use use) {
    const auto one = [&](const std::string& id, PreconditionerOptions options, const std::string& label) {
      auto M = make_preconditioner<double>(id, A, options);
      M->ensure(A);
      if (symmetric() && !M->symmetric()) return;
      use(*M, label);
      used_.insert(label);
    };
    for (const PreconditionerEntry& entry : preconditioners()) {
      if (entry.id == "none" || !entry.unavailable.empty()) continue;
      const std::string id(entry.id);
      if (!find_option(preconditioner_options(), "solve")->readers.has(id)) {
        one(id, {}, id);
        continue;
      }
      for (const TriangularSolve way : triangular_solves) {
        if (way == TriangularSolve::cusparse && !gpu()) continue;
        if (way == TriangularSolve::automatic) continue;  // one of the others
        PreconditionerOptions options;
        options.solve = way;
        if (way == TriangularSolve::sweeps) options.sweeps = 3;
        one(id, options, id + "/" + std::string(to_string(way)));
      }
    }
    for (const Composition how : compositions) {
      const PreconditionerPart parts[] = {{"jacobi", {}}, {"ssor", {}}};
      auto M = make_composition<double>(A, parts, how);
      M->ensure(A);
      if (symmetric() && !M->symmetric()) continue;
      use(*M, "composition/" + std::string(to_string(how)));
    }
  }

  ContextPtr context_;
  CsrMatrix<double> csr_, there_;
  std::set<std::string> used_;
  int solved_ = 0;
};

TEST_P(AfterEnd, NothingIsSeenWithAnyPreconditionerAndOrder) {
  for (const bool in_order : {false, true}) {
    std::unique_ptr<LinearOperator<double>> A;
    if (in_order)
      A = ordered("csr");
    else
      A = matrix("csr");
    const std::string label = in_order ? "rcm" : "natural";
    same_with_stops(*A, nullptr, !gpu(), label, !in_order);
    for_each_preconditioner(*A, [&](const Preconditioner<double>& M, const std::string& name) {
      same_with_stops(*A, &M, !gpu(), label + ", " + name, in_order && name == "ic0/levels");
    });
  }
  // So that none is left out unseen.
  for (const char* id : {"jacobi", "block-jacobi", "ssor", "chebyshev", "ic0/levels", "ic0/sweeps"})
    EXPECT_TRUE(used_.contains(id)) << id;
  EXPECT_EQ(used_.contains("ilu0/levels"), !symmetric());
  EXPECT_EQ(used_.contains("ic0/cusparse"), gpu());
}

// Of several levels: steps after the end overwrite the vectors of all levels.
TEST_P(AfterEnd, NothingIsSeenWithMultigrid) {
  use(gpu() ? 20 : 7);
  for (const bool in_order : {false, true}) {
    std::unique_ptr<LinearOperator<double>> A;
    if (in_order)
      A = ordered("csr");
    else
      A = matrix("csr");
    for (const Smoother smoother : smoothers) {
      const auto M = make_preconditioner<double>("amg", *A, {.smoother = smoother});
      M->ensure(*A);
      EXPECT_GE(M->figures().front().value, 2);  // levels
      EXPECT_EQ(M->recording().heeds_stop, where() != Where::foreign);
      same_with_stops(*A, M.get(), !gpu(),
                      std::string(in_order ? "rcm, " : "natural, ") + std::string(to_string(smoother)),
                      false);
    }
  }
}

TEST_P(AfterEnd, NothingIsSeenWithAnyKernel) {
  int foreign = 0;
  for (const char* id : {"csr", "csc", "coo", "bcsr", "sell-c-sigma", "dia", "merge-csr", "sum"})
    for (const Kernel& kernel : kernels_in(format(id), Space::device)) {
      if (!kernel.unavailable.empty()) continue;
      const bool exact = !gpu();
      const auto A = matrix(id, kernel.name);
      // Kernels that cannot be recorded at first.
      Vector<double> y(context_, A->rows()), x(context_, A->rows());
      fill<double>(*context_, 1.0, x);
      A->apply(x, y);
      foreign += !A->recording().heeds_stop;
      const std::string label = std::string(id) + "/" + std::string(kernel.name);
      same_with_stops(*A, nullptr, exact, label, false);
      PreconditionerOptions options;
      options.solve = TriangularSolve::levels;
      const auto M = make_preconditioner<double>("ic0", *A, options);
      M->ensure(*A);
      same_with_stops(*A, M.get(), exact, label + ", ic0", false);
      if (id == std::string("csr") || id == std::string("sell-c-sigma")) {
        const auto B = ordered(id, kernel.name);
        same_with_stops(*B, nullptr, exact, label + " in an order", false);
      }
    }
  EXPECT_EQ(foreign > 4, where() != Where::heeding) << foreign;
  EXPECT_EQ(foreign == 0, where() == Where::heeding) << foreign;
}

TEST_P(AfterEnd, NothingIsSeenWithOperatorsOfUsersAndPreconditionersOfUsers) {
  const OfAUser A(make_matrix(format("csr"), there_, context_));
  EXPECT_FALSE(A.recording().heeds_stop);
  same_with_stops(A, nullptr, !gpu(), "user's operator", false);
  const auto jacobi = make_preconditioner<double>("jacobi", A);
  jacobi->ensure(A);
  same_with_stops(A, jacobi.get(), !gpu(), "user's operator, jacobi", false);
#if defined(PROTEAN_HAVE_CUDA)
  if (!gpu()) return;
  // A function of a user's program, recorded.
  const std::int64_t m = 20, n = m * m;
  CallbackOperator<double> stencil(
      context_, {n, n}, ProductFunction<double>([m](const double* x, double* y, CUstream_st* stream) {
        queue_stencil(m, x, y, stream);
      }),
      {.recordable = true});
  CallbackPreconditioner<double> quarter(
      context_, {n, n},
      [n](const double* r, double* z, CUstream_st* stream) { queue_scaled(n, 0.25, r, z, stream); }, {},
      {.recordable = true});
  same_with_stops(stencil, nullptr, true, "callback");
  if (!symmetric()) same_with_stops(stencil, &quarter, true, "callbacks");
#endif
}

TEST_P(AfterEnd, NothingIsSeenWhereTheFormatChanges) {
  for (std::int64_t every = 1; every <= 12; every += 4) {
    Matrix<double> A(there_, make_matrix(format("csr"), there_, context_));
    class Changes final : public SolveObserver {
     public:
      Changes(Matrix<double>& A, std::array<FormatSpec, 3> forms, std::int64_t k)
          : A_(A), forms_(std::move(forms)), every_(k), next_(k) {}
      bool on_iteration(const IterationInfo& info) override {
        if (info.iteration < next_) return true;
        next_ = info.iteration + every_;
        return A_.switch_to(forms_[count_++ % forms_.size()], info.iteration, "the test");
      }
      std::int64_t next_stop() const noexcept override { return next_; }

     private:
      Matrix<double>& A_;
      std::array<FormatSpec, 3> forms_;
      std::size_t count_ = 0;
      std::int64_t every_, next_;
    };
    const std::string foreign = gpu() ? "cusparse" : "";
    Changes changes(A,
                    {FormatSpec{&format("sell-c-sigma"), {}, foreign}, FormatSpec{&format("coo"), {}, ""},
                     FormatSpec{&format("csr"), {}, foreign}},
                    every);
    const Placed<double> b(context_, std::vector<double>(static_cast<std::size_t>(A.rows()), 1.0));
    Placed<double> x(context_, std::vector<double>(static_cast<std::size_t>(A.rows()), 0.0));
    SolverOptions solver_options;
    solver_options.restart = 9, solver_options.device_steps = gpu() ? "graph" : "auto";
    solver_options.stopping.relative_tolerance = 1e-9, solver_options.stopping.max_iterations = 400;
    const auto report = make_solver<double>(method(), options_read_by(method(), solver_options))
                            ->solve(A, b.read(), x.view(), nullptr, &changes);
    EXPECT_TRUE(report.converged()) << report.detail;
    EXPECT_GT(A.history().size(), 0u);
    // If rounding differs, the count of iterations may differ a little.
    Stops none(0);
    Placed<double> x0(context_, std::vector<double>(static_cast<std::size_t>(A.rows()), 0.0));
    const auto csr = matrix("csr");
    const auto reference = make_solver<double>(method(), options_read_by(method(), solver_options))
                               ->solve(*csr, b.read(), x0.view(), nullptr, &none);
    EXPECT_NEAR(static_cast<double>(report.iterations), static_cast<double>(reference.iterations),
                2 + 0.2 * static_cast<double>(reference.iterations))
        << "changes every " << every;
  }
}

std::vector<std::tuple<Where, const char*>> cases() {
  std::vector<std::tuple<Where, const char*>> all;
  for (const Where where : {Where::heeding, Where::foreign, Where::gpu})
    for (const char* method : all_methods()) all.emplace_back(where, method);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, AfterEnd, testing::ValuesIn(cases()), [](const auto& instance) {
  const Where where = std::get<0>(instance.param);
  return std::string(std::get<1>(instance.param)) + (where == Where::heeding   ? "_simulated"
                                                     : where == Where::foreign ? "_simulated_foreign"
                                                                               : "_gpu");
});

}  // namespace
}  // namespace protean::test
