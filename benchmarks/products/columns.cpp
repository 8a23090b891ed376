// Products and solves with several vectors against as many single ones: how much is saved by reading the matrix once
// for k vectors. Each product is compared with the single ones before it is timed. Next to them are the products of MKL
// and cuSPARSE with several vectors, if these are in the build. The times of a solve are times of one iteration of all
// columns, in solves of a fixed number of iterations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/matrices.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/columns.hpp"
#include "core/blas1.hpp"
#include "core/multi_blas1.hpp"
#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"
#include "solvers/multi_solver.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string space = "host", method = "cg", json;
  int threads = 2, iterations = 30;
  double share = 0.1, seconds = 0.3;
  std::vector<std::string> only, formats = {"csr", "sell-c-sigma", "sell-packed", "bcsr"},
                                 counts = {"1", "2", "4", "8", "16"};
};

// Seconds of one call of work(), the median; enough calls at a time for the clock not to matter.
double time_of(const Context& context, double seconds, const std::function<void()>& work) {
  work();
  context.synchronize();
  auto begin = Clock::now();
  work();
  context.synchronize();
  const int count = std::clamp(static_cast<int>(2e-3 / std::max(1e-7, seconds_since(begin))), 1, 200);
  std::vector<double> samples;
  const auto start = Clock::now();
  do {
    begin = Clock::now();
    for (int i = 0; i < count; ++i) work();
    context.synchronize();
    samples.push_back(seconds_since(begin) / count);
  } while (seconds_since(start) < seconds || samples.size() < 5);
  return median(samples);
}

struct Vectors {
  Vectors(const ContextPtr& context, std::int64_t rows, std::int64_t k, VectorLayout layout)
      : multi(context, rows, k, layout) {}
  MultiVector<double> multi;
  double* data() { return multi.data(); }
};

const char* name_of(VectorLayout layout) {
  return layout == VectorLayout::columns ? "columns" : "interleaved";
}

class Table {
 public:
  Table(const Options& options, ContextPtr context) : options_(options), context_(std::move(context)) {}

  void add(const NamedMatrix& matrix) {
    const CsrMatrix<double> host = matrix.make(Context::host(options_.threads));
    const CsrMatrix<double> csr = context_->space() == Space::host ? host : upload(context_, host);
    fmt::print("\n{}: {} rows, {} entries\n{:24} {:>3} {:>12} {:>12} {:>12} {:>8} {:>12} {:>12} {:>8}\n",
               matrix.name, csr.rows(), csr.nonzeros(), "", "k", "k single", "interleaved", "columns", "gain",
               "k solves", "together", "gain");
    for (const std::string& count : options_.counts) {
      const std::int64_t k = std::stoll(count);
      for (const std::string& id : options_.formats) {
        std::unique_ptr<AssembledMatrix<double>> A;
        try {
          A = make_matrix(find_format(id), csr, context_);
        } catch (const FormatRefused& refused) {
          if (k == std::stoll(options_.counts.front())) fmt::print("{:24} {}\n", id, refused.what());
          continue;
        }
        run(matrix.name, *A, k, csr.rows() == csr.cols());
      }
      for (const LibraryProduct& product : products_of_columns(context_, csr, k)) {
        Vectors x(context_, csr.cols(), k, product.layout), y(context_, csr.rows(), k, product.layout);
        fill<double>(*context_, 1.0, {x.data(), csr.cols() * k, context_->space()});
        const double seconds =
            time_of(*context_, options_.seconds, [&] { product.apply(x.data(), y.data()); });
        fmt::print("{:24} {:3} {:12} {:12.3f} {}\n", product.name, k, "", seconds * 1e3,
                   name_of(product.layout));
        results_.push_back({{"matrix", matrix.name},
                            {"format", product.name},
                            {"k", k},
                            {"layout", name_of(product.layout)},
                            {"product_seconds", seconds}});
      }
      std::fflush(stdout);
    }
  }

  nlohmann::json results() const { return results_; }

