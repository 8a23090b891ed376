// What a device context owns, and how CUDA calls are checked. Private; CUDA builds only.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusparse.h>

#include <mutex>
#include <source_location>
#include <string_view>

#include "core/context.hpp"

namespace protean {

struct DeviceState {
  int ordinal = 0;
  int processors = 0;  // streaming multiprocessors
  cudaStream_t stream = nullptr;
  cudaMemPool_t pool = nullptr;
  cublasHandle_t cublas = nullptr;
  cusparseHandle_t cusparse = nullptr;

  // Workspace of reductions: partial sums of up to max_blocks blocks, and the count of blocks that are done.
  // One is enough, since the work of a stream runs in order; other_partials takes turns with it while sums
  // are left open.
  static constexpr int max_blocks = 4096, max_sums = 8;
  double *partials = nullptr, *other_partials = nullptr;
  unsigned* arrived = nullptr;

  // The last block of a reduction waits for all others, which costs as much as a small kernel. While
  // leave_open is set, reductions of up to OpenSums::most sums end with their blocks' parts, and the vector
  // operation that comes next adds them up in each of its blocks (kernel_tools.cuh). Set it only where
  // nothing but Coefficients of vector operations reads the results.
  struct OpenSums {
    static constexpr int most = 2;
    const double* parts = nullptr;
    void* result = nullptr;
    int count = 0, blocks = 0;
  } open;
  bool leave_open = false;

  // A device::Judge<T> that waits for the last operation of a step to take it along (device::each_and_judge).
  const void* judge = nullptr;

  // Kernels started by device::launch() may come to the device while the one before still runs; they wait
  // there until it is done. can_overlap: what this program's kernels were compiled for allows it.
  bool can_overlap = false, overlap = false;

  // Pinned host memory through which copies of pageable memory go (copy.cu).
  static constexpr std::size_t staging_bytes = std::size_t{4} << 20;
  static constexpr int staging_pieces = 4;
  struct Staging {
    void* data = nullptr;
    cudaEvent_t done = nullptr;  // the device has done with it
  } staging[staging_pieces];

  // The context's other state, for background work, made when first needed (BackgroundWork). Shares the pool
  // and has no cuBLAS, which takes long to make and is of use to solvers only.
  DeviceState* behind = nullptr;
  std::timed_mutex behind_in_use;

  // While this points somewhere, kernels do nothing once the value there is not 0: a solve that has ended
  // inside a graph of several iterations leaves x as it is.
  const int* stop = nullptr;
};

namespace device {

// Throw DeviceError, or OutOfMemory where that is what happened.
void check(cudaError_t status, const char* call,
           std::source_location where = std::source_location::current());
void check(cublasStatus_t status, const char* call,
           std::source_location where = std::source_location::current());
void check(cusparseStatus_t status, const char* call,
           std::source_location where = std::source_location::current());

// The handle of the context's state; made here for background work, which seldom needs it.
cusparseHandle_t cusparse(const Context& context);

inline cudaStream_t stream(const Context& context) noexcept { return context.device_state().stream; }

}  // namespace device
}  // namespace protean

// A macro, so that the text of the call is in the message.
#define PROTEAN_CUDA_CHECK(call) ::protean::device::check((call), #call)
