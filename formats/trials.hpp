// Which formats to build and measure before a long solve, one after another. Private to the library.
//
// Predicted products are 10 to 20 % off at the median, so the first of a ranking is often not the fastest
// (docs/results/choice.md). Over many products a try costs little: a conversion takes the time of 3 to 50
// products of csr. The next format is the one with the largest expected gain
//
//   N E[max(0, t - X)] - conversion
//
// for N products, t the product of the best format so far, and X lognormal with the predicted product as its median and
// the predicted uncertainty as its deviation (expected improvement: Jones, Schonlau and Welch, J. Global Optim. 13
// (1998) 455). All tries together take at most a fiftieth of the solve, even if conversions take 2.5 times as long as
// predicted; if one took longer still, the next ones are expected to do so, too.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

namespace protean {

// Products from which formats are tried: with fewer, conversions that nothing comes of lose more than is gained.
inline constexpr double products_worth_trials = 10000;

class Trials {
 public:
  // What is predicted of a format next to csr, in products of csr.
  struct Prospect {
    double product = 0, conversion = 0, uncertainty = 0;
  };
  // Products with which one try measures a format.
  static constexpr int products_of_a_try = 9;

  Trials(std::vector<Prospect> prospects, double products);

  // The format to build and measure next; empty: enough.
  std::optional<std::size_t> next() const;
  // What was measured of it, in products of csr.
  void tried(std::size_t which, double product, double conversion);
  void refused(std::size_t which) { left_[which] = 0; }

  // Empty: csr.
  std::optional<std::size_t> best() const noexcept { return best_; }
  double product() const noexcept { return product_; }  // of the best
  int count() const noexcept { return count_; }

 private:
  std::vector<Prospect> prospects_;
  std::vector<char> left_;  // neither tried nor refused
  double products_, product_ = 1, spent_ = 0;
  double longer_ = 1;  // the longest of the conversions so far over its prediction
  int count_ = 0;
  std::optional<std::size_t> best_;
};

}  // namespace protean
