#include "apps/compare/compare_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/command/build_info.hpp"
#include "apps/compare/suite_json.hpp"
#include "apps/report/csv.hpp"
#include "apps/report/json.hpp"
#include "apps/report/progress.hpp"
#include "core/error.hpp"
#include "formats/catalogue.hpp"

namespace protean::apps {
namespace {

double copy_rate(const Comparison& c, Space space) { return c.copy_bandwidth[space == Space::device]; }

// The fewest bytes that one product in this format can move: the matrix, x once, y once.
double moved_bytes(const Comparison& c, const Variant& v) {
  return static_cast<double>(v.matrix_bytes) + 16.0 * static_cast<double>(c.rows);
}

double flops(const Comparison& c, const Variant& v) {
  return 2.0 * static_cast<double>(c.nonzeros) / v.product.median;
}

// A matrix without entries has nothing to divide by; it gives the total.
double per_nonzero(const Comparison& c, double total) {
  return total / static_cast<double>(std::max<std::int64_t>(c.nonzeros, 1));
}

double padding(const Comparison& c, const Variant& v) {
  return per_nonzero(c, static_cast<double>(v.stored_values - c.nonzeros));
}

bool two_spaces(const Comparison& c) {
  return std::any_of(c.variants.begin(), c.variants.end(),
                     [&](const Variant& v) { return v.space != c.variants.front().space; });
}

Json timing_json(const Timing& t) {
  return {{"median", t.median}, {"lower_quartile", t.lower}, {"upper_quartile", t.upper}, {"runs", t.runs}};
}

// Against which the others are compared.
bool is_reference(const Variant& v) { return v.format == "csr" && v.kernel == "native"; }

Json variant_json(const Comparison& c, const Variant& v) {
  Json json = Json::object();
  json["format"] = v.format, json["kernel"] = v.kernel, json["space"] = to_string(v.space);
  json["parameters"] = parameters_json(v.parameters);
  json["deterministic"] = v.deterministic;
  json["status"] = v.status;
  if (!v.not_run.empty()) json["not_run"] = v.not_run;
  if (!v.stands_for.empty()) json["stands_for"] = v.stands_for;
  if (!v.why.empty()) json["why"] = v.reported_why();
  json["predicted_bytes"] = v.predicted_bytes;
  if (v.cut())
    json["measured"] = {
        {"convert", v.convert.median},
        {"per_product", v.product.median},
        {"timing", {{"convert", timing_json(v.convert)}, {"product", timing_json(v.product)}}}};
  if (!v.ran()) return json;
  json["matrix_bytes"] = v.matrix_bytes;
  json["bytes_per_nonzero"] = per_nonzero(c, static_cast<double>(v.matrix_bytes));
  json["stored_values"] = v.stored_values;
  json["padding"] = padding(c, v);
  json["iterations"] = v.iterations, json["steps"] = v.steps;
  json["residual"] = {{"norm", norm_name(c.problem.settings.solver)},
                      {"true_relative", number(v.true_relative)}};
  json["seconds"] = {{"convert", v.convert.median},     {"setup", v.setup.median},
                     {"per_product", v.product.median}, {"per_iteration", v.per_iteration()},
                     {"solve", v.solve.median},         {"total", v.total()}};
  json["timing"] = {{"convert", timing_json(v.convert)},
                    {"setup", timing_json(v.setup)},
                    {"product", timing_json(v.product)},
                    {"solve", timing_json(v.solve)}};
  json["convert_products"] = v.convert.median / v.product.median;
  json["gflops"] = flops(c, v) / 1e9;
  const double copied = copy_rate(c, v.space);
  json["bandwidth"] = {{"moved", moved_bytes(c, v) / v.product.median},
                       {"effective", effective_bytes(c.rows, c.nonzeros) / v.product.median},
                       {"minimum", minimum_bytes(c.rows, c.nonzeros) / v.product.median}};
  if (v.space == Space::device && c.lines_of_x >= 0)
    json["bandwidth"]["caching"] = caching_bytes(c.rows, c.nonzeros, c.lines_of_x) / v.product.median;
  if (copied > 0) json["copy_fraction"] = moved_bytes(c, v) / v.product.median / copied;
  json["break_even_iterations"] = v.break_even ? Json(*v.break_even) : Json(nullptr);
  json["break_even_clear"] = is_reference(v) || v.product_differs;
  if (v.to_csr)
    json["against_csr"] = {{"seconds_saved", v.to_csr->seconds},
                           {"explained_by_products", v.to_csr->explained},
                           {"clear", v.to_csr->clear}};
  return json;
}

Json key(const Comparison& c, int index) {
  if (index < 0) return nullptr;
  const Variant& v = c.variants[static_cast<std::size_t>(index)];
  return {{"format", v.format}, {"kernel", v.kernel}, {"space", to_string(v.space)}, {"seconds", v.total()}};
}

std::string title(const Comparison& c) { return title_of(c.problem); }

Json comparison_json(const Comparison& c) {
  Json json = Json::object();
  json["title"] = title(c);
  json["matrix"] = {{"rows", c.rows}, {"cols", c.rows}, {"nonzeros", c.nonzeros}};
  json["rhs"] = {{"given", c.problem.rhs.given}, {"text", rhs_text(c.problem.rhs)}};
  json["copy_bandwidth"] = Json::object();
  for (const Space space : {Space::host, Space::device})
    if (copy_rate(c, space) > 0) json["copy_bandwidth"][std::string(to_string(space))] = copy_rate(c, space);
  for (const MeasuredRoof& roof : c.roofs)
    if (roof.memory > 0) {
      Json& its = json["roofs"][std::string(to_string(roof.space))];
      its = {{"memory", roof.memory}};
      if (roof.cache > 0) its["cache"] = roof.cache, its["cache_bytes"] = roof.cache_bytes;
    }
  json["product_bytes"] = {{"effective", effective_bytes(c.rows, c.nonzeros)},
                           {"worst_case", worst_bytes(c.rows, c.nonzeros)},
                           {"minimum", minimum_bytes(c.rows, c.nonzeros)}};
  if (c.lines_of_x >= 0) json["product_bytes"]["caching"] = caching_bytes(c.rows, c.nonzeros, c.lines_of_x);
  json["results"] = Json::array();
  for (const Variant& v : c.variants) json["results"].push_back(variant_json(c, v));
  json["best"] = key(c, c.best);
  if (c.best >= 0) json["best"]["no_clear_difference"] = Json::array();
  for (const int tie : c.ties) json["best"]["no_clear_difference"].push_back(key(c, tie));
  json["ranking"] = Json::array();
  for (const int index : c.ranking) {
    const Variant& v = c.variants[static_cast<std::size_t>(index)];
    json["ranking"].push_back({{"format", v.format},
                               {"kernel", v.kernel},
                               {"space", to_string(v.space)},
                               {"by", v.ran() ? "total" : "product"},
                               {"seconds", v.ran() ? v.total() : v.product.median}});
  }
  json["auto"] = key(c, c.automatic);
  if (!c.automatic_reason.empty()) json["auto"]["reason"] = c.automatic_reason;
  if (!c.selectors.empty()) json["selectors"] = selectors_json(c.selectors);
  if (!c.notes.empty()) json["notes"] = c.notes;
  if (c.interrupted) json["interrupted"] = true;
  if (c.out_of_time) json["out_of_time"] = true;
  json["seconds"] = {{"read", c.read_seconds}};
  json["machine"] = machine_json(c.threads);
  json["problem"] = problem_json(c.problem);
  return json;
}

// JSON that may stand inside a <script> element.
std::string embedded(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace))
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

double rounded(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10.0, digits - 1 - static_cast<int>(std::floor(std::log10(std::fabs(value)))));
  return std::round(value * unit) / unit;
}

