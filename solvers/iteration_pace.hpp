// Measures how long an iteration of a running solve takes, from the times at which iterations are reported. Private to
// solvers/.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace protean {

// The median of mean times over a few iterations each. So neither an interruption by the machine nor the
// growing cycle of GMRES distorts it. A device reports iterations in bursts: the first report of a burst
// comes after the whole burst was computed, the others follow at once. There each mean is taken over whole
// bursts.
class IterationPace {
 public:
  explicit IterationPace(bool bursts) : bursts_(bursts) {}
  // Adds an iteration that was reported `seconds` after the one before. Returns whether it is counted.
  bool add(double seconds);
  // Starts again for another format. If a burst is being reported, its remaining iterations were computed in
  // the old format. They are not counted; counting starts with the next iteration that has to be waited for.
  void clear();
  double seconds() const;  // time of one iteration; 0 while nothing is known
  // The lower quartile of the last iterations: what they take while nothing else runs on their processors. A product is
  // shorter and rarely interrupted, so its time can be compared with this one, and not with a mean. With bursts it is
  // seconds().
  double undisturbed() const;

 private:
  void close();

  bool bursts_;
  // Iterations are not counted until one takes wait_ or longer, or until they take 3 wait_ together.
  double wait_ = 0, skipped_ = 0;
  std::vector<double> means_;
  std::array<double, 16> last_{};  // iterations, unless they come in bursts
  std::size_t last_count_ = 0;
  double open_ = 0;   // seconds in the current mean, of open_count_ iterations
  double total_ = 0;  // seconds in all of means_, of count_ iterations
  std::int64_t open_count_ = 0, count_ = 0;
};

}  // namespace protean
