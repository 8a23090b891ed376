// Changes the storage format of a running solve and the order of its rows when that pays: it measures,
// forecasts, decides, builds and adopts.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <protean/core/locality.hpp>
#include <protean/operators/policy/adaptive_operator.hpp>
#include <protean/operators/policy/cost_model.hpp>
#include <protean/operators/policy/forecast.hpp>
#include <protean/operators/policy/switch_policy.hpp>
#include <protean/solvers/iteration_pace.hpp>
#include <protean/solvers/solver.hpp>

namespace protean {

// Returns the formats that the matrix can have, in the order of its rows at the time of the call (the orders of their
// specs are not read). Called once, when the solve has lasted long enough for a change, and again after a change of order.
// For a host matrix it runs in the thread of the solve, and its time counts as spent. For a device matrix it runs in
// another thread as background work, which is cancelled when the solve ends. survey_formats() of an AdaptiveOperator does this.
using FormatSurvey = std::function<std::vector<SwitchTarget>()>;

struct AutoSwitchOptions {
  PolicyOptions policy;
  double goal = 1e-8;        // the relative residual at which the solve will stop
  double absolute_goal = 0;  // or the residual's 2-norm
  std::int64_t max_iterations = 10000;
  double survey_seconds = 0.3e-3;  // assumed time of a survey
  // The order of the rows that is considered beside the present one: a name of FormatSpec::order; empty: none. Not in
  // deterministic mode, for element matrices, nor where x has at most cached_x bytes. On a device not where its search would
  // have so many levels that the host would find it.
  std::string order = "rcm";
  std::size_t cached_x = cached_bytes_of_x;
  // What that order would gain, from the pattern in the memory of the solve. Called once, in another thread if builds are
  // overlapped or on a device. Empty: forecast_order().
  std::function<OrderForecast(const SparsityPattern& pattern, std::size_t value_bytes)> forecast_order = {};
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

// Predictions for one format and the measured times. Seconds; 0 where unknown. In another order than the caller's a
// product includes the permutations of vectors that the preconditioner then needs.
struct CandidateRecord {
  std::string format;  // with the order, where it is not that in which the solve began: "csr in order rcm"
  std::string order;   // empty: that in which the solve began
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
  // Keeps references to the operator and the inner observer. Throws BadArgument for a policy out of range.
  AutoSwitcher(AdaptiveOperator<T>& A, const CostModel& model, FormatSurvey survey,
               const AutoSwitchOptions& options, SolveObserver* inner = nullptr);
  ~AutoSwitcher() override;

  bool on_iteration(const IterationInfo& info) override;
  // That of the inner observer: the policy itself asks for no stop. On a device it decides while up to two
  // recorded graphs of steps are queued, in which the format stays. Waiting for them before each decision
  // would cost more than a late change.
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;
  // Cancels a running build without waiting for its end (AdaptiveOperator::cancel), and takes the last measurement. On a device,
  // where that takes time, only of a format that the solve changed to.
  void finish();

  std::span<const DecisionRecord> decisions() const noexcept { return decisions_; }
  // Empty if the solve ended before the survey.
  std::vector<CandidateRecord> candidates() const;
  // Called after each change of format with one line for a person.
  std::function<void(const std::string&)> on_switch;

 private:
  void account(double now);
  bool pays_beside(double price) const;
  bool survey_ready();
  bool measuring_is_little() const;
  bool measuring_pays();
  void measure();
  double time_products();
  double elapsed() const;
  bool on_device() const;
  std::string why_no_order() const;
  void begin_order_forecast();
  void take_order_forecast();
  void leave_order(const std::string& why);
  void add_candidate(SwitchTarget target, const std::string& order);
  void survey_new_order();
  double excess() const { return elapsed() - stay_seconds_; }
  std::size_t reference_for(const std::string& order) const;
  double permuting(const std::string& order) const;
  void time_permutation();
  void estimate();
  double order_price(double product_seconds) const;
  void predict();
  CostQuery query(const std::string& order) const;
  void look(const IterationInfo& info);
  void record_rows_kept(const IterationInfo& info);
  void act(const SwitchDecision& decision, std::int64_t iteration);
  void carry_out(const SwitchDecision& decision, std::int64_t iteration);
  FormatSpec spec_of(std::size_t candidate) const;
  void mark_lost(std::size_t candidate, std::string why);
  void mark_failed(std::size_t candidate);
  void switched(std::size_t candidate, const std::string& how);
  void record(const SwitchDecision& decision, const IterationInfo& info);
  std::string failure() const;
  bool survey_pays(std::int64_t iteration) const;
  bool forecasts_beside() const;

  AdaptiveOperator<T>& A_;
  CostModel model_;
  FormatSurvey survey_;
  AutoSwitchOptions options_;
  SolveObserver* inner_;

  ResidualForecast forecast_;
  std::future<std::vector<SwitchTarget>> surveying_;
  bool survey_started_ = false, surveyed_ = false, new_order_surveyed_ = false, finished_ = false;
  bool order_asked_ = false;          // whether it could pay, once
  double survey_took_ = 0;            // seconds, on the host
  std::atomic<bool> leaving_{false};  // ends the forecast of an order in another thread
  std::future<OrderForecast> forecasting_order_;
  OrderForecast order_forecast_;
  OrderFollower::Permuted permuted_;  // by a change of order
  // The target, the name in the machine table, and the seconds of the build once it was built (by all threads, without its
  // order; 0 before) of candidates_[i].
  std::vector<SwitchTarget> targets_;
  std::vector<std::string> formats_;
  std::vector<double> built_;
  std::vector<SwitchCandidate> candidates_;
  std::vector<CandidateRecord> records_;
  // Predicted times of one candidate. With `relative` they are in units of a product of candidate `reference`, otherwise
  // in seconds.
  struct Estimate {
    CostPrediction cost = {};
    bool relative = true;
    std::size_t reference = 0;
  };
  std::vector<Estimate> estimates_;
  // The price of the order, and a product of csr in the present one, in units of the current format's product.
  CostPrediction order_estimate_;
  bool estimated_ = false;                      // estimates_ belong to the current format
  std::map<std::string, std::size_t> last_in_;  // the candidate that ran last in an order, and was measured
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
  double order_seconds_ = 0, order_scale_ = 1;  // predicted: to find the order and to permute the matrix
  double permute_seconds_ = 0;                  // of one vector
  bool permute_measured_ = false;
  bool build_running_ = false;
};

}  // namespace protean
