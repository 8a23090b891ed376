#include "solvers/switcher/record.hpp"

#include <fmt/format.h>

#include <utility>

namespace protean::detail {
namespace {

constexpr std::size_t most_decisions = 500;  // largest number of decisions recorded

std::string milliseconds(double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); }

}  // namespace

void SwitchLog::add(const SwitchDecision& decision, const std::string& candidate, std::int64_t iteration,
                    double seconds) {
  DecisionRecord entry;
  entry.iteration = iteration, entry.seconds = seconds, entry.action = decision.action;
  entry.format = candidate;
  entry.gain_seconds = decision.gain_seconds, entry.cost_seconds = decision.cost_seconds;
  entry.worst_seconds = decision.worst_seconds, entry.excess_seconds = decision.excess_seconds;
  entry.allowed_seconds = decision.allowed_seconds;
  entry.remaining = decision.remaining, entry.why = decision.why, entry.reason = text_of(decision.why);
  if (decision.action == SwitchAction::stay && !decisions_.empty() &&
      decisions_.back().action == SwitchAction::stay && decisions_.back().format == entry.format &&
      same_but_for_numbers(decisions_.back().why, entry.why))
    return;
  if (decisions_.size() < most_decisions) decisions_.push_back(std::move(entry));
}

void SwitchLog::add_stay(std::string what, Why why, std::int64_t iteration, double seconds) {
  DecisionRecord entry;
  entry.iteration = iteration, entry.seconds = seconds;
  entry.format = std::move(what);
  entry.reason = text_of(why), entry.why = std::move(why);
  decisions_.push_back(std::move(entry));
}

void SwitchLog::tell(const SwitchRecord& change, std::string_view how) const {
  if (!listener_) return;
  const std::string order = change.from_order == change.to_order
                                ? ""
                                : fmt::format(", order {} -> {}", change.from_order, change.to_order);
  const std::string values = change.from_values == change.to_values
                                 ? ""
                                 : fmt::format(", values {} -> {}", change.from_values, change.to_values);
  listener_(fmt::format("iteration {}: {} -> {}{}{}, {} ({})", change.iteration, change.from, change.to,
                        order, values, how, milliseconds(change.convert_seconds)));
}

}  // namespace protean::detail
