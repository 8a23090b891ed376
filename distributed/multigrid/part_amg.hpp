// amg for a matrix whose rows several parts have: smoothed aggregation over all parts. Private.
#pragma once
#include <functional>
#include <memory>

#include "core/context.hpp"
#include "core/csr.hpp"
#include "distributed/halo.hpp"
#include "distributed/halo_exchange.hpp"
#include "distributed/part_operator.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// Makes the exchange of a halo that outlives it. Collective.
template <class T>
using ExchangeMaker = std::function<std::unique_ptr<HaloExchange<T>>(const PartHalo&)>;

// What the operator of a part was made of. blocks: its present ones, in host memory.
template <class T>
struct PartSource {
  const PartHalo& halo;
  std::function<const CsrMatrix<T>&()> interior, boundary;
  ExchangeMaker<T> exchange;
};

// host: whose threads make the levels. A level with at most this many rows lies whole in each part, except the finest
// one.
inline constexpr std::int64_t most_replicated_rows = 5000;

// All calls of ensure() and apply() are collective. Throws BadArgument for setup classical, for smoother gauss-seidel,
// and if the rows of a node lie in several parts.
template <class T>
std::unique_ptr<Preconditioner<T>> make_part_amg(const PartOperator<T>& A,
                                                 const PreconditionerOptions& options, ContextPtr host,
                                                 PartSource<T> source,
                                                 std::int64_t replicated_rows = most_replicated_rows);

}  // namespace protean::detail
