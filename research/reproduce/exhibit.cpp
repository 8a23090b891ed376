#include "research/reproduce/exhibit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/report/json.hpp"
#include "core/error.hpp"

namespace protean::research {
namespace {

constexpr int schema = 1, deepest = 16, most_threads = 1 << 20, most_digits = 17;

std::string line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json optional_json(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }
Json optional_json(const std::optional<bool>& value) { return value ? Json(*value) : Json(nullptr); }

template <class T>
std::optional<T> optional_of(const Json& json) {
  if (json.is_null()) return {};
  return json.get<T>();
}

// A whole number from `smallest` to `largest`; get<int>() would convert 1e300, too.
int integer_of(const Json& json, int smallest, int largest) {
  const double value = json.get<double>();
  if (!(value >= smallest && value <= largest) || value != std::floor(value))
    throw BadArgument(
        fmt::format("{} stands where a whole number from {} to {} must be", line(json), smallest, largest));
  return static_cast<int>(value);
}

// It becomes the name of files.
std::string id_of(const Json& json) {
  const std::string id = json.get<std::string>();
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  constexpr std::size_t longest = 60;
  if (id.empty() || id.size() > longest || !std::all_of(id.begin(), id.end(), allowed))
    throw BadArgument(fmt::format("the id is {}; it must be of a to z, 0 to 9 and -, at most {} of them",
                                  line(json), longest));
  return id;
}

Json axis_json(const Axis& axis) { return {{"label", axis.label}, {"log", axis.log}, {"down", axis.down}}; }
Axis axis_of(const Json& json) {
  return {json.at("label").get<std::string>(), json.at("log").get<bool>(), json.at("down").get<bool>()};
}

Json chart_json(const Chart& chart) {
  Json json = {{"kind", chart.kind},      {"title", chart.title},           {"x", axis_json(chart.x)},
               {"y", axis_json(chart.y)}, {"categories", chart.categories}, {"series", Json::array()}};
  for (const Series& series : chart.series)
    json["series"].push_back({{"name", series.name}, {"paper", series.paper}, {"points", series.points}});
  return json;
}

Chart chart_of(const Json& json) {
  Chart chart{json.at("kind").get<std::string>(),
              json.at("title").get<std::string>(),
              axis_of(json.at("x")),
              axis_of(json.at("y")),
              json.at("categories").get<std::vector<std::string>>(),
              {}};
  for (const Json& series : json.at("series"))
    chart.series.push_back({series.at("name").get<std::string>(), series.at("paper").get<bool>(),
                            series.at("points").get<std::vector<std::vector<double>>>()});
  return chart;
}

}  // namespace

std::optional<double> Cell::ratio() const {
  if (!paper || !ours || *paper == 0 || *ours == 0) return {};
  return *ours / *paper;
}

const Cell* Exhibit::find(std::string_view row, std::string_view column) const {
  for (const ExhibitRow& one : rows)
    if (one.name == row)
      for (std::size_t k = 0; k < columns.size() && k < one.cells.size(); ++k)
        if (columns[k].name == column) return &one.cells[k];
  return nullptr;
}
std::optional<double> Exhibit::ours(std::string_view row, std::string_view column) const {
  const Cell* const cell = find(row, column);
  return cell ? cell->ours : std::nullopt;
}
std::optional<double> Exhibit::printed(std::string_view row, std::string_view column) const {
  const Cell* const cell = find(row, column);
  return cell ? cell->paper : std::nullopt;
}

std::string_view verdict(const std::optional<bool>& holds) {
  if (!holds) return "cannot be judged";
  return *holds ? "holds" : "does not hold on this machine";
}

namespace {

// True if all that are known are true.
template <class Member>
std::optional<bool> all_of_known(const PaperStatement& statement, Member member) {
  std::optional<bool> all;
  for (const auto& [exhibit, finding] : statement.findings)
    if (const std::optional<bool>& one = finding->*member) all = all.value_or(true) && *one;
  return all;
}

}  // namespace

std::optional<bool> PaperStatement::holds() const { return all_of_known(*this, &Finding::holds); }
std::optional<bool> PaperStatement::in_paper() const { return all_of_known(*this, &Finding::in_paper); }
std::string PaperStatement::exhibits() const {
  std::string list;
  for (const auto& [exhibit, finding] : findings) list += (list.empty() ? "" : ", ") + exhibit->id;
  return list;
}
std::string PaperStatement::evidence() const {
  std::string list;
  for (auto at = findings.begin(); at != findings.end(); ++at) {
    const std::string& own = at->second->evidence;
    if (own.empty() ||
        std::any_of(findings.begin(), at, [&](const auto& before) { return before.second->evidence == own; }))
      continue;
    list += (list.empty() ? "" : "; ") + own;
  }
  return list;
}

std::vector<PaperStatement> statements_of(std::span<const Exhibit> exhibits) {
  std::vector<PaperStatement> all;
  for (const Exhibit& exhibit : exhibits)
    for (const Finding& finding : exhibit.findings) {
      auto found = std::find_if(all.begin(), all.end(), [&](const PaperStatement& one) {
        return one.paper == exhibit.paper && one.text == finding.statement;
      });
      if (found == all.end())
        found = all.insert(all.end(), {exhibit.paper, finding.statement, finding.where, {}});
      found->findings.emplace_back(&exhibit, &finding);
    }
  return all;
}

std::string exhibit_json(const Exhibit& e) {
  Json json = Json::object();
  json["protean_reproduce"] = schema;
  json["id"] = e.id, json["paper"] = e.paper, json["title"] = e.title;
  json["size"] = e.size, json["space"] = e.space;
  const Provenance& p = e.provenance;
  json["provenance"] = {{"date", p.date},         {"commit", p.commit},   {"version", p.version},
                        {"cpu", p.cpu},           {"gpu", p.gpu},         {"simd", p.simd},
                        {"compiler", p.compiler}, {"threads", p.threads}, {"load", number(p.load)}};
  json["seconds"] = number(e.seconds);
  json["columns"] = Json::array();
  for (const Column& c : e.columns)
    json["columns"].push_back({{"name", c.name}, {"unit", c.unit}, {"as", c.as}, {"digits", c.digits}});
  json["rows"] = Json::array();
  for (const ExhibitRow& row : e.rows) {
    Json cells = Json::array();
    for (const Cell& cell : row.cells)
      cells.push_back({{"printed", cell.printed},
                       {"paper", optional_json(cell.paper)},
                       {"ours", optional_json(cell.ours)},
                       {"word", cell.word}});
    json["rows"].push_back({{"name", row.name}, {"made", row.made}, {"cells", std::move(cells)}});
  }
  json["charts"] = Json::array();
  for (const Chart& chart : e.charts) json["charts"].push_back(chart_json(chart));
  json["findings"] = Json::array();
  for (const Finding& f : e.findings)
    json["findings"].push_back({{"statement", f.statement},
                                {"where", f.where},
                                {"holds", optional_json(f.holds)},
                                {"in_paper", optional_json(f.in_paper)},
                                {"evidence", f.evidence},
                                {"deterministic", f.deterministic}});
  json["limits"] = e.limits;
  // A line for each key and for each row: files that differ can be compared.
  std::string out = "{\n";
  for (const auto& [key, value] : json.items()) {
    if (out.size() > 2) out += ",\n";
    out += Json(key).dump() + ": ";
    if (key != "rows") {
      out += line(value);
      continue;
    }
    out += "[";
    for (const Json& row : value) out += (out.back() == '[' ? "\n" : ",\n") + line(row);
    out += "]";
  }
  return out + "\n}\n";
}

Exhibit parse_exhibit(std::string_view text, const std::string& file) {
  const auto bad = [&](std::string what) {
    // The parser shows what it has read last, each line break as nine characters.
    constexpr std::size_t most = 400;
    if (what.size() > most) {
      std::size_t end = most;
      while (end > 0 && (static_cast<unsigned char>(what[end]) & 0xC0) == 0x80) --end;  // whole characters
      what = what.substr(0, end) + " ...";
    }
    return BadFile(file, 0, 0,
                   fmt::format("{}; give a JSON file that `protean reproduce` has written", what));
  };
  try {
    // A value nested deeper than our deepest one would be released, and shown in messages, by an equally deep
    // recursion.
    const Json json = Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
      if (depth > deepest) throw bad(fmt::format("it is nested deeper than {} levels", deepest));
      return true;
    });
    if (!json.is_object() || !json.contains("protean_reproduce"))
      throw bad("it has no key protean_reproduce");
    if (json.at("protean_reproduce") != schema)
      throw bad(fmt::format("its version is {}, and this build reads version {}",
                            json.at("protean_reproduce").dump(), schema));
    Exhibit e;
    e.id = id_of(json.at("id")), e.paper = json.at("paper").get<std::string>();
    e.title = json.at("title").get<std::string>();
    e.size = json.at("size").get<std::string>(), e.space = json.at("space").get<std::string>();
    const Json& p = json.at("provenance");
    for (const auto& [key, member] : {std::pair{"date", &Provenance::date},
                                      {"commit", &Provenance::commit},
                                      {"version", &Provenance::version},
                                      {"cpu", &Provenance::cpu},
                                      {"gpu", &Provenance::gpu},
                                      {"simd", &Provenance::simd},
                                      {"compiler", &Provenance::compiler}})
      e.provenance.*member = p.at(key).get<std::string>();
    e.provenance.threads = integer_of(p.at("threads"), 0, most_threads);
    e.provenance.load = optional_of<double>(p.at("load")).value_or(0);
    e.seconds = optional_of<double>(json.at("seconds")).value_or(0);
    for (const Json& c : json.at("columns"))
      e.columns.push_back({c.at("name").get<std::string>(), c.at("unit").get<std::string>(),
                           c.at("as").get<std::string>(), integer_of(c.at("digits"), -1, most_digits)});
    for (const Json& r : json.at("rows")) {
      ExhibitRow row{r.at("name").get<std::string>(), r.at("made").get<std::string>(), {}};
      for (const Json& c : r.at("cells"))
        row.cells.push_back({c.at("printed").get<std::string>(), optional_of<double>(c.at("paper")),
                             optional_of<double>(c.at("ours")), c.at("word").get<std::string>()});
      if (row.cells.size() != e.columns.size())
        throw bad(fmt::format("row '{}' has {} cells, but there are {} columns", row.name, row.cells.size(),
                              e.columns.size()));
      e.rows.push_back(std::move(row));
    }
    for (const Json& chart : json.at("charts")) {
      e.charts.push_back(chart_of(chart));
      (void)svg_of(e.charts.back());  // refuses points that it cannot draw
    }
    for (const Json& f : json.at("findings"))
      e.findings.push_back({f.at("statement").get<std::string>(), f.at("where").get<std::string>(),
                            optional_of<bool>(f.at("holds")), optional_of<bool>(f.at("in_paper")),
                            f.at("evidence").get<std::string>(), f.at("deterministic").get<bool>()});
    e.limits = json.at("limits").get<std::vector<std::string>>();
    return e;
  } catch (const Json::exception& error) { throw bad(error.what()); } catch (const BadArgument& error) {
    throw bad(error.what());
  }
}

}  // namespace protean::research
