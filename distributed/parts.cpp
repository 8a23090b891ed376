#include "distributed/parts.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace protean::detail {

HostMeeting::HostMeeting(std::size_t parts) : posted_(parts, 0) {
  slots_[0].resize(parts), slots_[1].resize(parts);
}

std::vector<double> HostMeeting::gathered(int part, const std::vector<double>& numbers) {
  std::unique_lock lock(mutex_);
  if (abandoned_) throw PartAbandoned();
  const std::uint64_t epoch = ++posted_[static_cast<std::size_t>(part)];
  slots_[epoch % 2][static_cast<std::size_t>(part)] = numbers;
  changed_.notify_all();
  const auto complete = [&] {
    return std::all_of(posted_.begin(), posted_.end(), [&](std::uint64_t one) { return one >= epoch; });
  };
  changed_.wait(lock, [&] { return abandoned_ || complete(); });
  if (!complete()) throw PartAbandoned();
  std::vector<double> all;
  for (const std::vector<double>& one : slots_[epoch % 2]) {
    if (one.size() != numbers.size()) throw std::logic_error("the parts of a system do different work");
    all.insert(all.end(), one.begin(), one.end());
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
