// A clock for the policy: what it decides is the same on every machine, however busy that is.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

#include "operators/matrix/matrix.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean::test {

// By this clock a product takes as long as the first matrix of the table says, and 1 ms if the table does not say it.
// Nothing else takes more than a nanosecond a reading.
class PolicyClock {
 public:
  // The matrix and the table must outlive this; no solve runs now, nor when this ends.
  PolicyClock(Matrix<double>& A, const MachineTable& table) : A_(A), table_(table) {
    A_.let_change({.clock = [this] { return now(); }});
  }
  ~PolicyClock() { A_.let_change(); }
  PolicyClock(const PolicyClock&) = delete;
  PolicyClock& operator=(const PolicyClock&) = delete;

 private:
  double now() {
    const std::lock_guard lock(mutex_);  // a build next to the solve reads it, too
    const LinearOperator<double>& running = A_.running();
    double product = 1e-3;
    for (const MeasuredFormat& one : table_.matrices.front().formats)
      if (one.format == running.name()) product = one.product_seconds;
    std::int64_t& seen = seen_[running.serial()];
    const std::int64_t all = running.products();
    passed_ += 1e-9 + product * static_cast<double>(all - seen);
    seen = all;
    return passed_;
  }

  Matrix<double>& A_;
  const MachineTable& table_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::int64_t> seen_;  // products, by LinearOperator::serial()
  double passed_ = 0;
};

}  // namespace protean::test
