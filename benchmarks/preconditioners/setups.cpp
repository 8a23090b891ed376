// What preconditioners cost and save: setup, new values in the same pattern, one application, one of 8 columns, each
// next to a product of csr in the same space, and a solve to 1e-8, by cg if A and M are symmetric, else by bicgstab.
// Each time is the shortest of several in one process, so that work that happens once per process is left out; the
// first solve is reported separately. The right-hand side is random.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/device_timer.hpp"
#include "core/error.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "core/option_checks.hpp"
#include "core/options.hpp"
#include "core/statistics.hpp"
#include "core/transfer.hpp"
#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/options.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string space = "host", json;
  std::vector<std::string> matrices = {"poisson-3d:100", "elasticity-3d:40", "convection-diffusion-3d:100"},
                           types;
  int threads = 0;
  double seconds = 0.5;
};

const std::vector<std::string> for_symmetric = {"jacobi",        "block-jacobi",
                                                "spai0",         "chebyshev",
                                                "amg",           "ssor",
                                                "ic0",           "ic0:ordering=natural:solve=levels",
                                                "isai",          "isai:power=2",
                                                "subdomain-ic0", "subdomain-ic0:partition=metis"},
                               for_others = {"jacobi",
                                             "block-jacobi",
                                             "spai0",
                                             "amg",
                                             "gauss-seidel",
                                             "ilu0",
                                             "ilu0:ordering=natural:solve=levels",
                                             "isai-lu",
                                             "isai-lu:power=2",
                                             "subdomain-ilu0",
                                             "subdomain-ilu0:overlap=1",
                                             "subdomain-ilu0:partition=metis"};
// The peer of a device: cuSPARSE's triangular solves with the same factors.
constexpr const char* peer = ":ordering=natural:solve=cusparse";

PreconditionerOptions options_of(const std::vector<std::string>& words) {
  PreconditionerOptions options;
  for (std::size_t k = 1; k < words.size(); ++k) {
    const std::vector<std::string> pair = split(words[k], '=');
    const auto* const option = find_option(preconditioner_options(), pair.front());
    if (!option || pair.size() != 2)
      throw BadArgument(fmt::format("'{}' is not an option of preconditioners with its value", words[k]));
    if (option->kind == OptionKind::word)
      option->set(options, std::string_view(pair[1]));
    else
      option->set(options, number_value(*option, std::stod(pair[1])));
  }
  return options;
}

CsrMatrix<double> matrix_of(const std::string& name) {
  const ContextPtr host = Context::host();
  const std::vector<std::string> words = split(name, ':');
  if (words.size() < 2) return read_matrix(host, name);
  GeneratorParams params = {{"n", std::stod(words[1])}};
  for (std::size_t k = 2; k < words.size(); ++k) {
    const std::vector<std::string> pair = split(words[k], '=');
    params[pair.at(0)] = std::stod(pair.at(1));
  }
  return generate(host, words[0], params);
}

