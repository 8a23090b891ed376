#include "apps/matrix/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "apps/command/clock.hpp"
#include "apps/command/files.hpp"
#include "apps/matrix/convert.hpp"
#include "apps/matrix/presets.hpp"
#include "apps/problem/system.hpp"
#include "apps/report/json.hpp"
#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/statistics.hpp"

namespace protean::apps {
namespace {

constexpr double good = 0.05;  // largest relative difference of a feature that is not reported

// A table of the features: the value asked for, the value reached, and whether they agree.
std::string features(const GeneratorParams& params, const StreamedFeatures& reached) {
  struct Row {
    const char *name, *parameter;
    double value, slack;  // slack: difference that rounding to whole entries, or chance, may cause
  };
  const Features f = reached.features();
  const double grain = f.mean_row_length > 0 ? 1 / f.mean_row_length : 0;
  const Row rows[] = {{"mean row length", "mean", reached.mean(), 0},
                      {"deviation", "deviation", reached.deviation(), 0.5},
                      {"skew", "skew", f.skew, grain},
                      {"bandwidth", "bandwidth", reached.span(), 0.05},
                      {"cross-row similarity", "similarity", f.cross_row_similarity, 0.005},
                      {"neighbours", "neighbours", f.neighbours, 0.005}};
  std::string text = fmt::format("\n  {:<22} {:>12} {:>12}\n", "", "asked for", "reached"), off;
  for (const Row& row : rows) {
    const double wanted = params.at(row.parameter);
    // 0 means that the other features may decide.
    const bool left_open = wanted == 0 && (row.parameter == std::string_view("skew") ||
                                           row.parameter == std::string_view("deviation"));
    const double miss = row.value - wanted;
    const bool near = left_open || std::fabs(miss) <= good * wanted + row.slack;
    text += fmt::format("  {:<22} {:>12.4g} {:>12.4g}{}\n", row.name, wanted, row.value,
                        left_open    ? "   left open"
                        : near       ? ""
                        : wanted > 0 ? fmt::format("   off by {:+.1f} %", 100 * miss / wanted)
                                     : "   off");
    if (!near) off += fmt::format("{}{}", off.empty() ? "" : ", ", row.name);
  }
  if (!off.empty())
    text += fmt::format(
        "\n  More than 5 % off: {}. Not every mix of features exists: k entries of a row have at most\n"
        "  2 (k - 1) / k neighbours each, rows crowded in a narrow band are similar and have neighbours by "
        "chance,\n"
        "  and a long skew leaves less deviation to the other rows.\n",
        off);
  return text;
}

// Passes the rows on to a writer, and also to the features and the progress line. `scale` multiplies the
// values.
class ObservedWriter final : public RowReceiver {
 public:
  ObservedWriter(RowReceiver& writer, double scale, StreamedFeatures* features, Progress& progress,
                 std::string stage)
      : writer_(writer), scale_(scale), features_(features), progress_(progress), stage_(std::move(stage)) {}
  void begin(std::int64_t all_rows, std::int64_t all_cols, std::int64_t entries) override {
    rows = all_rows, cols = all_cols, nonzeros = entries;
    writer_.begin(rows, cols, nonzeros);
    if (features_) features_->begin(rows, cols, nonzeros);
  }
  void take(const RowStretch& stretch) override {
    Clock clock;
    if (scale_ == 1) {
      writer_.take(stretch);
    } else {
      values_.assign(stretch.values, stretch.values + stretch.entries());
      for (double& value : values_) value *= scale_;
      RowStretch scaled = stretch;
      scaled.values = values_.data();
      writer_.take(scaled);
    }
    writing += clock.total();
    if (features_) features_->take(stretch);
    progress_.stage(fmt::format("{}: {:.0f} %", stage_,
                                100 * static_cast<double>(stretch.first + stretch.rows) /
                                    static_cast<double>(std::max<std::int64_t>(rows, 1))));
  }
  std::int64_t rows = 0, cols = 0, nonzeros = 0;
  double writing = 0;  // seconds

 private:
  RowReceiver& writer_;
  double scale_;
  std::vector<double> values_;  // of one stretch, scaled
  StreamedFeatures* features_;
  Progress& progress_;
  std::string stage_;
};

void print_summary(const GenerateArguments& arguments, std::int64_t rows, std::int64_t cols,
                   std::int64_t nonzeros, double seconds, double writing, const std::string& more) {
  print_beside(
      arguments.output == AtomicFile::standard_output,
      fmt::format(
          "{}: {} rows, {} columns, {} nonzeros in {} ({:.3g} million a second; {} of it writing)\n{}",
          arguments.output, grouped(rows), grouped(cols), grouped(nonzeros), duration(seconds),
          static_cast<double>(nonzeros) / seconds / 1e6, duration(writing), more));
}

// A word is a kind, unless there is a file of this name; "no/a.yaml" is a file that is missing.
Problem problem_of(const GenerateArguments& arguments) {
  if (!arguments.preset.empty())
    return parse_problem(preset_problem(arguments.preset), "preset " + arguments.preset, arguments.settings);
  const std::string& spec = arguments.spec;
  if (spec.find_first_of("./") != std::string::npos ||
      io_detail::kind_of(spec) != io_detail::FileKind::missing)
    return read_problem(spec, arguments.settings);
  return parse_problem(fmt::format("matrix: {{generate: {{kind: {}}}}}\n", spec), "kind " + spec,
                       arguments.settings);
}

}  // namespace

int generate_file(const GenerateArguments& arguments) {
  const Problem problem = problem_of(arguments);
  require_matrix_name(arguments.output);
  CommandFiles files;
  files.reads(problem);
  files.writes("-o", arguments.output);
  files.require_inputs();
  if (problem.matrix.file)
    fail(problem.matrix.place,
         "the matrix of this problem is a file; `protean generate` writes matrices of matrix: {generate: "
         "{...}}, "
         "`protean convert` rewrites files");
  files.require_outputs();
  Progress progress(!arguments.quiet);
  const ContextPtr host = Context::host(arguments.threads);
  const double scale = problem.matrix.scale;
  const std::string comment = "generated: " + problem_json(problem)["matrix"]["generate"].dump() +
                              (scale == 1 ? std::string() : fmt::format(", times {}", scale));
  Clock clock;
  if (problem.matrix.fem) {
    progress.stage("making the matrix");
    const CsrMatrix<double> csr = make_matrix_data(host, problem.matrix);
    Clock writing;
    write_matrix(*host, arguments.output, csr, comment);
    progress.clear();
    if (!arguments.quiet)
      print_summary(arguments, csr.rows(), csr.cols(), csr.nonzeros(), clock.total(), writing.total(), "");
    return 0;
  }
  const bool artificial = problem.matrix.kind == "artificial";
  StreamedFeatures reached(host);
  const auto run = [&](auto&& writer) {
    ObservedWriter observed(writer, scale, artificial && !arguments.quiet ? &reached : nullptr, progress,
                            "making and writing " + arguments.output);
    generate_rows(host, problem.matrix.kind, problem.matrix.params, observed);
    Clock committing;
    writer.commit();
    observed.writing += committing.total();
    progress.clear();
    if (!arguments.quiet)
      print_summary(arguments, observed.rows, observed.cols, observed.nonzeros, clock.total(),
                    observed.writing, artificial ? features(problem.matrix.params, reached) + "\n" : "");
  };
  progress.stage("making the matrix");
  if (arguments.output.ends_with(".pbin"))
    run(PbinWriter(host, arguments.output));
  else
    run(MatrixMarketWriter(host, arguments.output, comment));
  return 0;
}

}  // namespace protean::apps
