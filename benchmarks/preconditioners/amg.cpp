// Setups of amg by aggregation next to a product of the matrix: the first one of the process, a new one, one for new
// values of the same pattern, and what each step of the finest level takes on a device. Right-hand side A times ones.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::vector<std::string> only = {"poisson-3d-100", "poisson-3d-200", "convection-diffusion-3d-100",
                                   "elasticity-3d-40"};
  std::string space = "device", level_format = "auto", smoother = "l1-jacobi", json;
  int runs = 5;
  bool steps = true;
};

template <class Words>
auto named(const Words& words, const std::string& word) {
  for (const auto one : words)
    if (to_string(one) == word) return one;
  throw BadArgument(fmt::format("there is no word '{}' here", word));
}

class Bench {
 public:
  Bench(const Options& options, const std::string& name)
      : options_(options), host_(Context::host()), context_(context_of(options.space, host_)) {
    const std::size_t dash = name.rfind('-');
    const std::string kind = name.substr(0, dash);
    csr_ = generate(host_, kind, {{"n", std::stod(name.substr(dash + 1))}});
    if (context_->space() == Space::device) csr_ = upload(context_, csr_);
    preconditioner_.smoother = named(smoothers, options.smoother);
    preconditioner_.level_format = named(level_formats, options.level_format);
    if (kind.starts_with("elasticity")) preconditioner_.unknowns = 3;
    method_ = kind.starts_with("convection") ? "bicgstab" : "cg";
    A_ = make_matrix(find_format("csr"), csr_, context_);
    x_ = Vector<double>(context_, A_->rows()), b_ = Vector<double>(context_, A_->rows());
    fill<double>(*context_, 1, x_);
    A_->apply(x_, b_);
  }

  nlohmann::json operator()(const std::string& name) {
    nlohmann::json result{{"matrix", name}, {"rows", A_->rows()}, {"nonzeros", csr_.nonzeros()}};
    const auto say = [&](const std::string& what, double seconds) {
      fmt::print("{:28} {:32} {:10.3f} ms\n", name, what, 1e3 * seconds);
      std::fflush(stdout);
      result[what] = seconds;
    };
    say("product", fastest([&] {
                     for (int k = 0; k < products; ++k) A_->apply(x_, b_);
                   }) / products);
    say("first setup", timed([&] { (void)ready(); }));
    std::unique_ptr<Preconditioner<double>> M;
    say("new setup", fastest([&] { M = ready(); }));
    double renewed = 0;
    for (int run = 0; run < options_.runs; ++run) {
      A_->update_values(csr_);
      const double seconds = timed([&] { M->ensure(*A_); });
      renewed = run == 0 ? seconds : std::min(renewed, seconds);
    }
    say("setup for new values", renewed);
    for (const PreconditionerFigure& one : M->figures()) {
      fmt::print("{:28} {:32} {:10.5g}\n", name, one.name, one.value);
      result[std::string(one.name)] = one.value;
    }
    SolverOptions solver;
    solver.stopping.relative_tolerance = 1e-8;
    const auto method = make_solver<double>(method_, solver);
    SolveReport report;
    for (int run = 0; run < 2; ++run) {  // the second has what the first has recorded
      fill<double>(*context_, 0, x_);
      const double seconds = timed([&] { report = method->solve(*A_, b_, x_, M.get()); });
      if (run > 0) say("solve", seconds);
    }
    fmt::print("{:28} {:32} {:10}\n", name, "iterations", report.iterations);
    result["iterations"] = report.iterations;
    if (options_.steps && context_->space() == Space::device) steps(say);
    return result;
  }

 private:
  static constexpr int products = 50;

  std::unique_ptr<Preconditioner<double>> ready() const {
    auto M = make_preconditioner<double>("amg", *A_, preconditioner_);
    M->ensure(*A_);
    return M;
  }
  template <class F>
  double timed(F f) const {
    synchronize();
    const auto begin = Clock::now();
    f();
    synchronize();
    return seconds_since(begin);
  }
  template <class F>
  double fastest(F f) const {
    double least = timed(f);
    for (int run = 1; run < options_.runs; ++run) least = std::min(least, timed(f));
    return least;
  }
  // A copy to the host waits for all work before.
  void synchronize() const {
    if (context_->space() == Space::host) return;
    double one = 0;
    copy<double>(*context_, VectorView<const double>{x_.data(), 1, Space::device}, {&one, 1});
  }

