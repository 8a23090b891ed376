// What is measured while the solve runs, and whether the measurement is worth its time: the product of the current
// candidate, and the permutation of a vector. Private to solvers/.
#pragma once
#include "solvers/switcher/order_forecast.hpp"
#include "solvers/switcher/predict.hpp"
#include "solvers/switcher/shared.hpp"

namespace protean::detail {

template <class T>
class Measurements {
 public:
  Measurements(SwitcherShared<T>& shared, OtherOrder<T>& order) : s_(shared), order_(order) {}

  // On a device the solve waits while products are timed. Returns whether that wait is short compared with the solve so
  // far.
  bool is_little() const;
  // Whether the product of the first candidate is worth its measurement: where the account allows the time, or where a
  // candidate would pay for it by the machine table.
  bool pays(Prices<T>& prices) const;
  // Measures the product of the current candidate after trial_products iterations without a build beside them. Returns
  // false if the trial must be made longer: by as many iterations again.
  bool make();

 private:
  int products_timed() const;
  double time_products();

  SwitcherShared<T>& s_;
  OtherOrder<T>& order_;
};

}  // namespace protean::detail
