// Solves with several right-hand sides follow the order of the rows of their operator, which changes between two steps.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/csr_view.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "gtest/gtest.h"
#include "operators/matrix/matrix.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/options.hpp"
#include "support/fake_device.hpp"
#include "support/multi.hpp"

namespace protean::test {
namespace {

// A grid whose diagonal is not constant, so that each row has a number of its own.
CsrMatrix<double> numbered_grid(double n) {
  const CsrMatrix<double> csr = generate(test_context(), "poisson-2d", {{"n", n}});
  std::vector<Triplet<double>> entries;
  for (std::int64_t r = 0; r < csr.rows(); ++r)
    for (std::int64_t k = csr.pattern.row_ptr[r]; k < csr.pattern.row_ptr[r + 1]; ++k)
      entries.push_back({static_cast<std::int32_t>(r), csr.pattern.col[k],
                         csr.values[k] + (csr.pattern.col[k] == r ? 1e-2 * static_cast<double>(r % 11) : 0)});
  return csr_from_triplets<double>(test_context(), csr.rows(), csr.cols(), entries);
}

struct OrderedColumns {
  explicit OrderedColumns(ContextPtr in, std::int64_t count = 5)
      : context(std::move(in)),
        on_host(numbered_grid(context->simulated() ? 10 : 14)),
        csr(context->simulated() ? upload(context, on_host) : on_host),
        A(csr, make_matrix(entry(), csr, context)),
        b(sample_columns<double>(csr.rows(), count, 3)) {}
  const FormatEntry& entry() const { return context->simulated() ? fake_format("csr") : find_format("csr"); }
  bool change_to(const std::string& order, std::int64_t iteration) {
    return A.switch_to({.entry = &entry(), .order = order}, iteration);
  }
  MultiSolveReport solve(MultiSolver<double>& solver, const Preconditioner<double>* M,
                         MultiSolveObserver* observer, std::span<const StoppingRule> rules) {
    const std::int64_t n = csr.rows();
    PlacedColumns<double> B(context, b, n, shape),
        X(context, Columns<double>(b.size(), std::vector<double>(static_cast<std::size_t>(n), 0.25)), n,
          shape);
    MultiSolveReport report = solver.solve(A, B.read(), X.view(), M, observer, rules);
    x = X.fetch();
    return report;
  }
  void expect_solved(const MultiSolveReport& report) const {
    for (std::size_t j = 0; j < b.size(); ++j) {
      const SolveReport& one = report.columns[j];
      EXPECT_TRUE(one.converged()) << "column " << j << ": " << one.detail;
      EXPECT_NEAR(residual_of(on_host, b[j], x[j]), one.true_residual, 1e-10 * one.rhs_norm)
          << "column " << j;
    }
  }
  ContextPtr context;
  CsrMatrix<double> on_host, csr;
  Matrix<double> A;
  Columns<double> b, x;
  MultiShape shape{VectorLayout::columns, 0};
};

// Changes the order at these iterations: rcm, none, rcm ...
struct ChangesOrder final : MultiSolveObserver {
  ChangesOrder(OrderedColumns& of, std::vector<std::int64_t> changes) : one(of), at(std::move(changes)) {}
  bool on_iteration(const MultiIterationInfo& info) override {
    if (done < at.size() && info.iteration >= at[done]) {
      const auto before = one.A.permuted();
      EXPECT_TRUE(before);
      if (before) permuted.push_back(*before);
      EXPECT_TRUE(one.change_to(done % 2 == 0 ? "rcm" : "none", info.iteration))
          << one.A.failures().back().why;
      ++done;
    }
    return true;
  }
  std::int64_t next_stop() const noexcept override {
    return done < at.size() ? at[done] : MultiSolveObserver::next_stop();
  }
  OrderedColumns& one;
  std::vector<std::int64_t> at;
  std::vector<OrderFollower::Permuted> permuted;
  std::size_t done = 0;
};

std::vector<StoppingRule> some_rules() {
  std::vector<StoppingRule> rules(5);
  rules[1].relative_tolerance = 0.3,
  rules[2].relative_tolerance = 1e-4;  // they end before a change, and between two
  return rules;
}

TEST(ColumnsOrder, EachMethodFollowsEachChange) {
  for (const FakeDeviceOptions& options : {FakeDeviceOptions{}, FakeDeviceOptions{.steps_ahead = 3}})
    for (const bool device : {false, true})
      for (const SolverEntry& method : solvers())
        for (const char* preconditioner : {"none", "jacobi", "ssor"}) {
          if (!device && options.steps_ahead > 0) continue;
          SCOPED_TRACE(std::string(method.id) + ", " + preconditioner + (device ? ", device" : "") +
                       (options.steps_ahead > 0 ? ", ahead" : ""));
          OrderedColumns one(device ? fake_device_context(options) : test_context());
          std::unique_ptr<Preconditioner<double>> M = make_preconditioner<double>(preconditioner, one.A);
          if (M) M->ensure(one.A);
          MultiSolver<double> solver(method.id, options_read_by(method.id, {.restart = 12}));
          const std::vector<StoppingRule> rules = some_rules();
          const MultiSolveReport plain = one.solve(solver, M.get(), nullptr, rules);
          one.expect_solved(plain);
          for (const std::vector<std::int64_t>& at :
               {std::vector<std::int64_t>{0}, {5}, {2, 4, 6}, {3, 4, 5, 6, 7}}) {
            if ((device && at.size() < 3) || at.back() >= plain.iterations) continue;
            ChangesOrder changes(one, at);
            const MultiSolveReport report = one.solve(solver, M.get(), &changes, rules);
            one.expect_solved(report);
            EXPECT_EQ(changes.done, at.size());
            EXPECT_EQ(one.A.order_id(), at.size() % 2 == 0 ? "none" : "rcm");
            // The steps are the steps of the other order, except for rounding.
            if (method.id != "idr") {
              EXPECT_NEAR(static_cast<double>(report.iterations), static_cast<double>(plain.iterations),
                          method.symmetric ? 2 : 0.3 * static_cast<double>(plain.iterations));
            }
            for (const SolveReport& column : report.columns)
              EXPECT_LE(column.restarts, plain.columns[0].restarts + 3);
            // The vectors of the solve are permuted once, and the vectors of a product are not.
            for (const OrderFollower::Permuted& of : changes.permuted) {
              EXPECT_GT(of.vectors, 15) << "B, X, X at the end, and vectors of the method";
              EXPECT_EQ(of.each_product > 0, std::string(preconditioner) == "ssor");
            }
            if (one.A.order_id() == "rcm") { ASSERT_TRUE(one.change_to("none", 0)); }
          }
        }
}

// The vectors of a null space and the weights of a norm are permuted, too.
TEST(ColumnsOrder, WithWeightsAndANullSpace) {
  for (const char* norm : {"euclidean", "diagonal"})
    for (const bool singular : {false, true}) {
      SCOPED_TRACE(std::string(norm) + (singular ? ", singular" : ""));
      OrderedColumns one(test_context());
      SolverOptions options;
      options.residual_norm = norm;
      std::vector<double> values(one.on_host.values, one.on_host.values + one.on_host.nonzeros());
      if (singular) {
        for (std::int64_t r = 0; r < one.csr.rows(); ++r) {
          double sum = 0;
          for (std::int64_t k = one.csr.pattern.row_ptr[r]; k < one.csr.pattern.row_ptr[r + 1]; ++k)
            if (one.csr.pattern.col[k] != r) sum -= values[static_cast<std::size_t>(k)];
          for (std::int64_t k = one.csr.pattern.row_ptr[r]; k < one.csr.pattern.row_ptr[r + 1]; ++k)
            if (one.csr.pattern.col[k] == r) values[static_cast<std::size_t>(k)] = sum;
        }
        one.on_host = with_values(one.on_host, values.data());
        one.A.update_values(one.on_host);
        for (std::vector<double>& column : one.b) {
          double mean = 0;
          for (const double v : column) mean += v / static_cast<double>(column.size());
          for (double& v : column) v -= mean;
        }
        options.null_space = "constant";
      }
      MultiSolver<double> solver("cg", options);
      ChangesOrder changes(one, {4, 9});
      const MultiSolveReport report = one.solve(solver, nullptr, &changes, {});
      EXPECT_EQ(changes.done, 2u);
      for (std::size_t j = 0; j < one.b.size(); ++j) {
        EXPECT_TRUE(report.columns[j].converged()) << report.columns[j].detail;
        double size = 0, sum = 0;
        for (const double v : one.b[j]) size += v * v;
        for (const double v : one.x[j]) sum += v;
        EXPECT_LE(residual_of(one.on_host, one.b[j], one.x[j]), 1e-7 * std::sqrt(size));
        if (singular) { EXPECT_LE(std::abs(sum), 1e-8); }
      }
    }
}

// What an observer reads is in the caller's order.
TEST(ColumnsOrder, AnObserverReadsXInTheCallersOrder) {
  struct Reads final : MultiSolveObserver {
    bool on_iteration(const MultiIterationInfo& info) override {
      if (!changes.on_iteration(info)) return false;
      const auto n = static_cast<std::size_t>(changes.one.csr.rows());
      for (std::size_t j = 0; j < info.residuals.size(); ++j) {
        const std::vector<double> x(X + j * n, X + (j + 1) * n);
        EXPECT_NEAR(residual_of(changes.one.on_host, changes.one.b[j], x), info.residuals[j],
                    1e-6 * info.residuals[j] + 1e-12)
            << "column " << j << " at " << info.iteration;
      }
      return true;
    }
    bool reads_solution(const MultiIterationInfo&) const noexcept override { return true; }
    explicit Reads(OrderedColumns& one, const double* X_) : changes(one, {4, 9}), X(X_) {}
    ChangesOrder changes;
    const double* X;
  };
  OrderedColumns one(test_context());
  const std::int64_t n = one.csr.rows(), k = std::ssize(one.b);
  std::vector<double> B, X(static_cast<std::size_t>(n * k), 0.0);
  for (const std::vector<double>& column : one.b) B.insert(B.end(), column.begin(), column.end());
  Reads reads(one, X.data());
  MultiSolver<double> solver("cg");
  EXPECT_TRUE(solver.solve(one.A, {B.data(), n, k, n}, {X.data(), n, k, n}, nullptr, &reads).converged());
  EXPECT_EQ(reads.changes.done, 2u);
}

}  // namespace
}  // namespace protean::test
