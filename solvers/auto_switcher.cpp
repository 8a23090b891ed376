#include "solvers/auto_switcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <system_error>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/ordering.hpp"
#include "core/parallel.hpp"
#include "core/transfer.hpp"

namespace protean {
namespace {

// The part by which a build on another processor slows the iterations: both share caches and memory.
constexpr double beside_spare_processor = 0.1;

// Products that are timed on a device: as many as take so long, which is long beside a synchronisation.
constexpr int least_products_timed = 2, most_products_timed = 8;
constexpr double timed_at_most = 2 + most_products_timed;
constexpr double timed_seconds = 0.2e-3;
constexpr double order_forecast_seconds = 3e-3;  // assumed, on a device
constexpr double unlike_machine = 0.3;           // relative uncertainty of times measured on another machine
constexpr double beyond_plan = 1.25;             // time of a conversion / time of the part in plan_seconds
// Relative, of OrderForecast::ratio(): what a line of x costs differs between machines.
constexpr double order_uncertainty = unlike_machine;
constexpr std::string_view callers_order = "none";
constexpr std::size_t most_decisions = 500;  // largest number of decisions recorded

std::string milliseconds(double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); }

// The words of a sentence without its numbers and units: words of more than three characters that begin with
// a letter. Two reasons with the same words differ in their figures only.
std::string words_of(const std::string& text) {
  std::string words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end - begin > 3 && std::isalpha(static_cast<unsigned char>(text[begin])))
      words += text.substr(begin, end - begin);
    begin = end + 1;
  }
  return words;
}

}  // namespace

AutoSwitchOptions switch_options(const Context& context, const StoppingRule& rule,
                                 const PolicyOptions& policy) {
  AutoSwitchOptions result;
  result.policy = policy;
  const bool spare = context.space() == Space::host && context.threads() < available_threads();
  result.policy.overlapped = spare;
  if (spare) {
    // One thread builds alone. If the solve waited, all threads would build.
    result.policy.overlap_stretch = context.threads();
    result.policy.overlap_slowdown = beside_spare_processor;
  }
  result.goal = rule.relative_tolerance, result.absolute_goal = rule.absolute_tolerance;
  result.max_iterations = rule.max_iterations;
  return result;
}

template <class T>
AutoSwitcher<T>::AutoSwitcher(AdaptiveOperator<T>& A, const CostModel& model, FormatSurvey survey,
                              const AutoSwitchOptions& options, SolveObserver* inner)
    : A_(A),
      model_(model),
      survey_(std::move(survey)),
      options_(options),
      inner_(inner),
      created_(A.now()),
      first_pace_(on_device()),
      pace_(on_device()) {
  check_policy(options_.policy);
  // The solver may then run the whole solve in one kernel in shared memory, which is faster than products in
  // any format.
  A_.show_rows(true);
}

template <class T>
AutoSwitcher<T>::~AutoSwitcher() {
  A_.show_rows(false);
  leaving_ = true;
  if (surveying_.valid()) surveying_.wait();
  if (forecasting_order_.valid()) forecasting_order_.wait();
}

template <class T>
bool AutoSwitcher<T>::on_device() const {
  return A_.context()->space() == Space::device;
}

template <class T>
bool AutoSwitcher<T>::on_iteration(const IterationInfo& info) {
  const double now = A_.now();
  if (solve_begin_ < 0) {
    const double before = std::min(info.seconds, now - created_);
    solve_begin_ = now - before;
    if (info.relative_residual > 0)
      options_.goal =
          std::max(options_.goal, options_.absolute_goal * info.relative_residual / info.residual);
    stay_seconds_ = before;  // the work before the first iteration costs the same in every format
    first_products_ = A_.products();
  } else {
    account(now);
  }
  if (inner_) {
    const bool go_on = inner_->on_iteration(info);
    stay_seconds_ += A_.now() - now;  // the caller's observer takes as long in every format
    if (!go_on) {
      finish();
      return false;
    }
  }
  if (info.iteration != last_iteration_) forecast_.add(info.iteration, info.relative_residual);
  last_iteration_ = info.iteration;
  const double before = A_.now();
  // A cancelled build that has not ended yet disturbs the measured times, so there is no decision until then.
  if (A_.rows_kept())
    record_rows_kept(info);
  else if (build_running_ || (info.iteration >= next_look_ && !A_.abandoned()))
    look(info);
  // While the host decides, a device continues with the iterations that are queued.
  last_exit_ = on_device() ? before + paused_ : A_.now();
  burst_.paused += paused_, paused_ = 0;
  return true;
}

