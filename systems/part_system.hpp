// One part of a distributed system: its blocks of the matrix, its preconditioner, its solver and its vectors, in a
// context whose dots are sums over all parts (core/communicator.hpp). All parts make the same calls in the same order:
// each in a thread of one process (DistributedSystem), or each on a rank (apps/ranks). Private.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "distributed/halo.hpp"
#include "distributed/multigrid/part_amg.hpp"
#include "distributed/part_operator.hpp"
#include "preconditioners/preconditioner.hpp"
#include "solvers/solver.hpp"
#include "systems/settings.hpp"

namespace protean::detail {

// A setting that parts do not serve: its name in solve_settings(), "schedule", "parts" or "context", and a sentence
// with what to do instead.
struct Unserved {
  std::string_view setting;
  std::string text;
};
// parts: what the sentence calls them, "device" or "rank".
std::optional<Unserved> unserved_by_parts(const SolveSettings& settings, std::string_view parts);

// The name of the preconditioner: "auto" is jacobi.
std::string_view preconditioner_of_parts(const SolveSettings& settings);

// Whether such a preconditioner is set up by all parts together, for the whole matrix.
bool setup_communicates(std::string_view preconditioner);

template <class T>
class PartSystem {
 public:
  // The blocks lie in host memory, and are used there by a context of the host; a device gets copies. The halo and the
  // source of the exchanges outlive this. of_levels: for the coarser levels of amg. Throws what make_matrix() throws.
  PartSystem(ContextPtr context, const PartHalo& halo, const CsrMatrix<T>& interior,
             const CsrMatrix<T>& boundary, std::unique_ptr<HaloExchange<T>> exchange,
             ExchangeMaker<T> of_levels, const SolveSettings& settings);
  PartSystem(const PartSystem&) = delete;
  PartSystem& operator=(const PartSystem&) = delete;

  // Blocks of the same patterns with new values, in host memory.
  void update_values(const CsrMatrix<T>& interior, const CsrMatrix<T>& boundary);
  // The preconditioner, the solver and the vectors, as far as they are not there or have become old. Communicates for
  // chebyshev and amg only (see setup_communicates()).
  void set_up(std::string_view method, const SolveSettings& settings);
  // What the method keeps is dropped: it may be of different iterations in different parts, or of another method.
  void drop_solver() noexcept { solver_.reset(); }
  // The entries of the part, in host memory. x is unchanged if it throws.
  SolveReport solve(std::span<const T> b, std::span<T> x, SolveObserver* observer);

  const PartOperator<T>& A() const noexcept { return *A_; }
  const Preconditioner<T>* preconditioner() const noexcept { return M_.get(); }
  PartRecord record(std::int64_t device) const;

 private:
  const ContextPtr context_;
  const PartHalo& halo_;
  CsrMatrix<T> given_interior_, given_boundary_;  // in host memory
  CsrMatrix<T> interior_, boundary_;              // in the space of the context
  const ExchangeMaker<T> of_levels_;
  std::unique_ptr<PartOperator<T>> A_;
  std::unique_ptr<Preconditioner<T>> M_;      // null for none
  PartPreconditioner<T>* of_part_ = nullptr;  // M_, if it was set up for the part alone
  std::unique_ptr<Solver<T>> solver_;
  Vector<T> b_, x_;
};

}  // namespace protean::detail
