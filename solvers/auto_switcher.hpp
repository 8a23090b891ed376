// Changes the storage format of a running solve when that pays: it measures, forecasts, decides, builds and
// adopts.
#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <vector>

#include <protean/operators/policy/adaptive_operator.hpp>
#include <protean/operators/policy/cost_model.hpp>
#include <protean/operators/policy/forecast.hpp>
#include <protean/operators/policy/switch_policy.hpp>
#include <protean/solvers/iteration_pace.hpp>
#include <protean/solvers/solver.hpp>

namespace protean {

// Returns the formats that the matrix can have. Called once, when the solve has lasted long enough for a
// change. For a host matrix it runs in the thread of the solve, and its time counts as spent. For a device
// matrix it runs in another thread.
using FormatSurvey = std::function<std::vector<SwitchTarget>()>;

struct AutoSwitchOptions {
  PolicyOptions policy;
  double goal = 1e-8;        // the relative residual at which the solve will stop
  double absolute_goal = 0;  // or the residual's 2-norm
  std::int64_t max_iterations = 10000;
  double survey_seconds = 0.3e-3;  // assumed time of a survey
};

// The options for a solve in this context that ends by `rule`. A build beside the solve (policy.overlapped) needs a
// processor of its own: it is used on the host where the context has fewer threads than there are processors. On a device
// both share the memory bandwidth and a build takes the time of a few products, so the solve waits for it.
AutoSwitchOptions switch_options(const Context& context, const StoppingRule& rule,
                                 const PolicyOptions& policy = {});

// A decision. All that change something are recorded; of several decisions to stay for the same reason, the
// first is.
struct DecisionRecord {
  std::int64_t iteration = 0;
  double seconds = 0;  // since the solve began
  SwitchAction action = SwitchAction::stay;
  std::string format;  // the format that is begun, adopted, ...; empty if there is none
  double gain_seconds = 0, cost_seconds = 0, worst_seconds = 0, excess_seconds = 0, allowed_seconds = 0;
  Forecast remaining;
  std::string reason;
};

// Predictions for one format and the measured times. Seconds; 0 where unknown.
struct CandidateRecord {
  std::string format;
  bool admitted = true, lost = false, ran = false;
  std::string why;
  std::size_t bytes = 0;
  double predicted_product = 0, predicted_convert = 0, uncertainty = 0;  // the last before the format ran
  double measured_product = 0, measured_convert = 0;
};

// The observer to give to the solver. `inner`, if there is one, is called first and may end the solve. An
// object serves one solve. The solve begins in the operator's current format. Call finish() when it has
// ended. Times are from the operator's clock.
template <class T>
class AutoSwitcher final : public SolveObserver {
 public:
  // Keeps references to the operator and the inner observer.
  AutoSwitcher(AdaptiveOperator<T>& A, const CostModel& model, FormatSurvey survey,
               const AutoSwitchOptions& options, SolveObserver* inner = nullptr);
  ~AutoSwitcher() override;

  bool on_iteration(const IterationInfo& info) override;
  // That of the inner observer: the policy itself asks for no stop. On a device it decides while up to two
  // recorded graphs of steps are queued, in which the format stays. Waiting for them before each decision
  // would cost more than a late change.
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;
  // Cancels a running build without waiting for its end (AdaptiveOperator::cancel), and takes the last
  // measurements.
  void finish();

  std::span<const DecisionRecord> decisions() const noexcept { return decisions_; }
  // Empty if the solve ended before the survey.
  std::vector<CandidateRecord> candidates() const;
  // Called after each change of format with one line for a person.
  std::function<void(const std::string&)> on_switch;

 private:
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
  void record_rows_kept(const IterationInfo& info);
  void act(const SwitchDecision& decision, std::int64_t iteration);
  void carry_out(const SwitchDecision& decision, std::int64_t iteration);
  void mark_lost(std::size_t candidate, std::string why);
  void switched(std::size_t candidate, const std::string& how);
  void record(const SwitchDecision& decision, const IterationInfo& info);
  std::string failure() const;
  bool survey_pays(std::int64_t iteration) const;

  AdaptiveOperator<T>& A_;
  CostModel model_;
  FormatSurvey survey_;
  AutoSwitchOptions options_;
  SolveObserver* inner_;

  ResidualForecast forecast_;
  std::future<std::vector<SwitchTarget>> surveying_;
  bool survey_started_ = false, surveyed_ = false, finished_ = false;
  std::vector<SwitchTarget> targets_;
  std::vector<SwitchCandidate> candidates_;
  std::vector<CandidateRecord> records_;
  // Predicted times of one format. With `relative` they are in units of the current format's product,
  // otherwise in seconds.
  struct Estimate {
    CostPrediction cost = {};
    bool relative = true;
  };
  std::vector<Estimate> estimates_;
  bool estimated_ = false;  // estimates_ belong to the current format
  std::vector<DecisionRecord> decisions_;

  double created_, solve_begin_ = -1, last_exit_ = 0, stay_seconds_ = 0;
  // Iterations that a device reports together: all of them were computed while the host waited for the first
  // report. So the measured time is right at the beginning of a burst only. Within a burst each iteration is
  // taken to last as long as the pace says.
  struct Burst {
    double begin = 0;
    double paused = 0;    // seconds in which no iterations were computed
    double credited = 0;  // seconds added to stay_seconds_
    std::int64_t iterations = 0;
    bool first = true;  // all of them in the first format, without a build beside them
  };
  Burst burst_;
  double paused_ = 0;  // seconds of the current call in which no iterations were computed
  std::int64_t last_iteration_ = -1, first_products_ = 0, next_look_ = 8;
  std::int64_t since_change_ = 0;  // iterations in the current format without a build beside them
  IterationPace first_pace_, pace_;
  std::size_t first_ = 0, current_ = 0, building_ = 0;
  int switches_ = 0;
  double granted_ = 0, price_ = 0, excess_before_ = 0, conversion_scale_ = 1, products_per_iteration_ = 1;
  bool build_running_ = false;
};

}  // namespace protean
