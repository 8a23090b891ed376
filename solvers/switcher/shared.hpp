// What the parts of the policy share in a solve. Private to solvers/.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "operators/matrix/matrix.hpp"
#include "operators/multi_product.hpp"
#include "operators/policy/cost_model.hpp"
#include "solvers/auto_switch_options.hpp"
#include "solvers/switcher/candidates.hpp"
#include "solvers/switcher/columns.hpp"
#include "solvers/switcher/iteration_forecast.hpp"
#include "solvers/switcher/record.hpp"
#include "solvers/switcher/time_account.hpp"

namespace protean::detail {

template <class T>
struct SwitcherShared {
  SwitcherShared(Matrix<T>& A_, const CostModel& model_, const AutoSwitchOptions& options_,
                 const std::function<void(const std::string&)>& listener)
      : A(A_),
        model(model_),
        options(options_),
        time(on_device(), A.now()),
        candidates(A.elements() ? A.elements()->name() : std::string_view()),
        log(listener) {
    iterations.begin(options);
  }

  Matrix<T>& A;
  CostModel model;
  AutoSwitchOptions options;
  TimeAccount time;
  IterationForecast iterations;
  ProductColumns columns;
  Candidates candidates;
  SwitchLog log;
  double record_seconds = 0;         // of the last recording of the steps; IterationInfo
  std::atomic<bool> leaving{false};  // ends work in other threads

  bool on_device() const { return A.context()->space() == Space::device; }
  // Whether times come from a GPU, not from a test.
  bool has_real_device() const { return on_device() && !A.context()->simulated() && A.has_machine_clock(); }
  double elapsed() const { return time.elapsed(A.now()); }
  // The seconds by which changes may exceed the time without changes, of all solves.
  double account() const { return (options.policy.worst_factor - 1) * time.stay_seconds(); }
  // Seconds of a product that correcting the residual takes if the candidate rounds its values: b - A x with the given
  // ones takes about as long as an iteration in the first format.
  double correcting(const Candidate& candidate) const {
    return candidate.target.rounds ? time.first_pace() / iterations.per_tenth_at_most() : 0;
  }
  // Whether work that runs next to a solve on a device pays at this price: the solve should last longer.
  bool pays_beside(double price) const {
    const Forecast left = iterations.remaining();
    return time.stay_seconds() >= 4 * price || (left.known && left.low * time.first_pace() >= 2 * price);
  }
  // Whether the running matrix multiplies several vectors in one pass.
  bool one_pass() const { return column_by_column<T>(A.running()).empty(); }
  // A decision that nobody else has recorded: to stay, for good.
  void stay(std::string what, Why why) {
    log.add_stay(std::move(what), std::move(why), iterations.last(), time.since_begin(A.now()));
  }
};

}  // namespace protean::detail
