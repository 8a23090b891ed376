// A kept system, and what is done with it.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/csr_view.hpp"
#include "core/error.hpp"
#include "life/comparison.hpp"
#include "protean.hpp"
#include "support/multi.hpp"
#include "support/space.hpp"

namespace protean::test::life {
namespace {

constexpr MultiShape columns_shape{VectorLayout::columns, 0};

constexpr const char* observer_throws = "the observer throws";

// All that is needed to make a kept system once more.
struct KeptSpec {
  Place place = Place::host;
  int system = 0;
  unsigned generation = 0;
  SolveSettings settings;
  bool callback = false;  // the preconditioner is the test's, by a maker
  bool lagging = false;   // its preconditioner may be of older values, or have kept something of them
};

// What its observer does, once.
struct Plan {
  std::int64_t columns = 1;
  Event event = Event::none;
  std::int64_t event_at = 0;
  std::int64_t failing_allocation = 0;
  unsigned numbers = 0;
};

std::string in_words(const SolveSettings& s) {
  std::string text =
      fmt::format("{}, {} (refresh {}), format {}, order {}, tolerance {:g} of {}, at most {} iterations",
                  s.method, s.preconditioner, to_string(s.preconditioning.refresh), s.format, s.order,
                  s.solver.stopping.relative_tolerance,
                  s.solver.stopping.baseline == Baseline::rhs ? "b" : "r0", s.solver.stopping.max_iterations);
  if (s.policy == "auto") text += ", a policy";
  for (const SchedulePoint& point : s.schedule)
    text += fmt::format(", {} at {:g}", point.to.name(), point.at);
  if (s.expected_iterations > 0) text += fmt::format(", {} expected iterations", s.expected_iterations);
  return text;
}

template <class T>
class Kept {
 public:
  Kept(const KeptSpec& spec, const ContextPtr& context)
      : spec_(spec), numbers_(numbers<T>(spec.system, spec.generation)) {
    spec_.settings.context = context;
    system_.emplace(placed<T>(context, numbers_->csr), spec_.settings);
    if (spec.callback) set_callback(true);
  }
  LinearSystem<T>& system() { return *system_; }
  KeptSpec& spec() { return spec_; }
  std::int64_t size() const { return systems()[spec_.system].size; }

  void set_callback(bool on) {
    typename SystemSolver<T>::Maker maker;
    if (on)
      maker = [](const LinearOperator<T>& A) {
        return make_preconditioning<T>(Preconditioning::callback, A);
      };
    system_->solver().set_preconditioner(std::move(maker));
    spec_.callback = on;
  }
  // By one of the two ways. If they are refused, the old ones stay.
  void set_values(unsigned generation, bool by_pointer) {
    auto next = numbers<T>(spec_.system, generation);
    const CsrMatrix<T> there = placed<T>(system_->matrix().context(), next->csr);
    if (by_pointer)
      system_->update_values(there.values);
    else
      system_->update_values(with_values(system_->matrix().given(), there.values));
    values_ = std::move(next), there_ = there, spec_.generation = generation;
  }

 private:
  KeptSpec spec_;
  // The arrays that the system borrows: of the pattern, and of the values of now.
  std::shared_ptr<const Numbers<T>> numbers_, values_;
  CsrMatrix<T> there_;
  std::optional<LinearSystem<T>> system_;
};

// Of one right-hand side or several: an outcome for each.
template <class T>
class Watcher final : public SolveObserver, public MultiSolveObserver {
 public:
  Watcher(const Plan& plan, LinearSystem<T>& system, bool fresh)
      : plan_(plan), system_(system), fresh_(fresh) {}
  bool on_iteration(const IterationInfo& info) override {
    seen.push_back(info);
    return act(info.iteration);
  }
  bool on_iteration(const MultiIterationInfo& info) override { return act(info.iteration); }
  std::int64_t next_stop() const noexcept override {
    return plan_.event == Event::none ? std::numeric_limits<std::int64_t>::max() : plan_.event_at;
  }
  std::vector<IterationInfo> seen;
  bool happened = false;
  std::string wrong;

 private:
  bool act(std::int64_t iteration) {
    if (iteration < last_) wrong = fmt::format("the observer saw iteration {} after {}", iteration, last_);
    last_ = iteration;
    if (plan_.event == Event::none || happened || iteration < plan_.event_at) return true;
    happened = true;
    if (plan_.event == Event::exception) throw Thrown(observer_throws);
    if (plan_.event == Event::new_values && !fresh_) calls_of_its_own_system();
    return plan_.event != Event::interrupt;
  }
  // All of them are refused, and change nothing.
  void calls_of_its_own_system() {
    SolveSettings other = system_.settings();
    other.method = other.method == "gmres" ? "bicgstab" : "gmres", other.preconditioner = "none";
    const std::function<void()> calls[] = {[&] { system_.set(other); },
                                           [&] { system_.set_up(); },
                                           [&] { system_.update_values(system_.matrix().given().values); },
                                           [&] { system_.solver().set_preconditioner({}); },
                                           [&] { (void)system_.solve({}, {}); },
                                           [&] { (void)system_.multi_solve({}, {}); }};
    for (std::size_t i = 0; i < std::size(calls); ++i) try {
        calls[i]();
        wrong = fmt::format("call {} of the observer was not refused", i);
      } catch (const BadArgument& error) {
        if (std::string(error.what()).find("while the system solves") == std::string::npos)
          wrong = fmt::format("call {} of the observer: {}", i, error.what());
      }
  }

  const Plan& plan_;
  LinearSystem<T>& system_;
  const bool fresh_;
  std::int64_t last_ = 0;
};

template <class T>
struct KeptOutcome {
  std::vector<Outcome<T>> columns;
  std::string thrown, wrong, format, order;
  bool out_of_memory = false, happened = false;
};

template <class T>
KeptOutcome<T> carry_out(const Plan& plan, LinearSystem<T>& system, bool fresh, const Columns<T>& b,
                         const Columns<T>& x0) {
  KeptOutcome<T> outcome;
  const ContextPtr& context = system.matrix().context();
  const std::int64_t n = std::ssize(b.front());
  PlacedColumns<T> B(context, b, n, columns_shape), X(context, x0, n, columns_shape);
  Watcher<T> watcher(plan, system, fresh);
  std::vector<SolveReport> reports;
  try {
    const FailingAllocation fault(fresh ? 0 : plan.failing_allocation);
    const auto take = [&](auto result) {
      outcome.format = result.format + "/" + result.kernel, outcome.order = result.order;
      return std::move(result.report);
    };
    if (plan.columns == 1)
      reports.push_back(take(system.solve(B.read().column(0), X.view().column(0), &watcher)));
    else
      reports = take(system.multi_solve(B.read(), X.view(), &watcher)).columns;
  } catch (const OutOfMemory& error) {
    outcome.thrown = error.what(), outcome.out_of_memory = true;
  } catch (const std::exception& error) { outcome.thrown = error.what(); }
  outcome.wrong = watcher.wrong, outcome.happened = watcher.happened;
  const Columns<T> x = X.fetch();
  for (std::size_t j = 0; j < x.size(); ++j) {
    Outcome<T>& one = outcome.columns.emplace_back();
    one.thrown = outcome.thrown, one.x = x[j];
    if (j < reports.size()) one.report = reports[j];
    if (plan.columns == 1) one.seen = watcher.seen;
  }
  return outcome;
}

}  // namespace
}  // namespace protean::test::life
