// Exhibits of S0: S. Filippone, V. Cardellini, D. Barbieri, A. Fanfarillo, Sparse matrix-vector multiplication on
// GPGPUs, ACM TOMS 43(4), 2017.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "research/reproduce/tools.hpp"

namespace protean::research::exhibits {
namespace {

// The library of the survey has no limit of padding but memory; our formats refuse what is far too large. The
// largest footprint of Table 9 is 32 stored values an entry.
const std::vector<std::pair<std::string_view, Way>>& ways() {
  static const std::vector<std::pair<std::string_view, Way>> list = {
      {"CSR", {"csr"}},
      {"JSR", {"csr-mukunoki"}},
      {"HDI", {"hdi", {{"hack", "32"}, {"max_fill", "40"}}}},
      {"ELL", {"ell-psblas", {{"max_fill", "40"}}}},
      {"HLL", {"hll", {{"max_fill", "40"}}}},
      {"HYB", {"hyb"}},
      {"SELL-P", {"sell-p", {{"max_fill", "40"}}}}};
  return list;
}

const Way& way_of(std::string_view column) {
  for (const auto& [name, way] : ways())
    if (name == column) return way;
  throw BadArgument(fmt::format("no format of the survey is called '{}'", column));
}

// The platform of a table or figure.
struct Platform {
  std::string_view id, table, machine;
};

constexpr Platform platforms[] = {
    {"s0-table-5", "s0-table-5", "an M2070"},   {"s0-table-6", "s0-table-6", "a GTX 660"},
    {"s0-table-7", "s0-table-7", "a K20M"},     {"s0-table-8", "s0-table-8", "a K40M"},
    {"s0-figure-13", "s0-table-5", "an M2070"}, {"s0-figure-14", "s0-table-8", "a K40M"},
    {"s0-figure-15", "s0-table-8", "a K40M"},   {"s0-table-10", "s0-table-8", "a K40M"}};

const Platform& platform_of(std::string_view id) {
  for (const Platform& platform : platforms)
    if (platform.id == id) return platform;
  throw BadArgument(fmt::format("'{}' has no platform", id));
}

std::vector<std::string> formats_of(const PaperTable& table) {
  return {table.columns().begin() + 1, table.columns().end()};
}

// Matrices of Table 3 from discretized PDEs whose longest row is at most 1.5 times the mean, by the printed
// numbers.
std::vector<std::string> regular_rows(const Lab& lab) {
  const PaperTable& table = lab.papers()["s0-table-3"];
  std::vector<std::string> names;
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (*table.number(row, "MAX NZR") <= 1.5 * *table.number(row, "AVG NZR") &&
        *table.number(row, "AVG NZR") > 6 && !table.label(row).starts_with("amazon"))
      names.push_back(table.label(row));
  return names;
}

// Fills in the GFLOPS of the formats of the table on all its matrices.
void measure_products(Lab& lab, Exhibit& e, const PaperTable& table) {
  for (const std::string& name : formats_of(table))
    e.columns.push_back({name, "GFLOPS", std::string(way_of(name).format), 2});
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    const Specimen& specimen = lab.matrix(table.label(row));
    ExhibitRow line{table.label(row), specimen.made, {}};
    for (const std::string& name : formats_of(table))
      line.cells.push_back(cell(table, row, name, lab.gflops(specimen, way_of(name)),
                                refusal(lab.measured(specimen, way_of(name)))));
    e.rows.push_back(std::move(line));
  }
}

// The median over some rows of column a over column b.
Judged median_ratio_above(const Numbers& numbers, const std::vector<std::string>& rows, std::string_view a,
                          std::string_view b, double limit) {
  std::vector<double> ratios;
  for (const std::string& row : rows)
    if (const auto x = numbers(row, a), y = numbers(row, b); x && y && *y > 0) ratios.push_back(*x / *y);
  if (ratios.empty()) return {};
  const double median = median_of(ratios);
  return {median > limit,
          fmt::format("median of {} / {} over {} matrices: {:.2f}", a, b, ratios.size(), median)};
}

// The fastest of the columns in a row; empty if there is no number.
std::string fastest(const Numbers& numbers, std::string_view row, const std::vector<std::string>& columns) {
  std::string best;
  double most = 0;
  for (const std::string& column : columns)
    if (const auto value = numbers(row, column); value && *value > most) most = *value, best = column;
  return best;
}

void judge_products(Lab& lab, Exhibit& e, const PaperTable& table) {
  const std::vector<std::string> formats = formats_of(table), regular = regular_rows(lab);
  judge(e,
        "HLL beats CSR on matrices of discretized PDEs with regular rows (longest row at most 1.5 times the "
        "mean)",
        "5.2", [&](const Numbers& n) { return median_ratio_above(n, regular, "HLL", "CSR", 1); });
  judge(e, "HDI is the fastest on the pde matrices (within 5 percent)", "5.2",
        [&](const Numbers& n) -> Judged {
          int best = 0, all = 0;
          for (const char* row : {"pde060", "pde080", "pde100"}) {
            const auto hdi = n(row, "HDI");
            const std::string first = fastest(n, row, formats);
            if (!hdi || first.empty()) continue;
            ++all, best += *hdi >= 0.95 * *n(row, first);
          }
          if (all == 0) return {};
          // Table 7 has one of the three below the others, so two are asked for.
          return {best >= 2, fmt::format("on {} of {}", best, all)};
        });
  judge(e, "CSR is rarely the fastest", "5.2", [&](const Numbers& n) -> Judged {
    int csr = 0, all = 0;
    for (std::size_t row = 0; row < table.rows(); ++row)
      if (const std::string first = fastest(n, table.label(row), formats); !first.empty())
        ++all, csr += first == "CSR";
    if (all == 0) return {};
    return {csr * 3 < all, fmt::format("on {} of {} matrices", csr, all)};
  });
  judge(e,
        "HDI is far below the others where the matrix has no diagonals (thermal2, cop20k_A, mac_econ_fwd500)",
        "5.2", [&](const Numbers& n) {
          return median_ratio_above(n, {"thermal2", "cop20k_A", "mac_econ_fwd500"}, "CSR", "HDI", 1.5);
        });
  judge(e, "Of the padded formats HYB suffers least from power laws (webbase-1M, wiki-Talk)", "5.2",
        [&](const Numbers& n) {
          return median_ratio_above(n, {"webbase-1M", "wiki-Talk"}, "HYB", "HLL", 1);
        });
}

}  // namespace

