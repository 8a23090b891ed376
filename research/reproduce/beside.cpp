// Two runs of `protean reproduce` on one page.
#include <fmt/format.h>

#include <algorithm>

#include "apps/report/output.hpp"
#include "research/reproduce/entries.hpp"
#include "research/reproduce/write.hpp"

namespace protean::research {
namespace {

// An exhibit of either run; null if a run has none.
struct Pair {
  const Exhibit *first = nullptr, *second = nullptr;
  const Exhibit& any() const { return first ? *first : *second; }
};

// In the order of the list.
std::vector<Pair> pairs_of(const TwoRuns& runs) {
  std::vector<Pair> pairs;
  const auto in = [](std::span<const Exhibit> run, std::string_view id) -> const Exhibit* {
    const auto found = std::find_if(run.begin(), run.end(), [&](const Exhibit& e) { return e.id == id; });
    return found == run.end() ? nullptr : &*found;
  };
  for (const Entry& entry : entries()) {
    const Pair pair{in(runs.first, entry.id), in(runs.second, entry.id)};
    if (pair.first || pair.second) pairs.push_back(pair);
  }
  return pairs;
}

// "host" and "device", or what distinguishes two runs in the same space.
std::string name_of(const TwoRuns& runs, bool second) {
  const auto space = [](std::span<const Exhibit> run) { return run.empty() ? "" : run.front().space; };
  const std::string one = space(runs.first), other = space(runs.second);
  if (one != other) return second ? other : one;
  return fmt::format("{}, {} run", one, second ? "second" : "first");
}

const Cell* cell_of(const Exhibit* exhibit, std::string_view row, std::string_view column) {
  return exhibit ? exhibit->find(row, column) : nullptr;
}

// The names of both in the order of the first; names of the second alone come after them.
template <class List, class Name>
std::vector<std::string> names_of(const List* first, const List* second, Name name) {
  std::vector<std::string> names;
  for (const List* list : {first, second})
    if (list)
      for (const auto& item : *list)
        if (std::find(names.begin(), names.end(), name(item)) == names.end()) names.push_back(name(item));
  return names;
}

std::string table_of(const Pair& pair, const std::string& one, const std::string& other) {
  const auto names = [&](auto member, auto name) {
    return names_of(pair.first ? &(pair.first->*member) : nullptr,
                    pair.second ? &(pair.second->*member) : nullptr, name);
  };
  const auto rows = names(&Exhibit::rows, [](const ExhibitRow& row) { return row.name; });
  const auto columns = names(&Exhibit::columns, [](const Column& column) { return column.name; });
  if (rows.empty() || columns.empty()) return {};
  const auto column_in = [](const Exhibit* e, std::string_view name) -> const Column* {
    if (!e) return nullptr;
    const auto found =
        std::find_if(e->columns.begin(), e->columns.end(), [&](const Column& c) { return c.name == name; });
    return found == e->columns.end() ? nullptr : &*found;
  };
  std::string out = "<div class=\"scroll\"><table><thead><tr><th></th>";
  for (const std::string& name : columns) {
    const Column* column = column_in(pair.first, name);
    if (!column) column = column_in(pair.second, name);
    out += fmt::format("<th colspan=\"4\">{}</th>", escaped(heading_of(*column)));
  }
  out += "</tr><tr><th></th>";
  for (std::size_t k = 0; k < columns.size(); ++k)
    out += fmt::format("<th>paper</th><th>{}</th><th>{}</th><th>ratio</th>", escaped(one), escaped(other));
  out += "</tr></thead><tbody>\n";
  for (const std::string& row : rows) {
    out += fmt::format("<tr><td>{}</td>", escaped(row));
    for (const std::string& name : columns) {
      const Cell *const a = cell_of(pair.first, row, name), *const b = cell_of(pair.second, row, name);
      const auto text = [&](const Cell* cell, const Exhibit* e) {
        if (!cell) return std::string("<td></td>");
        const std::string whole = ours_text(*cell, *column_in(e, name));
        const std::string shown = whole.size() > 24 ? whole.substr(0, 22) + ".." : whole;
        return fmt::format("<td{}>{}</td>",
                           shown == whole ? std::string() : fmt::format(" title=\"{}\"", escaped(whole)),
                           escaped(shown));
      };
      const std::string printed = a && !a->printed.empty() ? a->printed : b ? b->printed : std::string();
      const bool both = a && b && a->ours && b->ours && *a->ours != 0;
      out += fmt::format("<td class=\"soft\">{}</td>{}{}<td class=\"soft\">{}</td>", escaped(printed),
                         text(a, pair.first), text(b, pair.second),
                         both ? fmt::format("{:.3g}", *b->ours / *a->ours) : std::string());
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::vector<std::string> statements_in(const Pair& pair) {
  return names_of(pair.first ? &pair.first->findings : nullptr,
                  pair.second ? &pair.second->findings : nullptr,
                  [](const Finding& finding) { return finding.statement; });
}
const Finding* finding_in(const Exhibit* e, const std::string& statement) {
  if (!e) return nullptr;
  const auto found = std::find_if(e->findings.begin(), e->findings.end(),
                                  [&](const Finding& finding) { return finding.statement == statement; });
  return found == e->findings.end() ? nullptr : &*found;
}
std::string verdict_in(const Exhibit* e, const std::string& statement) {
  const Finding* const finding = finding_in(e, statement);
  if (!finding) return "-";
  return finding->evidence.empty() ? std::string(verdict(finding->holds))
                                   : fmt::format("{}: {}", verdict(finding->holds), finding->evidence);
}

}  // namespace

std::string beside_html(const TwoRuns& runs) {
  const std::string one = name_of(runs, false), other = name_of(runs, true);
  std::string out = page_head(
      fmt::format("Tables and figures of five papers: {} and {}", one, other),
      fmt::format("paper: the number that the paper prints. {}, {}: measured or counted by protean in "
                  "these runs. ratio: {} over {}.",
                  one, other, other, one));
  const std::vector<Pair> pairs = pairs_of(runs);
  out += "<section><h2>Contents</h2><ul class=\"columns\">\n";
  for (const Pair& pair : pairs)
    out += fmt::format("<li><a href=\"#{0}\">{0}</a> {1}</li>\n", escaped(pair.any().id),
                       escaped(pair.any().title));
  out += "</ul></section>\n";
  for (const Pair& pair : pairs) {
    out += fmt::format("<section id=\"{0}\"><h2>{0}: {1}</h2>\n", escaped(pair.any().id),
                       escaped(pair.any().title));
    for (const Exhibit* e : {pair.first, pair.second})
      if (e)
        out += fmt::format("<p class=\"soft\">{}: {}</p>\n", e == pair.first ? escaped(one) : escaped(other),
                           escaped(provenance_text(*e)));
    for (const std::string& statement : statements_in(pair))
      out += fmt::format("<p><b>{}</b> <span class=\"soft\">{}: {}. {}: {}</span></p>\n", escaped(statement),
                         escaped(one), escaped(verdict_in(pair.first, statement)), escaped(other),
                         escaped(verdict_in(pair.second, statement)));
    for (const Exhibit* e : {pair.first, pair.second})
      if (e)
        for (const Chart& chart : e->charts)
          out += fmt::format("<figure><figcaption>{}: {}</figcaption>{}</figure>\n",
                             e == pair.first ? escaped(one) : escaped(other), escaped(chart.title),
                             svg_of(chart));
    out += table_of(pair, one, other) + "</section>\n";
  }
  std::vector<Exhibit> all(runs.first.begin(), runs.first.end());
  all.insert(all.end(), runs.second.begin(), runs.second.end());
  return out + page_end(all);
}

std::string beside_summary(const TwoRuns& runs) {
  const std::string one = name_of(runs, false), other = name_of(runs, true);
  std::string out = fmt::format("# Tables and figures of five papers: {} and {}\n\n", one, other);
  for (const auto& [name, run] : {std::pair{one, runs.first}, {other, runs.second}})
    if (!run.empty()) out += fmt::format("- {}, the first: {}.\n", name, provenance_text(run.front()));
  const std::vector<PaperStatement> in_first = statements_of(runs.first),
                                    in_second = statements_of(runs.second);
  // The ones of the first run in its order; the ones that only the second has come behind.
  std::vector<std::pair<const PaperStatement*, const PaperStatement*>> all;
  for (const PaperStatement& its : in_first) all.emplace_back(&its, nullptr);
  for (const PaperStatement& its : in_second) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const auto& two) {
      return two.first && two.first->paper == its.paper && two.first->text == its.text;
    });
    if (same == all.end())
      all.emplace_back(nullptr, &its);
    else
      same->second = &its;
  }
  const auto told = [](const PaperStatement* its) {
    if (!its) return std::string("-");
    const std::string evidence = its->evidence();
    return evidence.empty() ? std::string(verdict(its->holds()))
                            : fmt::format("{}: {}", verdict(its->holds()), evidence);
  };
  int both = 0, neither = 0, only_first = 0, only_second = 0, open = 0;
  std::string table;
  for (const auto& [a, b] : all) {
    if (!a || !b || !a->holds() || !b->holds())
      ++open;
    else
      ++(*a->holds() ? (*b->holds() ? both : only_first) : *b->holds() ? only_second : neither);
    const PaperStatement& any = a ? *a : *b;
    table += fmt::format("| {} | {} | {} | {} |\n", any.exhibits(), any.text, told(a), told(b));
  }
  out += fmt::format(
      "\nOf {} distinct findings {} hold in both runs, {} in neither, {} only in {}, {} only in {}; {} "
      "cannot be judged in one of them.\n\n| exhibits | finding | {} | {} |\n|---|---|---|---|\n{}",
      both + neither + only_first + only_second + open, both, neither, only_first, one, only_second, other,
      open, one, other, table);
  return out;
}

}  // namespace protean::research
