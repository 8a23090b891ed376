// What is recorded of decisions, candidates and changes, and told to a person. Texts of reasons come from text_of().
#include "solvers/auto_switcher.hpp"

#include <fmt/format.h>

namespace protean {
namespace {

constexpr std::size_t most_decisions = 500;  // largest number of decisions recorded

std::string milliseconds(double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); }

}  // namespace

template <class T>
void AutoSwitcher<T>::record(const SwitchDecision& decision, const IterationInfo& info) {
  DecisionRecord entry;
  entry.iteration = info.iteration, entry.seconds = time_.since_begin(A_.now()),
  entry.action = decision.action;
  entry.format = candidates_[decision.candidate].name;
  entry.gain_seconds = decision.gain_seconds, entry.cost_seconds = decision.cost_seconds;
  entry.worst_seconds = decision.worst_seconds, entry.excess_seconds = decision.excess_seconds;
  entry.allowed_seconds = decision.allowed_seconds;
  entry.remaining = decision.remaining, entry.why = decision.why, entry.reason = text_of(decision.why);
  // A repeated decision to stay, for the same reason with other figures, is not recorded.
  if (decision.action == SwitchAction::stay && !decisions_.empty() &&
      decisions_.back().action == SwitchAction::stay && decisions_.back().format == entry.format &&
      same_but_for_numbers(decisions_.back().why, entry.why))
    return;
  if (decisions_.size() < most_decisions) decisions_.push_back(std::move(entry));
}

// Once for each solve.
template <class T>
void AutoSwitcher<T>::record_rows_kept(const IterationInfo& info) {
  if (!decisions_.empty()) return;
  DecisionRecord entry;
  entry.iteration = info.iteration, entry.seconds = elapsed(), entry.format = A_.running().name();
  entry.why.reason = Reason::rows_kept, entry.reason = text_of(entry.why);
  decisions_.push_back(std::move(entry));
}

// A decision that nobody else has recorded: to stay, for good.
template <class T>
void AutoSwitcher<T>::record_stay(std::string what, Why why) {
  DecisionRecord entry;
  entry.iteration = last_iteration_, entry.seconds = time_.since_begin(A_.now());
  entry.format = std::move(what);
  entry.reason = text_of(why), entry.why = std::move(why);
  decisions_.push_back(std::move(entry));
}

template <class T>
void AutoSwitcher<T>::leave_order(Why why) {
  record_stay(fmt::format("order {}", options_.order), std::move(why));
}

// One line for a person.
template <class T>
void AutoSwitcher<T>::tell(const SwitchRecord& change, const std::string& how) const {
  if (!on_switch) return;
  const std::string order = change.from_order == change.to_order
                                ? ""
                                : fmt::format(", order {} -> {}", change.from_order, change.to_order);
  on_switch(fmt::format("iteration {}: {} -> {}{}, {} ({})", change.iteration, change.from, change.to, order,
                        how, milliseconds(change.convert_seconds)));
}

template <class T>
std::vector<CandidateRecord> AutoSwitcher<T>::candidates() const {
  return records_;
}

#define PROTEAN_INSTANTIATE(T)                                                                      \
  template void AutoSwitcher<T>::record(const SwitchDecision& decision, const IterationInfo& info); \
  template void AutoSwitcher<T>::record_rows_kept(const IterationInfo& info);                       \
  template void AutoSwitcher<T>::record_stay(std::string what, Why why);                            \
  template void AutoSwitcher<T>::leave_order(Why why);                                              \
  template void AutoSwitcher<T>::tell(const SwitchRecord& change, const std::string& how) const;    \
  template std::vector<CandidateRecord> AutoSwitcher<T>::candidates() const;
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
