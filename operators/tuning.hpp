// Says what a matrix has chosen among its own options, such as how far a loop is unrolled, and by what.
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
    // What chose it: "asked" (a user), "bytes" (the layout with the fewest bytes), "table" (times of the machine
    // table), "time" (measured products), "fixed" (one option if products are not measured, as in deterministic
    // mode).
    std::string_view by;
    bool operator==(const Choice&) const = default;
  };
  std::vector<Choice> choices;
  // False while products still try options. The choices by time are then the best ones so far.
  bool settled = true;
  int measurements = 0;  // products that were measured
  // For a matrix that predicts its own products: how often measured times have corrected the prediction, and the
  // seconds of a product with the present options, as predicted before they were taken and as measured (0: not yet).
  int corrections = 0;
  double predicted_seconds = 0, measured_seconds = 0;
  // Why the choices do not change although times ask for it, for a person: no memory. Empty: nothing of the kind.
  std::string note = {};
};

// Ability of an operator that chooses among options. Several threads may call it next to products.
class HasTuning {
 public:
  virtual ~HasTuning() = default;
  virtual Tuning tuning() const = 0;
};

}  // namespace protean
