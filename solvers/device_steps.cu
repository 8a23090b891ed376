// Steps on a device as CUDA graphs. The steps of one graph are recorded once. The judge of a step
// (core/device/judge.cuh) applies the tests of IterationControl in the same arithmetic. When one of them ends
// the run, it sets a flag, and all later kernels of the graph return at once. So the host can queue more work
// before it has an answer: it keeps one graph ahead and reads the verdicts of the graph before. The graph
// belongs to the solver's workspace, and later solves replay it as long as operator, preconditioner and x are
// the same.
#include <cstddef>
#include <string>

#include "core/communicator.hpp"
#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "solvers/judged_steps.cuh"
#include "solvers/recorded_system.hpp"
#include "solvers/steps_graph.cuh"

namespace protean::detail {
namespace {

using device::Judge;
// Bytes that take an H200 about 20 microseconds. Four steps with such products take longer than the launch of a graph.
constexpr std::size_t large_product = std::size_t{64} << 20;
constexpr int most_steps = Judgement::most_steps, most_guards = Judgement::most_guards;

// The judge as a separate kernel, for methods whose last vector operation cannot run it. One warp.
template <class T>
__global__ void judge_alone(Judge<T> judge) {
  const bool ended = device::stopped(judge.stop + judge.step);
  const auto loaded = judge.load([](const T*) { return true; });
  if (!ended) judge(loaded, [](const T*, T number) { return number; });
}

// The last kernel of a graph. It writes the judgement to the host's memory, which is faster than a copy, and
// resets it for the next graph. Graphs write to the two copies alternately. One block.
__global__ void close_graph(Judgement* j, int* stop, Judgement* first_copy, Judgement* second_copy) {
  device::wait_for_stream();
  Judgement* const copy = j->next_copy == 0 ? first_copy : second_copy;
  const int ended = j->ended, steps = j->steps;
  for (int k = threadIdx.x; k < steps; k += blockDim.x) copy->residual_squared[k] = j->residual_squared[k];
  for (int k = threadIdx.x; k < most_guards * 3; k += blockDim.x)
    copy->guards[k / 3][k % 3] = j->guards[k / 3][k % 3];
  for (int k = threadIdx.x; k < most_steps; k += blockDim.x) stop[k] = ended;
  if (threadIdx.x == 0) copy->ended = ended, copy->steps = steps, copy->left = j->left;
  __syncthreads();
  if (threadIdx.x == 0) j->steps = 0, j->next_copy = 1 - j->next_copy;
}

template <class T>
class DeviceSteps final : public JudgedSteps<T> {
 public:
  DeviceSteps(Method<T>& method, const ContextPtr& context)
      : JudgedSteps<T>(method, context), stop_buffer_(context, most_steps), stop_(stop_buffer_.data()) {}
  ~DeviceSteps() override { this->wait(); }

  void attach(const System<T>& system) {
    JudgedSteps<T>::attach(system);
    recordings_ = 0, made_before_ = graph_.made();
    // Parts of one system have graphs of as many steps: the host may end a solve between two of them.
    wanted_ = static_cast<int>(agreed(*context_, system.A.recording().bytes > large_product ? 4 : 16));
    if (!(subject(true) == recorded_subject_)) recorded_ = 0;
    if (!may_record()) graph_.forget_time();
  }

  std::int64_t recorded() const noexcept override { return recordings_; }
  std::int64_t made() const noexcept override { return graph_.made() - made_before_; }
  double record_seconds() const noexcept override { return graph_.seconds(); }
  std::string_view name() const noexcept override { return "graph"; }

  Verdict first(const IterationControl& control) override {
    return fetch_verdict(*context_, control, method_.signals());
  }

 private:
  using JudgedSteps<T>::method_, JudgedSteps<T>::context_, JudgedSteps<T>::state, JudgedSteps<T>::stream,
      JudgedSteps<T>::system_, JudgedSteps<T>::judgement_, JudgedSteps<T>::products_per_step_,
      JudgedSteps<T>::copy, JudgedSteps<T>::expect_copy;

  // What a recorded graph depends on other than the method's own vectors, which never move.
  struct Subject {
    RecordedSystem<T> system;
    const T* x = nullptr;
    bool operator==(const Subject&) const = default;
  };
  // next_solve: an operator or preconditioner that cannot promise to queue the same work in two solves makes the
  // subject different from the subject of every solve before.
  Subject subject(bool next_solve) const {
    Subject s{RecordedSystem<T>(*system_), system_->x.data};
    if (next_solve && !s.system.serves_next_solve()) s.system.A = 0;
    return s;
  }
  bool may_record() const {
    const bool here = method_.period() <= most_steps && vector_operations_record(*context_) &&
                      RecordedSystem<T>(*system_).allowed();
    return counted(*context_, here ? 0 : 1) == 0;  // all parts of a system record, or none
  }

