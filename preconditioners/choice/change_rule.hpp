// The rule by which preconditioner `auto` changes in the middle of a solve: a pure function of numbers that its caller
// measures. Private; systems/ uses it.
//
// A solve begins with the cheapest type, called the first one here. The residuals forecast how many iterations are left
// (ResidualForecast), and the measured time of an iteration says how long these take. A table of measured systems says
// what each candidate would take instead. A candidate is set up between two iterations if
//   gain   = time left - its iterations - its setup           is positive with the likely forecast, and
//   price  = an upper bound of its setup + two short trials   is within the account. A trial has 8 iterations, or as
//            many as are predicted if these are fewer. It ends with a cycle of the method (SolverEntry::cycle), because
//            the residual falls unevenly within one: cycles of up to 8 iterations are never cut, and a longer one only
//            if the account does not pay for the rest of it.
// The account compares what was spent so far on looks, setups and trials (and the price) with S, the time of the
// iterations that have reduced the residual:
//   - at most 10 % of S, whatever is left, or
//   - at most half of S + the time left by a cautious forecast, if that alone pays for the candidate as bad as it may
//     be (`doubt`), with a tenth of its price to spare. The cautious forecast is 1.4 times Forecast::low, which is half
//     of the smallest estimate, and at most 1.5 times the iterations done, which it is if the residual does not fall
//     (half of the iterations that the caller expects, if the solve is in its first half). So this is at most 1.25 S
//     without an expectation.
// So the solve takes at most 1.1 times as long as with the first type alone while no forecast is used, 1.5 times if
// the cautious one holds, and 2.25 times if no iterations are left although it predicted some. The account belongs to
// this rule alone: the policy of the formats has its own (operators/policy/switch_policy.hpp), whose times are times of
// products of one matrix. The two bounds add up.
//
// A setup ends when it would overdraw the account. One application then gives the true price of an iteration; a
// candidate that is too slow is dropped. Otherwise a few iterations with it are tried on a copy of x, while the present
// iterations wait: what they have built up, which makes Krylov methods faster and faster, would be lost by a change
// that is taken back. If the residual falls faster there than the forecast says of the first type, the method goes on
// with the candidate. It is watched further: loss = seconds since the change - seconds in which the first type would
// have come as far.
// If the loss is more than a trial, the first type comes back; cycles of up to 8 iterations are judged at their ends. A
// candidate is tried once, or a second time if its setup was ended by the account. So one that is refused, fails, or
// does not pass its trial has cost its time and no more.
//
// In deterministic mode times decide nothing: an iteration of the first type lasts 1, and the table has all others.
//
// With several right-hand sides the column that has furthest to go gives the residual. A setup serves all of them; an
// application is computed for each, unless the candidate has them in one pass.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operators/policy/forecast.hpp"
#include "preconditioners/choice/choice.hpp"

namespace protean::detail {

// What it may take in the middle of a solve. Times are in iterations of the first type with the matrix as it was at the
// beginning of the solve, in csr on a host; the format may get faster later. The iterations are those of a method with
// one product and one M^-1 r in each, such as cg.
struct ChangeCandidate {
  std::string_view id;
  Space space;
  bool for_symmetric;  // needs a symmetric matrix
  bool symmetric;      // M is symmetric if A is
  bool for_diffusion;  // or for a system with near_null_space, for which it takes twice `least`
  // Predicted iterations: `least` for each eight digits, but at least factor times the iterations that are left.
  double least, factor;
  double application;  // time of M^-1 r
  double setup;
  double doubt;  // the time of its iterations may be this many times the predicted one
  // What an iteration and the setup take in any system, in seconds: launches, and waiting for the device.
  double iteration_seconds = 0, setup_seconds = 0;
  double setup_bound = 1.4;  // upper bound of a setup / the predicted one
  bool one_pass = false;     // M^-1 of several vectors is one pass over it, except in deterministic mode
};
std::span<const ChangeCandidate> change_candidates() noexcept;
// In place of these, if it is not empty. For tests, which then need no long solves.
inline std::span<const ChangeCandidate> other_change_candidates;

struct ChangeSituation {
  Space space = Space::host;
  bool needs_symmetric = false;  // the method takes symmetric preconditioners only
  bool near_null_space = false;  // aggregation is given the vectors that its coarser levels need
  bool deterministic = false;
  double goal = 1e-8;  // the relative residual at which the solve ends
  std::int64_t max_iterations = 10000;
  std::int64_t cycle = 1;     // of the method, SolverEntry::cycle
  double products = 1;        // of the method in an iteration, SolverEntry::products, and as many M^-1 r
  std::int64_t expected = 0;  // iterations with the first type; 0: not known
  // Right-hand sides that are solved together. An iteration of all of them is one iteration here, which takes as long
  // as `iteration_of_columns` iterations of one of them.
  std::int64_t columns = 1;
  double iteration_of_columns = 1;
};

enum class ChangeStep : unsigned char {
  go_on,
  look,  // the caller looks at the matrix, calls note_traits(), and asks again
  set_up,  // the caller sets `candidate` up in at most `limit` seconds, and calls note_setup() or note_failure()
  go_back  // the first type comes back
};

struct ChangeOrder {
  ChangeStep step = ChangeStep::go_on;
  const ChangeCandidate* candidate = nullptr;
  double limit = 0;  // infinite in deterministic mode
};

class ChangeRule {
 public:
  explicit ChangeRule(ChangeSituation situation,
                      std::span<const ChangeCandidate> candidates = change_candidates());