// Seconds of `work`, which is queued: by the device's clock if there is one.
template <class Work>
double seconds_of(const Context& context, double seconds, Work work) {
  double best = 1e300;
  constexpr int times = 10;
  const auto begin = Clock::now();
  for (int k = 0; k < 3 || seconds_since(begin) < seconds; ++k) {
    const auto start = Clock::now();
    const std::optional<double> there = detail::device_seconds(context, [&] {
      for (int i = 0; i < times; ++i) work();
    });
    if (!there)
      for (int i = 0; i < times; ++i) work();
    best = std::min(best, there.value_or(seconds_since(start)) / times);
  }
  return best;
}
// Until the results are there.
template <class Work>
double seconds_until_done(const Context& context, double seconds, Work work) {
  double best = 1e300;
  const auto begin = Clock::now();
  for (int k = 0; k < 1 || seconds_since(begin) < (k < 3 ? 8 : 1) * seconds; ++k) {
    context.synchronize();
    const auto start = Clock::now();
    work();
    context.synchronize();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

nlohmann::json measure(const Options& options, const ContextPtr& context, const CsrMatrix<double>& csr,
                       const std::string& matrix, const std::string& type, double product, bool symmetric,
                       const AssembledMatrix<double>& fixed) {
  const std::vector<std::string> words = split(type, ':');
  const PreconditionerOptions of_type = options_of(words);
  const bool device = context->space() == Space::device;
  const CsrMatrix<double> here = device ? upload(context, csr) : csr;
  const auto A = make_matrix(find_format("csr"), here, context);
  const std::int64_t n = csr.rows();
  Vector<double> r(context, n), z(context, n), x(context, n);
  fill<double>(*context, 1.0, r);
  const auto make = [&] {
    auto M = make_preconditioner<double>(words[0], *A, of_type);
    M->ensure(*A);
    return M;
  };
  const double setup = seconds_until_done(*context, options.seconds, [&] { make(); });
  const auto M = make();
  const double renewal = seconds_until_done(*context, options.seconds, [&] {
    A->update_values(here);
    M->ensure(*A);
  });
  const double apply = seconds_of(*context, options.seconds, [&] { M->apply(r, z.view()); });
  constexpr std::int64_t columns = 8;
  MultiVector<double> R(context, n, columns, VectorLayout::interleaved),
      Z(context, n, columns, VectorLayout::interleaved);
  for (std::int64_t k = 0; k < columns; ++k)
    fill<double>(*context, 1.0, {R.data() + k * n, n, context->space()});
  MultiScratch<double> scratch;
  const double apply_columns = seconds_of(
      *context, options.seconds, [&] { multi_apply<double>(*M, 1.0, R.view(), 0.0, Z.view(), &scratch); });
  const char* const method = symmetric && M->symmetric() ? "cg" : "bicgstab";
  const std::vector<double> right = random_numbers(n);
  copy<double>(*context, VectorView<const double>{right.data(), n}, r);
  SolverOptions solver;
  solver.stopping.relative_tolerance = 1e-8, solver.stopping.max_iterations = 5000;
  const auto solving = make_solver<double>(method, solver);
  SolveReport report;
  double first = 0, solve = 1e300;
  for (int k = 0; k < 4; ++k) {
    fill<double>(*context, 0.0, x);
    context->synchronize();
    const auto start = Clock::now();
    report = solving->solve(fixed, r, x, M.get());
    context->synchronize();
    const double took = seconds_since(start);
    if (k == 0) first = took;
    solve = std::min(solve, took);
    if (k > 0 && took > 1) break;
  }
  fmt::print(
      "{:28} {:40} setup {:9.3f} ms ({:8.1f} products), new values {:9.3f} ms ({:7.1f}), apply {:8.4f} ms "
      "({:6.2f}), 8 columns {:8.4f} ms ({:6.2f}), {} {} iterations{}, solve {:9.3f} ms",
      matrix, type, 1e3 * setup, setup / product, 1e3 * renewal, renewal / product, 1e3 * apply,
      apply / product, 1e3 * apply_columns, apply_columns / product, report.iterations, method,
      report.converged() ? "" : " not converged", 1e3 * solve);
  nlohmann::json figures;
  for (const PreconditionerFigure& one : M->figures()) {
    fmt::print(", {} {}", one.name, one.value);
    figures[std::string(one.name)] = one.value;
  }
  fmt::print("\n");
  std::fflush(stdout);
  return {{"matrix", matrix},
          {"rows", n},
          {"entries", csr.nonzeros()},
          {"type", type},
          {"product_seconds", product},
          {"setup_seconds", setup},
          {"new_values_seconds", renewal},
          {"apply_seconds", apply},
          {"apply_columns_seconds", apply_columns},
          {"method", method},
          {"iterations", report.iterations},
          {"converged", report.converged()},
          {"solve_seconds", solve},
          {"first_solve_seconds", first},
          {"steps", report.steps},
          {"figures", figures}};
}

}  // namespace

int run_setups(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::space(options.space),
       {"--threads", &options.threads, "of the host; 0: as many as it has", at_least(0)},
       {"--matrices", &options.matrices, "kind:n of a generated one, kind:n:key=value, or a file"},
       {"--types", &options.types,
        "name, or name:option=value:option=value, such as subdomain-ic0:subdomain_size=512:partition=metis; "
        "without it a list for symmetric and one for other matrices"},
       shared::seconds(options.seconds),
       shared::json(options.json)});
  const bool device = options.space == "device";
  const ContextPtr context = context_of(options.space, Context::host(options.threads));
  Report report("setup", device ? 1 : context->threads(), options.json);
  report["space"] = options.space;
  nlohmann::json& figures = report["preconditioners"] = nlohmann::json::array();
  for (const std::string& name : options.matrices) {
    const CsrMatrix<double> csr = matrix_of(name);
    const auto A = make_matrix(find_format("csr"), device ? upload(context, csr) : csr, context);
    Vector<double> x(context, csr.rows()), y(context, csr.rows());
    fill<double>(*context, 1.0, x);
    const double product = seconds_of(*context, options.seconds, [&] { A->apply(x, y.view()); });
    fmt::print("{}: {} rows, {} entries, a product of csr {:.4f} ms\n", name, csr.rows(), csr.nonzeros(),
               1e3 * product);
    const bool symmetric = asymmetry<double>(*Context::host(), csr) < 1e-8;
    std::vector<std::string> types = options.types;
    if (types.empty()) {
      types = symmetric ? for_symmetric : for_others;
      if (device) types.push_back((symmetric ? "ic0" : "ilu0") + std::string(peer));
      if (name.starts_with("elasticity")) types.push_back("amg:unknowns=3");
    }
    for (const std::string& type : types) {
      try {
        figures.push_back(measure(options, context, csr, name, type, product, symmetric, *A));
      } catch (const Error& error) { fmt::print("{:28} {:40} refused: {}\n", name, type, error.what()); }
    }
  }
  report.write();
  return 0;
}

}  // namespace protean::bench
