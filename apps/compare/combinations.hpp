// `protean compare --preconditioners`: solves one system with every combination of preconditioner and format, and says
// by how much the defaults miss the best one.
#pragma once
#include <string>
#include <vector>

#include "apps/command/clock.hpp"
#include "apps/machine/measure.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/report/progress.hpp"

namespace protean::apps {

// One solve by SystemSolver, as `protean solve` makes it, with the method of the problem.
struct Combination {
  std::string preconditioner, format;  // names, or "auto", which may change in the middle of a solve
  Space space = Space::host;
  bool is_default = false;  // both are auto: the choice of `protean solve`
  // At the end of the solve: the method, preconditioner and format, and what auto has changed to, in order.
  std::string method, last_preconditioner, last_format;
  std::vector<std::string> changes;
  std::string status, why;  // converged, not-converged, refused, failed
  // Why a solve was ended or left out: "slow" (it took slow_factor times as long as the best one), "budget",
  // "interrupted"; empty if it came to its end.
  std::string not_run;
  // convert: order and format before the solve; setup: of the first preconditioner; total: all of it by the clock, from
  // the CSR arrays to x. Medians of the rounds.
  Timing convert, setup, solve, total;
  std::int64_t iterations = 0;
  double true_relative = 0;

  bool ran() const noexcept { return status == "converged" || status == "not-converged"; }
  std::string name(bool with_space) const;  // "amg, sell-packed"
};

struct Combinations {
  Problem problem;
  std::int64_t rows = 0, nonzeros = 0;
  int threads = 0;
  double read_seconds = 0;
  std::vector<Combination> all;
  int best = -1;  // index of the smallest total of the converged ones; -1: none
  std::vector<std::string> notes;
  bool interrupted = false, out_of_time = false;
};

// What is compared. Formats other than auto.
struct CombinationChoice {
  std::vector<std::string> preconditioners;
  std::vector<std::string> formats;  // empty: the most_formats best ones by prediction
  std::vector<Space> spaces;         // empty: the space of the problem
};
constexpr std::size_t most_formats = 4;
// Formats are compared for the preconditioners whose solve with format auto took at most this many times as long as the
// best one; others cannot win by a format.
constexpr double worth_formats = 2;
// A solve ends when it has taken this many times as long as the best one so far, plus a second.
constexpr double slow_factor = 10;

// The value of --preconditioners: `all` that this build has, or names. Throws BadArgument for other words.
std::vector<std::string> preconditioners_named(const std::string& list);

// seconds: a budget; 0: no limit. Throws BadFile and BadArgument for a problem that cannot be compared so.
Combinations compare_combinations(Problem problem, const CombinationChoice& choice, int threads,
                                  Progress& progress, double seconds);

std::string combinations_table(const Combinations& combinations);
// For one comparison its object; for a suite {"suite": [...], "broken": [...]}.
std::string combinations_json(const std::vector<Combinations>& all, const std::vector<std::string>& broken,
                              bool suite);
std::string combinations_csv(const std::vector<Combinations>& all);

}  // namespace protean::apps
