// Exhibits of S4: Y. Niu et al., TileSpMV: a tiled algorithm for sparse matrix-vector multiplication on GPUs, IPDPS
// 2021.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/command/build_info.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"
#include "operators/layout.hpp"
#include "research/reproduce/tools.hpp"

namespace protean::research::exhibits {
namespace {

const Way csr_tiles{"tilespmv-csr"}, adaptive{"tilespmv-adpt"}, deferred{"tilespmv-deferred-coo"};
constexpr int edge = 16;
constexpr std::array<const char*, 7> kinds = {"CSR", "COO", "ELL", "HYB", "Dns", "DnsRow", "DnsCol"};

std::vector<std::string> representatives(const Lab& lab) {
  const PaperTable& table = lab.papers()["s4-table-2"];
  std::vector<std::string> names;
  for (std::size_t row = 0; row < table.rows(); ++row) names.push_back(table.label(row));
  return names;
}

Cell ours(std::optional<double> value, std::string word = {}) { return {{}, {}, value, std::move(word)}; }

void note_tiles(Exhibit& e, const Lab& lab) {
  note_machine(e, lab, "a Titan RTX and an A100");
  note_matrices(e);
  e.limits.emplace_back(
      "The paper has 2757 matrices in this figure and prints no numbers of single ones; ours are the 16 of "
      "its Table II.");
}

std::string largest(const std::vector<std::pair<std::string, double>>& list) {
  if (list.empty()) return {};
  const auto best = std::max_element(list.begin(), list.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("largest {:.2f} ({})", best->second, best->first);
}

std::vector<double> values(const std::vector<std::pair<std::string, double>>& list) {
  std::vector<double> numbers;
  for (const auto& [name, value] : list) numbers.push_back(value);
  return numbers;
}

}  // namespace

Exhibit tile_platform(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"machine", "", {}, -1}, {"bandwidth", "GB/s", {}, 0}};
  const auto words = [](std::string printed, std::string word) {
    return Cell{std::move(printed), {}, {}, std::move(word)};
  };
  e.rows.push_back(
      {"machine 1",
       {},
       {words("Titan RTX (Turing), 4608 CUDA cores @ 1770 MHz, 24 GB", ""), {"672", {}, {}, ""}}});
  e.rows.push_back({"machine 2",
                    {},
                    {words("A100 (Ampere), 6912 CUDA cores @ 1410 MHz, 40 GB", ""), {"1555", {}, {}, ""}}});
  e.rows.push_back({"this machine",
                    {},
                    {words("", lab.device() ? "the GPU of this run" : machine_info().cpu),
                     ours(lab.copy_bandwidth() * 1e-9)}});
  for (const auto& [printed, format] : {std::pair{"cuSPARSE v11.1 BSR", "bcsr"},
                                        {"Merge-SpMV", "merge-csr"},
                                        {"CSR5", "csr5"},
                                        {"TileSpMV", "tilespmv-adpt"}})
    e.rows.push_back({fmt::format("algorithm {}", printed),
                      {},
                      {words(printed, find_format(format).id.data()), ours({})}});
  e.limits.emplace_back(
      "The paper prints the bandwidth of the data sheet, ours is that of a copy in this run.");
  return e;
}

Exhibit tile_matrices(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s4-table-2"];
  e.columns = {{"rows", "", {}, 0}, {"cols", "", {}, 0}, {"nnz", "", {}, 0}};
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    const Specimen& specimen = lab.matrix(table.label(row));
    const Statistics& s = specimen.statistics;
    e.rows.push_back({table.label(row),
                      specimen.made,
                      {cell(table, row, "rows", static_cast<double>(s.rows)),
                       cell(table, row, "cols", static_cast<double>(s.cols)),
                       cell(table, row, "nnz", static_cast<double>(s.nonzeros))}});
  }
  note_matrices(e);
  return e;
}