std::string_view family_of(std::string_view id) {
  for (const FormatEntry* entry : catalogue())
    if (entry->id == id) return entry->family;
  return "";
}

// The data of the page, as small as possible: an object for each variant that ran, [name, status, why] for
// the others.
Json page_json(const Comparison& c, std::size_t points) {
  const bool spaces = two_spaces(c);
  Json json = Json::object();
  json["title"] = title(c);
  json["rows"] = c.rows, json["nnz"] = c.nonzeros;
  json["method"] = c.problem.settings.method.name();
  json["rhs"] = rhs_text(c.problem.rhs);
  json["tolerance"] = c.problem.settings.solver.stopping.relative_tolerance;
  json["threads"] = c.threads;
  json["copy"] = {rounded(c.copy_bandwidth[0], 4), rounded(c.copy_bandwidth[1], 4)};
  // [bytes a second, what it is]
  json["roofs"] = Json::array();
  const auto add_roof = [&](double bandwidth, Space space, const char* what) {
    if (bandwidth > 0)
      json["roofs"].push_back(
          {rounded(bandwidth, 4), spaces ? fmt::format("{}, {}", what, to_string(space)) : what});
  };
  for (const Space space : {Space::host, Space::device}) {
    const MeasuredRoof& roof = c.roofs[space == Space::device];
    add_roof(copy_rate(c, space), space, "copy in this run");
    add_roof(roof.memory, space, "memory");
    add_roof(roof.cache, space, "last-level cache");
  }
  json["best"] = c.best, json["auto"] = c.automatic, json["ties"] = c.ties;
  json["reason"] = c.automatic_reason;
  json["notes"] = c.notes;
  json["lines"] = c.lines_of_x;
  json["runs"] = Json::array(), json["cut"] = Json::array(), json["others"] = Json::array();
  for (std::size_t i = 0; i < c.variants.size(); ++i) {
    const Variant& v = c.variants[i];
    if (v.not_in_build) continue;
    if (!v.ran()) {
      if (v.cut())
        json["cut"].push_back(
            {v.name(spaces), rounded(v.product.median, 4), rounded(v.convert.median, 4), v.why});
      else
        json["others"].push_back({v.name(spaces), v.shown_status(), v.why});
      continue;
    }
    Json curve = Json::array();
    const std::size_t count = v.history.size(), kept = std::min(points, count);
    for (std::size_t k = 0; k < kept; ++k) {
      const HistoryPoint& point = v.history[kept > 1 ? k * (count - 1) / (kept - 1) : count - 1];
      curve.push_back({rounded(point.seconds, 3), rounded(point.relative_residual, 3)});
    }
    json["runs"].push_back({{"i", i},
                            {"name", v.name(spaces)},
                            {"family", family_of(v.format)},
                            {"space", v.space == Space::device ? 1 : 0},
                            {"ok", v.status == "converged"},
                            {"why", v.why},
                            {"bpn", rounded(per_nonzero(c, static_cast<double>(v.matrix_bytes)), 4)},
                            {"predicted", rounded(per_nonzero(c, static_cast<double>(v.predicted_bytes)), 4)},
                            {"stored", v.stored_values},
                            {"pad", rounded(padding(c, v), 3)},
                            {"convert", rounded(v.convert.median, 4)},
                            {"setup", rounded(v.setup.median, 3)},
                            {"product", rounded(v.product.median, 4)},
                            {"spread", rounded(v.product.spread(), 2)},
                            {"moved", rounded(moved_bytes(c, v), 5)},
                            {"iterations", v.iterations},
                            {"residual", rounded(v.true_relative, 3)},
                            {"solve", rounded(v.solve.median, 4)},
                            {"even", v.break_even ? Json(rounded(*v.break_even, 3)) : Json(nullptr)},
                            {"clear", is_reference(v) || v.product_differs},
                            {"saved", v.to_csr ? Json(v.to_csr->clear) : Json(nullptr)},
                            {"det", v.deterministic},
                            {"curve", std::move(curve)}});
  }
  return json;
}

