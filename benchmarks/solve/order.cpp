// What an order of the rows saves in whole solves, everything counted. Each system is solved in its natural numbering
// and in a random one: with csr as it is (csr), with csr and a policy that may change format and order (policy), and in
// csr after reverse Cuthill-McKee (rcm). Next to them is what a user has today: conjugate gradients of another library
// (peer: Eigen on the host, cuSPARSE and cuBLAS in a CUDA graph on a device), also after reverse Cuthill-McKee of the
// Boost Graph Library on the host (boost). These take as many iterations as csr; the permuted matrix is made on the
// host, and copied to the device.
//
// The matrices are the graph Laplacians of patterns (off-diagonal entries -1, the diagonal 1 + 1e-8 times the number of
// these): symmetric, positive definite, and hard enough on meshes for many iterations of conjugate gradients with
// Jacobi.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

#include "apps/machine/machine_file.hpp"
#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/matrices.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/ordering.hpp"
#include "benchmarks/peers/peers.hpp"
#include "core/blas1.hpp"
#include "core/permutation.hpp"
#include "formats/catalogue.hpp"
#include "operators/rows.hpp"
#include "protean.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "benchmarks/peers/cuda_cg.hpp"
#endif

namespace protean::bench {
namespace {

struct Options {
  std::vector<std::string> only, variants = {"csr", "policy", "rcm", "peer", "boost"};
  std::string space = "host", matrices, json, machine;
  int threads = 2, runs = 1;
  double entries = 2e7, iterations = 2000, tolerance = 1e-10, seconds = 1e6;
};

// Gives a matrix the values of a graph Laplacian. Returns why not, or nothing.
std::string make_laplacian(CsrMatrix<double>& csr) {
  const SparsityPattern& p = csr.pattern;
  const auto has = [&](std::int64_t row, std::int64_t col) {
    return std::binary_search(p.col + p.row_ptr[row], p.col + p.row_ptr[row + 1],
                              static_cast<std::int32_t>(col));
  };
  const auto values = std::make_shared<std::vector<double>>(static_cast<std::size_t>(csr.nonzeros()), -1.0);
  for (std::int64_t row = 0; row < csr.rows(); ++row) {
    const std::int64_t begin = p.row_ptr[row], end = p.row_ptr[row + 1];
    if (!has(row, row)) return fmt::format("row {} has no diagonal entry", row);
    for (std::int64_t k = begin; k < end; ++k) {
      if (p.col[k] == row)
        (*values)[static_cast<std::size_t>(k)] =
            std::max(1.0, (1 + 1e-8) * static_cast<double>(end - begin - 1));
      if (!has(p.col[k], row)) return fmt::format("entry ({}, {}) has no partner", row, p.col[k]);
    }
  }
  csr.values = values->data(), csr.values_owner = values;
  return {};
}

struct Bench {
  const Options& options;
  ContextPtr host, context;
  const MachineTable* table;  // null: the built-in one
  Report& report;

  nlohmann::json solved(const CsrMatrix<double>& csr, const Vector<double>& b, const std::string& variant) {
    SolveSettings settings;
    settings.method = "cg", settings.preconditioner = "none";
    settings.solver.stopping = {.relative_tolerance = options.tolerance,
                                .max_iterations = static_cast<std::int64_t>(options.iterations)};
    settings.context = context, settings.format = "csr";
    settings.policy = variant == "policy" ? "auto" : "by-format", settings.machine = table;
    if (variant == "rcm") settings.order = "rcm";
    Vector<double> x(context, csr.rows());
    fill<double>(*context, 0.0, x.view());
    context->synchronize();
    const auto begin = Clock::now();
    const SolveResult result = solve(csr, b.view(), x.view(), settings);
    context->synchronize();
    const double seconds = seconds_since(begin);
    nlohmann::json record = {{"variant", variant},
                             {"seconds", seconds},
                             {"iterations", result.report.iterations},
                             {"reason", to_string(result.report.reason)},
                             {"solve_seconds", result.report.seconds},
                             {"order_seconds", result.order_seconds},
                             {"format", result.format},
                             {"order", result.order}};
    for (const SwitchRecord& one : result.switches)
      record["switches"].push_back({{"iteration", one.iteration},
                                    {"to", one.to},
                                    {"order", one.to_order},
                                    {"convert_seconds", one.convert_seconds},
                                    {"order_seconds", one.order_seconds},
                                    {"reason", one.reason}});
    for (const FailedSwitch& one : result.failed_switches)
      record["failed"].push_back({{"iteration", one.iteration}, {"to", one.to}, {"why", one.why}});
    for (const CandidateRecord& one : result.candidates)
      if (one.ran)
        record["ran"].push_back({{"format", one.format},
                                 {"predicted_product", one.predicted_product},
                                 {"measured_product", one.measured_product},
                                 {"predicted_convert", one.predicted_convert},
                                 {"measured_convert", one.measured_convert}});
    for (const DecisionRecord& one : result.decisions)
      if (record["decisions"].size() < 12)
        record["decisions"].push_back({{"iteration", one.iteration}, {"reason", one.reason}});
    return record;
  }

