// The other order of the rows: whether it is considered next to the present one, its gain, and its cost. Private to
// solvers/.
#pragma once
#include <string>

#include "core/locality.hpp"
#include "operators/order.hpp"
#include "operators/policy/cost_model.hpp"
#include "solvers/switcher/shared.hpp"
#include "solvers/switcher/work_beside.hpp"

namespace protean::detail {

template <class T>
class OtherOrder {
 public:
  explicit OtherOrder(SwitcherShared<T>& shared) : s_(shared) {}

  // Begins another solve. A forecast that was not ready when the last one ended is asked for again.
  void begin_another();
  // Until its thread has ended.
  void wait() { work_.wait(); }

  // Whether the forecast runs in another thread.
  bool beside() const { return s_.options.policy.overlapped || s_.on_device(); }
  // Whether the order of the rows can change, whatever the matrix is.
  bool possible() const { return why_not().reason == Reason::none; }
  // Begins the forecast, unless it was asked for before. On a device it copies many rows, so it comes after the survey,
  // and later in the solve.
  void ask();
  // Adds each candidate in the other order, once it is known what that order gains.
  void take();

  // The price of the order by the cost model, compared with the current candidate.
  void estimate(const CostQuery& query);
  // A prediction for the present order as one for the other order, for a matrix of these bytes.
  CostPrediction in_it(CostPrediction cost, std::size_t bytes) const;
  // From now on the order and a permutation are priced for products of these seconds (without permutations).
  void predict(double product_seconds);
  // Seconds to find the order and to permute the matrix, for a product of these seconds; and as predicted last.
  double seconds(double product_seconds) const;
  double seconds() const noexcept { return order_seconds_; }
  // A search that was cancelled cost too much: later ones are priced higher.
  void was_dear() noexcept { scale_ *= 2; }

  // Measures the permutation of a vector, once, in the first order that is not the caller's.
  void time_permutation();
  // Seconds that the vectors which are permuted in this order add to a product.
  double permuting(const std::string& order) const;
  // Seconds of a change between two orders for the vectors of the solve.
  double permuting_at_change() const noexcept { return permuted_.vectors * permute_seconds_; }

 private:
  Why why_not() const;
  void leave(Why why);
  double ratio(double bytes_a_row) const;

  SwitcherShared<T>& s_;
  bool asked_ = false;  // whether it could pay, once
  WorkBeside<OrderForecast> work_;
  OrderForecast forecast_;
  OrderFollower::Permuted permuted_;  // by a change of order
  // The price of the order, and a product of csr in the present one, in units of the current candidate's product.
  CostPrediction estimate_;
  double order_seconds_ = 0, scale_ = 1;  // predicted
  double permute_seconds_ = 0;            // of one vector
  bool permute_measured_ = false;
};

}  // namespace protean::detail