// Once for each solve.
template <class T>
void AutoSwitcher<T>::record_rows_kept(const IterationInfo& info) {
  if (!decisions_.empty()) return;
  DecisionRecord entry;
  entry.iteration = info.iteration, entry.seconds = elapsed(), entry.format = A_.running().name();
  entry.reason =
      "the solve keeps the matrix in the shared memory of the GPU (device_steps resident), where the format "
      "does not matter";
  decisions_.push_back(std::move(entry));
}

template <class T>
bool AutoSwitcher<T>::reads_solution(const IterationInfo& info) const noexcept {
  return inner_ && inner_->reads_solution(info);
}

template <class T>
std::int64_t AutoSwitcher<T>::next_stop() const noexcept {
  return inner_ ? inner_->next_stop() : std::numeric_limits<std::int64_t>::max();
}

// Charges the iteration that was computed since on_iteration() returned.
template <class T>
void AutoSwitcher<T>::account(double now) {
  const double seconds = now - last_exit_;
  const bool undisturbed = !build_running_ && !A_.abandoned();
  const bool first = undisturbed && (!surveyed_ || current_ == first_);
  if (undisturbed && pace_.add(seconds)) ++since_change_;
  if (first) first_pace_.add(seconds);
  const double pace = first_pace_.seconds();
  if (!on_device()) {
    stay_seconds_ += first ? seconds : pace;
    return;
  }
  if (burst_.iterations == 0 || seconds > 0.5 * pace_.seconds()) {
    // A new burst begins, so the time of the last one is known: it replaces the estimate.
    if (burst_.iterations > 0 && burst_.first)
      stay_seconds_ += last_exit_ - burst_.begin - burst_.paused - burst_.credited;
    burst_ = Burst{.begin = last_exit_};
  }
  burst_.first = burst_.first && first;
  stay_seconds_ += pace, burst_.credited += pace, ++burst_.iterations;
}

template <class T>
double AutoSwitcher<T>::elapsed() const {
  const double now = A_.now();
  if (!on_device() || burst_.iterations == 0) return now - solve_begin_;
  const double paused = burst_.paused + paused_,
               pace = pace_.seconds() > 0 ? pace_.seconds() : first_pace_.seconds();
  return burst_.begin - solve_begin_ + paused +
         std::min(now - burst_.begin - paused, static_cast<double>(burst_.iterations) * pace);
}

template <class T>
bool AutoSwitcher<T>::forecasts_beside() const {
  return options_.policy.overlapped || on_device();
}

// A survey does not pay in a solve that is about to end. On the host the solve waits for the survey, so its
// cost is compared with the account, like the cost of a conversion.
template <class T>
bool AutoSwitcher<T>::survey_pays(std::int64_t iteration) const {
  const Forecast remaining = forecast_.remaining(options_.goal, options_.max_iterations);
  const bool long_enough = iteration >= 64 || (remaining.known && remaining.likely >= 32);
  if (!long_enough) return false;
  // The forecast of an order takes about a product, in this thread unless there is another one for builds.
  const bool forecast_here = !forecasts_beside() && why_no_order().empty();
  const double price = options_.survey_seconds + (forecast_here ? A_.seconds_per_product() : 0);
  if (on_device()) return pays_beside(price);
  if (price <= (options_.policy.worst_factor - 1) * stay_seconds_) return true;
  // A change is taken to save 15 % of the remaining time, which must pay for the survey.
  return remaining.known && 0.15 * remaining.low * first_pace_.seconds() >= price &&
         price <= (options_.policy.forecast_factor - 1) / 2 * stay_seconds_;
}

