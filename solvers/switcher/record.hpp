// The record of a solve: decisions, and how many changes there were. The operator keeps the changes and the failures
// themselves. Private to solvers/.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operators/policy/reason.hpp"
#include "operators/policy/switch_policy.hpp"
#include "operators/policy/switch_records.hpp"
#include "solvers/decision_records.hpp"

namespace protean::detail {

class SwitchLog {
 public:
  // listener: called after each change with one line for a person, unless it is empty then. It must outlive this
  // object.
  explicit SwitchLog(const std::function<void(const std::string&)>& listener) : listener_(listener) {}

  // Begins a solve.
  void begin() noexcept { decisions_.clear(), switches_ = 0; }
  bool empty() const noexcept { return decisions_.empty(); }
  // A decision of the rule about the candidate of this name, `seconds` after the solve began. A repeated decision to
  // stay, for the same reason with other figures, is not recorded.
  void add(const SwitchDecision& decision, const std::string& candidate, std::int64_t iteration,
           double seconds);
  // A decision to stay that the rule has not made. what: the candidate, or the order; empty if there is none.
  void add_stay(std::string what, Why why, std::int64_t iteration, double seconds);
  // Counts a change to another candidate than the first.
  void count() noexcept { ++switches_; }
  int switches() const noexcept { return switches_; }
  void tell(const SwitchRecord& change, std::string_view how) const;
  std::span<const DecisionRecord> decisions() const noexcept { return decisions_; }

 private:
  const std::function<void(const std::string&)>& listener_;
  std::vector<DecisionRecord> decisions_;
  int switches_ = 0;
};

}  // namespace protean::detail
