// CG with Jacobi for the 7-point Laplacian of an n^3 grid on 1 .. all GPUs of a host that reach each other's memory: a
// host thread and a graph of iterations for each GPU, halo and sums by the kernels of links.cuh, no host and no library
// call within a graph. It shows what the exchange costs in an iteration, and that all GPUs have the same bits.
//
//   nvcc -O3 -std=c++20 -arch=sm_90 -o cg_on_devices benchmarks/devices/cg_on_devices.cu
//   ./cg_on_devices 64 128 200 256 400
//
// A GPU has a slab of planes. Its matrix is stored by diagonals, 7 values a row, all of which are read; entries in
// planes of neighbours are the boundary block, a value for each of these rows.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#include "links.cuh"

using namespace protean::bench;
using Size = std::int64_t;

#define CHECK(call)                                                                         \
  do {                                                                                      \
    const cudaError_t status = (call);                                                      \
    if (status != cudaSuccess) {                                                            \
      std::printf("%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
      std::exit(3);                                                                         \
    }                                                                                       \
  } while (0)

constexpr int threads = 256, sum_threads = 512, halo_blocks = 32;

template <int N>
__device__ void store_partials(double (&sums)[N], double* partials, int first, int count) {
  __shared__ double warps[N][threads / 32];
  for (int s = 0; s < N; ++s) {
    for (int step = 16; step > 0; step /= 2) sums[s] += __shfl_xor_sync(0xffffffffu, sums[s], step);
    if (threadIdx.x % 32 == 0) warps[s][threadIdx.x / 32] = sums[s];
  }
  __syncthreads();
  if (threadIdx.x < N) {
    double sum = 0;
    for (int w = 0; w < threads / 32; ++w) sum += warps[threadIdx.x][w];
    partials[threadIdx.x * count + first + blockIdx.x] = sum;
  }
}

// q := A p of the slab alone, and p . q. values: 7 diagonals of m entries.
__global__ void product(Size m, Size n, const double* __restrict__ values, const double* __restrict__ p,
                        double* q, double* partials, int count) {
  double dot[1] = {0};
  const Size plane = n * n;
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < m; i += Size{gridDim.x} * threads) {
    double sum = values[3 * m + i] * p[i];
    if (i >= plane) sum += values[i] * p[i - plane];
    if (i >= n) sum += values[m + i] * p[i - n];
    if (i >= 1) sum += values[2 * m + i] * p[i - 1];
    if (i + 1 < m) sum += values[4 * m + i] * p[i + 1];
    if (i + n < m) sum += values[5 * m + i] * p[i + n];
    if (i + plane < m) sum += values[6 * m + i] * p[i + plane];
    q[i] = sum;
    dot[0] += p[i] * sum;
  }
  store_partials<1>(dot, partials, 0, count);
}

// Waits for the planes of the neighbours, and adds the boundary block: q_i += b_i g_i. rows[k]: the first row of
// plane k.
struct Boundary {
  HaloLinks links;
  const double* values[2];
  Size rows[2];
  unsigned* done;
};
__global__ void boundary(Boundary of, Size plane, const double* __restrict__ p, double* q, double* partials,
                         int first, int count) {
  const Epoch epoch = *of.links.epoch + 1;
  if (threadIdx.x < of.links.count)
    wait_for(of.links.neighbours[threadIdx.x].here, epoch, of.links.abandoned);
  __syncthreads();
  double dot[1] = {0};
  for (int k = 0; k < of.links.count; ++k) {
    const volatile double* const ghosts = of.links.neighbours[k].arrived[epoch % 2];
    for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < plane; i += Size{gridDim.x} * threads) {
      const Size row = of.rows[k] + i;
      const double more = of.values[k][i] * ghosts[i];
      q[row] += more;
      dot[0] += p[row] * more;
    }
  }
  store_partials<1>(dot, partials, first, count);
  __syncthreads();
  __threadfence();
  if (threadIdx.x == 0 && atomicAdd(of.done, 1U) == gridDim.x - 1) *of.done = 0, *of.links.epoch = epoch;
}