  // The other library's method on a matrix of the host: as many iterations as csr took. Empty if it is not in this
  // build.
  nlohmann::json peer(const CsrMatrix<double>& csr, const std::vector<double>& rhs, std::int64_t iterations,
                      bool by_boost) {
    if (by_boost && !have_boost_rcm()) return {};
    nlohmann::json record = {{"variant", by_boost ? "boost" : "peer"}, {"iterations", iterations}};
    CsrMatrix<double> matrix = csr;
    double order_seconds = 0;
    if (by_boost) {
      const auto begin = Clock::now();
      std::vector<std::int32_t> order = boost_rcm(csr.pattern);
      record["rcm_seconds"] = seconds_since(begin);
      matrix = PermutedMatrix<double>(host, csr, Permutation(host, std::move(order))).matrix();
      order_seconds = seconds_since(begin);
    }
    double solve_seconds = 0;
    if (context->space() == Space::device) {
#if defined(PROTEAN_HAVE_CUDA)
      const auto begin = Clock::now();
      const CsrMatrix<double> there = upload(context, matrix);
      context->synchronize();
      if (by_boost) order_seconds += seconds_since(begin);
      std::vector<double> diagonal(static_cast<std::size_t>(matrix.rows()));
      extract_diagonal(*host, matrix, diagonal.data());
      for (double& one : diagonal) one = 1 / one;
      Vector<double> inverse(context, matrix.rows());
      copy<double>(*context, {diagonal.data(), matrix.rows()}, inverse.view());
      context->synchronize();
      solve_seconds = cuda_cg(*context, there, inverse.view().data, 20, 5).graph_us * 1e-6 *
                      static_cast<double>(iterations);
      record["library"] = "cuSPARSE";
#endif
    } else {
      const std::vector<CgSolve> solves = eigen_cg(matrix, options.threads);
      if (solves.empty()) return {};
      std::vector<double> x(rhs.size());
      const auto begin = Clock::now();
      solves.front().solve(rhs.data(), x.data(), static_cast<int>(iterations));
      solve_seconds = seconds_since(begin);
      record["library"] = "Eigen";
    }
    record["order_seconds"] = order_seconds, record["solve_seconds"] = solve_seconds;
    record["seconds"] = order_seconds + solve_seconds;
    record["format"] = "csr", record["order"] = by_boost ? "rcm" : "none",
    record["reason"] = "a fixed number";
    return record;
  }

  double product_seconds(const CsrMatrix<double>& csr) {
    const auto A = make_matrix(find_format("csr"), csr, context);
    Vector<double> x(context, csr.rows()), y(context, csr.rows());
    fill<double>(*context, 1.0, x.view());
    std::vector<double> samples;
    for (int sample = 0; sample < 7; ++sample) {
      constexpr int products = 10;
      context->synchronize();
      const auto begin = Clock::now();
      for (int k = 0; k < products; ++k) A->apply(x.view(), y.view());
      context->synchronize();
      samples.push_back((seconds_since(begin)) / products);
    }
    return median(samples);
  }

