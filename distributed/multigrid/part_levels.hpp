// The levels of smoothed aggregation of a matrix whose rows several parts have (preconditioners/multigrid/
// aggregation.cpp has the method), made by the threads of the hosts:
//   Couplings     as on one device: each part knows the rows of its ghosts.
//   Aggregates    lie within a part. A node that is coupled with nodes of other parts only is an aggregate.
//   P             as on one device, T included: rows of a part have columns of their own aggregates and of ghosts'.
//   P^T A P       added up in the order of the parts.
// All calls are collective. Private.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/communicator.hpp"
#include "core/csr.hpp"
#include "core/vector.hpp"
#include "distributed/halo.hpp"
#include "distributed/part_rows.hpp"
#include "preconditioners/multigrid/host/aggregation_structure.hpp"
#include "preconditioners/multigrid/level_maker.hpp"
#include "preconditioners/preconditioner_options.hpp"

namespace protean::detail {

// A matrix whose rows and columns are distributed.
template <class T>
struct PartMatrix {
  std::unique_ptr<PartHalo> halo;
  TwoBlocks<T> blocks;  // in host memory
  std::int64_t nonzeros() const noexcept { return halo->interior_entries + halo->boundary_entries; }
};

// A level as all parts together have it.
template <class T>
struct WholeLevel {
  CsrMatrix<T> csr;
  NearNullSpace nodes;
  std::int64_t unknowns = 1;  // of each node, unless nodes.first says them
};

// Stands at one level, at first the finest.
template <class T>
class PartLevels {
 public:
  // rows: of this part, whose columns are places; nodes: of these rows, which lie whole in this part. Throws BadMatrix
  // if the entries cannot be used.
  PartLevels(Communicator& all, ContextPtr host, const PreconditionerOptions& options,
             std::vector<std::int64_t> begins, PartRows<T> rows, const PartHalo& halo, Nodes nodes);

  // Rows of this part, and of all.
  std::int64_t rows() const noexcept { return own_.rows(); }
  std::int64_t all_rows() const noexcept { return begins_.back(); }
  std::int64_t first_row() const noexcept { return begins_[static_cast<std::size_t>(all_.part())]; }
  std::int64_t nonzeros() const noexcept { return own_.nonzeros(); }
  std::span<const std::int64_t> begins() const noexcept { return begins_; }
  // The inverse of S for l1-jacobi.
  Vector<T> l1() const;
  WholeLevel<T> whole() const;

  struct Step {
    PartMatrix<T> P, R, A;  // A: of the next level
  };
  // Goes to the next level. None if this one cannot be coarsened; then it stays. Throws BadMatrix for numbers that are
  // too large.
  std::optional<Step> coarsen(double strength);

 private:
  void import_ghosts();
  // Null if the level cannot be coarsened. Of the nodes of this part.
  std::shared_ptr<Structure> structure(double strength) const;
  // x[rows()] ...: the entries of the ghosts.
  void fill(std::vector<double>& x) const;
  // T and the coarse columns of the ghosts.
  struct Ends;
  Ends with_ghosts(const Structure& own, std::span<const std::int64_t> coarse_begins) const;
  PartMatrix<T> distributed(const PartRows<T>& rows, std::span<const std::int64_t> begins) const;

  Communicator& all_;
  const ContextPtr host_;
  const PreconditionerOptions& options_;
  std::vector<std::int64_t> begins_;
  PartRows<T> given_;
  Nodes nodes_;
  Vector<T> diagonal_;
  std::vector<double> scale_;
  // The rows and the nodes of the ghosts: all rows of each node that a row of this part needs, in the order of their
  // places. sent_: the same nodes of this part, for each other part.
  std::vector<std::vector<std::int32_t>> sent_;
  std::vector<std::int32_t> ghosts_;       // places
  std::vector<std::int32_t> ghost_first_;  // rows of their nodes, as in Nodes
  CsrMatrix<T> with_ghosts_;               // rows of this part, then of the ghosts; columns in the same order
  CsrMatrix<T> own_;                       // its first rows
  mutable Graph strong_;                   // of with_ghosts_, by the last structure()
};

}  // namespace protean::detail
