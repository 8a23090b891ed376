// What it costs to hide the steps of a recorded graph after the one that ends a run. Four graphs of 16 steps, each
// step five vector operations (y := y + a x, which return at once if a flag is set) and one product of a library
// that does not know the flag, here the same operation without it:
//   plain      nothing is protected
//   shield     the product writes to a separate vector, which one more operation copies under the flag, as solvers do
//   one node   the product alone is the body of a conditional node, which a kernel before it sets by the flag
//   all nodes  each step is the body of a conditional node, which the last kernel of the step before sets
// Prints microseconds a step, the median of 21 runs of 20 graphs, and the fraction of a copy's bandwidth that plain
// reaches. Needs CUDA 12.4 or later.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "core/context.hpp"

namespace protean::bench {
namespace {

constexpr int steps = 16, operations = 5, graphs_a_run = 20, runs = 21;

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(3);
}
#define CHECK(call) check(call, #call)

__global__ void add(std::int64_t n, double a, const double* x, double* y, const int* stop) {
  if (stop && *stop) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride)
    y[i] += a * x[i];
}
__global__ void copy(std::int64_t n, const double* x, double* y, const int* stop) {
  if (stop && *stop) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = x[i];
}
__global__ void set_node(cudaGraphConditionalHandle handle, const int* stop) {
  cudaGraphSetConditional(handle, *stop ? 0u : 1u);
}

struct Work {
  std::int64_t n;
  double *x, *y, *own;
  int* stop;
  cudaStream_t stream;
  int blocks;

  void operation() const { add<<<blocks, 256, 0, stream>>>(n, 1e-3, x, y, stop); }
  void product(double* to) const { add<<<blocks, 256, 0, stream>>>(n, 1e-3, x, to, nullptr); }
};

// A node at the end of what is captured, and its body, into which capture() records.
template <class Body>
void in_node(const Work& work, cudaGraphConditionalHandle handle, Body body) {
  cudaStreamCaptureStatus status;
  cudaGraph_t graph;
  const cudaGraphNode_t* before;
  const cudaGraphEdgeData* edges;
  std::size_t count;
  CHECK(cudaStreamGetCaptureInfo(work.stream, &status, nullptr, &graph, &before, &edges, &count));
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle, params.conditional.type = cudaGraphCondTypeIf,
  params.conditional.size = 1;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddNode(&node, graph, before, edges, count, &params));
  CHECK(
      cudaStreamUpdateCaptureDependencies(work.stream, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
  Work inner = work;
  CHECK(cudaStreamCreateWithFlags(&inner.stream, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCaptureToGraph(inner.stream, params.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                      cudaStreamCaptureModeThreadLocal));
  body(inner);
  cudaGraph_t same;
  CHECK(cudaStreamEndCapture(inner.stream, &same));
  CHECK(cudaStreamDestroy(inner.stream));
}
cudaGraphConditionalHandle new_handle(const Work& work) {
  cudaStreamCaptureStatus status;
  cudaGraph_t graph;
  CHECK(cudaStreamGetCaptureInfo(work.stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  return handle;
}

enum class Way { plain, shield, one_node, all_nodes };

void record(const Work& work, Way way) {
  const auto vectors = [](const Work& w) {
    for (int k = 0; k < operations; ++k) w.operation();
  };
  if (way == Way::all_nodes) {
    std::vector<cudaGraphConditionalHandle> handles;
    for (int s = 0; s < steps; ++s) handles.push_back(new_handle(work));
    for (int s = 0; s < steps; ++s)
      in_node(work, handles[s], [&](const Work& inner) {
        inner.product(inner.own);
        vectors(inner);
        if (s + 1 < steps) set_node<<<1, 1, 0, inner.stream>>>(handles[s + 1], inner.stop);
      });
    return;
  }
  for (int s = 0; s < steps; ++s) {
    if (way == Way::one_node) {
      const cudaGraphConditionalHandle handle = new_handle(work);
      set_node<<<1, 1, 0, work.stream>>>(handle, work.stop);
      in_node(work, handle, [](const Work& inner) { inner.product(inner.own); });
    } else {
      work.product(work.own);
      if (way == Way::shield) copy<<<work.blocks, 256, 0, work.stream>>>(work.n, work.own, work.y, work.stop);
    }
    vectors(work);
  }
}

double microseconds_a_step(const Work& work, Way way) {
  CHECK(cudaStreamBeginCapture(work.stream, cudaStreamCaptureModeThreadLocal));
  record(work, way);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(work.stream, &graph));
  cudaGraphExec_t ready;
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int run = -2; run < runs; ++run) {
    CHECK(cudaEventRecord(begin, work.stream));
    for (int k = 0; k < graphs_a_run; ++k) CHECK(cudaGraphLaunch(ready, work.stream));
    CHECK(cudaEventRecord(end, work.stream));
    CHECK(cudaEventSynchronize(end));
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    if (run >= 0) times.push_back(milliseconds);
  }
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  CHECK(cudaGraphExecDestroy(ready));
  CHECK(cudaGraphDestroy(graph));
  return 1e3 * times[runs / 2] / (graphs_a_run * steps);
}

double copy_bandwidth(const Work& work) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  float best = 1e9f;
  for (int k = 0; k < 20; ++k) {
    CHECK(cudaEventRecord(begin, work.stream));
    CHECK(cudaMemcpyAsync(work.y, work.x, static_cast<std::size_t>(work.n) * 8, cudaMemcpyDeviceToDevice,
                          work.stream));
    CHECK(cudaEventRecord(end, work.stream));
    CHECK(cudaEventSynchronize(end));
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    best = std::min(best, milliseconds);
  }
  return 16.0 * static_cast<double>(work.n) / (1e-3 * best);
}

}  // namespace

