#include "solvers/iteration_pace.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace protean {
namespace {

constexpr std::int64_t pace_block = 8;   // iterations in one mean
constexpr std::int64_t most_open = 256;  // largest number in one mean, for a device that reports no bursts
constexpr std::size_t most_means = 64;   // older means are dropped

}  // namespace

void IterationPace::clear() {
  if (bursts_) wait_ = 2 * seconds(), skipped_ = 0;
  means_.clear(), open_ = 0, open_count_ = 0, total_ = 0, count_ = 0;
  last_count_ = 0;
}

bool IterationPace::add(double seconds) {
  // If the device reports iterations one by one, there is no long wait. Then their total time ends the skip.
  if (seconds < wait_ && (skipped_ += seconds) < 3 * wait_) return false;
  wait_ = 0;
  // A wait of at least half of the time since the mean began is the start of a new burst.
  if (bursts_ && open_count_ >= pace_block && (seconds > 0.5 * open_ || open_count_ >= most_open)) close();
  open_ += seconds, ++open_count_;
  last_[last_count_++ % last_.size()] = seconds;
  if (!bursts_ && open_count_ == pace_block) close();
  return true;
}

void IterationPace::close() {
  if (means_.size() == most_means) means_.erase(means_.begin());
  means_.push_back(open_ / static_cast<double>(open_count_));
  total_ += open_, count_ += open_count_;
  open_ = 0, open_count_ = 0;
}

double IterationPace::seconds() const {
  if (means_.size() < 3) {
    // The part of a burst reported so far is misleading, so it is used only while nothing else is known.
    const bool all = !bursts_ || count_ == 0;
    const double total = total_ + (all ? open_ : 0);
    const std::int64_t count = count_ + (all ? open_count_ : 0);
    return count > 0 ? total / static_cast<double>(count) : 0;
  }
  // No memory is taken: the account of time, which asks, cannot do without an answer.
  std::array<double, most_means> sorted;
  const auto end = std::copy(means_.begin(), means_.end(), sorted.begin());
  const auto middle = sorted.begin() + std::ssize(means_) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

double IterationPace::undisturbed() const {
  if (bursts_ || last_count_ == 0) return seconds();
  auto sorted = last_;
  const auto count = static_cast<std::ptrdiff_t>(std::min(last_count_, last_.size()));
  const auto quartile = sorted.begin() + (count - 1) / 4;
  std::nth_element(sorted.begin(), quartile, sorted.begin() + count);
  return *quartile;
}

}  // namespace protean
