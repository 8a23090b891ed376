// The matrices of the papers: real ones of a folder, formulas, and generated ones with the features that the papers
// print.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "apps/papers/paper_table.hpp"
#include "core/csr.hpp"
#include "core/generate/generate.hpp"
#include "core/statistics.hpp"

namespace protean::research {
using namespace apps;  // the exhibits are made with parts of the command

struct Specimen {
  std::string name;  // as in the papers
  std::string made;  // what it is: empty for the matrix itself, else "like:cant, 0.1 of its rows"
  CsrMatrix<double> csr;
  Statistics statistics;
};

// What the tables of the papers say about a matrix. 0 if none says anything.
struct PrintedFeatures {
  std::int64_t rows = 0, cols = 0, nonzeros = 0, longest = 0;
  double deviation = -1;                    // -1: not printed
  double similarity = -1, neighbours = -1;  // -1: not printed
};
// Throws BadArgument for a matrix that no table has.
PrintedFeatures printed_features(const PaperTables& papers, std::string_view name);

// The matrix `name` of the papers: the file NAME.mtx, .mtx.gz, .mtx.xz or .pbin of `folder`; else its formula, if
// it has one; else one with its printed features, `like:NAME`. What is generated has at most `most_entries`
// entries: fewer rows, with row lengths of the same distribution. The pde
// matrices have at most `most_formula_entries`, 0 for no limit. Features that no table prints are the middle of
// their range.
Specimen make_specimen(const ContextPtr& host, const PaperTables& papers, const std::string& name,
                       const std::string& folder, std::int64_t most_entries,
                       std::int64_t most_formula_entries = 0);

// A generated matrix, called `name`.
Specimen generated_specimen(const ContextPtr& host, const std::string& name, std::string_view kind,
                            const GeneratorParams& params);

}  // namespace protean::research
