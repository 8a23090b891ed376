// Steps on a device as CUDA graphs. The steps of one graph are recorded once. The judge of a step
// (core/device/judge.cuh) applies the tests of IterationControl in the same arithmetic. When one of them ends
// the run, it sets a flag, and all later kernels of the graph return at once. So the host can queue more work
// before it has an answer: it keeps one graph ahead and reads the verdicts of the graph before. The graph
// belongs to the solver's workspace, and later solves replay it as long as operator, preconditioner and x are
// the same.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "solvers/judged_steps.cuh"

namespace protean::detail {
namespace {

using device::Judge;
// Bytes that take an H200 about 20 microseconds. Four steps with such products take longer than the launch of a graph.
constexpr std::size_t large_product = std::size_t{64} << 20;
constexpr int most_steps = Judgement::most_steps, most_guards = Judgement::most_guards;
constexpr int most_attempts = 20;  // to record a graph

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

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
  ~DeviceSteps() override {
    this->wait();
    if (graph_) (void)cudaGraphExecDestroy(graph_);
  }

  void attach(const System<T>& system) {
    JudgedSteps<T>::attach(system);
    recordings_ = instantiations_ = 0;
    if (!(subject(true) == recorded_subject_)) recorded_ = 0;
    if (!may_record()) record_seconds_ = 0;
  }

  std::int64_t recorded() const noexcept override { return recordings_; }
  std::int64_t made() const noexcept override { return instantiations_; }
  double record_seconds() const noexcept override { return record_seconds_; }
  std::string_view name() const noexcept override { return "graph"; }

  Verdict first(const IterationControl& control) override {
    return fetch_verdict(*context_, control, measured_signals(method_, *system_));
  }

 private:
  using JudgedSteps<T>::method_, JudgedSteps<T>::context_, JudgedSteps<T>::state, JudgedSteps<T>::stream,
      JudgedSteps<T>::system_, JudgedSteps<T>::judgement_, JudgedSteps<T>::products_per_step_,
      JudgedSteps<T>::copy, JudgedSteps<T>::expect_copy;

  // What a recorded graph depends on other than the method's own vectors, which never move.
  struct Subject {
    std::uint64_t A = 0, M = 0;  // serial numbers; M: of a preconditioner whose work is recorded
    Recording work, preconditioning;
    const T *x = nullptr, *diagonal = nullptr, *weights = nullptr;
    bool operator==(const Subject&) const = default;
  };
  // next_solve: an operator or preconditioner that cannot promise to queue the same work in two solves
  // (version 0) makes the subject different from the subject of every solve before.
  Subject subject(bool next_solve) const {
    const bool general = system_->general_preconditioner();
    Subject s{system_->A.serial(),
              general ? system_->M->serial() : 0,
              system_->A.recording(),
              general ? system_->M->recording() : Recording{},
              system_->x.data,
              system_->d.data,
              system_->weights ? system_->weights->entries.data : nullptr};
    if (next_solve && (s.work.version == 0 || (general && s.preconditioning.version == 0))) s.A = 0;
    return s;
  }
  bool may_record() const {
    return method_.period() <= most_steps && system_->A.recording().allowed &&
           vector_operations_record(*context_) &&
           (!system_->general_preconditioner() || system_->M->recording().allowed);
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
    // The norm with weights is known after the step alone.
    const bool early = !system_->weights && method_.scalars_in_coefficients(*system_);
    DeviceState& device = state();
    // If kernels run long, blocks of the next kernel that are on the device early are spread unevenly over the
    // processors, which costs more than the overlap saves.
    const bool overlap = device.can_overlap && system_->A.rows() < std::int64_t{device.processors} << 14;
    const InStep in_step(device, stop_ + step, overlap, early);
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
    const Signals<T> signals = measured_signals(method_, *system_);
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
    const int wanted = recorded_subject_.work.bytes > large_product ? 4 : 16;
    const int steps = method_.cycles_end() ? static_cast<int>(period)
                                           : static_cast<int>((wanted + period - 1) / period * period);
    const std::int64_t before = system_->A.products();
    cudaGraph_t graph = nullptr;
    Clock::time_point begin;  // of the last attempt: a disturbance says nothing of the next recording
    // Another thread of the program may wait for the whole device at any moment, which invalidates a recording.
    for (int attempt = 1; !graph; ++attempt) {
      system_->count_products(before - system_->A.products());
      if (attempt > 1) std::this_thread::sleep_for(std::chrono::microseconds(100 * attempt));
      begin = Clock::now();
      graph = try_to_record(steps, attempt == most_attempts);
    }
    const double captured = seconds_since(begin);
    first_graph_ = !graph_;
    const cudaError_t status = make_executable(graph);
    (void)cudaGraphDestroy(graph);
    device::check(status, "cudaGraphInstantiate");
    recorded_ = steps, ++recordings_;
    record_seconds_ = captured + as_an_update(seconds_since(begin) - captured);
    // The products were recorded, but not computed yet.
    const std::int64_t products = system_->A.products() - before;
    system_->count_products(-products);
    products_per_step_ = products / steps;
  }