 private:
  void run(const std::string& matrix, const AssembledMatrix<double>& A, std::int64_t k, bool square) {
    const Context& c = *context_;
    std::vector<double> numbers(static_cast<std::size_t>(A.cols() * k));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<double>(i * 2654435761u % 1000) / 1000;
    Vectors x(context_, A.cols(), k, VectorLayout::columns), y(context_, A.rows(), k, VectorLayout::columns);
    copy<double>(c, {numbers.data(), std::ssize(numbers)}, {x.data(), std::ssize(numbers), c.space()});
    const double single = time_of(c, options_.seconds, [&] {
      for (std::int64_t j = 0; j < k; ++j) A.apply(x.multi.view().column(j), y.multi.view().column(j));
    });
    std::vector<double> expected(static_cast<std::size_t>(A.rows() * k)), found(expected.size());
    copy<double>(c, {y.data(), std::ssize(expected), c.space()}, {expected.data(), std::ssize(expected)});
    double seconds[2] = {};
    for (const VectorLayout layout : {VectorLayout::interleaved, VectorLayout::columns}) {
      Vectors in(context_, A.cols(), k, layout), out(context_, A.rows(), k, layout),
          back(context_, A.rows(), k, VectorLayout::columns);
      std::vector<ColumnPair> all;
      for (std::int32_t j = 0; j < k; ++j) all.push_back({j, j});
      copy_columns<double>(c, x.multi, in.multi, all);
      seconds[layout == VectorLayout::columns] =
          time_of(c, options_.seconds, [&] { multi_apply<double>(A, in.multi, out.multi); });
      copy_columns<double>(c, out.multi, back.multi, all);
      copy<double>(c, {back.data(), std::ssize(found), c.space()}, {found.data(), std::ssize(found)});
      double largest = 0, difference = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        largest = std::max(largest, std::abs(expected[i])),
        difference = std::max(difference, std::abs(expected[i] - found[i]));
      if (!(difference <= 1e-12 * largest)) {
        fmt::print("{:24} {:3} WRONG product ({}): relative difference {:.1e}\n", A.name(), k,
                   name_of(layout), difference / largest);
        return;
      }
    }
    const auto [solves, together] = square && options_.iterations > 0 ? iterations(A, y, k) : Iterations{};
    fmt::print("{:24} {:3} {:12.3f} {:12.3f} {:12.3f} {:8.2f} {:12.3f} {:12.3f} {:8.2f}\n", A.name(), k,
               single * 1e3, seconds[0] * 1e3, seconds[1] * 1e3, single / seconds[0], solves * 1e3,
               together * 1e3, together > 0 ? solves / together : 0);
    results_.push_back({{"matrix", matrix},
                        {"format", A.name()},
                        {"k", k},
                        {"product", column_by_column<double>(A).empty() ? "in one pass" : "column by column"},
                        {"single_seconds", single},
                        {"interleaved_seconds", seconds[0]},
                        {"columns_seconds", seconds[1]},
                        {"single_iteration_seconds", solves},
                        {"multi_iteration_seconds", together}});
  }

  // Seconds of an iteration of all columns in k solves and in one; 0 if a solve ends early.
  struct Iterations {
    double single = 0, together = 0;
  };
  Iterations iterations(const AssembledMatrix<double>& A, Vectors& b, std::int64_t k) const {
    const Context& c = *context_;
    SolverOptions how;
    how.stopping.relative_tolerance = 0, how.stopping.max_iterations = options_.iterations,
    how.stopping.divergence = 1e300;
    const auto one = make_solver<double>(options_.method, how);
    MultiSolver<double> several(options_.method, how);
    Vectors x(context_, A.rows(), k, VectorLayout::columns);
    StopReason reason = StopReason::max_iterations;
    const auto look_at = [&](const SolveReport& report) {
      if (report.reason != StopReason::max_iterations) reason = report.reason;
    };
    const auto time = [&](const std::function<void()>& solve) {
      return time_of(c, options_.seconds,
                     [&] {
                       fill<double>(c, 0.0, {x.data(), A.rows() * k, c.space()});
                       solve();
                     }) /
             options_.iterations;
    };
    const Iterations found{time([&] {
                             for (std::int64_t j = 0; j < k; ++j)
                               look_at(one->solve(A, b.multi.view().column(j), x.multi.view().column(j)));
                           }),
                           time([&] {
                             for (const SolveReport& column : several.solve(A, b.multi, x.multi).columns)
                               look_at(column);
                           })};
    if (reason == StopReason::max_iterations) return found;
    fmt::print("{:24} {:3} solves end early: {}\n", A.name(), k, to_string(reason));
    return {};
  }

  const Options& options_;
  const ContextPtr context_;
  nlohmann::json results_ = nlohmann::json::array();
};

}  // namespace

int run_columns(Arguments& arguments) {
  Options options;
  arguments.read({shared::space(options.space),
                  shared::threads(options.threads),
                  shared::share(options.share),
                  shared::only(options.only),
                  shared::formats(options.formats),
                  {"--counts N,...", &options.counts, "numbers of vectors"},
                  {"--method", &options.method, "of the solves; gmres restarts after 30 steps",
                   one_of({"cg", "bicgstab", "gmres"})},
                  {"--iterations", &options.iterations, "of a solve; 0: no solves", at_least(0)},
                  shared::seconds(options.seconds),
                  shared::json(options.json)});
  const ContextPtr context = context_of(options.space, Context::host(options.threads));
  fmt::print(
      "milliseconds: of k products one after another, of one product with k vectors (interleaved, by "
      "columns), and of an "
      "iteration of k solves of {} one after another and together\n",
      options.method);
  Table table(options, context);
  for (const NamedMatrix& matrix : formula_matrices(options.share))
    if (wanted(options.only, matrix.name)) table.add(matrix);
  Report report("columns", options.threads, options.json);
  report["space"] = options.space, report["share"] = options.share, report["method"] = options.method;
  report["results"] = table.results();
  report.write();
  return 0;
}

}  // namespace protean::bench
