// Which formats are considered: whether a survey of them pays, its results, and those of a survey in another order.
#include "solvers/auto_switcher.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <system_error>

#include "core/background.hpp"
#include "core/signals_blocked.hpp"
#include "operators/kernel_loading.hpp"
#include "operators/policy/adaptive_operator.hpp"

namespace protean {
namespace {

constexpr std::string_view callers_order = "none";
// What a change costs as a rule, and at least, in products: the build, the comparison and a trial. A survey that is
// little against the whole solve may be made for a cheap one.
constexpr double usual_change = 20, cheap_change = 10, little_of_a_solve = 0.03;
constexpr double usual_gain = 0.3;  // the most that a change saves as a rule, of the time that is left

}  // namespace

// The first survey of a process loads kernels, and the change that it may advise loads more of them.
template <class T>
bool AutoSwitcher<T>::first_survey_pays() const {
  const double price = has_real_device() ? detail::first_survey_seconds(*A_.context()) : 0;
  if (price <= (options_.policy.worst_factor - 1) * time_.stay_seconds()) return true;
  const Forecast left = this->remaining();
  return left.known && usual_gain * left.low * time_.first_pace() >= price + detail::kernel_loading_seconds;
}

// A survey does not pay in a solve that is about to end. On the host the solve waits for the survey, so its
// cost is compared with the account, like the cost of a conversion.
template <class T>
bool AutoSwitcher<T>::survey_pays(std::int64_t iteration) const {
  const Forecast left = this->remaining();
  const bool long_enough = iteration >= 64 || (left.known && left.likely >= 32);
  if (!long_enough) return false;
  // The forecast of an order takes about a product, in this thread unless there is another one for builds.
  const bool forecast_here = !forecasts_beside() && why_no_order().reason == Reason::none;
  const double price = options_.survey_seconds + (forecast_here ? A_.seconds_per_product() : 0);
  if (on_device()) return pays_beside(price) && first_survey_pays();
  // A survey alone gains nothing: the account or the forecast must pay for a change as well.
  const double product = A_.seconds_per_product(),
               left_for_certain = left.known ? left.low * time_.first_pace() : 0;
  const bool little = price <= little_of_a_solve * (time_.stay_seconds() + left_for_certain);
  const double with_change = price + (little ? cheap_change : usual_change) * product;
  if (with_change <= (options_.policy.worst_factor - 1) * time_.stay_seconds()) return true;
  return usual_gain * left_for_certain >= with_change &&
         price <= (options_.policy.forecast_factor - 1) / 2 * time_.stay_seconds();
}

template <class T>
bool AutoSwitcher<T>::survey_ready() {
  if (surveyed_) return true;
  if (!survey_started_) {
    if (!survey_pays(last_iteration_)) return false;
    survey_started_ = true;
    if (!on_device()) begin_order_forecast();
    // On the host in this thread at once, on a device in another thread beside the solve.
    const bool beside = on_device();
    const auto work = [this, beside] {
      if (!beside) return survey_();
      // On a stream of its own, so that it waits for no iterations, and ended with the solve.
      const BackgroundWork background(A_.context(), leaving_, 1, nullptr, BackgroundPriority::before_solve);
      return survey_();
    };
    const double begin = A_.now();
    try {
      const detail::SignalsBlocked blocked;
      process_ = getpid();
      surveying_ = std::async(beside ? std::launch::async : std::launch::deferred, work);
    } catch (const std::system_error& error) {  // no thread
      record_stay({}, {.reason = Reason::survey_failed, .other = error.what()});
    }
    if (!beside) surveying_.wait();
    survey_took_ = A_.now() - begin;
  }
  if (surveying_.valid()) {
    if (surveying_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    try {
      for (SwitchTarget& target : surveying_.get())
        add_candidate(std::move(target), std::string(A_.order_id()));
    } catch (const std::exception& error) {
      // The solve continues in the current format, which is then the only candidate.
      record_stay({}, {.reason = Reason::survey_failed, .other = error.what()});
    }
  }
  std::size_t first = targets_.size();
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (targets_[i].admitted && A_.runs(targets_[i].spec)) first = i;
  if (first == targets_.size()) {
    SwitchTarget present;
    if (A_.on_elements()) {
      present.spec.elements = true;
    } else {
      const AssembledMatrix<T>& running = A_.current();
      const bool standard =
          running.kernel() == kernels_in(running.entry(), A_.context()->space()).front().name;
      present.spec = {&running.entry(), running.params(), standard ? "" : std::string(running.kernel())};
    }
    add_candidate(std::move(present), std::string(A_.order_id()));
  }
  // Nothing throws from here on: either all of it is known or, in a later solve, it is asked for again.
  surveyed_ = true;
  first_ = current_ = first;
  targets_[first_].bytes = candidates_[first_].bytes = records_[first_].bytes = A_.running_bytes();
  records_[first_].ran = true;
  return true;
}

// Adds it to all lists or, where memory is missing, to none.
template <class T>
void AutoSwitcher<T>::add_candidate(SwitchTarget target, const std::string& order) {
  const auto grow = [](auto& list) {
    if (list.size() == list.capacity()) list.reserve(2 * list.size() + 8);
  };
  grow(targets_), grow(formats_), grow(built_), grow(candidates_), grow(records_);
  target.spec.order.clear();
  std::string format = target.spec.elements ? std::string(A_.elements()->name()) : target.spec.name();
  target.spec.order = order;
  SwitchCandidate candidate;
  candidate.name = order == callers_order ? format : fmt::format("{} in order {}", format, order);
  candidate.order = order, candidate.bytes = target.bytes;
  candidate.admitted = target.admitted, candidate.why = target.why;
  CandidateRecord seen;
  seen.format = candidate.name, seen.admitted = candidate.admitted, seen.why = candidate.why;
  seen.bytes = candidate.bytes;
  seen.order = order;
  formats_.push_back(std::move(format));
  targets_.push_back(std::move(target)), built_.push_back(0);
  candidates_.push_back(std::move(candidate)), records_.push_back(std::move(seen));
  estimated_ = false;
}

// Finds the candidate that the matrix is in now. The caller may have changed the format. New element matrices put the
// matrix back to element matrices.
template <class T>
void AutoSwitcher<T>::find_current() {
  estimated_ = false;
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (candidates_[i].admitted && A_.runs(targets_[i].spec)) return void(current_ = i);
  // It is none that was surveyed, so all begins anew.
  surveyed_ = survey_started_ = false;
  targets_.clear(), formats_.clear(), built_.clear(), candidates_.clear(), records_.clear(), last_in_.clear();
  time_.forget_first();
  first_ = current_ = 0;
}

// Surveys the formats again after a change of order: their bytes are other ones, and others may be possible. The
// survey is made only where the account allows its time.
template <class T>
void AutoSwitcher<T>::survey_new_order() {
  const std::string order = candidates_[current_].order;
  // A survey needs the pattern in host memory. That of the first order is there, that of a later one only on the
  // device.
  if (on_device()) return;
  if (new_order_surveyed_ || order == candidates_[first_].order ||
      excess() + survey_took_ > (options_.policy.worst_factor - 1) * time_.stay_seconds())
    return;
  new_order_surveyed_ = true;
  std::vector<SwitchTarget> found;
  try {
    found = survey_();
  } catch (const std::exception&) { return; }  // the predictions stay those of the first survey
  for (SwitchTarget& target : found) {
    target.spec.order.clear();
    const std::string format = target.spec.name();
    std::size_t i = 0;
    while (i < targets_.size() && (formats_[i] != format || candidates_[i].order != order)) ++i;
    if (i == targets_.size()) {
      add_candidate(std::move(target), order);
    } else if (!records_[i].ran) {
      target.spec.order = order;
      candidates_[i].bytes = records_[i].bytes = target.bytes;
      candidates_[i].admitted = records_[i].admitted = target.admitted;
      if (!candidates_[i].lost) candidates_[i].why = records_[i].why = target.why;
      targets_[i] = std::move(target);
    }
  }
  estimated_ = false;
}

#define PROTEAN_INSTANTIATE(T)                                                                 \
  template bool AutoSwitcher<T>::first_survey_pays() const;                                    \
  template bool AutoSwitcher<T>::survey_pays(std::int64_t iteration) const;                    \
  template bool AutoSwitcher<T>::survey_ready();                                               \
  template void AutoSwitcher<T>::add_candidate(SwitchTarget target, const std::string& order); \
  template void AutoSwitcher<T>::find_current();                                               \
  template void AutoSwitcher<T>::survey_new_order();
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean
