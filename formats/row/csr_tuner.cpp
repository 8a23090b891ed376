#include "formats/row/csr_tuner.hpp"

#include <algorithm>
#include <cmath>

namespace protean::formats {
namespace {

constexpr int warp = 32, first_block = 128, wider_block = 192, most_block = 512, block_step = 32;
constexpr std::int64_t least_blocks = 1500;
constexpr double notable = 0.05;  // the least change of time that counts in step 1

}  // namespace

CsrLaunch fixed_rule(std::int64_t rows, std::int64_t nonzeros) noexcept {
  CsrLaunch launch{1, 1, first_block};
  const double mean = rows > 0 ? static_cast<double>(nonzeros) / static_cast<double>(rows) : 0;
  while (launch.coop < warp && launch.coop <= std::sqrt(mean)) launch.coop *= 2;
  // blocks = ceil(rows / (per_step repeat)) >= least_blocks  <=>  rows > per_step repeat (least_blocks - 1)
  const std::int64_t per_step = launch.block / launch.coop;
  const std::int64_t repeat = (std::max<std::int64_t>(rows, 1) - 1) / (per_step * (least_blocks - 1));
  launch.repeat = static_cast<int>(std::clamp<std::int64_t>(repeat, 1, 1 << 20));
  return launch;
}

CsrTuner::CsrTuner(const CsrLaunch& start, std::size_t value_bytes) noexcept
    : best_(start), trial_(start), least_block_(value_bytes <= 4 ? 96 : 64) {}

// Returns false, with nothing changed, for a launch that the limits forbid.
bool CsrTuner::try_next(Stage stage, CsrLaunch trial) noexcept {
  if (trial.coop < 1 || trial.coop > warp || trial.repeat < 1 || trial.block > most_block ||
      trial.block < least_block_)
    return false;
  stage_ = stage, trial_ = trial;
  return true;
}

void CsrTuner::finish() noexcept { stage_ = Stage::done, trial_ = best_; }

// Each returns after the first trial that is allowed.
void CsrTuner::begin_coop() noexcept {
  grew_ = false;
  if (!try_next(Stage::more_coop, {best_.coop * 2, best_.repeat, wider_block})) less_coop();
}

void CsrTuner::less_coop() noexcept {
  if (!try_next(Stage::less_coop, {best_.coop / 2, best_.repeat, wider_block})) begin_blocks();
}

void CsrTuner::begin_blocks() noexcept {
  grew_ = false;
  if (!try_next(Stage::more_block, {best_.coop, best_.repeat, best_.block + block_step})) less_block();
}

void CsrTuner::less_block() noexcept {
  if (!try_next(Stage::less_block, {best_.coop, best_.repeat, best_.block - block_step})) finish();
}

void CsrTuner::measured(double seconds) noexcept {
  if (done()) return;
  const bool first = measurements_++ == 0;
  const bool faster = first || seconds < best_seconds_;
  const bool changed = std::abs(seconds - best_seconds_) > notable * best_seconds_;
  if (faster) best_ = trial_, best_seconds_ = seconds;
  switch (stage_) {
    case Stage::first:
      if (!try_next(Stage::halve_first, {best_.coop, best_.repeat / 2, best_.block})) begin_coop();
      return;
    case Stage::halve_first: {
      if (!changed) return begin_coop();
      const Stage direction = faster ? Stage::less_repeat : Stage::more_repeat;
      if (!try_next(direction, {best_.coop, faster ? best_.repeat / 2 : best_.repeat * 2, best_.block}))
        begin_blocks();
      return;
    }
    case Stage::more_coop:
      if (!faster && !grew_) return less_coop();
      grew_ = true;
      if (!faster || !try_next(Stage::more_coop, {best_.coop * 2, best_.repeat, best_.block})) begin_blocks();
      return;
    case Stage::less_coop:
      return faster ? less_coop() : begin_blocks();
    case Stage::less_repeat:
      if (!faster || !try_next(Stage::less_repeat, {best_.coop, best_.repeat / 2, best_.block}))
        begin_blocks();
      return;
    case Stage::more_repeat:
      if (!faster || !try_next(Stage::more_repeat, {best_.coop, best_.repeat * 2, best_.block}))
        begin_blocks();
      return;
    case Stage::more_block:
      if (!faster && !grew_) return less_block();
      grew_ = true;
      if (!faster || !try_next(Stage::more_block, {best_.coop, best_.repeat, best_.block + block_step}))
        finish();
      return;
    case Stage::less_block:
      return faster ? less_block() : finish();
    case Stage::done:
      return;
  }
}

CsrLaunch CsrSweep::launch(int measurement) noexcept {
  const int i = measurement < loads ? measurement : measurement - loads;
  return {1 << i % loads, 1, 64 << i / loads};
}

void CsrSweep::measured(double seconds) noexcept {
  if (done()) return;
  if (measurements_ == loads || (measurements_ > loads && seconds < best_seconds_))
    best_ = next(), best_seconds_ = seconds;
  ++measurements_;
}

}  // namespace protean::formats
