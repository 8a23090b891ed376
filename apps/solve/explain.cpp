#include "apps/solve/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/command/clock.hpp"
#include "apps/machine/measure.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"

namespace protean::apps {
namespace {

// "1.23 ms", eight characters wide; blank when the time is not known.
std::string cell(double seconds) {
  if (!(seconds > 0)) return "";
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

std::string iterations(double number) {
  return std::isfinite(number) ? fmt::format("{:.0f}", number) : std::string("many");
}

std::string forecast_text(const Forecast& forecast) {
  if (!forecast.known) return "remaining iterations unknown";
  return fmt::format("{} to {} iterations remain, likely {}", iterations(forecast.low),
                     iterations(forecast.high), iterations(forecast.likely));
}

}  // namespace

std::vector<RealCost> measure_candidates(const CsrMatrix<double>& source, const ContextPtr& context,
                                         const std::vector<SwitchTarget>& targets) {
  std::vector<RealCost> all;
  Vector<double> x(context, source.cols()), y(context, source.rows());
  fill<double>(*context, 1.0, x);
  for (const SwitchTarget& target : targets) {
    if (!target.admitted) continue;
    RealCost real;
    real.format = target.spec.name();
    try {
      std::vector<double> converts;
      std::unique_ptr<AssembledMatrix<double>> A;
      for (int run = 0; run < 3; ++run) {
        A.reset();
        Clock clock;
        A = make_matrix(*target.spec.entry, source, context, target.spec.params, target.spec.kernel);
        context->synchronize();
        converts.push_back(clock.lap());
      }
      real.convert_seconds = timing_of(converts).median;
      real.product_seconds = measure(*context, [&] { A->apply(x, y); }, {.seconds = 0.1}).median;
    } catch (const Error& error) { real.why = error.what(); }
    all.push_back(std::move(real));
  }
  return all;
}

std::vector<RealCost> measure_candidates(const ElementOperator<double>& elements, const ContextPtr& context,
                                         const std::vector<SwitchTarget>& targets) {
  RealCost own;
  own.format = elements.name();
  std::vector<RealCost> all;
  try {
    Vector<double> x(context, elements.cols()), y(context, elements.rows());
    fill<double>(*context, 1.0, x);
    own.product_seconds = measure(*context, [&] { elements.apply(x, y); }, {.seconds = 0.1}).median;
    Clock clock;
    const CsrMatrix<double> assembled = elements.assemble();
    const double assembly = clock.lap();
    all = measure_candidates(assembled, context, targets);
    for (RealCost& real : all) real.convert_seconds += assembly;
  } catch (const OutOfMemory& error) { own.why = error.what(); }
  all.push_back(std::move(own));
  return all;
}

std::vector<CandidateRecord> candidates_of(std::span<const RankedFormat> ranked) {
  std::vector<CandidateRecord> all;
  for (const RankedFormat& format : ranked) {
    CandidateRecord candidate;
    candidate.format = format.entry->id, candidate.bytes = format.bytes;
    if (format.cost.known)
      candidate.predicted_product = format.cost.product_seconds,
      candidate.predicted_convert = format.cost.convert_seconds,
      candidate.uncertainty = format.cost.uncertainty;
    else
      candidate.why = "the machine table has no measurement of it";
    all.push_back(std::move(candidate));
  }
  return all;
}

std::vector<SwitchTarget> targets_of(std::span<const RankedFormat> ranked) {
  std::vector<SwitchTarget> all;
  for (const RankedFormat& format : ranked) {
    SwitchTarget target;
    target.spec.entry = format.entry, target.admitted = true, target.bytes = format.bytes;
    all.push_back(std::move(target));
  }
  return all;
}

std::string explain_text(const Explanation& e) {
  std::string text = "\n";
  if (!e.choice.taken.empty()) {
    text += fmt::format("  Chosen before the solve: wanted {}, ", e.choice.wanted);
    if (!e.choice.refused.empty()) text += fmt::format("which was refused ({}), ", e.choice.refused);
    text += fmt::format("taken {}\n  {}\n\n", e.choice.taken, e.reason);
  }
  if (e.candidates.empty())
    return text + (e.decisions.empty()
                       ? "  The solve ended before a change of format was worth a thought.\n"
                       : fmt::format("  No change of format was thought of: {}.\n", e.decisions[0].reason));
  text += fmt::format("  Predictions from the machine table: {}\n\n", e.machine);
  std::size_t width = 22;
  for (const CandidateRecord& c : e.candidates) width = std::max(width, c.format.size());
  text += fmt::format("  {:<{}} {:>10} {:>10} {:>5} {:>10} {:>11} {:>11}  {}\n", "format", width, "bytes",
                      "product", "+-", "real", "conversion", "real", "");
  std::vector<CandidateRecord> sorted = e.candidates;
  const auto key = [](const CandidateRecord& c) {
    const double product = c.predicted_product > 0 ? c.predicted_product : c.measured_product;
    return c.admitted && product > 0 ? product : INFINITY;
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& a, const auto& b) { return key(a) < key(b); });
  for (const CandidateRecord& c : sorted) {
    const auto real =
        std::find_if(e.real.begin(), e.real.end(), [&](const RealCost& r) { return r.format == c.format; });
    const double product = real != e.real.end() ? real->product_seconds : c.measured_product;
    const double convert = real != e.real.end() ? real->convert_seconds : c.measured_convert;
    std::string note = c.why;
    if (note.empty() && real != e.real.end()) note = real->why;
    if (c.format == e.choice.taken) note = note.empty() ? "taken" : "taken; " + note;
    if (c.ran) note = note.empty() ? "ran" : "ran; " + note;
    text +=
        fmt::format("  {:<{}} {:>10} {:>10} {:>5} {:>10} {:>11} {:>11}  {}\n", c.format, width,
                    c.admitted ? human_bytes(c.bytes) : std::string("refused"), cell(c.predicted_product),
                    c.predicted_product > 0 ? fmt::format("{:.0f} %", 100 * c.uncertainty) : std::string(),
                    cell(product), cell(c.predicted_convert), cell(convert), note);
  }
  text += "\n";
  for (const DecisionRecord& d : e.decisions) {
    text += fmt::format("  it {:>6}  {:<7}  {}", d.iteration, to_string(d.action), d.reason);
    // Without an account where no numbers led to it.
    if (d.remaining.known || d.allowed_seconds != 0)
      text +=
          fmt::format(" ({}; spent {}, allowed {})", forecast_text(d.remaining),
                      cell(std::max(d.excess_seconds, 0.0)).empty() ? "nothing" : cell(d.excess_seconds),
                      cell(std::max(d.allowed_seconds, 0.0)).empty() ? "nothing" : cell(d.allowed_seconds));
    text += "\n";
  }
  return text;
}

}  // namespace protean::apps