// x += a p, r -= a q, r . r and r . (d .* r); a = rz / pq
__global__ void update(Size m, const double* scalars, const double* __restrict__ p,
                       const double* __restrict__ q, const double* __restrict__ d, double* x, double* r,
                       double* partials, int count) {
  const double a = scalars[0] / scalars[2];
  double sums[2] = {0, 0};
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < m; i += Size{gridDim.x} * threads) {
    x[i] += a * p[i];
    const double left = r[i] - a * q[i];
    r[i] = left, sums[0] += left * left, sums[1] += left * d[i] * left;
  }
  store_partials<2>(sums, partials, 0, count);
}
// p := d .* r + b p, b = new rz / rz. The scalars move on in the kernel behind it.
__global__ void direction(Size m, const double* scalars, const double* __restrict__ r,
                          const double* __restrict__ d, double* p) {
  const double b = scalars[4] / scalars[0];
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < m; i += Size{gridDim.x} * threads)
    p[i] = d[i] * r[i] + b * p[i];
}
// scalars: 0 r.z, 2 p.q, 3 new r.r, 4 new r.z
__global__ void move_on(double* scalars) { scalars[0] = scalars[4]; }

__global__ void begin_values(Size m, Size n, Size first, double* values, double* d, double* b) {
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < m; i += Size{gridDim.x} * threads) {
    const Size g = first + i, x = g % n, y = g / n % n, z = g / (n * n);
    values[3 * m + i] = 6 + 0.01 * static_cast<double>(g % 7), d[i] = 1 / values[3 * m + i];
    values[i] = z > 0 ? -1 : 0, values[m + i] = y > 0 ? -1 : 0, values[2 * m + i] = x > 0 ? -1 : 0;
    values[4 * m + i] = x + 1 < n ? -1 : 0, values[5 * m + i] = y + 1 < n ? -1 : 0;
    values[6 * m + i] = z + 1 < n ? -1 : 0;
    b[i] = 1 + 0.5 * static_cast<double>(g % 11);
  }
}
__global__ void begin_vectors(Size m, const double* b, const double* d, double* x, double* r, double* p,
                              double* partials, int count) {
  double sums[2] = {0, 0};
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < m; i += Size{gridDim.x} * threads) {
    x[i] = 0, r[i] = b[i], p[i] = d[i] * b[i];
    sums[0] += b[i] * b[i], sums[1] += b[i] * d[i] * b[i];
  }
  store_partials<2>(sums, partials, 0, count);
}
__global__ void fill_plane(Size plane, double* values) {
  for (Size i = Size{blockIdx.x} * threads + threadIdx.x; i < plane; i += Size{gridDim.x} * threads)
    values[i] = -1;
}

template <class T>
T* allocate(Size count) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, static_cast<std::size_t>(count) * sizeof(T)));
  CHECK(cudaMemset(memory, 0, static_cast<std::size_t>(count) * sizeof(T)));
  return static_cast<T*>(memory);
}

struct Part {
  int part = 0, parts = 1, blocks = 0, edge = 0;
  Size n = 0, m = 0, first = 0;
  cudaStream_t stream = nullptr;
  double *values, *d, *b, *x, *r, *p, *q, *partials, *scalars;
  Mailbox* box;
  double* arrived;  // [neighbour][place][plane]
  Epoch* epochs;    // of sums, of exchanges, of the two neighbours
  unsigned* counts;
  SumLinks sums{};
  Boundary edges{};
  std::vector<void*> owned;

