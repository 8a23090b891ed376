// The triangular solves of sweeps.hpp on a host. Private to preconditioners/.
//
// By levels: rows, entries and the vector between both solves lie in the order of the levels, so that a thread reads
// its rows one after another.
//
// Rows of one level do not wait for each other. In factors a row is one level above the highest of the rows that it
// waits for in one solve, or that wait for it in the other. So one order serves both: levels upwards for L, downwards
// for U. Coloured rows have their colour as level. Each row adds its entries in the order of the pattern in the same
// way, so the result has the same bits for any number of threads, and for factors the bits of a solve row after row.
//
//   for each level, upwards:    w[k] := r[row[k]] - sum of l_kj w[j]
//   for each level, downwards:  w[k] := d[k] w[k] - sum of u_kj w[j];  z[row[k]] := w[k]
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/multi_vector.hpp"
#include "preconditioners/triangular/sweeps.hpp"

namespace protean::detail {

// z := (I + U)^-1 D (I + L)^-1 r on the calling thread, row after row.
template <class T>
void solve_in_order(const SweepPattern& pattern, const SweepValues<T>& values, VectorView<const T> r,
                    VectorView<T> z);
// The same for several columns, R and Z in one layout: each entry is read once for up to 8 of them. The bits of a
// column do not depend on the other columns; they may differ from the bits of the solve with one vector.
template <class T>
void solve_in_order(const SweepPattern& pattern, const SweepValues<T>& values, MultiVectorView<const T> R,
                    MultiVectorView<T> Z);

template <class T>
class LevelSolve {
 public:
  // Null if one thread is as good: the context has one, or two and rows are short, or most rows are in levels too
  // small to be shared.
  static std::unique_ptr<LevelSolve> make(const ContextPtr& context, const SweepPattern& pattern);
  // With given levels 0 .. count - 1 of the rows, such as colours: L of a row has lower levels only, U higher ones.
  static std::unique_ptr<LevelSolve> make(const ContextPtr& context, const SweepPattern& pattern,
                                          const Buffer<std::int32_t>& level, std::int32_t count);
  LevelSolve(const LevelSolve&) = delete;
  LevelSolve& operator=(const LevelSolve&) = delete;

  void set_values(const SweepPattern& pattern, const SweepValues<T>& values);
  // z := (I + U)^-1 D (I + L)^-1 r. Callers in several threads wait for each other.
  void solve(VectorView<const T> r, VectorView<T> z) const;
  // For several columns, as solve_in_order() for them. The first call makes room for up to 8 vectors.
  void solve(MultiVectorView<const T> R, MultiVectorView<T> Z) const;
  std::int64_t count() const noexcept { return upwards_.count(); }
  std::size_t bytes() const noexcept {
    return row_.bytes() + lower_.bytes() + upper_.bytes() + col_.bytes() + entries_.bytes() + d_.bytes() +
           w_.bytes() + upwards_.bytes() + downwards_.bytes();
  }

 private:
  LevelSolve(const ContextPtr& context, const SweepPattern& pattern, const Buffer<std::int32_t>& level,
             std::int32_t count);

  ContextPtr context_;
  Buffer<std::int32_t> row_;     // of each place
  Buffer<Range> lower_, upper_;  // the entries of each place
  Buffer<std::int32_t> col_;     // places
  Stages upwards_, downwards_;   // of places
  Buffer<T> entries_, d_;
  mutable std::mutex mutex_;
  mutable Buffer<T> w_;
};

}  // namespace protean::detail