// Work that runs beside a solve on a device: the solve should last longer.
template <class T>
bool AutoSwitcher<T>::pays_beside(double price) const {
  const Forecast remaining = forecast_.remaining(options_.goal, options_.max_iterations);
  return stay_seconds_ >= 4 * price ||
         (remaining.known && remaining.low * first_pace_.seconds() >= 2 * price);
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
    surveying_ = std::async(beside ? std::launch::async : std::launch::deferred, [this, beside] {
      if (!beside) return survey_();
      // On a stream of its own, so that it waits for no iterations, and ended with the solve.
      const BackgroundWork background(A_.context(), leaving_, 1, nullptr, BackgroundPriority::before_solve);
      return survey_();
    });
    const double begin = A_.now();
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
      DecisionRecord entry;
      entry.iteration = last_iteration_, entry.seconds = A_.now() - solve_begin_;
      entry.reason = fmt::format("the survey of formats failed: {}", error.what());
      decisions_.push_back(std::move(entry));
    }
  }
  surveyed_ = true;
  first_ = targets_.size();
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (targets_[i].admitted && A_.runs(targets_[i].spec)) first_ = i;
  if (first_ == targets_.size()) {
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
  current_ = first_;
  targets_[first_].bytes = candidates_[first_].bytes = records_[first_].bytes = A_.running_bytes();
  records_[first_].ran = true;
  return true;
}

template <class T>
void AutoSwitcher<T>::add_candidate(SwitchTarget target, const std::string& order) {
  target.spec.order.clear();
  formats_.push_back(target.spec.elements ? std::string(A_.elements()->name()) : target.spec.name());
  target.spec.order = order;
  // The first ones are in the order in which the solve began.
  const bool other = !candidates_.empty() && candidates_.front().order != order;
  SwitchCandidate candidate;
  candidate.name = other ? fmt::format("{} in order {}", formats_.back(), order) : formats_.back();
  candidate.order = order, candidate.bytes = target.bytes;
  candidate.admitted = target.admitted, candidate.why = target.why;
  CandidateRecord seen;
  seen.format = candidate.name, seen.admitted = candidate.admitted, seen.why = candidate.why;
  seen.bytes = candidate.bytes;
  if (other) seen.order = order;
  targets_.push_back(std::move(target)), built_.push_back(0);
  candidates_.push_back(std::move(candidate)), records_.push_back(std::move(seen));
  estimated_ = false;
}

// Why the order of the rows is out of the question, whatever the matrix looks like. Empty where it is not.
template <class T>
std::string AutoSwitcher<T>::why_no_order() const {
  if (A_.elements()) return "the system was given as element matrices, which keep theirs";
  if (A_.context()->deterministic())
    return "in deterministic mode the result may not depend on the time at which it changes";
  if (A_.rows() != A_.cols()) return "the matrix is not square";
  if (static_cast<std::size_t>(A_.rows()) * sizeof(T) <= options_.cached_x)
    return fmt::format("x of {} rows is in the caches in any order", A_.rows());
  if (options_.order == A_.order_id()) return fmt::format("it is {} already", options_.order);
  for (const OrderingEntry& entry : orderings())
    if (entry.id == options_.order && !entry.unavailable.empty())
      return fmt::format("order {} is not in this build: {}", options_.order, entry.unavailable);
  if (!A_.permuted()) return "several solves compute with this operator";
  // A build beside the solve is cancelled where it costs more than was assumed. A solve that waits has no such way out.
  if (!on_device() && !options_.policy.overlapped && !model_.knows_order(options_.order))
    return fmt::format(
        "the solve would wait while it is found, and the machine table does not say how long that takes "
        "(order-{}); `protean tune` measures it, schedule.overlapped: true finds it beside the solve",
        options_.order);
  return {};
}

template <class T>
void AutoSwitcher<T>::leave_order(const std::string& why) {
  DecisionRecord entry;
  entry.iteration = last_iteration_, entry.seconds = A_.now() - solve_begin_;
  entry.format = fmt::format("order {}", options_.order);
  entry.reason = fmt::format("the order of the rows stays: {}", why);
  decisions_.push_back(std::move(entry));
}

