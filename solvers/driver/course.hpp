// The course of the solve of one system: its stopping rule, its report, and what follows from the numbers of its steps.
// The driver (driver.hpp) has a course for each right-hand side. It computes and carries out; the course alone decides.
// Private to solvers/.
//
// Between two steps:  judge()            the verdict, the observer and the limits say whether b - A x is needed;
//                     follow()           b - A x says what comes next;
//                     begun()            called when the method has begun again, if that is what comes next.
// After the end:      conclude()         looks at x and at M, and writes the advice.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "solvers/diagnosis.hpp"
#include "solvers/iteration_control.hpp"
#include "solvers/solve_report.hpp"

namespace protean::detail {

// What the courses of one solve share: names, and what courses that failed have found out about A and M. Each question
// is asked once.
struct Findings {
  std::string_view method, preconditioner;  // preconditioner: empty without one
  bool asked_for_symmetry = false;
  std::optional<bool> symmetric = {}, positive_diagonal = {};  // nothing: not known
  std::string why_not_symmetric = {};
  std::optional<std::string> fault = {};  // of M; empty: none was found
};

template <class T>
class Course;

// What a course asks of its driver, which takes products.
template <class T>
class Inquiry {
 public:
  // The system as it is computed, with b - A x of this course. No step follows unless the method begins again.
  virtual Evidence<T> evidence(const Course<T>& of) = 0;
  // The system in the caller's order, for questions about A and M alone: b, x and b - A x are any vectors. Asked for
  // after the end.
  virtual Evidence<T> evidence_for_caller() = 0;
  // Whether the next step can follow the last one now that x was looked at. Otherwise the method must begin again.
  virtual bool resumes(const Course<T>& of) = 0;
  // Whether products are with rounded values (HasGivenMatrix), and the method can go on after b - A x with the given
  // ones has replaced its residual.
  virtual bool renews(const Course<T>&) { return false; }
  // Has A compute with the given values from now on. False: it does already.
  virtual bool leaves_rounding(const std::string&) { return false; }

 protected:
  ~Inquiry() = default;
};

enum class Next : unsigned char {
  step,   // the next step follows the last one
  begin,  // the method begins again from b - A x
  renew,  // the method goes on with b - A x as its residual
  end
};

template <class T>
class Course {
 public:
  // Norms by SolverOptions::residual_norm, of which the tolerance is one; norms with `two` are 2-norms.
  struct Beginning {
    double rhs_norm, initial_residual, two_rhs_norm, two_initial_residual;
    double in_null_space = 0;           // 2-norm of the part of b in the null space
    double largest_inverse_weight = 1;  // no v has a 2-norm above this times its norm
  };

  Course(const StoppingRule& rule, Findings& findings) : rule_(rule), findings_(&findings) {}

  const StoppingRule& rule() const noexcept { return rule_; }
  // Set by begin().
  const IterationControl& control() const noexcept { return *control_; }
  SolveReport& report() noexcept { return report_; }
  const SolveReport& report() const noexcept { return report_; }
  const Verdict& verdict() const noexcept { return verdict_; }
  double relative(double residual) const noexcept { return control_ ? control_->relative(residual) : 0; }
  bool ended() const noexcept { return report_.reason != StopReason::running; }
  std::int64_t steps_since_begin() const noexcept { return steps_since_begin_; }
  // The method has to begin again, and has not yet.
  bool waits() const noexcept { return waits_; }
  // An iterate has a 2-norm of b - A x above it unless it meets the tolerance.
  double tolerance_of_2_norm() const noexcept { return control_->tolerance() * largest_inverse_weight_; }

  // With b = 0 no solve is needed: x = 0.
  void end_with_zero() { (void)end(StopReason::zero_right_hand_side); }
  // False: it has ended with its guess.
  bool begin(const Beginning& beginning);
  // The method has begun from b - A x, whose norm is in the report.
  void begun() noexcept {
    steps_since_begin_ = 0, waits_ = false;
    begun_from_ = largest_ = report_.true_residual;
  }
  // The method goes on with the residual that is in the report.
  void renewed() noexcept {
    largest_ = report_.true_residual;
    control_->restart(report_.true_residual, report_.iterations);
    verdict_.reached = false;
  }

  // That many steps were done since the last call. The verdict is on the last one; of no steps, on the state after the
  // method began.
  void stepped(std::int64_t steps, Verdict verdict) {
    report_.iterations += steps, steps_since_begin_ += steps;
    report_.recurrence_residual = verdict.residual;
    largest_ = std::max(largest_, verdict.residual);
    verdict_ = std::move(verdict);
  }
  // residuals: of the recurrence, of the last steps. go_on: the observer says so. seconds: since the solve began.
  void judge(std::span<const double> residuals, bool go_on, double seconds);
  // Whether the residual of a recurrence with rounded products is to be replaced by b - A x: it has become this part of
  // the largest one since the last time. What rounding has added to b - A x by then is a rounding of float times the
  // change of x since then, which is smaller each time.
  bool asks_for_correction() const noexcept {
    constexpr double part = 0.1;
    return !stops() && verdict_.residual < part * largest_;
  }
  // Products are not rounded: the next question comes when the residual has fallen as much again.
  void needs_no_correction() noexcept { largest_ = verdict_.residual; }
  // Whether the method must not go on as it is, whatever b - A x says.
  bool stops() const noexcept { return reason_ != StopReason::running; }
  // Whether b - A x decides what comes next. cycle_ended: no step is left before the method must begin again.
  bool asks_for_truth(bool cycle_ended) const noexcept { return stops() || verdict_.reached || cycle_ended; }
  // ||b - A x|| is in the report. new_values: A has others since the last step, and the recurrence is worthless.
  Next follow(bool new_values, bool cycle_ended, Inquiry<T>& ask);

  // The same if asks_for_correction(), and the driver has asked renews().
  Next correct(Inquiry<T>& ask);

  // After the end, when x is the caller's: bad is an entry of x that is not finite. Whatever the residual says, such an
  // x is not a solution.
  void conclude(const std::optional<BadEntry>& bad, Inquiry<T>& ask);

 private:
  Next end(StopReason reason, std::string detail = {});
  Next end_for_a_cause(StopReason reason, std::string detail, Inquiry<T>& ask);
  Next begin_again(bool planned);
  bool restart_helps() noexcept;
  bool leave_rounding(StopReason for_what, const std::string& detail, Inquiry<T>& ask);
  void ask_for_symmetry(const Evidence<T>& evidence, std::string& detail);

  StoppingRule rule_;
  Findings* findings_;
  std::optional<IterationControl> control_;
  SolveReport report_;
  Verdict verdict_;
  StopReason reason_ = StopReason::running;  // for which it may end
  std::string detail_;
  double two_rhs_norm_ = 0, two_initial_residual_ = 0, largest_inverse_weight_ = 1;
  bool waits_ = false;
  bool asked_for_solution_ = false;  // whether x exists at all, between two cycles
  std::int64_t steps_since_begin_ = 0;
  double begun_from_ = 0;  // the true residual when the method began last
  double largest_ = 0;     // residual of the recurrence since b - A x was its residual
  double smallest_restart_ = std::numeric_limits<double>::infinity();
  int fruitless_ = 0;
};

}  // namespace protean::detail
