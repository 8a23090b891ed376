#include "faults/cuda_faults.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusparse.h>

#include <atomic>
#include <string_view>
#include <type_traits>

namespace {

std::atomic<std::int64_t> calls{0}, fails_at{0};
std::atomic<bool> is_lost{false}, more_than_releases{false};
std::atomic<const char*> first{nullptr};
thread_local cudaError_t last_error = cudaSuccess;

// Whether this call fails.
bool due(const char* name, bool releases) noexcept {
  const std::int64_t at = fails_at.load(std::memory_order_relaxed);
  if (at <= 0) return false;
  if (releases && !is_lost) return false;
  const std::int64_t number = ++calls;
  if (is_lost ? number < at : number != at) return false;
  const char* none = nullptr;
  first.compare_exchange_strong(none, name);
  const std::string_view of_the_thread[] = {"cudaGetDevice", "cudaSetDevice"};
  if (!releases && name != of_the_thread[0] && name != of_the_thread[1]) more_than_releases = true;
  return true;
}

template <class Status>
Status error() noexcept {
  if constexpr (std::is_same_v<Status, cudaError_t>) {
    last_error = is_lost ? cudaErrorDevicesUnavailable : cudaErrorUnknown;
    return last_error;
  } else if constexpr (std::is_same_v<Status, cublasStatus_t>) {
    return CUBLAS_STATUS_INTERNAL_ERROR;
  } else {
    return CUSPARSE_STATUS_INTERNAL_ERROR;
  }
}

enum class Kind : unsigned char { call, release };

template <class Function>
struct Wrapper;
template <class Status, class... Arguments>
struct Wrapper<Status(Arguments...)> {
  template <Status (*real)(Arguments...), Kind kind, const char* name>
  static Status call(Arguments... arguments) {
    constexpr bool releases = kind == Kind::release;
    if (!due(name, releases)) return real(arguments...);
    // A recording that could not be ended would stay open, which no driver does.
    if constexpr (releases || std::string_view(name) == "cudaStreamEndCapture") {
      (void)real(arguments...);
      if constexpr (!releases) end_of(arguments...);
    }
    return error<Status>();
  }

 private:
  static void end_of(cudaStream_t, cudaGraph_t* graph) {
    if (*graph) (void)cudaGraphDestroy(*graph);
    *graph = nullptr;
  }
  template <class... Others>
  static void end_of(Others...) {}
};

}  // namespace

namespace protean::test {

void fail_cuda_call(std::int64_t n, bool lost) noexcept {
  fails_at = 0, calls = 0, first = nullptr, is_lost = lost, last_error = cudaSuccess;
  more_than_releases = false;
  fails_at = n;
}
bool cuda_call_has_failed() noexcept { return first != nullptr; }
bool only_releases_have_failed() noexcept { return cuda_call_has_failed() && !more_than_releases; }
std::string failed_cuda_call() { return cuda_call_has_failed() ? first.load() : "none"; }

}  // namespace protean::test

// What the compiler of CUDA makes of a launch, which no header declares for other compilers.
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                          std::size_t shared_bytes, cudaStream_t stream);

// The address of a wrapper is found when the program is loaded, so no list of parameters is written here.
#define PROTEAN_WRAPPED(function, kind)                                                          \
  extern "C" decltype(function) __real_##function;                                               \
  static constexpr char name_of_##function[] = #function;                                        \
  extern "C" __attribute__((used)) decltype(&function) resolve_##function() {                    \
    return Wrapper<decltype(function)>::call<__real_##function, Kind::kind, name_of_##function>; \
  }                                                                                              \
  extern "C" __attribute__((ifunc("resolve_" #function))) decltype(function) __wrap_##function;
#define PROTEAN_CALL(function) PROTEAN_WRAPPED(function, call)
#define PROTEAN_RELEASE(function) PROTEAN_WRAPPED(function, release)
#define PROTEAN_ERROR(function)
#include "faults/cuda_calls.def"

extern "C" decltype(cudaGetLastError) __real_cudaGetLastError;
extern "C" cudaError_t __wrap_cudaGetLastError() {
  const cudaError_t own = last_error;
  last_error = cudaSuccess;
  const cudaError_t real = __real_cudaGetLastError();
  return own != cudaSuccess ? own : real;
}
extern "C" decltype(cudaPeekAtLastError) __real_cudaPeekAtLastError;
extern "C" cudaError_t __wrap_cudaPeekAtLastError() {
  return last_error != cudaSuccess ? last_error : __real_cudaPeekAtLastError();
}
