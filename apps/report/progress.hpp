// A line on the terminal that shows the progress of a solve.
#pragma once
#include <chrono>
#include <string>
#include <string_view>

#include "solvers/solver.hpp"

namespace protean::apps {

// How often a line about the iteration is printed. Such a line stays on the terminal. iterations: once in that many
// iterations. seconds: once in that many seconds. If both are 0, no line is printed.
struct Monitor {
  std::int64_t iterations = 0;
  double seconds = 0;
  explicit operator bool() const noexcept { return iterations > 0 || seconds > 0; }
};
// "100": every 100 iterations; "5s": every 5 seconds. Throws BadArgument for other texts. Empty: never.
Monitor monitor_of(const std::string& text);

// Writes to stderr. The line of progress and notes are written only to a terminal. The lines of the monitor are
// written in any case. Without a terminal and a monitor no call has an effect.
class Progress {
 public:
  explicit Progress(bool wanted, Monitor monitor = {});
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const noexcept { return shown_; }
  void stage(std::string_view text);
  // Draws the line again, at most every 80 ms, and prints the lines of the monitor.
  void iteration(const IterationInfo& info, const StoppingRule& rule);
  // Prints a line that remains, above the line of progress.
  void note(const std::string& text);
  // Removes the line.
  void clear();

 private:
  void draw(const std::string& line);
  void print_line(const std::string& text);
  bool monitored(const IterationInfo& info);

  bool shown_ = false, utf8_ = false, drawn_ = false;
  Monitor monitor_;
  double next_line_ = 0;  // the second from which on the monitor prints
  double first_ = 0, last_drawn_ = -1;
  // The iteration since which the present rate is measured. It advances with the solve.
  IterationInfo mark_, half_;
};

// "[bar] it 120  residual 1.2e-05 ..." of at most `width` characters. since: an earlier iteration, with which
// rates are computed. target: the relative residual to reach; 0 for none.
std::string progress_line(const IterationInfo& info, const IterationInfo& since, double first_residual,
                          double target, std::int64_t max_iterations, int width, bool utf8);

// "iteration 120  relative residual 1.234e-05  3.2 s"
std::string monitor_line(const IterationInfo& info);

// "1.2 s", "3 min 20 s", "2 h 05 min"
std::string duration(double seconds);

}  // namespace protean::apps
