// `protean compare`: solves one system in every storage format and counts all costs.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/compare/selectors.hpp"
#include "apps/compare/verdict.hpp"
#include "apps/machine/measure.hpp"
#include "apps/machine/product_bytes.hpp"
#include "apps/problem/problem_file.hpp"

namespace protean::apps {

struct CompareArguments {
  std::string problem;                 // or a suite
  std::vector<std::string> settings;   // key.path=value
  std::vector<OptionSetting> options;  // options that stand for keys; of every problem of a suite
  std::string formats;                 // all, or ids separated by commas; empty: a shortlist of each matrix
  std::string kernels = "all";
  std::string spaces;             // host, device, or host,device; empty: operator.space
  std::string report, csv, html;  // files to write, relative to the working folder
  std::string selectors;          // all, or names separated by commas; empty: none
  std::string preconditioners;    // the same; if not empty, combinations are compared (combinations.hpp)
  double budget = 0;              // seconds for the whole comparison; 0: no limit
  int threads = 0;
  bool quiet = false;
};

// One point of the history of a solve.
struct HistoryPoint {
  double seconds = 0, relative_residual = 0;
};

// One format with one kernel in one space.
struct Variant {
  std::string format, kernel;
  // Presets that are the same computation in this space: the same arrays, kernel and parameters. They are not run.
  std::vector<std::string> stands_for;
  Space space = Space::host;
  FormatParams parameters;
  bool deterministic = true;
  std::string status, why;  // status: converged, not-converged, refused, failed
  // Its kernel is not in this build, and was not asked for by name. A note of the comparison says so once for all such
  // formats; tables and pages leave them out.
  bool not_in_build = false;
  std::string not_run;  // "interrupted" or "budget" when the format was not tried to the end; else empty
  std::size_t predicted_bytes = 0, matrix_bytes = 0;
  std::int64_t stored_values = 0;  // with padding
  Timing convert;                  // from CSR in the memory of its space, admit() included
  Timing setup;                    // of the preconditioner
  Timing product, solve;
  std::int64_t iterations = 0;
  std::string steps;  // SolveReport::steps
  double true_relative = 0;
  std::optional<double> break_even;  // iterations; empty: never
  bool product_differs = false;      // from the product of csr, beyond the spread of both
  std::optional<Difference> to_csr;  // empty: csr was not solved
  std::vector<HistoryPoint> history;

  // The status in tables for people. A report has the four values of `status` only, so there the reason says
  // that the format was not run.
  std::string_view shown_status() const noexcept {
    return not_run.empty() ? std::string_view(status) : "not run";
  }
  std::string reported_why() const { return not_run.empty() ? why : "not run: " + why; }
  bool ran() const noexcept { return status == "converged" || status == "not-converged"; }
  // Conversion and product, whatever became of the solve.
  bool measured() const noexcept { return product.runs > 0; }
  // Its solve was not finished, for lack of time.
  bool cut() const noexcept { return !not_run.empty() && measured(); }
  double per_iteration() const noexcept {
    return iterations > 0 ? solve.median / static_cast<double>(iterations) : 0;
  }
  double total() const noexcept { return convert.median + setup.median + solve.median; }
  // "csr", or "csr mkl", or "csr mkl device" in a comparison of two spaces
  std::string name(bool with_space) const;
};

struct Comparison {
  Problem problem;
  std::int64_t rows = 0, nonzeros = 0;
  int threads = 0;
  double read_seconds = 0;
  double copy_bandwidth[2] = {};  // bytes a second of host and device; 0: not measured
  MeasuredRoof roofs[2] = {};     // the roofs of the machine table, of host and device; 0: it has none
  std::int64_t lines_of_x = -1;   // cache lines of 128 bytes that blocks of 128 rows touch, counted for
                                  // each block; -1: not counted (host)
  std::vector<Variant> variants;
  int best = -1;          // index of the smallest total() of the converged ones; -1: none
  std::vector<int> ties;  // of the ones that do not clearly differ from the best
  std::vector<int>
      ranking;         // of the converged ones, the best first; then of the ones whose solve was not finished
  int automatic = -1;  // index of the choice of `format: auto` without a schedule; -1: not compared
  std::string automatic_reason;
  std::vector<SelectorVerdict> selectors;  // in the first space; empty if none was asked for
  std::vector<std::string> notes;          // which parts of the problem a comparison does not follow
  bool interrupted = false, out_of_time = false;
};

// Compares the formats on all problems of a suite, or on one problem. Writes the files asked for and prints
// tables. Returns the exit code: 0 all done; 1 a problem of a suite could not be compared (the others
// are); InterruptGuard::exit_code() interrupted.
int compare(const CompareArguments& arguments);

}  // namespace protean::apps
