// The combinations of preconditioners and formats as a table, a report and CSV.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/command/build_info.hpp"
#include "apps/compare/combinations.hpp"
#include "apps/compare/suite_json.hpp"
#include "apps/compare/verdict.hpp"
#include "apps/report/csv.hpp"
#include "apps/report/json.hpp"

namespace protean::apps {
namespace {

const Combination* best_of(const Combinations& c) {
  return c.best < 0 ? nullptr : &c.all[static_cast<std::size_t>(c.best)];
}

bool in_two_spaces(const Combinations& c) {
  return std::any_of(c.all.begin(), c.all.end(),
                     [&](const Combination& one) { return one.space != c.all.front().space; });
}

// With what auto ended with.
std::string in_words(const std::string& asked, const std::string& last) {
  return asked == "auto" && !last.empty() && last != "auto" ? fmt::format("auto ({})", last) : asked;
}

std::string verdict(const Combinations& c) {
  const Combination* const best = best_of(c);
  if (!best) return "  best: no solve has converged\n";
  std::string text = fmt::format("  best: {} with method {}, {} in all\n", best->name(in_two_spaces(c)),
                                 best->method, duration(best->total.median));
  for (const Combination& one : c.all) {
    if (!one.is_default) continue;
    const char* const where = !in_two_spaces(c)            ? ""
                              : one.space == Space::device ? " on the device"
                                                           : " on the host";
    if (one.status != "converged") {
      text += fmt::format("  the default{} has not converged: {}\n", where, one.why);
      continue;
    }
    text += fmt::format("  the default{} takes {}, {:.2f} times that", where, duration(one.total.median),
                        one.total.median / best->total.median);
    if (&one != best && !apart(range_of(best->total), range_of(one.total)))
      text += ": no clear difference, since repeated measurements differ by as much";
    if (!one.changes.empty()) text += fmt::format("; it changed to {}", fmt::join(one.changes, ", "));
    text += "\n";
  }
  return text;
}

Json combination_json(const Combination& one) {
  Json json = Json::object();
  json["preconditioner"] = one.preconditioner, json["format"] = one.format;
  json["space"] = to_string(one.space), json["default"] = one.is_default, json["status"] = one.status;
  if (!one.not_run.empty()) json["not_run"] = one.not_run;
  if (!one.why.empty()) json["why"] = one.why;
  if (!one.ran()) return json;
  json["method"] = one.method;
  json["last"] = {{"preconditioner", one.last_preconditioner}, {"format", one.last_format}};
  json["changes"] = one.changes;
  json["iterations"] = one.iterations;
  json["residual"] = {{"true_relative", number(one.true_relative)}};
  json["seconds"] = {{"convert", one.convert.median},
                     {"setup", one.setup.median},
                     {"solve", one.solve.median},
                     {"total", one.total.median}};
  json["timing"] = {{"median", one.total.median},
                    {"lower_quartile", one.total.lower},
                    {"upper_quartile", one.total.upper},
                    {"runs", one.total.runs}};
  return json;
}

Json all_json(const Combinations& c) {
  Json json = Json::object();
  json["title"] = title_of(c.problem);
  json["matrix"] = {{"rows", c.rows}, {"cols", c.rows}, {"nonzeros", c.nonzeros}};
  json["combinations"] = Json::array();
  for (const Combination& one : c.all) json["combinations"].push_back(combination_json(one));
  const Combination* const best = best_of(c);
  json["best"] = nullptr, json["default"] = Json::array();
  if (best) json["best"] = combination_json(*best);
  for (const Combination& one : c.all)
    if (one.is_default)
      json["default"].push_back(
          {{"space", to_string(one.space)},
           {"status", one.status},
           {"clear", best && &one != best && apart(range_of(best->total), range_of(one.total))},
           {"over_best", best && one.status == "converged" ? Json(one.total.median / best->total.median)
                                                           : Json(nullptr)}});
  if (!c.notes.empty()) json["notes"] = c.notes;
  if (c.interrupted) json["interrupted"] = true;
  if (c.out_of_time) json["out_of_time"] = true;
  json["seconds"] = {{"read", c.read_seconds}};
  json["machine"] = machine_json(c.threads);
  json["problem"] = problem_json(c.problem);
  return json;
}

}  // namespace

std::string combinations_table(const Combinations& c) {
  const bool spaces = in_two_spaces(c);
  const Combination* const best = best_of(c);
  std::string text =
      fmt::format("\n  {}: {} rows, {} nonzeros; method {}, relative tolerance {:g}, {} {}\n  rhs: {}\n",
                  title_of(c.problem), grouped(c.rows), grouped(c.nonzeros), c.problem.settings.method.name(),
                  c.problem.settings.solver.stopping.relative_tolerance, c.threads,
                  c.threads == 1 ? "thread" : "threads", rhs_text(c.problem.rhs));
  for (const std::string& note : c.notes) text += fmt::format("  note: {}\n", note);
  text += fmt::format("\n  {:<24} {:<22} {:<9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>7}\n", "preconditioner",
                      "format", "method", "iter.", "convert", "setup", "solve", "total", "x best");
  std::vector<const Combination*> ran;
  for (const Combination& one : c.all)
    if (one.ran()) ran.push_back(&one);
  std::stable_sort(ran.begin(), ran.end(), [](const Combination* a, const Combination* b) {
    const bool good_a = a->status == "converged", good_b = b->status == "converged";
    return good_a != good_b ? good_a : a->total.median < b->total.median;
  });
  for (const Combination* one : ran)
    text += fmt::format(
        "  {:<24} {:<22} {:<9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>7}{}{}{}\n",
        in_words(one->preconditioner, one->last_preconditioner),
        in_words(one->format, one->last_format) + (spaces && one->space == Space::device ? " device" : ""),
        one->method, one->iterations, duration(one->convert.median), duration(one->setup.median),
        duration(one->solve.median), duration(one->total.median),
        best && one->status == "converged" ? fmt::format("{:.2f}", one->total.median / best->total.median)
                                           : "-",
        one->is_default ? "  <- the default" : "",
        one->status == "converged" ? "" : "  NOT CONVERGED: ", one->why);
  bool first = true;
  for (const Combination& one : c.all)
    if (!one.ran()) {
      if (std::exchange(first, false)) text += "\n";
      text += fmt::format("  {:<32} {}: {}\n", one.name(spaces), one.not_run.empty() ? one.status : "ended",
                          one.why);
    }
  return text + "\n" + verdict(c) + "\n";
}

std::string combinations_json(const std::vector<Combinations>& all, const std::vector<std::string>& broken,
                              bool suite) {
  return protean::apps::text(suite_json(all, broken, suite, all_json));
}

std::string combinations_csv(const std::vector<Combinations>& all) {
  std::string out =
      "problem,preconditioner,format,space,default,status,rows,nonzeros,method,last_preconditioner,last_format,"
      "iterations,true_relative_residual,convert_seconds,setup_seconds,solve_seconds,total_seconds,why\n";
  for (const Combinations& c : all)
    for (const Combination& one : c.all) {
      out += fmt::format("{},{},{},{},{},{},{},{},", csv_field(title_of(c.problem)), one.preconditioner,
                         one.format, to_string(one.space), one.is_default ? "yes" : "no", one.status, c.rows,
                         c.nonzeros);
      if (one.ran())
        out += fmt::format("{},{},{},{},{:.6g},{:.9g},{:.9g},{:.9g},{:.9g},", one.method,
                           one.last_preconditioner, one.last_format, one.iterations, one.true_relative,
                           one.convert.median, one.setup.median, one.solve.median, one.total.median);
      else
        out += std::string(9, ',');
      out += csv_field(one.why) + "\n";
    }
  return out;
}

}  // namespace protean::apps
