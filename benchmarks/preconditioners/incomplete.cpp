// Incomplete factors without fill, ours next to PETSc's and Eigen's on a host: setup, new values in the same pattern,
// one application, and 8 columns at once. Each time is the shortest of those measured. The results of one application
// are compared with PETSc's, whose factors are the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/preconditioned.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string folder, json;
  std::vector<std::string> threads = {"1", "2"}, only, factors, libraries;
  int n = 30;
  double seconds = 1;
};

constexpr std::int64_t columns = 8;

// Times of one library and number of threads; negative: it has no such thing.
struct Row {
  std::string library, what;
  int threads = 1;
  double setup = -1, refactor = -1, refactor_packed = -1, apply = -1, apply_columns = -1, difference = 0;
};

Row ours(const CsrMatrix<double>& csr, const std::string& kind, int threads, double seconds,
         const std::vector<double>& r, std::vector<double>& z) {
  Row row{.library = "protean", .what = {}, .threads = threads};
  const ContextPtr context = Context::host(threads);
  const auto A = make_matrix(find_format("csr"), csr, context);
  const std::int64_t n = csr.rows();
  row.setup = shortest(seconds, [&] { make_preconditioner<double>(kind, *A)->ensure(*A); });
  const auto refactor = [&](AssembledMatrix<double>& matrix) {
    const auto M = make_preconditioner<double>(kind, matrix);
    M->ensure(matrix);
    double best = 1e300;
    const auto begin = Clock::now();
    for (int k = 0; k < 3 || seconds_since(begin) < seconds; ++k) {
      matrix.update_values(csr);
      const auto start = Clock::now();
      M->ensure(matrix);
      best = std::min(best, seconds_since(start));
    }
    return best;
  };
  row.refactor = refactor(*A);
  row.refactor_packed = refactor(*make_matrix(find_format("sell-packed"), csr, context));
  const auto M = make_preconditioner<double>(kind, *A);
  M->ensure(*A);
  row.apply = shortest(seconds, [&] { M->apply({r.data(), n}, VectorView<double>{z.data(), n}); });
  MultiVector<double> R(context, n, columns, VectorLayout::interleaved),
      Z(context, n, columns, VectorLayout::interleaved);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < columns; ++j) R.view()(i, j) = r[static_cast<std::size_t>(i)];
  MultiScratch<double> scratch;
  row.apply_columns =
      shortest(seconds, [&] { multi_apply<double>(*M, 1.0, R.view(), 0.0, Z.view(), &scratch); });
  return row;
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), norm += a[i] * a[i];
  return std::sqrt(difference / norm);
}

CsrMatrix<double> matrix_of(const std::string& name, const Options& options) {
  const ContextPtr context = Context::host(1);
  if (name == "s1rmt3m1") return read_matrix(context, options.folder + "/s1rmt3m1.mtx.xz");
  const double n = name == "poisson-3d" ? 2 * options.n : options.n;
  return generate(context, name, {{"n", n}});
}

}  // namespace

int run_incomplete(Arguments& arguments) {
  Options options;
  arguments.read({{"--folder FOLDER", &options.folder, "with s1rmt3m1.mtx.xz", required()},
                  {"--n", &options.n, "elements of a side of elasticity-3d", at_least(1)},
                  {"--threads N,...", &options.threads, "of our context; PETSc and Eigen have one"},
                  shared::seconds(options.seconds),
                  {"--only", &options.only, "matrices", one_of({"elasticity-3d", "poisson-3d", "s1rmt3m1"})},
                  {"--factors", &options.factors, "these only", one_of({"ic0", "ilu0"})},
                  {"--libraries", &options.libraries, "these only", one_of({"protean", "petsc", "eigen"})},
                  shared::json(options.json)});
  Report report("incomplete", 1, options.json);
  nlohmann::json& factors = report["factors"] = nlohmann::json::array();
  for (const std::string name : {"elasticity-3d", "poisson-3d", "s1rmt3m1"}) {
    if (!wanted(options.only, name)) continue;
    const CsrMatrix<double> csr = matrix_of(name, options);
    const std::vector<double> r = waves(csr.rows(), 0.5);
    for (const std::string kind : {"ic0", "ilu0"}) {
      if (!wanted(options.factors, kind)) continue;
      std::vector<Row> rows;
      std::vector<double> expected(r.size()), z(r.size());
      for (const std::string& threads : options.threads)
        rows.push_back(ours(csr, kind, std::stoi(threads), options.seconds, r, expected));
      const auto add = [&](const char* library, const std::optional<FactorTimes>& times) {
        if (!times) return;
        rows.push_back({.library = library,
                        .what = times->what,
                        .setup = times->setup,
                        .refactor = times->refactor,
                        .apply = times->apply,
                        .difference = relative_difference(expected, z)});
      };
      if (wanted(options.libraries, "petsc")) add("petsc", petsc_factors(csr, kind, options.seconds, r, z));
      if (wanted(options.libraries, "eigen")) add("eigen", eigen_factors(csr, kind, options.seconds, r, z));
      for (const Row& row : rows) {
        fmt::print(
            "{:13} {:7} rows {:8} entries {:4} {:8} {} threads: setup {:8.3f}, new values {:8.3f} (packed "
            "{:8.3f}), "
            "apply {:7.3f}, {} columns {:8.3f} ms; difference {:.1e} {}\n",
            name, csr.rows(), csr.nonzeros(), kind, row.library, row.threads, 1e3 * row.setup,
            1e3 * row.refactor, 1e3 * row.refactor_packed, 1e3 * row.apply, columns, 1e3 * row.apply_columns,
            row.difference, row.what);
        std::fflush(stdout);
        nlohmann::json one = {
            {"matrix", name},         {"rows", csr.rows()},          {"entries", csr.nonzeros()},
            {"factors", kind},        {"library", row.library},      {"what", row.what},
            {"threads", row.threads}, {"difference", row.difference}};
        const std::pair<const char*, double> times[] = {{"setup", row.setup},
                                                        {"new_values", row.refactor},
                                                        {"new_values_packed", row.refactor_packed},
                                                        {"apply", row.apply},
                                                        {"apply_columns", row.apply_columns}};
        for (const auto& [key, seconds] : times)
          if (seconds >= 0) one[std::string(key) + "_seconds"] = seconds;
        factors.push_back(std::move(one));
      }
    }
  }
  report.write();
  return 0;
}

}  // namespace protean::bench