  void make(int of_part, int of_parts, Size size) {
    part = of_part, parts = of_parts, n = size;
    CHECK(cudaSetDevice(part));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const Size z0 = n * part / parts, z1 = n * (part + 1) / parts, plane = n * n;
    m = (z1 - z0) * plane, first = z0 * plane;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, part));
    blocks =
        static_cast<int>(std::min<Size>((m + threads - 1) / threads, properties.multiProcessorCount * 8));
    edge = parts > 1 ? static_cast<int>(
                           std::min<Size>((plane + threads - 1) / threads, properties.multiProcessorCount))
                     : 0;
    const auto own = [&]<class T>(T*& to, Size count) { to = allocate<T>(count), owned.push_back(to); };
    own(values, 7 * m);
    for (double** v : {&d, &b, &x, &r, &p, &q}) own(*v, m);
    own(partials, 2 * (blocks + edge)), own(scalars, 8), own(box, 1), own(arrived, 4 * plane), own(epochs, 4),
        own(counts, 4);
    CHECK(cudaDeviceSynchronize());  // the memory is set to 0 in another stream
    begin_values<<<blocks, threads, 0, stream>>>(m, n, first, values, d, b);
    CHECK(cudaStreamSynchronize(stream));
  }
  // When all parts are made.
  void link(std::vector<Part>& all, const int* abandoned) {
    CHECK(cudaSetDevice(part));
    const Size plane = n * n;
    sums.epoch = epochs, sums.part = part, sums.parts = parts, sums.abandoned = abandoned;
    for (Part& other : all) sums.boxes[other.part] = other.box;
    HaloLinks& links = edges.links;
    links.epoch = epochs + 1, links.abandoned = abandoned, edges.done = counts + 2;
    for (const int side : {0, 1}) {
      const int other = side == 0 ? part - 1 : part + 1;
      if (other < 0 || other >= parts) continue;
      Part& peer = all[static_cast<std::size_t>(other)];
      const int theirs = 1 - side;
      Neighbour& one = links.neighbours[links.count];
      one.from = side == 0 ? p : p + m - plane, one.count = plane;
      for (const int place : {0, 1})
        one.places[place] = peer.arrived + (2 * theirs + place) * plane,
        one.arrived[place] = arrived + (2 * side + place) * plane;
      one.there = peer.epochs + 2 + theirs, one.here = epochs + 2 + side, one.blocks_done = counts + side;
      double* of_edge = nullptr;
      of_edge = allocate<double>(plane), owned.push_back(of_edge);
      fill_plane<<<edge, threads, 0, stream>>>(plane, of_edge);
      edges.values[links.count] = of_edge, edges.rows[links.count] = side == 0 ? 0 : m - plane;
      ++links.count;
    }
    CHECK(cudaStreamSynchronize(stream));
  }
  void free() {
    CHECK(cudaSetDevice(part));
    for (void* one : owned) CHECK(cudaFree(one));
    CHECK(cudaStreamDestroy(stream));
  }

  void begin() {
    begin_vectors<<<blocks, threads, 0, stream>>>(m, b, d, x, r, p, partials, blocks);
    sum_over_parts<2, sum_threads><<<1, sum_threads, 0, stream>>>(sums, partials, blocks, scalars + 3);
    move_on<<<1, 1, 0, stream>>>(scalars);
    CHECK(cudaGetLastError());
  }
  void exchange_sum() {
    sum_over_parts<1, sum_threads><<<1, sum_threads, 0, stream>>>(sums, partials, blocks, scalars + 6);
  }
  void exchange_halo() {
    if (parts > 1)
      send_halo<<<halo_blocks * edges.links.count, threads, 0, stream>>>(edges.links, halo_blocks);
    if (parts > 1)
      boundary<<<edge, threads, 0, stream>>>(edges, n * n, p, q, partials, blocks, blocks + edge);
  }
  void iteration() {
    if (parts > 1)
      send_halo<<<halo_blocks * edges.links.count, threads, 0, stream>>>(edges.links, halo_blocks);
    product<<<blocks, threads, 0, stream>>>(m, n, values, p, q, partials, blocks + edge);
    if (parts > 1)
      boundary<<<edge, threads, 0, stream>>>(edges, n * n, p, q, partials, blocks, blocks + edge);
    sum_over_parts<1, sum_threads><<<1, sum_threads, 0, stream>>>(sums, partials, blocks + edge, scalars + 2);
    update<<<blocks, threads, 0, stream>>>(m, scalars, p, q, d, x, r, partials, blocks);
    sum_over_parts<2, sum_threads><<<1, sum_threads, 0, stream>>>(sums, partials, blocks, scalars + 3);
    direction<<<blocks, threads, 0, stream>>>(m, scalars, r, d, p);
    move_on<<<1, 1, 0, stream>>>(scalars);
    CHECK(cudaGetLastError());
  }
};

