#include "watch.hpp"

namespace protean::python {

void Signals::look() {
  if (interpreter_ends()) throw InterpreterEnds();
  if (Clock::now() < next_) return;
  {
    const WithGil gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  next_ = Clock::now() + period;
}

bool Signals::raised(std::exception_ptr& error) {
  try {
    if (!error) look();
  } catch (const nb::python_error&) { error = std::current_exception(); } catch (const InterpreterEnds&) {
    error = std::current_exception();
  }
  return error != nullptr;
}

bool Watch::asked_to_stop() { return signals_.raised(error_); }
bool ColumnsWatch::asked_to_stop() { return signals_.raised(error_); }

Watch::Watch(nb::object callback, Calls calls, nb::object x, bool history)
    : callback_(std::move(callback)),
      x_(std::move(x)),
      calls_(callback_.is_none() ? Calls::none : calls),
      history_(history) {}

bool Watch::reads_solution(const IterationInfo& info) const noexcept {
  return calls_ == Calls::info || (calls_ == Calls::iterate && info.iteration > 0) ||
         (calls_ == Calls::cycle && info.restarts > restarts_);
}

std::int64_t Watch::next_stop() const noexcept {
  const bool reads = calls_ == Calls::info || calls_ == Calls::iterate || calls_ == Calls::cycle;
  return joined_ && reads ? seen_ + 1 : SolveObserver::next_stop();
}

// The solve ends in the ordinary way and x is the iterate, so that an interrupted solve leaves something of use.
bool Watch::on_iteration(const IterationInfo& info) {
  if (history_) residuals_.push_back(info.residual);
  seen_ = info.iteration;
  try {
    if (calls_ != Calls::none) {
      if (joined_) joined_->pause();
      const bool go_on = call(info);
      if (joined_) joined_->resume();
      if (!go_on) return false;
    }
    signals_.look();
  } catch (const nb::python_error&) { error_ = std::current_exception(); } catch (const InterpreterEnds&) {
    error_ = std::current_exception();
  }
  return !error_;
}

bool Watch::call(const IterationInfo& info) {
  if (calls_ != Calls::info && info.iteration == 0) return true;
  if (calls_ == Calls::cycle) {
    cycle_open_ = true;
    if (info.restarts == restarts_) return true;
    restarts_ = info.restarts;
  }
  const WithGil gil;
  if (calls_ == Calls::norm) {
    callback_(info.relative_residual);
  } else if (calls_ == Calls::info) {
    const nb::object answer =
        callback_(info.iteration, info.residual, info.relative_residual, info.seconds, info.restarts);
    return answer.ptr() != Py_False;
  } else {
    callback_(x_);
  }
  return true;
}

void Watch::finish(const SolveReport&) {
  if (error_) std::rethrow_exception(error_);
  if (calls_ == Calls::cycle && cycle_open_) callback_(x_);
}

bool ColumnsWatch::on_iteration(const MultiIterationInfo&) { return !signals_.raised(error_); }
void ColumnsWatch::finish() const {
  if (error_) std::rethrow_exception(error_);
}

}  // namespace protean::python
