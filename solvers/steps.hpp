// How the steps of a method are run and judged. On the host each step runs and is judged at once. On a device
// some steps are queued together, in a long solve as a CUDA graph, which is recorded once and replayed; they are
// judged there, and the host reads the verdicts later. Private to solvers/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device_checks.hpp"
#include "core/simulated_device.hpp"
#include "solvers/iteration_control.hpp"
#include "solvers/method.hpp"
#include "solvers/ordered_solve.hpp"

namespace protean::detail {

template <class T>
class Steps {
 public:
  virtual ~Steps() = default;
  // The verdict on the state after begin().
  virtual Verdict first(const IterationControl& control) = 0;
  // The verdict on the next step. A device may have done later steps by then. It never goes beyond a step
  // that has an event or has reached the goal, nor more than `left` steps ahead.
  virtual Verdict next(const IterationControl& control, std::int64_t left) = 0;
  // Waits for all queued steps. Returns how many of them next() has not returned yet, and replaces `last` by
  // the verdict on the last of these. Called before the driver uses the method in another way.
  virtual std::int64_t settle(const IterationControl& control, Verdict& last) = 0;
  // The order of the rows has changed between two steps, after all that is queued: later steps belong to this system,
  // which outlives the solve.
  virtual void change_system(const System<T>& system) noexcept = 0;
  // Whether a step may have been done that next() has not returned.
  virtual bool runs_ahead() const noexcept { return true; }
  // With true, next() queues no steps beyond the queued ones as long as it has any to return, so that it comes to rest.
  virtual void hold(bool) noexcept {}
  // Whether next() has returned all steps that were queued: the vectors are those of the last one.
  virtual bool rests() const noexcept { return true; }
  // How often this solve recorded a graph, and how often that needed a new graph instead of an update.
  virtual std::int64_t recorded() const noexcept { return 0; }
  virtual std::int64_t made() const noexcept { return 0; }
  // The value of IterationInfo::record_seconds, by the host's clock. The recording may be of an earlier solve, whose
  // graph is replayed.
  virtual double record_seconds() const noexcept { return 0; }
  // The value of SolveReport::steps.
  virtual std::string_view name() const noexcept = 0;
};

template <class T>
class HostSteps final : public Steps<T> {
 public:
  HostSteps(Method<T>& method, const System<T>& system) : method_(method), system_(&system) {}
  Verdict first(const IterationControl& control) override { return control.read(method_.signals()); }
  Verdict next(const IterationControl& control, std::int64_t) override {
    method_.step(*system_);
    return control.read(method_.signals());
  }
  std::int64_t settle(const IterationControl&, Verdict&) override { return 0; }
  void change_system(const System<T>& system) noexcept override { system_ = &system; }
  bool runs_ahead() const noexcept override { return false; }
  std::string_view name() const noexcept override { return "host"; }

 private:
  Method<T>& method_;
  const System<T>* system_;
};

// The verdict on scalars in the space of the context, of each of which the host gets a copy.
template <class T>
Verdict fetch_verdict(const Context& context, const IterationControl& control, const Signals<T>& signals) {
  return read_elsewhere(control, signals, [&](const T* place, int, int) {
    T number = 0;
    copy<T>(context, VectorView<const T>{place, 1, context.space()}, {&number, 1});
    return number;
  });
}

// Makes the shield of a method ready for steps of this system that may run after the end of the solve. May allocate, so
// not while a graph is recorded.
template <class T>
void prepare(Shield<T>& shield, Method<T>& method, const System<T>& system) {
  if (!system.needs_shield() || shield.vector.size() == system.x.size) return;
  for (const VectorView<T> v : method.kept_vectors(true)) shield.kept.push_back(v.data);
  shield.vector = make_vector<T>(system.A.context(), system.x.size);
}
template <class T>
void shielded_step(Method<T>& method, const System<T>& system, const Shield<T>& shield) {
  System<T> shielded = system;
  shielded.shield = &shield;
  method.step(shielded);
}

// Steps on a simulated device, which records nothing. It does them steps_ahead() before next() returns them, as a GPU
// does, and each is judged when it was done. As on a GPU, more steps run after the one that ends the run.
template <class T>
class FetchedSteps final : public Steps<T> {
 public:
  FetchedSteps(Method<T>& method, const System<T>& system) : method_(method), system_(&system) {}
  Verdict first(const IterationControl& control) override {
    return fetch_verdict(system_->context(), control, method_.signals());
  }
  Verdict next(const IterationControl& control, std::int64_t left) override {
    if (returned_ == done_.size()) {
      done_.clear(), returned_ = 0;
      const std::int64_t most = 1 + system_->context().simulated()->steps_ahead();
      bool ended = left <= most;
      for (std::int64_t k = std::clamp<std::int64_t>(left, 1, most); k > 0; --k) {
        prepare(shield_, method_, *system_);
        shielded_step(method_, *system_, shield_);
        done_.push_back({fetch_verdict(system_->context(), control, method_.signals()), method_.phase()});
        const Verdict& verdict = done_.back().verdict;
        const bool end = verdict.event != StopReason::running || verdict.reached;
        ended = ended || end;
        if (end || method_.signals().cycle_ended) break;
      }
      if (ended) run_on();
    }
    const Done& next = done_[returned_++];
    method_.set_phase(next.phase);
    return next.verdict;
  }
  std::int64_t settle(const IterationControl&, Verdict& last) override {
    const auto more = static_cast<std::int64_t>(done_.size() - returned_);
    if (more > 0) last = done_.back().verdict, method_.set_phase(done_.back().phase);
    returned_ = done_.size();
    return more;
  }
  void change_system(const System<T>& system) noexcept override { system_ = &system; }
  bool rests() const noexcept override { return returned_ == done_.size(); }
  std::string_view name() const noexcept override { return "simulated"; }

