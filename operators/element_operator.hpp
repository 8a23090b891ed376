// Element matrices as an operator of their own, never assembled (local matrix approach, LMA):
//
//   y = sum over elements e of  R_e' K_e R_e x,      R_e picks the unknowns of element e
//
// Two elements of three nodes, one component:           connectivity = 0 1 2 | 1 3 2
//
//   0 --- 1      K_0, K_1: 3 x 3                         matrices = K_0 row by row | K_1 row by row
//    \ 0 / \     y_1 = (K_0 x_0)_1 + (K_1 x_1)_0
//      2 --- 3   where x_e is x at the nodes of e
//
// No row pointers and no columns are read, only the connectivity. How the values lie: elements are taken in
// batches of as many as a SIMD register or a warp has lanes, and the n-th entry of all elements of a batch is
// contiguous: values[batch][n][lane], n = i m + j, or n = i (i + 1) / 2 + j with j <= i where only one half
// is stored. The last batch of a group is filled up with zeros. Source: I. Reguly, M. Giles, Efficient sparse
// matrix-vector multiplication on cache-based GPUs, InPar 2012, section 8, doi 10.1109/InPar.2012.6339602.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/operators/linear_operator.hpp>

namespace protean {

namespace detail {
struct ElementPlan;
}

// How the contributions of elements that share an unknown come together.
enum class ElementScatter : unsigned char {
  // Device: atomic. Host: atomic for one thread (nothing is shared then); for several, gather where elements
  // have 16 rows or more, coloured where they are smaller and the results would weigh too much.
  automatic,
  // Added to y as they come: the order of sums is that of the run, so the last bits may differ between runs.
  // On the host only elements at the borders between threads need it; one thread always adds in one order.
  atomic,
  // Elements (on the host: batches of neighbouring elements) in colours, so that no two of one colour share
  // an unknown; colours one after the other. The same bits in every run. On a
  // device slower than gather, since each colour passes over most of x and y, but it needs no room for
  // results.
  coloured,
  // Element results are stored, then each unknown adds its own, elements in order. The same bits in every run
  // and for any number of threads. Needs room for the results; products of several callers at once wait for
  // one another.
  gather
};
std::string_view to_string(ElementScatter scatter) noexcept;

// What becomes of unknowns whose value is given (Dirichlet conditions). Either way no element couples to
// them.
enum class ConstrainedRows : unsigned char {
  keep,      // rows of the identity: y_i = x_i
  eliminate  // left out: the operator has rows only for the free unknowns, in their order
};

// Elements of one kind: the caller's arrays, read while the operator is made or updated and not kept.
template <class T>
struct ElementGroup {
  std::int64_t elements = 0;
  int nodes = 0;                               // of one element
  std::span<const std::int32_t> connectivity;  // elements x nodes: numbers from 0, none twice in an element
  // elements x m x m, row by row, m = nodes * components; unknown c of node a is row a * components + c
  std::span<const T> matrices;
  Space space = Space::host;  // of both arrays. Device memory needs a device context; host memory serves both
};

struct ElementOptions {
  ElementScatter scatter = ElementScatter::automatic;
  int components = 1;  // unknowns a node; unknown c of node k is entry k * components + c of a vector
  // Stores the lower halves only, half of the memory and of the traffic. The matrices are checked: an entry
  // and its mirror may differ by 100 eps times the largest of its element (the lower one is used).
  bool symmetric = false;
  std::span<const std::int64_t> constrained = {};  // unknowns with given values, each once, in any order
  ConstrainedRows constrained_rows = ConstrainedRows::keep;
  // Nodes of no element, none of whose unknowns is constrained, would make the operator singular, so they are
  // refused, unless allowed here; their rows are 0 then.
  bool allow_unused_nodes = false;
};

// y := alpha A x + beta y on element matrices. Square. Any solver takes it; Jacobi asks diagonal(). Values of
// x at constrained unknowns reach their own rows only, also when they are not finite.
template <class T>
class ElementOperator : public LinearOperator<T>, public HasDiagonal<T>, public HasApplyDot<T> {
 public:
  // The assembled matrix, sorted, in host memory (device contexts: in device memory). Entry (r, c) adds the
  // entries of its elements in the order of the groups and of the elements in them, from the first: the same
  // bits in every run, for any number of threads and on both sides. Entries are where some element couples r
  // and c, whether their sum is 0 or not; a constrained row that is kept has one entry, 1; one of an unused
  // node has none. Where `symmetric`, the upper entries are those of the lower half. Throws OutOfMemory where
  // the matrix needs more than most_bytes (0: than what is free), before it is allocated.
  CsrMatrix<T> assemble(std::size_t most_bytes = 0) const;

  // Where the assembled matrix has entries in rows [first, end) of each block, one block after the other,
  // without assembling it: a pattern in host memory with as many columns as the operator. Reads the
  // connectivity once.
  SparsityPattern pattern_of_rows(std::span<const std::pair<std::int64_t, std::int64_t>> blocks) const;

  // bounds[r] += factor (n_r + 2) sum |k|, over the n_r entries k of elements in row r. With factor eps it is
  // the most by which y_r = sum k x_j can be off for |x_j| <= 1, in whatever order it is added, assembled
  // before or not (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, section 3.1).
  virtual void add_rounding_bounds(T factor, VectorView<T> bounds) const = 0;

  // Bytes of all arrays, workspace included.
  virtual std::size_t bytes() const noexcept = 0;

  // New numbers for the same elements; connectivity is not looked at and may be empty. Throws as
  // make_element_operator; nothing has changed then. Allocates nothing on the host. Not safe while another
  // thread applies.
  void update_values(std::span<const ElementGroup<T>> groups);

  // What it was made with; scatter() is never automatic.
  ElementScatter scatter() const noexcept { return scatter_; }
  bool symmetric() const noexcept;
  std::int64_t elements() const noexcept;
  // Entries of the element matrices as given, m x m each.
  std::int64_t entries() const noexcept;
  // The unknown (node * components + component) of each row, when constrained ones were eliminated; else
  // empty: row i is unknown i.
  std::span<const std::int32_t> free_unknowns() const noexcept;
  // For each element, in the order given, its colour and its batch: two elements of one colour that share a
  // node are of one batch. Empty unless coloured.
  struct Coloured {
    std::int32_t colour, batch;
  };
  std::vector<Coloured> colours() const;

  std::string_view name() const noexcept final;  // lma-atomic, lma-coloured, lma-gather
  Revision revision() const noexcept final { return revision_; }
  // Its arrays stay where they are, and new values are written into them.
  Recording recording() const noexcept final { return {true, 1}; }

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

// Throws, naming group and element: ShapeMismatch (arrays whose sizes do not fit elements and nodes),
// BadMatrix (node out of range, node twice in an element, nodes of no element, an entry that is not finite, a
// matrix that is not symmetric), BadArgument (sizes out of range, constrained unknowns out of range or
// named twice), WrongSpace, NotAvailable, OutOfMemory. An element has at most largest_element rows.
template <class T>
std::unique_ptr<ElementOperator<T>> make_element_operator(ContextPtr context, std::int64_t nodes,
                                                          std::span<const ElementGroup<T>> groups,
                                                          const ElementOptions& options = {});

inline constexpr int largest_element = 1024;

}  // namespace protean
