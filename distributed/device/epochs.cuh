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

// What kernels that wait for another part know of the hosts, in memory of the host. abandoned: as above; 2: a kernel
// has given up. waited_for: for each part, 1 + the part for which a kernel of it waited when it stopped waiting.
struct Patience {
  int* abandoned;
  int* waited_for;
  int part;  // this one
  unsigned long long nanoseconds;
};
__device__ inline unsigned long long now() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}
// The same for a kernel that gives up if this part does not answer for so long.
__device__ inline void wait_for_part(const Epoch* where, Epoch epoch, int part, const Patience& patience) {
  unsigned long long begin = 0;
  for (unsigned turns = 1; acquire(where) < epoch; ++turns) {
    if (turns % 1024 != 0) continue;
    const unsigned long long time = now();
    if (begin == 0) begin = time;
    const bool over = time - begin > patience.nanoseconds;
    if (!over && !*static_cast<const volatile int*>(patience.abandoned)) continue;
    *static_cast<volatile int*>(patience.waited_for + patience.part) = 1 + part;
    __threadfence_system();
    if (over) *static_cast<volatile int*>(patience.abandoned) = 2;
    return;
  }
}

}  // namespace protean::device
