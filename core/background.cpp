#include "core/background.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits>
#include <utility>

namespace protean {
namespace detail {
namespace {

constexpr int background_nice = 10;

constinit thread_local const Background* current = nullptr;

#if !defined(PROTEAN_HAVE_CUDA)
DeviceState* enter_background(const Context&, const std::atomic<bool>&, bool) { return nullptr; }
void leave_background(const Context&, DeviceState*) noexcept {}
#endif

}  // namespace

#if defined(PROTEAN_HAVE_CUDA)
// core/device/context.cu: wait until a device context allows this background work, and end it.
DeviceState* enter_background(const Context& context, const std::atomic<bool>& cancel, bool before);
void leave_background(const Context& context, DeviceState* state) noexcept;
void make_current(const DeviceState& state) noexcept;
#endif

const Background* background() noexcept { return current; }

BackgroundScope::BackgroundScope(const Background* work) noexcept { current = work; }
BackgroundScope::~BackgroundScope() { current = nullptr; }

void checkpoint() {
  if (!current) return;
  if (current->cancel && current->cancel->load(std::memory_order_relaxed))
    throw Cancelled("background work was asked to end");
  if (current->endable) current->endable->check();
}

void checkpoint(std::size_t bytes) {
  checkpoint();
  if (current && current->allocated) current->allocated->fetch_add(bytes, std::memory_order_relaxed);
}

EndableWork::EndableWork(const Context& context, std::function<bool()> ended)
    : ended_(std::move(ended)),
      state_{&context, nullptr, std::numeric_limits<int>::max(), nullptr, nullptr, this},
      current_(current == nullptr) {
  if (current_) current = &state_;
}
EndableWork::~EndableWork() {
  if (current_) current = nullptr;
}

void EndableWork::check() {
  if (!must_end_.load(std::memory_order_relaxed)) {
    if (std::this_thread::get_id() != caller_ || !ended_()) return;
    must_end_.store(true, std::memory_order_relaxed);
  }
  throw WorkEnded("work was asked to end");
}

namespace {
constinit thread_local const std::function<bool()>* question = nullptr;
}  // namespace

StopQuestion::StopQuestion(std::function<bool()> asked)
    : asked_(std::move(asked)), before_(std::exchange(question, &asked_)) {}
StopQuestion::~StopQuestion() { question = before_; }

bool stop_asked() { return question && (*question)(); }

}  // namespace detail

BackgroundWork::BackgroundWork(ContextPtr context, const std::atomic<bool>& cancel, int workers,
                               std::atomic<std::size_t>* allocated, BackgroundPriority priority)
    : context_(std::move(context)), state_{context_.get(), &cancel, workers, nullptr, allocated} {
  if (workers < 1)
    throw BadArgument("background work has " + std::to_string(workers) + " threads; it needs 1 or more");
  if (detail::current) throw BadArgument("background work was started inside other background work");
  // On Linux each thread has its own priority, set by the kernel's number of the thread. A refusal is harmless.
  const bool before = priority == BackgroundPriority::before_solve;
  if (!before)
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), detail::background_nice);
  if (context_->space() == Space::device && !context_->simulated())
    state_.device = detail::enter_background(*context_, cancel, before);
  detail::current = &state_;
}

BackgroundWork::~BackgroundWork() {
  detail::current = nullptr;
  if (state_.device) detail::leave_background(*context_, state_.device);
}

DeviceState& Context::device_state() const noexcept {
  const detail::Background* const behind = detail::current;
  DeviceState& state = behind && behind->device && behind->context == this ? *behind->device : *device_;
#if defined(PROTEAN_HAVE_CUDA)
  detail::make_current(state);
#endif
  return state;
}

}  // namespace protean
