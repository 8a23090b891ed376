// Exhibits of S2: B.-Y. Su, K. Keutzer, clSpMV: a cross-platform OpenCL SpMV framework on GPUs, ICS 2012.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "research/reproduce/tools.hpp"

namespace protean::research::exhibits {
namespace {

// The nine formats of the paper. In formats of blocks the way has the size that the paper draws in its Figures 10 and
// 11.
struct Nine {
  std::string_view name;
  Way way;
};
const FormatParams drawn{{"rows", "1"}, {"cols", "4"}};
const std::vector<Nine>& nine() {
  static const std::vector<Nine> list = {
      {"DIA", {"dia", {}, {}, true}},      {"BDIA", {"bdia", {}, {}, true}},
      {"ELL", {"ell", {}, {}, true}},      {"SELL", {"sell", {}, {}, true}},
      {"CSR", {"csr", {}, {}, true}},      {"COO", {"coo", {}, {}, true}},
      {"BELL", {"bell", drawn, {}, true}}, {"SBELL", {"bsellpack", drawn, {}, true}},
      {"BCSR", {"bcsr", drawn, {}, true}}};
  return list;
}

// The ways of a format that Tables 2 to 4 compare with the cocktail: of a format of blocks all eight sizes of the
// paper, as the cocktail has them.
std::vector<std::pair<std::string, Way>> ways_of(const Nine& format) {
  if (format.way.params.all().empty()) return {{std::string(format.name), format.way}};
  std::vector<std::pair<std::string, Way>> ways;
  for (const char* cols : {"4", "8"})
    for (const char* rows : {"1", "2", "4", "8"}) {
      Way way = format.way;
      way.params = {{"rows", rows}, {"cols", cols}};
      ways.emplace_back(fmt::format("{} {}x{}", format.name, rows, cols), std::move(way));
    }
  return ways;
}
const Way hyb{"hyb", {}, {}, true}, cocktail{"cocktail", {}, {}, true};
constexpr std::string_view nvidia[] = {"DIA", "ELL", "CSR", "COO"};

// What both tables of products need of a matrix.
struct Speeds {
  std::optional<double> hyb, nvidia, single, cocktail;
  std::string nvidia_format, single_format, parts, why;
};

Speeds speeds_of(Lab& lab, const Specimen& specimen) {
  Speeds s;
  s.hyb = lab.gflops(specimen, hyb);
  s.nvidia = s.hyb, s.nvidia_format = "HYB";
  for (const Nine& format : nine()) {
    std::optional<double> speed;
    for (const auto& [name, way] : ways_of(format)) {
      const auto its = lab.gflops(specimen, way);
      if (!its) continue;
      speed = std::max(speed.value_or(0), *its);
      if (!s.single || *its > *s.single) s.single = its, s.single_format = name;
    }
    if (!speed) continue;
    if (std::find(std::begin(nvidia), std::end(nvidia), format.name) != std::end(nvidia) &&
        (!s.nvidia || *speed > *s.nvidia))
      s.nvidia = speed, s.nvidia_format = format.name;
  }
  const Measured& m = lab.measured(specimen, cocktail);
  s.cocktail = lab.gflops(specimen, cocktail), s.parts = m.parts, s.why = refusal(m);
  return s;
}

// The name of a row of Tables 1 to 4 in the collection.
const std::string& file_of(const Lab& lab, const std::string& name) {
  const PaperTable& table = lab.papers()["s2-table-1"];
  return table.text(*table.find(name), "file");
}

std::optional<double> percent(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b || *b == 0) return {};
  return 100 * (*a / *b - 1);
}

void note_blocks(Exhibit& e) {
  e.limits.emplace_back(
      "The best single format is that of all eight sizes of blocks, as in the paper, which also tries each "
      "with and without texture memory.");
  e.limits.emplace_back(
      "clSpMV measures each format on dense matrices of its machine; our cocktail predicts flat formats with "
      "the built-in machine table, and on a host diagonals and blocks with rates on dense matrices, so the "
      "shares differ.");
}

}  // namespace