int run_graph_stop(Arguments& arguments) {
  std::string json;
  arguments.read({shared::json(json)});
  (void)Context::device();  // says why if there is no GPU
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  constexpr std::int64_t most = 1 << 25;
  Work work{most, nullptr, nullptr, nullptr, nullptr, nullptr, device.multiProcessorCount * 4};
  CHECK(cudaStreamCreate(&work.stream));
  for (double** v : {&work.x, &work.y, &work.own}) {
    CHECK(cudaMalloc(v, most * sizeof(double)));
    CHECK(cudaMemset(*v, 1, most * sizeof(double)));
  }
  CHECK(cudaMalloc(&work.stop, sizeof(int)));
  CHECK(cudaMemset(work.stop, 0, sizeof(int)));
  const double bandwidth = copy_bandwidth(work);
  Report report("graph_stop", 1, json);
  report["device"] = device.name, report["copy_bandwidth"] = bandwidth, report["steps"] = steps;
  std::printf("%s, copy %.2f TB/s; microseconds a step\n%10s %10s %10s %10s %10s %14s\n", device.name,
              bandwidth / 1e12, "n", "plain", "shield", "one node", "all nodes", "plain of copy");
  const std::int64_t sizes[] = {10'000, 100'000, 1'000'000, 10'000'000};
  for (const std::int64_t n : sizes) {
    work.n = n;
    double times[4];
    for (int w = 0; w < 4; ++w) times[w] = microseconds_a_step(work, static_cast<Way>(w));
    const double of_copy = 6 * 24.0 * static_cast<double>(n) / (1e-6 * times[0]) / bandwidth;
    std::printf("%10lld %10.3f %10.3f %10.3f %10.3f %14.3f\n", static_cast<long long>(n), times[0], times[1],
                times[2], times[3], of_copy);
    report["rows"].push_back({{"n", n},
                              {"plain", times[0]},
                              {"shield", times[1]},
                              {"one_node", times[2]},
                              {"all_nodes", times[3]},
                              {"plain_of_copy", of_copy}});
  }
  report.write();
  return 0;
}

}  // namespace protean::bench
