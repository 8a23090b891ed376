// A sparsity pattern in numbers: for format rules, for `inspect`, and for people.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>
#include <protean/core/row_stretch.hpp>

namespace PROTEAN_EXPORT protean {

// The five features of Mpakos et al., "Feature-based SpMV Performance Analysis on Contemporary Devices"
// (IPDPS 2023), section III-A and Table I. Averages over rows skip empty rows if a row average would be
// 0/0.
struct Features {
  double memory_footprint_mib = 0;  // CSR bytes (values of 8, columns of 4, row pointers of 4) / 2^20
  double mean_row_length = 0;       // nonzeros / rows
  double skew = 0;                  // (longest - mean) / mean
  double cross_row_similarity = 0;  // 0..1: part of a row's entries with a neighbour (column distance <= 1)
                                    // in the next row, averaged over rows that have a next row
  double neighbours = 0;  // 0..2: entries of the same row at column distance 1, averaged over entries
};

struct BlockFill {
  std::int64_t blocks = 0;  // aligned r x r blocks that hold an entry
  double fill = 0;          // r * r * blocks / nonzeros: 1 is perfect
};

struct Statistics {
  std::int64_t rows = 0, cols = 0, nonzeros = 0;
  std::int64_t longest = 0, shortest = 0, empty_rows = 0;
  double mean = 0, deviation = 0;  // of row lengths (population deviation)
  std::int64_t diagonals = 0;      // nonempty diagonals
  std::int64_t lower_bandwidth = 0, upper_bandwidth = 0;
  std::array<BlockFill, 3> block_fill;  // for block sizes 2, 3, 4
  bool structurally_symmetric = false;  // false for rectangular ones
  bool full_diagonal = false;           // every a_ii is stored
  Features features;
};

// One parallel pass over the pattern; O(nonzeros + rows + cols) time, a byte for each row and column of
// workspace, and for each thread 4.4 bytes a column and 4 a row.
Statistics statistics(const Context& context, const SparsityPattern& pattern);

// The features and row lengths of a matrix that is passed in stretches of rows. They equal the results of statistics(),
// except that similarity and span may differ by rounding.
class StreamedFeatures final : public RowReceiver {
 public:
  explicit StreamedFeatures(ContextPtr context) : context_(std::move(context)) {}
  void begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) override;
  void take(const RowStretch& stretch) override;

  // Valid once all rows have been passed.
  Features features() const;
  double mean() const, deviation() const;
  // Distance from the first to the last entry of a row, ends included, as a part of the columns; the mean
  // over the rows that have entries.
  double span() const;

 private:
  struct Sums {
    std::int64_t longest = 0, neighbours = 0, compared = 0, filled = 0;
    double squares = 0, similarity = 0, span = 0;
  };
  ContextPtr context_;
  std::int64_t rows_ = 0, cols_ = 0, nonzeros_ = 0;
  Sums sums_;
  std::vector<std::int32_t> last_row_;
};

// An entry that keeps a matrix from being symmetric: a_ij is stored and a_ji is not, or their values differ in a bit.
struct AsymmetricEntry {
  std::int64_t row = 0, col = 0;
  bool without_mirror = false;
};

// Empty if the matrix equals its transpose, bit for bit (0 and -0 differ). With null `values` only the pattern is
// compared. For square matrices with sorted rows in host memory. Throws BadArgument for another shape. One pass, 4
// bytes a row and thread of workspace.
template <class T>
PROTEAN_EXPORT std::optional<AsymmetricEntry> first_asymmetry(const Context& context,
                                                              const SparsityPattern& pattern,
                                                              const T* values);

// Largest |a_ij - a_ji| / min(s_i, s_j) with s_i = max_k |a_ik|; an entry that is not stored counts as 0. It is 0 for a
// symmetric matrix. Rows of different sizes, such as penalty rows, hide nothing. It is infinity if the matrix is not
// square, if an entry is not finite and differs from its mirrored one, and for a nonzero a_ij if row i or j has no
// nonzero entry. The whole library regards a matrix as symmetric if this is at most symmetry_tolerance: entries that
// differ by rounding, or that rounding has left on only one side, do not make it unsymmetric. One pass, two for entries
// without a mirrored one; 8 bytes a row, and 4 bytes a row and thread of workspace.
template <class T>
PROTEAN_EXPORT double asymmetry(const Context& context, const CsrMatrix<T>& matrix);
// sqrt(eps): 1.5e-8 in double precision, 3.5e-4 in single.
template <class T>
inline constexpr double symmetry_tolerance = sizeof(T) == 8 ? 0x1p-26 : 0x1.6a09e667f3bcdp-12;

// Vectors v of zeros and ones with A v = 0, in each row up to the rounding of its sum. A is singular if there is one,
// and any multiple of v may be added to a solution. Not all null spaces have such vectors, so finding none says
// nothing.
struct NullVectors {
  bool all = false;  // v = (1, 1 .. 1): Neumann problems, graph Laplacians
  // v_i = 1 if a_ii <= 0 or is not stored, for some but not all rows: the pressure of Stokes problems.
  bool without_positive_diagonal = false;
  // v_i = 1 if i % fields == c, for at least one c < fields; 0: no such v. They are displacements of a whole body if
  // the fields of a node lie side by side; 2 and 3 fields are looked for.
  int fields = 0;
  bool any() const noexcept { return all || without_positive_diagonal || fields > 0; }
};
// For square matrices in host memory; no vectors for others. One pass, which ends early if there is none, and one value
// a row.
template <class T>
PROTEAN_EXPORT NullVectors null_vectors(const Context& context, const CsrMatrix<T>& matrix);
// The unknowns at which they are 1: "all unknowns", "the unknowns whose diagonal entry is not positive (...)", "every
// third unknown (...)".
std::vector<std::string> in_words(const NullVectors& vectors);

}  // namespace protean
