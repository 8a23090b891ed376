// Where work runs. A Context is one memory space with the workers that operate on it: host memory and a
// number of threads. It is passed to everything that allocates or computes; there is no global device, no
// global pool.
#pragma once
#include <memory>
#include <string_view>

#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

enum class Space : unsigned char { host, device };
std::string_view to_string(Space space) noexcept;

// The kernels that compute the vector operations of blas1.hpp: native ones, or the kernels of Kokkos, on its host space
// in a host context and on a GPU in a device context. A Kokkos that has only the Serial space uses one thread, whatever
// the context has.
enum class VectorKernels : unsigned char { native, kokkos };
std::string_view to_string(VectorKernels kernels) noexcept;
// Empty if this build has them in a space; otherwise the reason.
std::string_view unavailable(VectorKernels kernels, Space space = Space::host) noexcept;

// Deterministic mode (off unless asked for, and then slower): the same problem gives the same bits again.
//
// On the host, what is computed depends neither on the storage format nor on the number of threads:
//   product    of every format with exact values and kernel native: sum_i := 0, then
//              sum_i := fma(a_ij, x_j, sum_i) over the row's entries one after another, columns ascending;
//              fma rounds once; padding adds nothing. y_i := alpha sum_i if beta is 0, else fma(beta, y_i,
//              alpha sum_i). So all formats give the same bits, on every processor.
//   reduction  dots and norms are summed over strips of 1024 entries, strips over at most 256 chunks, chunks
//              one after another, whatever operation they are fused into: the same bits for every number of
//              threads on processors with the same SIMD instruction set.
// Kernels that add in another order (kernels of libraries) are refused by name when a matrix is made.
//
// On a device: sums have a fixed order, no atomic operation adds to a value, and so two runs on the same kind
// of GPU give the same bits. Formats differ from each other, and from the host, by rounding. Kernels that
// cannot are refused.
struct HostOptions {
  VectorKernels vector_kernels = VectorKernels::native;
  bool deterministic = false;  // with native vector kernels only
};
struct DeviceOptions {
  VectorKernels vector_kernels = VectorKernels::native;
  bool deterministic = false;  // with native vector kernels only
};

// What a device context owns: stream, library handles, memory pool. Defined in core/device, CUDA builds only.
struct PROTEAN_HIDDEN DeviceState;

class Context;
namespace PROTEAN_HIDDEN detail {
class SimulatedDevice;
std::shared_ptr<Context> simulated_context(std::shared_ptr<SimulatedDevice>, Space);
}  // namespace detail

// Not copyable; share it by std::shared_ptr. Const calls are safe from several threads. Each calling thread has its own
// workers, so two solves that run at the same time in two threads use twice as many processors: give each a context
// with fewer threads.
class Context {
 public:
  // Host memory. Threads 0: OMP_NUM_THREADS if it is set, else the number that affinity and control group allow; 1024
  // at most. Throws BadArgument for a negative number and for more than 1024, NotAvailable for vector kernels that are
  // not in this build, or not deterministic if that is asked for.
  static std::shared_ptr<Context> host(int threads = 0, const HostOptions& options = {});

  // The memory of GPU number `ordinal`, with a stream, cuBLAS and cuSPARSE handles and a memory pool of its
  // own. Work is queued on the stream in the order of the calls. Use one context from one thread at a time.
  // Contexts of several GPUs may be used alternately: every function makes the GPU of its context current and
  // restores the caller's current GPU before it returns. Callbacks and observers run with the GPU of the solve
  // as the current one.
  // Throws BadArgument, and NotAvailable (build without CUDA, no driver, no GPU, architecture not compiled in,
  // vector kernels that are not in this build or not deterministic if that is asked for).
  static std::shared_ptr<Context> device(int ordinal = 0, const DeviceOptions& options = {});
  // GPUs this process can see, 0 in a build without CUDA.
  static int device_count() noexcept;

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Space space() const noexcept { return space_; }
  int threads() const noexcept { return threads_; }
  bool deterministic() const noexcept { return options_.deterministic; }
  VectorKernels vector_kernels() const noexcept { return options_.vector_kernels; }

  // Returns when all work given to this context has finished (at once on the host). Throws DeviceError if some of it
  // failed.
  void synchronize() const;

  // Device contexts of a CUDA build only. Makes the context's GPU the calling thread's current one, so that
  // whatever is done with the state goes to the right GPU. Inside BackgroundWork (background.hpp) it is another
  // state, so call this for each operation and do not keep a reference.
  DeviceState& device_state() const noexcept;
  // Null except in tests.
  detail::SimulatedDevice* simulated() const noexcept { return simulated_.get(); }

 private:
  Context(Space space, int threads);
  Space space_;
  int threads_;
  HostOptions options_;
  std::unique_ptr<DeviceState, void (*)(DeviceState*)> device_;
  std::shared_ptr<detail::SimulatedDevice> simulated_;
  friend std::shared_ptr<Context> detail::simulated_context(std::shared_ptr<detail::SimulatedDevice>, Space);
};

using ContextPtr = std::shared_ptr<Context>;

}  // namespace protean
