// `protean compare`: one system in every storage format, all costs counted.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/measure.hpp"
#include "apps/problem_file.hpp"

namespace protean::apps {

struct CompareArguments {
  std::string problem;                // or a suite
  std::vector<std::string> settings;  // key.path=value
  std::string formats = "all";        // all, or ids separated by commas
  std::string kernels = "all";
  std::string spaces;             // host, device, or host,device; empty: what the problem says
  std::string report, csv, html;  // files to write, relative to the working folder
  double budget = 0;              // seconds for all of it; 0: none
  int threads = 0;
  bool quiet = false;
};

// One point of a solve.
struct HistoryPoint {
  double seconds = 0, relative_residual = 0;
};

// One format with one kernel in one space.
struct Variant {
  std::string format, kernel;
  Space space = Space::host;
  FormatParams parameters;
  bool deterministic = true;
  std::string status, why;  // converged, not-converged, refused, failed; why where it is not converged
  std::string not_run;      // failed for no fault of its own, "interrupted" or "budget"; else empty
  std::size_t predicted_bytes = 0, matrix_bytes = 0;
  std::int64_t stored_values = 0;  // with padding
  Timing convert;                  // from CSR in the memory of its space, with what admit() costs
  double setup = 0;                // preconditioner
  Timing product, solve;
  std::int64_t iterations = 0;
  std::string steps;  // SolveReport::steps
  double true_relative = 0;
  std::optional<double> break_even;  // iterations; empty: never
  std::vector<HistoryPoint> history;

  // For a person, beside why; and why beside the status of a report, which knows four only.
  std::string_view shown_status() const noexcept {
    return not_run.empty() ? std::string_view(status) : "not run";
  }
  std::string reported_why() const { return not_run.empty() ? why : "not run: " + why; }
  bool ran() const noexcept { return status == "converged" || status == "not-converged"; }
  double per_iteration() const noexcept {
    return iterations > 0 ? solve.median / static_cast<double>(iterations) : 0;
  }
  double total() const noexcept { return convert.median + setup + solve.median; }
  // "csr", or "csr mkl", or "csr mkl device" in a comparison of two spaces
  std::string name(bool with_space) const;
};

struct Comparison {
  Problem problem;
  std::int64_t rows = 0, nonzeros = 0;
  int threads = 0;
  double read_seconds = 0;
  double copy_bandwidth[2] = {};  // bytes a second by space; 0 where not measured
  std::int64_t lines_of_x = -1;   // of 128 bytes, touched by all blocks of 128 rows together: formula of S1,
                                  // section 5.5; counted for a device only
  std::vector<Variant> variants;
  int best = -1;       // index of the least total() of those that converged
  int automatic = -1;  // index of what `format: auto` takes without a schedule
  std::string automatic_reason;
  std::vector<std::string> notes;  // what of the problem a comparison leaves out
  bool interrupted = false, out_of_time = false;
};

// Bytes a product moves, Reguly and Giles 2012 (S1) for values of 8 and indices of 4: (2) x read anew for
// every entry, (3) a cache line of 128 bytes for every number, (4) x read once; and (4) with x as often as
// the cache lines in `lines_of_x` say.
double effective_bytes(std::int64_t rows, std::int64_t nonzeros);
double worst_bytes(std::int64_t rows, std::int64_t nonzeros);
double minimum_bytes(std::int64_t rows, std::int64_t nonzeros);
double caching_bytes(std::int64_t rows, std::int64_t nonzeros, std::int64_t lines_of_x);

// The iterations from which on `variant` has cost less than `reference`, conversion and setup counted; 0 when
// from the start, empty when never.
std::optional<double> break_even(const Variant& variant, const Variant& reference);

// All problems of a suite, or the one problem. Writes the files asked for, prints tables. Returns the exit
// code: 0 all done; 1 interrupted, or a problem of a suite could not be compared (the others are).
int compare(const CompareArguments& arguments);

}  // namespace protean::apps
