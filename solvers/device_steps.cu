// Steps on a device. The steps of one graph are recorded once; each is followed by a small kernel, the judge,
// which applies the tests of IterationControl in the same arithmetic and, when one of them ends the run, sets
// a flag at which all later kernels of the graph return at once. So the host needs no answer before it queues
// more work: it keeps one graph ahead and reads the verdicts of the one before.
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "core/device/copy.hpp"
#include "core/device/state.hpp"
#include "solvers/steps.hpp"

namespace protean::detail {
namespace {

constexpr int most_steps = 256, most_guards = 4;

// In device memory, copied to the host after each graph.
struct Judgement {
  int stop;            // not 0: the run has ended
  int steps;           // done in this graph
  long long left;      // before max_iterations
  double goal, limit;  // of the residual: reached below, diverged above
  double residual_squared[most_steps];
  double guards[most_guards][3];  // value and the two scales, at the last step
};

template <class T>
struct GuardArgs {
  const T *value, *scale_a, *scale_b;
  double factor;
  bool positive;
};

template <class T>
struct JudgeArgs {
  const T* residual_squared;
  int guards;
  GuardArgs<T> guard[most_guards];
};

__global__ void open_graph(Judgement* j) { j->steps = 0; }

template <class T>
__global__ void judge(JudgeArgs<T> args, Judgement* j) {
  if (j->stop) return;
  const double squared = static_cast<double>(*args.residual_squared), residual = sqrt(squared);
  j->residual_squared[j->steps++] = squared;
  bool end = !isfinite(squared) || squared < 0 || residual <= j->goal || residual > j->limit;
  for (int g = 0; g < args.guards; ++g) {
    const GuardArgs<T>& guard = args.guard[g];
    const double value = static_cast<double>(*guard.value);
    const double a = guard.scale_a ? static_cast<double>(*guard.scale_a) : 0;
    const double b = guard.scale_b ? static_cast<double>(*guard.scale_b) : 0;
    j->guards[g][0] = value, j->guards[g][1] = a, j->guards[g][2] = b;
    const double scale = guard.scale_a ? sqrt(a) * sqrt(b) : 0;
    if (!(guard.positive ? value > 0 : fabs(value) > guard.factor * scale) || !isfinite(value)) end = true;
  }
  if (--j->left <= 0) end = true;
  if (end) j->stop = 1;
}

template <class T>
class DeviceSteps final : public Steps<T> {
 public:
  DeviceSteps(Method<T>& method, const System<T>& system)
      : method_(method), system_(system), state_(system.context().device_state()) {
    PROTEAN_CUDA_CHECK(cudaMalloc(&judgement_, sizeof(Judgement)));
    for (Slot& slot : slots_) {
      PROTEAN_CUDA_CHECK(cudaMallocHost(&slot.copy, sizeof(Judgement)));
      PROTEAN_CUDA_CHECK(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming));
    }
  }
  ~DeviceSteps() override {
    (void)cudaStreamSynchronize(state_.stream);
    if (graph_) (void)cudaGraphExecDestroy(graph_);
    for (Slot& slot : slots_) {
      if (slot.done) (void)cudaEventDestroy(slot.done);
      if (slot.copy) (void)cudaFreeHost(slot.copy);
    }
    if (judgement_) (void)cudaFree(judgement_);
  }

  Verdict first(const IterationControl& control) override {
    const Signals<T> signals = method_.signals();
    Read read;
    const auto fetch = [&](const T* where) {
      T value = 0;
      if (where) device::copy_out(system_.context(), &value, where, sizeof value);
      return static_cast<double>(value);
    };
    read.squared = fetch(signals.residual_squared);
    for (std::size_t g = 0; g < signals.guards.size(); ++g) {
      const Guard<T>& guard = signals.guards[g];
      read.guards[g][0] = fetch(guard.value);
      read.guards[g][1] = fetch(guard.scale_a), read.guards[g][2] = fetch(guard.scale_b);
    }
    return verdict(control, signals, read);
  }

