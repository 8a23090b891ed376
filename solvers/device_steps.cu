// Steps on a device: queued one by one in short pieces, and as CUDA graphs if the solve is long enough
// (recording_rule.hpp). The steps of one graph are recorded once. The judge of a step (core/device/judge.cuh) applies
// the tests of IterationControl in the same arithmetic. When one of them ends the run, it sets a flag, and all later
// kernels of the graph return at once. So the host can queue more work before it has an answer: it keeps one piece or
// graph ahead and reads the verdicts of the one before. The graph belongs to the solver's workspace, and later solves
// replay it as long as operator, preconditioner and x are the same.
#include <cstddef>
#include <string>

#include "core/communicator.hpp"
#include "core/device/copy.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "solvers/judged_steps.cuh"
#include "solvers/recorded_system.hpp"
#include "solvers/recording_rule.hpp"
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

// The scalars of a state that no step has made, as those of the last step. One warp.
template <class T>
__global__ void read_scalars(Judge<T> judge, Judgement* copy) {
  device::wait_for_stream();
  const auto loaded = judge.load([](const T*) { return true; });
  const int mine = threadIdx.x / 3, part = threadIdx.x % 3;
  if (mine < judge.guards) copy->guards[mine][part] = static_cast<double>(loaded.number);
  if (threadIdx.x == 0)
    copy->residual_squared[0] = static_cast<double>(loaded.squared), copy->ended = copy->steps = 0;
}

// The last kernel of a piece or graph. It writes the judgement to the host's memory, which is faster than a copy, and
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

  void attach(const System<T>& system, bool at_once) {
    rule_.begin_solve(at_once, this->taken());
    JudgedSteps<T>::attach(system);
    recordings_ = 0, made_before_ = graph_.made(), launched_ = false;
    // Parts of one system have graphs of as many steps: the host may end a solve between two of them.
    wanted_ = static_cast<int>(agreed(*context_, system.A.recording().bytes > large_product ? 4 : 16));
    if (!(subject(true) == recorded_subject_)) recorded_ = 0;
    if (!may_record()) graph_.forget_time();
  }

  std::int64_t recorded() const noexcept override { return recordings_; }
  std::int64_t made() const noexcept override { return graph_.made() - made_before_; }
  double record_seconds() const noexcept override { return graph_.seconds(); }
  std::string_view name() const noexcept override {
    return launched_ || rule_.at_once() ? "graph" : "queued";
  }

  Verdict first(const IterationControl& control) override {
    device::launch(state(), read_scalars<T>, 1, 32, judge_of(0, 1), this->next_copy());
    expect_copy();
    return this->take_verdict(control);
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

  void start(const IterationControl& control, std::int64_t left) override {
    this->set_limits(control, left);
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(stop_, 0, sizeof(int) * most_steps, stream()));
    queued_phase_ = method_.phase(), left_ = left;
    if (may_record())
      queue_more();
    else
      queue_piece(1);
  }

  // One piece or graph ahead. What cannot be recorded may do more than to queue work, so the host does not run ahead.
  void go_ahead() override {
    if (left_ > 0 && !at_end_of_cycle() && may_record()) queue_more();
  }
  // The phase when all queued work is done is not the phase of method_, which counts the steps that next() has
  // returned.
  bool at_end_of_cycle() const { return method_.cycles_end() && queued_phase_ == method_.period(); }

  void queue_more() {
    if (queued_phase_ == 0 && graph_pays())
      launch();
    else
      queue_piece(RecordingRule::piece(queued_phase_, method_.period(), most_now()));
  }
  // A method that begins again after its period has no step beyond it.
  std::int64_t most_now() const {
    return method_.cycles_end() ? std::min(left_, method_.period() - queued_phase_) : left_;
  }
  // All parts of a system launch a graph, or none.
  bool graph_pays() const {
    const bool recorded = recorded_ > 0 && subject(false) == recorded_subject_;
    return counted(*context_, rule_.graph_pays(steps_of_graph(), recorded) ? 0 : 1) == 0;
  }
  int steps_of_graph() const {
    const std::int64_t period = method_.period();
    return static_cast<int>(method_.cycles_end() ? period : (wanted_ + period - 1) / period * period);
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
    const int steps = steps_of_graph();
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
    recorded_ = steps, ++recordings_, rule_.recorded();
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
    launched_ = true;
    queued_phase_ = method_.cycles_end() ? method_.period() : 0;
    queued(recorded_);
  }

  void queue_piece(std::int64_t steps) {
    const std::int64_t before = system_->A.products();
    prepare(shield_, method_, *system_);
    {
      const AtItsPhase phase(method_);
      method_.set_phase(queued_phase_);
      for (int k = 0; k < steps; ++k) queue_step(k, static_cast<int>(steps));
      queued_phase_ = method_.phase();
    }
    // take() counts them.
    const std::int64_t products = system_->A.products() - before;
    system_->count_products(-products);
    products_per_step_ = products / steps;
    queue_close();
    queued(steps);
  }
  void queued(std::int64_t steps) {
    rule_.queued(steps), left_ -= steps;
    expect_copy();
  }

  void queue_close() {
    close_graph<<<1, 256, 0, stream()>>>(judgement_, stop_, copy(0), copy(1));
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  RecordingRule rule_;
  Shield<T> shield_;
  Buffer<int> stop_buffer_;
  int* stop_;                      // as kernels get it
  int wanted_ = 16;                // steps of a graph, about
  int recorded_ = 0;               // steps in graph_; 0: it must not be replayed
  std::int64_t queued_phase_ = 0;  // of the method when all queued work is done
  std::int64_t left_ = 0;          // steps before the limit of start() that are not queued yet
  bool launched_ = false;          // a graph in this solve
  Subject recorded_subject_;
  std::int64_t recordings_ = 0, made_before_ = 0;  // in this solve; graphs before it
  StepsGraph graph_;
};

}  // namespace

template <class T>
Steps<T>& graph_steps_for(Workspace<T>& workspace, const System<T>& system, bool at_once) {
  if (!workspace.graph_steps)
    workspace.graph_steps = std::make_unique<DeviceSteps<T>>(*workspace.method, workspace.layout.context);
  // Only the line above makes them.
  static_cast<DeviceSteps<T>&>(*workspace.graph_steps).attach(system, at_once);
  return *workspace.graph_steps;
}
#define PROTEAN_INSTANTIATE(T) template Steps<T>& graph_steps_for<T>(Workspace<T>&, const System<T>&, bool);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