 private:
  struct Done {
    Verdict verdict;
    std::int64_t phase;
  };

  // The steps of a graph after the one that ended the run. A graph ends with the method's cycle.
  void run_on() {
    struct Ended {
      SimulatedDevice& device;
      explicit Ended(SimulatedDevice& of) : device(of) { device.set_ended(true); }
      ~Ended() { device.set_ended(false); }
    } ended(*system_->context().simulated());
    const std::int64_t phase = method_.phase(), products = system_->A.products();
    for (std::int64_t k = ended.device.steps_after_end(); k > 0 && !method_.signals().cycle_ended; --k)
      shielded_step(method_, *system_, shield_);
    method_.set_phase(phase);
    system_->count_products(products - system_->A.products());
  }

  Method<T>& method_;
  const System<T>* system_;
  Shield<T> shield_;
  std::vector<Done> done_;  // in one go
  std::size_t returned_ = 0;
};

// Everything that a solver keeps from one solve to the next. A solve of another layout gets another
// workspace, so vectors, recorded graphs and plans of kernels begin and end together: no graph can outlive
// the vectors whose addresses it contains. Here is what solves of one and of several vectors share.
template <class T>
struct WorkspaceParts {
  explicit WorkspaceParts(const WorkspaceLayout& of) : layout(of), number(of.context, 1) {}
  const WorkspaceLayout layout;
  Vector<T> number;  // one entry, in the space of the solve; norms are left there
  // If options or set_null_space() ask for it: the vector of the option, and one entry for each vector.
  Vector<T> constant, components;
  Vector<T> weights;  // W in the caller's order, if residuals are measured with weights
  Vector<T> column;   // made when one of several columns is looked at
  InAnOrder<T> in_an_order;
};

template <class T>
struct Workspace : WorkspaceParts<T> {
  Workspace(const WorkspaceLayout& of, std::unique_ptr<Method<T>> its_method)
      : WorkspaceParts<T>(of), method(std::move(its_method)) {}
  // What belongs to a GPU is destroyed with that GPU as the current one.
  ~Workspace() {
    const DeviceScope scope(*this->layout.context);
    resident_steps.reset(), graph_steps.reset();
  }
  const std::unique_ptr<Method<T>> method;
  // Made when first used. They refer to `method`, so they are destroyed before it.
  std::unique_ptr<Steps<T>> graph_steps, resident_steps;
};

// The workspace's graph steps, made ready for a solve of `system`, which outlives the solve. The graph of the solve
// before is used again if it fits. at_once: the first step that can be in a graph is; otherwise RecordingRule decides.
// CUDA builds only: device_steps.cu.
template <class T>
Steps<T>& graph_steps_for(Workspace<T>& workspace, const System<T>& system, bool at_once);

// The same for steps of cg in one kernel that stays on the device and keeps the matrix there. Null, and why_not gives
// the reason, if method, operator or size do not allow that kernel. Waits for the device when it sees a matrix for the
// first time. resident_steps.cu.
template <class T>
Steps<T>* resident_steps_for(Workspace<T>& workspace, const System<T>& system, std::string& why_not);

}  // namespace protean::detail
