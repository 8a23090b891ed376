// What the triangular solves z := (I + U)^-1 D (I + L)^-1 r of all preconditioners that have them are made of: pattern,
// values and stages; and the Jacobi sweeps that approximate them. The exact ones are in level_solve.hpp and
// device_sweeps.hpp. Private to preconditioners/.
//
// Rows that do not wait for each other form a stage. The rows of a stage are divided among the threads, stages follow
// each other (level scheduling: Anderson and Saad, Int. J. High Speed Comput. 1 (1989) 73). Stages too small for that
// run on the calling thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "core/vector.hpp"

namespace protean::detail {

// The rows in the order of a solve, cut into stages.
class Stages {
 public:
  Stages() = default;
  // stage[i]: the stage of row i, 0 .. count - 1. work(i): entries of row i. natural: solving the rows in the order
  // 0 .. n - 1 (backward: n - 1 .. 0) is right, too; that is what one thread does.
  template <class Work>
  Stages(const ContextPtr& context, const Buffer<std::int32_t>& stage, std::int32_t count, bool natural,
         bool backward, Work work);

  // Calls row(i, part) for all rows; several threads share the rows of a stage, each with another part.
  template <class Row>
  void run(const Context& context, Row row) const;

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(first_.size()) - 1; }
  // The rows stage after stage, and where each stage begins in them; count() + 1 places.
  const Buffer<std::int32_t>& order() const noexcept { return order_; }
  const std::vector<std::int64_t>& first() const noexcept { return first_; }
  // The part of the work that lies in stages which several threads share.
  double parallel_share() const noexcept { return parallel_share_; }
  // Whether run() uses threads other than the calling one: row(i, part) has part 0 otherwise.
  bool parallel(const Context& context) const noexcept;
  std::size_t bytes() const noexcept { return order_.bytes() + first_.size() * sizeof(std::int64_t); }

 private:
  struct Stretch {
    std::int64_t begin, end;  // places in order_
    bool parallel;            // one stage; otherwise any number of stages
  };
  Buffer<std::int32_t> order_;
  std::vector<std::int64_t> first_ = {0};
  std::vector<Stretch> stretches_;
  bool natural_ = false, backward_ = false;
  double parallel_share_ = 0;
};

// Where the entries of L and U are: L row after row, then U from the last row to the first, each row
// from its last column to its first. So both solves of one thread read forwards in memory, and in factors each row ends
// with the entries of the row that was solved just before, whose result is the last to be known.
// Entries of L belong to rows that the forward solve has reached before row i, entries of U to rows that the backward
// solve has.
struct SweepPattern {
  std::int64_t n = 0;
  Buffer<std::int64_t> lower_ptr, upper_ptr;  // n + 1 places each; upper_ptr[0] = lower_ptr[n]
  Buffer<std::int32_t> col;
  Stages forward, backward;
  // Stages are colours: the backward solve has the stages of the forward one from the last to the first, or one stage
  // of all rows if U has no entries. Columns may be on either side of the diagonal.
  bool coloured = false;
  // The places of the entries of row i.
  Range lower(std::int64_t i) const noexcept { return {lower_ptr[i], lower_ptr[i + 1]}; }
  Range upper(std::int64_t i) const noexcept { return {upper_ptr[n - 1 - i], upper_ptr[n - i]}; }
  std::size_t bytes() const noexcept {
    return lower_ptr.bytes() + upper_ptr.bytes() + col.bytes() + forward.bytes() + backward.bytes();
  }
};

// Copies a row of `numbers`, with its columns in ascending order; returns the place after the last one written.
template <class U>
U* copy_row(const U* numbers, const Range& row, bool upper, U* to) {
  return upper ? std::reverse_copy(numbers + row.begin, numbers + row.end, to)
               : std::copy(numbers + row.begin, numbers + row.end, to);
}

// Writes the row pointers of a pattern of n rows with lower(i) and upper(i) entries, and makes room for its columns.
template <class Lower, class Upper>
void set_row_sizes(const ContextPtr& context, SweepPattern& pattern, Lower lower, Upper upper);

// Entries and D in the order of the pattern.
template <class T>
struct SweepValues {
  SweepValues() = default;
  SweepValues(const ContextPtr& context, const SweepPattern& pattern)
      : entries(context, pattern.col.size()), d(context, pattern.n) {}
  Buffer<T> entries, d;
  std::size_t bytes() const noexcept { return entries.bytes() + d.bytes(); }
};

// The stages of a pattern whose L has columns below i and U columns above i: the level of a row is one more than the
// highest level of the rows that it waits for. The stages of the backward solve are made only if they are asked for.
void find_levels(const ContextPtr& context, SweepPattern& pattern, bool backward = true);

// The stages of a pattern by colours 0 .. count - 1 of the rows, L with entries of earlier colours. both: U has
// entries.
void set_colour_stages(const ContextPtr& context, SweepPattern& pattern, const Buffer<std::int32_t>& colour,
                       std::int32_t count, bool both);

// z := (I + U)^-1 D (I + L)^-1 r with `count` Jacobi sweeps (1 or more) in the place of each triangular solve (Anzt,
// Chow and Dongarra, Euro-Par 2015, doi:10.1007/978-3-662-48096-0_50):
//   w := r;      count times w := r - L w;    c := D w
//   z := c;      count times z := c - U z
// So z = S(U) D S(L) r with S(N) = I - N + N^2 - ... + (-N)^count, which is (I + N)^-1 if count is n - 1 or more. It is
// a linear operator that never changes. If U = L^T, S(U) = S(L)^T, since powers and transposes commute, so it is
// symmetric. S(L) is a lower triangle with ones on its diagonal, so it has an inverse: with D > 0 the operator is
// positive definite. cg may use it. That needs the same count for both triangles.
// work_a, work_b: n values each that overlap nothing.
template <class T>
void jacobi_sweeps(const Context& context, const SweepPattern& pattern, const SweepValues<T>& values,
                   std::int64_t count, VectorView<const T> r, VectorView<T> z, T* work_a, T* work_b);

}  // namespace protean::detail

#include "preconditioners/triangular/sweeps_inl.hpp"
