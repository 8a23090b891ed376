// The policy in a running solve. The clock is simulated: only the formats of these tests advance it, so the results do
// not depend on other load.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/generate/generate.hpp"
#include "core/permutation.hpp"
#include "formats/catalogue.hpp"
#include "operators/matrix/matrix.hpp"
#include "operators/policy/cost_model.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/auto_switcher.hpp"
#include "solvers/solver.hpp"

namespace protean::test {

// Building threads advance it, too. It does not begin at 0, so that a time since then is not taken for a duration.
inline std::atomic<std::int64_t> microseconds{1'000'000'000'000};
inline std::atomic<std::int64_t> microseconds_a_reading{0};
inline double simulated_time() { return 1e-6 * static_cast<double>(microseconds += microseconds_a_reading); }

// A matrix of small bandwidth in a random numbering is a mesh that an order helps.
inline constexpr std::int64_t near_bandwidth = 100;
inline std::int64_t bandwidth(const SparsityPattern& pattern) {
  std::int64_t widest = 0;
  for (std::int64_t i = 0; i < pattern.rows; ++i)
    for (const std::int32_t j : pattern.row(i)) widest = std::max(widest, std::abs(i - j));
  return widest;
}
// What a product of csr takes in an order of small bandwidth; 0: the same as in any other.
inline std::int64_t near_microseconds = 0;

// Simulated microseconds that other work adds to each product.
inline std::int64_t delay = 0;

// csr whose products take `wait` simulated microseconds, and whose build takes 1500.
inline constexpr std::int64_t build_microseconds = 1500;
class Waiting final : public AssembledMatrix<double>, public HasRowArrays<double> {
 public:
  explicit Waiting(const BuildRequest<double>& request, std::int64_t wait)
      : AssembledMatrix<double>(request),
        csr_(make_matrix(find_format("csr"), request.csr, request.context)),
        wait_(wait) {
    microseconds += build_microseconds;
  }
  CsrMatrix<double> to_csr() const override { return csr_->to_csr(); }
  std::size_t bytes() const noexcept override { return csr_->bytes(); }
  void diagonal(VectorView<double> d) const override { csr_->diagonal(d); }
  // The arrays are not read here.
  RowArrays<double> row_arrays() const noexcept override {
    return {.kind = RowArrays<double>::Kind::csr, .rows = this->rows()};
  }

 protected:
  void do_update_values(const CsrMatrix<double>& csr) override { csr_->update_values(csr); }
  void do_apply(double alpha, VectorView<const double> x, double beta, VectorView<double> y) const override {
    microseconds += wait_ + delay;
    csr_->apply(alpha, x, beta, y);
  }

 private:
  std::unique_ptr<AssembledMatrix<double>> csr_;
  std::int64_t wait_;
};

using Made = std::unique_ptr<AssembledMatrix<double>>;
inline bool start_cannot_be_built = false;
inline Made make_start(const BuildRequest<double>& r) {
  if (start_cannot_be_built) throw std::runtime_error("it is gone");
  const bool near = near_microseconds > 0 && bandwidth(r.csr.pattern) <= near_bandwidth;
  return std::make_unique<Waiting>(r, near ? near_microseconds : 2000);
}
inline Made make_fast(const BuildRequest<double>& r) { return std::make_unique<Waiting>(r, 100); }
inline Made make_slower(const BuildRequest<double>& r) { return std::make_unique<Waiting>(r, 2200); }
inline Made make_slow(const BuildRequest<double>& r) { return std::make_unique<Waiting>(r, 8000); }
inline Made make_broken(const BuildRequest<double>&) { throw std::runtime_error("no luck"); }
inline Made make_endless(const BuildRequest<double>& r) {
  for (int k = 0; k < 5000; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const Buffer<double> place_to_cancel(r.context, 100000);
  }
  return make_fast(r);
}

inline Admission accept(const Context&, const SparsityPattern& p, const FormatParams&,
                        std::size_t value_bytes) {
  return Admission::accept(p.bytes() + static_cast<std::size_t>(p.nonzeros) * value_bytes, p.nonzeros);
}

constexpr Kernel kernel(MakeMatrix<double> make) {
  return {.name = "native", .host = true, .make_f64 = make, .ordered = true};
}
inline constexpr Kernel start_kernels[] = {kernel(make_start)}, fast_kernels[] = {kernel(make_fast)},
                        slow_kernels[] = {kernel(make_slow)}, slower_kernels[] = {kernel(make_slower)},
                        broken_kernels[] = {kernel(make_broken)}, endless_kernels[] = {kernel(make_endless)};
inline FormatEntry entry(std::string_view id, std::span<const Kernel> kernels) {
  return {.family = "test",
          .id = id,
          .title = "for tests",
          .source = "",
          .traits = {},
          .params = {},
          .kernels = kernels,
          .admit = accept};
}
inline const FormatEntry start = entry("csr", start_kernels), fast = entry("fast", fast_kernels),
                         slow = entry("slow", slow_kernels), slower = entry("slower", slower_kernels),
                         broken = entry("broken", broken_kernels),
                         endless = entry("endless", endless_kernels);

// A solve of a 2D problem that begins in `start`. The table predicts `promise` of its product time for each
// target, and a build time of `convert` products.
struct Live {
  ContextPtr context;
  CsrMatrix<double> csr;
  Matrix<double> A;
  MachineTable table;
  AutoSwitchOptions options{.policy = {}, .goal = 1e-10, .max_iterations = 10000};
  int surveys = 0;
  std::function<std::vector<SwitchTarget>(std::vector<SwitchTarget>)> change_survey;
  Vector<double> x{context, csr.rows()}, b{context, csr.rows()};

