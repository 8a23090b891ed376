// Element matrices against assembled formats by degree of the elements, the experiment of Reguly and Giles
// (InPar 2012, figures 17 and 18): conjugate gradients on a Poisson problem in hexahedra, iterations a
// second, and the product alone. Every operator is checked against the first one before it is timed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/fem/problem.hpp"
#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string space = "host";
  int threads = 2;
  int unknowns = 400000, iterations = 50;
  std::vector<std::string> degrees = {"1", "2", "3", "4"}, precisions = {"double", "single"},
                           formats = {"csr", "ell", "sell-c-sigma", "sell-packed"};
  double seconds = 1, distortion = 0;
  std::string json;
};

template <class T>
struct Problem {
  const Options& options;
  ContextPtr context;
  int degree = 0;
  Vector<T> x, reference;
  nlohmann::json& results;

  // Times a product and an iteration of cg, and prints a line. `stored`: full or half, of element matrices.
  void run(const LinearOperator<T>& A, std::size_t bytes, double setup, std::string_view stored = {}) {
    const Context& c = *context;
    Vector<T> y(context, A.rows()), scalar(context, 1);
    A.apply(x, y);
    const auto largest = [&](Vector<T>& v) {
      max_abs<T>(c, v, scalar.data());
      T value = 0;
      copy<T>(c, scalar.view(), {&value, 1});
      return static_cast<double>(value);
    };
    double difference = 0;
    if (reference.size() == 0) {
      reference = Vector<T>(context, A.rows());
      copy<T>(c, y, reference);
    } else {
      Vector<T> gap(context, A.rows());
      copy<T>(c, y, gap);
      axpy<T>(c, T(-1), reference, gap);
      difference = largest(gap) / largest(reference);
      if (!(difference < (sizeof(T) == 8 ? 1e-12 : 1e-4))) {
        fmt::print("degree {} {}: WRONG product, relative difference {:.1e}\n", degree, A.name(), difference);
        return;
      }
    }
    // Enough products at a time for the clock and the launches not to matter.
    std::vector<double> products, iterations;
    const auto start = Clock::now();
    do {
      const auto begin = Clock::now();
      for (int k = 0; k < 10; ++k) A.apply(x, y);
      c.synchronize();
      products.push_back(seconds_since(begin) / 10);
    } while (seconds_since(start) < options.seconds || products.size() < 5);
    SolverOptions how;
    how.stopping.relative_tolerance = 0, how.stopping.max_iterations = options.iterations;
    const auto cg = make_solver<T>("cg", how);
    const auto solving = Clock::now();
    do {
      fill<T>(c, T(0), y);
      c.synchronize();
      const auto report = cg->solve(A, reference.view(), y.view());
      iterations.push_back(report.seconds /
                           static_cast<double>(std::max<std::int64_t>(1, report.iterations)));
    } while (seconds_since(solving) < options.seconds || iterations.size() < 3);
    const double product = median(products), iteration = median(iterations);
    fmt::print("{:6} {:>6} {:16} {:12.6f} {:12.1f} {:10.1f} {:9.1f} {:9.3f}\n", degree,
               sizeof(T) == 8 ? "double" : "single", A.name(), product * 1e3, 1 / iteration,
               static_cast<double>(bytes) / 1e6, static_cast<double>(bytes) / product / 1e9, setup);
    std::fflush(stdout);
    results.push_back({{"degree", degree},
                       {"precision", sizeof(T) == 8 ? "double" : "single"},
                       {"operator", A.name()},
                       {"stored", stored},
                       {"rows", A.rows()},
                       {"product_seconds", product},
                       {"fastest_product_seconds", *std::min_element(products.begin(), products.end())},
                       {"cg_iterations_per_second", 1 / iteration},
                       {"bytes", bytes},
                       {"setup_seconds", setup},
                       {"difference", difference}});
  }
};

