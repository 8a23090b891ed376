// Changes the storage format of a running solve and the order of its rows if that pays: it measures, forecasts,
// decides, builds and adopts.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/solvers/auto_switch_options.hpp>
#include <protean/solvers/decision_records.hpp>
#include <protean/solvers/solve_report.hpp>

namespace PROTEAN_EXPORT protean {

template <class T>
class Matrix;     // operators/matrix/matrix.hpp
class CostModel;  // operators/policy/cost_model.hpp
namespace PROTEAN_HIDDEN detail {
template <class T>
class Switching;
}  // namespace detail

// The observer to give to the solver. `inner`, if there is one, is called first and may end the solve. The solve begins
// in the operator's current format. Call finish() when it has ended. Times are from the operator's clock.
//
// An object serves one solve, and after begin() another one with the same operator. It keeps the formats that it has
// surveyed, their measured products and conversions, and the formats that lost. It also keeps the account: excess and
// bounds are for all its solves together, so a change may use time that earlier solves have saved. A later solve
// decides at once, since the product has been measured.
template <class T>
class AutoSwitcher final : public SolveObserver {
 public:
  // Keeps references to the operator and the inner observer, which must live as long as it is used. Throws BadArgument
  // for a policy out of range.
  AutoSwitcher(Matrix<T>& A, const CostModel& model, FormatSurvey survey, const AutoSwitchOptions& options,
               SolveObserver* inner = nullptr);
  ~AutoSwitcher() override;

  // Begins another solve with these options and observer. decisions() are of the present solve. Throws what the
  // constructor throws.
  void begin(const AutoSwitchOptions& options, SolveObserver* inner = nullptr);

  // Said before on_iteration() in a solve with several right-hand sides: how many have not ended.
  PROTEAN_HIDDEN void columns_left(std::int64_t running);
  bool on_iteration(const IterationInfo& info) override;
  // Returns the stop of the inner observer; the policy itself asks for no stop. On a device the policy decides while
  // up to two recorded graphs of steps are queued, in which the format stays. Waiting for these graphs before each
  // decision would cost more than a late change.
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;
  // Cancels a running build without waiting for its end (Matrix::cancel), and makes the last measurement. A
  // measurement takes time on a device, so there it is made only if the solve has changed the format.
  void finish();

  std::span<const DecisionRecord> decisions() const noexcept;
  // Empty if the solve ended before the survey.
  std::vector<CandidateRecord> candidates() const;
  // Called after each change of format with one line for a person.
  std::function<void(const std::string&)> on_switch;

 private:
  std::unique_ptr<detail::Switching<T>> inside_;  // it has a reference to on_switch
};

}  // namespace protean
