// Solves with several right-hand sides. Private to solvers/.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "solvers/batches.hpp"
#include "solvers/multi_method.hpp"
#include "solvers/solve_report.hpp"
#include "solvers/steps.hpp"

namespace protean::detail {

// What a solver keeps from one solve to the next.
template <class T>
struct MultiWorkspace : WorkspaceParts<T> {
  MultiWorkspace(MakeMultiMethod<T> make, const SolverOptions& options, const WorkspaceLayout& of,
                 std::int64_t most)
      : WorkspaceParts<T>(of), method(make(options, of, most)), squares(of.context, most) {}
  ~MultiWorkspace() {
    const DeviceScope scope(*method->context());
    batches.reset();
  }
  bool fits(const WorkspaceLayout& of, std::int64_t most) const {
    return this->layout == of && method->most() >= most;
  }
  const std::unique_ptr<MultiMethod<T>> method;
  Vector<T> squares;  // of norms, one for each lane
  Vector<T> ones;     // as many; of a solve that weighs residuals
  std::unique_ptr<Batches<T>> batches;
};

// Throws OutOfMemory if the host has no memory for what a solve keeps of k columns, besides vectors.
template <class T>
void require_memory_of_columns(std::int64_t k);

// Solves the system, whose arguments were checked, with the method of the workspace, which was made for these options.
// rules: one for each column; empty: all have the rule of the options. The null space is one of null_space_of(). Throws
// BadArgument for a guess that is not finite.
template <class T>
MultiSolveReport solve_columns(const SolverOptions& options, const MultiSystem<T>& system,
                               MultiWorkspace<T>& workspace, MultiSolveObserver* observer,
                               std::span<const StoppingRule> rules, const VectorBlock<const T>& null_space);

}  // namespace protean::detail
