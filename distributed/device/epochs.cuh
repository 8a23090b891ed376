// Epochs between the GPUs of a system: a part writes values into the memory of a neighbour, then releases an epoch
// there, for which the neighbour waits in a kernel. Private, CUDA only.
#pragma once

namespace protean::device {

using Epoch = unsigned long long;

// What this thread has written before is visible to every GPU that acquires the epoch.
__device__ inline void release(Epoch* where, Epoch epoch) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(where), "l"(epoch) : "memory");
}
__device__ inline Epoch acquire(const Epoch* where) {
  Epoch epoch;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(epoch) : "l"(where) : "memory");
  return epoch;
}
// Until this epoch or a later one is there. `abandoned` lies in memory of the host; 1: another part has failed, so
// nobody waits any more.
__device__ inline void wait_for(const Epoch* where, Epoch epoch, const int* abandoned) {
  for (unsigned turns = 1; acquire(where) < epoch; ++turns)
    if (turns % 1024 == 0 && *static_cast<const volatile int*>(abandoned)) return;
}

}  // namespace protean::device
