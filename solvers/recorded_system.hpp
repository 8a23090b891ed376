// On what recorded steps depend of the system that they solve. Private to solvers/.
#pragma once
#include <cstdint>

#include "operators/linear_operator.hpp"

namespace protean::detail {

// If it is another one, steps are recorded again. Of a System or a MultiSystem.
template <class T>
struct RecordedSystem {
  std::uint64_t A = 0, M = 0;  // serial numbers; M: of a preconditioner whose work is recorded, else 0
  Recording work, preconditioning;
  const T *diagonal = nullptr, *weights = nullptr;

  RecordedSystem() = default;
  template <class S>
  explicit RecordedSystem(const S& s)
      : A(s.A.serial()),
        M(s.general_preconditioner() ? s.M->serial() : 0),
        work(s.A.recording()),
        preconditioning(M != 0 ? s.M->recording() : Recording{}),
        diagonal(s.d.data),
        weights(s.weights.data) {}

  bool allowed() const noexcept { return work.allowed && preconditioning.allowed; }
  // Whether A and M promise to queue the same work in two solves.
  bool serves_next_solve() const noexcept {
    return work.version != 0 && (M == 0 || preconditioning.version != 0);
  }
  bool operator==(const RecordedSystem&) const = default;
};

}  // namespace protean::detail
