#include "apps/generate.hpp"

#include <fmt/format.h>

#include <cmath>

#include "apps/clock.hpp"
#include "apps/convert.hpp"
#include "apps/json.hpp"
#include "apps/output.hpp"
#include "apps/progress.hpp"
#include "apps/system.hpp"
#include "core/error.hpp"
#include "core/statistics.hpp"

namespace protean::apps {
namespace {

// Asked for, and what it became.
std::string features(const MatrixSpec& spec, const Statistics& s) {
  struct Row {
    const char *name, *parameter;
    double value;
  };
  const Row rows[] = {{"mean row length", "mean", s.mean},
                      {"deviation", "deviation", s.deviation},
                      {"skew", "skew", s.features.skew},
                      {"cross-row similarity", "similarity", s.features.cross_row_similarity},
                      {"neighbours", "neighbours", s.features.neighbours}};
  std::string text = fmt::format("\n  {:<22} {:>12} {:>12}\n", "", "asked for", "reached");
  for (const Row& row : rows)
    text += fmt::format("  {:<22} {:>12.4g} {:>12.4g}\n", row.name, spec.params.at(row.parameter), row.value);
  return text;
}

}  // namespace

int generate_file(const GenerateArguments& arguments) {
  const Problem problem = read_problem(arguments.spec, arguments.settings);
  if (problem.matrix.file)
    fail(
        problem.matrix.place,
        "the matrix of this problem is a file; `protean generate` writes those of matrix: {generate: {...}}, "
        "`protean convert` rewrites files");
  require_matrix_output(arguments.output);
  Progress progress(!arguments.quiet);
  const ContextPtr host = Context::host(arguments.threads);
  progress.stage("making the matrix");
  Clock clock;
  const CsrMatrix<double> csr = make_matrix_data(host, problem.matrix);
  const double made = clock.lap();
  progress.stage("writing " + arguments.output);
  Json spec = problem_json(problem)["matrix"]["generate"];
  write_matrix(*host, arguments.output, csr, "generated: " + spec.dump());
  const double written = clock.lap();
  progress.clear();
  if (arguments.quiet) return 0;
  std::string out = fmt::format(
      "{}: {} rows, {} columns, {} nonzeros; made in {} ({:.3g} million a second), written in {}\n",
      arguments.output, grouped(csr.rows()), grouped(csr.cols()), grouped(csr.nonzeros()), duration(made),
      static_cast<double>(csr.nonzeros()) / made / 1e6, duration(written));
  if (problem.matrix.kind == "artificial")
    out += features(problem.matrix, statistics(*host, csr.pattern)) + "\n";
  print(out);
  return 0;
}

}  // namespace protean::apps