  // A graph if one can begin here, else a single step.
  void start(const IterationControl& control, std::int64_t left) override {
    this->set_limits(control, left);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(stop_, 0, sizeof(int) * most_steps, stream()));
    PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream()));
    queued_phase_ = method_.phase();
    if (queued_phase_ == 0 && may_record()) {
      launch();
    } else {
      step_alone();
    }
  }

  // One graph ahead, if the queued work leaves the method where a graph can begin. That is not the phase of
  // method_, which counts the steps that next() has returned.
  void go_ahead() override {
    if (queued_phase_ == 0 && may_record()) launch();
  }

  // The step's work and its judge. The judge runs in the last operation of the step if the method allows it, else as a
  // kernel after it.
  void queue_step(int step, int steps) {
    const bool early = method_.scalars_in_coefficients(*system_);
    DeviceState& device = state();
    // If kernels run long, blocks of the next kernel that are on the device early are spread unevenly over the
    // processors, which costs more than the overlap saves.
    const bool overlap = device.can_overlap && system_->A.rows() < std::int64_t{device.processors} << 14;
    // A sum over all parts is stored before anything reads it.
    const InStep in_step(device, stop_ + step, overlap, early && !device.communicator);
    Judge<T> judge{};
    if (early) {
      const std::int64_t phase = method_.phase();
      method_.set_phase(phase + 1);
      judge = judge_of(step, steps);
      method_.set_phase(phase);
      device.judge = &judge;
    }
    shielded_step(method_, *system_, shield_);
    protean::device::close_sums<T>(*context_);
    if (early && !device.judge) return;
    protean::device::launch(device, judge_alone<T>, 1, 32, judge_of(step, steps));
  }

  Judge<T> judge_of(int step, int steps) const {
    const Signals<T> signals = method_.signals();
    Judge<T> judge{};
    judge.residual_squared = signals.residual_squared;
    judge.guards = static_cast<int>(signals.guards.size());
    judge.step = step, judge.steps = steps;
    judge.judgement = judgement_, judge.stop = stop_;
    for (int g = 0; g < judge.guards; ++g) {
      const Guard<T>& guard = signals.guards[g];
      judge.guard[g] = {guard.value, guard.scale_a, guard.scale_b, static_cast<double>(guard.factor),
                        guard.test == Test::positive};
    }
    return judge;
  }

  // While this exists, kernels that are queued return at once when the step's flag is set, and overlap if they can.
  struct InStep {
    DeviceState& state;
    InStep(DeviceState& s, const int* flag, bool overlap, bool leave_open) : state(s) {
      state.stop = flag, state.overlap = overlap, state.leave_open = leave_open;
    }
    ~InStep() {
      state.stop = nullptr, state.overlap = state.leave_open = false, state.open = {};
      state.judge = nullptr;
    }
  };

  void record() {
    // An exception below must not leave the old graph to be replayed.
    recorded_ = 0;
    prepare(shield_, method_, *system_);
    recorded_subject_ = subject(false);
    const std::int64_t period = method_.period();
    const int steps = method_.cycles_end() ? static_cast<int>(period)
                                           : static_cast<int>((wanted_ + period - 1) / period * period);
    const std::int64_t before = system_->A.products();
    std::string disturbance;
    {
      const AtItsPhase phase(method_);
      const bool recorded = graph_.record(state(), disturbance, [&] {
        system_->count_products(before - system_->A.products());
        method_.set_phase(0);
        for (int k = 0; k < steps; ++k) queue_step(k, steps);
        queue_close();
      });
      if (!recorded)
        throw DeviceError(
            "the steps could not be recorded in " + std::to_string(StepsGraph::most_attempts) +
            " attempts: operator '" + std::string(system_->A.name()) + "'" +
            (system_->M ? " or preconditioner '" + std::string(system_->M->name()) + "'" : "") +
            " did something else than queue work on the context's stream (for example, it waited "
            "for the device), then its recording() must return allowed = false; or other threads of "
            "the program wait for the whole device all the time (cudaDeviceSynchronize)" +
            (disturbance.empty() ? "" : ". The last error: " + disturbance));
    }
    recorded_ = steps, ++recordings_;
    // The products were recorded, but not computed yet.
    const std::int64_t products = system_->A.products() - before;
    system_->count_products(-products);
    products_per_step_ = products / steps;
  }
  // At its end the method is where it was.
  struct AtItsPhase {
    Method<T>& method;
    const std::int64_t phase;
    explicit AtItsPhase(Method<T>& of) : method(of), phase(of.phase()) {}
    ~AtItsPhase() { method.set_phase(phase); }
  };

  void launch() {
    if (recorded_ == 0 || !(subject(false) == recorded_subject_)) record();
    graph_.launch(stream());
    queued_phase_ = method_.cycles_end() ? method_.period() : 0;
    expect_copy();
  }

  void step_alone() {
    const std::int64_t phase = method_.phase();
    const std::int64_t before = system_->A.products();
    prepare(shield_, method_, *system_);
    queue_step(0, 1);
    // take() counts them.
    products_per_step_ = system_->A.products() - before;
    system_->count_products(-products_per_step_);
    queue_close();
    queued_phase_ = method_.phase();
    method_.set_phase(phase);
    expect_copy();
  }

  void queue_close() {
    close_graph<<<1, 256, 0, stream()>>>(judgement_, stop_, copy(0), copy(1));
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  Shield<T> shield_;
  Buffer<int> stop_buffer_;
  int* stop_;                      // as kernels get it
  int wanted_ = 16;                // steps of a graph, about
  int recorded_ = 0;               // steps in graph_; 0: it must not be replayed
  std::int64_t queued_phase_ = 0;  // of the method when all queued work is done
  Subject recorded_subject_;
  std::int64_t recordings_ = 0, made_before_ = 0;  // in this solve; graphs before it
  StepsGraph graph_;
};

}  // namespace

template <class T>
Steps<T>& graph_steps_for(Workspace<T>& workspace, const System<T>& system) {
  if (!workspace.graph_steps)
    workspace.graph_steps = std::make_unique<DeviceSteps<T>>(*workspace.method, workspace.layout.context);
  // Only the line above makes them.
  static_cast<DeviceSteps<T>&>(*workspace.graph_steps).attach(system);
  return *workspace.graph_steps;
}
#define PROTEAN_INSTANTIATE(T) template Steps<T>& graph_steps_for<T>(Workspace<T>&, const System<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
