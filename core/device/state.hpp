// What a device context owns, and how CUDA calls are checked. Private; CUDA builds only.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusparse.h>

#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/context.hpp"
#include "core/error.hpp"
#include "core/source_location.hpp"

namespace protean {
namespace detail {
class Communicator;  // core/communicator.hpp
}  // namespace detail

struct DeviceState {
  int ordinal = 0;
  int processors = 0;            // streaming multiprocessors
  std::size_t memory_bytes = 0;  // of the device
  cudaStream_t stream = nullptr;
  cudaMemPool_t pool = nullptr;
  cublasHandle_t cublas = nullptr;
  cusparseHandle_t cusparse = nullptr;

  // Workspace of reductions: partial sums of up to max_blocks blocks, and the number of blocks that are done.
  // One workspace is enough, because the work of a stream runs in order. While sums are left open, partials and
  // other_partials are used alternately.
  static constexpr int max_blocks = 4096, max_sums = 8;
  double *partials = nullptr, *other_partials = nullptr;
  unsigned* arrived = nullptr;

  // The last block of a reduction waits for all others, which costs as much as a small kernel. While
  // leave_open is set, a reduction of up to OpenSums::most sums only stores the partial sums of its blocks, and
  // the next vector operation adds them up in each of its blocks (kernel_tools.cuh). Set it only if the results are
  // read by Coefficients of vector operations and by nothing else.
  struct OpenSums {
    static constexpr int most = 2;
    const double* parts = nullptr;
    void* result = nullptr;
    int count = 0, blocks = 0;
  } open;
  bool leave_open = false;

  // A device::Judge<T> that the last operation of the step shall run (device::each_and_judge).
  const void* judge = nullptr;

  // overlap: blocks of a kernel that device::launch() starts may be placed on the device while the kernel before
  // still runs; they wait there until it is done. can_overlap: this program's kernels were compiled for that.
  bool can_overlap = false, overlap = false;

  // Pinned host memory for copies of pageable memory (copy.cu).
  static constexpr std::size_t staging_bytes = std::size_t{4} << 20;
  static constexpr int staging_pieces = 4;
  struct Staging {
    void* data = nullptr;
    cudaEvent_t done = nullptr;  // the device no longer uses it
  } staging[staging_pieces];

  // Pinned pieces that nobody uses at present, for the next PinnedMemory. Guarded by release_mutex.
  struct Pinned {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t most_pinned = 16;
  std::vector<Pinned> pinned;

  // The context's further states, for background work of lower and of higher priority than the context's own, made by
  // the first BackgroundWork of that priority. They share the pool. They have no cuBLAS handle, which takes long to
  // make and is used by solvers only.
  struct Beside {
    DeviceState* state = nullptr;
    std::timed_mutex in_use;
  } behind, before;

  // Buffers of this context may be released by any thread, also while another one records a graph on the stream,
  // which forbids other calls there. They are kept until the recording has ended.
  std::mutex release_mutex;
  bool recording = false;
  std::vector<void*> released;

  // Null, or the address of a flag. Kernels return at once if the flag is not 0, so a solve that ends inside a
  // graph of several iterations leaves x as it is.
  const int* stop = nullptr;

  // The parts with which this GPU shares the vectors of a system; null: none.
  detail::Communicator* communicator = nullptr;
};

namespace device {

// Work could not be queued, perhaps because another thread has waited for the whole device, which ends the
// recording of a graph. Libraries say only that a launch has failed.
struct RecordingDisturbed : DeviceError {
  RecordingDisturbed(const std::string& message, SourceLocation where) : DeviceError(message, where) {}
};

// Throw DeviceError, or OutOfMemory if that is what happened.
void check(cudaError_t status, const char* call, SourceLocation where = SourceLocation::current());
void check(cublasStatus_t status, const char* call, SourceLocation where = SourceLocation::current());
void check(cusparseStatus_t status, const char* call, SourceLocation where = SourceLocation::current());

// The handle of the context's state. For background work, which seldom needs one, it is made here.
cusparseHandle_t cusparse(const Context& context);

// Held shared by a thread that records a graph, and alone by one that makes or destroys a context: the libraries
// wait for the whole device then, which would invalidate a recording on any of its streams.
std::shared_mutex& recording_mutex();

// While this exists, the calling thread records a graph on the stream of the state.
class RecordingScope {
 public:
  explicit RecordingScope(DeviceState& state);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  DeviceState& state_;
  std::shared_lock<std::shared_mutex> lock_;
};

// Pinned host memory of a context, to which kernels and copies write. A piece that is released is kept for the next
// user: to make and to free one takes a millisecond, as long as a short solve. What uses the memory on the device must
// have ended before the destructor. Contents are undefined. Throws OutOfMemory and DeviceError.
class PinnedMemory {
 public:
  PinnedMemory(ContextPtr context, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const noexcept { return piece_.data; }

 private:
  ContextPtr context_;
  DeviceState& state_;
  DeviceState::Pinned piece_;
};

inline cudaStream_t stream(const Context& context) noexcept { return context.device_state().stream; }

}  // namespace device
}  // namespace protean

// A macro, so that the message contains the text of the call.
#define PROTEAN_CUDA_CHECK(call) ::protean::device::check((call), #call)
