#include "apps/solve/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/command/clock.hpp"
#include "apps/machine/measure.hpp"
#include "apps/solve/solve.hpp"
#include "core/blas1.hpp"
#include "core/error.hpp"
#include "core/multi_vector.hpp"
#include "core/words.hpp"
#include "formats/catalogue.hpp"
#include "operators/multi_product.hpp"

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

bool by_model(const Explanation& e) { return e.selector.empty() || e.selector == default_selector; }

std::string forecast_text(const Forecast& forecast) {
  if (!forecast.known) return "remaining iterations unknown";
  return fmt::format("{} to {} iterations remain, likely {}", iterations(forecast.low),
                     iterations(forecast.high), iterations(forecast.likely));
}

}  // namespace

namespace {

// Times products of this many vectors, side by side as in a solve.
class Products {
 public:
  Products(const ContextPtr& context, std::int64_t rows, std::int64_t cols, std::int64_t columns)
      : x_(context, cols, columns, VectorLayout::interleaved),
        y_(context, rows, columns, VectorLayout::interleaved) {
    fill<double>(*context, 1.0, {x_.data(), cols * columns, context->space()});
  }
  double seconds(const LinearOperator<double>& A) {
    return measure(*A.context(), [&] { multi_apply<double>(A, 1, x_, 0, y_, &scratch_); }, {.seconds = 0.1})
        .median;
  }

 private:
  MultiVector<double> x_, y_;
  MultiScratch<double> scratch_;
};

}  // namespace

std::vector<RealCost> measure_candidates(const CsrMatrix<double>& source, const ContextPtr& context,
                                         const std::vector<SwitchTarget>& targets, std::int64_t columns) {
  std::vector<RealCost> all;
  Products products(context, source.rows(), source.cols(), columns);
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
      real.bytes = A->bytes(), real.convert_seconds = timing_of(converts).median;
      real.product_seconds = products.seconds(*A);
    } catch (const Error& error) { real.why = error.what(); }
    all.push_back(std::move(real));
  }
  return all;
}

std::vector<RealCost> measure_candidates(const ElementOperator<double>& elements, const ContextPtr& context,
                                         const std::vector<SwitchTarget>& targets, std::int64_t columns) {
  RealCost own;
  own.format = elements.name();
  std::vector<RealCost> all;
  try {
    own.product_seconds = Products(context, elements.rows(), elements.cols(), columns).seconds(elements);
    Clock clock;
    const CsrMatrix<double> assembled = elements.assemble();
    const double assembly = clock.lap();
    all = measure_candidates(assembled, context, targets, columns);
    for (RealCost& real : all) real.convert_seconds += assembly;
  } catch (const OutOfMemory& error) { own.why = error.what(); }
  all.push_back(std::move(own));
  return all;
}

std::vector<CandidateRecord> candidates_of(const ChoiceRecord& choice) {
  std::vector<CandidateRecord> all;
  for (const ConsideredFormat& format : choice.ranking) {
    CandidateRecord candidate;
    candidate.format = format.format;
    // What the default selector says of a format are the numbers of its row.
    if (choice.selector != default_selector) candidate.why = format.reason;
    candidate.predicted_product = format.product_seconds;
    candidate.predicted_convert = format.convert_seconds, candidate.uncertainty = format.uncertainty;
    all.push_back(std::move(candidate));
  }
  return all;
}

std::vector<SwitchTarget> targets_of(const ChoiceRecord& choice) {
  std::vector<SwitchTarget> all;
  for (const ConsideredFormat& format : choice.ranking) {
    SwitchTarget target;
    target.spec.entry = &find_format(format.format), target.spec.params = format.parameters;
    all.push_back(std::move(target));
  }
  return all;
}

