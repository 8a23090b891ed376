// Batches of steps of several columns on a device: a batch that comes again is recorded, and replayed from then on. A
// simulated device compares the work of each replay with what was recorded, and never uses an address twice, so a
// recording that has become stale ends the solve (ARecordingOfOtherWorkIsFound).
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/multi_solves.hpp"
#include "solvers/options.hpp"
#include "solvers/systems.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

constexpr std::int64_t ahead = 5;

class BatchesOfSteps : public testing::TestWithParam<std::string_view> {
 protected:
  // On a simulated device and on a GPU.
  static std::vector<ContextPtr> devices() {
    std::vector<ContextPtr> all{fake_device_context({.steps_ahead = ahead})};
    if (const ContextPtr gpu = test_context(Space::device)) all.push_back(gpu);
    return all;
  }
  static std::string method() { return std::string(GetParam()); }
  static SolverOptions options() {
    SolverOptions options;
    options.stopping.relative_tolerance = 1e-8;
    options.restart = 12, options.directions = 3;
    return options_read_by(method(), options);
  }
  static CsrMatrix<double> system(std::int64_t n = 16) { return system_of<double>("poisson-2d", n); }
  static std::unique_ptr<AssembledMatrix<double>> matrix(const ContextPtr& context,
                                                         const CsrMatrix<double>& csr,
                                                         std::string_view format = "csr") {
    return make_matrix(context->simulated() ? fake_format(format) : find_format(format), placed(context, csr),
                       context);
  }
  static MultiSolved<double> solve(MultiSolver<double>& solver, const LinearOperator<double>& A,
                                   std::int64_t k, const Preconditioner<double>* M = nullptr,
                                   MultiSolveObserver* observer = nullptr) {
    return solve_all<double>(solver, A.context(), A, sample_columns<double>(A.rows(), k, 5),
                             zeros<double>(A.rows(), k), by_columns, M, {}, observer);
  }
};

TEST_P(BatchesOfSteps, ABatchThatComesAgainIsRecordedOnce) {
  for (const ContextPtr& context : devices()) {
    const auto A = matrix(context, system());
    MultiSolver<double> solver(method(), options());
    const auto first = solve(solver, *A, 4);
    ASSERT_TRUE(first.report.converged());
    EXPECT_GT(first.report.columns[0].graphs_recorded, 0);
    EXPECT_EQ(first.report.steps, context->simulated() ? "simulated" : "graph");
    // Later solves replay it. What a solve does once or twice is recorded in the second or third one.
    auto last = solve(solver, *A, 4);
    for (int more = 0; more < 2; ++more) last = solve(solver, *A, 4);
    EXPECT_EQ(last.report.columns[0].graphs_recorded, 0);
    EXPECT_EQ(last.report.steps, first.report.steps);
    EXPECT_EQ(last.x, first.x);
    EXPECT_EQ(last.report.products, first.report.products);
  }
}

TEST_P(BatchesOfSteps, ASolveOfAFewStepsRecordsNothing) {
  for (const ContextPtr& context : devices()) {
    const auto A = matrix(context, system());
    SolverOptions few = options();
    few.stopping.max_iterations = 3;
    MultiSolver<double> solver(method(), few);
    const auto solved = solve(solver, *A, 4);
    EXPECT_EQ(solved.report.columns[0].graphs_recorded, 0);
    EXPECT_EQ(solved.report.steps, context->simulated() ? "simulated" : "queued");
  }
}

// Each change, and the way back to what was recorded before it.
TEST_P(BatchesOfSteps, OtherWorkIsRecordedAgain) {
  for (const ContextPtr& context : devices()) {
    auto csr = system();
    const auto A = matrix(context, csr), other = matrix(context, csr, "sell-c-sigma");
    const auto M = make_preconditioner<double>("jacobi", *A);
    M->ensure(*A);
    MultiSolver<double> solver(method(), options());
    // In three solves: then all that comes in each of them is recorded.
    const auto recorded = [&](const LinearOperator<double>& of, std::int64_t k,
                              const Preconditioner<double>* with) {
      MultiSolver<double> anew(method(), options());
      const auto expected = solve(anew, of, k, with);
      EXPECT_TRUE(expected.report.converged());
      std::int64_t sum = 0;
      for (int one = 0; one < 3; ++one) {
        const auto solved = solve(solver, of, k, with);
        EXPECT_EQ(solved.x, expected.x);
        sum += solved.report.columns[0].graphs_recorded;
      }
      return sum;
    };
    EXPECT_GT(recorded(*A, 4, nullptr), 0);
    EXPECT_GT(recorded(*other, 4, nullptr), 0);
    EXPECT_EQ(recorded(*A, 4, nullptr), 0);
    EXPECT_GT(recorded(*A, 2, nullptr), 0);
    EXPECT_EQ(recorded(*A, 4, nullptr), 0);
    const auto twice = deep_copy(test_context(), csr);
    for (std::int64_t i = 0; i < csr.pattern.row_ptr[csr.rows()]; ++i)
      const_cast<double*>(twice.values)[i] *= 2;
    A->update_values(placed(context, twice));
    EXPECT_GT(recorded(*A, 4, nullptr), 0);
    EXPECT_GT(recorded(*A, 4, M.get()), 0);
  }
}

