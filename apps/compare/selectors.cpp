#include "apps/compare/selectors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.hpp"
#include "core/words.hpp"

namespace protean::apps {
namespace {

// Above this the choice of a selector is slower than csr.
constexpr double slower_than_csr = 1.02;

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

// The least value that this part of the ascending values do not exceed.
double quantile(const std::vector<double>& ascending, double part) {
  const auto at = static_cast<std::size_t>(std::ceil(part * static_cast<double>(ascending.size())));
  return ascending[std::clamp<std::size_t>(at, 1, ascending.size()) - 1];
}

std::string optional_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}
Json optional_json(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

// A picture of the profiles, from regret 1 to 10, in a logarithmic scale.
class Profile {
 public:
  static constexpr double width = 640, height = 320, left = 40, right = 10, top = 10, bottom = 36, most = 10;

  static double x(double regret) {
    return left + std::log(std::min(regret, most)) / std::log(most) * (width - left - right);
  }
  static double y(double part) { return height - bottom - part * (height - top - bottom); }

  static std::string path(const std::vector<double>& ascending) {
    std::string path = fmt::format("M{:.1f} {:.1f}", x(1), y(0));
    double at = 0;
    for (std::size_t i = 0; i < ascending.size() && ascending[i] <= most; ++i) {
      path += fmt::format(" H{:.1f}", x(ascending[i]));
      at = static_cast<double>(i + 1) / static_cast<double>(ascending.size());
      path += fmt::format(" V{:.1f}", y(at));
    }
    return path + fmt::format(" H{:.1f}", x(most));
  }
};

constexpr std::string_view colours[] = {"var(--s0)", "var(--s1)", "var(--s2)",  "var(--s3)",
                                        "var(--s4)", "var(--s5)", "var(--rest)"};

}  // namespace

std::vector<const FormatSelector*> selectors_named(const std::string& text) {
  std::vector<const FormatSelector*> found;
  if (text == "all") return {selectors().begin(), selectors().end()};
  for (const std::string_view name : split(text, ','))
    if (!name.empty()) found.push_back(&find_selector(name));
  if (found.empty())
    throw BadArgument(fmt::format("--selectors names no selector; give {} separated by commas, or all",
                                  fmt::join(selector_names(), ", ")));
  return found;
}

std::vector<SelectorVerdict> ask_selectors(std::span<const FormatSelector* const> selectors,
                                           const SparsityPattern& pattern, const CostModel& model,
                                           const ChoiceOptions& options) {
  std::vector<SelectorVerdict> verdicts;
  for (const FormatSelector* selector : selectors) {
    SelectorVerdict& verdict = verdicts.emplace_back();
    verdict.selector = selector->name();
    if (options.space == Space::device && selector->host_only()) {
      verdict.why = "it has numbers of a host only";
      continue;
    }
    const auto begin = std::chrono::steady_clock::now();
    const SelectedFormat best = selector->rank(SelectorQuestion(pattern, model, options)).front();
    verdict.look_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    verdict.format = best.entry->id, verdict.reason = best.reason;
  }
  return verdicts;
}

std::vector<SelectorSummary> summarise(const std::vector<std::span<const SelectorVerdict>>& systems) {
  std::vector<SelectorSummary> summaries;
  for (std::size_t i = 0; !systems.empty() && i < systems.front().size(); ++i) {
    SelectorSummary& summary = summaries.emplace_back();
    summary.selector = systems.front()[i].selector;
    std::vector<double> looks;
    int slower = 0, compared = 0;
    for (const auto& verdicts : systems) {
      const SelectorVerdict& verdict = verdicts[i];
      if (verdict.look_products) looks.push_back(*verdict.look_products);
      if (verdict.to_csr) ++compared, slower += *verdict.to_csr > slower_than_csr;
      if (verdict.to_best)
        summary.regrets.push_back(*verdict.to_best);
      else
        ++summary.missing;
    }
    std::sort(summary.regrets.begin(), summary.regrets.end());
    std::sort(looks.begin(), looks.end());
    summary.systems = static_cast<int>(summary.regrets.size());
    if (compared > 0) summary.slower = static_cast<double>(slower) / compared;
    if (!looks.empty()) summary.look = quantile(looks, 0.5);
    if (summary.systems == 0) continue;
    summary.mean = geometric_mean(summary.regrets);
    summary.at_95 = quantile(summary.regrets, 0.95), summary.worst = summary.regrets.back();
  }
  return summaries;
}

std::string selectors_table(std::span<const SelectorVerdict> verdicts) {
  std::string text =
      fmt::format("  {:<18} {:<16} {:>9} {:>9} {:>10}\n", "selector", "takes", "to best", "to csr", "look");
  for (const SelectorVerdict& v : verdicts)
    text += fmt::format("  {:<18} {:<16} {:>9} {:>9} {:>10}{}\n", v.selector,
                        v.format.empty() ? "-" : v.format, optional_text(v.to_best), optional_text(v.to_csr),
                        optional_text(v.look_products), v.why.empty() ? "" : "  " + v.why);
  return text +
         "  to best, to csr: time of conversion, setup and solve over the time in the best format, and in csr; "
         "look: the choice, in products of csr\n\n";
}

std::string summary_table(std::span<const SelectorSummary> summaries) {
  std::string text = fmt::format("\n  {:<18} {:>7} {:>8} {:>8} {:>8} {:>10} {:>10}\n", "selector", "systems",
                                 "mean", "95 %", "worst", "slower", "look");
  for (const SelectorSummary& s : summaries)
    text += s.systems == 0
                ? fmt::format("  {:<18} {:>7} no regret is known\n", s.selector, 0)
                : fmt::format("  {:<18} {:>7} {:>8.3f} {:>8.2f} {:>8.2f} {:>8.0f} % {:>10.1f}\n", s.selector,
                              s.systems, s.mean, s.at_95, s.worst, 100 * s.slower, s.look);
  return text +
         "  regret: times the best format, geometric mean, 95th percentile and worst; slower: part of the "
         "systems with more than 1.02 times csr; look: median, in products of csr\n\n";
}

Json selectors_json(std::span<const SelectorVerdict> verdicts) {
  Json list = Json::array();
  for (const SelectorVerdict& v : verdicts) {
    Json json = {{"selector", v.selector},
                 {"format", v.format.empty() ? Json(nullptr) : Json(v.format)},
                 {"reason", v.reason},
                 {"look_seconds", v.look_seconds},
                 {"look_products", optional_json(v.look_products)},
                 {"to_best", optional_json(v.to_best)},
                 {"to_csr", optional_json(v.to_csr)}};
    if (!v.why.empty()) json["why"] = v.why;
    list.push_back(std::move(json));
  }
  return list;
}

Json summary_json(std::span<const SelectorSummary> summaries) {
  Json list = Json::array();
  for (const SelectorSummary& s : summaries) {
    Json json = {{"selector", s.selector}, {"systems", s.systems}, {"missing", s.missing}};
    if (s.systems > 0) {
      json["regret"] = {{"geometric_mean", s.mean}, {"at_95", s.at_95}, {"worst", s.worst}};
      json["slower_than_csr"] = s.slower, json["look_products"] = s.look;
      json["profile"] = s.regrets;
    }
    list.push_back(std::move(json));
  }
  return list;
}

std::string selectors_html(std::span<const SelectorSummary> summaries) {
  if (summaries.empty()) return {};
  using P = Profile;
  std::string text =
      "<section id=\"selectors\"><h2>Selectors of formats</h2><p class=\"soft\">Part of the systems on which "
      "the choice of a selector needs at most that many times the time of the best format compared. Higher "
      "is better.</p>\n";
  text += fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"performance profile of selectors\">\n",
      P::width, P::height);
  for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0})
    text += fmt::format(
        "<path class=\"axis\" d=\"M{:.0f} {:.1f} H{:.0f}\"/><text x=\"{:.0f}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{:g}</text>\n",
        P::left, P::y(part), P::width - P::right, P::left - 5, P::y(part) + 4, part);
  for (const double regret : {1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0})
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{:g}</text>\n", P::x(regret),
                        P::height - P::bottom + 16, regret);
  text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">times the best</text>\n",
                      P::width - P::right, P::height - 4);
  std::string legend = "<p class=\"legend\">";
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const SelectorSummary& s = summaries[i];
    if (s.systems == 0) continue;
    const std::string_view colour = colours[i % std::size(colours)];
    const char* const dashes = i < std::size(colours) ? "" : " stroke-dasharray=\"6 4\"";
    text += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}><title>{}</title></path>\n",
        P::path(s.regrets), colour, dashes, s.selector);
    legend += fmt::format(
        "<span><svg width=\"24\" height=\"8\" style=\"display:inline\"><path d=\"M0 4 H24\" "
        "stroke=\"{}\" stroke-width=\"2\"{}/></svg> {}</span> ",
        colour, dashes, s.selector);
  }
  text += "</svg>\n" + legend +
          "</p>\n<div class=\"scroll\"><table><thead><tr><th>selector</th><th>systems</th>"
          "<th>mean</th><th>95 %</th><th>worst</th><th>slower than csr</th><th>look, "
          "products</th></tr></thead><tbody>\n";
  for (const SelectorSummary& s : summaries) {
    if (s.systems == 0) {
      text += fmt::format("<tr><td>{}</td><td>0</td><td colspan=\"5\">no regret is known</td></tr>\n",
                          s.selector);
      continue;
    }
    text += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{:.3f}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.0f} "
        "%</td><td>{:.1f}</td></tr>\n",
        s.selector, s.systems, s.mean, s.at_95, s.worst, 100 * s.slower, s.look);
  }
  return text + "</tbody></table></div></section>\n";
}

}  // namespace protean::apps