  template <class Say>
  void steps(const Say& say) const {
    const auto work = detail::level_work<double>(context_);
    bool unsorted = false;
    std::optional<detail::DeviceLevel<double>> level;
    say("  look at the entries", fastest([&] { level = work->finest(csr_, false, unsorted); }));
    detail::DeviceNodes nodes;
    nodes.rows = A_->rows(), nodes.size = static_cast<std::int32_t>(preconditioner_.unknowns);
    nodes.count = nodes.rows / nodes.size, nodes.vectors = nodes.size;
    Vector<double> l1(context_, A_->rows());
    say("  l1", fastest([&] { (void)work->l1(*level, l1); }));
    const detail::CouplingRules rules{preconditioner_.strength, 4, 0.8};
    SparsityPattern couplings, AP, coarse;
    say("  couplings", fastest([&] { couplings = work->couplings(*level, nodes, rules.strength); }));
    Buffer<std::int32_t> of;
    say("  aggregates", fastest([&] { (void)work->aggregate(couplings, of); }));
    std::shared_ptr<detail::DeviceStructure> structure;
    say("  all of the structure",
        fastest([&] { structure = work->structure(*level, nodes, rules, nullptr); }));
    say("  that it is kept", fastest([&] { (void)work->structure(*level, nodes, rules, structure); }));
    say("  of it pattern of P^T", fastest([&] { (void)work->transpose(structure->P, of); }));
    say("  of it pattern of A P", fastest([&] { AP = work->product_pattern(csr_.pattern, structure->P); }));
    say("  of it pattern of P^T A P", fastest([&] { coarse = work->product_pattern(structure->R, AP); }));
    CsrMatrix<double> P, R, product, next;
    say("  P", fastest([&] { P = work->prolongator(*level, nodes, *structure); }));
    say("  P^T", fastest([&] { R = work->restriction(P, *structure); }));
    say("  A P", fastest([&] { product = work->product(csr_, P, structure->AP); }));
    say("  P^T A P", fastest([&] { next = work->product(R, product, structure->coarse_pattern); }));
    std::int64_t bad = 0;
    std::optional<detail::DeviceLevel<double>> coarser;
    say("  look at the coarser level",
        fastest([&] { coarser = work->coarser(next, *level, nodes, *structure, bad); }));
    std::unique_ptr<AssembledMatrix<double>> made;
    say("  P in csr, as a matrix", fastest([&] { made = make_matrix(find_format("csr"), P, context_); }));
    const std::int64_t n = 256;
    const auto small =
        work->finest(upload(context_, generate(host_, "poisson-2d", {{"n", 16}})), false, unsorted);
    Vector<double> inverse(context_, n * n);
    say("  inverse of 256 rows", fastest([&] { (void)work->dense(*small, inverse); }));
  }

  const Options& options_;
  ContextPtr host_, context_;
  CsrMatrix<double> csr_;
  PreconditionerOptions preconditioner_;
  std::string method_;
  std::unique_ptr<AssembledMatrix<double>> A_;
  Vector<double> x_, b_;
};

}  // namespace

int run_amg(Arguments& arguments) {
  Options options;
  arguments.read(
      {{"--only KIND-N,...", &options.only, "generated matrices"},
       shared::space(options.space),
       shared::repeat(options.runs, "the fastest of this many counts, except for the first setup"),
       {"--level-format", &options.level_format, "of the coarser levels", one_of({"auto", "csr"})},
       {"--smoother", &options.smoother, "of all levels", one_of({"l1-jacobi", "gauss-seidel", "chebyshev"})},
       {"--steps", &options.steps, "times of the steps of the finest level, on a device"},
       shared::json(options.json)});
  nlohmann::json results = nlohmann::json::array();
  for (const std::string& name : options.only) results.push_back(Bench(options, name)(name));
  Report report("amg", 0, options.json);
  report["space"] = options.space, report["setups"] = results;
  report.write();
  return 0;
}

}  // namespace protean::bench