// Figure 6.
Exhibit tile_selection(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"TileSpMV_CSR", "GFLOPS", "tilespmv-csr", 2},
               {"TileSpMV_ADPT", "GFLOPS", "tilespmv-adpt", 2},
               {"TileSpMV_DeferredCOO", "GFLOPS", "tilespmv-deferred-coo", 2}};
  std::vector<std::pair<std::string, double>> gains, second;
  for (const std::string& name : representatives(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    ExhibitRow line{name, specimen.made, {}};
    std::optional<double> speeds[3];
    int k = 0;
    for (const Way& way : {csr_tiles, adaptive, deferred}) {
      speeds[k++] = lab.gflops(specimen, way);
      line.cells.push_back(ours(speeds[k - 1], refusal(lab.measured(specimen, way))));
    }
    if (speeds[0] && speeds[1]) gains.emplace_back(name, *speeds[1] / *speeds[0]);
    if (speeds[1] && speeds[2]) second.emplace_back(name, *speeds[2] / *speeds[1]);
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"TileSpMV_CSR", "TileSpMV_ADPT", "TileSpMV_DeferredCOO"}, false));
  const auto most = [](const auto& list) -> std::optional<double> {
    std::optional<double> best;
    for (const auto& [name, value] : list) best = std::max(best.value_or(0), value);
    return best;
  };
  e.rows.push_back({"largest gain over the one before",
                    {},
                    {ours({}), stated_cell(lab, e, "adaptive over csr tiles, most", most(gains)),
                     stated_cell(lab, e, "deferred over adaptive, most", most(second))}});
  note_tiles(e, lab);
  judge_ours(e, "Adaptive tiles beat CSR tiles", "IV.B",
             gains.empty() ? Judged{}
                           : Judged{geometric_mean(values(gains)) > 1,
                                    fmt::format("geometric mean {:.2f}, {}", geometric_mean(values(gains)),
                                                largest(gains))});
  judge_ours(e, "Deferring coordinates gains where they dominate (webbase-1M)", "IV.B", [&]() -> Judged {
    for (const auto& [name, value] : second)
      if (name == "webbase-1M") return {value > 1, fmt::format("{:.2f} times", value)};
    return {};
  }());
  return e;
}