// On a device it copies many rows, so it comes after the survey, and later in the solve.
template <class T>
void AutoSwitcher<T>::begin_order_forecast() {
  if (order_asked_ || options_.order.empty()) return;
  if (const std::string why = why_no_order(); !why.empty()) {
    order_asked_ = true;
    return leave_order(why);
  }
  if (on_device() && !pays_beside(order_forecast_seconds)) return;
  order_asked_ = true;
  permuted_ = *A_.permuted();
  const auto work = [this, pattern = A_.ordered_source().pattern] {
    const auto forecast = [&] {
      return options_.forecast_order ? options_.forecast_order(pattern, sizeof(T))
                                     : forecast_order(*A_.context(), pattern, sizeof(T));
    };
    if (!on_device()) return forecast();
    // On a stream of its own, so that it waits for no iterations.
    const BackgroundWork background(A_.context(), leaving_, 1, nullptr, BackgroundPriority::before_solve);
    return forecast();
  };
  // Another stream may read the pattern without waiting for this one: iterations of this solve, which were queued after it
  // was made, have been reported.
  try {
    forecasting_order_ = std::async(forecasts_beside() ? std::launch::async : std::launch::deferred, work);
  } catch (const std::system_error& error) {
    return leave_order(
        fmt::format("no thread could be started for the forecast of its gain: {}", error.what()));
  }
  if (!forecasts_beside()) forecasting_order_.wait();
}

// Adds each format in the other order, once it is known what that order gains.
template <class T>
void AutoSwitcher<T>::take_order_forecast() {
  if (!forecasting_order_.valid() ||
      forecasting_order_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return;
  try {
    order_forecast_ = forecasting_order_.get();
  } catch (const std::exception& error) {
    return leave_order(fmt::format("the forecast of its gain failed: {}", error.what()));
  }
  const double saved = 1 - order_forecast_.product_ratio, least = options_.policy.hysteresis;
  if (saved < least)
    return leave_order(
        fmt::format("{}, so a product of csr would save {:.1f} % of its time; at least {:.0f} % are "
                    "wanted",
                    lines_text(order_forecast_), 100 * saved, 100 * least));
  // Also where the host would find it because of the forecast's error.
  if (on_device() && 2 * order_forecast_.levels > most_levels_on_device)
    return leave_order(fmt::format("a search has about {:.0f} levels, which suits a GPU badly (at most {})",
                                   order_forecast_.levels, most_levels_on_device));
  const std::size_t formats = targets_.size();
  for (std::size_t i = 0; i < formats; ++i) {
    if (!candidates_[i].admitted) continue;
    SwitchTarget target = targets_[i];
    target.bytes = candidates_[i].bytes;  // exact where it ran
    add_candidate(std::move(target), options_.order);
  }
}

// After a change of order formats need other bytes, and others may be possible. The survey takes its time only where the
// account has it.
template <class T>
void AutoSwitcher<T>::survey_new_order() {
  const std::string order = candidates_[current_].order;
  // A survey needs the pattern in host memory. That of the first order is there, that of a later one only on the device.
  if (on_device()) return;
  if (new_order_surveyed_ || order == candidates_[first_].order ||
      excess() + survey_took_ > (options_.policy.worst_factor - 1) * stay_seconds_)
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

// On a device the solve's products are queued and cannot be timed one by one. A few products with vectors of
// their own are timed instead.
template <class T>
double AutoSwitcher<T>::time_products() {
  A_.context()->synchronize();  // wait for the queued iterations
  const double arrived = A_.now();
  Vector<T> x(A_.context(), A_.cols()), y(A_.context(), A_.rows());
  const auto time = [&](int products) {
    const double begin = A_.now();
    for (int i = 0; i < products; ++i) A_.running().apply(x, y);
    A_.context()->synchronize();
    return A_.now() - begin;
  };
  (void)time(1);
  // The difference of two runs does not contain the time of the synchronisation.
  const double one = time(1);
  const int products =
      static_cast<int>(std::clamp(std::ceil(timed_seconds / one), static_cast<double>(least_products_timed),
                                  static_cast<double>(most_products_timed)));
  const double all = time(products), end = A_.now();
  paused_ += end - arrived;
  return all > one ? (all - one) / (products - 1) : all / products;
}

// On a device the solve waits while products are timed. Whether that is little beside what it has lasted.
template <class T>
bool AutoSwitcher<T>::measuring_is_little() const {
  if (!on_device()) return true;
  // An iteration takes longer than a product.
  const double pace = stay_seconds_ / static_cast<double>(std::max<std::int64_t>(last_iteration_, 1));
  return timed_at_most * pace <= (options_.policy.worst_factor - 1) / 2 * stay_seconds_;
}

// In the first format a product is worth its measurement where the account has the time, or where a candidate would pay for it
// by the machine table, in units of the product that is not known yet.
template <class T>
bool AutoSwitcher<T>::measuring_pays() {
  if (current_ != first_ || candidates_[current_].measured || measuring_is_little()) return true;
  estimate();
  const Forecast remaining = forecast_.remaining(options_.goal, options_.max_iterations);
  const double likely = remaining.known ? remaining.likely : static_cast<double>(last_iteration_);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i == current_ || !candidates_[i].admitted || !estimates_[i].cost.known) continue;
    if (!estimates_[i].relative) return true;
    double cost = estimates_[i].cost.convert_seconds + timed_at_most;
    // In iterations, which take longer than products, since the time of a product is not known yet.
    if (candidates_[i].order != candidates_[current_].order)
      cost += order_price(first_pace_.seconds()) / first_pace_.seconds();
    if (likely * (1 - estimates_[i].cost.product_seconds) > cost) return true;
  }
  return false;
}

