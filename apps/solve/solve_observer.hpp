// What the command does between two iterations of a solve.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "apps/command/interrupt.hpp"
#include "apps/report/progress.hpp"
#include "apps/solve/history.hpp"
#include "core/blas1.hpp"
#include "core/io/vector_file.hpp"
#include "core/vector.hpp"
#include "solvers/stopping.hpp"

namespace protean::apps {

// Writes x to output.solution while the solve runs, every that many seconds.
class Checkpoint {
 public:
  Checkpoint(const Context& context, const Vector<double>& x, const std::string& path, double seconds)
      : context_(context), x_(x), path_(path), seconds_(seconds), next_(seconds) {}

  bool due(const IterationInfo& info) const noexcept { return seconds_ > 0 && info.seconds >= next_; }
  // An error is a warning: the solve is worth more than a file.
  void iteration(const IterationInfo& info, Progress& progress) {
    if (!due(info)) return;
    try {
      // Iterations that a GPU has computed ahead may be in it.
      Vector<double> copied(Context::host(1), x_.size());
      copy<double>(context_, x_, copied);
      write_vector(path_, copied,
                   fmt::format("x of A x = b near iteration {} of a solve that goes on", info.iteration));
    } catch (const std::exception& error) {
      progress.clear();
      fmt::print(stderr, "protean: warning: no checkpoint at iteration {}: {}\n", info.iteration,
                 error.what());
    }
    next_ = info.seconds + seconds_;
  }

 private:
  const Context& context_;
  const Vector<double>& x_;
  const std::string& path_;
  double seconds_, next_;
};

// Sees each iteration of the command: history, progress, checkpoint, Ctrl-C.
class Observer final : public SolveObserver {
 public:
  Observer(Progress& progress, const StoppingRule& rule, HistoryFile* history, Checkpoint checkpoint)
      : progress_(progress), rule_(rule), history_(history), checkpoint_(checkpoint) {}
  bool on_iteration(const IterationInfo& info) override {
    if (history_) history_->add(info);
    progress_.iteration(info, rule_);
    checkpoint_.iteration(info, progress_);
    return !InterruptGuard::asked();
  }
  bool reads_solution(const IterationInfo& info) const noexcept override { return checkpoint_.due(info); }

 private:
  Progress& progress_;
  const StoppingRule& rule_;
  HistoryFile* history_;
  Checkpoint checkpoint_;
};

}  // namespace protean::apps