// Seconds of one of `count` repetitions in a graph for each part: the median of `rounds` launches by all threads.
double measure(std::vector<Part>& parts, int count, int rounds, void (Part::*work)()) {
  std::vector<double> times(static_cast<std::size_t>(rounds));
  std::barrier meeting(static_cast<std::ptrdiff_t>(parts.size()));
  std::vector<std::jthread> all;
  for (Part& part : parts)
    all.emplace_back([&] {
      CHECK(cudaSetDevice(part.part));
      cudaGraph_t graph;
      cudaGraphExec_t exec;
      CHECK(cudaStreamBeginCapture(part.stream, cudaStreamCaptureModeThreadLocal));
      for (int k = 0; k < count; ++k) (part.*work)();
      CHECK(cudaStreamEndCapture(part.stream, &graph));
      CHECK(cudaGraphInstantiate(&exec, graph, 0));
      for (int round = -2; round < rounds; ++round) {
        meeting.arrive_and_wait();
        const auto begin = std::chrono::steady_clock::now();
        CHECK(cudaGraphLaunch(exec, part.stream));
        CHECK(cudaStreamSynchronize(part.stream));
        meeting.arrive_and_wait();
        if (round >= 0 && part.part == 0)
          times[static_cast<std::size_t>(round)] =
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / count;
      }
      CHECK(cudaGraphExecDestroy(exec));
      CHECK(cudaGraphDestroy(graph));
    });
  all.clear();
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// r . r after some iterations from the start, on each part.
std::vector<double> residuals(std::vector<Part>& parts, int iterations) {
  std::vector<double> found(parts.size());
  {
    std::vector<std::jthread> all;
    for (Part& part : parts)
      all.emplace_back([&] {
        CHECK(cudaSetDevice(part.part));
        part.begin();
        for (int k = 0; k < iterations; ++k) part.iteration();
        CHECK(cudaMemcpyAsync(&found[static_cast<std::size_t>(part.part)], part.scalars + 3, sizeof(double),
                              cudaMemcpyDeviceToHost, part.stream));
        CHECK(cudaStreamSynchronize(part.stream));
      });
  }
  return found;
}

int main(int argc, char** argv) {
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < devices; ++b) {
      int reaches = 0;
      if (a == b) continue;
      CHECK(cudaDeviceCanAccessPeer(&reaches, a, b));
      if (!reaches) return std::printf("GPU %d does not reach the memory of GPU %d\n", a, b), 3;
      CHECK(cudaSetDevice(a));
      CHECK(cudaDeviceEnablePeerAccess(b, 0));
    }
  int* abandoned = nullptr;
  CHECK(cudaHostAlloc(reinterpret_cast<void**>(&abandoned), sizeof(int),
                      cudaHostAllocPortable | cudaHostAllocMapped));
  *abandoned = 0;
  std::printf("%d GPUs\n%6s %5s %12s %12s %9s %9s %9s %14s %s\n", devices, "n", "GPUs", "rows",
              "iteration us", "times", "sum us", "halo us", "r . r after 30", "same bits");
  int bad = 0;
  for (int k = 1; k < argc; ++k) {
    const Size n = std::atoll(argv[k]);
    double alone = 0, truth = 0;
    for (int count = 1; count <= std::min(devices, most_parts); count *= 2) {
      std::vector<Part> parts(static_cast<std::size_t>(count));
      for (int p = 0; p < count; ++p) parts[static_cast<std::size_t>(p)].make(p, count, n);
      for (Part& part : parts) part.link(parts, abandoned);
      const std::vector<double> first = residuals(parts, 30);
      if (count == 1) truth = first[0];
      bool same = std::abs(first[0] - truth) <= 1e-10 * truth;
      for (int run = 0; run < 10; ++run)
        for (const double one : residuals(parts, 30))
          same = same && std::memcmp(&one, first.data(), sizeof one) == 0;
      (void)residuals(parts, 0);
      const double seconds = measure(parts, n > 300 ? 20 : 100, 9, &Part::iteration);
      const double sum = measure(parts, 200, 9, &Part::exchange_sum);
      const double halo = count > 1 ? measure(parts, 200, 9, &Part::exchange_halo) : 0;
      if (count == 1) alone = seconds;
      std::printf("%6lld %5d %12lld %12.2f %9.3f %9.2f %9.2f %14.6e %s\n", static_cast<long long>(n), count,
                  static_cast<long long>(n * n * n), seconds * 1e6, alone / seconds, sum * 1e6, halo * 1e6,
                  first[0], same ? "yes" : "NO");
      std::fflush(stdout);
      bad += !same;
      for (Part& part : parts) part.free();
    }
  }
  return bad ? 1 : 0;
}
