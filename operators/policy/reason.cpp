#include "operators/policy/reason.hpp"

#include <fmt/format.h>

namespace protean {
namespace {

std::string time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

// Parts of the price that has just been named. Empty if no steps are recorded and no kernels loaded.
std::string parts(const Why& w) {
  std::string all;
  if (w.record_seconds > 0) all = fmt::format(" ({} of it to record the steps anew", time(w.record_seconds));
  if (w.load_seconds > 0)
    all += fmt::format("{}{} to load kernels for the first time", all.empty() ? " (" : ", ",
                       time(w.load_seconds) + (all.empty() ? " of it" : ""));
  return all.empty() ? all : all + ")";
}

// After "the order of the rows stays: ". Empty for other reasons.
std::string why_order_stays(const Why& w) {
  switch (w.reason) {
    case Reason::order_of_elements:
      return "the system was given as element matrices, which keep theirs";
    case Reason::order_deterministic:
      return "in deterministic mode the result may not depend on the time at which it changes";
    case Reason::order_not_square:
      return "the matrix is not square";
    case Reason::order_cached:
      return fmt::format("x of {} rows is in the caches in any order", w.count);
    case Reason::order_present:
      return fmt::format("it is {} already", w.name);
    case Reason::order_unavailable:
      return fmt::format("order {} is not in this build: {}", w.name, w.other);
    case Reason::order_shared:
      return "several solves compute with this operator";
    case Reason::order_unpriced:
      return fmt::format(
          "the solve would wait while it is found, and the machine table does not say how long that takes "
          "(order-{}); `protean tune` measures it, schedule.overlapped: true finds it next to the solve",
          w.name);
    case Reason::order_no_thread:
      return fmt::format("no thread could be started for the forecast of its gain: {}", w.other);
    case Reason::order_not_forecast:
      return fmt::format("the forecast of its gain failed: {}", w.other);
    case Reason::order_small_gain:
      return fmt::format(
          "{}, so a product of csr would save {:.1f} % of its time; at least {:.0f} % are wanted", w.other,
          100 * w.share, 100 * w.least_share);
    case Reason::order_many_levels:
      return fmt::format("a search has about {:.0f} levels, which suits a GPU badly (at most {})",
                         w.iterations, w.count);
    default:
      return {};
  }
}

}  // namespace

std::string text_of(const Why& w) {
  if (const std::string order = why_order_stays(w); !order.empty())
    return "the order of the rows stays: " + order;
  switch (w.reason) {
    case Reason::not_measured:
      return "the product of the current format has not been measured yet";
    case Reason::no_other:
      return "there is no other format to change to";
    case Reason::building:
      return fmt::format("{} is being built", w.name);
    case Reason::ready_too_late:
      return fmt::format("{} is ready, but only about {:.0f} iterations remain; adopting it would cost more",
                         w.name, w.iterations);
    case Reason::most_switches:
      return fmt::format(
          "the format has been changed {} {}, the largest number allowed; ways back to the first format do "
          "not count",
          w.count, w.count == 1 ? "time" : "times");
    case Reason::small_gain:
      return fmt::format("no format is expected to be faster by {:.0f} % of an iteration",
                         100 * w.least_share);
    case Reason::does_not_pay:
      return fmt::format(
          "{} would save {} an iteration and cost {}{}: that pays after {:.0f} iterations, and about {:.0f} "
          "remain",
          w.name, time(w.gain_seconds), time(w.cost_seconds), parts(w), w.iterations, w.more_iterations);
    case Reason::beyond_account:
      return fmt::format(
          "{} may cost {}{}; the account allows {} so far, and the forecast does not justify more", w.name,
          time(w.cost_seconds), parts(w), time(w.allowed_seconds));
    case Reason::no_gain_by_table:
      return "by the machine table no change pays for the products that would be timed before it";
    case Reason::rows_kept:
      return "the solve keeps the matrix in the shared memory of the GPU (device_steps resident), so the "
             "format does not matter";
    case Reason::survey_failed:
      return fmt::format("the survey of formats failed: {}", w.other);
    case Reason::not_approved:
      return fmt::format("{} would pay here, but the other ranks have not agreed to it", w.name);
    case Reason::no_memory:
      return fmt::format("there is no memory for the vectors with which a product would be timed: {}",
                         w.other);
    case Reason::shared:
      return "another solve uses the matrix at the same time, so its format stays";
    case Reason::within_account:
      return fmt::format(
          "{} would save {} an iteration; its cost of at most {}{} is within the allowance of {}", w.name,
          time(w.gain_seconds), time(w.cost_seconds), parts(w), time(w.allowed_seconds));
    case Reason::by_forecast:
      return fmt::format(
          "{} would save {} an iteration; at least {:.0f} iterations remain, which save {} for a cost of at "
          "most {}{}",
          w.name, time(w.gain_seconds), w.iterations, time(w.allowed_seconds), time(w.cost_seconds),
          parts(w));
    case Reason::ready:
      return fmt::format("{} is ready", w.name);
    case Reason::build_dear:
      return fmt::format("building {} has cost {}; at most {} were predicted", w.name, time(w.cost_seconds),
                         time(w.allowed_seconds));
    case Reason::build_over_limit:
      return fmt::format("building {} would exceed the allowance of {}; the excess is {} already", w.name,
                         time(w.allowed_seconds), time(w.cost_seconds));
    case Reason::slower_than_first:
      return fmt::format("a product takes {} in {}; it took {} in {}", time(w.cost_seconds), w.name,
                         time(w.allowed_seconds), w.other);
    case Reason::rounding_slows:
      return fmt::format(
          "undone: in {} the residual needs {:.2f} times the iterations, and an iteration in the first format takes "
          "{:.2f} times as long",
          w.name, w.share, w.least_share);
    case Reason::rounding_jumps:
      return fmt::format(
          "undone: after products in {} b - A x differs from the residual of the recurrence by {:.2g} of "
          "itself; at most {:.2g} is allowed",
          w.name, w.share, w.least_share);
    case Reason::rounding_left:
      return fmt::format("undone: the solve left values in float: {}", w.other);
    case Reason::rounding_refused:
      return fmt::format("values are not rounded to float: {}", w.other);
    case Reason::not_in_table:
      return "the machine table has no measurement of it";
    case Reason::change_failed:
      return w.other.empty() ? "it could not be built" : w.other;
    case Reason::order_failed:
      return fmt::format("the change to {} failed: {}", w.name, w.other);
    case Reason::solve_ended:
      return "the solve ended before it was adopted";
    default:
      return {};
  }
}

}  // namespace protean