Exhibit cocktail_matrices(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s2-table-1"];
  e.columns = {{"rows", "", {}, 0}, {"cols", "", {}, 0}, {"nnzs", "", {}, 0}, {"nnz/row", "entries", {}, 1}};
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    const Specimen& specimen = lab.matrix(table.text(row, "file"));
    const Statistics& s = specimen.statistics;
    e.rows.push_back(
        {table.label(row),
         specimen.made,
         {cell(table, row, "rows", static_cast<double>(s.rows)),
          cell(table, row, "cols", static_cast<double>(s.cols)),
          cell(table, row, "nnzs", static_cast<double>(s.nonzeros)), cell(table, row, "nnz/row", s.mean)}});
  }
  note_matrices(e);
  e.limits.emplace_back(
      "FEM/Ship is printed with 3.98M entries, half of a symmetric matrix; LP with 2825 entries a row of "
      "4K.");
  judge(
      e, "The rows of Dense have 2000 entries, of Webbase about 3: the widest range of row lengths but LP",
      "5.1",
      [](const Numbers& n) -> Judged {
        const auto dense = n("Dense", "nnz/row"), web = n("Webbase", "nnz/row");
        if (!dense || !web) return {};
        return {*dense / *web > 100, fmt::format("{:.0f} and {:.1f}", *dense, *web)};
      },
      true);
  return e;
}

Exhibit cocktail_products(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()[entry.id];
  const bool with_nvidia = entry.id == "s2-table-2";
  if (with_nvidia)
    e.columns = {
        {"NV HYB", "GFLOPS", "hyb", 2}, {"Best NV", "GFLOPS", {}, 2}, {"Best NV format", "", {}, -1}};
  e.columns.insert(e.columns.end(), {{"Best single", "GFLOPS", {}, 2},
                                     {"Best single format", "", {}, -1},
                                     {"clSpMV", "GFLOPS", "cocktail", 2},
                                     {"clSpMV format", "", {}, -1}});
  if (!with_nvidia) e.columns.push_back({"Improvement", "percent", {}, 1});
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    const Specimen& specimen = lab.matrix(file_of(lab, table.label(row)));
    const Speeds s = speeds_of(lab, specimen);
    ExhibitRow line{table.label(row), specimen.made, {}};
    if (with_nvidia)
      line.cells = {cell(table, row, "NV HYB", s.hyb), cell(table, row, "Best NV", s.nvidia),
                    cell(table, row, "Best NV format", {}, s.nvidia_format)};
    line.cells.push_back(cell(table, row, "Best single", s.single));
    line.cells.push_back(cell(table, row, "Best single format", {}, s.single_format));
    line.cells.push_back(cell(table, row, "clSpMV", s.cocktail, s.why));
    line.cells.push_back(cell(table, row, "clSpMV format", {}, s.parts));
    if (!with_nvidia) line.cells.push_back(cell(table, row, "Improvement", percent(s.cocktail, s.single)));
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"Best single", "clSpMV"}, true));
  note_machine(e, lab, with_nvidia ? "a GTX 480" : "a Radeon 6970");
  note_matrices(e);
  note_blocks(e);
  judge(e, "On average the cocktail is faster than the best single format", "5.2",
        [&](const Numbers& n) -> Judged {
          std::vector<double> ratios;
          for (const ExhibitRow& row : e.rows)
            if (const auto a = n(row.name, "clSpMV"), b = n(row.name, "Best single"); a && b)
              ratios.push_back(*a / *b);
          if (ratios.empty()) return {};
          return {geometric_mean(ratios) > 1, fmt::format("geometric mean {:.2f} over {} matrices",
                                                          geometric_mean(ratios), ratios.size())};
        });
  judge(e, "The cocktail is at most 11 percent slower than the best single format on each matrix", "5.2",
        [&](const Numbers& n) -> Judged {
          double worst = 1e300;
          std::string where;
          for (const ExhibitRow& row : e.rows)
            if (const auto a = n(row.name, "clSpMV"), b = n(row.name, "Best single");
                a && b && *a / *b < worst)
              worst = *a / *b, where = row.name;
          if (where.empty()) return {};
          return {worst >= 0.89, fmt::format("worst: {:.2f} on {}", worst, where)};
        });
  return e;
}

