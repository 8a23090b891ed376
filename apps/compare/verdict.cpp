#include "apps/compare/verdict.hpp"

#include <algorithm>
#include <cmath>

#include "apps/compare/compare.hpp"
#include "apps/problem/system.hpp"
#include "solvers/solver.hpp"

namespace protean::apps {
namespace {

TimeRange sum(const TimeRange& a, const TimeRange& b) { return {a.low + b.low, a.high + b.high}; }
TimeRange times(double factor, const TimeRange& range) { return {factor * range.low, factor * range.high}; }

TimeRange range_of_total(const Variant& v) {
  return sum(sum(range_of(v.convert), range_of(v.setup)), range_of(v.solve));
}

// Null if csr was not measured in this space.
const Variant* reference_of(const Comparison& comparison, const Variant& variant) {
  for (const Variant& other : comparison.variants)
    if (other.format == "csr" && other.kernel == "native" && other.space == variant.space && other.measured())
      return &other;
  return nullptr;
}

// The solved ones, by their total; then the others, by their product.
std::vector<int> ranked(const std::vector<Variant>& variants) {
  std::vector<int> order;
  for (std::size_t i = 0; i < variants.size(); ++i)
    if (variants[i].status == "converged" || variants[i].cut()) order.push_back(static_cast<int>(i));
  std::stable_sort(order.begin(), order.end(), [&](int left, int right) {
    const Variant &a = variants[static_cast<std::size_t>(left)],
                  &b = variants[static_cast<std::size_t>(right)];
    if (a.ran() != b.ran()) return a.ran();
    return a.ran() ? a.total() < b.total() : a.product.median < b.product.median;
  });
  return order;
}

}  // namespace

TimeRange range_of(const Timing& timing) {
  return {std::max(0.0, timing.median - 2 * (timing.median - timing.lower)),
          timing.median + 2 * (timing.upper - timing.median)};
}

Difference difference(const Variant& fast, const Variant& slow, std::int64_t products) {
  const auto costs = [&](const Variant& v) {
    const auto count = static_cast<double>(v.iterations * products);
    return sum(range_of(v.convert), times(count, range_of(v.product)));
  };
  const auto explained = [&](const Variant& v) {
    return v.convert.median + static_cast<double>(v.iterations * products) * v.product.median;
  };
  Difference result;
  result.seconds = slow.total() - fast.total();
  result.explained = explained(slow) - explained(fast);
  const bool repeated = fast.solve.runs > 1 && slow.solve.runs > 1;
  const TimeRange a = repeated ? range_of_total(fast) : costs(fast),
                  b = repeated ? range_of_total(slow) : costs(slow);
  result.clear = result.seconds > 0 ? a.high < b.low : b.high < a.low;
  return result;
}

std::optional<double> break_even(const Variant& variant, const Variant& reference, std::int64_t products) {
  const double more = variant.convert.median - reference.convert.median;
  const double gain = static_cast<double>(products) * (reference.product.median - variant.product.median);
  if (more <= 0 && gain >= 0) return 0;
  if (gain <= 0) return {};
  return more / gain;
}

void judge(Comparison& comparison, std::string_view automatic) {
  std::vector<Variant>& variants = comparison.variants;
  const auto products = static_cast<std::int64_t>(products_of(comparison.problem.settings.method));
  for (std::size_t i = 0; i < variants.size(); ++i) {
    Variant& variant = variants[i];
    if (variant.format == automatic && variant.kernel == "native" && comparison.automatic < 0)
      comparison.automatic = static_cast<int>(i);
    const Variant* const csr = variant.measured() ? reference_of(comparison, variant) : nullptr;
    if (!csr) continue;
    variant.break_even = break_even(variant, *csr, products);
    variant.product_differs = apart(range_of(variant.product), range_of(csr->product));
    if (variant.status == "converged" && csr->status == "converged")
      variant.to_csr = difference(variant, *csr, products);
  }
  comparison.ranking = ranked(variants);
  if (comparison.ranking.empty() || !variants[static_cast<std::size_t>(comparison.ranking.front())].ran())
    return;
  comparison.best = comparison.ranking.front();
  const Variant& best = variants[static_cast<std::size_t>(comparison.best)];
  for (const int i : comparison.ranking)
    if (const Variant& other = variants[static_cast<std::size_t>(i)];
        i != comparison.best && other.ran() && !difference(best, other, products).clear)
      comparison.ties.push_back(i);
}

}  // namespace protean::apps