  // Null if the recording was invalidated; then nothing was queued. Throws in the last attempt.
  cudaGraph_t try_to_record(int steps, bool last) {
    cudaGraph_t graph = nullptr;
    std::string disturbance;
    const std::int64_t phase = method_.phase();
    method_.set_phase(0);
    const device::RecordingScope scope(state());
    PROTEAN_CUDA_CHECK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
    try {
      for (int k = 0; k < steps; ++k) queue_step(k, steps);
      queue_close();
    } catch (const device::RecordingDisturbed& error) { disturbance = error.what(); } catch (...) {
      end_recording(graph);
      if (graph) (void)cudaGraphDestroy(graph);
      method_.set_phase(phase);
      throw;
    }
    end_recording(graph);
    method_.set_phase(phase);
    if (graph && !disturbance.empty()) (void)cudaGraphDestroy(std::exchange(graph, nullptr));
    if (graph || !last) return graph;
    throw DeviceError(
        "the steps could not be recorded in " + std::to_string(most_attempts) + " attempts: operator '" +
        std::string(system_->A.name()) + "'" +
        (system_->M ? " or preconditioner '" + std::string(system_->M->name()) + "'" : "") +
        " did something else than queue work on the context's stream (for example, it waited "
        "for the device), then its recording() must return allowed = false; or other threads of "
        "the program wait for the whole device all the time (cudaDeviceSynchronize)" +
        (disturbance.empty() ? "" : ". The last error: " + disturbance));
  }

  // Null on failure. An error that was reported here would be found by the next check.
  void end_recording(cudaGraph_t& graph) {
    if (cudaStreamEndCapture(stream(), &graph) == cudaSuccess) return;
    (void)cudaGetLastError();
    graph = nullptr;
  }

  // Updates the executable graph if the kernels are the same, which costs less than a new graph.
  cudaError_t make_executable(cudaGraph_t graph) {
    if (graph_) {
      cudaGraphExecUpdateResultInfo result;
      if (cudaGraphExecUpdate(graph_, graph, &result) == cudaSuccess) return cudaSuccess;
      (void)cudaGetLastError();
      (void)cudaGraphExecDestroy(graph_);
      graph_ = nullptr;
    }
    ++instantiations_;
    return cudaGraphInstantiate(&graph_, graph, 0);
  }

  // The first graph is made and brought to the device; recordings after a change update it, in a third of that time
  // (0.15 to 0.4 on an H100), as long as the update succeeds.
  double as_an_update(double seconds) const { return first_graph_ ? seconds / 3 : seconds; }

  void launch() {
    const bool anew = recorded_ == 0 || !(subject(false) == recorded_subject_);
    if (anew) record();
    const Clock::time_point begin = Clock::now();
    PROTEAN_CUDA_CHECK(cudaGraphLaunch(graph_, stream()));
    const double seconds = seconds_since(begin);
    // The first launch of a graph also brings it to the device. Before another launch is known, all of it counts.
    if (anew)
      record_seconds_ += as_an_update(std::max(0.0, seconds - launch_seconds_));
    else
      launch_seconds_ = seconds;
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
  int recorded_ = 0;               // steps in graph_; 0: it must not be replayed
  std::int64_t queued_phase_ = 0;  // of the method when all queued work is done
  Subject recorded_subject_;
  std::int64_t recordings_ = 0, instantiations_ = 0;  // in this solve
  bool first_graph_ = true;
  // On the host's clock: of the last recording, and of the last launch that was not the first of its graph.
  double record_seconds_ = 0, launch_seconds_ = 0;
  cudaGraphExec_t graph_ = nullptr;
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