Exhibit cocktail_improvement(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s2-table-3"];
  e.columns = {
      {"NV HYB", "percent", {}, 1}, {"Best NV", "percent", {}, 1}, {"Best single", "percent", {}, 1}};
  double sums[3] = {};
  int counts[3] = {};
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    std::optional<double> values[3];
    std::string made;
    if (table.label(row) == "Average") {
      for (int k = 0; k < 3; ++k)
        if (counts[k] > 0) values[k] = sums[k] / counts[k];
    } else {
      const Specimen& specimen = lab.matrix(file_of(lab, table.label(row)));
      made = specimen.made;
      const Speeds s = speeds_of(lab, specimen);
      const std::optional<double>* const others[] = {&s.hyb, &s.nvidia, &s.single};
      for (int k = 0; k < 3; ++k)
        if ((values[k] = percent(s.cocktail, *others[k]))) sums[k] += *values[k], ++counts[k];
    }
    ExhibitRow line{table.label(row), table.label(row) == "Average" ? made_of_all(e) : made, {}};
    for (int k = 0; k < 3; ++k)
      line.cells.push_back(cell(table, row, e.columns[static_cast<std::size_t>(k)].name, values[k]));
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"Best single"}, false));
  note_machine(e, lab, "a GTX 480");
  note_matrices(e);
  note_blocks(e);
  e.limits.emplace_back("A ratio of two improvements in percent says little; compare the signs.");
  judge(e, "On average the cocktail gains on HYB and on the best single format", "5.2",
        [](const Numbers& n) -> Judged {
          const auto a = n("Average", "NV HYB"), b = n("Average", "Best single");
          if (!a || !b) return {};
          return {*a > 0 && *b > 0, fmt::format("{:+.1f} and {:+.1f} percent", *a, *b)};
        });
  return e;
}

Exhibit cocktail_dense(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"slowest", "GFLOPS", {}, 2},
               {"fastest", "GFLOPS", {}, 2},
               {"at dimension", "", {}, 0},
               {"entries a row", "", {}, 0}};
  const auto most = static_cast<double>(lab.most_entries());
  std::map<std::string_view, std::vector<std::vector<double>>> points;
  // Matrices whose entries fill the diagonals about the main one; matrices that are too large are left out, as in the
  // paper.
  for (double n = 1024; n <= 1048576; n *= 4)
    for (double width = 4; width <= 512; width *= 4) {
      if (n * width > std::min(most, 2e8) || width > n / 2 || lab.interrupted()) continue;
      const double lower = std::floor((width - 1) / 2);
      const Specimen& specimen = lab.generated(fmt::format("band of {} in {} rows", width, n), "banded",
                                               {{"n", n}, {"lower", lower}, {"upper", width - 1 - lower}});
      for (const Nine& format : nine())
        if (const auto speed = lab.gflops(specimen, format.way))
          points[format.name].push_back({n, width, *speed});
    }
  double coo = 0, others = 1e300;
  for (const Nine& format : nine()) {
    auto& list = points[format.name];
    ExhibitRow line{std::string(format.name), "banded matrices", std::vector<Cell>(4)};
    if (!list.empty()) {
      const auto by_speed = [](const auto& a, const auto& b) { return a[2] < b[2]; };
      const auto [low, high] = std::minmax_element(list.begin(), list.end(), by_speed);
      line.cells[0].ours = (*low)[2], line.cells[1].ours = (*high)[2];
      line.cells[2].ours = (*high)[0], line.cells[3].ours = (*high)[1];
      (format.name == "COO" ? coo : others) =
          format.name == "COO" ? (*high)[2] : std::min(others, (*high)[2]);
      e.charts.push_back({"heat",
                          fmt::format("{}, GFLOPS", format.name),
                          {"dimension", true, false},
                          {"entries a row", true, false},
                          {},
                          {{"GFLOPS", false, list}}});
    }
    e.rows.push_back(std::move(line));
  }
  note_machine(e, lab, entry.id == "s2-figure-10" ? "a GTX 480" : "a Radeon 6970");
  e.limits.emplace_back(
      "The paper draws these maps in colours and prints no numbers. Its blocks, and ours, are 1 x 4.");
  judge_ours(e, "The peak of COO is the lowest of the nine formats", "5.2",
             {coo == 0 ? std::optional<bool>() : coo < others,
              fmt::format("COO {:.2f}, the lowest other {:.2f}", coo, others)});
  int growing = 0, all = 0;
  for (const auto& [name, list] : points) {
    if (list.size() < 2) continue;
    const auto entries = [](const auto& a, const auto& b) { return a[0] * a[1] < b[0] * b[1]; };
    const auto [least, largest] = std::minmax_element(list.begin(), list.end(), entries);
    ++all, growing += (*largest)[2] >= (*least)[2];
  }
  judge_ours(
      e, "Speed grows with dimension and entries a row: the largest matrix is not slower than the smallest",
      "5.2",
      {all == 0 ? std::optional<bool>() : growing * 3 >= 2 * all,
       fmt::format("{} of {} formats", growing, all)});
  return e;
}

}  // namespace protean::research::exhibits
