// A line on the terminal that shows the progress of a solve.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "solvers/solver.hpp"

namespace protean::apps {

// Writes to stderr if that is a terminal. Otherwise no call has an effect.
class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const noexcept { return shown_; }
  void stage(std::string_view text);
  // Draws the line again, at most every 80 ms.
  void iteration(const IterationInfo& info, const StoppingRule& rule);
  // Prints a line that remains, above the line of progress.
  void note(const std::string& text);
  // Removes the line.
  void clear();

 private:
  void draw(const std::string& line);

  bool shown_ = false, utf8_ = false, drawn_ = false;
  double first_ = 0, last_drawn_ = -1;
  // The iteration since which the present rate is measured. It advances with the solve.
  IterationInfo mark_, half_;
};

// "[bar] it 120  residual 1.2e-05 ..." of at most `width` characters. since: an earlier iteration, with which
// rates are computed. target: the relative residual to reach; 0 for none.
std::string progress_line(const IterationInfo& info, const IterationInfo& since, double first_residual,
                          double target, std::int64_t max_iterations, int width, bool utf8);

// "1.2 s", "3 min 20 s", "2 h 05 min"
std::string duration(double seconds);

}  // namespace protean::apps