// "; machine table: memory 12 GB/s, last-level cache 40 GB/s"
std::string roofs_text(const MeasuredRoof& roof) {
  if (roof.memory <= 0) return {};
  std::string text = fmt::format("; machine table: memory {:.4g} GB/s", roof.memory / 1e9);
  if (roof.cache > 0) text += fmt::format(", last-level cache {:.4g} GB/s", roof.cache / 1e9);
  return text;
}

std::string break_even_text(const Variant& v) {
  if (is_reference(v)) return "-";
  if (!v.product_differs) return "unclear";
  if (!v.break_even) return "never";
  return *v.break_even > 1e6 ? "> 1e6" : fmt::format("{:.0f}", std::ceil(*v.break_even));
}

// Of solves that the budget or an interrupt has left out or ended; the fastest product first.
std::string cut_table(const Comparison& c, bool spaces) {
  std::string text;
  for (const int index : c.ranking) {
    const Variant& v = c.variants[static_cast<std::size_t>(index)];
    if (!v.cut()) continue;
    if (text.empty())
      text = fmt::format("\n  not solved to the end, the fastest product first:\n  {:<22} {:>9} {:>10}  {}\n",
                         "format", "convert", "product", "not run");
    text += fmt::format("  {:<22} {:>9} {:>10}  {}\n", v.name(spaces), duration(v.convert.median),
                        duration(v.product.median), v.why);
  }
  return text;
}

