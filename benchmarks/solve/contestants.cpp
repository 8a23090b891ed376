#include "benchmarks/solve/contestants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

// The matrix in our formats, the fastest product first, without the formats that refuse it.
std::vector<std::shared_ptr<AssembledMatrix<double>>> our_matrices(const ContextPtr& context,
                                                                   const CsrMatrix<double>& csr,
                                                                   const std::vector<std::string>& formats) {
  std::vector<std::pair<double, std::shared_ptr<AssembledMatrix<double>>>> timed;
  Vector<double> x(context, csr.cols()), y(context, csr.rows());
  std::fill_n(x.data(), x.size(), 1.0);
  for (const FormatEntry* format : catalogue()) {
    if (!wanted(formats, format->id)) continue;
    try {
      std::shared_ptr<AssembledMatrix<double>> matrix = make_matrix(*format, csr, context);
      double least = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 10; ++i) {
        const auto start = Clock::now();
        matrix->apply(x, y);
        least = std::min(least, seconds_since(start));
      }
      timed.emplace_back(least, std::move(matrix));
    } catch (const FormatRefused&) {}
  }
  std::sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::shared_ptr<AssembledMatrix<double>>> chosen;
  for (std::size_t i = 0; i < timed.size(); ++i)
    if (i < 2 || !formats.empty() || timed[i].second->name() == "csr") chosen.push_back(timed[i].second);
  return chosen;
}

CgSolve our_cg(std::shared_ptr<AssembledMatrix<double>> matrix) {
  std::shared_ptr<Preconditioner<double>> jacobi = make_preconditioner<double>("jacobi", *matrix);
  jacobi->ensure(*matrix);
  struct Held {
    std::unique_ptr<Solver<double>> solver;
  };
  auto held = std::make_shared<Held>();
  return {std::string(matrix->name()), [=](const double* b, double* x, int iterations) {
            if (!held->solver || held->solver->options().stopping.max_iterations != iterations)
              held->solver = make_solver<double>(
                  "cg", {.stopping = {.relative_tolerance = 0, .max_iterations = iterations}});
            const std::int64_t n = matrix->rows();
            std::fill_n(x, n, 0.0);
            const SolveReport report = held->solver->solve(*matrix, {b, n}, {x, n}, jacobi.get());
            if (report.reason != StopReason::max_iterations || report.iterations != iterations)
              throw std::runtime_error(fmt::format("our cg ended with {} after {} iterations",
                                                   to_string(report.reason), report.iterations));
          }};
}

}  // namespace

double Contestant::least() const { return *std::min_element(samples.begin(), samples.end()); }

std::vector<Contestant> cg_contestants(const ContextPtr& context, const CsrMatrix<double>& csr,
                                       const std::vector<std::string>& formats,
                                       const std::vector<std::string>& peers) {
  std::vector<Contestant> contestants;
  for (auto& matrix : our_matrices(context, csr, formats))
    contestants.push_back({our_cg(std::move(matrix)), true});
  const auto add = [&](const std::vector<CgSolve>& list) {
    for (const CgSolve& cg : list) contestants.push_back({cg, false});
  };
  if (wanted(peers, "mkl")) add(mkl_cg(csr, context->threads()));
  if (wanted(peers, "eigen")) add(eigen_cg(csr, context->threads()));
  if (wanted(peers, "petsc")) add(petsc_cg(csr));
  return contestants;
}

void let_threads_park() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

}  // namespace protean::bench
