// Tells what a matrix has chosen among its own options, such as how far a loop is unrolled, and by what.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

struct Tuning {
  struct Choice {
    std::string_view option;  // as in the format's or the kernel's parameters: "unroll"
    std::string value;        // as a user would set it: "4"
    // What chose it: "asked" (a user), "bytes" (the layout with the fewest bytes), "time" (measured products), "fixed"
    // (one option where products are not measured, as in deterministic mode).
    std::string_view by;
    bool operator==(const Choice&) const = default;
  };
  std::vector<Choice> choices;
  // False while products still try options. The choices by time are then the best ones so far.
  bool settled = true;
  int measurements = 0;  // products that were measured
};

// Ability of an operator that chooses among options. Several threads may call it beside products.
class HasTuning {
 public:
  virtual ~HasTuning() = default;
  virtual Tuning tuning() const = 0;
};

}  // namespace protean
