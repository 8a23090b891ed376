#include "research/reproduce/write.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/report/output.hpp"
#include "apps/report/progress.hpp"
#include "research/reproduce/entries.hpp"

// The text of apps/report/page.css. The build makes this constant.
namespace protean::apps {
extern const char page_style[];
}

namespace protean::research {

std::string number_text(double value, int digits) {
  if (digits < 0) return fmt::format("{:.4g}", value);
  return fmt::format("{:.{}f}", value, digits);
}

std::string ours_text(const Cell& cell, const Column& column) {
  if (cell.ours) return number_text(*cell.ours, column.digits);
  return cell.word;
}

std::string heading_of(const Column& column) {
  std::string text = column.name;
  if (!column.unit.empty()) text += fmt::format(", {}", column.unit);
  if (!column.as.empty()) text += fmt::format(" [{}]", column.as);
  return text;
}

std::string provenance_text(const Exhibit& e) {
  const Provenance& p = e.provenance;
  std::string text = fmt::format("{}, {}, {} threads ({}), load {:.2f}, protean {}", p.date, p.cpu, p.threads,
                                 p.simd, p.load, p.version);
  if (!p.commit.empty()) text += fmt::format(", commit {}", p.commit);
  if (!p.gpu.empty()) text += fmt::format(", {}", p.gpu);
  return text + fmt::format(", {}; size {}, space {}, {}", p.compiler, e.size, e.space, duration(e.seconds));
}

std::string page_head(const std::string& title, const std::string& explained) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<link rel=\"icon\" "
      "href=\"data:,\">\n<style>\n{}</style>\n</head>\n<body>\n<header><h1>{}</h1>\n<p class=\"soft\">{}</p>"
      "</header>\n",
      escaped(title), page_style, escaped(title), escaped(explained));
}

std::string page_end(std::span<const Exhibit> exhibits) {
  std::string out = "<p class=\"soft\">Papers: ";
  for (const PaperInfo& paper : papers_reproduced())
    if (std::any_of(exhibits.begin(), exhibits.end(), [&](const Exhibit& e) { return e.paper == paper.key; }))
      out += fmt::format("{}: {}. ", paper.key, escaped(std::string(paper.citation)));
  return out + "</p>\n</body>\n</html>\n";
}

namespace {

std::string ratio_text(const Cell& cell) {
  const auto ratio = cell.ratio();
  return ratio ? fmt::format("{:.3g}", *ratio) : std::string();
}

std::string cut(std::string text, std::size_t width) {
  if (text.size() > width) text.resize(width - 2), text += "..";
  return text;
}

std::string judged_in_paper(const Finding& f) {
  if (!f.in_paper) return "the paper states it";
  return *f.in_paper ? "holds for the printed numbers, too" : "does not hold for the printed numbers";
}

}  // namespace

