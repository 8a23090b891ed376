#include "formats/engines/split/split_balance.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace protean::formats {
namespace {

double median(std::array<SplitTimes, SplitBalance::products> times, double SplitTimes::*of) {
  const auto middle = times.begin() + times.size() / 2;
  std::nth_element(times.begin(), middle, times.end(),
                   [of](const SplitTimes& a, const SplitTimes& b) { return a.*of < b.*of; });
  return (*middle).*of;
}

}  // namespace

SplitBalance::SplitBalance(std::int64_t entries, SplitSpeed device, SplitSpeed host,
                           std::optional<double> asked, int most_corrections)
    : entries_(entries),
      device_(device),
      host_(host),
      asked_(asked.has_value()),
      most_corrections_(asked ? 0 : most_corrections) {
  if (asked) {
    wanted_ = std::llround(*asked * static_cast<double>(entries));
  } else {
    const std::int64_t least = std::min<std::int64_t>(entries / 2, entries / 64 + 1);
    wanted_ = std::clamp(best(), least, entries - least);
  }
}

void SplitBalance::divided(std::int64_t device_entries) {
  now_ = wanted_ = device_entries;
  seen_ = 0;
  predicted_ = seconds(now_);
  measured_ = 0;
}

bool SplitBalance::measured(const SplitTimes& times) {
  if (settled_) return false;
  if (seen_ >= warm_up) {
    times_[static_cast<std::size_t>(seen_ - warm_up)] = times;
    ++measurements_;
  }
  return ++seen_ == warm_up + products && end_trial();
}

void SplitBalance::stop(std::string why) {
  settled_ = true;
  why_ = std::move(why);
}

// A line through the last two points, if it can be one of times: else through the new point alone.
void SplitBalance::learn(SplitSpeed& speed, Point& last, std::int64_t entries, double seconds) {
  if (entries <= 0 || !(seconds > 0)) return;
  const auto n = static_cast<double>(entries), before = static_cast<double>(last.entries);
  // Points that lie close to each other have a slope of noise.
  constexpr double apart = 0.05;
  bool found = false;
  if (last.entries > 0 && std::fabs(n - before) > apart * std::max(n, before)) {
    const double slope = (seconds - last.seconds) / (n - before), fixed = seconds - slope * n;
    found = slope > 0 && fixed >= 0;
    if (found) speed = {fixed, slope};
  }
  if (!found) {
    const double predicted = speed.seconds(entries);
    if (speed.fixed < 0.9 * seconds || !(predicted > 0))
      speed.fixed = std::min(speed.fixed, seconds), speed.per_entry = (seconds - speed.fixed) / n;
    else
      speed.fixed *= seconds / predicted, speed.per_entry *= seconds / predicted;
  }
  last = {entries, seconds};
}

double SplitBalance::seconds(std::int64_t device_entries) const noexcept {
  const std::int64_t host_entries = entries_ - device_entries;
  if (host_entries == 0) return device_.seconds(device_entries);
  if (device_entries == 0) return host_.seconds(host_entries) + joining_;
  return std::max(device_.seconds(device_entries), host_.seconds(host_entries)) + joining_;
}

std::int64_t SplitBalance::best() const noexcept {
  std::int64_t best = seconds(0) < (1 - least_gain) * seconds(entries_) ? 0 : entries_;
  const double slope = device_.per_entry + host_.per_entry;
  if (!(slope > 0)) return best;
  const double cut = (host_.seconds(entries_) - device_.fixed) / slope;
  if (!(cut > 0 && cut < static_cast<double>(entries_))) return best;
  const std::int64_t both = std::llround(cut);
  if (seconds(both) < (1 - least_gain) * seconds(best)) best = both;
  return best;
}

bool SplitBalance::end_trial() {
  const SplitTimes middle{median(times_, &SplitTimes::device), median(times_, &SplitTimes::host),
                          median(times_, &SplitTimes::total)};
  measured_ = middle.total;
  learn(device_, last_device_, now_, middle.device);
  learn(host_, last_host_, entries_ - now_, middle.host);
  if (now_ < entries_) joining_ = std::max(0.0, middle.total - std::max(middle.device, middle.host));
  const std::int64_t cut = best();
  const bool move = !asked_ && cut != now_ && seconds(cut) < (1 - least_gain) * seconds(now_);
  const bool is_near = std::fabs(predicted_ - measured_) <= near * measured_;
  if (corrections_ == most_corrections_ || (!move && is_near)) {
    settled_ = true;
    return false;
  }
  ++corrections_;
  if (!move) {
    divided(now_);
    return false;
  }
  wanted_ = cut;
  return true;
}

}  // namespace protean::formats