// Measures the product of the current format after trial_products iterations without a build beside them.
template <class T>
void AutoSwitcher<T>::measure() {
  if (build_running_ || since_change_ < options_.policy.trial_products) return;
  SwitchCandidate& current = candidates_[current_];
  if (!on_device()) {
    const double measured = A_.seconds_per_product();
    time_permutation();
    if (measured > 0) current.product_seconds = measured + permuting(current.order), current.measured = true;
  } else if (!current.measured) {
    const double measured = time_products();
    time_permutation();
    current.product_seconds = measured + permuting(current.order), current.measured = true;
  }
  records_[current_].measured_product = current.product_seconds;
}

// Measured once, in the first order that is not the caller's.
template <class T>
void AutoSwitcher<T>::time_permutation() {
  if (permute_measured_ || permuted_.each_product == 0 || A_.order().size() == 0) return;
  permute_measured_ = true;
  const double arrived = A_.now();
  try {
    Vector<T> x(A_.context(), A_.rows()), y(A_.context(), A_.rows());
    A_.order().template apply<T>(x, y);  // the first use of the memory takes longer
    A_.context()->synchronize();
    const double begin = A_.now();
    A_.order().template apply_inverse<T>(y, x);
    A_.order().template apply<T>(x, y);
    A_.context()->synchronize();
    permute_seconds_ = (A_.now() - begin) / 2;
    if (on_device()) paused_ += A_.now() - arrived;
  } catch (const OutOfMemory&) {}  // the prediction stays
}

// Seconds that the vectors which are permuted in this order add to a product.
template <class T>
double AutoSwitcher<T>::permuting(const std::string& order) const {
  return order == callers_order ? 0 : permuted_.each_product * permute_seconds_;
}

// Sizes of the assembled matrix; before it is assembled, as the survey estimated them.
template <class T>
CostQuery AutoSwitcher<T>::query(const std::string& order) const {
  const CsrMatrix<T>& source = A_.source();
  CostQuery query{A_.rows(), source.nonzeros(), source.bytes()};
  if (A_.source_assembled()) query.row_changes = row_changes(source.pattern);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].order != order) continue;
    const std::size_t bytes = candidates_[i].bytes;
    if (formats_[i] == "sell-packed") query.packed_bytes = bytes;
    if (formats_[i] != "csr" || A_.source_assembled()) continue;
    query.csr_bytes = bytes;
    query.nonzeros =
        (static_cast<std::int64_t>(bytes) - 4 * (A_.rows() + 1)) / static_cast<std::int64_t>(sizeof(T) + 4);
  }
  return query;
}

// The candidate to whose measured product the predictions for an order are relative: the one that ran last in it. Before
// one has run in that order it is the current one, and the forecast of the order says the rest.
template <class T>
std::size_t AutoSwitcher<T>::reference_for(const std::string& order) const {
  const auto last = last_in_.find(order);
  return order == candidates_[current_].order || last == last_in_.end() ? current_ : last->second;
}