std::string exhibit_text(const Exhibit& e, std::size_t width) {
  std::string text = fmt::format("\n  {} ({}): {}\n  {}\n", e.id, e.paper, e.title, provenance_text(e));
  constexpr std::size_t label = 20, cell = 10, ratio = 7, group = 2 * cell + ratio + 2;
  const std::size_t at_once =
      std::max<std::size_t>(1, (std::max<std::size_t>(width, 60) - label - 2) / group);
  for (std::size_t first = 0; first < e.columns.size() && !e.rows.empty(); first += at_once) {
    const std::size_t end = std::min(first + at_once, e.columns.size());
    text += fmt::format("\n  {:<{}}", "", label);
    for (std::size_t k = first; k < end; ++k)
      text += fmt::format("  {:>{}}", cut(heading_of(e.columns[k]), group - 2), group - 2);
    text += fmt::format("\n  {:<{}}", "", label);
    for (std::size_t k = first; k < end; ++k)
      text += fmt::format("  {:>{}}{:>{}}{:>{}}", "paper", cell, "ours", cell, "ratio", ratio);
    text += "\n";
    for (const ExhibitRow& row : e.rows) {
      text += fmt::format("  {:<{}}", cut(row.name, label), label);
      for (std::size_t k = first; k < end; ++k) {
        const Cell& c = row.cells[k];
        text += fmt::format("  {:>{}}{:>{}}{:>{}}", cut(c.printed, cell - 1), cell,
                            cut(ours_text(c, e.columns[k]), cell - 1), cell, ratio_text(c), ratio);
      }
      text += "\n";
    }
  }
  std::vector<std::string> made;
  for (const ExhibitRow& row : e.rows)
    if (row.made.starts_with("like:") && std::find(made.begin(), made.end(), row.made) == made.end())
      made.push_back(row.made);
  if (!made.empty())
    text += "\n  " + wrapped(fmt::format("Stand-ins: {}", fmt::join(made, "; ")), 4, width - 4) + "\n";
  if (!e.findings.empty()) text += "\n";
  for (const Finding& f : e.findings)
    text += "  " +
            wrapped(fmt::format("{}: {} (section {}; {}; {})", verdict(f.holds), f.statement, f.where,
                                f.evidence.empty() ? "no numbers" : f.evidence, judged_in_paper(f)),
                    4, width - 4) +
            "\n";
  if (!e.limits.empty()) text += "\n";
  for (const std::string& line : e.limits) text += "  " + wrapped(line, 4, width - 4) + "\n";
  return text + "\n";
}

std::string exhibit_csv(const Exhibit& e) {
  const auto quoted = [](const std::string& field) {
    std::string result = "\"";
    for (const char c : field) result += c == '"' ? std::string("\"\"") : std::string(1, c == '\n' ? ' ' : c);
    return result + "\"";
  };
  const auto plain = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.9g}", *value) : std::string();
  };
  std::string out = "id,row,matrix,column,unit,format,printed,paper,ours,ratio,word\n";
  for (const ExhibitRow& row : e.rows)
    for (std::size_t k = 0; k < e.columns.size(); ++k) {
      const Cell& c = row.cells[k];
      out += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", e.id, quoted(row.name), quoted(row.made),
                         quoted(e.columns[k].name), quoted(e.columns[k].unit), e.columns[k].as,
                         quoted(c.printed), plain(c.paper), plain(c.ours), plain(c.ratio()), quoted(c.word));
    }
  return out;
}

