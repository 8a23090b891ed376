#include "research/reproduce/tools.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/command/build_info.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"

namespace protean::research::exhibits {

Exhibit begin(const Entry& entry, const Lab& lab) {
  Exhibit exhibit;
  exhibit.id = entry.id, exhibit.paper = entry.paper, exhibit.title = entry.title;
  exhibit.size = to_string(lab.options().size), exhibit.space = protean::to_string(lab.options().space);
  return exhibit;
}

Cell printed_cell(const PaperTable& table, std::size_t row, std::string_view column) {
  Cell cell;
  cell.printed = table.text(row, column);
  if (cell.printed == "inf") cell.printed = "never";
  cell.paper = table.number(row, column);
  return cell;
}

Cell cell(const PaperTable& table, std::size_t row, std::string_view column, std::optional<double> ours,
          std::string word) {
  Cell cell = printed_cell(table, row, column);
  cell.ours = ours, cell.word = std::move(word);
  return cell;
}

Cell stated_cell(const Lab& lab, const Exhibit& exhibit, std::string_view quantity,
                 std::optional<double> ours, std::string word) {
  const PaperTable& text = lab.papers()["text"];
  Cell cell;
  for (std::size_t row = 0; row < text.rows(); ++row)
    if (text.label(row) == exhibit.id && text.text(row, "quantity") == quantity)
      cell = printed_cell(text, row, "value");
  cell.ours = ours, cell.word = std::move(word);
  return cell;
}

std::string refusal(const Measured& measured) {
  return measured.ok() ? std::string() : "refused: " + measured.why;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? std::nan("") : std::exp(sum / static_cast<double>(values.size()));
}

std::vector<double> box_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    const double place = part * static_cast<double>(values.size() - 1);
    const auto low = static_cast<std::size_t>(place);
    const std::size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
  };
  return {values.front(), at(0.25), at(0.5), at(0.75), values.back()};
}

namespace {

bool is_stand_in(const ExhibitRow& row) { return row.made.starts_with("like:"); }
constexpr std::string_view summary = "like: all ";

// No verdict if all of these rows are stand-ins; otherwise the evidence says how many are.
void heed_stand_ins(Judged& judged, const std::vector<const ExhibitRow*>& rows) {
  std::size_t like = 0;
  for (const ExhibitRow* row : rows) like += is_stand_in(*row);
  if (!judged.holds || like == 0) return;
  if (like < rows.size()) {
    judged.evidence += fmt::format("; {} of {} are stand-ins", like, rows.size());
    return;
  }
  judged.holds.reset();
  judged.evidence = like == 1 && rows.front()->made.starts_with(summary)
                        ? fmt::format("{} are stand-ins: not judged", rows.front()->made.substr(6))
                        : fmt::format("all {} matrices are stand-ins: not judged", like);
}

}  // namespace

void judge(Exhibit& exhibit, std::string statement, std::string where,
           const std::function<Judged(const Numbers&)>& rule, bool deterministic, About about) {
  std::vector<const ExhibitRow*> used;
  Judged here = rule([&](std::string_view row, std::string_view column) {
    const auto value = exhibit.ours(row, column);
    const auto found = std::find_if(exhibit.rows.begin(), exhibit.rows.end(),
                                    [&](const ExhibitRow& one) { return one.name == row; });
    if (value && std::find(used.begin(), used.end(), &*found) == used.end()) used.push_back(&*found);
    return value;
  });
  if (about == About::matrices) heed_stand_ins(here, used);
  const Judged there =
      rule([&](std::string_view row, std::string_view column) { return exhibit.printed(row, column); });
  exhibit.findings.push_back(
      {std::move(statement), std::move(where), here.holds, there.holds, here.evidence, deterministic});
}

void judge_ours(Exhibit& exhibit, std::string statement, std::string where, Judged judged, bool deterministic,
                About about) {
  std::vector<const ExhibitRow*> rows;
  for (const ExhibitRow& row : exhibit.rows)
    if (!row.made.starts_with(summary)) rows.push_back(&row);
  if (rows.empty() && !exhibit.rows.empty())
    rows.push_back(&exhibit.rows.front());  // all are of all matrices
  if (about == About::matrices) heed_stand_ins(judged, rows);
  exhibit.findings.push_back(
      {std::move(statement), std::move(where), judged.holds, {}, judged.evidence, deterministic});
}

std::string made_of_all(const Exhibit& exhibit) {
  const bool all =
      !exhibit.rows.empty() && std::all_of(exhibit.rows.begin(), exhibit.rows.end(), is_stand_in);
  return all ? fmt::format("{}{} matrices", summary, exhibit.rows.size()) : std::string();
}

bool in_part(std::size_t k, double share) {
  // The fractions of multiples of the golden ratio are spread evenly, and so are the fractions of each k-th multiple.
  const double turns = static_cast<double>(k) * 0.6180339887498949;
  return turns - std::floor(turns) < share;
}

void note_machine(Exhibit& exhibit, const Lab& lab, std::string_view theirs) {
  exhibit.limits.push_back(
      fmt::format("The paper measured on {}, ours is {}: ratios compare the machines, too.", theirs,
                  lab.device() ? "another GPU" : fmt::format("a host, {}", machine_info().cpu)));
}

void note_matrices(Exhibit& exhibit) {
  std::size_t like = 0, smaller = 0, all = 0;
  for (const ExhibitRow& row : exhibit.rows) {
    if (row.made.starts_with(summary)) continue;
    ++all;
    like += is_stand_in(row);
    smaller += row.made.find("of its rows") != std::string::npos;
  }
  if (like > 0)
    exhibit.limits.push_back(fmt::format(
        "{} of {} matrices are not there; like:NAME has the printed features of NAME, not its pattern.", like,
        all));
  if (smaller > 0)
    exhibit.limits.push_back(fmt::format("{} of {} matrices have fewer rows than in the paper (size {}).",
                                         smaller, all, exhibit.size));
}

void note_same(Exhibit& exhibit, const Lab& lab, const std::vector<std::pair<std::string_view, Way>>& ways) {
  for (std::size_t i = 0; i < ways.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      const FormatEntry &a = find_format(ways[k].second.format), &b = find_format(ways[i].second.format);
      const auto kernels = kernels_in(b, lab.options().space);
      if (kernels.empty() || !ways[i].second.kernel.empty() || !ways[k].second.kernel.empty() ||
          !ways[i].second.params.all().empty() || !ways[k].second.params.all().empty())
        continue;
      if (detail::same_computation(a, b, kernels.front()))
        exhibit.limits.push_back(fmt::format("{} and {} are the same code on the {}.", ways[k].first,
                                             ways[i].first, protean::to_string(lab.options().space)));
    }
}

Chart bars_of(const Exhibit& exhibit, const std::vector<std::string>& columns, bool log) {
  Chart chart{"bars", exhibit.title, {"", false, false}, {"", log, false}, {}, {}};
  for (const ExhibitRow& row : exhibit.rows) chart.categories.push_back(row.name);
  for (const std::string& name : columns)
    for (const bool paper : {true, false}) {
      Series series{name + (paper ? ", paper" : ""), paper, {}};
      for (std::size_t row = 0; row < exhibit.rows.size(); ++row) {
        const Cell* const cell = exhibit.find(exhibit.rows[row].name, name);
        const auto& value = paper ? cell->paper : cell->ours;
        if (value) series.points.push_back({static_cast<double>(row), *value});
      }
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
  for (const Column& column : exhibit.columns)
    if (std::find(columns.begin(), columns.end(), column.name) != columns.end()) chart.y.label = column.unit;
  return chart;
}

}  // namespace protean::research::exhibits
