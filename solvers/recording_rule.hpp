// When the steps of a solve on a device are worth a CUDA graph. The rule counts steps and reads no clock, so all parts
// of a system decide alike, and so does a second run. Private to solvers/.
#pragma once
#include <algorithm>
#include <cstdint>

namespace protean::detail {

// Reckoned, not measured: a recording costs some ten times what a replay of it saves next to launches. So after this
// many graphs of steps a solve that goes on for ever has lost less than half of a recording, and a solve that ends
// before has not paid one at all.
constexpr std::int64_t recordings_worth = 4;

class RecordingRule {
 public:
  // at_once: the caller asks for graphs. before: steps of the solve before, which say how long this one may become.
  void begin_solve(bool at_once, std::int64_t before) noexcept {
    at_once_ = at_once, before_ = before, queued_ = 0, records_ = false;
  }
  void queued(std::int64_t steps) noexcept { queued_ += steps; }
  bool at_once() const noexcept { return at_once_; }
  // A solve that has recorded once is long: after a change of the matrix it records again at once.
  void recorded() noexcept { records_ = true; }

  // Whether the next steps are to be a graph of so many steps. recorded: it is there. Even a recorded graph is no gain
  // for a solve that ends within it, because all its kernels run, and those of the graph ahead.
  bool graph_pays(std::int64_t steps, bool recorded) const noexcept {
    const std::int64_t expected = std::max(before_, queued_);
    return at_once_ || records_ || expected >= (recorded ? 1 : recordings_worth) * steps;
  }

  // How many steps to queue together without a graph, of a method at this phase of its period, with `left` steps before
  // the limit. Up to the begin of a period, if that is near, since a graph can begin there only. Two steps keep the
  // device busy while the host reads the verdicts of the two before; more would run in vain after the end.
  static std::int64_t piece(std::int64_t phase, std::int64_t period, std::int64_t left) noexcept {
    constexpr std::int64_t usual = 2;
    const std::int64_t room = period - phase;
    const std::int64_t steps = room > usual ? usual : room + (usual - room) / period * period;
    return std::max<std::int64_t>(std::min(steps, left), 1);
  }

 private:
  bool at_once_ = false, records_ = false;
  std::int64_t before_ = 0, queued_ = 0;
};

}  // namespace protean::detail