// Figure 7.
Exhibit tile_kinds(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  for (const char* of : {"tiles", "entries"})
    for (const char* kind : kinds) e.columns.push_back({fmt::format("{} {}", of, kind), "percent", {}, 1});
  std::array<double, 14> means{};
  int all = 0;
  for (const std::string& name : representatives(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    lab.show(fmt::format("{}: tiles", name));
    const auto A = make_matrix(find_format("tilespmv-adpt"), specimen.csr, lab.host());
    const auto* const layout = dynamic_cast<const HasLayout*>(A.get());
    if (!layout) throw Error("tilespmv-adpt does not show its arrays");
    std::vector<double> ptr, col, kind;
    for (LayoutArray& array : layout->layout()) {
      if (array.name == "tile_ptr") ptr = std::move(array.numbers);
      if (array.name == "tile_col") col = std::move(array.numbers);
      if (array.name == "tile_kind") kind = std::move(array.numbers);
    }
    // Entries are counted from the pattern, tile by tile.
    std::array<double, 7> tiles{}, entries{};
    std::vector<std::int32_t> count(static_cast<std::size_t>(specimen.csr.cols() / edge + 1), 0);
    for (std::size_t strip = 0; strip + 1 < ptr.size(); ++strip) {
      const auto first = static_cast<std::int64_t>(strip) * edge,
                 end = std::min(first + edge, specimen.csr.rows());
      for (std::int64_t row = first; row < end; ++row)
        for (const std::int32_t c : specimen.csr.pattern.row(row))
          ++count[static_cast<std::size_t>(c / edge)];
      for (auto tile = static_cast<std::size_t>(ptr[strip]); tile < static_cast<std::size_t>(ptr[strip + 1]);
           ++tile) {
        const auto k = static_cast<std::size_t>(kind[tile]);
        ++tiles.at(k), entries.at(k) += count[static_cast<std::size_t>(col[tile])];
      }
      for (std::int64_t row = first; row < end; ++row)
        for (const std::int32_t c : specimen.csr.pattern.row(row))
          count[static_cast<std::size_t>(c / edge)] = 0;
    }
    ExhibitRow line{name, specimen.made, {}};
    const auto total = static_cast<double>(kind.size()),
               nonzeros = static_cast<double>(specimen.csr.nonzeros());
    for (std::size_t k = 0; k < 14; ++k) {
      const double part =
          k < 7 ? 100 * tiles[k] / std::max(total, 1.0) : 100 * entries[k - 7] / std::max(nonzeros, 1.0);
      line.cells.push_back(ours(part)), means[k] += part;
    }
    ++all;
    e.rows.push_back(std::move(line));
  }
  for (const char* of : {"tiles", "entries"}) {
    std::vector<std::string> columns;
    for (const char* kind : kinds) columns.push_back(fmt::format("{} {}", of, kind));
    e.charts.push_back(bars_of(e, columns, false));
  }
  note_matrices(e);
  e.limits.emplace_back(
      "The paper draws 2757 matrices and prints no numbers; ours are the 16 of its Table II. Tiles by the "
      "rules of the paper, counted on the host.");
  if (all > 0) {
    for (double& mean : means) mean /= all;
    const bool most = *std::max_element(means.begin(), means.begin() + 7) == means[1];
    judge_ours(e, "COO has the largest part of the tiles", "IV.B",
               {most, fmt::format("mean {:.1f} percent of the tiles", means[1])}, true);
    judge_ours(e, "COO has a smaller part of the entries than of the tiles", "IV.B",
               {means[8] < means[1], fmt::format("{:.1f} percent of the entries", means[8])}, true);
    double sum = 0;
    for (std::size_t k = 7; k < 14; ++k) sum += means[k];
    judge_ours(e, "The tiles hold all entries", "III.B",
               {std::fabs(sum - 100) < 1e-9, fmt::format("{:.6f} percent", sum)}, true);
  }
  return e;
}

// Figures 8 and 9.
Exhibit tile_products(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const Way bsr{"bcsr", {}, lab.device() ? std::string_view("cusparse") : std::string_view()};
  const std::pair<const char*, Way> list[] = {
      {"TileSpMV", deferred}, {"Merge-SpMV", {"merge-csr"}}, {"CSR5", {"csr5"}}, {"BSR", bsr}};
  for (const auto& [name, way] : list) e.columns.push_back({name, "GFLOPS", std::string(way.format), 2});
  int faster[3] = {}, all[3] = {};
  double most[3] = {};
  for (const std::string& name : representatives(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    ExhibitRow line{name, specimen.made, {}};
    std::optional<double> first;
    for (std::size_t k = 0; k < 4; ++k) {
      // Below 1.8 million rows the paper keeps the coordinates in their tiles.
      const Way& way = k == 0 && specimen.csr.nonzeros() < 1800000 ? adaptive : list[k].second;
      const auto speed = lab.gflops(specimen, way);
      line.cells.push_back(ours(speed, refusal(lab.measured(specimen, way))));
      if (k == 0) first = speed;
      if (k > 0 && speed && first)
        ++all[k - 1], faster[k - 1] += *first > *speed, most[k - 1] = std::max(most[k - 1], *first / *speed);
    }
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"TileSpMV", "Merge-SpMV", "CSR5", "BSR"}, false));
  if (entry.id == "s4-figure-8") {
    ExhibitRow part{"TileSpMV is faster, percent of the matrices", {}, {ours({})}},
        gain{"largest gain of TileSpMV", {}, {ours({})}};
    for (int k = 0; k < 3; ++k) {
      const char* const other = list[k + 1].first;
      const auto percent = all[k] > 0 ? std::optional(100.0 * faster[k] / all[k]) : std::nullopt;
      part.cells.push_back(
          stated_cell(lab, e, fmt::format("percent of the matrices faster than {}", other), percent));
      gain.cells.push_back(stated_cell(lab, e, fmt::format("over {}, most", other),
                                       all[k] > 0 ? std::optional(most[k]) : std::nullopt));
    }
    e.rows.push_back(std::move(part)), e.rows.push_back(std::move(gain));
  }
  note_tiles(e, lab);
  e.limits.emplace_back(
      "The blocks of BSR have the size with the fewest bytes; the paper does not print its size.");
  for (int k = 0; k < 3; ++k)
    judge_ours(e,
               fmt::format("TileSpMV is faster than {} on more than half of the matrices", list[k + 1].first),
               "IV.C",
               {all[k] == 0 ? std::optional<bool>() : 2 * faster[k] > all[k],
                fmt::format("{} of {}", faster[k], all[k])});
  return e;
}

