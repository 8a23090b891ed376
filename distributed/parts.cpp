#include "distributed/parts.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace protean::detail {

void PartWatch::begin(double patience) {
  const std::lock_guard lock(mutex_);
  std::fill(waiting_.begin(), waiting_.end(), false);
  last_ = Clock::now(), away_ = false;
  patience_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(patience));
}
void PartWatch::progress() noexcept {
  const std::lock_guard lock(mutex_);
  last_ = Clock::now();
}
void PartWatch::away(bool away) noexcept {
  const std::lock_guard lock(mutex_);
  away_ = away, last_ = Clock::now();
}
void PartWatch::set_waiting(int part, bool waiting) {
  const std::lock_guard lock(mutex_);
  waiting_[static_cast<std::size_t>(part)] = waiting;
}
PartWatch::Clock::time_point PartWatch::deadline() const {
  const std::lock_guard lock(mutex_);
  return (away_ ? Clock::now() : last_) + patience_;
}
int PartWatch::first_at_work() const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(waiting_.begin(), waiting_.end(), false);
  return found == waiting_.end() ? -1 : static_cast<int>(found - waiting_.begin());
}

HostMeeting::HostMeeting(std::size_t parts, PartWatch& watch) : watch_(watch), posted_(parts, 0) {
  for (auto& slots : slots_) slots.resize(parts);
  for (auto& messages : messages_) messages.resize(parts);
}

template <class Post>
std::uint64_t HostMeeting::meet(std::unique_lock<std::mutex>& lock, int part, Post&& post) {
  if (abandoned_) throw PartAbandoned();
  const std::uint64_t epoch = ++posted_[static_cast<std::size_t>(part)];
  post(epoch % 2);
  watch_.progress();
  changed_.notify_all();
  const auto complete = [&] {
    return std::all_of(posted_.begin(), posted_.end(), [&](std::uint64_t one) { return one >= epoch; });
  };
  watch_.wait(lock, changed_, part, [&] { return abandoned_ || complete(); });
  if (!complete()) throw PartAbandoned();
  return epoch;
}

std::vector<double> HostMeeting::gathered(int part, const std::vector<double>& numbers) {
  std::unique_lock lock(mutex_);
  const std::uint64_t epoch = meet(lock, part, [&](std::size_t place) {
    slots_[place][static_cast<std::size_t>(part)] = numbers;
    messages_[place][static_cast<std::size_t>(part)].clear();
  });
  std::vector<double> all;
  for (const std::vector<double>& one : slots_[epoch % 2]) {
    if (one.size() != numbers.size()) throw std::logic_error("the parts of a system do different work");
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

std::vector<PartMessage> HostMeeting::exchanged(int part, std::vector<PartMessage> to) {
  std::unique_lock lock(mutex_);
  const std::uint64_t epoch = meet(lock, part, [&](std::size_t place) {
    messages_[place][static_cast<std::size_t>(part)] = std::move(to);
    slots_[place][static_cast<std::size_t>(part)].clear();
  });
  std::vector<PartMessage> all;
  for (std::vector<PartMessage>& of : messages_[epoch % 2]) {
    if (of.size() != posted_.size()) throw std::logic_error("the parts of a system do different work");
    all.push_back(std::move(of[static_cast<std::size_t>(part)]));
  }
  return all;
}

void HostMeeting::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

bool HostMeeting::begin() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(abandoned_, false)) return false;
  std::fill(posted_.begin(), posted_.end(), 0);
  return true;
}

}  // namespace protean::detail
