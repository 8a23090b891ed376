// Work of the policy whose result is needed later: done here at once, or in another thread next to the solve. Private
// to solvers/.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <utility>

#include "core/forked.hpp"
#include "core/signals_blocked.hpp"

namespace protean::detail {

template <class Result>
class WorkBeside {
 public:
  // Throws std::system_error if there is no thread. What the work throws, take() throws.
  template <class Work>
  void begin(bool beside, Work work) {
    {
      const SignalsBlocked blocked;
      process_ = getpid();
      result_ = std::async(beside ? std::launch::async : std::launch::deferred, std::move(work));
    }
    if (!beside) result_.wait();
  }
  // Whether it was begun, and its result is still to be taken.
  bool asked() const noexcept { return result_.valid(); }
  bool ready() const { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  Result take() { return result_.get(); }
  // Waits until the work has ended. In a child of fork() it never does: the work is left to the parent.
  void wait() {
    if (!asked()) return;
    if (forked_from(process_))
      leave_in_parent(result_);
    else
      result_.wait();
  }
  void forget() { result_ = {}; }

 private:
  std::future<Result> result_;
  pid_t process_ = 0;
};

}  // namespace protean::detail
