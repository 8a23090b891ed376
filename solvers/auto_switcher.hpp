// Changes the storage format of a running solve and the order of its rows if that pays: it measures, forecasts,
// decides, builds and adopts.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <protean/core/export.hpp>
#include <protean/core/locality.hpp>
#include <protean/operators/policy/adaptive_operator.hpp>
#include <protean/operators/policy/cost_model.hpp>
#include <protean/operators/policy/forecast.hpp>
#include <protean/operators/policy/reason.hpp>
#include <protean/operators/policy/switch_policy.hpp>
#include <protean/solvers/solver.hpp>
#include <protean/solvers/switcher/time_account.hpp>

namespace PROTEAN_EXPORT protean {

// Returns the formats that the matrix can have, in the order of its rows at the time of the call (the orders of their
// specs are not read). It is called once, when the solve has lasted long enough for a change, and again after a change
// of order. For a host matrix it runs in the thread of the solve, and its time counts as spent. For a device matrix it
// runs in another thread as background work, which is cancelled when the solve ends. survey_formats() of an
// AdaptiveOperator does this.
using FormatSurvey = std::function<std::vector<SwitchTarget>()>;

struct AutoSwitchOptions {
  PolicyOptions policy;
  double goal = 1e-8;        // the relative residual at which the solve will stop
  double absolute_goal = 0;  // or the 2-norm of the residual
  std::int64_t max_iterations = 10000;
  double survey_seconds = 0.3e-3;  // assumed time of a survey
  // The iterations that earlier solves like this one needed; 0: not known. They are the forecast until half of them are
  // done.
  std::int64_t expected_iterations = 0;
  // The expected number of iterations of later solves that will also use the format.
  double following_iterations = 0;
  // The order of the rows that is considered next to the present one: a name of FormatSpec::order. Empty: none. It is
  // not considered in deterministic mode, for element matrices, and if x has at most cached_x bytes. On a device it is
  // not considered if the search would have so many levels that the host would make it.
  std::string order = "rcm";
  // The selector that names the formats to survey; empty: all formats that may be the fastest. SystemMatrix follows it;
  // the policy itself takes what the survey finds.
  std::string selector = {};
  std::size_t cached_x = cached_bytes_of_x;
  // Forecasts the gain of that order from the pattern in the space of the solve. It is called once: in another thread
  // if builds are overlapped or on a device, else in the thread of the solve. Empty: forecast_order().
  std::function<OrderForecast(const SparsityPattern& pattern, std::size_t value_bytes)> forecast_order = {};
  // Calls `decide` if no other solve uses the operator, keeps others from beginning meanwhile, and returns whether it
  // called it. If it did not, the policy changes nothing and asks again. Empty: this solve alone uses the operator.
  std::function<bool(const std::function<void()>& decide)> alone = {};
  // Asked before a change is begun, with the seconds of a product in the present format and in the new one. If it says
  // no, nothing changes, and it is asked again after each iteration in which the change pays. Empty: yes.
  std::function<bool(double now, double then)> approve = {};
};

// The options for a solve in this context that ends by `rule`. A build beside the solve (policy.overlapped) needs a
// processor of its own, so the host overlaps if the context has fewer threads than there are processors. On a device
// the build and the solve share the memory bandwidth, and a build takes the time of a few products, so the solve waits
// for the build.
AutoSwitchOptions switch_options(const Context& context, const StoppingRule& rule,
                                 const PolicyOptions& policy = {});

// A decision. Each decision that changes something is recorded. Of consecutive decisions to stay for the same reason,
// only the first is recorded.
struct DecisionRecord {
  std::int64_t iteration = 0;
  double seconds = 0;  // since the solve began
  SwitchAction action = SwitchAction::stay;
  std::string format;  // the format that is begun, adopted, ...; empty if there is none
  double gain_seconds = 0, cost_seconds = 0, worst_seconds = 0, excess_seconds = 0, allowed_seconds = 0;
  Forecast remaining;
  Why why;
  std::string reason;  // text_of(why)
};

// Predicted and measured times of one format, in seconds; 0 if unknown. In another order than the caller's, the time of
// a product includes the permutations of vectors that the preconditioner then needs.
struct CandidateRecord {
  std::string format;          // with the order if it is not the caller's: "csr in order rcm"
  std::string order = "none";  // "none": the caller's
  bool admitted = true, lost = false, ran = false;
  std::string why;
  std::size_t bytes = 0;
  double predicted_product = 0, predicted_convert = 0, uncertainty = 0;  // the last before the format ran
  double measured_product = 0, measured_convert = 0;
};

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
  AutoSwitcher(AdaptiveOperator<T>& A, const CostModel& model, FormatSurvey survey,
               const AutoSwitchOptions& options, SolveObserver* inner = nullptr);
  ~AutoSwitcher() override;

