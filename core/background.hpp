// Work that runs beside a solve, in a thread of its own: the next storage format of a matrix is built this
// way.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <protean/core/context.hpp>
#include <protean/core/error.hpp>

namespace protean {

// Thrown inside background work that was asked to end, at its next parallel region or allocation.
class Cancelled : public Error {
 public:
  explicit Cancelled(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

namespace detail {
// What the calling thread's background work is bound to.
struct Background {
  const Context* context;
  const std::atomic<bool>* cancel;
  int workers;
  DeviceState* device;                  // of a device context: the stream and handles of background work
  std::atomic<std::size_t>* allocated;  // null: nobody counts
};
}  // namespace detail

// While it lives, everything the calling thread does is background work: parallel regions run all of their
// parts on `workers` threads (1: the calling one), so that what is built is cut into the same parts as it
// will be used with; on a device context, work is queued on a second stream of the lowest priority, with
// partial sums and library handles of its own. Products and conversions need not know.
//
// The calling thread is given a lower priority (nice 10), which ordinary users cannot take back: make the
// thread for this work and end it afterwards. When `cancel` becomes true, the next parallel region or
// allocation throws Cancelled. A device context has one place for background work; a second thread waits for
// it (and for `cancel`) in the constructor. Memory is touched first by the thread that builds, not by those
// that will use it: of note on machines with several memory nodes. The bytes it asks for are added to
// `allocated`, where that is given; what it gives back is not taken off.
class BackgroundWork {
 public:
  // Throws Cancelled, DeviceError, OutOfMemory; BadArgument for fewer than 1 worker or inside other
  // background work.
  BackgroundWork(ContextPtr context, const std::atomic<bool>& cancel, int workers = 1,
                 std::atomic<std::size_t>* allocated = nullptr);
  // Ends when its work on the device has; call context->synchronize() before, which reports what failed.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

 private:
  ContextPtr context_;
  detail::Background state_;
};

namespace detail {
// Of the calling thread, null where it does no background work.
const Background* background() noexcept;
// While it lives, the calling thread does this background work, or none: a worker that runs a part of it.
class BackgroundScope {
 public:
  explicit BackgroundScope(const Background* work) noexcept;
  ~BackgroundScope();
  BackgroundScope(const BackgroundScope&) = delete;
  BackgroundScope& operator=(const BackgroundScope&) = delete;
};
// Throws Cancelled inside background work that was asked to end; nothing otherwise.
void checkpoint();
// The calling thread is about to allocate: a checkpoint, which counts the bytes.
void checkpoint(std::size_t bytes);
}  // namespace detail

}  // namespace protean
