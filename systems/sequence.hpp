// What a SystemSolver remembers of its matrix. Private to systems/.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "core/error.hpp"
#include "preconditioners/choice/choice.hpp"
#include "preconditioners/choice/chosen.hpp"
#include "systems/method_change.hpp"
#include "systems/method_choice.hpp"
#include "systems/over_devices.hpp"
#include "systems/preconditioner_change.hpp"
#include "systems/refresh.hpp"
#include "systems/system_solver.hpp"

namespace protean {

// What earlier solves of one matrix took, for the forecasts of later ones and for the preconditioner.
template <class T>
struct SystemSolver<T>::Sequence {
  std::uint64_t matrix = 0;     // SystemMatrix::serial()
  std::int64_t iterations = 0;  // of the last solve that converged
  double all_iterations = 0;    // of all solves
  // Of method auto: what was seen of the matrix, in this operator and with these values.
  std::optional<detail::MethodTraits> traits;
  std::uint64_t seen_serial = 0;
  Revision seen;
  std::optional<detail::MethodChoice>
      learned;               // the method to which an earlier solve of these values has changed
  std::int64_t restart = 0;  // of gmres, if the rule has made it longer
  std::unique_ptr<detail::MethodChanges<T>> methods;  // of the present solve
  // The preconditioner.
  std::uint64_t serial = 0;  // of the operator it was made for
  Revision revision;         // that was seen last
  bool renew = false;        // it must be set up whatever its age is
  detail::RefreshRule refresh;
  detail::PreconditionerChoice choice;                    // of type auto
  detail::Chosen<T>* chosen = nullptr;                    // the preconditioner, if its type is auto
  std::unique_ptr<detail::PreconditionerWatch<T>> watch;  // of the present solve, if auto may change in it
  // The time of a solve: its limit, what its earlier parts have used of it, and why its setup was ended.
  double max_seconds = 0, used_seconds = 0;
  std::int64_t columns = 1;  // right-hand sides of the present solve
  StopReason ended = StopReason::running;
  std::unique_ptr<detail::OverDevices<T>> over_devices;  // with a distribution, for the present settings

  // What solves if the settings have a distribution; null if they have none. Throws BadArgument for what it does not
  // serve.
  detail::OverDevices<T>* devices_of(const SystemSolver& solver) {
    const Distribution& wanted = solver.settings_.distribution;
    if (wanted.contexts.empty()) {
      detail::require_devices_of_partition(wanted);
      return nullptr;
    }
    if (solver.maker_ || solver.null_space_.count > 0)
      throw BadArgument(
          "a preconditioner or a null space of the caller is not served over devices; leave the devices out, or take "
          "a preconditioner by name and null_space constant");
    if (!over_devices) over_devices = std::make_unique<detail::OverDevices<T>>();
    return over_devices.get();
  }
};

}  // namespace protean
