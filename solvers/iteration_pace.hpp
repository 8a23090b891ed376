// How long an iteration of a running solve takes, from when each was told of.
#pragma once
#include <cstdint>
#include <vector>

namespace protean {

// The median of means over a few iterations each, so that neither a hiccup of the machine nor the growing
// cycle of GMRES distorts it. A device tells of iterations in bursts, of which the first waits for all: there
// a mean is of whole bursts.
class IterationPace {
 public:
  explicit IterationPace(bool bursts) : bursts_(bursts) {}
  // One more iteration was told of so many seconds after the one before; whether it counts.
  bool add(double seconds);
  // Begins anew, for another format. Of a burst that is being told what was computed before does not count:
  // the first that does is the one that waits.
  void clear();
  double seconds() const;  // of an iteration; 0 when there is nothing yet

 private:
  void close();

  bool bursts_;
  double wait_ = 0, skipped_ = 0;  // what comes before one as long as wait_ does not count
  std::vector<double> means_;
  double open_ = 0, total_ = 0;  // total_: of what means_ were made of
  std::int64_t open_count_ = 0, count_ = 0;
};

}  // namespace protean
