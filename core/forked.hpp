// Threads of the library in a child of fork(): they are in the parent alone, so nobody may wait for them. Private.
#pragma once
#include <unistd.h>

#include <new>
#include <utility>

namespace protean::detail {

// Whether this process is a child of the one with this number.
inline bool forked_from(pid_t process) noexcept { return process != getpid(); }

// Takes a std::thread or a std::future of the parent away without waiting for it. Its memory is lost in the child.
template <class Handle>
void leave_in_parent(Handle& handle) noexcept {
  alignas(Handle) static thread_local char spare[sizeof(Handle)];
  void* const memory = ::operator new(sizeof(Handle), std::nothrow);
  new (memory ? memory : spare) Handle(std::move(handle));
}

}  // namespace protean::detail