namespace {

// What has decided, and by which numbers.
std::string head_text(const Explanation& e) {
  std::string text;
  if (!e.choice.taken.empty()) {
    text += fmt::format("  Chosen before the solve: wanted {}, ", e.choice.wanted);
    if (!e.choice.refused.empty()) text += fmt::format("which was refused ({}), ", e.choice.refused);
    text += fmt::format("taken {}\n  {}\n\n", e.choice.taken, e.reason);
    if (e.candidates.empty()) return text + "  No other format was looked at.\n";
    if (!by_model(e))
      return text + fmt::format("  Ranked by selector {}, the best first; what it predicts is its own\n\n",
                                e.selector);
  } else if (e.candidates.empty()) {
    return text + (e.decisions.empty()
                       ? "  The solve ended before a change of format was worth a thought.\n"
                       : fmt::format("  No change of format was thought of: {}.\n", e.decisions[0].reason));
  } else if (!by_model(e)) {
    text += fmt::format("  Considered: csr and the first {} formats of selector {}\n", policy_candidates,
                        e.selector);
  }
  if (e.columns > 1)
    text += fmt::format("  Products of {} right-hand sides; real: of all of them\n", e.columns);
  return text + fmt::format("  Predictions from the machine table: {}\n\n", e.machine);
}

// A ranking stays as the selector made it. The formats of a policy come in the order of their predicted products.
std::vector<CandidateRecord> in_order(const Explanation& e) {
  std::vector<CandidateRecord> sorted = e.candidates;
  const auto key = [](const CandidateRecord& c) {
    const double product = c.predicted_product > 0 ? c.predicted_product : c.measured_product;
    return c.admitted && product > 0 ? product : INFINITY;
  };
  if (e.choice.taken.empty())
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return sorted;
}

std::string row_text(const Explanation& e, const CandidateRecord& c, std::size_t width) {
  const auto found =
      std::find_if(e.real.begin(), e.real.end(), [&](const RealCost& r) { return r.format == c.format; });
  const RealCost* const real = found == e.real.end() ? nullptr : &*found;
  std::string note = c.why;
  if (real && !real->why.empty()) note = real->why;
  if (c.format == e.choice.taken) note = note.empty() ? "taken" : "taken; " + note;
  if (c.ran) note = note.empty() ? "ran" : "ran; " + note;
  const std::size_t bytes = c.bytes > 0 || !real ? c.bytes : real->bytes;
  return fmt::format("  {:<{}} {:>10} {:>10} {:>5} {:>10} {:>11} {:>11}  {}\n", c.format, width,
                     c.admitted ? human_bytes(bytes) : std::string("refused"), cell(c.predicted_product),
                     c.predicted_product > 0 && c.uncertainty > 0
                         ? fmt::format("{:.0f} %", 100 * c.uncertainty)
                         : std::string(),
                     cell(real ? real->product_seconds : c.measured_product), cell(c.predicted_convert),
                     cell(real ? real->convert_seconds : c.measured_convert), note);
}

std::string decision_text(const DecisionRecord& d) {
  std::string text = fmt::format("  it {:>6}  {:<7}  {}", d.iteration, to_string(d.action), d.reason);
  // Without an account if no numbers led to it.
  if (d.remaining.known || d.allowed_seconds != 0)
    text += fmt::format(" ({}; spent {}, allowed {})", forecast_text(d.remaining),
                        cell(std::max(d.excess_seconds, 0.0)).empty() ? "nothing" : cell(d.excess_seconds),
                        cell(std::max(d.allowed_seconds, 0.0)).empty() ? "nothing" : cell(d.allowed_seconds));
  return text + "\n";
}

// Of decisions to stay that follow each other, the first two and the last one, with the number of the others.
std::string decisions_text(const std::vector<DecisionRecord>& all) {
  std::string text;
  for (auto d = all.begin(); d != all.end();) {
    const auto end =
        std::find_if(d, all.end(), [](const auto& one) { return one.action != SwitchAction::stay; });
    if (end - d > 4) {
      text += decision_text(d[0]) + decision_text(d[1]);
      text += fmt::format("  {:>9}  {:<7}  {} more times, for such reasons; the report has each\n", "...",
                          "stay", end - d - 3);
      d = end - 1;
    }
    for (; d != end; ++d) text += decision_text(*d);
    if (d != all.end()) text += decision_text(*d++);
  }
  return text;
}

}  // namespace