  // Never this one, such as one that an earlier solve has tried.
  void exclude(std::string_view id);
  // The solve also ends at this relative residual, by an absolute tolerance.
  void raise_goal(double goal) noexcept { situation_.goal = std::max(situation_.goal, goal); }
  // A part of the solve begins: the first one, or after a change or a way back. seconds: of any clock.
  void begin_part(double seconds);
  // After an iteration of the part; the relative residual refers to the whole solve.
  ChangeOrder on_iteration(std::int64_t iteration, double relative_residual, double seconds);
  // The same again, after note_traits(), note_failure(), or note_setup() or note_trial() that said no.
  ChangeOrder again();
  // The iterations go on at this time; the time since on_iteration() does not count for them.
  void resume(double seconds) noexcept;

  void note_traits(const ChoiceTraits& traits, double seconds);
  // The candidate is ready. setup: seconds; application: of one M^-1 r of all columns; all: of both, and of finding
  // out. Returns whether iterations_of_trial() iterations are to be tried with it, and note_trial() or note_failure()
  // is to be called; if not, reason() says why. Iterations may go on before.
  bool note_setup(double setup, double application, double all);
  int iterations_of_trial() const noexcept { return trial_; }
  // The trial has reduced the logarithm of the residual by `fall`, in this many seconds of its iterations. all: with
  // its beginning and end. Returns whether the solve goes on with the candidate; then note_change() is to be called.
  bool note_trial(double fall, double seconds, double all);
  // It could not be set up. too_long: because its limit had passed; then it may be tried once more, with a setup that
  // is predicted to take twice as long.
  void note_failure(double seconds, std::string_view why, bool too_long = false);
  // The solve has changed to the candidate, or has gone back from it.
  void note_change();
  void note_way_back(std::string_view why = {});

  const ChangeCandidate* current() const noexcept { return current_; }  // null: the first one
  bool has_traits() const noexcept { return known_traits_; }
  const ChoiceTraits& traits() const noexcept { return traits_; }
  // Why the last set_up or go_back was ordered, or note_setup() said no; for a person.
  const std::string& reason() const noexcept { return reason_; }
  // What was spent: looks, setups, applications, and losses of trials that have ended. The time of the iterations.
  double spent() const noexcept { return spent_; }
  double useful() const noexcept;
  // Of the candidate in use: what it has gained so far, its setup included; negative for a loss. 0 in deterministic
  // mode, which measures no iterations.
  double gained() const noexcept;
  // As they were measured.
  double application() const noexcept { return measured_application_; }
  double setup_seconds() const noexcept { return measured_setup_; }
  // Of the first type: seconds of an iteration, and the iterations that the whole solve would have taken.
  double unit() const noexcept;
  double all_iterations() const noexcept { return first_iterations_ + remaining_; }
  std::int64_t first_iterations() const noexcept { return static_cast<std::int64_t>(first_iterations_); }

 private:
  struct Offer {
    const ChangeCandidate* candidate = nullptr;
    double gain = 0, price = 0, setup = 0, solve = 0, trial = 0, allowed = 0;
    bool by_forecast = false;
  };
  struct Untried {
    const ChangeCandidate* candidate;
    double setup = 1;  // times the setup of the table
  };
  ChangeOrder consider();
  Offer offer(const Untried& one, const Forecast& left) const;
  bool fits(const ChangeCandidate& candidate) const;
  double iterations_of(const ChangeCandidate& candidate, double iterations) const;
  double application_of(const ChangeCandidate& candidate) const noexcept;
  double measured_iteration() const noexcept { return unit_ + situation_.products * application_; }
  double seconds_of_iteration(const ChangeCandidate& candidate) const;
  double look_price() const noexcept;
  bool has_short_cycles() const noexcept;
  double shortest_trial() const noexcept;
  double whole_cycles(double iterations) const noexcept;
  double cautious(const Forecast& left) const;
  double allowed(double low) const;
  double loss() const noexcept;
  Forecast forecast() const;
  void note_time(double iterations, double seconds);
  void measure_unit(double gap);

  ChangeSituation situation_;
  std::vector<Untried> left_;
  const ChangeCandidate* current_ = nullptr;
  const ChangeCandidate* being_set_up_ = nullptr;
  ChoiceTraits traits_;
  bool known_traits_ = false;
  std::string reason_;

  // The part that runs.
  ResidualForecast residuals_;
  std::int64_t iteration_ = 0, next_look_ = 0, waited_ = 0;
  double start_log_ = 0, log_ = 0, least_log_ = 0;  // logarithms of the relative residual
  bool has_residual_ = false;

  double last_ = 0;         // of the caller's clock, when the iterations went on
  double part_useful_ = 0;  // seconds of the part
  double useful_ = 0;       // of earlier parts
  double spent_ = 0, first_iterations_ = 0, remaining_ = 0;
  double unit_ = 0, first_unit_ = 0;  // of the first type: now, and at the beginning
  std::array<double, 16> gaps_{};
  std::int64_t gap_count_ = 0;

  // Of the candidate in use, or being set up.
  Offer taken_;
  double setup_factor_ = 1;
  double rate_ = 0;    // the fall of the logarithm per second before the change, by the likely forecast
  double before_ = 0;  // log_ then
  int trial_ = 0;      // iterations
  double application_ = 0, setup_seconds_ = 0, most_loss_ = 0;
  double measured_application_ = 0, measured_setup_ = 0;
};

}  // namespace protean::detail