  Verdict next(const IterationControl& control, std::int64_t left) override {
    if (told_ == current_.steps) {
      if (in_flight_ == 0) start(control, left);
      take();
      // One graph ahead, when this one has neither ended the run nor a cycle.
      if (!current_.stop && recorded_ > 0 && after_graph() == 0 && method_.phase() == 0 && current_.left > 0)
        launch();
    }
    const int index = told_++;
    method_.set_phase(method_.phase() + 1);
    const bool last = current_.stop && told_ == current_.steps;
    Read read;
    read.squared = current_.residual_squared[index];
    if (!last) {
      // Its guards were good, or the judge would have stopped.
      Verdict good;
      good.residual = std::sqrt(read.squared);
      return good;
    }
    std::memcpy(read.guards, current_.guards, sizeof read.guards);
    drain();
    return verdict(control, method_.signals(), read);
  }

  std::int64_t settle(const IterationControl& control, Verdict& last) override {
    std::int64_t untold = 0;
    if (in_flight_ > 0) {
      // From here on, steps that are queued but not begun do nothing.
      const int one = 1;
      PROTEAN_CUDA_CHECK(
          cudaMemcpyAsync(&judgement_->stop, &one, sizeof one, cudaMemcpyHostToDevice, state_.stream));
    }
    for (;;) {
      untold += current_.steps - told_;
      method_.set_phase(method_.phase() + current_.steps - told_);
      told_ = current_.steps;
      if (in_flight_ == 0) break;
      take();
    }
    if (untold > 0) {
      Read read;
      read.squared =
          current_.steps > 0 ? current_.residual_squared[current_.steps - 1] : last.residual * last.residual;
      std::memcpy(read.guards, current_.guards, sizeof read.guards);
      if (current_.steps > 0) last = verdict(control, method_.signals(), read);
    }
    return untold;
  }

 private:
  struct Read {
    double squared = 0;
    double guards[most_guards][3] = {};
  };
  struct Slot {
    Judgement* copy = nullptr;
    cudaEvent_t done = nullptr;
  };

  // IterationControl's reading of numbers that are on the host now.
  static Verdict verdict(const IterationControl& control, const Signals<T>& signals, const Read& read) {
    const T squared = static_cast<T>(read.squared);
    T numbers[most_guards][3];
    Guard<T> guards[most_guards] = {};
    for (std::size_t g = 0; g < signals.guards.size(); ++g) {
      for (int k = 0; k < 3; ++k) numbers[g][k] = static_cast<T>(read.guards[g][k]);
      guards[g] = signals.guards[g];
      guards[g].value = &numbers[g][0];
      if (guards[g].scale_a) guards[g].scale_a = &numbers[g][1], guards[g].scale_b = &numbers[g][2];
    }
    Signals<T> here = signals;
    here.residual_squared = &squared;
    here.guards = {guards, signals.guards.size()};
    return control.read(here);
  }

  // The phase a method is in after a graph that began in phase 0.
  std::int64_t after_graph() const { return method_.cycles_end() ? recorded_ : 0; }

  // Sets the judge's limits and queues work: a graph where one can begin, else a single step.
  void start(const IterationControl& control, std::int64_t left) {
    Judgement& header = *slots_[0].copy;
    header.stop = 0, header.steps = 0, header.left = left;
    header.goal = control.goal(), header.limit = control.too_large();
    PROTEAN_CUDA_CHECK(cudaMemcpyAsync(judgement_, &header, offsetof(Judgement, residual_squared),
                                       cudaMemcpyHostToDevice, state_.stream));
    PROTEAN_CUDA_CHECK(cudaStreamSynchronize(state_.stream));
    if (method_.phase() == 0 && method_.period() <= most_steps) {
      if (!graph_) record();
      launch();
    } else {
      step_alone();
    }
  }

