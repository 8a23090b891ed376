// Where the rows of a matrix are cut between a GPU and a host that multiply at the same time: a pure function of
// predicted and measured times. engines/split/split.hpp moves the rows. Private to formats/.
//
// A part with n entries takes fixed + per_entry n seconds. At the best cut both parts take the same time, so with N
// entries the GPU gets
//
//   n = (fixed_host + per_entry_host N - fixed_gpu) / (per_entry_gpu + per_entry_host)
//
// With fixed = 0 and per_entry = T / n of measured times this is the correction f' = (f / T_gpu) / (f / T_gpu +
// (1 - f) / T_host) of the share f = n / N. The fixed times are needed because copies between the two take time
// however few rows the host has; without them f' comes near 1 by steps and never reaches it.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace protean::formats {

// Seconds of a part: fixed + per_entry * entries.
struct SplitSpeed {
  double fixed = 0, per_entry = 0;
  double seconds(std::int64_t entries) const noexcept {
    return fixed + per_entry * static_cast<double>(entries);
  }
};

// Seconds of one product, from its begin: until the GPU has computed its rows, until the rows of the host have arrived
// in the GPU's memory, and until y is complete. A part without rows has 0.
struct SplitTimes {
  double device = 0, host = 0, total = 0;
};

class SplitBalance {
 public:
  // The first products after a cut are not measured: caches are cold, and the GPU has to get going. Of the others the
  // median counts.
  static constexpr int warm_up = 2, products = 7;
  // A cut is moved, and a part is kept, for at least this gain in time.
  static constexpr double least_gain = 0.02;
  // A prediction that is this far off is corrected, even if the rows stay.
  static constexpr double near = 0.1;

  // asked: the share of the entries for the GPU, 0 to 1, which is not corrected. Else the first share is the share of
  // the predicted speeds, but each part gets at least 1/64 of the entries: a speed that was never measured cannot be
  // corrected.
  SplitBalance(std::int64_t entries, SplitSpeed device, SplitSpeed host, std::optional<double> asked,
               int most_corrections);

  // Entries that the GPU shall have.
  std::int64_t wanted() const noexcept { return wanted_; }
  // Whole rows lie in one part, so it has got that many. Products are measured from now on.
  void divided(std::int64_t device_entries);
  // Takes the times of a product. True: cut again at wanted().
  bool measured(const SplitTimes& times);
  // The cut stays as it is; `why` is for a person.
  void stop(std::string why);

  // No product needs to be measured any more.
  bool settled() const noexcept { return settled_; }
  bool is_asked() const noexcept { return asked_; }
  int corrections() const noexcept { return corrections_; }
  int measurements() const noexcept { return measurements_; }
  // Seconds of a product with this cut: as predicted before it was made, and measured; 0: not measured yet.
  double predicted_seconds() const noexcept { return predicted_; }
  double measured_seconds() const noexcept { return measured_; }
  const std::string& stopped_because() const noexcept { return why_; }

 private:
  struct Point {
    std::int64_t entries = 0;
    double seconds = 0;
  };
  static void learn(SplitSpeed& speed, Point& last, std::int64_t entries, double seconds);
  double seconds(std::int64_t device_entries) const noexcept;
  std::int64_t best() const noexcept;
  bool end_trial();

  std::int64_t entries_;
  SplitSpeed device_, host_;
  bool asked_;
  int most_corrections_;
  double joining_ = 0;  // seconds from the end of the later part to the end of the product
  Point last_device_, last_host_;
  std::int64_t wanted_ = 0, now_ = 0;
  std::array<SplitTimes, products> times_ = {};
  int seen_ = 0;  // products since the cut
  int corrections_ = 0, measurements_ = 0;
  double predicted_ = 0, measured_ = 0;
  bool settled_ = false;
  std::string why_;
};

}  // namespace protean::formats
