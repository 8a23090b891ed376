#include "solvers/format_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "operators/values_word.hpp"

namespace protean {
namespace {

std::string place(const SchedulePoint& point) {
  return fmt::format("{} {:g}", to_string(point.trigger), point.at);
}

// What the solve continues with.
std::string name_of(const SwitchRecord& record) {
  std::string name = record.to_kernel == "native" ? record.to : record.to + "/" + record.to_kernel;
  if (detail::values_word(record.parameters) == "float") name += " in float";
  return record.to_order == record.from_order ? name : name + " in order " + record.to_order;
}

bool due(const SchedulePoint& point, const IterationInfo& info) {
  switch (point.trigger) {
    case ScheduleTrigger::iteration:
      return static_cast<double>(info.iteration) >= point.at;
    case ScheduleTrigger::residual:
      return info.relative_residual <= point.at;
    case ScheduleTrigger::seconds:
      return info.seconds >= point.at;
  }
  return false;
}

}  // namespace

std::string_view to_string(ScheduleTrigger trigger) noexcept {
  switch (trigger) {
    case ScheduleTrigger::iteration:
      return "at_iteration";
    case ScheduleTrigger::residual:
      return "at_residual";
    case ScheduleTrigger::seconds:
      return "after_seconds";
  }
  return "unknown";
}

std::string_view to_string(ScheduleEvent::Action action) noexcept {
  switch (action) {
    case ScheduleEvent::Action::begun:
      return "begun";
    case ScheduleEvent::Action::switched:
      return "switched";
    case ScheduleEvent::Action::stayed:
      return "stayed";
    case ScheduleEvent::Action::failed:
      return "failed";
    case ScheduleEvent::Action::not_reached:
      return "not-reached";
  }
  return "unknown";
}

template <class T>
FormatSchedule<T>::FormatSchedule(Matrix<T>& A, std::vector<SchedulePoint> points, SolveObserver* next,
                                  std::function<void(const ScheduleEvent&)> on_event)
    : A_(A),
      points_(std::move(points)),
      next_(next),
      on_event_(std::move(on_event)),
      failures_seen_(A.failures().size()) {
  for (const SchedulePoint& point : points_) {
    if (!point.to.entry && !point.format.empty())
      throw BadArgument(fmt::format(
          "the schedule names format {} at {}; a FormatSchedule takes to.entry = &find_format(name)",
          point.format, place(point)));
    if (!point.to.entry && !point.to.elements && point.to.order.empty())
      throw BadArgument(fmt::format("the schedule names neither format nor order at {}", place(point)));
    if (!(point.at >= 0))
      throw BadArgument(fmt::format("a schedule has the place {}; it must be 0 or more", place(point)));
  }
}

template <class T>
bool FormatSchedule<T>::reads_solution(const IterationInfo& info) const noexcept {
  return next_ && next_->reads_solution(info);
}

template <class T>
std::int64_t FormatSchedule<T>::next_stop() const noexcept {
  std::int64_t stop = next_ ? next_->next_stop() : std::numeric_limits<std::int64_t>::max();
  for (const SchedulePoint& point : points_)
    if (point.trigger == ScheduleTrigger::iteration && point.at < 9e15)
      stop = std::min(stop, static_cast<std::int64_t>(point.at));
  return stop;
}

template <class T>
bool FormatSchedule<T>::on_iteration(const IterationInfo& info) {
  info_ = info;
  if (next_ && !next_->on_iteration(info)) return false;
  adopt_when_ready();
  for (std::size_t i = 0; i < points_.size();) {
    if (!due(points_[i], info)) {
      ++i;
      continue;
    }
    const SchedulePoint point = std::move(points_[i]);
    points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(i));
    take(point);
  }
  return true;
}

template <class T>
void FormatSchedule<T>::take(const SchedulePoint& point) {
  bool running = false;
  try {
    running = A_.runs(point.to);
  } catch (const Error&) {}  // the format cannot be built; the attempt below records the reason
  if (running) {
    A_.cancel(info_.iteration, "the schedule asked for the current format");
    add_failures();
    add(Action::stayed, point.to.name(),
        fmt::format("{}: the matrix has this {} already", place(point),
                    point.to.order.empty() ? "format"
                    : point.to.entry       ? "format and order"
                                           : "order"));
  } else if (point.overlapped) {
    A_.prepare(point.to, place(point), info_.iteration);
    add_failures();
    add(Action::begun, point.to.name(), place(point));
    adopt_when_ready();
  } else {
    const bool done = A_.switch_to(point.to, info_.iteration, place(point));
    add_failures();
    if (done) add(Action::switched, point.to.name(), place(point));
  }
}

template <class T>
void FormatSchedule<T>::adopt_when_ready() {
  if (A_.preparation() == Preparation::none || A_.preparation() == Preparation::running) return;
  const bool done = A_.adopt_prepared(info_.iteration);
  add_failures();
  if (!done) return;
  const SwitchRecord& record = A_.history().back();
  add(Action::switched, name_of(record), record.reason);
}

template <class T>
void FormatSchedule<T>::finish() {
  A_.cancel(info_.iteration, "the solve ended before it was ready");
  add_failures();
  const auto on_event = std::move(on_event_);
  on_event_ = nullptr;  // points that were not reached are recorded without a call
  for (const SchedulePoint& point : points_)
    add(Action::not_reached, point.to.name(), place(point) + ": the solve ended before");
  points_.clear();
  on_event_ = on_event;
}

template <class T>
void FormatSchedule<T>::add_failures() {
  for (; failures_seen_ < A_.failures().size(); ++failures_seen_) {
    const FailedSwitch& failed = A_.failures()[failures_seen_];
    std::string name = failed.to;
    if (!failed.kernel.empty() && failed.kernel != "native") name += "/" + failed.kernel;
    if (!failed.order.empty()) name += fmt::format("{}order {}", name.empty() ? "" : " in ", failed.order);
    add(Action::failed, std::move(name),
        fmt::format("{}: {}: {}", failed.reason, to_string(failed.failure), failed.why));
  }
}

template <class T>
void FormatSchedule<T>::add(Action action, std::string to, std::string reason) {
  events_.push_back(
      {action, info_.iteration, info_.seconds, info_.relative_residual, std::move(to), std::move(reason)});
  if (on_event_) on_event_(events_.back());
}

template class FormatSchedule<float>;
template class FormatSchedule<double>;

}  // namespace protean
