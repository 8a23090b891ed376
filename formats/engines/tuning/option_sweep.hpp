// A tuner that tries each of a few options in successive products and keeps the fastest. A pure function of numbers.
// Private to formats/.
#pragma once
#include <algorithm>

namespace protean::formats {

// Until done(): ask for next(), run a product with this option, and pass its seconds to measured(). Options are tried
// in turn, round after round. The first round is not counted: the driver of a GPU loads a kernel when it is first used,
// and on a host the first products bring the matrix into the caches. The least time of an option counts, because other
// work on the machine only makes a product slower. Between equal times the option with the lower number is the best.
class OptionSweep {
 public:
  static constexpr int most_options = 8;

  // options: 1 to most_options; with 1 there is nothing to try. first_best: best() until a product was counted.
  OptionSweep(int options, int rounds, int first_best) noexcept
      : options_(options), products_(options > 1 ? options * (1 + rounds) : 0), best_(first_best) {}

  int next() const noexcept { return done() ? best_ : measurements_ % options_; }
  int best() const noexcept { return best_; }
  bool done() const noexcept { return measurements_ >= products_; }
  int measurements() const noexcept { return measurements_; }
  int products() const noexcept { return products_; }  // that it takes
  // Seconds of a product with next(). Ignored when done.
  void measured(double seconds) noexcept {
    if (done()) return;
    const int round = measurements_ / options_;
    double& least = least_[next()];
    if (round == 1 || (round > 1 && seconds < least)) least = seconds;
    ++measurements_;
    if (done()) best_ = static_cast<int>(std::min_element(least_, least_ + options_) - least_);
  }

 private:
  int options_, products_, best_;
  int measurements_ = 0;
  double least_[most_options] = {};
};

}  // namespace protean::formats
