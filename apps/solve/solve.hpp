// `protean solve`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/command/build_info.hpp"
#include "apps/command/files.hpp"
#include "apps/problem/problem_file.hpp"
#include "apps/solve/explain.hpp"
#include "core/csr.hpp"
#include "formats/choose.hpp"
#include "formats/compose.hpp"
#include "operators/tuning.hpp"
#include "solvers/multi_solver.hpp"

namespace protean::apps {

struct SolveArguments {
  std::string problem;                 // a problem file, or a matrix
  std::vector<std::string> settings;   // key.path=value
  std::vector<OptionSetting> options;  // options that stand for keys
  std::string report;                  // instead of output.report; relative to the working folder
  int threads = 0;                     // 0: as the problem file says
  bool quiet = false;
  bool json = false;      // print the report, and no summary
  std::string monitor;    // see monitor_of()
  double checkpoint = 0;  // minutes after which output.solution is written again; 0: only at the end
  bool explain = false;   // print what the policy knew and decided, and measure the times it predicted
};

// Seconds of each stage. upload and download are copies to and from a GPU; 0 on the CPU.
struct Seconds {
  double start = 0;      // making the contexts; on a device this starts the driver and the libraries
  double partition = 0;  // sharing out the rows among several devices
  double read = 0, order = 0, upload = 0, convert = 0, setup = 0, solve = 0, download = 0, write = 0,
         total = 0;
};

// Everything known after a solve. Report and summary are made from it.
struct SolveRecord {
  Problem problem;
  std::int64_t rows = 0, nonzeros = 0;  // for element matrices the number of all their entries
  std::int64_t elements = 0;            // number of element matrices; 0: none
  int threads = 0;
  std::string
      table;  // of machine times, from which products and conversions are predicted: ChosenMachine::from
  std::string format, kernel, format_reason;  // format_reason: empty when the user named the format
  std::string values, values_reason;          // how values are stored at the end; empty without a matrix
  ChoiceRecord choice;                        // of format auto
  std::string kernel_note;                    // what a user of this kernel should know
  VectorKernels vector_kernels = VectorKernels::native;
  FormatParams parameters;
  // What the matrix of the last format chose among its own options. No choices: it has none.
  Tuning tuning;
  // The parts of the format that the solve begins with. Empty: it is not composed of others.
  std::vector<PartShare> parts;
  // Of a solve on GPUs: their numbers. Over several: how the rows were shared out, and what each of them has.
  std::vector<int> device_numbers;
  std::string partition;
  std::vector<PartRecord> by_device;
  std::size_t matrix_bytes = 0, peak_bytes = 0, peak_buffer_bytes = 0;
  std::int64_t products = 0;
  std::vector<PreconditionerFigure> preconditioner;  // of its setup
  std::size_t preconditioner_bytes = 0;
  // "float", "double" or both, and why storage auto has taken double. Empty: there is no preconditioner.
  std::string preconditioner_storage, storage_reason;
  // If there are several right-hand sides: the report of the first that has not converged, else of the one with the
  // most iterations.
  SolveReport result;
  MultiSolveReport columns;           // of several right-hand sides; empty for one
  std::vector<double> column_errors;  // with a known solution
  // With matrix.order: the order of the solve, and with auto why. Empty: none was asked for.
  std::string order, order_reason;
  std::string method, method_reason;                         // of the solve; the reason: of method auto
  std::vector<MethodChange> method_changes;                  // of method auto in the middle of the solve
  std::string chosen_preconditioner, preconditioner_reason;  // of type auto; else empty
  // With a schedule: the changes of format that were made, the changes that failed, and the result of each point.
  std::vector<SwitchRecord> switches;
  std::vector<FailedSwitch> failed_switches;
  std::vector<ScheduleEvent> decisions;
  std::vector<PreconditionerChange> preconditioner_changes;  // of type auto in the middle of the solve
  // With schedule: {policy: auto}.
  Explanation policy;
  std::string advice;  // empty when converged
  std::string note;    // of a matrix that is singular; else empty
  // Files of `output` that could not be written.
  std::vector<OutputWriter::Failure> not_written;
  std::optional<double> error;  // ||x - x*|| / ||x*||, 2-norms, if x* is known
  Seconds seconds;
};

// Reads the problem, solves it, writes the files of `output` and prints the summary: to the standard output, or to the
// standard error if one of the files is the standard output. Returns the exit code: 0 converged, 1 not converged,
// InterruptGuard::exit_code() interrupted. Throws for bad input and missing resources; then no file has been written
// but a history that grew (HistoryFile) and a checkpoint, and the report of an earlier run is removed, unless the
// problem was refused before anything was read for it. Throws WriteFailed if a file could not be written; the others
// are.
int solve(const SolveArguments& arguments);

// Reads the problem, applies the options of the command line, and checks all files before anything large is read.
Problem checked_problem(const SolveArguments& arguments);
// Whether a policy changes formats during the solve, as SystemSolver decides it.
bool policy_decides(const Problem& problem);

}  // namespace protean::apps
