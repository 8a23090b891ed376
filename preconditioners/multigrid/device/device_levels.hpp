// The setup of smoothed aggregation on a device (aggregation.cpp has the method): the levels are made of arrays in
// device memory, and the host reads a few numbers. Private to preconditioners/.
//
// Aggregates, ranks and patterns are the host's if no coupling is at the limit within rounding, since priorities are
// the same function of the number of a node. Sums are added in an order that depends on the matrix alone, so two setups
// have the same bits. Each step is written once (device_levels_inl.hpp), for a GPU and for the simulated device.
//
// Products of sparse matrices are our own kernels, not cuSPARSE's: cusparseSpGEMM() does not say in which order it
// adds, its workspace grows with the number of all products of entries, and cusparseSpGEMMreuse() keeps one for as long
// as new values may come. Here a row of A B is found in a small hash table, and its values are added in the order of
// the columns of A, as on a host, without device memory besides the result. Nobody has measured which is faster.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "preconditioners/multigrid/level_structure.hpp"
#include "preconditioners/sparse/sparse_work.hpp"

namespace protean::detail {

// The rows of nodes, and vectors at these rows. Without `first` node I has the rows I size .. (I + 1) size - 1; without
// `values` vector k is 1 in row k of each node, else 0.
struct DeviceNodes {
  std::int64_t count = 0, rows = 0, vectors = 0;
  std::int32_t size = 1;
  Buffer<std::int32_t> first, of;
  Buffer<double> values;  // vector k of row i: i vectors + k
  std::size_t bytes() const noexcept { return first.bytes() + of.bytes() + values.bytes(); }
};

// A level while it is made. Row pointers have 4 bytes, columns ascend.
template <class T>
struct DeviceLevel {
  CsrMatrix<T> csr;
  Buffer<T> diagonal;
  Buffer<double> scale;  // the size of the diagonal entries of the finest level that each one is made of
  double largest = 0;    // |a_ij|
};

// What depends on the values of a level only through its strong couplings. Patterns lie in device memory.
struct DeviceStructure final : LevelStructure {
  SparsityPattern strong;  // of nodes
  SparsityPattern near;    // the nodes of the columns of each node; empty if each row is a node
  bool halved = false;     // the strength, since most nodes were coupled with none
  std::int64_t aggregates = 0;
  Buffer<std::int32_t> aggregate;  // of each node; -1: none
  DeviceNodes coarse;
  Buffer<double> tentative;  // column k of the aggregate in row i: i vectors + k
  SparsityPattern P, R, AP, coarse_pattern;
  Buffer<std::int32_t> transposition;  // the entry of P that each entry of R is
  std::size_t bytes(Shared shared) const noexcept override;
};

struct CouplingRules {
  double strength = 0;
  int most_halvings = 0;
  double least_coarsening = 0;
};

// All functions throw OutOfMemory and DeviceError; those that make matrices throw TooManyEntries.
template <class T>
class LevelWork : public SparseWork<T> {
 public:
  // The finest level. Nothing if columns do not ascend (`unsorted`), if an entry is not finite, or if a diagonal entry
  // cannot be divided by and 1 must not take its place: the host has the messages.
  virtual std::optional<DeviceLevel<T>> finest(const CsrMatrix<T>& csr, bool one_for_zero,
                                               bool& unsorted) const = 0;
  // Strong couplings, aggregates and all patterns. `kept` if its couplings are still right; null if the level cannot be
  // coarsened.
  virtual std::shared_ptr<DeviceStructure> structure(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                                                     const CouplingRules& rules,
                                                     const std::shared_ptr<DeviceStructure>& kept) const = 0;
  virtual CsrMatrix<T> prolongator(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                                   const DeviceStructure& structure) const = 0;
  // P^T
  virtual CsrMatrix<T> restriction(const CsrMatrix<T>& P, const DeviceStructure& structure) const = 0;
  // The next level. `bad` is the first of its entries that is not finite, or -1.
  virtual DeviceLevel<T> coarser(const CsrMatrix<T>& csr, const DeviceLevel<T>& level,
                                 const DeviceNodes& nodes, const DeviceStructure& structure,
                                 std::int64_t& bad) const = 0;
  // The inverse of S for l1-jacobi, and the inverse of a small matrix as invert_dense() finds it, row after row. False
  // if a number is too large for T.
  virtual bool l1(const DeviceLevel<T>& level, VectorView<T> inverse) const = 0;
  virtual bool dense(const DeviceLevel<T>& level, VectorView<T> inverse) const = 0;

  // Parts of structure().
  virtual SparsityPattern couplings(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                                    double strength) const = 0;
  virtual std::int64_t aggregate(const SparsityPattern& couplings, Buffer<std::int32_t>& of) const = 0;
};

// The work of the context, which is one of a device or of a simulated one.
template <class T>
std::unique_ptr<LevelWork<T>> level_work(const ContextPtr& context);

}  // namespace protean::detail

// Defined in device_levels.cu. CUDA builds only.
namespace protean::device {

template <class T>
std::unique_ptr<detail::LevelWork<T>> level_work(const ContextPtr& context);

}  // namespace protean::device
