// Steps that are recorded into a CUDA graph once and launched many times. Private to solvers/.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "core/device/state.hpp"

namespace protean::detail {

class StepsGraph {
 public:
  StepsGraph() = default;
  StepsGraph(const StepsGraph&) = delete;
  StepsGraph& operator=(const StepsGraph&) = delete;
  // What was launched has ended.
  ~StepsGraph() {
    if (graph_) (void)cudaGraphExecDestroy(graph_);
  }

  // Records what queue() queues on the stream of the state. Another thread of the program may wait for the whole device
  // at any moment, which invalidates a recording: then it is tried again, and queue() begins anew. False if all
  // attempts were in vain; why gets the last error, or nothing.
  template <class Queue>
  bool record(DeviceState& state, std::string& why, Queue&& queue) {
    cudaGraph_t graph = nullptr;
    Clock::time_point begin;  // of the last attempt: a disturbance says nothing of the next recording
    for (int attempt = 1; !graph && attempt <= most_attempts; ++attempt) {
      if (attempt > 1) std::this_thread::sleep_for(std::chrono::microseconds(100 * attempt));
      why.clear(), begin = Clock::now();
      graph = try_to_record(state, why, queue);
    }
    if (!graph) return false;
    const double captured = seconds_since(begin);
    first_ = !graph_;
    const cudaError_t status = make_executable(graph);
    (void)cudaGraphDestroy(graph);
    device::check(status, "cudaGraphInstantiate");
    seconds_ = captured + as_an_update(seconds_since(begin) - captured);
    launched_ = false;
    return true;
  }

  void launch(cudaStream_t stream) {
    const Clock::time_point begin = Clock::now();
    PROTEAN_CUDA_CHECK(cudaGraphLaunch(graph_, stream));
    const double seconds = seconds_since(begin);
    // The first launch of a graph also brings it to the device. Before another launch is known, all of it counts.
    if (!std::exchange(launched_, true))
      seconds_ += as_an_update(std::max(0.0, seconds - launch_seconds_));
    else
      launch_seconds_ = seconds;
  }

  // On the host's clock: the value of IterationInfo::record_seconds.
  double seconds() const noexcept { return seconds_; }
  void forget_time() noexcept { seconds_ = 0; }
  // How often record() had to make a graph instead of updating the one before.
  std::int64_t made() const noexcept { return made_; }

  static constexpr int most_attempts = 20;

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  // Null if the recording was invalidated; then nothing was queued.
  template <class Queue>
  static cudaGraph_t try_to_record(DeviceState& state, std::string& why, Queue&& queue) {
    cudaGraph_t graph = nullptr;
    bool disturbed = false;
    const device::RecordingScope scope(state);
    PROTEAN_CUDA_CHECK(cudaStreamBeginCapture(state.stream, cudaStreamCaptureModeThreadLocal));
    try {
      queue();
    } catch (const device::RecordingDisturbed& error) { why = error.what(), disturbed = true; } catch (...) {
      end_recording(state, graph);
      if (graph) (void)cudaGraphDestroy(graph);
      throw;
    }
    end_recording(state, graph);
    if (graph && disturbed) (void)cudaGraphDestroy(std::exchange(graph, nullptr));
    return graph;
  }

  // Null on failure. An error that was reported here would be found by the next check.
  static void end_recording(const DeviceState& state, cudaGraph_t& graph) {
    if (cudaStreamEndCapture(state.stream, &graph) == cudaSuccess) return;
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
    ++made_;
    return cudaGraphInstantiate(&graph_, graph, 0);
  }

  // The first graph is made and brought to the device; recordings after a change update it, in a third of that time
  // (0.15 to 0.4 on an H100), as long as the update succeeds.
  double as_an_update(double seconds) const { return first_ ? seconds / 3 : seconds; }

  cudaGraphExec_t graph_ = nullptr;
  bool first_ = true, launched_ = false;
  double seconds_ = 0,
         launch_seconds_ = 0;  // launch_seconds_: of the last launch that was not the first of its graph
  std::int64_t made_ = 0;
};

}  // namespace protean::detail