// A matrix that changes its format in the middle of a solve, between batches that are in flight.
TEST_P(BatchesOfSteps, AChangeOfFormatInASolve) {
  struct Changes final : MultiSolveObserver {
    explicit Changes(Matrix<double>& of) : A(of) {}
    bool on_iteration(const MultiIterationInfo& info) override {
      if (info.iteration >= 14 && !changed)
        changed = A.switch_to({.entry = &fake_format("sell-c-sigma")}, 14);
      return true;
    }
    Matrix<double>& A;
    bool changed = false;
  };
  const ContextPtr context = fake_device_context({.steps_ahead = ahead});
  const auto csr = placed(context, system());
  const auto expected = [&] {
    const auto A = make_matrix(fake_format("csr"), csr, context);
    MultiSolver<double> solver(method(), options());
    return solve(solver, *A, 4);
  }();
  Matrix<double> A(csr, make_matrix(fake_format("csr"), csr, context), {});
  MultiSolver<double> solver(method(), options());
  for (const char* round : {"first", "second"}) {
    SCOPED_TRACE(round);
    Changes changes(A);
    const auto solved = solve(solver, A, 4, nullptr, &changes);
    EXPECT_TRUE(changes.changed);
    EXPECT_TRUE(solved.report.converged());
    EXPECT_GT(solved.report.columns[0].graphs_recorded, 0);
    for (std::size_t j = 0; j < 4; ++j)
      for (std::size_t i = 0; i < solved.x[j].size(); ++i)
        ASSERT_NEAR(solved.x[j][i], expected.x[j][i], 1e-5) << j;
    EXPECT_TRUE(A.switch_to({.entry = &fake_format("csr")}, 0));
  }
}

// A kept solver in any order of systems, preconditioners and numbers of columns, also after calls that failed, gives
// the bits of a new one.
TEST_P(BatchesOfSteps, RandomSequencesOfAKeptSolver) {
  struct Fails final : MultiSolveObserver {
    explicit Fails(std::int64_t iteration) : at(iteration) {}
    bool on_iteration(const MultiIterationInfo& info) override {
      if (info.iteration >= at) throw std::runtime_error("the observer has failed");
      return true;
    }
    const std::int64_t at;
  };
  for (const ContextPtr& context : devices()) {
    std::vector<std::unique_ptr<AssembledMatrix<double>>> A;
    A.push_back(matrix(context, system())), A.push_back(matrix(context, system(), "sell-c-sigma"));
    A.push_back(matrix(context, system(), "dia")), A.push_back(matrix(context, system(11)));
    std::vector<std::unique_ptr<Preconditioner<double>>> M;
    for (const auto& of : A) M.push_back(make_preconditioner<double>("jacobi", *of)), M.back()->ensure(*of);
    MultiSolver<double> kept(method(), options());
    std::mt19937 random(7);
    std::int64_t recorded = 0, failed = 0;
    for (int round = 0; round < 25; ++round) {
      const std::size_t which = random() % A.size();
      const auto k = static_cast<std::int64_t>(1 + random() % 6);
      const Preconditioner<double>* const with = random() % 2 ? M[which].get() : nullptr;
      SCOPED_TRACE("round " + std::to_string(round) + ": system " + std::to_string(which) + ", " +
                   std::to_string(k) + " columns" + (with ? ", jacobi" : ""));
      if (random() % 3 == 0) {
        Fails fails(static_cast<std::int64_t>(random() % 6));
        EXPECT_THROW((void)solve(kept, *A[which], k, with, &fails), std::runtime_error);
        ++failed;
        continue;
      }
      MultiSolver<double> anew(method(), options());
      const auto solved = solve(kept, *A[which], k, with), expected = solve(anew, *A[which], k, with);
      ASSERT_EQ(solved.x, expected.x);
      ASSERT_EQ(solved.report.iterations, expected.report.iterations);
      ASSERT_EQ(solved.report.products, expected.report.products);
      recorded += solved.report.columns[0].graphs_recorded;
    }
    EXPECT_GT(recorded, 0);
    EXPECT_GT(failed, 3);
  }
}

// An operator that says that its work is the same each time, and computes in other memory after some products.
TEST_P(BatchesOfSteps, ARecordingOfOtherWorkIsFound) {
  class Moving final : public LinearOperator<double> {
   public:
    explicit Moving(std::unique_ptr<AssembledMatrix<double>> of)
        : LinearOperator<double>(of->context(), of->shape()), of_(std::move(of)) {
      for (auto& v : memory_) v = Vector<double>(this->context(), this->rows());
    }
    std::string_view name() const noexcept override { return "moving"; }
    Recording recording() const noexcept override { return {true, 1, 0, true}; }
    std::int64_t moves_after = 1 << 20;

   protected:
    void do_apply(double alpha, VectorView<const double> x, double beta,
                  VectorView<double> y) const override {
      Vector<double>& memory = memory_[this->products() > moves_after ? 1 : 0];
      copy<double>(*this->context(), x, memory);
      of_->apply(alpha, memory, beta, y);
    }

   private:
    const std::unique_ptr<AssembledMatrix<double>> of_;
    mutable Vector<double> memory_[2];
  };
  const ContextPtr context = fake_device_context({.steps_ahead = ahead});
  Moving A(matrix(context, system()));
  MultiSolver<double> solver(method(), options());
  EXPECT_TRUE(solve(solver, A, 2).report.converged());
  A.moves_after = A.products() + 40;
  EXPECT_THROW((void)solve(solver, A, 2), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(All, BatchesOfSteps, testing::ValuesIn([] {
                           const auto all = multi_methods();
                           return std::vector<std::string_view>(all.begin(), all.end());
                         }()),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace protean::test