std::string explain_text(const Explanation& e) {
  std::string text = "\n" + head_text(e);
  if (e.candidates.empty()) return text;
  std::size_t width = 22;
  for (const CandidateRecord& c : e.candidates) width = std::max(width, c.format.size());
  text += fmt::format("  {:<{}} {:>10} {:>10} {:>5} {:>10} {:>11} {:>11}  {}\n", "format", width, "bytes",
                      "product", "+-", "real", "conversion", "real", "");
  for (const CandidateRecord& c : in_order(e)) text += row_text(e, c, width);
  text += "\n";
  return text + decisions_text(e.decisions);
}

namespace {

// ", 3 right-hand sides"
std::string columns_text(std::int64_t columns) {
  return columns == 1 ? std::string() : fmt::format(", {} right-hand sides", columns);
}

}  // namespace

std::string explain_names(const Problem& problem) {
  std::vector<std::string> named, open;
  const SolveSettings& settings = problem.settings;
  const auto add = [&](bool may_change, std::string what) {
    (may_change ? open : named).push_back(std::move(what));
  };
  const std::string_view method = settings.method.name(), type = preconditioner_type(settings);
  if (settings.policy == "auto")
    open.push_back("the format, which policy auto changes");
  else if (!settings.schedule.empty())
    open.push_back("the format, which the schedule changes at its points");
  else if (problem.matrix.fem && !problem.matrix.fem->assembled)
    named.push_back("the element matrices");
  else if (settings.format != "auto")
    named.push_back("format " + settings.format);
  else if (policy_decides(problem))
    open.push_back("format auto");
  else
    named.push_back("format auto after its choice before the solve");
  add(method == "auto", fmt::format("method {}", method));
  add(type == "auto", fmt::format("preconditioner {}", type));
  const auto list = [](const std::vector<std::string>& of) {
    return of.empty() ? std::string("nothing") : fmt::format("{}", fmt::join(of, ", "));
  };
  return fmt::format("  Stays as named: {}\n  May change in the solve: {}\n", list(named), list(open));
}

std::string explain_method(std::string_view reason, const std::vector<MethodChange>& changes) {
  if (reason.empty()) return {};
  std::string text = changes.empty() ? fmt::format("\n  Method auto stayed with {}\n", reason)
                                     : fmt::format("\n  Method auto began with {}\n", changes.front().from);
  for (const MethodChange& one : changes)
    text +=
        fmt::format("  it {:>6}  {:<10}  {}{}: {} (residual {:.1e}{})\n", one.iteration,
                    to_string(one.action), one.to, one.restart > 0 ? fmt::format("({})", one.restart) : "",
                    one.reason, one.relative_residual, columns_text(one.columns));
  return text;
}

std::string explain_storage(std::string_view type, std::size_t bytes, std::string_view storage,
                            std::string_view reason) {
  return fmt::format("\n  Preconditioner {}: {}, numbers in {}{}{}{}\n", type, human_bytes(bytes), storage,
                     reason.empty() ? "" : " (", reason, reason.empty() ? "" : ")");
}

std::string explain_preconditioner(bool named, std::string_view reason,
                                   const std::vector<PreconditionerChange>& changes) {
  using Action = PreconditionerChange::Action;
  if (reason.empty()) return {};
  if (named) return fmt::format("\n  What it made of the matrix: {}\n", reason);
  std::string text = changes.empty()
                         ? fmt::format("\n  Preconditioner auto stayed with {}\n", reason)
                         : fmt::format("\n  Preconditioner auto began with {}\n", changes.front().from);
  for (const PreconditionerChange& one : changes) {
    const std::string_view candidate = one.action == Action::taken_back ? one.from : one.to;
    text += fmt::format("  it {:>6}  {:<10}  {}: {}{}", one.iteration, to_string(one.action), candidate,
                        one.reason, columns_text(one.columns));
    if (one.setup_seconds > 0) text += fmt::format(" (set up in {}", cell(one.setup_seconds));
    if (one.application_seconds > 0)
      text += fmt::format(", one application {}", cell(one.application_seconds));
    if (one.setup_seconds > 0) text += ")";
    if (one.gained_seconds != 0)
      text += fmt::format("; {} {}", one.gained_seconds > 0 ? "gained about" : "lost about",
                          cell(std::abs(one.gained_seconds)));
    text += "\n";
  }
  return text;
}

}  // namespace protean::apps
