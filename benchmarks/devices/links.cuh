// How parts of a system on several GPUs of one process talk to each other inside recorded graphs: kernels that store
// into the memory of a neighbour and release an epoch there, and that wait for the epochs of others. Each part runs the
// same kernels in the same order, so its own count of epochs says what to wait for. Two places are used alternately:
// nobody can be two epochs ahead of a part that it exchanges with.
#pragma once
#include <cstdint>

#include "distributed/device/epochs.cuh"

namespace protean::bench {

constexpr int most_parts = 8, most_sums = 4;
using device::Epoch, device::release, device::acquire, device::wait_for;

// The mailbox of a part, in its memory. All parts write into it.
struct Mailbox {
  double values[2][most_parts][most_sums];
  Epoch epochs[most_parts];
};
struct SumLinks {
  Mailbox* boxes[most_parts];
  Epoch* epoch;  // sums of this part so far
  int part, parts;
  const int* abandoned;
};

// result[s] := the sum over all parts, in their order, of the sums of `count` numbers at partials + s * count. One
// block.
template <int N, int threads>
__global__ void sum_over_parts(SumLinks links, const double* partials, int count, double* result) {
  __shared__ double warps[N][threads / 32], own[N];
  for (int s = 0; s < N; ++s) {
    double sum = 0;
    for (int b = threadIdx.x; b < count; b += threads) sum += partials[s * count + b];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) warps[s][threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x < N) {
    double sum = 0;
    for (int w = 0; w < threads / 32; ++w) sum += warps[threadIdx.x][w];
    own[threadIdx.x] = sum;
    if (links.parts == 1) result[threadIdx.x] = sum;
  }
  if (links.parts == 1) return;
  __syncthreads();
  const Epoch epoch = *links.epoch + 1;
  const int to = threadIdx.x;
  if (to < links.parts) {
    Mailbox& box = *links.boxes[to];
    for (int s = 0; s < N; ++s)
      *static_cast<volatile double*>(&box.values[epoch % 2][links.part][s]) = own[s];
    release(&box.epochs[links.part], epoch);
    wait_for(&links.boxes[links.part]->epochs[to], epoch, links.abandoned);
  }
  __syncthreads();
  if (threadIdx.x < N) {
    const volatile double(*values)[most_sums] = links.boxes[links.part]->values[epoch % 2];
    double sum = values[0][threadIdx.x];
    for (int p = 1; p < links.parts; ++p) sum += values[p][threadIdx.x];
    result[threadIdx.x] = sum;
  }
  if (threadIdx.x == 0) *links.epoch = epoch;
}

// A neighbour of a part: what it needs, and where it goes; what it sends, and where it arrives.
struct Neighbour {
  const double* from;  // consecutive entries of x here; count of them
  std::int64_t count;
  double* places[2];  // in the neighbour's memory
  Epoch* there;       // the neighbour's epoch of this part
  const double* arrived[2];
  Epoch* here;
  unsigned* blocks_done;
};
struct HaloLinks {
  Neighbour neighbours[2];  // of a slab
  int count;
  Epoch* epoch;  // exchanges of this part so far
  const int* abandoned;
};

// blocks: for each neighbour
__global__ void send_halo(HaloLinks links, int blocks) {
  const Neighbour& to = links.neighbours[blockIdx.x / blocks];
  const Epoch epoch = *links.epoch + 1;
  double* const place = to.places[epoch % 2];
  const int block = blockIdx.x % blocks;
  for (std::int64_t i = std::int64_t{block} * blockDim.x + threadIdx.x; i < to.count;
       i += std::int64_t{blocks} * blockDim.x)
    place[i] = to.from[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(to.blocks_done, 1U) == static_cast<unsigned>(blocks) - 1) {
    *to.blocks_done = 0;
    __threadfence_system();
    release(to.there, epoch);
  }
}

}  // namespace protean::bench
