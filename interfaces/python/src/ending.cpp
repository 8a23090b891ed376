#include "ending.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace protean::python {
namespace {

constexpr std::chrono::milliseconds between_looks{2};
constexpr std::chrono::seconds patience{10};  // a setup or a conversion ends before it can be stopped

std::atomic<bool> ending{false};  // solves shall end
std::atomic<bool> closed{false};  // nobody gets the GIL any more
std::atomic<int> computing{0};    // threads that have given the GIL back
std::atomic<int> asking{0};       // threads that are about to get it
std::thread::id ends_it;          // written before `ending`
// This thread has released the GIL. The stable interface of Python does not report this.
thread_local bool without = false;

bool ended_by_this_thread() noexcept { return ending && std::this_thread::get_id() == ends_it; }

// Either the thread is counted before `closed` is seen, and is waited for, or it stays here.
void ask() noexcept {
  ++asking;
  if (!closed || ended_by_this_thread()) return;
  --asking;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

bool interpreter_ends() noexcept { return ending && !ended_by_this_thread(); }

WithoutGil::WithoutGil() {
  ++computing;
  if (interpreter_ends()) {
    --computing;
    throw InterpreterEnds();
  }
  state_ = PyEval_SaveThread();
  without = true;
}

WithoutGil::~WithoutGil() {
  ask();
  PyEval_RestoreThread(state_);
  without = false;
  --asking, --computing;
}

// A thread that Python does not know, such as the thread of a build next to a solve, does not have the GIL either.
WithGil::WithGil() : had_given_back_(without) {
  const bool has_it = !without && PyGILState_GetThisThreadState() != nullptr;
  if (!has_it) ask();
  state_ = PyGILState_Ensure();
  without = false;
  if (!has_it) --asking;
}

WithGil::~WithGil() {
  without = had_given_back_;
  PyGILState_Release(state_);
}

void stop_solves() {
  ends_it = std::this_thread::get_id();
  ending = true;
  PyThreadState* const state = PyEval_SaveThread();
  const auto until = std::chrono::steady_clock::now() + patience;
  while (computing > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(between_looks);
  closed = true;
  while (asking > 0) std::this_thread::sleep_for(between_looks);
  PyEval_RestoreThread(state);
}

void forget_solves() noexcept { computing = 0, asking = 0; }

}  // namespace protean::python
