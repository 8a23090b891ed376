// Checks of a user's own memory and a user's own device code, and the scope of the current GPU. Nothing is done
// for host contexts, because a call to the CUDA driver would start it. Private.
#pragma once
#include <string_view>

#include "core/context.hpp"
#include "core/csr.hpp"

struct CUstream_st;  // CUDA's stream

namespace protean::detail {

// Throws WrongSpace, naming `what` and what it is, unless `data` is null or memory of the context's own
// device: not pageable, pinned or managed memory, nor the memory of another GPU.
void require_device_memory(const Context& context, const void* data, std::string_view what);

// Throws BadArgument, naming the array, if one that has entries is a null pointer. A view is checked when it is
// made, but a handle can be filled by hand.
template <class T>
void require_arrays(const CsrMatrix<T>& matrix);

// Makes the GPU of a device context the calling thread's current one while this exists, and the caller's GPU
// again at the end. Every public function that works on a device has one, so a program that uses several GPUs
// finds its own as it left it. Nothing is done for host contexts and simulated devices.
class DeviceScope {
 public:
  explicit DeviceScope(const Context& context) noexcept {
    if (context.space() == Space::device && !context.simulated()) before_ = enter(context);
  }
  ~DeviceScope() {
    if (before_ >= 0) restore(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  // The ordinal of the caller's GPU; -1 if it cannot be asked for.
  static int enter(const Context& context) noexcept;
  static void restore(int ordinal) noexcept;
  int before_ = -1;
};

// The stream of a device context; null for other contexts.
CUstream_st* stream_of(const Context& context) noexcept;

// Throws DeviceError, naming `what`, if work that a user's code has just queued was refused.
void check_queued(const Context& context, std::string_view what);

// Whether the context's vector operations can be recorded into a CUDA graph now.
bool vector_operations_record(const Context& context) noexcept;

// Throws NotAvailable unless this build has these vector operations in a space, in deterministic mode if asked.
void require_vector_kernels(VectorKernels kernels, Space space, bool deterministic);

}  // namespace protean::detail
