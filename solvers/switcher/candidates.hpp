// What a running solve could change to, with what each candidate costs. Private to solvers/.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operators/policy/cost_model.hpp"
#include "operators/policy/reason.hpp"
#include "operators/policy/switch_policy.hpp"
#include "operators/policy/switch_records.hpp"
#include "solvers/decision_records.hpp"

namespace protean::detail {

inline constexpr std::string_view callers_order = "none";  // FormatSpec::order

// One thing to change to: the target that the operator is asked for, and its cost. Only Prices and OtherOrder look at
// what of the matrix a target changes; for all others it is a name with seconds.
struct Candidate {
  SwitchTarget target;
  std::string format;  // its name in the machine table
  std::string
      storage;  // the same, with the precision of its values if it is another one than that of the table
  // As the rule sees it: name, bytes, times that are measured or predicted, whether it may be chosen.
  SwitchCandidate seen;
  // Its times by the cost model. If relative, they are in units of a product of candidate `reference`, otherwise in
  // seconds.
  struct Estimate {
    CostPrediction cost = {};
    bool relative = true;
    std::size_t reference = 0;
  } estimate = {};
  double built_seconds = 0;  // its build by all threads, without its order; 0: it was not built
  bool ran = false;
  // The last predictions before it ran.
  double predicted_product = 0, predicted_convert = 0, predicted_uncertainty = 0;
  double correcting =
      0;  // the part of seen.product_seconds in which b - A x is computed with the given values
  double measured_product = 0, measured_convert = 0;

  CandidateRecord record() const;
};

// All candidates, and which one the solve uses. An index stays the same until clear().
class Candidates {
 public:
  // elements: what the table calls the element matrices of the operator; empty if there are none.
  explicit Candidates(std::string_view elements) : elements_(elements) {}

  std::size_t size() const noexcept { return all_.size(); }
  Candidate& operator[](std::size_t i) noexcept { return all_[i]; }
  const Candidate& operator[](std::size_t i) const noexcept { return all_[i]; }
  auto begin() noexcept { return all_.begin(); }
  auto end() noexcept { return all_.end(); }

  std::size_t first() const noexcept { return first_; }
  std::size_t current() const noexcept { return current_; }
  bool in_first() const noexcept { return current_ == first_; }

  // Adds the target in this order of the rows. If it throws, nothing was added.
  void add(SwitchTarget target, const std::string& order);
  // The candidate of this storage and order; size() if there is none.
  std::size_t find(std::string_view storage, std::string_view order) const noexcept;
  // Takes over what a later survey says of candidate i, which has not run in its order.
  void renew(std::size_t i, SwitchTarget target);
  void clear() noexcept;

  // The solve has begun with candidate i, whose matrix has these bytes.
  void start_in(std::size_t i, std::size_t bytes) noexcept;
  // The solve goes on in candidate i, in which it was left by somebody else.
  void found_in(std::size_t i) noexcept { current_ = i, estimated_ = false; }
  // The solve has changed to candidate i, whose matrix has these bytes.
  void change_to(std::size_t i, std::size_t bytes);

  // It is not tried again.
  void lose(std::size_t i, const Why& why);
  // The change to it has failed. An order that failed with one format is not tried with another one: its price would
  // be paid again.
  void fail(std::size_t i, const Why& why);
  // It cannot be chosen.
  void exclude(std::size_t i, const Why& why);
  // Whether candidates that round their values may be chosen from here on. It cannot be said of one of them alone.
  void let_round(bool allowed) noexcept { may_round_ = allowed; }
  bool rounds(std::size_t i) const noexcept { return all_[i].target.rounds; }
  // What has been measured of one that rounds is so for all: as many times the iterations are needed.
  void stretch_of_rounding(double stretch, double uncertainty) noexcept;
  // None of them is tried again.
  void lose_rounding(const Why& why);

  // Whether the estimates of all belong to the current candidate.
  bool estimated() const noexcept { return estimated_; }
  void estimates_made() noexcept { estimated_ = true; }
  void forget_estimates() noexcept { estimated_ = false; }
  // The candidate that ran last in this order, and was measured; size() if there is none.
  std::size_t last_measured_in(const std::string& order) const;

  // All candidates as the rule sees them, until the next call.
  std::span<const SwitchCandidate> seen();
  std::vector<CandidateRecord> records() const;

 private:
  std::string elements_;
  std::vector<Candidate> all_;
  std::size_t first_ = 0, current_ = 0;
  bool estimated_ = false, may_round_ = true;
  std::map<std::string, std::size_t> last_in_;  // order -> candidate
  std::vector<SwitchCandidate> seen_;
};

}  // namespace protean::detail
