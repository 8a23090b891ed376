// How much more slowly the residual of a solve falls while its values are in float. Numbers alone, no times. Private to
// solvers/.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace protean::detail {

// Compares the fall of the smallest residual so far before and after the change, which oscillation does not affect. A
// solve that begins in float is compared with the last one that did not.
class RoundingProgress {
 public:
  // Begins another solve.
  void begin() noexcept { first_ = -1, rounds_ = false; }

  // The relative residual of an iteration; rounds: whether products of the next ones are with rounded values.
  void add(std::int64_t iteration, double relative_residual, bool rounds) noexcept {
    if (!(relative_residual > 0) || !std::isfinite(relative_residual)) return;
    const double level = std::log10(relative_residual);
    if (first_ < 0) first_ = smallest_at_ = iteration, first_level_ = smallest_ = level;
    if (level < smallest_) smallest_ = level, smallest_at_ = iteration;
    last_ = iteration;
    if (rounds == rounds_) return;
    rounds_ = rounds;
    if (!rounds) return;
    if (smallest_at_ > first_)
      before_ = (first_level_ - smallest_) / static_cast<double>(smallest_at_ - first_);
    changed_ = iteration, from_ = smallest_at_, from_level_ = smallest_;
  }

  // Iterations with rounded values in the present solve.
  double iterations() const noexcept { return rounds_ ? static_cast<double>(last_ - changed_) : 0; }

  // How many times the iterations are needed; at least 1. Nothing before the residual has fallen to a tenth, or would
  // have fallen to a hundredth, and while nothing is known of the time before.
  std::optional<double> stretch() const noexcept {
    if (!rounds_ || !(before_ > 0)) return {};
    constexpr double enough = 1, more_than_enough = 2, least = 0.05;
    const double fallen = from_level_ - smallest_, expected = before_ * static_cast<double>(last_ - from_);
    if (fallen < enough && expected < more_than_enough) return {};
    return std::max(1.0, expected / std::max(fallen, least));
  }

 private:
  std::int64_t first_ = -1, last_ = -1, smallest_at_ = -1, changed_ = -1, from_ = -1;
  double first_level_ = 0, smallest_ = 0, from_level_ = 0;  // log10 of residuals
  double before_ = 0;                                       // their fall in an iteration; 0: not known
  bool rounds_ = false;
};

}  // namespace protean::detail