namespace {

std::string section(const Exhibit& e) {
  std::string out =
      fmt::format("<section id=\"{}\"><h2>{}: {}</h2>\n<p class=\"soft\">{}. {}</p>\n", escaped(e.id),
                  escaped(e.id), escaped(e.title), escaped(e.paper), escaped(provenance_text(e)));
  for (const Finding& f : e.findings)
    out += fmt::format("<p><b>{}</b>: {} <span class=\"soft\">(section {}; {}; {})</span></p>\n",
                       escaped(std::string(verdict(f.holds))), escaped(f.statement), escaped(f.where),
                       escaped(f.evidence), escaped(judged_in_paper(f)));
  if (!e.limits.empty()) {
    out += "<ul class=\"soft\">";
    for (const std::string& line : e.limits) out += fmt::format("<li>{}</li>", escaped(line));
    out += "</ul>\n";
  }
  for (const Chart& chart : e.charts)
    out +=
        fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n", escaped(chart.title), svg_of(chart));
  if (!e.rows.empty()) {
    out += "<div class=\"scroll\"><table><thead><tr><th></th>";
    for (const Column& column : e.columns)
      out += fmt::format("<th colspan=\"3\">{}</th>", escaped(heading_of(column)));
    out += "</tr><tr><th></th>";
    for (std::size_t k = 0; k < e.columns.size(); ++k) out += "<th>paper</th><th>ours</th><th>ratio</th>";
    out += "</tr></thead><tbody>\n";
    for (const ExhibitRow& row : e.rows) {
      out +=
          fmt::format("<tr><td>{}{}</td>", escaped(row.name),
                      row.made.empty() ? std::string()
                                       : fmt::format(" <span class=\"soft\">{}</span>", escaped(row.made)));
      for (std::size_t k = 0; k < e.columns.size(); ++k) {
        const Cell& c = row.cells[k];
        const std::string here = ours_text(c, e.columns[k]);
        out += fmt::format("<td class=\"soft\">{}</td><td{}>{}</td><td class=\"soft\">{}</td>",
                           escaped(c.printed),
                           here.size() > 24 ? fmt::format(" title=\"{}\"", escaped(here)) : std::string(),
                           escaped(cut(here, 24)), ratio_text(c));
      }
      out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
  }
  return out + "</section>\n";
}

}  // namespace

std::string exhibits_html(std::span<const Exhibit> exhibits) {
  const std::string title = exhibits.size() == 1 ? fmt::format("{}: {}", exhibits[0].id, exhibits[0].title)
                                                 : "Tables and figures of five papers beside this machine";
  std::string out =
      page_head(title,
                "paper: the number that the paper prints. ours: measured or counted by protean in "
                "this run. ratio: ours over the paper's.");
  if (exhibits.size() > 1) {
    out += "<section><h2>Contents</h2><ul class=\"columns\">\n";
    for (const Exhibit& e : exhibits)
      out +=
          fmt::format("<li><a href=\"#{}\">{}</a> {}</li>\n", escaped(e.id), escaped(e.id), escaped(e.title));
    out += "</ul></section>\n";
  }
  for (const Exhibit& e : exhibits) out += section(e);
  return out + page_end(exhibits);
}

std::string exhibits_summary(std::span<const Exhibit> exhibits) {
  std::string out = "# Tables and figures of five papers beside this machine\n\n";
  for (const PaperInfo& paper : papers_reproduced())
    out += fmt::format("- {}: {}.\n", paper.key, paper.citation);
  if (!exhibits.empty()) out += fmt::format("\nThe first: {}.\n", provenance_text(exhibits.front()));
  const std::vector<PaperStatement> statements = statements_of(exhibits);
  int holds = 0, fails = 0, open = 0;
  for (const PaperStatement& one : statements) ++(!one.holds() ? open : *one.holds() ? holds : fails);
  out += fmt::format(
      "\nOf {} distinct findings of the papers {} hold on this machine, {} do not, {} cannot be judged. A "
      "statement that several exhibits judge counts once, and holds where it holds in each of them. Where "
      "all matrices that decide are stand-ins, nothing is judged.\n",
      statements.size(), holds, fails, open);
  out +=
      "\n## Findings\n\n| exhibits | finding | section | verdict | ours | printed numbers "
      "|\n|---|---|---|---|---|---|\n";
  for (const PaperStatement& one : statements)
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", one.exhibits(), one.text, one.where,
                       verdict(one.holds()), one.evidence(),
                       !one.in_paper()   ? "-"
                       : *one.in_paper() ? "hold"
                                         : "do not hold");
  out +=
      "\n## Exhibits\n\nMedian ratio: ours over the paper's, of all cells that have both.\n\n| exhibit | "
      "title | cells with both | median ratio | seconds |\n|---|---|---|---|---|\n";
  for (const Exhibit& e : exhibits) {
    std::vector<double> ratios;
    for (const ExhibitRow& row : e.rows)
      for (const Cell& cell : row.cells)
        if (const auto ratio = cell.ratio()) ratios.push_back(*ratio);
    std::sort(ratios.begin(), ratios.end());
    out += fmt::format("| {} | {} | {} | {} | {:.1f} |\n", e.id, e.title, ratios.size(),
                       ratios.empty() ? std::string("-") : fmt::format("{:.3g}", ratios[ratios.size() / 2]),
                       e.seconds);
  }
  return out;
}

}  // namespace protean::research
