// A table or figure of a paper with our numbers next to its own: written to JSON, CSV and pages, and read again.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/report/chart.hpp"

namespace protean::research {
using namespace apps;  // the exhibits are made with parts of the command

struct Cell {
  std::string printed;               // by the paper, to the letter; empty: it prints nothing
  std::optional<double> paper = {};  // `printed` as a number
  std::optional<double> ours = {};   // measured here, or counted from arrays made here
  std::string word = {};             // ours, if it is no number: a format, "never", "refused: ..."

  // Ours over the paper's; nothing if one of them is missing or 0.
  std::optional<double> ratio() const;
};

struct Column {
  std::string name, unit;
  std::string as = {};  // the id of our format, if the column is one
  int digits = -1;      // after the point; -1: four significant ones
};

struct ExhibitRow {
  std::string name;  // as in the paper
  std::string made =
      {};  // what stands for it here: "like:cant, 0.1 of its rows"; empty: the matrix itself, or no matrix
  std::vector<Cell> cells = {};
};

// A statement of a paper about its numbers, judged with ours.
struct Finding {
  std::string statement, where;  // where: section of the paper
  std::optional<bool> holds;     // here; empty: cannot be judged
  std::optional<bool> in_paper;  // by the printed numbers; empty: they are not printed
  std::string evidence;          // the numbers that decided
  bool deterministic = false;    // counted, not timed: the same on each machine
};

// When and where it was measured.
struct Provenance {
  std::string date, commit, version, cpu, gpu, simd, compiler;
  int threads = 0;
  double load = 0;  // mean of the minute before the start
};

struct Exhibit {
  std::string id, paper, title, size, space;
  Provenance provenance;
  double seconds = 0;  // that it took
  std::vector<Column> columns;
  std::vector<ExhibitRow> rows;
  std::vector<Chart> charts;
  std::vector<Finding> findings;
  std::vector<std::string> limits;  // what cannot be compared, a line each

  // The cell of a row and a column by their names; null if there is none.
  const Cell* find(std::string_view row, std::string_view column) const;
  std::optional<double> ours(std::string_view row, std::string_view column) const;
  std::optional<double> printed(std::string_view row, std::string_view column) const;
};

// "holds", "does not hold on this machine", "cannot be judged"
std::string_view verdict(const std::optional<bool>& holds);

// A statement of a paper with its findings in all exhibits of a run: several tables of a paper may show the same
// products, so that one result would be counted for each of them.
struct PaperStatement {
  std::string paper, text, where;
  std::vector<std::pair<const Exhibit*, const Finding*>> findings;

  // It holds if it holds in each exhibit that can judge it.
  std::optional<bool> holds() const;
  std::optional<bool> in_paper() const;
  // "s0-table-5, s0-table-6"
  std::string exhibits() const;
  // What decided, each evidence once: "on 2 of 34; on 0 of 34".
  std::string evidence() const;
};
// In the order in which they are made. They refer to the exhibits.
std::vector<PaperStatement> statements_of(std::span<const Exhibit> exhibits);

std::string exhibit_json(const Exhibit& exhibit);
// Reads what exhibit_json() has written: the same exhibit to the bit. `file` is what messages call the text. Throws
// BadFile.
Exhibit parse_exhibit(std::string_view text, const std::string& file);

}  // namespace protean::research
