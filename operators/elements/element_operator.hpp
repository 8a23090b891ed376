// Element matrices as an operator that is never assembled (local matrix approach, LMA):
//
//   y = sum over elements e of  R_e' K_e R_e x,      R_e selects the unknowns of element e
//
// Two elements of three nodes, one component:           connectivity = 0 1 2 | 1 3 2
//
//   0 --- 1      K_0, K_1: 3 x 3                         matrices = K_0 row by row | K_1 row by row
//    \ 0 / \     y_1 = (K_0 x_0)_1 + (K_1 x_1)_0
//      2 --- 3   where x_e is x at the nodes of e
//
// A product reads the connectivity instead of row pointers and columns. Order of the values: a batch has as
// many elements as a SIMD register or a warp has lanes, and the n-th entries of all elements of a batch are
// contiguous: values[batch][n][lane] with n = i m + j, or n = i (i + 1) / 2 + j, j <= i, if only the lower
// half is stored. The last batch of a group is padded with zeros. Source: I. Reguly, M. Giles, Efficient
// sparse matrix-vector multiplication on cache-based GPUs, InPar 2012, section 8, doi
// 10.1109/InPar.2012.6339602.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/operators/linear_operator.hpp>
#include <protean/operators/multi_product.hpp>
#include <protean/operators/rows.hpp>
#include <protean/operators/transposed_product.hpp>