// Figure 10.
Exhibit tile_space(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"CSR", "bytes an entry", "csr", 2},
               {"TileSpMV_CSR", "bytes an entry", "tilespmv-csr", 2},
               {"TileSpMV_ADPT", "bytes an entry", "tilespmv-adpt", 2}};
  int adaptive_less = 0, tiles_less = 0, all = 0;
  for (const std::string& name : representatives(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    ExhibitRow line{name, specimen.made, {}};
    double bytes[3] = {};
    int k = 0;
    for (const Way& way : {Way{"csr"}, csr_tiles, adaptive}) {
      const Measured m = lab.counted(specimen, way);
      bytes[k++] = static_cast<double>(m.bytes) / static_cast<double>(specimen.csr.nonzeros());
      line.cells.push_back(ours(m.ok() ? std::optional(bytes[k - 1]) : std::nullopt, refusal(m)));
    }
    ++all, adaptive_less += bytes[2] <= bytes[1] * 1.001, tiles_less += bytes[1] <= bytes[0];
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"CSR", "TileSpMV_CSR", "TileSpMV_ADPT"}, false));
  note_matrices(e);
  e.limits.emplace_back(
      "The paper draws its 150 largest matrices and prints no numbers; ours are the 16 of its Table II.");
  judge_ours(e, "Adaptive tiles take no more space than CSR tiles on most matrices", "IV.D",
             {all == 0 ? std::optional<bool>() : 2 * adaptive_less > all,
              fmt::format("{} of {}", adaptive_less, all)},
             true);
  judge_ours(
      e, "CSR tiles take the same or less space than CSR on most matrices", "IV.D",
      {all == 0 ? std::optional<bool>() : 2 * tiles_less > all, fmt::format("{} of {}", tiles_less, all)},
      true);
  return e;
}

// Figure 11.
Exhibit tile_preprocessing(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  e.columns = {{"preprocessing", "s", "tilespmv-adpt", -1},
               {"product of csr", "s", "csr", -1},
               {"preprocessing", "products", {}, 1}};
  e.columns[2].name = "preprocessing in products";
  double most = 0;
  std::string where;
  for (const std::string& name : representatives(lab)) {
    if (lab.interrupted()) break;
    const Specimen& specimen = lab.matrix(name);
    const Measured m = lab.measured(specimen, adaptive), csr = lab.measured(specimen, {"csr"});
    ExhibitRow line{name, specimen.made, {ours({}, refusal(m)), ours({}, refusal(csr)), ours({})}};
    if (m.ok() && csr.ok()) {
      line.cells[0].ours = m.convert, line.cells[1].ours = csr.product,
      line.cells[2].ours = m.convert / csr.product;
      if (m.convert / csr.product > most) most = m.convert / csr.product, where = name;
    }
    e.rows.push_back(std::move(line));
  }
  e.charts.push_back(bars_of(e, {"preprocessing in products"}, true));
  e.rows.push_back({"most",
                    {},
                    {ours({}), ours({}),
                     stated_cell(lab, e, "preprocessing in serial products, most",
                                 where.empty() ? std::nullopt : std::optional(most))}});
  note_machine(e, lab, "a host of two machines with a Titan RTX and an A100");
  note_matrices(e);
  e.limits.push_back(
      fmt::format("The paper divides by a serial product on a CPU; ours is a product of csr with {}.",
                  lab.device() ? "a GPU" : fmt::format("{} threads", lab.host()->threads())));
  judge_ours(
      e, "Preprocessing costs less than 10 serial products", "IV.E",
      {where.empty() ? std::optional<bool>() : most < 10, fmt::format("most: {:.1f} on {}", most, where)});
  return e;
}

}  // namespace protean::research::exhibits
