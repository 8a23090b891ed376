#include "solvers/device_kernels.hpp"

#include <cuda_runtime.h>

#include <stdexcept>

namespace protean::test {
namespace {

__global__ void stencil(std::int64_t m, const double* x, double* y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= m * m) return;
  const std::int64_t column = i % m;
  double sum = 4 * x[i];
  if (column > 0) sum -= x[i - 1];
  if (column + 1 < m) sum -= x[i + 1];
  if (i >= m) sum -= x[i - m];
  if (i + m < m * m) sum -= x[i + m];
  y[i] = sum;
}
__global__ void scaled(std::int64_t n, double factor, const double* r, double* z) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) z[i] = r ? factor * r[i] : factor;
}
__global__ void poison(int* nowhere) { *nowhere = 1; }

unsigned blocks(std::int64_t n) { return static_cast<unsigned>((n + 255) / 256); }

}  // namespace

void queue_stencil(std::int64_t m, const double* x, double* y, CUstream_st* stream) {
  stencil<<<blocks(m * m), 256, 0, stream>>>(m, x, y);
}
void queue_fill(std::int64_t n, double value, double* d, CUstream_st* stream) {
  scaled<<<blocks(n), 256, 0, stream>>>(n, value, nullptr, d);
}
void queue_scaled(std::int64_t n, double factor, const double* r, double* z, CUstream_st* stream) {
  scaled<<<blocks(n), 256, 0, stream>>>(n, factor, r, z);
}
void queue_impossible(CUstream_st* stream) { poison<<<1, 5000, 0, stream>>>(nullptr); }
void queue_poison(CUstream_st* stream) { poison<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(64)); }
bool wait_for_device() {
  if (cudaDeviceSynchronize() == cudaSuccess) return true;
  (void)cudaGetLastError();
  return false;
}
void wait_for(CUstream_st* stream) { (void)cudaStreamSynchronize(stream); }

int current_gpu() {
  int ordinal = -1;
  (void)cudaGetDevice(&ordinal);
  return ordinal;
}
void set_current_gpu(int ordinal) {
  if (const cudaError_t status = cudaSetDevice(ordinal); status != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(status));
}

void* take(Kind kind, std::size_t bytes) {
  // On the GPU of the tests' context, whatever the current one is.
  const int before = current_gpu();
  set_current_gpu(0);
  void* memory = nullptr;
  const cudaError_t status = kind == Kind::pinned    ? cudaMallocHost(&memory, bytes)
                             : kind == Kind::managed ? cudaMallocManaged(&memory, bytes)
                                                     : cudaMalloc(&memory, bytes);
  set_current_gpu(before);
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  return memory;
}
void give_back(Kind kind, void* memory) {
  if (kind == Kind::pinned)
    (void)cudaFreeHost(memory);
  else
    (void)cudaFree(memory);
}

}  // namespace protean::test