// The part of the predictions that depends on the current format but not on measured times. It takes longer
// than a product of a small matrix, so it is computed once for each format that runs. Measured times scale
// it.
template <class T>
void AutoSwitcher<T>::estimate() {
  if (estimated_) return;
  estimated_ = true;
  estimates_.assign(candidates_.size(), {});
  const std::string first_order = candidates_[first_].order;
  std::vector<std::string> all{first_order};
  if (candidates_.back().order != first_order) all.push_back(candidates_.back().order);
  for (const std::string& order : all) {
    const std::size_t by = reference_for(order);
    const bool same_order = candidates_[by].order == order;
    const CostQuery asked = query(order);
    const CostModel::Reference running = model_.reference(asked, formats_[by], candidates_[by].bytes);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const SwitchCandidate& candidate = candidates_[i];
      if (!candidate.admitted || candidate.order != order) continue;
      Estimate& e = estimates_[i];
      e.reference = by;
      e.cost = model_.relative(asked, formats_[i], candidate.bytes, running, 1);
      if (!same_order && e.cost.known) {
        // The gain of the order is a part of the time of the product, which is larger where the matrix has fewer bytes.
        e.cost.product_seconds *=
            order_forecast_.ratio(static_cast<double>(candidate.bytes) / static_cast<double>(A_.rows()));
        e.cost.uncertainty = std::hypot(e.cost.uncertainty, order_uncertainty);
      }
      // The table has no times of element matrices. Take the times of the table's machine, with a larger
      // uncertainty.
      if (!e.cost.known && A_.on_elements() && i != current_) {
        e.cost = model_.absolute(asked, formats_[i], candidate.bytes);
        e.cost.uncertainty = std::hypot(e.cost.uncertainty, unlike_machine);
        e.relative = false;
      }
    }
  }
  if (all.size() > 1)
    order_estimate_ = model_.ordering(query(candidates_[current_].order), options_.order, formats_[current_],
                                      candidates_[current_].bytes, 1);
}

// Seconds to find the other order and to permute the matrix.
template <class T>
double AutoSwitcher<T>::order_price(double product_seconds) const {
  const double by_products = order_scale_ * order_estimate_.convert_seconds * product_seconds;
  if (!on_device()) return by_products;
  // On a device levels and rows are the price, not products.
  const double estimate = order_scale_ * order_seconds_on_device(order_forecast_.levels, A_.rows());
  return model_.knows_order(options_.order) ? std::max(by_products, estimate) : estimate;
}

template <class T>
void AutoSwitcher<T>::predict() {
  const SwitchCandidate& current = candidates_[current_];
  if (!current.measured) return;
  estimate();
  const auto product = [&](std::size_t i) {  // without permutations
    return candidates_[i].product_seconds - permuting(candidates_[i].order);
  };
  if (current.order == candidates_[first_].order) {
    order_seconds_ = order_price(product(current_));
    if (!permute_measured_)
      permute_seconds_ =
          order_forecast_.permutation_share(sizeof(T)) * order_estimate_.product_seconds * product(current_);
  }
  // A first change from element matrices includes their assembly.
  double assembly = 0;
  if (!A_.source_assembled())
    if (const CostPrediction p =
            model_.assembly(query(current.order), formats_[current_], current.bytes, current.product_seconds);
        p.known)
      assembly = p.convert_seconds;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    SwitchCandidate& candidate = candidates_[i];
    if (!candidate.admitted || candidate.lost) continue;
    CostPrediction p = estimates_[i].cost;
    if (estimates_[i].relative) {
      const double unit = product(estimates_[i].reference);
      p.product_seconds *= unit, p.convert_seconds *= unit;
    }
    p.convert_seconds = std::max(p.convert_seconds, beyond_plan * targets_[i].plan_seconds /
                                                        static_cast<double>(A_.context()->threads()));
    if (!p.known) {
      if (i == current_ || i == first_) continue;
      candidate.admitted = false;
      candidate.why = "the machine table has no measurement of it";
      records_[i].admitted = false, records_[i].why = candidate.why;
      continue;
    }
    if (!candidate.measured)
      candidate.product_seconds = p.product_seconds + permuting(candidate.order),
      candidate.uncertainty = p.uncertainty;
    candidate.convert_seconds = built_[i] > 0               ? built_[i]
                                : targets_[i].spec.elements ? 0
                                : i == first_               ? p.convert_seconds
                                              : (assembly + p.convert_seconds) * conversion_scale_;
    if (candidate.order != current.order && candidate.order != callers_order)
      candidate.convert_seconds += order_seconds_;
    if (!records_[i].ran) {
      records_[i].predicted_product = candidate.product_seconds;
      records_[i].predicted_convert = candidate.convert_seconds;
      records_[i].uncertainty = candidate.uncertainty;
    }
  }
}

