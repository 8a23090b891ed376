// Exhibits of the paper of csr_gpu.cpp about its matrices, and counters of the GPU.
#include <fmt/format.h>

#include <cmath>

#include "research/reproduce/tools.hpp"

namespace protean::research::exhibits {

Exhibit csr_matrices(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s1-table-1"];
  e.columns = {{"dimRow", "rows", {}, 0},
               {"nnz", "entries", {}, 0},
               {"avg", "entries", {}, 1},
               {"std. dev.", "entries", {}, 2}};
  for (std::size_t row = 0; row < table.rows() && !lab.interrupted(); ++row) {
    const Specimen& specimen = lab.matrix(table.label(row));
    const Statistics& s = specimen.statistics;
    e.rows.push_back({table.label(row),
                      specimen.made,
                      {cell(table, row, "dimRow", static_cast<double>(s.rows)),
                       cell(table, row, "nnz", static_cast<double>(s.nonzeros)),
                       cell(table, row, "avg", s.mean), cell(table, row, "std. dev.", s.deviation)}});
  }
  note_matrices(e);
  e.limits.emplace_back(
      "Of pdb1HYS the paper prints a mean of 60.2, and nnz / dimRow is 119.3; nnz is taken.");
  judge(
      e, "The printed mean is nnz / dimRow within 3 percent on 13 of 15 matrices or more", "5",
      [&](const Numbers& n) -> Judged {
        int good = 0, all = 0;
        for (const ExhibitRow& row : e.rows) {
          const auto rows = n(row.name, "dimRow"), nnz = n(row.name, "nnz"), avg = n(row.name, "avg");
          if (!rows || !nnz || !avg) continue;
          ++all, good += std::fabs(*avg * *rows / *nnz - 1) <= 0.03;
        }
        if (all == 0) return {};
        return {good * 15 >= 13 * all, fmt::format("{} of {}", good, all)};
      },
      true);
  return e;
}

Exhibit csr_counters(Lab& lab, const Entry& entry) {
  Exhibit e = begin(entry, lab);
  const PaperTable& table = lab.papers()["s1-table-2"];
  for (std::size_t k = 1; k < table.columns().size(); ++k)
    e.columns.push_back({table.columns()[k], "percent", {}, 1});
  for (std::size_t row = 0; row < table.rows(); ++row) {
    ExhibitRow line{table.label(row), {}, {}};
    for (const Column& column : e.columns) line.cells.push_back(printed_cell(table, row, column.name));
    e.rows.push_back(std::move(line));
  }
  e.limits.emplace_back(
      "Not measured: hit rates and divergence are counters of a GPU that only a profiler may read (ncu "
      "--metrics l1tex__t_sector_hit_rate.pct,smsp__thread_inst_executed_per_inst_executed.ratio of `protean "
      "solve` with operator: {format: csr, kernel: cooperative, parameters: {T: N}}).");
  return e;
}

}  // namespace protean::research::exhibits
