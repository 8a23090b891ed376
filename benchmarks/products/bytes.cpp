// Bytes of a nonzero of CSR, ELL, HLL and HDI next to Table 9 of Filippone, Cardellini, Barbieri and Fanfarillo,
// "Sparse Matrix-Vector Multiplication on GPGPUs" (ACM TOMS 43(4), 2017, doi:10.1145/3017994): what our
// formats allocate, and what the survey's own arrays take for the same stored entries. Prints Markdown.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/common/options.hpp"
#include "benchmarks/common/sources.hpp"
#include "formats/catalogue.hpp"

namespace protean::bench {
namespace {

// As printed; empty: the survey has none.
struct Row {
  Source source;
  const char *csr, *ell, *hll, *hdi;
};

const Row rows[] = {
    {{"pde060", "convection-diffusion-3d", {{"n", 60.0}}}, "12.58", "13.33", "13.26", "12.10"},
    {{"pde080", "convection-diffusion-3d", {{"n", 80.0}}}, "12.58", "13.29", "13.23", "12.07"},
    {{"pde100", "convection-diffusion-3d", {{"n", 100.0}}}, "12.58", "13.26", "13.21", "12.06"},
    {{"bcsstk17", "", {}}, "12.10", "46.30", "16.15", "41.88"},
    {{"af23560", "", {}}, "12.19", "12.66", "12.62", "19.23"}};

struct Column {
  const char *survey, *format;
  FormatParams params;
  const char* Row::*printed;
  // Bytes of the survey's arrays for this many stored entries (values of 8 bytes, integers of 4).
  double (*theirs)(double rows, double stored);
};

const Column columns[] = {
    {"CSR", "csr", {}, &Row::csr, [](double m, double stored) { return 12 * stored + 4 * (m + 1); }},
    {"ELL",
     "ell",
     {{"align", "32"}, {"max_fill", "100"}},
     &Row::ell,
     [](double m, double stored) { return 12 * stored + 8 * m; }},
    {"HLL",
     "sell-c-sigma",
     {{"C", "32"}, {"sigma", "1"}, {"max_fill", "100"}},
     &Row::hll,
     [](double m, double stored) { return 12 * stored + 4 * (std::ceil(m / 32) + 1) + 8 * m; }},
    {"HDI", "hdi", {{"hack", "32"}, {"max_fill", "100"}}, &Row::hdi, [](double m, double stored) {
       return 12 * stored + 4 * (std::ceil(m / 32) + 1);
     }}};

}  // namespace

int run_bytes(Arguments& arguments) {
  std::string folder;
  arguments.read({shared::folder(folder)});
  const ContextPtr context = Context::host();
  fmt::print("| matrix | format | printed | by its arrays | | ours | as |\n|---|---|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    const std::optional<CsrMatrix<double>> csr = load(context, row.source, folder);
    if (!csr) {
      fmt::print("| {} | not there | | | | | |\n", row.source.name);
      continue;
    }
    for (const Column& column : columns) {
      const FormatEntry& entry = find_format(column.format);
      const Admission admission = admit(entry, *context, csr->pattern, column.params, sizeof(double));
      if (!admission.ok) {
        fmt::print("| {} | {} | {} | | | refused | {} |\n", row.source.name, column.survey,
                   row.*column.printed, admission.reason);
        continue;
      }
      const auto nonzeros = static_cast<double>(csr->nonzeros());
      const std::string theirs = fmt::format(
          "{:.2f}",
          column.theirs(static_cast<double>(csr->rows()), static_cast<double>(admission.stored_values)) /
              nonzeros);
      std::string as = column.format;
      for (const auto& [name, value] : column.params.all())
        if (name != "max_fill") as += fmt::format(" {}={}", name, value);
      fmt::print("| {} | {} | {} | {} | {} | {:.2f} | {} |\n", row.source.name, column.survey,
                 row.*column.printed, theirs, theirs == row.*column.printed ? "=" : "differs",
                 static_cast<double>(admission.bytes) / nonzeros, as);
    }
  }
  return 0;
}

}  // namespace protean::bench