Exhibit survey_products(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const Platform& platform = platform_of(entry.id);
  const PaperTable& table = lab.papers()[platform.table];
  measure_products(lab, e, table);
  e.charts.push_back(bars_of(e, {"CSR", "HDI", "HLL"}, false));
  judge_products(lab, e, table);
  note_machine(e, lab, platform.machine);
  note_matrices(e);
  if (e.find("cant", "JSR")) note_same(e, lab, ways());
  return e;
}

Exhibit survey_bytes(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s0-table-9"];
  for (const std::string& name : formats_of(table))
    e.columns.push_back({name, "bytes an entry", std::string(way_of(name).format), 2});
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    const Specimen& specimen = lab.matrix(table.label(row));
    ExhibitRow line{table.label(row), specimen.made, {}};
    for (const std::string& name : formats_of(table)) {
      const Measured m = lab.counted(specimen, way_of(name));
      std::optional<double> bytes;
      if (m.ok()) bytes = static_cast<double>(m.bytes) / static_cast<double>(specimen.csr.nonzeros());
      line.cells.push_back(cell(table, row, name, bytes, refusal(m)));
    }
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, formats_of(table), true));
  note_matrices(e);
  e.limits.emplace_back(
      "HDI of the survey holds 4 bytes of offset for each stored value; ours one offset a diagonal, and a "
      "bit a value.");
  e.limits.emplace_back("HLL of ours has 8 bytes for the start of a hack, the survey's has 4.");
  judge(
      e, "ELL (ell-psblas) of pde060, pde080 and pde100 has the printed bytes, within their last digit",
      "5.4",
      [&](const Numbers& n) -> Judged {
        double worst = 0;
        int all = 0;
        for (const char* row : {"pde060", "pde080", "pde100"})
          if (const auto a = n(row, "ELL"), b = e.printed(row, "ELL"); a && b)
            ++all, worst = std::max(worst, std::fabs(*a - *b));
        if (all < 3) return {};
        return {worst <= 0.0051, fmt::format("largest difference {:.4f} bytes", worst)};
      },
      true);
  judge(
      e, "HLL of the pde matrices has the printed bytes within 0.03, CSR within the last digit", "5.4",
      [&](const Numbers& n) -> Judged {
        double hll = 0, csr = 0;
        for (const char* row : {"pde060", "pde080", "pde100"}) {
          const auto a = n(row, "HLL"), b = e.printed(row, "HLL"), c = n(row, "CSR"),
                     d = e.printed(row, "CSR");
          if (!a || !b || !c || !d) return {};
          hll = std::max(hll, std::fabs(*a - *b)), csr = std::max(csr, std::fabs(*c - *d));
        }
        return {hll <= 0.03 && csr <= 0.0051,
                fmt::format("largest differences {:.4f} and {:.4f} bytes", hll, csr)};
      },
      true);
  judge(
      e, "HLL is never larger than ELL by more than 1 percent: a hack is no wider than the matrix", "5.4",
      [&](const Numbers& n) -> Judged {
        double worst = 0;
        for (const ExhibitRow& row : e.rows)
          if (const auto a = n(row.name, "HLL"), b = n(row.name, "ELL"); a && b)
            worst = std::max(worst, *a / *b);
        if (worst == 0) return {};
        return {worst <= 1.01, fmt::format("largest HLL / ELL: {:.4f}", worst)};
      },
      true);
  judge(
      e, "HDI has at least three times the bytes of CSR on matrices without diagonals (thermal2, roadNet-CA)",
      "5.4",
      [&](const Numbers& n) -> Judged {
        double least = 0;
        for (const char* row : {"thermal2", "roadNet-CA"})
          if (const auto a = n(row, "HDI"), b = n(row, "CSR"); a && b)
            least = least == 0 ? *a / *b : std::min(least, *a / *b);
        if (least == 0) return {};
        return {least >= 3, fmt::format("smallest HDI / CSR: {:.1f}", least)};
      },
      true);
  return e;
}

