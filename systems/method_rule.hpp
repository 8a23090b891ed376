// The rule by which method `auto` changes in the middle of a solve. Private to systems/.
//
// The reason with which a method ends without a solution says what it cannot do, and a table (method_rule.cpp) names a
// method that can. The solve goes on with that method from its x. A solve changes at most three times, and takes no
// method twice, except gmres with longer cycles. A solve that only the rounding of the matrix stops does not go on, and
// neither does a solve that a limit, the observer, infinite numbers or a system without a solution has ended.
//
// The residual of gmres, which restarts after each cycle, of bicgstab and of idr may hardly fall although another
// method would solve the system. They do not notice this: SlowProgress forecasts the iterations that are left.
//
// Both decide by reasons, residuals and counts, not by times, so deterministic mode has the same bits.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/policy/forecast.hpp"
#include "solvers/stopping.hpp"

namespace protean::detail {

// A line of the table: after `from` has ended for this reason, `to` goes on.
struct MethodStep {
  std::string_view from;
  StopReason reason;
  std::string_view to, why;  // why: for a person
};

// How a method has ended.
struct MethodEnd {
  std::string_view method;
  StopReason reason = StopReason::stagnation;
  bool rounding = false;   // the recurrence of the method has reached the goal, and b - A x has not followed
  bool symmetric = false;  // the matrix, as it is now
  bool symmetric_only = false;  // there is a null space, which only methods for symmetric matrices take
  std::int64_t restart = 30;    // of gmres, as it is set
  std::int64_t longest = 30;    // restart of gmres for which there is memory, at least `restart`
  std::string how = {};         // for a person; empty: "cg ended with breakdown"
};

struct NextMethod {
  std::string_view method;
  std::int64_t restart = 0;  // of gmres
  std::string reason;        // for a person
};

class MethodRule {
 public:
  // The method that goes on; empty if there is none.
  std::optional<NextMethod> after(const MethodEnd& end) const;
  // Records that it goes on.
  void note(const MethodEnd& end, const NextMethod& next);

 private:
  bool was_used(std::string_view method) const;

  std::vector<std::string_view> used_;
  std::int64_t changes_ = 0, restart_ = 0;
};

// Decides whether the iterations lead to the goal. It is asked every `every` iterations, from a share of max_iterations
// and four times `every` on. They do not if, by the likely forecast (ResidualForecast), they take more than twice the
// iterations that are left, or if the residual does not fall.
class SlowProgress {
 public:
  struct Looks {
    std::int64_t every = 100;
    bool cycles = false;  // of gmres: `every` is its restart
    double share = 0.1;
  };
  // goal: the norm of the residual at which the solve ends.
  SlowProgress(double goal, std::int64_t max_iterations, Looks looks)
      : goal_(goal), max_iterations_(max_iterations), looks_(looks) {}
  // After an iteration. Returns whether the method is to be given up here.
  bool add(std::int64_t iteration, double residual);
  const std::string& reason() const noexcept { return reason_; }  // for a person

 private:
  double goal_;
  std::int64_t max_iterations_;
  Looks looks_;
  ResidualForecast residuals_;
  std::string reason_;
};
// For a method that auto takes; nothing if it is not given up for its residuals. restart: of gmres.
std::optional<SlowProgress::Looks> looks_of(std::string_view method, std::int64_t restart) noexcept;

}  // namespace protean::detail