// "; csr takes 1.62 times as long", if csr was solved in the same space.
std::string csr_text(const Comparison& c, const Variant& best) {
  if (is_reference(best) || !best.to_csr) return {};
  if (!best.to_csr->clear) return "; no clear difference from csr";
  for (const Variant& v : c.variants) {
    if (!is_reference(v) || v.space != best.space) continue;
    const Difference& d = *best.to_csr;
    std::string text = fmt::format("; csr takes {:.2f} times as long", v.total() / best.total());
    if (d.explained < d.seconds / 2)
      text += fmt::format(" ({} longer, of which conversion and products explain {})", duration(d.seconds),
                          duration(std::max(d.explained, 0.0)));
    return text;
  }
  return {};
}

std::string verdict_text(const Comparison& c) {
  if (c.ranking.empty()) return {};
  const Variant& first = c.variants[static_cast<std::size_t>(c.ranking.front())];
  if (c.best < 0)
    return fmt::format("  best: no solve was finished; the fastest product has {}, {}\n", first.name(true),
                       duration(first.product.median));
  std::string text =
      fmt::format("  best: {}, {} in all{}", first.name(true), duration(first.total()), csr_text(c, first));
  if (c.automatic >= 0 && c.variants[static_cast<std::size_t>(c.automatic)].status == "converged") {
    const Variant& chosen = c.variants[static_cast<std::size_t>(c.automatic)];
    const bool tie = std::find(c.ties.begin(), c.ties.end(), c.automatic) != c.ties.end();
    text += fmt::format(
        "; `format: auto` takes {} ({})", chosen.name(true),
        tie ? "no clear difference" : fmt::format("{:.2f} times that", chosen.total() / first.total()));
  }
  std::vector<std::string> ties;
  for (const int tie : c.ties) ties.push_back(c.variants[static_cast<std::size_t>(tie)].name(true));
  if (!ties.empty())
    text += fmt::format("\n  no clear difference between {} and {}: repeated measurements differ by as much",
                        first.name(true), fmt::join(ties, ", "));
  return text + "\n";
}

}  // namespace

// The text of apps/compare/compare.html. The build makes this constant.
extern const char compare_page[];

std::string compare_table(const Comparison& c) {
  const bool spaces = two_spaces(c);
  std::string text = fmt::format(
      "\n  {}: {} rows, {} nonzeros; {}, preconditioner {}, relative tolerance {:g}, {} {}\n", title(c),
      grouped(c.rows), grouped(c.nonzeros), c.problem.settings.method.name(),
      preconditioner_type(c.problem.settings), c.problem.settings.solver.stopping.relative_tolerance,
      c.threads, c.threads == 1 ? "thread" : "threads");
  text += fmt::format("  rhs: {}\n", rhs_text(c.problem.rhs));
  for (const Space space : {Space::host, Space::device})
    if (copy_rate(c, space) > 0)
      text += fmt::format("  copy bandwidth, {}: {:.4g} GB/s{}\n", to_string(space),
                          copy_rate(c, space) / 1e9, roofs_text(c.roofs[space == Space::device]));
  for (const std::string& note : c.notes) text += fmt::format("  note: {}\n", note);
  text +=
      fmt::format("\n  {:<22} {:>7} {:>9} {:>10} {:>7} {:>6} {:>6} {:>9} {:>9} {:>10}\n", "format", "B/nnz",
                  "convert", "product", "GFLOPS", "% copy", "iter.", "solve", "total", "break-even");
  std::vector<const Variant*> ran;
  for (const Variant& v : c.variants)
    if (v.ran()) ran.push_back(&v);
  std::stable_sort(ran.begin(), ran.end(), [](const Variant* a, const Variant* b) {
    const bool good_a = a->status == "converged", good_b = b->status == "converged";
    return good_a != good_b ? good_a : a->total() < b->total();
  });
  for (const Variant* v : ran) {
    const double rate = copy_rate(c, v->space);
    text += fmt::format("  {:<22} {:>7.2f} {:>9} {:>10} {:>7.2f} {:>6.1f} {:>6} {:>9} {:>9} {:>10}{}\n",
                        v->name(spaces), per_nonzero(c, static_cast<double>(v->matrix_bytes)),
                        duration(v->convert.median), duration(v->product.median), flops(c, *v) / 1e9,
                        rate > 0 ? 100 * moved_bytes(c, *v) / v->product.median / rate : 0, v->iterations,
                        duration(v->solve.median), duration(v->total()), break_even_text(*v),
                        v->status == "converged" ? "" : "  NOT CONVERGED: " + v->why);
  }
  text += cut_table(c, spaces);
  for (const Variant& v : c.variants)
    if (!v.ran() && !v.cut() && !v.not_in_build)
      text += fmt::format("  {:<22} {}: {}\n", v.name(spaces), v.shown_status(), v.why);
  text += "\n" + verdict_text(c);
  text += "\n";
  return c.selectors.empty() ? text : text + selectors_table(c.selectors);
}

