// `protean solve`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/build_info.hpp"
#include "apps/explain.hpp"
#include "apps/problem_file.hpp"
#include "core/csr.hpp"
#include "formats/choose.hpp"

namespace protean::apps {

struct SolveArguments {
  std::string problem;
  std::vector<std::string> settings;  // key.path=value
  std::string report;                 // besides or instead of output.report; relative to the working folder
  int threads = 0;                    // 0: as the problem file says
  bool quiet = false;
  bool explain = false;  // print what the policy knew and decided, and measure what it predicted
};

// upload and download are copies to and from a GPU, 0 on the CPU.
struct Seconds {
  double start = 0;  // making the contexts: on a device its driver and libraries
  double read = 0, upload = 0, convert = 0, setup = 0, solve = 0, download = 0, write = 0, total = 0;
};

// All that is known after a solve; the report and the summary are made of it.
struct SolveRecord {
  Problem problem;
  std::int64_t rows = 0, nonzeros = 0;  // on element matrices: their entries, and
  std::int64_t elements = 0;            // how many there are
  int threads = 0;
  std::string format, kernel, format_reason;  // the reason is empty when the user named the format
  std::string kernel_note;                    // what a user of the kernel should know
  VectorKernels vector_kernels = VectorKernels::native;
  FormatParams parameters;
  std::size_t matrix_bytes = 0, peak_bytes = 0, peak_buffer_bytes = 0;
  std::int64_t products = 0;
  SolveReport result;
  // Of a schedule: changes of format that were done and that were not, and what became of each point.
  std::vector<SwitchRecord> switches;
  std::vector<FailedSwitch> failed_switches;
  std::vector<ScheduleEvent> decisions;
  // Of schedule: {policy: auto}.
  Explanation policy;
  std::string advice;           // empty when converged
  std::optional<double> error;  // ||x - x*|| / ||x*||, 2-norms, where x* is known
  Seconds seconds;
};

// Reads, solves, writes what the problem's `output` asks for and prints the summary. Returns the exit code, 0
// converged or 1 not. Bad input and missing resources are exceptions; nothing has been written then.
int solve(const SolveArguments& arguments);

}  // namespace protean::apps