template <class T>
void AutoSwitcher<T>::look(const IterationInfo& info) {
  if (!build_running_) next_look_ = next_look(info.iteration);
  if (!survey_ready()) return;
  BuildState build = BuildState::none;
  if (build_running_) {
    const Preparation preparation = A_.preparation();
    build = preparation == Preparation::running ? BuildState::running : BuildState::ready;
    if (preparation == Preparation::failed || preparation == Preparation::none) {
      (void)A_.adopt_prepared(info.iteration);  // records why
      mark_failed(building_);
      build_running_ = false, since_change_ = 0;
      return;
    }
  } else {
    if (on_device()) begin_order_forecast();
    take_order_forecast();
    survey_new_order();
    if (!measuring_pays()) {
      SwitchDecision stay;
      stay.candidate = current_, stay.remaining = forecast_.remaining(options_.goal, options_.max_iterations);
      stay.reason = "by the machine table no change pays for the products that would be timed before it";
      return record(stay, info);
    }
    measure();
    predict();
  }
  PolicyState state;
  state.iteration = info.iteration, state.seconds = elapsed(), state.stay_seconds = stay_seconds_;
  state.iteration_seconds = pace_.seconds();
  products_per_iteration_ = info.iteration > 0 ? static_cast<double>(A_.products() - first_products_) /
                                                     static_cast<double>(info.iteration)
                                               : 1;
  state.products_per_iteration = std::max(1.0, std::round(products_per_iteration_));
  state.permute_seconds = permuted_.vectors * permute_seconds_;
  state.remaining = forecast_.remaining(options_.goal, options_.max_iterations);
  state.candidates = candidates_, state.first = first_, state.current = current_;
  state.switches = switches_, state.build = build, state.building = building_, state.granted = granted_;
  state.price = price_, state.excess_before = excess_before_;
  const SwitchDecision decision = decide(options_.policy, state);
  record(decision, info);
  act(decision, info.iteration);
}

template <class T>
void AutoSwitcher<T>::act(const SwitchDecision& decision, std::int64_t iteration) {
  if (decision.action == SwitchAction::stay) return;
  // The time of queued iterations does not belong to the change, so wait for them first.
  if (on_device() && !(decision.action == SwitchAction::begin && options_.policy.overlapped))
    A_.context()->synchronize();
  const double begin = A_.now();
  carry_out(decision, iteration);
  paused_ += A_.now() - begin;
}

template <class T>
void AutoSwitcher<T>::carry_out(const SwitchDecision& decision, std::int64_t iteration) {
  const std::size_t chosen = decision.candidate;
  switch (decision.action) {
    case SwitchAction::stay:
      return;
    case SwitchAction::begin:
      building_ = chosen, granted_ = decision.granted;
      price_ = decision.worst_seconds, excess_before_ = decision.excess_seconds;
      if (options_.policy.overlapped) {
        A_.prepare(spec_of(chosen), decision.reason, iteration);
        build_running_ = true;
      } else if (A_.switch_to(spec_of(chosen), iteration, decision.reason)) {
        switched(chosen, "while the solve waited");
      } else {
        mark_failed(chosen);
      }
      return;
    case SwitchAction::adopt:
      build_running_ = false;
      if (A_.adopt_prepared(iteration))
        switched(chosen, "built beside the solve");
      else
        mark_failed(chosen);
      return;
    case SwitchAction::cancel:
      build_running_ = false, since_change_ = 0;
      A_.cancel(iteration, "it cost too much");
      // The next build is likely to be slowed down in the same way.
      conversion_scale_ *= 2;
      order_scale_ *= 2;
      mark_lost(chosen, decision.reason);
      return;
    case SwitchAction::go_back:
      mark_lost(current_, decision.reason);
      if (A_.switch_to(spec_of(first_), iteration, decision.reason))
        switched(first_, "back to the first format");
      else  // it could not be built: stay, and do not try again
        candidates_[first_].product_seconds = candidates_[current_].product_seconds;
      return;
  }
}

template <class T>
void AutoSwitcher<T>::mark_lost(std::size_t candidate, std::string why) {
  candidates_[candidate].lost = true, candidates_[candidate].why = why;
  records_[candidate].lost = true, records_[candidate].why = std::move(why);
}

