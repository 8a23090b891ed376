// `protean tune`: measures this machine, so that predictions of products and conversions hold for it.
#pragma once
#include <string>
#include <vector>

#include "core/generate/generate.hpp"

namespace protean::apps {

struct TuneArguments {
  std::string output = "machine.yaml";
  double budget = 120;  // seconds
  int threads = 0;      // 0: OMP_NUM_THREADS, or all processors
  bool quiet = false;
  std::string spaces = {};                 // value of --spaces; empty: the host, and a GPU if there is one
  std::vector<std::string> matrices = {};  // files of more matrices, which are called as their files
  std::string formats = {};                // layouts; empty: all
  // Instead of measuring: see export_table() and import_table().
  std::string exported = {}, imported = {};
};

// A matrix on which all formats are measured: generated, or of a file.
struct TuneCase {
  std::string name, kind;
  GeneratorParams params;
  std::string file = {};
};
// The small matrices of all kinds come first, so that the table is useful before it is complete.
std::vector<TuneCase> tune_cases();

// Measures products and conversions of every format and kernel of this build, for all cases and then for the files, on
// the host and on a GPU if there is one; before them the roofs of the spaces, once a table. With `formats` only these
// are measured, again in each run: their times replace the times in the table, and a new matrix has csr and these. The
// file is written after each matrix. Matrices that it already has for this
// machine are not measured again. Ends when the budget is spent (each measurement gets a part of it) or at
// Ctrl-C; the file keeps what is done. Returns the exit code: 0, or InterruptGuard::exit_code(). Throws BadFile
// for a table of another machine.
int tune(const TuneArguments& arguments);

}  // namespace protean::apps
