// The time of an iteration of each method: with one vector, by each way in which its steps can run, and with several
// columns. It is the difference of two lengths of a solve, so that recording and the first and last residual do not
// count. The Laplacian of a square, b of random numbers, jacobi.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "core/transfer.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string json, space = "host", format = "csr";
  std::vector<std::string> sizes = {"20", "90", "300"}, methods;
  int threads = 2, columns = 4, repeat = 9;
};

constexpr int shorter = 64, longer = shorter + 96;

// Calls solve(iterations), which returns how many were computed, for both lengths; seconds an iteration.
template <class Solve>
double iteration(int repeat, const Context& context, const Solve& solve) {
  const auto seconds = [&](int iterations) {
    context.synchronize();
    const auto start = Clock::now();
    const std::int64_t computed = solve(iterations);
    const double time = seconds_since(start);
    if (computed != iterations)
      throw std::runtime_error(fmt::format("{} iterations instead of {}", computed, iterations));
    return time;
  };
  (void)seconds(shorter), (void)seconds(longer);
  std::vector<double> samples;
  for (int i = 0; i < repeat; ++i) {
    const double first = seconds(shorter);
    samples.push_back((seconds(longer) - first) / (longer - shorter));
  }
  return median(samples);
}

SolverOptions options_of(int iterations, const std::string& steps) {
  SolverOptions options;
  if (!steps.empty()) options.device_steps = steps;
  options.stopping.relative_tolerance = 0;
  options.stopping.max_iterations = iterations;
  return options;
}

}  // namespace

int run_iteration(Arguments& arguments) {
  Options options;
  arguments.read({shared::space(options.space),
                  shared::threads(options.threads),
                  {"--sizes N,...", &options.sizes, "unknowns along a side of the square"},
                  {"--format ID", &options.format, "the format of the matrix"},
                  {"--methods ID,...", &options.methods, "these methods only"},
                  {"--columns N", &options.columns, "how many columns", at_least(1)},
                  shared::repeat(options.repeat),
                  shared::json(options.json)});
  const ContextPtr host = Context::host(options.threads),
                   context = options.space == "device" ? Context::device() : host;
  Report report("iteration", host->threads(), options.json);
  nlohmann::json& results = report["results"] = nlohmann::json::array();
  fmt::print("{:>9} {:10} {:>9} {:10} {:>12}\n", "rows", "method", "columns", "steps", "us");
  const std::vector<std::string> ways =
      context == host ? std::vector<std::string>{""} : std::vector<std::string>{"graph", "resident"};
  for (const std::string& size : options.sizes) {
    const CsrMatrix<double> generated = generate(host, "poisson-2d", {{"n", std::stod(size)}}),
                            csr = context == host ? generated : upload(context, generated);
    const auto A = make_matrix(find_format(options.format), csr, context, {});
    const auto M = make_preconditioner<double>("jacobi", *A);
    M->ensure(*A);
    const std::int64_t n = A->rows(), k = options.columns;
    const std::vector<double> numbers = waves(n * k, 1.5);
    Vector<double> b(context, n * k), x(context, n * k);
    copy<double>(*context, VectorView<const double>{numbers.data(), n * k}, b.view());
    const auto tell = [&](const std::string& method, std::int64_t columns, const std::string& steps,
                          double seconds) {
      fmt::print("{:9} {:10} {:9} {:10} {:12.2f}\n", n, method, columns, steps.empty() ? "host" : steps,
                 1e6 * seconds);
      results.push_back(
          {{"rows", n}, {"method", method}, {"columns", columns}, {"steps", steps}, {"seconds", seconds}});
    };
    const auto first = [n](auto view) { return decltype(view){view.data, n, view.space}; };
    for (const SolverEntry& entry : solvers()) {
      const std::string method(entry.id);
      if (!wanted(options.methods, method)) continue;
      for (const std::string& way : ways) {
        try {
          const auto at_length = [&](int iterations) {
            return make_solver<double>(method, options_of(iterations, way));
          };
          const auto brief = at_length(shorter), extended = at_length(longer);
          tell(method, 1, way, iteration(options.repeat, *context, [&](int iterations) {
                 fill<double>(*context, 0.0, x);
                 return (iterations == shorter ? brief : extended)
                     ->solve(*A, first(b.view()), first(x.view()), M.get())
                     .iterations;
               }));
        } catch (const BadArgument& refused) { fmt::print("{:9} {:10} {}\n", n, method, refused.what()); }
      }
      MultiSolver<double> brief(method, options_of(shorter, "")), extended(method, options_of(longer, ""));
      tell(method, k, context == host ? "" : "batches",
           iteration(options.repeat, *context, [&](int iterations) {
             fill<double>(*context, 0.0, x);
             return (iterations == shorter ? brief : extended)
                 .solve(*A, {b.data(), n, k, n, VectorLayout::columns, context->space()},
                        {x.data(), n, k, n, VectorLayout::columns, context->space()}, M.get())
                 .iterations;
           }));
    }
    report.write();
  }
  return 0;
}

}  // namespace protean::bench