  double promise = 0.2, convert = 1;
  bool measured_targets = true;  // false: the table has `start` alone
  double order_price = 0;        // in the table, in products of `start`; 0: the table has none
  const Preconditioner<double>* M = nullptr;

  // One thread: there are none to wait for on a busy machine.
  Live() : Live(Context::host(1)) {}
  explicit Live(const ContextPtr& host)
      : Live(host, generate(host, "poisson-2d", {{"n", 40.0}}), {.clock = simulated_time}) {}
  Live(ContextPtr host, CsrMatrix<double> matrix, MatrixOptions adaptive)
      : context(std::move(host)),
        csr(std::move(matrix)),
        A(csr, make_matrix(start, csr, context), std::move(adaptive)) {}

  std::unique_ptr<AutoSwitcher<double>> switcher(std::vector<const FormatEntry*> targets,
                                                 SolveObserver* inner = nullptr) {
    targets.insert(targets.begin(), &start);
    MeasuredMatrix measured{"test", Space::host, csr.rows(), csr.nonzeros(), {}};
    std::vector<SwitchTarget> offered;
    for (const FormatEntry* target : targets) {
      const bool first = target == &start;
      if (first || measured_targets)
        measured.formats.push_back({std::string(target->id), csr.bytes(), first ? 1e-3 : promise * 1e-3,
                                    first ? 0 : convert * 1e-3});
      offered.push_back({{.entry = target, .params = {}, .kernel = {}}, true, {}, csr.bytes()});
    }
    if (order_price > 0) measured.formats.push_back({"order-rcm", csr.bytes(), 1e-3, order_price * 1e-3});
    table.matrices = {measured};
    return std::make_unique<AutoSwitcher<double>>(
        A, CostModel(table, Space::host),
        [this, offered] {
          ++surveys;
          return change_survey ? change_survey(offered) : offered;
        },
        options, inner);
  }

  // Waits between two iterations until the build beside the solve is ready.
  struct Patient final : SolveObserver {
    Matrix<double>& A;
    explicit Patient(Matrix<double>& a) : A(a) {}
    bool on_iteration(const IterationInfo&) override {
      if (A.preparation() == Preparation::running) (void)A.wait_prepared();
      return true;
    }
  } patient{A};

  SolveReport solve(SolveObserver& observer, const char* method = "cg", double tolerance = 1e-10) {
    for (std::int64_t i = 0; i < b.size(); ++i) b[i] = 1.0 + static_cast<double>(i % 5), x[i] = 0;
    SolverOptions solver;
    solver.stopping.relative_tolerance = tolerance;
    const SolveReport report = make_solver<double>(method, solver)->solve(A, b, x, M, &observer);
    EXPECT_TRUE(report.converged()) << report.detail;
    // The residual is computed in csr, independently of the formats that ran.
    Vector<double> r(context, csr.rows());
    make_matrix(find_format("csr"), csr, context)->apply(x, r);
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < b.size(); ++i)
      difference += (b[i] - r[i]) * (b[i] - r[i]), norm += b[i] * b[i];
    EXPECT_LE(std::sqrt(difference / norm), 2 * tolerance);
    return report;
  }
};

inline const CandidateRecord& of(const std::vector<CandidateRecord>& records, std::string_view format) {
  for (const CandidateRecord& record : records)
    if (record.format == format) return record;
  throw std::runtime_error("there is no such candidate");
}

// Iteration k of a solve whose residual is factor^k.
inline void iterate(AutoSwitcher<double>& switcher, std::int64_t k, double factor) {
  const double residual = std::pow(factor, static_cast<double>(k));
  EXPECT_TRUE(switcher.on_iteration({.iteration = k, .residual = residual, .relative_residual = residual}));
}

// A mesh in a random numbering.
inline CsrMatrix<double> shuffled_mesh(const ContextPtr& host) {
  const CsrMatrix<double> mesh = generate(host, "poisson-2d", {{"n", 40.0}});
  std::vector<std::int32_t> order(static_cast<std::size_t>(mesh.rows()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  return PermutedMatrix<double>(host, mesh, Permutation(host, order)).matrix();
}

// The decision about the order, which is there where it stays.
inline std::string why_order_stays(const AutoSwitcher<double>& switcher) {
  for (const DecisionRecord& decision : switcher.decisions())
    if (decision.format == "order rcm") {
      EXPECT_EQ(decision.action, SwitchAction::stay);
      return decision.reason;
    }
  return {};
}

}  // namespace protean::test
