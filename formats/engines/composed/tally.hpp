// Counts of a matrix from which a plan is made before anything is cut: clSpMV's histograms (Su and Keutzer, ICS 2012,
// section 3.3). One pass over the entries each: entries of each diagonal; for a size of blocks, all blocks and dense
// blocks of each row of blocks; entries of each row, of the matrix or of what such parts leave of it.
//
//   | 1 2 . 3 |     lengths of rows        3 2 2 0
//   | . 4 5 . |     diagonals              -2: 1, 0: 3, 1: 2, 3: 1
//   | 6 . 7 . |     2 x 2, dense from 3    all 2 2, dense 1 0; left by them: lengths 1 1 2 0
//   | . . . . |
//
// The counts lie in the memory of the matrix; single numbers and short lists come to the host, which waits for them.
// This is what host and device share; tally.cpp is the host side, tally.cu the device side. Private to formats/.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/engines/blocks/blocks.hpp"
#include "formats/engines/composed/cut.hpp"

namespace protean::formats {

// Statistics of the lengths of some rows, or of the numbers of blocks of rows of blocks.
struct LengthSums {
  std::int64_t rows = 0, entries = 0, longest = 0;
  std::int64_t filled = 0;   // rows that are not empty
  std::int64_t changes = 0;  // rows that are not as long as the row before
  std::int64_t slots = 0;    // of slices, each as wide as its longest row
  std::int64_t last = 0;     // the width of the last slice, which may have fewer rows
};

// The lengths of all rows of a part.
class Lengths {
 public:
  virtual ~Lengths() = default;
  virtual LengthSums sums(std::int64_t slice) const = 0;
  // rows[l]: rows of length l, for l = 0 .. most; rows[most + 1]: longer ones.
  virtual std::vector<std::int64_t> histogram(std::int64_t most) const = 0;
  // The entries that rule `width` takes, and the entries that it leaves: it takes the first `width` entries of each
  // row, or with min_fill the width of each slice of 32 rows (slice_width()).
  struct Two {
    std::unique_ptr<Lengths> taken, left;
  };
  virtual Two by_width(std::int64_t width) const = 0;
  virtual Two by_slices(std::int64_t min_fill) const = 0;
};
constexpr std::int64_t tally_slice = 32;

// The entries of each diagonal.
class DiagonalTally {
 public:
  virtual ~DiagonalTally() = default;
  // Those with more than that many percent of their places filled, ascending; 0: with an entry. Empty if there are
  // more than most_diagonals: such a part would be no part of diagonals.
  virtual std::vector<std::int32_t> above(std::int64_t percent) const = 0;
  virtual std::int64_t entries(std::span<const std::int32_t> offsets) const = 0;
  static constexpr std::int64_t most_diagonals = 4096;
};

// A pass over the blocks of a size. Entries on the diagonals `before` are not there for it, entries on `after` are
// taken from what it leaves.
struct BlockPass {
  BlockShape shape{};
  std::int64_t min_fill = 100;  // percent from which a block is dense; above 100: none is
  std::span<const std::int32_t> before = {}, after = {};
  bool diagonals = false;  // count the diagonals of what dense blocks leave
};
struct BlockTally {
  std::unique_ptr<Lengths> all, dense;  // blocks of each row of blocks
  std::unique_ptr<Lengths> left;  // rows without the entries of dense blocks, and of `before` and `after`
  std::int64_t dense_entries = 0;
  std::unique_ptr<DiagonalTally> diagonals;
};

class Tally {
 public:
  virtual ~Tally() = default;
  virtual std::unique_ptr<Lengths> rows() const = 0;
  // Rows without their entries on these diagonals.
  virtual std::unique_ptr<Lengths> rows_without(std::span<const std::int32_t> diagonals) const = 0;
  virtual std::unique_ptr<DiagonalTally> diagonals() const = 0;
  virtual BlockTally blocks(const BlockPass& pass) const = 0;
  // False if a sample of the rows has so much fill with blocks of this size, and so few entries in dense ones, that
  // a pass would find nothing of use. A matrix of few rows is not sampled, nor one on a device.
  virtual bool may_have_blocks(const BlockShape&, std::int64_t /* min_fill */) const { return true; }
  // u max nnz(i) / n of clSpMV: how many times its share of the entries the most loaded of the u workers of csr has, at
  // least. The workers are the threads of a host and the multiprocessors of a GPU. csr cuts a row from some length on.
  virtual double imbalance(const LengthSums& rows) const = 0;
};
std::unique_ptr<Tally> host_tally(const Context& context, const SparsityPattern& pattern);
std::unique_ptr<Tally> device_tally(const Context& context,
                                    const SparsityPattern& pattern);  // in builds with CUDA

}  // namespace protean::formats
