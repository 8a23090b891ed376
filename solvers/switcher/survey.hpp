// Which formats are candidates: whether a survey of them pays, and its results. Private to solvers/.
#pragma once
#include <utility>
#include <vector>

#include "operators/policy/switch_records.hpp"
#include "solvers/auto_switch_options.hpp"
#include "solvers/switcher/order_forecast.hpp"
#include "solvers/switcher/shared.hpp"
#include "solvers/switcher/work_beside.hpp"

namespace protean::detail {

template <class T>
class FormatSurveys {
 public:
  FormatSurveys(SwitcherShared<T>& shared, FormatSurvey survey, OtherOrder<T>& order)
      : s_(shared), survey_(std::move(survey)), order_(order) {}

  // Begins another solve: finds the candidate that the matrix is in now.
  void begin_another();
  // Until its thread has ended.
  void wait() { work_.wait(); }

  // Whether the candidates are known. Otherwise makes the survey, or begins it, if it pays.
  bool ready();
  bool done() const noexcept { return done_; }
  // Surveys the formats again after a change of order: their bytes have changed, and other formats may be possible. The
  // survey is made only if the account allows its time.
  void again_in_new_order();

 private:
  bool pays() const;
  bool first_one_pays() const;
  void begin();
  void find_current();
  SwitchTarget present() const;

  SwitcherShared<T>& s_;
  FormatSurvey survey_;
  OtherOrder<T>& order_;
  WorkBeside<std::vector<SwitchTarget>> work_;
  bool started_ = false, done_ = false, new_order_done_ = false;
  double took_ = 0;  // seconds, on the host
};

}  // namespace protean::detail
