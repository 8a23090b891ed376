// One line on a terminal that says how a solve is doing.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "solvers/solver.hpp"

namespace protean::apps {

// Writes to stderr, and only when that is a terminal; without one every call does nothing.
class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const noexcept { return shown_; }
  void stage(std::string_view text);
  // Redraws at most every 80 ms.
  void iteration(const IterationInfo& info, const StoppingRule& rule);
  // A line that stays, above the one that is redrawn.
  void note(const std::string& text);
  // Removes the line.
  void clear();

 private:
  void draw(const std::string& line);

  bool shown_ = false, utf8_ = false, drawn_ = false;
  double first_ = 0, last_drawn_ = -1;
  // Where the present rate is measured from; moved on as the solve goes.
  IterationInfo mark_, half_;
};

// "[bar] it 120  residual 1.2e-05 ..." of at most `width` characters. Pure, for tests.
// since: an earlier iteration, from which rates are taken; target: relative residual to reach, 0 for none.
std::string progress_line(const IterationInfo& info, const IterationInfo& since, double first_residual,
                          double target, std::int64_t max_iterations, int width, bool utf8);

// "1.2 s", "3 min 20 s", "2 h 05 min"
std::string duration(double seconds);

}  // namespace protean::apps