  // Begins another solve with these options and observer. decisions() are of the present solve. Throws what the
  // constructor throws.
  void begin(const AutoSwitchOptions& options, SolveObserver* inner = nullptr);

  bool on_iteration(const IterationInfo& info) override;
  // Returns the stop of the inner observer; the policy itself asks for no stop. On a device the policy decides while
  // up to two recorded graphs of steps are queued, in which the format stays. Waiting for these graphs before each
  // decision would cost more than a late change.
  std::int64_t next_stop() const noexcept override;
  bool reads_solution(const IterationInfo& info) const noexcept override;
  // Cancels a running build without waiting for its end (AdaptiveOperator::cancel), and makes the last measurement. A
  // measurement takes time on a device, so there it is made only if the solve has changed the format.
  void finish();

  std::span<const DecisionRecord> decisions() const noexcept { return decisions_; }
  // Empty if the solve ended before the survey.
  std::vector<CandidateRecord> candidates() const;
  // Called after each change of format with one line for a person.
  std::function<void(const std::string&)> on_switch;

 private:
  // auto_switcher.cpp
  bool on_device() const;
  void look(const IterationInfo& info);
  void decide_now(const IterationInfo& info);
  double elapsed() const { return time_.elapsed(A_.now()); }
  double excess() const { return elapsed() - time_.stay_seconds(); }
  // switcher/candidates.cpp
  bool survey_pays(std::int64_t iteration) const;
  bool first_survey_pays() const;
  bool survey_ready();
  void add_candidate(SwitchTarget target, const std::string& order);
  void find_current();
  void survey_new_order();
  // switcher/order_forecast.cpp
  bool forecasts_beside() const;
  Why why_no_order() const;
  void begin_order_forecast();
  void take_order_forecast();
  // switcher/measure.cpp
  bool pays_beside(double price) const;
  bool measuring_is_little() const;
  bool measuring_pays();
  void measure();
  int products_timed() const;
  double time_products();
  void time_permutation();
  double permuting(const std::string& order) const;
  // switcher/predict.cpp
  Forecast remaining() const;
  CostQuery query(const std::string& order) const;
  bool has_real_device() const;
  bool needs_loading(std::size_t candidate) const;
  double loading(std::size_t candidate) const;
  std::size_t reference_for(const std::string& order) const;
  void estimate();
  double order_price(double product_seconds) const;
  void predict();
  // switcher/carry_out.cpp
  void act(const SwitchDecision& decision, std::int64_t iteration);
  void carry_out(const SwitchDecision& decision, std::int64_t iteration);
  void mark_lost(std::size_t candidate, const Why& why);
  void mark_failed(std::size_t candidate);
  FormatSpec spec_of(std::size_t candidate) const;
  Why failure() const;
  void switched(std::size_t candidate, const std::string& how);
  // switcher/record.cpp
  void record(const SwitchDecision& decision, const IterationInfo& info);
  void record_rows_kept(const IterationInfo& info);
  void record_stay(std::string what, Why why);
  void leave_order(Why why);
  void tell(const SwitchRecord& change, const std::string& how) const;

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
  int process_ = 0;  // that has begun surveying_ and forecasting_order_
  OrderForecast order_forecast_;
  OrderFollower::Permuted permuted_;  // by a change of order
  // For candidates_[i]: the target, its name in the machine table, and the seconds of its build by all threads, without
  // its order (0 before it was built).
  std::vector<SwitchTarget> targets_;
  std::vector<std::string> formats_;
  std::vector<double> built_;
  std::vector<SwitchCandidate> candidates_;
  std::vector<CandidateRecord> records_;
  // Predicted times of one candidate. With `relative` they are in units of a product of candidate `reference`,
  // otherwise in seconds.
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

  detail::TimeAccount time_;
  std::int64_t last_iteration_ = -1, first_products_ = 0, next_look_ = 8;
  std::size_t first_ = 0, current_ = 0, building_ = 0;
  int switches_ = 0;
  double granted_ = 0, price_ = 0, excess_before_ = 0, conversion_scale_ = 1, products_per_iteration_ = 1;
  bool loads_kernels_ = false;                  // the build that was begun last
  double order_seconds_ = 0, order_scale_ = 1;  // predicted: to find the order and to permute the matrix
  double permute_seconds_ = 0;                  // of one vector
  bool permute_measured_ = false;
  double record_seconds_ = 0;    // of the last recording of the steps; IterationInfo
  bool to_be_recorded_ = false;  // the steps, after a change
  bool build_running_ = false;
};

}  // namespace protean
