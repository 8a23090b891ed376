// Work that runs at the same time as a solve, in another thread. The next storage format of a matrix is built
// this way.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include <protean/core/context.hpp>
#include <protean/core/error.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// Thrown inside background work that was asked to end, at its next parallel region or allocation.
class Cancelled : public Error {
 public:
  explicit Cancelled(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

namespace PROTEAN_HIDDEN detail {
class EndableWork;
// The state of one background work, or of work in the foreground that can be ended.
struct Background {
  const Context* context;
  const std::atomic<bool>* cancel;  // null: nobody does
  int workers;
  DeviceState* device;                  // of a device context: the stream and handles of background work
  std::atomic<std::size_t>* allocated;  // null: bytes are not counted
  EndableWork* endable = nullptr;       // of work in the foreground
};
}  // namespace detail

// before_solve: for short work whose result a running solve needs soon. On a device its kernels run before the queued
// kernels of the solve.
enum class BackgroundPriority : unsigned char { behind_solve, before_solve };

// While an object of this class lives, everything that the calling thread does is background work:
//   - Parallel regions keep the number of parts of the context, but run them on `workers` threads only (1: the
//     calling one). So a matrix built here is split as it will be used.
//   - On a device context, work is queued on a second stream of the lowest (before_solve: highest) priority, which has
//     its own partial sums and library handles.
//   - When `cancel` becomes true, the next parallel region or allocation throws Cancelled.
// The code of products and conversions is the same as in the foreground.
//
// Except for before_solve, the constructor lowers the priority of the calling thread (nice 10), and ordinary users
// cannot raise it again: start a thread for this work and end it afterwards. A device context allows one background
// work of each priority at a time; a second thread waits in the constructor until the first has ended or `cancel` is
// true. The thread that builds touches memory first, not the threads that will use it; this costs time on machines with
// several memory nodes. The bytes of all allocations are added to `allocated` if it is given; bytes given back are not
// subtracted.
class BackgroundWork {
 public:
  // Throws Cancelled, DeviceError, OutOfMemory; BadArgument for fewer than 1 worker or inside other
  // background work.
  BackgroundWork(ContextPtr context, const std::atomic<bool>& cancel, int workers = 1,
                 std::atomic<std::size_t>* allocated = nullptr,
                 BackgroundPriority priority = BackgroundPriority::behind_solve);
  // Waits for its work on the device. Errors of that work are lost here: call context->synchronize() before.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

 private:
  ContextPtr context_;
  detail::Background state_;
};

namespace PROTEAN_HIDDEN detail {
// The background work of the calling thread; null if it does none.
const Background* background() noexcept;
// While an object of this class lives, the calling thread does this background work, or none if it is null. For workers
// that run a part of it.
class BackgroundScope {
 public:
  explicit BackgroundScope(const Background* work) noexcept;
  ~BackgroundScope();
  BackgroundScope(const BackgroundScope&) = delete;
  BackgroundScope& operator=(const BackgroundScope&) = delete;
};
// Throws Cancelled inside background work that was asked to end, WorkEnded inside work of EndableWork; nothing
// otherwise.
void checkpoint();
// The calling thread is about to allocate: a checkpoint, which counts the bytes.
void checkpoint(std::size_t bytes);

// Counts steps of long work and passes a checkpoint after many of them.
class CheckedSteps {
 public:
  void did(std::int64_t steps) {
    if ((done_ += steps) < between_checkpoints) return;
    done_ = 0;
    checkpoint();
  }

 private:
  static constexpr std::int64_t between_checkpoints = 1 << 18;
  std::int64_t done_ = 0;
};

// Thrown at a checkpoint inside EndableWork that must end.
class WorkEnded : public Error {
 public:
  explicit WorkEnded(const std::string& message, SourceLocation where = SourceLocation::current())
      : Error(message, where) {}
};

// While an object of this class lives, work of the calling thread in the foreground ends if `ended` says so: the next
// checkpoint (each parallel region and allocation is one) throws WorkEnded, here and in the threads that run parts of a
// parallel region. Only the calling thread calls `ended`. Does nothing inside background work or other work of this
// class.
class EndableWork {
 public:
  EndableWork(const Context& context, std::function<bool()> ended);
  ~EndableWork();
  EndableWork(const EndableWork&) = delete;
  EndableWork& operator=(const EndableWork&) = delete;
  void check();

 private:
  std::function<bool()> ended_;
  std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> must_end_{false};
  Background state_;
  bool current_;
};

// While an object of this class lives, `asked` can end work of the calling thread before its result is complete, such
// as the setup of a preconditioner for a solve: it returns true for Ctrl-C. Without an object nobody asks.
class StopQuestion {
 public:
  explicit StopQuestion(std::function<bool()> asked);
  ~StopQuestion();
  StopQuestion(const StopQuestion&) = delete;
  StopQuestion& operator=(const StopQuestion&) = delete;

 private:
  std::function<bool()> asked_;
  const std::function<bool()>* before_;
};
bool stop_asked();
}  // namespace detail

}  // namespace protean
