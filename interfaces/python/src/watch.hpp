// What watches a solve for Python: Ctrl-C, the callback, the history of the residuals.
#pragma once
#include <chrono>
#include <exception>

#include "common.hpp"
#include "device_array.hpp"
#include "solvers/multi_solver.hpp"
#include "solvers/solver.hpp"

namespace protean::python {

// When a solve looks for signals of Python: in the main thread Ctrl-C raises KeyboardInterrupt there.
class Signals {
 public:
  // Throws nb::python_error if a handler of a signal has raised, and InterpreterEnds. Called without the GIL, often:
  // it looks every few milliseconds.
  void look();
  // The same, but what is raised goes to `error`, for later. Whether there is one.
  bool raised(std::exception_ptr& error);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds period{10};
  Clock::time_point next_ = Clock::now() + period;
};

// What the callback is called with, and when.
enum class Calls : int {
  none = 0,
  iterate = 1,  // callback(x) after each iteration
  norm = 2,     // callback(||b - A x|| / ||b||) after each iteration
  cycle = 3,    // callback(x) after each cycle of a restarted method
  info =
      4,  // callback(iteration, residual, relative residual, seconds, restarts), also for the initial guess
};

class Watch final : public SolveObserver {
 public:
  // x: the array of the solve, which the callback gets. history: keeps the residuals.
  Watch(nb::object callback, Calls calls, nb::object x, bool history);
  bool on_iteration(const IterationInfo& info) override;
  // An order of the rows keeps its own x, which is copied back if the callback reads x.
  bool reads_solution(const IterationInfo& info) const noexcept override;
  // Whether a signal asks for the end, before the first iteration: it is raised by finish().
  bool asked_to_stop();
  // A GPU computes iterations ahead, but none beyond one whose x the callback gets.
  std::int64_t next_stop() const noexcept override;
  // The arrays of a solve on a GPU, which the callback may read.
  void set_joined(Joined* joined) noexcept { joined_ = joined; }
  // After the solve, with the GIL. The last cycle has ended without a further iteration.
  void finish(const SolveReport& report);
  std::vector<double>& residuals() noexcept { return residuals_; }

 private:
  bool call(const IterationInfo& info);

  nb::object callback_, x_;
  Calls calls_;
  bool history_, cycle_open_ = false;
  std::int64_t restarts_ = 0, seen_ = 0;
  Joined* joined_ = nullptr;
  std::vector<double> residuals_;
  Signals signals_;
  std::exception_ptr error_;
};

class ColumnsWatch final : public MultiSolveObserver {
 public:
  bool on_iteration(const MultiIterationInfo&) override;
  bool asked_to_stop();
  void finish() const;

 private:
  Signals signals_;
  std::exception_ptr error_;
};

}  // namespace protean::python
