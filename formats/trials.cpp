#include "formats/trials.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace protean {
namespace {

constexpr int most_tries = 6;
constexpr double share_of_tries = 0.02, conversion_margin = 2.5, most_longer = 8;
constexpr double least_gain = 0.005;   // of the time of the solve
constexpr double least_faster = 0.98;  // a format must be this much faster than the best: less is noise
// The least deviation of a prediction: if the table is from another machine, its formats compare differently there.
constexpr double least_deviation = 0.3;
constexpr double cost_of_building = 1.25;  // of a conversion, as the policy doubts it

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// E[max(0, now - X)], X lognormal.
double expected_saving(double now, double median, double deviation) {
  if (deviation <= 0) return std::max(0.0, now - median);
  const double z = std::log(now / median) / deviation;
  return now * normal_distribution(z) -
         median * std::exp(deviation * deviation / 2) * normal_distribution(z - deviation);
}

}  // namespace

Trials::Trials(std::vector<Prospect> prospects, double products)
    : prospects_(std::move(prospects)), left_(prospects_.size(), 1), products_(products) {}

std::optional<std::size_t> Trials::next() const {
  if (count_ == most_tries || products_ < products_worth_trials) return {};
  const double solve = products_ * product_;
  std::optional<std::size_t> found;
  double most = least_gain * solve;
  for (std::size_t i = 0; i < prospects_.size(); ++i) {
    const Prospect& one = prospects_[i];
    if (left_[i] == 0 || !(one.product > 0)) continue;
    const double conversion = longer_ * one.conversion, measuring = products_of_a_try * one.product;
    if (spent_ + conversion_margin * conversion + measuring > share_of_tries * solve) continue;
    const double gain =
        products_ * expected_saving(product_, one.product, std::max(one.uncertainty, least_deviation)) -
        cost_of_building * conversion - measuring;
    if (gain > most) found = i, most = gain;
  }
  return found;
}

void Trials::tried(std::size_t which, double product, double conversion) {
  left_[which] = 0, ++count_;
  spent_ += conversion + products_of_a_try * product;
  if (const double predicted = prospects_[which].conversion; predicted > 0)
    longer_ = std::max(longer_, std::min(most_longer, conversion / predicted));
  if (product < least_faster * product_) product_ = product, best_ = which;
}

}  // namespace protean
