// One Jacobi-CG iteration on the GPU, ours in several formats next to unfused cuSPARSE and cuBLAS in a CUDA graph.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/peers/cuda_cg.hpp"
#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"

namespace protean::bench {
namespace {

// Seconds of a solve of exactly `iterations` iterations.
double seconds(const LinearOperator<double>& A, const Preconditioner<double>& M, const Vector<double>& b,
               Vector<double>& x, std::int64_t iterations, const std::string& steps) {
  SolverOptions options;
  options.device_steps = steps;
  options.stopping.relative_tolerance = 0;
  options.stopping.max_iterations = iterations;
  const auto solver = make_solver<double>("cg", options);
  fill<double>(*A.context(), 0.0, x);
  A.context()->synchronize();
  const auto start = Clock::now();
  const SolveReport report = solver->solve(A, b, x, &M);
  const double time = seconds_since(start);
  if (report.steps != steps)
    throw std::runtime_error(fmt::format("the steps ran by {} instead of {}", report.steps, steps));
  if (report.iterations != iterations)
    throw std::runtime_error(fmt::format("{} iterations instead of {}", report.iterations, iterations));
  return time;
}

struct Options {
  std::string json;
  std::vector<std::string> sizes = {"30", "60", "100", "200"},
                           formats = {"csr", "sell-c-sigma", "sell-packed"}, ways = {"graph", "resident"};
};

// The system in the memory of a context.
struct Place {
  ContextPtr context;
  CsrMatrix<double> csr;
  Vector<double> b, x;
  Place(const ContextPtr& where, const CsrMatrix<double>& host_csr)
      : context(where), csr(upload(where, host_csr)), b(where, csr.rows()), x(where, csr.rows()) {
    fill<double>(*where, 1.0, b);
  }
};

}  // namespace

int run_device(Arguments& arguments) {
  Options options;
  arguments.read(
      {{"--sizes N,...", &options.sizes, "unknowns along a side of the cube"},
       shared::formats(options.formats,
                       "a format, and after @ its kernel; with kernel kokkos the vector "
                       "operations are Kokkos', too"),
       {"--steps WAY,...", &options.ways, "how the steps of a solve are run", one_of({"graph", "resident"})},
       shared::json(options.json)});
  const ContextPtr host = Context::host(), context = Context::device();
  ContextPtr kokkos;
  for (const std::string& id : options.formats)
    if (!kokkos && id.ends_with("@kokkos"))
      kokkos = Context::device(0, {.vector_kernels = VectorKernels::kokkos});
  const double copy_rate = copy_bandwidth(*context);
  Report report("gpu_cg", host->threads(), options.json);
  report["copy_bandwidth"] = copy_rate;
  nlohmann::json& results = report["results"] = nlohmann::json::array();
  fmt::print("copy {:.2f} TB/s; microseconds an iteration\n", copy_rate / 1e12);
  fmt::print("{:8} {:>14} {:>14} {:16} {:9} {:>10} {:>9} {:>9}\n", "matrix", "peer, graph", "peer, stream",
             "format", "steps", "ours", "ratio", "of floor");
  for (const std::string& size : options.sizes) {
    const CsrMatrix<double> csr = generate(host, "poisson-3d", {{"n", std::stod(size)}});
    const std::int64_t n = csr.rows();
    Place native(context, csr);
    std::optional<Place> by_kokkos;
    if (kokkos) by_kokkos.emplace(kokkos, csr);
    const int iterations = n < 300000 ? 100 : 50;
    // Bytes of an iteration in three passes: matrix, row pointers, 13 vectors (solvers/cg.cpp).
    const double floor_us = (12.0 * csr.nonzeros() + 4.0 * n + 104.0 * n) / copy_rate * 1e6;
    CudaCgTimes peer;
    for (const std::string& id : options.formats) {
      const std::string format = id.substr(0, id.find('@')),
                        kernel = id.substr(std::min(id.size(), format.size() + 1));
      Place& place = kernel == "kokkos" ? *by_kokkos : native;
      const auto A = make_matrix(find_format(format), place.csr, place.context, {}, kernel);
      const auto M = make_preconditioner<double>("jacobi", *A);
      M->ensure(*A);
      if (peer.graph_us == 0) peer = cuda_cg(*context, native.csr, M->inverse_diagonal().data, iterations, 7);
      for (const std::string& way : options.ways) {
        // The difference of two lengths, so that recording and the first and last residual do not count.
        std::vector<double> samples;
        try {
          (void)seconds(*A, *M, place.b, place.x, 64, way);
        } catch (const BadArgument& refused) {
          fmt::print("pde{:<5} {:14} {:14} {:16} {:9} {}\n", size, "", "", id, way, refused.what());
          continue;
        }
        for (int k = 0; k < 9; ++k) {
          const double shorter = seconds(*A, *M, place.b, place.x, 64, way),
                       longer = seconds(*A, *M, place.b, place.x, 64 + 16 * 20, way);
          samples.push_back((longer - shorter) / (16 * 20) * 1e6);
        }
        const double ours = median(samples);
        fmt::print("pde{:<5} {:14.2f} {:14.2f} {:16} {:9} {:10.2f} {:8.2f}x {:8.0f}%\n", size, peer.graph_us,
                   peer.stream_us, id, way, ours, peer.graph_us / ours, 100 * floor_us / ours);
        results.push_back({{"matrix", "pde" + size},
                           {"rows", n},
                           {"nonzeros", csr.nonzeros()},
                           {"format", id},
                           {"steps", way},
                           {"iteration_us", ours},
                           {"peer_graph_us", peer.graph_us},
                           {"peer_stream_us", peer.stream_us},
                           {"ratio", peer.graph_us / ours},
                           {"floor_us", floor_us},
                           {"bytes", A->bytes()}});
      }
    }
  }
  report.write();
  return 0;
}

}  // namespace protean::bench
