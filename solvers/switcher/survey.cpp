#include "solvers/switcher/survey.hpp"

#include <exception>
#include <system_error>
#include <utility>

#include "core/background.hpp"
#include "operators/kernel_loading.hpp"

namespace protean::detail {
namespace {

// What a change costs as a rule, and at least, in products: the build, the comparison and a trial. A survey that is
// little against the whole solve may be made for a cheap one.
constexpr double usual_change = 20, cheap_change = 10, little_of_a_solve = 0.03;
constexpr double usual_gain = 0.3;  // the most that a change saves as a rule, of the time that is left

}  // namespace

// The first survey of a process loads kernels, and the change that it may advise loads more of them.
template <class T>
bool FormatSurveys<T>::first_one_pays() const {
  const double price = s_.has_real_device() ? first_survey_seconds(*s_.A.context()) : 0;
  if (price <= s_.account()) return true;
  const Forecast left = s_.iterations.remaining();
  return left.known && usual_gain * left.low * s_.time.first_pace() >= price + kernel_loading_seconds;
}

// A survey does not pay in a solve that is about to end. On the host the solve waits for the survey, so its
// cost is compared with the account, like the cost of a conversion.
template <class T>
bool FormatSurveys<T>::pays() const {
  const Forecast left = s_.iterations.remaining();
  const bool long_enough = s_.iterations.last() >= 64 || (left.known && left.likely >= 32);
  if (!long_enough) return false;
  // The forecast of an order takes about a product, in this thread unless there is another one for builds.
  const bool forecast_here = !order_.beside() && order_.possible();
  const double price = s_.options.survey_seconds + (forecast_here ? s_.A.seconds_per_product() : 0);
  if (s_.on_device()) return s_.pays_beside(price) && first_one_pays();
  // A survey alone gains nothing: the account or the forecast must pay for a change as well.
  const double product = s_.A.seconds_per_product(),
               left_for_certain = left.known ? left.low * s_.time.first_pace() : 0;
  const bool little = price <= little_of_a_solve * (s_.time.stay_seconds() + left_for_certain);
  const double with_change = price + (little ? cheap_change : usual_change) * product;
  if (with_change <= s_.account()) return true;
  return usual_gain * left_for_certain >= with_change &&
         price <= (s_.options.policy.forecast_factor - 1) / 2 * s_.time.stay_seconds();
}

// On the host at once in this thread, on a device in another thread next to the solve.
template <class T>
void FormatSurveys<T>::begin() {
  if (!s_.on_device()) order_.ask();
  const bool beside = s_.on_device();
  const auto work = [this, beside] {
    if (!beside) return survey_();
    // On a separate stream, so that it waits for no iterations; it ends with the solve.
    const BackgroundWork background(s_.A.context(), s_.leaving, 1, nullptr, BackgroundPriority::before_solve);
    return survey_();
  };
  const double begun = s_.A.now();
  try {
    work_.begin(beside, work);
  } catch (const std::system_error& error) {  // no thread
    s_.stay({}, {.reason = Reason::survey_failed, .other = error.what()});
  }
  took_ = s_.A.now() - begun;
}

template <class T>
bool FormatSurveys<T>::ready() {
  if (done_) return true;
  if (!started_) {
    if (!pays()) return false;
    started_ = true;
    begin();
  }
  Candidates& candidates = s_.candidates;
  if (work_.asked()) {
    if (!work_.ready()) return false;
    try {
      for (SwitchTarget& target : work_.take())
        candidates.add(std::move(target), std::string(s_.A.order_id()));
    } catch (const std::exception& error) {
      // The solve continues in the current format, which is then the only candidate.
      s_.stay({}, {.reason = Reason::survey_failed, .other = error.what()});
    }
  }
  std::size_t first = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].target.admitted && s_.A.runs(candidates[i].target.spec)) first = i;
  if (first == candidates.size()) candidates.add(present(), std::string(s_.A.order_id()));
  // Nothing throws from here on: either all of it is known or, in a later solve, it is asked for again.
  done_ = true;
  candidates.start_in(first, s_.A.running_bytes());
  candidates[first].target.one_pass = s_.one_pass();
  return true;
}

template <class T>
SwitchTarget FormatSurveys<T>::present() const {
  SwitchTarget result;
  if (s_.A.on_elements()) {
    result.spec.elements = true;
    return result;
  }
  const AssembledMatrix<T>& running = s_.A.current();
  const bool standard = running.kernel() == kernels_in(running.entry(), s_.A.context()->space()).front().name;
  result.spec = {&running.entry(), running.params(), standard ? "" : std::string(running.kernel())};
  return result;
}

template <class T>
void FormatSurveys<T>::begin_another() {
  // What was not ready when the last solve ended is asked for again.
  if (work_.asked()) work_.forget(), started_ = false;
  if (done_) find_current();
}

// The caller may have changed the format. New element matrices put the matrix back to element matrices.
template <class T>
void FormatSurveys<T>::find_current() {
  Candidates& candidates = s_.candidates;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].seen.admitted || !s_.A.runs(candidates[i].target.spec)) continue;
    // With several right-hand sides there is no way back to another order.
    if (s_.columns.several && candidates[i].seen.order != candidates[candidates.first()].seen.order) break;
    if (i != candidates.current()) s_.time.changed();
    return candidates.found_in(i);
  }
  // It is not a surveyed format, so everything begins again.
  done_ = started_ = false;
  candidates.clear();
  s_.time.forget_first();
}

template <class T>
void FormatSurveys<T>::again_in_new_order() {
  Candidates& candidates = s_.candidates;
  const std::string order = candidates[candidates.current()].seen.order;
  // A survey needs the pattern in host memory. The pattern in the first order is there, the pattern in a later order is
  // only on the device.
  if (s_.on_device()) return;
  if (new_order_done_ || order == candidates[candidates.first()].seen.order ||
      s_.elapsed() - s_.time.stay_seconds() + took_ > s_.account())
    return;
  new_order_done_ = true;
  std::vector<SwitchTarget> found;
  try {
    found = survey_();
  } catch (const std::exception&) { return; }  // the predictions of the first survey stay
  for (SwitchTarget& target : found) {
    target.spec.order.clear();
    const std::size_t known = candidates.find(target.spec.name(), order);
    if (known == candidates.size())
      candidates.add(std::move(target), order);
    else if (!candidates[known].ran)
      candidates.renew(known, std::move(target));
  }
  candidates.forget_estimates();
}

template class FormatSurveys<float>;
template class FormatSurveys<double>;

}  // namespace protean::detail
