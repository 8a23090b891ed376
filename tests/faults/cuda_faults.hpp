// CUDA calls that fail on demand. The linker replaces the calls in cuda_calls.def by the wrappers of cuda_faults.cpp
// (--wrap), so the library itself is tested; calls that cuBLAS and cuSPARSE make inside of themselves are not counted.
#pragma once
#include <cstdint>
#include <string>

namespace protean::test {

// From now on the n-th call fails: it does nothing and returns an error; if it opens or ends a recording, the recording
// has ended. lost: all later calls also fail, as on a device that has disappeared; calls that release something still
// release it. n = 0: none fails.
void fail_cuda_call(std::int64_t n, bool lost = false) noexcept;
// Whether it has come to that since the last fail_cuda_call(), and the name of the first call that failed.
bool cuda_call_has_failed() noexcept;
std::string failed_cuda_call();
// Whether all that failed gives something back, as cudaFree() does, or asks for the device of the thread, so that it
// can be given back: nobody can say so, and nothing depends on it.
bool only_releases_have_failed() noexcept;

}  // namespace protean::test
