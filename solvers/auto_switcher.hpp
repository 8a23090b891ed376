// Changes the storage format of a running solve when that pays: measures, forecasts, decides, builds, adopts.
#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <vector>

#include <protean/operators/adaptive_operator.hpp>
#include <protean/operators/cost_model.hpp>
#include <protean/operators/forecast.hpp>
#include <protean/operators/switch_policy.hpp>
#include <protean/solvers/iteration_pace.hpp>
#include <protean/solvers/solver.hpp>

namespace protean {

// Finds out what formats there are for the matrix. Called once, when the solve has lasted long enough to
// think of a change: for a host matrix in the thread of the solve (its time counts as spent), for a device
// matrix in another.
using FormatSurvey = std::function<std::vector<SwitchTarget>()>;

struct AutoSwitchOptions {
  PolicyOptions policy;
  double goal = 1e-8;        // the relative residual at which the solve will stop
  double absolute_goal = 0;  // or the residual's 2-norm
  std::int64_t max_iterations = 10000;
  double survey_seconds = 0.3e-3;  // what a survey is taken to cost where the solve waits for it
};

// A decision worth telling: all that change something, and the first of several alike that do not.
struct DecisionRecord {
  std::int64_t iteration = 0;
  double seconds = 0;  // since the solve began
  SwitchAction action = SwitchAction::stay;
  std::string format;  // it is about; empty for none
  double gain_seconds = 0, cost_seconds = 0, worst_seconds = 0, excess_seconds = 0, allowed_seconds = 0;
  Forecast remaining;
  std::string reason;
};

// What was thought of a format, and what came true. Seconds; 0 where unknown.
struct CandidateRecord {
  std::string format;
  bool admitted = true, lost = false, ran = false;
  std::string why;
  std::size_t bytes = 0;
  double predicted_product = 0, predicted_convert = 0, uncertainty = 0;  // at the first look, or when chosen
  double measured_product = 0, measured_convert = 0;
};

// Give it to the solver as its observer; `inner`, when there is one, is called first and may end the solve.
// Belongs to one solve at a time. The solve begins in the format the operator has; call finish() when it has
// ended. Times are of the operator's clock.
template <class T>
class AutoSwitcher final : public SolveObserver {
 public:
  // Keeps references to the operator, the model's table and the inner observer.
  AutoSwitcher(AdaptiveOperator<T>& A, const CostModel& model, FormatSurvey survey,
               const AutoSwitchOptions& options, SolveObserver* inner = nullptr);
  ~AutoSwitcher() override;

  bool on_iteration(const IterationInfo& info) override;
  // Of the inner observer alone: on a device the policy looks on while up to two recorded graphs are under
  // way, in which the format stays. To wait for them each time would cost more than being late.
  std::int64_t next_stop() const noexcept override;
  // Cancels what is still being built, without waiting for its end (AdaptiveOperator::cancel), and takes the
  // last measurements.
  void finish();

  std::span<const DecisionRecord> decisions() const noexcept { return decisions_; }
  // Empty when the solve ended before there was anything to think of.
  std::vector<CandidateRecord> candidates() const;
  // Called after each change of format with one line for a person.
  std::function<void(const std::string&)> on_switch;

 private:
  void start(double now);
  void account(double now);
  bool survey_ready();
  void measure();
  double time_products();
  double elapsed() const;
  bool on_device() const;
  void estimate();
  void predict();
  CostQuery query() const;
  void look(const IterationInfo& info);
  void nothing_to_change(const IterationInfo& info);
  void act(const SwitchDecision& decision, std::int64_t iteration);
  void carry_out(const SwitchDecision& decision, std::int64_t iteration);
  void lose(std::size_t candidate, std::string why);
  void switched(std::size_t candidate, const std::string& how);
  void record(const SwitchDecision& decision, const IterationInfo& info);
  std::string failure() const;
  bool worth_a_survey(std::int64_t iteration) const;

  AdaptiveOperator<T>& A_;
  CostModel model_;
  FormatSurvey survey_;
  AutoSwitchOptions options_;
  SolveObserver* inner_;

  ResidualForecast forecast_;
  std::future<std::vector<SwitchTarget>> surveying_;
  bool asked_ = false, surveyed_ = false, finished_ = false;
  std::vector<SwitchTarget> targets_;
  std::vector<SwitchCandidate> candidates_;
  std::vector<CandidateRecord> records_;
  // Where a product of the running format takes one second, or (relative: false) as it is.
  struct Estimate {
    CostPrediction cost = {};
    bool relative = true;
  };
  std::vector<Estimate> estimates_;
  bool estimated_ = false;  // for the running format
  std::vector<DecisionRecord> decisions_;

  double made_, begun_ = -1, last_exit_ = 0, now_ = 0, stay_seconds_ = 0;
  // What a device tells of at once: iterations that were computed while the first of them was waited for. So
  // the clock is right where a burst begins; in between, it goes on by the pace of an iteration each.
  struct Burst {
    double begin = 0, waited = 0, credited = 0;
    std::int64_t told = 0;
    bool first = true;  // all of it in the format the solve began with, with nothing beside it
  };
  Burst burst_;
  double waited_ = 0;  // of the present look, for other things than iterations
  std::int64_t last_iteration_ = -1, first_products_ = 0, next_look_ = 8;
  std::int64_t since_change_ = 0;  // iterations in the present format with nothing beside them
  IterationPace first_pace_, pace_;
  std::size_t first_ = 0, current_ = 0, building_ = 0;
  int switches_ = 0;
  double granted_ = 0, price_ = 0, excess_before_ = 0, conversion_scale_ = 1, products_per_iteration_ = 1;
  bool build_running_ = false;
};

}  // namespace protean
