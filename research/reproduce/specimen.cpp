#include "research/reproduce/specimen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/error.hpp"
#include "core/io/matrix_market.hpp"

namespace protean::research {
namespace {

// The middle of a third of the interval from 0 to `range`, as the thirds S, M, L of Table III of S3.
double middle_of(char third, double range) { return range * (third == 'S' ? 1 : third == 'M' ? 3 : 5) / 6; }

std::int64_t whole(const std::optional<double>& value) {
  return value ? static_cast<std::int64_t>(std::llround(*value)) : 0;
}

void take(std::int64_t& target, std::int64_t value) {
  if (target == 0) target = value;
}

std::optional<std::size_t> row_of(const PaperTable& table, std::string_view name, std::string_view column) {
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (table.text(row, column) == name) return row;
  return {};
}

// Matrices of a formula: the matrices of the convection-diffusion problem of S0, and the dense matrix of S2.
std::optional<std::pair<std::string, GeneratorParams>> formula_of(const std::string& name,
                                                                  std::int64_t most_entries,
                                                                  std::int64_t most_formula_entries,
                                                                  double& share) {
  if (name == "pde060" || name == "pde080" || name == "pde100") {
    const double own = std::stod(name.substr(3));
    double n = own;
    if (most_formula_entries > 0)
      n = std::clamp(std::floor(std::cbrt(static_cast<double>(most_formula_entries) / 7)), 2.0, own);
    share = std::pow(n / own, 3);
    return {{"convection-diffusion-3d", {{"n", n}}}};
  }
  if (name == "dense2") {
    const double n = std::min(2000.0, std::floor(std::sqrt(static_cast<double>(most_entries))));
    share = n / 2000;
    return {{"banded", {{"n", n}, {"lower", n - 1}, {"upper", n - 1}}}};
  }
  return {};
}

}  // namespace

PrintedFeatures printed_features(const PaperTables& papers, std::string_view name) {
  PrintedFeatures f;
  const PaperTable &s0 = papers["s0-table-3"], &s1 = papers["s1-table-1"], &s2 = papers["s2-table-1"],
                   &s3 = papers["s3-table-3"], &s4 = papers["s4-table-2"];
  // Exact numbers first, then rounded ones.
  if (const auto row = s0.find(name)) {
    take(f.rows, whole(s0.number(*row, "M"))), take(f.nonzeros, whole(s0.number(*row, "NZ")));
    take(f.longest, whole(s0.number(*row, "MAX NZR")));
  }
  if (const auto row = s1.find(name)) {
    take(f.rows, whole(s1.number(*row, "dimRow"))), take(f.nonzeros, whole(s1.number(*row, "nnz")));
    f.deviation = s1.number(*row, "std. dev.").value_or(-1);
  }
  if (const auto row = row_of(s2, name, "file")) take(f.cols, whole(s2.number(*row, "cols")));
  if (const auto row = s3.find(name)) {
    const double mean = *s3.number(*row, "f2");
    const double rows = std::round((*s3.number(*row, "f1") * 1048576 - 4) / (12 * mean + 4));
    take(f.rows, static_cast<std::int64_t>(rows));
    take(f.nonzeros, static_cast<std::int64_t>(std::round(rows * mean)));
    take(f.longest, static_cast<std::int64_t>(std::round((*s3.number(*row, "f3") + 1) * mean)));
    const std::string& thirds = s3.text(*row, "f4");
    f.similarity = middle_of(thirds.at(0), 1), f.neighbours = middle_of(thirds.at(1), 2);
  }
  if (const auto row = row_of(s2, name, "file"))
    take(f.rows, whole(s2.number(*row, "rows"))), take(f.nonzeros, whole(s2.number(*row, "nnzs")));
  if (const auto row = s4.find(name))
    take(f.rows, whole(s4.number(*row, "rows"))), take(f.nonzeros, whole(s4.number(*row, "nnz")));
  if (f.rows == 0) throw BadArgument(fmt::format("no table of the papers has a matrix '{}'", name));
  // A square matrix must not get a rounded number of columns.
  if (static_cast<double>(f.cols) < 2 * static_cast<double>(f.rows)) f.cols = f.rows;
  return f;
}

Specimen generated_specimen(const ContextPtr& host, const std::string& name, std::string_view kind,
                            const GeneratorParams& params) {
  Specimen specimen;
  specimen.name = name, specimen.made = fmt::format("generated: {}", kind);
  specimen.csr = generate(host, kind, params);
  specimen.statistics = statistics(*host, specimen.csr.pattern);
  return specimen;
}

Specimen make_specimen(const ContextPtr& host, const PaperTables& papers, const std::string& name,
                       const std::string& folder, std::int64_t most_entries,
                       std::int64_t most_formula_entries) {
  if (!folder.empty())
    for (const char* ending : {".mtx", ".mtx.gz", ".mtx.xz", ".pbin"})
      if (const auto path = std::filesystem::path(folder) / (name + ending); std::filesystem::exists(path)) {
        Specimen specimen;
        specimen.name = name;
        specimen.csr = read_matrix(host, path.string(), {.allow_not_finite = false});
        specimen.statistics = statistics(*host, specimen.csr.pattern);
        return specimen;
      }
  double share = 1;
  if (const auto formula = formula_of(name, most_entries, most_formula_entries, share)) {
    Specimen specimen = generated_specimen(host, name, formula->first, formula->second);
    // The formula is what the paper describes, so nothing stands in for anything.
    specimen.made = share < 1 ? fmt::format("formula, {:.2g} of its rows", share) : std::string();
    return specimen;
  }
  const PrintedFeatures f = printed_features(papers, name);
  share = std::min(1.0, static_cast<double>(most_entries) / static_cast<double>(f.nonzeros));
  const double rows = std::max(64.0, std::round(share * static_cast<double>(f.rows)));
  const double mean = static_cast<double>(f.nonzeros) / static_cast<double>(f.rows);
  double cols = f.cols == f.rows ? rows : std::round(share * static_cast<double>(f.cols));
  cols = std::max(cols, std::ceil(2 * mean));
  // A row cannot be longer than the smaller matrix is wide.
  const double longest = std::min(static_cast<double>(f.longest), std::floor(0.9 * cols));
  const double skew = longest > mean ? (longest - mean) / mean : 0;
  const double deviation = f.deviation >= 0 ? f.deviation : mean * std::min(1.0, skew / 4);
  GeneratorParams params{{"n", rows},
                         {"cols", cols == rows ? 0 : cols},
                         {"mean", mean},
                         {"deviation", deviation},
                         {"skew", skew},
                         {"similarity", f.similarity >= 0 ? f.similarity : 0.5},
                         {"neighbours", f.neighbours >= 0 ? f.neighbours : 1.0},
                         {"bandwidth", 0.3}};
  // Skewed rows of a small matrix with a large deviation may not exist; then their deviation is left open.
  const auto make = [&] { return generated_specimen(host, name, "artificial", params); };
  Specimen specimen;
  try {
    specimen = make();
  } catch (const BadArgument&) {
    params["deviation"] = 0;
    specimen = make();
  }
  specimen.made = "like:" + name;
  if (share < 1) specimen.made += fmt::format(", {:.2g} of its rows", share);
  return specimen;
}

}  // namespace protean::research