Exhibit survey_conversion(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s0-table-10"];
  const char* const formats[] = {"CSR", "HDI", "ELL", "HLL", "HYB"};
  for (const auto& [suffix, unit, digits] :
       {std::tuple{" s", "s", -1}, {" products", "products", 1}, {" break-even", "iterations", 0}})
    for (const char* format : formats)
      e.columns.push_back({format + std::string(suffix), unit, std::string(way_of(format).format), digits});
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    const Specimen& specimen = lab.matrix(table.label(row));
    ExhibitRow line{table.label(row), specimen.made, std::vector<Cell>(15)};
    const Measured csr = lab.measured(specimen, way_of("CSR"));
    for (std::size_t k = 0; k < 5; ++k) {
      const Measured m = lab.measured(specimen, way_of(formats[k]));
      Cell *seconds = &line.cells[k], *products = &line.cells[5 + k], *even = &line.cells[10 + k];
      *seconds = printed_cell(table, row, e.columns[k].name);
      *products = printed_cell(table, row, e.columns[5 + k].name);
      *even = printed_cell(table, row, e.columns[10 + k].name);
      if (!m.ok()) {
        seconds->word = products->word = even->word = refusal(m);
        continue;
      }
      seconds->ours = m.convert, products->ours = m.convert / m.product;
      const double more = m.convert - csr.convert, gain = csr.product - m.product;
      if (k == 0 || (more <= 0 && gain >= 0))
        even->ours = 0;
      else if (gain <= 0)
        even->word = "never";
      else
        even->ours = std::ceil(std::max(0.0, more / gain));
    }
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"HDI products", "ELL products", "HLL products", "HYB products"}, true));
  note_machine(e, lab, platform_of(entry.id).machine);
  note_matrices(e);
  e.limits.emplace_back(
      "The paper converts from sorted coordinates and counts the way to the GPU; ours converts from CSR in "
      "the memory of the product, and csr itself costs nothing.");
  judge(e, "Conversions to ELL and HLL cost about the same (median ratio within 2)", "5.4",
        [&](const Numbers& n) -> Judged {
          std::vector<double> ratios;
          for (const ExhibitRow& row : e.rows)
            if (const auto a = n(row.name, "ELL s"), b = n(row.name, "HLL s"); a && b && *b > 0)
              ratios.push_back(*a / *b);
          if (ratios.empty()) return {};
          const double median = median_of(ratios);
          return {median < 2 && median > 0.5, fmt::format("median ELL / HLL: {:.2f}", median)};
        });
  judge(e, "HDI costs more products than HLL to convert to (median)", "5.4", [&](const Numbers& n) {
    std::vector<std::string> rows;
    for (const ExhibitRow& row : e.rows) rows.push_back(row.name);
    return median_ratio_above(n, rows, "HDI products", "HLL products", 1);
  });
  return e;
}