std::vector<SelectorSummary> selector_summaries(const std::vector<Comparison>& comparisons) {
  std::vector<std::span<const SelectorVerdict>> systems;
  for (const Comparison& c : comparisons)
    if (!c.selectors.empty()) systems.emplace_back(c.selectors);
  return summarise(systems);
}

std::string compare_json(const std::vector<Comparison>& comparisons, const std::vector<std::string>& broken,
                         bool suite) {
  Json json = suite_json(comparisons, broken, suite, comparison_json);
  if (suite)
    if (const auto summaries = selector_summaries(comparisons); !summaries.empty())
      json["selectors"] = summary_json(summaries);
  return text(json);
}

std::string compare_csv(const std::vector<Comparison>& comparisons) {
  std::string out =
      "problem,format,kernel,space,deterministic,status,rows,nonzeros,predicted_bytes,matrix_bytes,"
      "stored_values,padding,convert_seconds,convert_products,setup_seconds,product_seconds,gflops,"
      "effective_bandwidth,minimum_bandwidth,caching_bandwidth,copy_fraction,iterations,"
      "true_relative_residual,iteration_seconds,solve_seconds,total_seconds,break_even_iterations,why\n";
  for (const Comparison& c : comparisons)
    for (const Variant& v : c.variants) {
      out += fmt::format("{},{},{},{},{},{},{},{},{},", csv_field(title(c)), v.format, v.kernel,
                         to_string(v.space), v.deterministic ? "yes" : "no", v.status, c.rows, c.nonzeros,
                         v.predicted_bytes);
      if (v.ran()) {
        const double t = v.product.median, copied = copy_rate(c, v.space);
        const bool caching = v.space == Space::device && c.lines_of_x >= 0;
        out += fmt::format(
            "{},{},{:.6g},{:.9g},{:.6g},{:.9g},{:.9g},{:.6g},{:.6g},{:.6g},{},{},", v.matrix_bytes,
            v.stored_values, padding(c, v), v.convert.median, v.convert.median / t, v.setup.median, t,
            flops(c, v) / 1e9, effective_bytes(c.rows, c.nonzeros) / t, minimum_bytes(c.rows, c.nonzeros) / t,
            caching ? fmt::format("{:.6g}", caching_bytes(c.rows, c.nonzeros, c.lines_of_x) / t) : "",
            copied > 0 ? fmt::format("{:.6g}", moved_bytes(c, v) / t / copied) : "");
        out += fmt::format("{},{:.6g},{:.9g},{:.9g},{:.9g},{},", v.iterations, v.true_relative,
                           v.per_iteration(), v.solve.median, v.total(),
                           v.break_even ? fmt::format("{:.6g}", *v.break_even) : "");
      } else {
        out += std::string(18, ',');
      }
      out += csv_field(v.reported_why()) + "\n";
    }
  return out;
}

std::string compare_html(const std::vector<Comparison>& comparisons) {
  std::size_t runs = 1;
  for (const Comparison& c : comparisons) runs += c.variants.size();
  // The whole page must stay below 2 MB, however large the suite is. A point takes about 15 bytes.
  const std::size_t points = std::clamp<std::size_t>(60000 / runs, 8, 300);
  Json data = Json::object();
  const MachineInfo machine = machine_info();
  data["machine"] = machine.cpu, data["version"] = build_info().version;
  data["problems"] = Json::array();
  for (const Comparison& c : comparisons) data["problems"].push_back(page_json(c, points));
  std::string page = compare_page;
  constexpr std::string_view place = "<!--selectors-->";
  const std::size_t section = page.find(place);
  if (section == std::string::npos) throw Error("the page of compare has no place for its selectors");
  page.replace(section, place.size(), selectors_html(selector_summaries(comparisons)));
  constexpr std::string_view mark = "/*data*/null";
  const std::size_t at = page.find(mark);
  if (at == std::string::npos) throw Error("the page of compare has no place for its data");
  return page.replace(at, mark.size(), embedded(data));
}

}  // namespace protean::apps
