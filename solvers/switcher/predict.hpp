// What each candidate would cost and save: the cost model and the forecast of an order, scaled by what was measured.
// Private to solvers/.
#pragma once
#include <cstddef>
#include <string>

#include "operators/policy/cost_model.hpp"
#include "operators/policy/switch_records.hpp"
#include "solvers/switcher/order_forecast.hpp"
#include "solvers/switcher/shared.hpp"

namespace protean::detail {

template <class T>
class Prices {
 public:
  Prices(SwitcherShared<T>& shared, OtherOrder<T>& order) : s_(shared), order_(order) {}

  // Predicts the times of all candidates, if the product of the current one has been measured.
  void predict();
  // Whether a candidate would pay by the machine table, with that many products that are timed before.
  bool pays_after(int products);

  // Whether the build of candidate i loads kernels.
  bool needs_loading(std::size_t i) const;
  // Products were of the columns `before`: their times, also measured ones, change as the bytes do that they move.
  void columns_changed(const ProductColumns& before);
  // Learns from a change to candidate i, which has taken place. loaded: with kernels that were loaded for it.
  void learn(std::size_t i, const SwitchRecord& change, bool loaded);
  // A build was cancelled since it cost too much: the next one is likely to be slowed down in the same way.
  void build_was_dear() noexcept { conversion_scale_ *= 2, order_.was_dear(); }

 private:
  double product(std::size_t i) const;  // its seconds, without permutations
  // What a product of these columns moves, in units of what a product of one vector moves.
  double for_columns(const Candidate& candidate, const ProductColumns& columns) const;
  double single(std::size_t i) const { return product(i) / for_columns(s_.candidates[i], s_.columns); }
  CostQuery query(const std::string& order) const;
  double loading(std::size_t i) const;
  std::size_t reference_for(const std::string& order) const;
  void estimate();
  void estimate_in(const std::string& order);
  void for_several(CostPrediction& cost, const Candidate& candidate, const Candidate& reference) const;
  double assembly() const;

  SwitcherShared<T>& s_;
  OtherOrder<T>& order_;
  double conversion_scale_ = 1;
};

}  // namespace protean::detail
