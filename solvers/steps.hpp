// Where the steps of a method run and how their scalars reach the judge: at once on the host; on a device
// recorded into a CUDA graph, replayed and judged there, and read some steps behind. Private to solvers/.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "solvers/iteration_control.hpp"
#include "solvers/method.hpp"

namespace protean::detail {

template <class T>
class Steps {
 public:
  virtual ~Steps() = default;
  // The verdict on the state after begin().
  virtual Verdict first(const IterationControl& control) = 0;
  // The verdict on one more step. A device may be further by then, but never past a step whose verdict is not
  // `running` and not `reached`, nor more than `left` steps from here.
  virtual Verdict next(const IterationControl& control, std::int64_t left) = 0;
  // Ends work that is ahead of next(); returns how many steps were done that next() has not told of, and
  // replaces `last` by the verdict on the last of them. Called before anything else is done with the method.
  virtual std::int64_t settle(const IterationControl& control, Verdict& last) = 0;
  // How often this solve recorded a graph, and how often it made a new one for that.
  virtual std::int64_t recorded() const noexcept { return 0; }
  virtual std::int64_t made() const noexcept { return 0; }
  // What SolveReport::steps says.
  virtual std::string_view name() const noexcept = 0;
};

template <class T>
class HostSteps final : public Steps<T> {
 public:
  HostSteps(Method<T>& method, const System<T>& system) : method_(method), system_(system) {}
  Verdict first(const IterationControl& control) override { return control.read(method_.signals()); }
  Verdict next(const IterationControl& control, std::int64_t) override {
    method_.step(system_);
    return control.read(method_.signals());
  }
  std::int64_t settle(const IterationControl&, Verdict&) override { return 0; }
  std::string_view name() const noexcept override { return "host"; }

 private:
  Method<T>& method_;
  const System<T>& system_;
};

// The verdict on scalars in memory that the host cannot read: each is copied by name.
template <class T>
Verdict fetch_verdict(const Context& context, const IterationControl& control, const Signals<T>& signals) {
  constexpr std::size_t most = 8;
  T squared = 0, numbers[most][3] = {};
  Guard<T> guards[most] = {};
  const auto fetch = [&](const T*& where, T& number) {
    if (!where) return;
    copy<T>(context, VectorView<const T>{where, 1, context.space()}, {&number, 1});
    where = &number;
  };
  Signals<T> here = signals;
  fetch(here.residual_squared, squared);
  for (std::size_t g = 0; g < signals.guards.size(); ++g) {
    guards[g] = signals.guards[g];
    fetch(guards[g].value, numbers[g][0]);
    fetch(guards[g].scale_a, numbers[g][1]), fetch(guards[g].scale_b, numbers[g][2]);
  }
  here.guards = {guards, signals.guards.size()};
  return control.read(here);
}

// One step at a time on a device that records nothing (a simulated one).
template <class T>
class FetchedSteps final : public Steps<T> {
 public:
  FetchedSteps(Method<T>& method, const System<T>& system) : method_(method), system_(system) {}
  Verdict first(const IterationControl& control) override {
    return fetch_verdict(system_.context(), control, method_.signals());
  }
  Verdict next(const IterationControl& control, std::int64_t) override {
    method_.step(system_);
    return fetch_verdict(system_.context(), control, method_.signals());
  }
  std::int64_t settle(const IterationControl&, Verdict&) override { return 0; }
  std::string_view name() const noexcept override { return "simulated"; }

 private:
  Method<T>& method_;
  const System<T>& system_;
};

// What a solver keeps from one solve to the next, beside the vectors of its method.
template <class T>
struct Kept {
  std::unique_ptr<Steps<T>> device_steps, resident_steps;
  Vector<T> number;  // one, in the space of the solve: norms are left there
};

// For the solve that begins: the steps of the solve before with what can still be used of them, or new ones.
// Called before method.prepare(), which may move vectors that a kept graph knows. `system` outlives the
// solve. CUDA builds only: device_steps.cu.
template <class T>
std::unique_ptr<Steps<T>> device_steps_for(std::unique_ptr<Steps<T>> before, Method<T>& method,
                                           const System<T>& system);

// The same for steps of cg in one kernel that stays on the device and keeps the matrix there. False, and
// why_not says the reason, where method, operator or size do not allow it; `kept` is not to be used then.
// Waits for the device the first time it sees a pattern. resident_steps.cu.
template <class T>
bool resident_steps_for(std::unique_ptr<Steps<T>>& kept, Method<T>& method, const System<T>& system,
                        std::string& why_not);

}  // namespace protean::detail