Exhibit survey_profile(Lab& lab, const Entry& entry) {
  Exhibit measured = begin(entry, lab);
  const Platform& platform = platform_of(entry.id);
  const PaperTable& table = lab.papers()[platform.table];
  measure_products(lab, measured, table);
  const std::vector<std::string> formats = formats_of(table);
  Exhibit e = begin(entry, lab);
  const double taus[] = {1, 1.1, 1.25, 1.5, 2, 4, 8};
  for (const double tau : taus)
    e.columns.push_back({fmt::format("rho({:g})", tau), "part of the matrices", {}, 2});
  Chart chart{"steps", "Performance profile, paper and ours", {"tau", true, false}, {"rho", false, false}, {},
              {}};
  // The best of a row over this format, for each matrix that it can handle; and the number of matrices.
  const auto ratios = [&](std::string_view format, bool paper) {
    std::pair<std::vector<double>, double> result{{}, 0};
    for (const ExhibitRow& row : measured.rows) {
      double best = 0;
      for (const std::string& other : formats)
        best = std::max(
            best, (paper ? measured.printed(row.name, other) : measured.ours(row.name, other)).value_or(0));
      if (best == 0) continue;
      ++result.second;
      if (const auto own = paper ? measured.printed(row.name, format) : measured.ours(row.name, format);
          own && *own > 0)
        result.first.push_back(best / *own);
    }
    std::sort(result.first.begin(), result.first.end());
    return result;
  };
  for (const std::string& format : formats) {
    ExhibitRow line{format, made_of_all(measured), std::vector<Cell>(std::size(taus))};
    for (const bool paper : {true, false}) {
      const auto [list, all] = ratios(format, paper);
      if (all == 0) continue;
      Series series{format + (paper ? ", paper" : ""), paper, {{1, 0}}};
      for (std::size_t k = 0; k < list.size(); ++k)
        series.points.push_back({std::min(list[k], 16.0), static_cast<double>(k + 1) / all});
      series.points.push_back({16, static_cast<double>(list.size()) / all});
      chart.series.push_back(std::move(series));
      for (std::size_t k = 0; k < std::size(taus); ++k) {
        const double rho =
            static_cast<double>(std::upper_bound(list.begin(), list.end(), taus[k] * (1 + 1e-12)) -
                                list.begin()) /
            all;
        Cell& cell = line.cells[k];
        if (paper)
          cell.paper = rho, cell.printed = fmt::format("{:.2f}", rho);
        else
          cell.ours = rho;
      }
    }
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(std::move(chart));
  note_machine(e, lab, platform.machine);
  e.limits.push_back(
      fmt::format("The curves of the paper are computed from its {}; it draws them and prints no numbers.",
                  platform.table == "s0-table-5" ? "Table 5" : "Table 8"));
  e.limits.emplace_back("Most matrices are stand-ins; the tables of products say which.");
  judge(e, "HYB and CSR can handle all matrices (rho within 0.03 of 1 at tau = 8, or above that of HDI)",
        "5.2", [&](const Numbers& n) -> Judged {
          const auto hyb = n("HYB", "rho(8)"), csr = n("CSR", "rho(8)"), hdi = n("HDI", "rho(8)");
          if (!hyb || !csr || !hdi) return {};
          return {(*hyb >= 0.97 || *hyb > *hdi) && (*csr >= 0.97 || *csr > *hdi),
                  fmt::format("HYB {:.2f}, CSR {:.2f}, HDI {:.2f}", *hyb, *csr, *hdi)};
        });
  judge(e, "HDI falls below the others: its rho(2) is the smallest of CSR, HLL and HYB", "5.2",
        [&](const Numbers& n) -> Judged {
          const auto hdi = n("HDI", "rho(2)"), hll = n("HLL", "rho(2)"), hyb = n("HYB", "rho(2)"),
                     csr = n("CSR", "rho(2)");
          if (!hdi || !hll || !hyb || !csr) return {};
          return {*hdi < *hll && *hdi < *hyb && *hdi <= *csr,
                  fmt::format("HDI {:.2f}, HLL {:.2f}, HYB {:.2f}, CSR {:.2f}", *hdi, *hll, *hyb, *csr)};
        });
  return e;
}

Exhibit survey_roofline(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable &speeds = lab.papers()["s0-table-8"], &bytes = lab.papers()["s0-table-9"];
  const double bandwidth = lab.copy_bandwidth();
  const std::optional<double> stated = stated_cell(lab, e, "sustained bandwidth GB/s", {}).paper;
  e.columns = {
      {"intensity", "flops a byte", {}, 4}, {"speed", "GFLOPS", {}, 2}, {"part of the roof", "", {}, 2}};
  Chart chart{"points", "Roofline", {"flops a byte of the matrix", true, false}, {"GFLOPS", true, false},
              {},       {}};
  Series theirs{"paper", true, {}}, ours{"ours", false, {}}, roof_paper{"roof of the paper", true, {}},
      roof_ours{"our roof", false, {}};
  for (const auto& [name, format] :
       {std::pair{"ML_Laplace", "ELL"}, {"thermal2", "ELL"}, {"web-Google", "HLL"}}) {
    const Specimen& specimen = lab.matrix(name);
    const Measured& m = lab.measured(specimen, way_of(format));
    ExhibitRow line{fmt::format("{} {}", name, format), specimen.made, std::vector<Cell>(3)};
    const auto speed = speeds.number(*speeds.find(name), format),
               footprint = bytes.number(*bytes.find(name), format);
    if (speed && footprint && stated) {
      const double intensity = 2 / *footprint;
      line.cells[0].paper = intensity, line.cells[0].printed = fmt::format("{:.4f}", intensity);
      line.cells[1] = printed_cell(speeds, *speeds.find(name), format);
      line.cells[2].paper = *speed / (intensity * *stated);
      line.cells[2].printed = fmt::format("{:.2f}", *line.cells[2].paper);
      theirs.points.push_back({intensity, *speed});
    }
    if (m.ok()) {
      const double intensity =
          2.0 * static_cast<double>(specimen.csr.nonzeros()) / static_cast<double>(m.bytes);
      const double here = *lab.gflops(specimen, way_of(format));
      line.cells[0].ours = intensity, line.cells[1].ours = here;
      line.cells[2].ours = here / (intensity * bandwidth * 1e-9);
      ours.points.push_back({intensity, here});
    } else {
      line.cells[1].word = refusal(m);
    }
    e.rows.push_back(std::move(line));
  }
  ExhibitRow roof{"best possible, 1/6 flop a byte", {}, std::vector<Cell>(3)};
  roof.cells[1] = stated_cell(lab, e, "best possible GFLOPS", bandwidth * 1e-9 / 6);
  e.rows.push_back(std::move(roof));
  for (const double x : {0.01, 0.03, 0.1, 0.25, 1.0}) {
    if (stated) roof_paper.points.push_back({x, x * *stated});
    roof_ours.points.push_back({x, x * bandwidth * 1e-9});
  }
  for (Series* series : {&theirs, &ours, &roof_paper, &roof_ours}) chart.series.push_back(std::move(*series));
  e.charts.push_back(std::move(chart));
  note_machine(e, lab, platform_of(entry.id).machine);
  note_matrices(e);
  e.limits.emplace_back(
      "The paper's intensities are 2 / bytes of its Table 9, as its section 5.3 reads them; its peaks of "
      "arithmetic are not drawn.");
  e.limits.push_back(fmt::format(
      "Our roof is the copy bandwidth measured in this run, {:.4g} GB/s; a small matrix in a cache "
      "is above it.",
      bandwidth * 1e-9));
  judge(e, "ML_Laplace in ELL runs nearer to the roof than web-Google in HLL", "5.3",
        [](const Numbers& n) -> Judged {
          const auto near = n("ML_Laplace ELL", "part of the roof"),
                     far = n("web-Google HLL", "part of the roof");
          if (!near || !far) return {};
          return {*near > *far, fmt::format("{:.2f} and {:.2f}", *near, *far)};
        });
  return e;
}

}  // namespace protean::research::exhibits