  void run(const std::string& name, const std::string& what, CsrMatrix<double> natural) {
    if (const std::string why = make_laplacian(natural); !why.empty()) {
      fmt::print("{}: left out, {}\n", name, why);
      return;
    }
    std::vector<std::int32_t> random(static_cast<std::size_t>(natural.rows()));
    std::iota(random.begin(), random.end(), 0);
    std::shuffle(random.begin(), random.end(), std::mt19937(1));
    fmt::print("{}: {}; {} rows, {} entries\n", name, what, natural.rows(), natural.nonzeros());
    for (const bool shuffled : {false, true}) {
      CsrMatrix<double> here = natural;
      if (shuffled) here = PermutedMatrix<double>(host, natural, Permutation(host, random)).matrix();
      const CsrMatrix<double> csr = context->space() == Space::device ? upload(context, here) : here;
      std::vector<double> rhs(static_cast<std::size_t>(natural.rows()));
      std::mt19937 bits(2);
      for (double& one : rhs) one = std::uniform_real_distribution<double>(-1, 1)(bits);
      Vector<double> b(context, csr.rows());
      copy<double>(*context, {rhs.data(), csr.rows()}, b.view());
      nlohmann::json system = {{"matrix", name},
                               {"numbering", shuffled ? "random" : "natural"},
                               {"rows", csr.rows()},
                               {"entries", csr.nonzeros()},
                               {"product_seconds", product_seconds(csr)}};
      std::int64_t iterations = static_cast<std::int64_t>(options.iterations);
      std::vector<std::vector<nlohmann::json>> records(options.variants.size());
      for (int turn = 0; turn < options.runs; ++turn)
        for (std::size_t v = 0; v < records.size(); ++v) {
          const std::string& variant = options.variants[v];
          const bool other = variant == "peer" || variant == "boost";
          const nlohmann::json record =
              other ? peer(here, rhs, iterations, variant == "boost") : solved(csr, b, variant);
          if (record.empty()) continue;  // the library is not in this build, which the beginning says
          if (variant == "csr") iterations = record["iterations"].get<std::int64_t>();
          records[v].push_back(record);
        }
      for (std::size_t v = 0; v < records.size(); ++v) {
        if (records[v].empty()) continue;
        const std::string& variant = options.variants[v];
        std::sort(records[v].begin(), records[v].end(),
                  [](const auto& one, const auto& other) { return one["seconds"] < other["seconds"]; });
        nlohmann::json& record = records[v][records[v].size() / 2];
        record["runs"] = records[v].size();
        record["least_seconds"] = records[v].front()["seconds"];
        fmt::print(
            "  {:8} {:7} {:8.3f} s, {:5} iterations ({}), ends in {} in order {}{}\n",
            shuffled ? "random" : "natural", variant, record["seconds"].get<double>(),
            record["iterations"].get<std::int64_t>(), record["reason"].get<std::string>(),
            record["format"].get<std::string>(), record["order"].get<std::string>(),
            variant == "rcm" || variant == "boost"
                ? fmt::format("; the order took {:.1f} products",
                              record["order_seconds"].get<double>() / system["product_seconds"].get<double>())
                : "");
        std::fflush(stdout);
        system["solves"].push_back(record);
      }
      report["systems"].push_back(system);
      report.write();
    }
  }
};

}  // namespace

int run_order(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::space(options.space),
       shared::threads(options.threads),
       {"--folder FOLDER", &options.matrices, "matrices of this folder instead of those from formulas"},
       shared::entries(options.entries),
       shared::only(options.only),
       {"--iterations", &options.iterations, "at most", at_least(1)},
       {"--tolerance", &options.tolerance, "of the solves", above(0)},
       shared::repeat(options.runs,
                      "runs of each way, in turns; the one with the median of the times counts"),
       {"--seconds", &options.seconds, "no new system is begun after this time", above(0)},
       {"--variants", &options.variants, "ways", one_of({"csr", "policy", "rcm", "peer", "boost"})},
       {"--machine FILE", &options.machine,
        "a table of protean tune for the policy instead of the built-in one"},
       shared::json(options.json)});
  const auto begin = Clock::now();
  const ContextPtr host = Context::host(options.threads), context = context_of(options.space, host);
  if (!have_boost_rcm()) fmt::print("The Boost Graph Library is not in this build\n");
  const apps::ChosenMachine chosen = apps::choose_machine(options.machine);
  Report report("order", options.threads, options.json);
  report["space"] = options.space;
  Bench bench{options, host, context, options.machine.empty() ? nullptr : chosen.table(), report};
  const std::vector<NamedMatrix> list =
      options.matrices.empty()
          ? formula_matrices()
          : repeated_matrices(host, options.matrices, static_cast<std::int64_t>(options.entries));
  for (const NamedMatrix& one : list)
    if (wanted(options.only, one.name) && seconds_since(begin) < options.seconds)
      bench.run(one.name, one.what, one.make(host));
  return 0;
}

}  // namespace protean::bench
