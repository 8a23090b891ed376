// What the measured times of a comparison say, and what they do not.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "apps/machine/measure.hpp"

namespace protean::apps {

struct Variant;  // apps/compare/compare.hpp
struct Comparison;

// The range in which repeated measurements lie: of three the least and the largest; of many twice the box of the
// quartiles.
struct TimeRange {
  double low = 0, high = 0;
};
TimeRange range_of(const Timing& timing);
inline bool apart(const TimeRange& a, const TimeRange& b) { return a.high < b.low || b.high < a.low; }

// How much longer `slow` takes than `fast` in all.
struct Difference {
  double seconds = 0;
  double explained = 0;  // by the conversions and the products of both
  // It is beyond what repeated measurements differ by. Of solves that were measured once, conversions and products have
  // to say so.
  bool clear = false;
};
// products: the number per iteration.
Difference difference(const Variant& fast, const Variant& slow, std::int64_t products);

// The number of iterations after which conversion and products of `variant` have taken less time than conversion and
// products of `reference`. 0: from the start. Empty: never.
std::optional<double> break_even(const Variant& variant, const Variant& reference, std::int64_t products);

// The best variant, the variants that do not clearly differ from it, the variant of `format: auto`, the break-even
// points, the differences from csr, and the order of all that was measured.
void judge(Comparison& comparison, std::string_view automatic);

}  // namespace protean::apps