namespace PROTEAN_EXPORT protean {

namespace PROTEAN_HIDDEN detail {
struct ElementPlan;
}

// How the contributions of elements that share an unknown are added up.
enum class ElementScatter : unsigned char {
  // On a device atomic. On a host with one thread atomic, which needs no atomic operations then. On a host with several
  // threads gather if elements have 16 rows or more on average; otherwise coloured, because the traffic of the results
  // would be too large.
  automatic,
  // Contributions are added to y by atomic operations. The order of additions differs between runs, so the last bits
  // may differ. On the host only elements at the borders between threads need atomic operations, and one thread always
  // adds in the same order.
  atomic,
  // Elements (on the host: batches of neighbouring elements) are coloured so that no two of one colour share an
  // unknown. The colours are computed one after the other. Every run gives the same bits. On a device it is slower than
  // gather, because each colour reads most of x and y, but it needs no memory for results.
  coloured,
  // The results of all elements are stored; then each unknown adds its contributions in the order of the elements.
  // Every run gives the same bits, with any number of threads. It needs memory for the results, and products of several
  // callers wait for each other.
  gather
};
std::string_view to_string(ElementScatter scatter) noexcept;

// The treatment of unknowns whose value is given (Dirichlet conditions). In both cases the entries of elements in their
// rows and columns are not used.
enum class ConstrainedRows : unsigned char {
  keep,      // rows of the identity: y_i = x_i
  eliminate  // removed: the operator has rows for the free unknowns only, in their order
};

// Elements of one kind. The arrays belong to the caller; they are read while the operator is made or updated,
// and not kept.
template <class T>
struct ElementGroup {
  std::int64_t elements = 0;
  int nodes = 0;  // per element
  // elements x nodes: node numbers from 0, distinct in an element
  std::span<const std::int32_t> connectivity;
  // elements x m x m, row by row, m = nodes * components; unknown c of node a is row a * components + c
  std::span<const T> matrices;
  // The space of both arrays. A device context accepts both spaces, a host context host memory only.
  Space space = Space::host;
};

struct ElementOptions {
  ElementScatter scatter = ElementScatter::automatic;
  int components = 1;  // unknowns per node; unknown c of node k is entry k * components + c of a vector
  // Stores only the lower halves: half of the memory and of the traffic. The matrices are checked: entries
  // (i, j) and (j, i) may differ by 100 eps times the largest entry of the element. The lower one is used.
  bool symmetric = false;
  std::span<const std::int64_t> constrained = {};  // unknowns with given values, distinct, in any order
  ConstrainedRows constrained_rows = ConstrainedRows::keep;
  // A node that belongs to no element and is not constrained makes the operator singular. Such nodes are
  // refused, unless this is true; their rows are 0 then.
  bool allow_unused_nodes = false;
};

// y := alpha A x + beta y with element matrices. A is square. Any solver can use it, and Jacobi uses
// diagonal(). Values of x at constrained unknowns affect their own rows only, even if they are not finite.
template <class T>
class ElementOperator : public LinearOperator<T>,
                        public HasDiagonal<T>,
                        public HasApplyDot<T>,
                        public HasMultiProduct<T>,
                        public HasTransposedProduct<T>,
                        public HasRows<T> {
 public:
  // The assembled matrix, sorted, in the context's space. Entry (r, c) is the sum of the entries of its elements in the
  // order of the groups and of the elements in a group: the same bits in every run, for any number of threads, on host
  // and device. There is an entry if an element couples r and c, even if the sum is 0. A constrained row that is kept
  // has one entry, 1. A row of an unused node has no entry. With `symmetric` the upper half is the mirrored lower half.
  // Throws OutOfMemory before the allocation if the matrix needs more than most_bytes (0: the free memory).
  CsrMatrix<T> assemble(std::size_t most_bytes = 0) const;
  CsrMatrix<T> rows_as_csr() const final { return assemble(); }

  // The pattern of the assembled matrix in rows [first, end) of each block, one block after the other,
  // without assembling it. It is in host memory and has as many columns as the operator. Reads the
  // connectivity once.
  SparsityPattern pattern_of_rows(std::span<const std::pair<std::int64_t, std::int64_t>> blocks) const;

  // bounds[r] += factor (n_r + 2) sum |k|, over the n_r entries k of elements in row r. With factor eps this
  // bounds the rounding error of y_r = sum k x_j for |x_j| <= 1, for any order of additions, assembled or not
  // (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, section 3.1).
  virtual void add_rounding_bounds(T factor, VectorView<T> bounds) const = 0;

  // With gather products go column by column, because the results of all elements are kept for one vector.
  std::string_view no_multi_product() const noexcept final;

  // Bytes of all arrays, including workspace.
  virtual std::size_t bytes() const noexcept = 0;

  // Sets new values for the same elements. connectivity may be empty; else it must be the operator's. Throws what
  // make_element_operator throws; the operator is unchanged then. Allocates nothing on the host. Not safe while another
  // thread computes products.
  void update_values(std::span<const ElementGroup<T>> groups);

  // The options with which it was made; scatter() is never automatic.
  ElementScatter scatter() const noexcept { return scatter_; }
  bool symmetric() const noexcept;
  std::int64_t elements() const noexcept;
  // Number of entries of the element matrices, m x m each.
  std::int64_t entries() const noexcept;
  // The unknown (node * components + component) of each row if constrained unknowns were eliminated.
  // Otherwise empty: row i is unknown i.
  std::span<const std::int32_t> free_unknowns() const noexcept;
  // Colour and batch of each element, in the order of the groups. Two elements of one colour that share a
  // node are in the same batch. Empty unless coloured.
  struct Coloured {
    std::int32_t colour, batch;
  };
  std::vector<Coloured> colours() const;

  std::string_view name() const noexcept final;  // lma-atomic, lma-coloured, lma-gather
  Revision revision() const noexcept final { return revision_; }
  // The addresses of its arrays do not change; new values are written into them.
  Recording recording() const noexcept final { return {true, 1, 0, true}; }

 protected:
  ElementOperator(ContextPtr context, std::shared_ptr<const detail::ElementPlan> plan,
                  ElementScatter scatter);
  virtual void do_update_values(std::span<const ElementGroup<T>> groups) = 0;
  virtual CsrMatrix<T> do_assemble(std::size_t most_bytes) const = 0;
  const detail::ElementPlan& plan() const noexcept { return *plan_; }

 private:
  std::shared_ptr<const detail::ElementPlan> plan_;
  ElementScatter scatter_;
  Revision revision_;
};

// Throws with the group and the element in the message: ShapeMismatch (arrays whose sizes do not fit elements
// and nodes), BadMatrix (node out of range, node twice in an element, nodes of no element, an entry that is
// not finite, a matrix that is not symmetric), BadArgument (sizes out of range, constrained unknowns out of
// range or named twice), WrongSpace, NotAvailable, OutOfMemory. An element has at most largest_element rows.
template <class T>
PROTEAN_EXPORT std::unique_ptr<ElementOperator<T>> make_element_operator(
    ContextPtr context, std::int64_t nodes, std::span<const ElementGroup<T>> groups,
    const ElementOptions& options = {});

inline constexpr int largest_element = 1024;
// The most elements of all groups together.
inline constexpr std::int64_t most_elements = std::numeric_limits<std::int32_t>::max() / 64;

}  // namespace protean
