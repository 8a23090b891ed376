// What is measured while the solve runs, and whether the measurement is worth its time: the product of the current
// candidate, and the permutation of a vector. Private to solvers/.
#pragma once
#include <functional>
#include <optional>

#include "solvers/switcher/order_forecast.hpp"
#include "solvers/switcher/predict.hpp"
#include "solvers/switcher/shared.hpp"

namespace protean::detail {

template <class T>
class Measurements {
 public:
  Measurements(SwitcherShared<T>& shared, OtherOrder<T>& order) : s_(shared), order_(order) {}

  void begin_another() noexcept { no_memory_ = false; }
  // Whether the products of the solve itself are timed: on a host, unless several columns are multiplied one by one.
  bool are_free() const;

  // If products are timed that the solve does not need, it waits. Returns whether that wait is short compared with the
  // solve so far.
  bool is_little() const;
  // Whether the product of the first candidate is worth its measurement: if the account allows the time, or if a
  // candidate would pay for it according to the machine table.
  bool pays(Prices<T>& prices) const;
  // Measures the product of the current candidate after trial_products iterations without a parallel build. Returns
  // false if the trial must be made longer, by as many iterations again.
  bool make();
  // The product of the current candidate has other columns, so it is measured again. It is expected to take as long as
  // its candidate says. Other products that were measured are then scaled by the same factor.
  void columns_changed();
  // Another candidate is the current one.
  void changed() noexcept { expected_ = 0; }

 private:
  int products_timed() const;
  void take(double seconds);
  // Nothing if there is no memory for the vectors of several columns.
  std::optional<double> time_products();
  // Of one call of product(), which queues a product, while nothing else is queued.
  double seconds_of(const std::function<void()>& product) const;

  SwitcherShared<T>& s_;
  OtherOrder<T>& order_;
  double expected_ = 0;     // columns_changed(); 0: nothing is
  bool no_memory_ = false;  // in this solve
};

}  // namespace protean::detail