template <class T>
void run_degree(const Options& options, int degree, nlohmann::json& results) {
  const ContextPtr host = Context::host(options.threads);
  const ContextPtr context = context_of(options.space, host);
  apps::fem::Spec spec;
  spec.degree = degree, spec.distortion = options.distortion;
  spec.n = std::max(
      1, static_cast<int>(std::lround((std::cbrt(static_cast<double>(options.unknowns)) + 1) / degree)));
  const apps::fem::System system = apps::fem::make_system(*host, spec);
  const std::vector<T> numbers(system.matrices.begin(), system.matrices.end());
  const ElementGroup<T> group[] = {
      {system.mesh.elements(), system.mesh.nodes_of_element(), system.mesh.connectivity, numbers}};
  Problem<T> problem{options, context, degree, {}, {}, results};
  CsrMatrix<T> csr;
  for (const bool symmetric : {true, false})
    for (const auto scatter : {ElementScatter::atomic, ElementScatter::coloured, ElementScatter::gather}) {
      ElementOptions o;
      o.scatter = scatter, o.symmetric = symmetric, o.constrained = system.constrained;
      o.constrained_rows = ConstrainedRows::eliminate;
      const auto begin = Clock::now();
      const auto A =
          make_element_operator<T>(context, static_cast<std::int64_t>(system.mesh.nodes.size()), group, o);
      context->synchronize();
      const double setup = seconds_since(begin);
      if (problem.x.size() == 0) {
        problem.x = Vector<T>(context, A->rows());
        std::vector<T> x(static_cast<std::size_t>(A->rows()));
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] = static_cast<T>(std::sin(0.37 * static_cast<double>(i)));
        copy<T>(*context, {x.data(), A->rows()}, problem.x);
        fmt::print("degree {}: {} rows, {} elements\n", degree, A->rows(), A->elements());
      }
      fmt::print("{}", symmetric ? "half " : "full ");
      problem.run(*A, A->bytes(), setup, symmetric ? "half" : "full");
      if (csr.rows() == 0) {
        const auto assembling = Clock::now();
        csr = A->assemble();
        context->synchronize();
        const double seconds = seconds_since(assembling);
        fmt::print("assembled in {:.3f} s, {} entries\n", seconds, csr.nonzeros());
        results.push_back({{"degree", degree},
                           {"precision", sizeof(T) == 8 ? "double" : "single"},
                           {"operator", "assembly"},
                           {"rows", A->rows()},
                           {"nonzeros", csr.nonzeros()},
                           {"seconds", seconds}});
      }
    }
  for (const std::string& format : options.formats) {
    try {
      const auto begin = Clock::now();
      const auto A = make_matrix(find_format(format), csr, context);
      context->synchronize();
      fmt::print("     ");
      problem.run(*A, A->bytes(), seconds_since(begin));
    } catch (const FormatRefused& refused) { fmt::print("     {}\n", refused.what()); }
  }
}

}  // namespace

int run_elements(Arguments& arguments) {
  Options options;
  arguments.read({shared::space(options.space),
                  shared::threads(options.threads),
                  {"--unknowns", &options.unknowns, "rows, about", at_least(1)},
                  {"--degrees N,...", &options.degrees, "of the elements"},
                  shared::formats(options.formats, "assembled ones"),
                  {"--precisions", &options.precisions, "of all numbers", one_of({"double", "single"})},
                  {"--iterations", &options.iterations, "of one timed solve", at_least(1)},
                  shared::seconds(options.seconds),
                  {"--distortion", &options.distortion, "of the mesh"},
                  shared::json(options.json)});
  nlohmann::json results = nlohmann::json::array();
  fmt::print("     {:>6} {:>6} {:16} {:>12} {:>12} {:>10} {:>9} {:>9}\n", "degree", "", "operator",
             "product ms", "CG it/s", "MB", "GB/s", "setup s");
  for (const std::string& degree : options.degrees)
    for (const std::string& precision : options.precisions) {
      if (precision == "double")
        run_degree<double>(options, std::atoi(degree.c_str()), results);
      else
        run_degree<float>(options, std::atoi(degree.c_str()), results);
    }
  Report report("elements", options.threads, options.json);
  report["space"] = options.space, report["threads"] = options.threads, report["unknowns"] = options.unknowns;
  report["results"] = std::move(results);
  report.write();
  return 0;
}

}  // namespace protean::bench
