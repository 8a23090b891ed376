// The inside of AutoSwitcher: when it looks, and what it does then. Private to solvers/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "solvers/auto_switch_options.hpp"
#include "solvers/switcher/measure.hpp"
#include "solvers/switcher/order_forecast.hpp"
#include "solvers/switcher/predict.hpp"
#include "solvers/switcher/rounding_progress.hpp"
#include "solvers/switcher/shared.hpp"
#include "solvers/switcher/survey.hpp"

namespace protean::detail {

template <class T>
class Switching {
 public:
  // The members of AutoSwitcher of the same names. listener: its on_switch.
  Switching(Matrix<T>& A, const CostModel& model, FormatSurvey survey, const AutoSwitchOptions& options,
            SolveObserver* inner, const std::function<void(const std::string&)>& listener);
  ~Switching();
  Switching(const Switching&) = delete;
  Switching& operator=(const Switching&) = delete;
  void begin(const AutoSwitchOptions& options, SolveObserver* inner);
  void columns_left(std::int64_t running) {
    take_columns(ProductColumns::of_solve(std::max<std::int64_t>(running, 1)));
  }
  bool on_iteration(const IterationInfo& info);
  void finish();
  const SolveObserver* inner() const noexcept { return inner_; }
  std::span<const DecisionRecord> decisions() const noexcept { return s_.log.decisions(); }
  std::vector<CandidateRecord> candidates() const { return s_.candidates.records(); }

 private:
  // switching.cpp
  void take_columns(const ProductColumns& now);
  void count_products(const ProductColumns& of, bool one_pass);
  void charge(const IterationInfo& info, double now);
  void record(const SwitchDecision& decision, const IterationInfo& info);
  void record_rows_kept(const IterationInfo& info);
  bool rounds() const;
  void judge_rounding(const IterationInfo& info);
  bool asks_about_rounding(const IterationInfo& info);
  SwitchDecision stay(Why why) const;
  void look(const IterationInfo& info);
  void decide_now(const IterationInfo& info);
  PolicyState state(const IterationInfo& info, BuildState build);
  void wait_for_threads() { surveys_.wait(), order_.wait(); }
  // carry_out.cpp
  void act(const SwitchDecision& decision, std::int64_t iteration);
  void carry_out(const SwitchDecision& decision, std::int64_t iteration);
  void begin_build(const SwitchDecision& decision, std::int64_t iteration);
  FormatSpec spec_of(std::size_t candidate) const;
  Why failure() const;
  void switched(std::size_t candidate, std::string_view how);

  SwitcherShared<T> s_;
  SolveObserver* inner_;
  OtherOrder<T> order_;
  FormatSurveys<T> surveys_;
  Prices<T> prices_;
  Measurements<T> measurements_;

  bool finished_ = false;
  bool to_be_recorded_ = false;  // the steps, after a change
  RoundingProgress progress_;
  std::int64_t corrections_ = 0;   // IterationInfo::corrections at the last look at them
  bool no_way_back_ = false;       // from values in float: the first format could not be built
  bool refusal_recorded_ = false;  // AutoSwitchOptions::no_rounding, in this solve
  // Of the present solve: products of all columns, before the operator had counted counted_; and its first iteration.
  double products_ = 0;
  std::int64_t counted_ = 0, first_iteration_ = 0, next_look_;
  // The build that was begun last. The rule gave granted, price and excess_before.
  struct RunningBuild {
    bool running = false;
    std::size_t candidate = 0;
    double granted = 0, price = 0, excess_before = 0;
    bool loads_kernels = false;
  } build_;
};

}  // namespace protean::detail