  void queue_judge() {
    const Signals<T> signals = method_.signals();
    JudgeArgs<T> args{signals.residual_squared, static_cast<int>(signals.guards.size()), {}};
    for (int g = 0; g < args.guards; ++g) {
      const Guard<T>& guard = signals.guards[g];
      args.guard[g] = {guard.value, guard.scale_a, guard.scale_b, static_cast<double>(guard.factor),
                       guard.test == Test::positive};
    }
    judge<<<1, 1, 0, state_.stream>>>(args, judgement_);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  // Kernels queued while this lives return at once after the end of the run.
  struct Stoppable {
    DeviceState& state;
    Stoppable(DeviceState& s, const int* flag) : state(s) { state.stop = flag; }
    ~Stoppable() { state.stop = nullptr; }
  };

  void record() {
    const std::int64_t period = method_.period();
    recorded_ = method_.cycles_end() ? static_cast<int>(period)
                                     : static_cast<int>((16 + period - 1) / period * period);
    cudaGraph_t graph = nullptr;
    PROTEAN_CUDA_CHECK(cudaStreamBeginCapture(state_.stream, cudaStreamCaptureModeThreadLocal));
    try {
      const Stoppable stoppable(state_, &judgement_->stop);
      open_graph<<<1, 1, 0, state_.stream>>>(judgement_);
      for (int k = 0; k < recorded_; ++k) {
        method_.step(system_);
        queue_judge();
      }
    } catch (...) {
      (void)cudaStreamEndCapture(state_.stream, &graph);
      if (graph) (void)cudaGraphDestroy(graph);
      throw;
    }
    PROTEAN_CUDA_CHECK(cudaStreamEndCapture(state_.stream, &graph));
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    (void)cudaGraphDestroy(graph);
    device::check(status, "cudaGraphInstantiate");
    method_.set_phase(0);
  }

  void launch() {
    PROTEAN_CUDA_CHECK(cudaGraphLaunch(graph_, state_.stream));
    ask();
  }

  void step_alone() {
    const std::int64_t phase = method_.phase();
    {
      const Stoppable stoppable(state_, &judgement_->stop);
      open_graph<<<1, 1, 0, state_.stream>>>(judgement_);
      method_.step(system_);
      queue_judge();
    }
    method_.set_phase(phase);
    ask();
  }

  // Queues the copy of the judgement.
  void ask() {
    Slot& slot = slots_[(first_slot_ + in_flight_) % 2];
    PROTEAN_CUDA_CHECK(
        cudaMemcpyAsync(slot.copy, judgement_, sizeof(Judgement), cudaMemcpyDeviceToHost, state_.stream));
    PROTEAN_CUDA_CHECK(cudaEventRecord(slot.done, state_.stream));
    ++in_flight_;
  }

  // Waits for the oldest copy.
  void take() {
    Slot& slot = slots_[first_slot_];
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(slot.done));
    std::memcpy(&current_, slot.copy, sizeof(Judgement));
    first_slot_ ^= 1, --in_flight_;
    told_ = 0;
  }

  // Forgets graphs that were queued after the end; they have done nothing.
  void drain() {
    while (in_flight_ > 0) {
      PROTEAN_CUDA_CHECK(cudaEventSynchronize(slots_[first_slot_].done));
      first_slot_ ^= 1, --in_flight_;
    }
    current_.steps = told_ = 0;
  }

  Method<T>& method_;
  const System<T>& system_;
  DeviceState& state_;
  Judgement* judgement_ = nullptr;
  Slot slots_[2];
  int first_slot_ = 0, in_flight_ = 0;
  Judgement current_{};
  int told_ = 0, recorded_ = 0;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<Steps<T>> make_device_steps(Method<T>& method, const System<T>& system) {
  return std::make_unique<DeviceSteps<T>>(method, system);
}
template std::unique_ptr<Steps<float>> make_device_steps<float>(Method<float>&, const System<float>&);
template std::unique_ptr<Steps<double>> make_device_steps<double>(Method<double>&, const System<double>&);

}  // namespace protean::detail