// An order that could not be taken with one format is not tried with another one: its price would be paid again.
template <class T>
void AutoSwitcher<T>::mark_failed(std::size_t candidate) {
  const std::string order = candidates_[candidate].order, why = failure();
  mark_lost(candidate, why);
  if (order == candidates_[current_].order) return;
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    if (candidates_[i].order == order && candidates_[i].admitted && !candidates_[i].lost)
      mark_lost(i, fmt::format("the change to {} failed: {}", candidates_[candidate].name, why));
}

// The order is named only where it changes.
template <class T>
FormatSpec AutoSwitcher<T>::spec_of(std::size_t candidate) const {
  FormatSpec spec = targets_[candidate].spec;
  if (spec.order == A_.order_id()) spec.order.clear();
  spec.hand_over_order = false;  // the price is that of the GPU
  return spec;
}

template <class T>
std::string AutoSwitcher<T>::failure() const {
  return A_.failures().empty() ? "it could not be built" : A_.failures().back().why;
}

template <class T>
void AutoSwitcher<T>::switched(std::size_t candidate, const std::string& how) {
  const SwitchRecord& change = A_.history().back();
  CandidateRecord& seen = records_[candidate];
  if (candidate != first_) {
    ++switches_;
    // Beside the solve a build has fewer threads, so its time is scaled to all threads.
    const double stretch = change.overlapped ? options_.policy.overlap_stretch : 1;
    built_[candidate] = (change.convert_seconds - change.order_seconds) / stretch;
    // In a change of order the conversion is the smaller part, of which little can be learnt.
    if (change.from_order == change.to_order && seen.predicted_convert > 0)
      conversion_scale_ *= std::clamp(built_[candidate] / seen.predicted_convert, 0.25, 4.0);
    seen.measured_convert = change.convert_seconds;
    candidates_[candidate].convert_seconds = built_[candidate];
  }
  if (candidates_[current_].measured) last_in_[candidates_[current_].order] = current_;
  seen.ran = true, seen.bytes = candidates_[candidate].bytes = change.bytes_after;
  current_ = candidate, since_change_ = 0;
  candidates_[candidate].measured = false;
  pace_.clear(), estimated_ = false;
  next_look_ = change.iteration + options_.policy.trial_products;
  if (!on_switch) return;
  const std::string order = change.from_order == change.to_order
                                ? ""
                                : fmt::format(", order {} -> {}", change.from_order, change.to_order);
  on_switch(fmt::format("iteration {}: {} -> {}{}, {} ({})", change.iteration, change.from, change.to, order,
                        how, milliseconds(change.convert_seconds)));
}

template <class T>
void AutoSwitcher<T>::record(const SwitchDecision& decision, const IterationInfo& info) {
  DecisionRecord entry;
  entry.iteration = info.iteration, entry.seconds = A_.now() - solve_begin_, entry.action = decision.action;
  entry.format = candidates_[decision.candidate].name;
  entry.gain_seconds = decision.gain_seconds, entry.cost_seconds = decision.cost_seconds;
  entry.worst_seconds = decision.worst_seconds, entry.excess_seconds = decision.excess_seconds;
  entry.allowed_seconds = decision.allowed_seconds;
  entry.remaining = decision.remaining, entry.reason = decision.reason;
  // A repeated decision to stay, for the same reason with other figures, is not recorded.
  if (decision.action == SwitchAction::stay && !decisions_.empty() &&
      decisions_.back().action == SwitchAction::stay && decisions_.back().format == entry.format &&
      words_of(decisions_.back().reason) == words_of(entry.reason))
    return;
  if (decisions_.size() < most_decisions) decisions_.push_back(std::move(entry));
}

template <class T>
void AutoSwitcher<T>::finish() {
  if (finished_) return;
  finished_ = true;
  leaving_ = true;
  if (surveying_.valid()) surveying_.wait();
  if (forecasting_order_.valid()) forecasting_order_.wait();
  if (build_running_) {
    A_.cancel(last_iteration_, "the solve ended first");
    build_running_ = false;
    records_[building_].why = "the solve ended before it was adopted";
  }
  // For the record only. On a device it takes time, which nobody has asked for where nothing changed.
  if (surveyed_ && (!on_device() || (current_ != first_ && measuring_is_little()))) measure();
}

template <class T>
std::vector<CandidateRecord> AutoSwitcher<T>::candidates() const {
  return records_;
}

template class AutoSwitcher<float>;
template class AutoSwitcher<double>;

}  // namespace protean
