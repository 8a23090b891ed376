// What is recorded of the choice of a storage format before a solve.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/operators/format_params.hpp>

namespace PROTEAN_EXPORT protean {

// The selector behind `format: auto` if none is named.
PROTEAN_HIDDEN inline constexpr std::string_view default_selector = "model";

// A format in the ranking of a selector, as it was when the choice was made.
struct ConsideredFormat {
  std::string format;
  FormatParams parameters;  // that the selector names; those left out are the defaults
  // Seconds of a product and of the conversion; 0 if the selector predicts none. uncertainty: relative, of the product.
  double product_seconds = 0, convert_seconds = 0, uncertainty = 0;
  std::string reason;  // for a person
};

// What format "auto" wanted and took. All are empty if a format was named.
struct ChoiceRecord {
  std::string wanted;   // the format that the selector named; csr if a policy begins in csr
  std::string refused;  // why that format could not be made; empty if it could
  std::string taken;    // the format in which the solve began
  // The selector, and its ranking with the best first. Both are empty if no format was looked at.
  std::string selector = {};
  std::vector<ConsideredFormat> ranking = {};
};

}  // namespace protean
