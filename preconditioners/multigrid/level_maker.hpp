// What makes the levels of smoothed aggregation (aggregation.cpp has the method), on a host or on a device. One loop,
// in aggregation.cpp, goes through the levels of both. Private to preconditioners/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "preconditioners/common/makers.hpp"
#include "preconditioners/multigrid/device/device_levels.hpp"
#include "preconditioners/multigrid/host/aggregation_structure.hpp"
#include "preconditioners/multigrid/level_structure.hpp"

namespace protean::detail {

// How often the strength of a level is halved if most nodes are coupled with none.
inline constexpr int most_halvings = 4;
// A level that has more of the rows of the finer one than this is not worth its work.
inline constexpr double least_coarsening = 0.8;

// Vectors near the null space of A: vector k of row i is values[i vectors + k]. Without values: the constants of the
// unknowns.
struct NearNullSpace {
  std::int64_t vectors = 0;
  std::vector<double> values;
  std::vector<std::int32_t> first = {};  // rows of nodes as in Nodes; empty: option unknowns says it
};

// Between a level and the next one.
template <class T>
struct Transfer {
  CsrMatrix<T> P, R;     // R = P^T
  std::optional<T> bad;  // an entry of the next matrix that is not finite
};

// Stands at one level, at first the finest.
template <class T>
class LevelMaker {
 public:
  virtual ~LevelMaker() = default;
  virtual const CsrMatrix<T>& matrix() const = 0;
  // The inverse of the matrix, row after row, and the inverse of S for l1-jacobi, in the memory of this maker. Both
  // throw BadMatrix if a number is too large for T.
  virtual Vector<T> dense() = 0;
  virtual Vector<T> l1() = 0;
  // Strong couplings and aggregates. `kept` if its couplings are still right; null if the level cannot be coarsened.
  virtual std::shared_ptr<LevelStructure> structure(double strength,
                                                    const std::shared_ptr<LevelStructure>& kept) = 0;
  // Goes to the next level, by the last structure().
  virtual Transfer<T> coarsen() = 0;
};

// nodes: of the finest level; made if it is empty, and kept by the caller, who keeps A, too. Throws BadMatrix if the
// entries of A cannot be used.
template <class T>
std::unique_ptr<LevelMaker<T>> host_level_maker(const LinearOperator<T>& A, const ContextPtr& host,
                                                const PreconditionerOptions& options,
                                                const NearNullSpace& finest, Nodes& nodes);
// The same in the memory of the device of A. Null if the host has to make the levels, with the figure that says why.
// What it makes may throw TooManyEntries.
template <class T>
std::unique_ptr<LevelMaker<T>> device_level_maker(const LinearOperator<T>& A,
                                                  const PreconditionerOptions& options,
                                                  const NearNullSpace& finest, DeviceNodes& nodes,
                                                  std::string_view& why);

// amg by smoothed aggregation (aggregation.cpp).
template <class T>
MadePreconditioner<T> make_smoothed_aggregation(const LinearOperator<T>& A,
                                                const PreconditionerOptions& options, NearNullSpace finest);

}  // namespace protean::detail
