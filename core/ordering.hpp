// Orders of the rows of a matrix.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/permutation.hpp>

namespace PROTEAN_EXPORT protean {

// In all of these functions order[k] is the row at place k. The pattern lies in host memory, except for find_order(),
// which takes it in the space of its context. The result does not depend on the number of threads of a host context.

// Reverse Cuthill-McKee, for square patterns. For an unsymmetric pattern it orders the pattern of A + A^T.
//
// Each connected part begins at a row far from its middle: among the rows that are farthest from the first row of the
// part, the one of lowest degree. This is the first step of George and Liu (Computer Solution of Large Sparse Positive
// Definite Systems, 1981, section 4.3). Their method makes up to five searches. The further ones were tried on 70
// matrices of 1000 rows and more, each in its own numbering and in a random one. They changed the lines of x that a
// product reads by -8 to 8 %, on average by -0.4 %. Neighbours are sorted by increasing degree, and by number if
// degrees are equal, so the result is unique.
//
// The threads share the rows of each level of a search. A level of few rows is searched by one thread. If the first
// part leaves many rows, each thread searches separate small parts. Time: O(nonzeros log longest). Workspace: 21 bytes
// a row; for an unsymmetric pattern another 8 bytes a row and 4 bytes an entry.
//
// known_symmetric: the caller knows that the pattern is symmetric, which saves one pass over it. *bandwidth, unless
// null, is set to bandwidth_of() the pattern in the new order, at no cost. Throws ShapeMismatch.
std::vector<std::int32_t> reverse_cuthill_mckee(const Context& context, const SparsityPattern& pattern,
                                                bool known_symmetric = false,
                                                std::int64_t* bandwidth = nullptr);

// Whether a square pattern equals the pattern of its transpose. One pass without workspace: the sum of a hash of 64
// bits of each entry above the diagonal must equal the sum for the entries below. A pattern that is not symmetric
// passes with a probability of about 2^-64.
bool pattern_is_symmetric(const Context& context, const SparsityPattern& pattern);

// Sorts rows by length, the longest first, within windows of `window` rows (0: one window for all rows). Rows of
// equal length keep their order. Also for rectangular patterns. Throws BadArgument for a negative window.
std::vector<std::int32_t> sort_by_length(const Context& context, const SparsityPattern& pattern,
                                         std::int64_t window = 0);

// Rows that share columns follow each other. Greedy: after a row comes the unplaced row that shares most with it, by
// number if several do; if none shares anything, the first unplaced row. MinHash signatures estimate what two rows
// share (Broder, "On the resemblance and containment of documents", 1997): each row keeps the smallest value of each of
// 4 hashes of its columns, and the part of equal ones estimates |common columns| / |all columns of both|. Candidates
// are the next rows, by number, that have one of the hashes in common, at most 16 for each. Pichel, Singh and Carretero
// have the same aim ("Reordering algorithms for increasing locality on multicore processors", HPCC 2008). Also for
// rectangular patterns. Time O(nonzeros + rows log rows), of which the greedy part takes one thread; workspace 60 bytes
// a row.
std::vector<std::int32_t> cluster_rows(const Context& context, const SparsityPattern& pattern);

// Nested dissection by METIS (Karypis and Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular
// Graphs", SIAM J. Sci. Comput. 20, 1998), for the pattern of A + A^T without its diagonal. One thread; a fixed seed.
// Throws NotAvailable in a build without METIS, ShapeMismatch, OutOfMemory, and BadMatrix for a pattern with more
// entries than METIS can count.
std::vector<std::int32_t> nested_dissection(const Context& context, const SparsityPattern& pattern);

// Largest |place of i - place of j| over the entries (i, j), when row order[k] and column order[k] are at
// place k.
std::int64_t bandwidth_of(const SparsityPattern& pattern, const std::vector<std::int32_t>& order);

// An order that can be asked for by name.
struct OrderingEntry {
  std::string_view id, title;
  std::string_view unavailable;  // why it is not in this build; empty if it is
};
// rcm, length, cluster, metis.
std::span<const OrderingEntry> orderings() noexcept;

// The order with this id. Throws BadArgument for an unknown one (with the nearest name), ShapeMismatch for a pattern
// that is not square, and what the function of this order throws.
std::vector<std::int32_t> make_order(std::string_view id, const Context& context,
                                     const SparsityPattern& pattern);

struct FoundOrder {
  Permutation permutation;
  bool on_device = false;   // a device found it; then the permutation has no arrays in host memory yet
  std::string handed_over;  // for a device context whose order was found on the host: why
};
// make_order() for a pattern in the memory of the context, also of a device. The order is the same in each space.
//
// A GPU finds order rcm by the searches of reverse_cuthill_mckee(), a level of all connected parts at a time. First it
// joins rows into parts. A search that numbers nothing finds where each part begins, by one kernel a level. A second
// search numbers the rows by four kernels a level: each row of the level claims its neighbours for the lowest place
// that asks for them, counts the ones that it got, and puts them to their places by degree and number. The children of
// a part's rows lie together in each level, so a stable sort by the parts ends it. Every 12 to 96 levels the host reads
// how far a search is. The time is about
//   5 (levels of the deepest part) launches + 6 passes over the pattern.
// Workspace on the device: 16 bytes a row, 16 a part of two rows and more, and 8 more a row if there are several parts
// or a row has more than 32 entries; the permutation takes 8 a row.
//
// The host finds other orders from a copy of the pattern (4 bytes an entry and 4 or 8 a row of host memory). It also
// finds rcm if the GPU is a bad place for it:
//   the pattern is not symmetric, or a row is not ascending, or has more than 4096 entries;
//   a search with more than 4096 levels;
//   a search that has found less than 1/64 of the rows after 512 levels.
// `copy`, unless null, is the pattern in host memory, for a caller that has it already. With hand_over false
// NotAvailable is thrown if a GPU finds that order, but not for this pattern.
//
// The context's work is queued on its stream and may still run when this returns. In background work it ends by
// Cancelled within 96 levels. Throws what make_order() throws, WrongSpace, DeviceError, OutOfMemory.
FoundOrder find_order(std::string_view id, const ContextPtr& context, const SparsityPattern& pattern,
                      const SparsityPattern* copy = nullptr, bool hand_over = true);
// The most levels of one search on a GPU.
inline constexpr int most_levels_on_device = 4096;
// About how long a GPU takes to find order rcm of a graph whose search has that many levels, and to permute the matrix.
// Fitted to 13 shuffled matrices of 0.3 to 3 million rows on an H200; their times are 0.8 to 1.2 of the formula
// (docs/results/switching.md). A level takes as long as some small kernels, a row as long as entries read at random.
inline double order_seconds_on_device(double levels, std::int64_t rows) {
  return 1e-3 + 18e-6 * levels + 2.5e-9 * static_cast<double>(rows);
}

}  // namespace protean
