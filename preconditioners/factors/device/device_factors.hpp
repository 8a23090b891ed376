// Factors without fill on a device: it computes them itself, stage after stage, or in one kernel whose rows wait for
// each other if there are many stages, and solves with them colour after colour. Private to preconditioners/.
//
// Place k holds row row[k]; the places of a stage follow each other. M = (I + L) D^-1 (I + U) as in sweeps.hpp. The
// entries of L at a place lie from lower[k] to lower[k + 1], entries of U from upper[k] to upper[k + 1], in the order
// in which their columns are eliminated.
//
// A solve with c colours takes 2 c - 2 kernels (2 for c = 2; 1 for c = 1): the first one computes colours 0 and 1,
// since rows of colour 0 have no entries in L, so rows of colour 1 can read r; the last one of the way up multiplies
// by D, too, since the last colour has no entries in U. Each row is summed by a fixed number of lanes, so two solves
// have the same bits.
//
// Memory: a value and 4 bytes for each entry, 20 bytes and a value a row; if it factors, 8 bytes more for each entry
// of L and 4 for each of U, 4 bytes and a value a row, and while it factors the values twice and 4 bytes a row.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "preconditioners/factors/device/device_colours.hpp"
#include "preconditioners/triangular/device_sweeps.hpp"

namespace protean::detail {

// The place in key[begin] .. key[end - 1], which ascend, that has `wanted`; -1 if none has.
PROTEAN_HOST_DEVICE inline std::int64_t find_key(const std::int32_t* key, std::int64_t begin,
                                                 std::int64_t end, std::int32_t wanted) {
  std::int64_t low = begin, high = end;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (key[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low < end && key[low] == wanted ? low : -1;
}

// For entry p of L at place k, whose column lies at place key[p]: the number of the entry of column k in the row of U
// at that place, -1 if there is none.
PROTEAN_HOST_DEVICE inline std::int32_t mirror_of(const std::int32_t* key, const std::int64_t* upper,
                                                  std::int64_t k, std::int64_t p) {
  const std::int64_t other = key[p];
  const std::int64_t at = find_key(key, upper[other], upper[other + 1], static_cast<std::int32_t>(k));
  return at < 0 ? -1 : static_cast<std::int32_t>(at - upper[other]);
}

// What the device found while it factored.
enum FactorTrouble : unsigned {
  entry_not_finite = 1,
  diagonal_unusable = 2,  // zero, missing, or without a finite inverse
  diagonal_negative = 4,
  factor_overflow = 8
};
struct FactorStatus {
  unsigned trouble = 0;
  std::int32_t bad_row = 0;  // the smallest row with a bad pivot; the number of rows if none
  // The bits, as double, of the least size max_j |a_ij| of a row, and of max |a_ij - a_ji|.
  unsigned long long least_row = ~0ull >> 1, largest_difference = 0;
};
struct FactorRules {
  bool symmetric, one_for_zero;
};

// What the row at place k needs of a pivot, entry e of its L: where the row of U of that column begins and ends, the
// entry there in the column of row k (`value`; `mirror`: its number; -1 if there is none), and D.
template <class T>
struct FactorPivot {
  std::int64_t begin = 0;
  std::int32_t size = 0, mirror = -1;
  T value = 0, d = 0;
};

template <class T>
struct FactorView {
  std::int64_t rows = 0;
  const std::int32_t *row = nullptr, *place = nullptr;  // of each place, of each row
  const std::int64_t *lower = nullptr, *upper = nullptr;
  // For each entry its column, and the step in which that column is eliminated.
  const std::int32_t *col = nullptr, *key = nullptr;
  // For entry (i, k) of L the number of (k, i) in row k of U, -1 if that is not stored.
  const std::int32_t* mirror = nullptr;
  T *values = nullptr, *d = nullptr, *diagonal = nullptr;
  bool by_place = false;  // the step of a row is its place; else its number

  PROTEAN_HOST_DEVICE std::int32_t step_of(std::int64_t i) const {
    return by_place ? place[i] : static_cast<std::int32_t>(i);
  }
  PROTEAN_HOST_DEVICE static bool is_finite(T a) { return a - a == T(0); }

  // Copies the entries of the row at place k of a CSR matrix to their places in the factors. diagonal is 0 before.
  // Returns trouble; largest: the largest |a_ij| that it has seen.
  template <class Pointer>
  PROTEAN_HOST_DEVICE unsigned load_row(const Pointer* ptr, const std::int32_t* columns, const T* a,
                                        std::int64_t k, int lane, int lanes, double& largest) const {
    unsigned trouble = 0;
    const std::int64_t i = row[k];
    const std::int32_t own = step_of(i);
    for (std::int64_t p = ptr[i] + lane; p < static_cast<std::int64_t>(ptr[i + 1]); p += lanes) {
      const std::int64_t j = columns[p];
      const T value = a[p];
      if (!is_finite(value)) trouble |= entry_not_finite;
      const double size = value < T(0) ? -static_cast<double>(value) : static_cast<double>(value);
      if (size > largest) largest = size;
      if (j == i) {
        diagonal[i] = value;
        continue;
      }
      const std::int32_t step = step_of(j);
      const std::int64_t at = step < own ? find_key(key, lower[k], lower[k + 1], step)
                                         : find_key(key, upper[k], upper[k + 1], step);
      if (at >= 0) values[at] = value;
    }
    return trouble;
  }

  // max |a_ij - a_ji| over the entries of L at place k, which have their mirrored ones.
  PROTEAN_HOST_DEVICE double difference_of_row(std::int64_t k, int lane, int lanes) const {
    double largest = 0;
    for (std::int64_t p = lower[k] + lane; p < lower[k + 1]; p += lanes) {
      const double difference =
          static_cast<double>(values[p]) - static_cast<double>(values[upper[place[col[p]]] + mirror[p]]);
      const double size = difference < 0 ? -difference : difference;
      if (size > largest) largest = size;
    }
    return largest;
  }

  PROTEAN_HOST_DEVICE FactorPivot<T> pivot_of(std::int64_t p) const {
    const std::int64_t other = place[col[p]];
    FactorPivot<T> found;
    found.begin = upper[other], found.size = static_cast<std::int32_t>(upper[other + 1] - found.begin);
    found.mirror = mirror[p], found.d = d[col[p]];
    if (found.mirror >= 0) found.value = values[found.begin + found.mirror];
    return found;
  }

  // The factors of the row at place k of A + shift diag(A): rows of the stages before are factored. `own` has the
  // entries of the row, as RowInPlace. sync() lets each lane see what the others have written. Returns trouble; good:
  // whether the pivot is. U of a symmetric matrix is still without D.
  template <class Row, class Sync>
  PROTEAN_HOST_DEVICE unsigned factor_row(const FactorRules& rules, std::int64_t k, T shift, T smallest_part,
                                          int lane, int lanes, Row& own, Sync sync, bool& good) const {
    unsigned trouble = 0;
    const std::int64_t i = row[k];
    T on_diagonal = diagonal[i];
    if (!is_finite(on_diagonal) || !is_finite(T(1) / on_diagonal)) {
      if (!rules.one_for_zero) trouble |= diagonal_unusable;
      on_diagonal = 1;
    }
    if (rules.symmetric && on_diagonal < T(0)) trouble |= diagonal_negative;
    T pivot = on_diagonal * (T(1) + shift);
    const auto in_lower = static_cast<std::int32_t>(lower[k + 1] - lower[k]),
               all = in_lower + static_cast<std::int32_t>(upper[k + 1] - upper[k]);
    for (std::int32_t e = 0; e < in_lower; ++e) {
      const FactorPivot<T> other = own.pivot(e);
      T w = own.value(e), l = w * other.d;
      std::int32_t first = 0;
      if (rules.symmetric) {
        w = l = other.value * other.d, first = other.mirror + 1;
        pivot -= l * other.value;
      } else if (other.mirror >= 0) {
        pivot -= w * other.value;
      }
      // L of a symmetric matrix follows from U.
      const std::int32_t from = rules.symmetric ? in_lower : e + 1;
      const std::int64_t begin = other.begin + first, end = other.begin + other.size;
      // The entries of a much longer row are looked up: a dense row would cost as many steps for each row.
      if (end - begin > 32 * std::int64_t{all - from}) {
        for (std::int32_t at = from + lane; at < all; at += lanes)
          if (const std::int64_t q = find_key(key, begin, end, own.key(at)); q >= 0)
            own.value(at) -= w * values[q];
      } else {
        for (std::int64_t q = begin + lane; q < end; q += lanes)
          if (const std::int32_t at = own.find(from, key[q]); at >= 0) own.value(at) -= w * values[q];
      }
      sync();
      if (lane == 0) own.value(e) = l;
    }
    const T size = on_diagonal < T(0) ? -on_diagonal : on_diagonal,
            pivot_size = rules.symmetric || pivot > T(0) ? pivot : -pivot;
    good = pivot_size > smallest_part * size && is_finite(pivot) && is_finite(T(1) / pivot);
    const T inverse = good ? T(1) / pivot : T(1);
    if (!rules.symmetric)
      for (std::int32_t e = in_lower + lane; e < all; e += lanes) own.value(e) *= inverse;
    if (lane == 0) d[i] = inverse;
    return trouble;
  }

  // L := w A D^-1, U := w D^-1 A, D := scale D^-1 of the entries of the row at place k. Returns trouble.
  PROTEAN_HOST_DEVICE unsigned relax_row(const FactorRules& rules, std::int64_t k, T w, T scale, int lane,
                                         int lanes) const {
    unsigned trouble = 0;
    const std::int64_t i = row[k];
    const auto on_diagonal = [&](std::int64_t j) {
      const T a = diagonal[j];
      if (is_finite(a) && is_finite(T(1) / a)) return a;
      if (!rules.one_for_zero) trouble |= diagonal_unusable;
      return T(1);
    };
    const T own = on_diagonal(i);
    for (std::int64_t p = lower[k] + lane; p < lower[k + 1]; p += lanes) {
      values[p] = w * values[p] / on_diagonal(col[p]);
      if (!is_finite(values[p])) trouble |= factor_overflow;
    }
    for (std::int64_t q = upper[k] + lane; q < upper[k + 1]; q += lanes) {
      values[q] = w * values[q] / own;
      if (!is_finite(values[q])) trouble |= factor_overflow;
    }
    if (lane == 0) {
      d[i] = scale / own;
      if (!is_finite(d[i])) trouble |= factor_overflow;
    }
    return trouble;
  }

  // U of a symmetric matrix times D; returns trouble.
  PROTEAN_HOST_DEVICE unsigned finish_row(const FactorRules& rules, std::int64_t k, int lane,
                                          int lanes) const {
    unsigned trouble = 0;
    const T scale = rules.symmetric ? d[row[k]] : T(1);
    for (std::int64_t q = upper[k] + lane; q < upper[k + 1]; q += lanes) {
      if (rules.symmetric) values[q] *= scale;
      if (!is_finite(values[q])) trouble |= factor_overflow;
    }
    for (std::int64_t p = lower[k] + lane; p < lower[k + 1]; p += lanes)
      if (!is_finite(values[p])) trouble |= factor_overflow;
    return trouble;
  }
};

// The entries of the row at place k where they are stored, first of L and then of U.
template <class T>
struct RowInPlace {
  const FactorView<T>& f;
  std::int64_t lower, upper;
  std::int32_t in_lower, in_upper;

  PROTEAN_HOST_DEVICE RowInPlace(const FactorView<T>& factors, std::int64_t k)
      : f(factors),
        lower(f.lower[k]),
        upper(f.upper[k]),
        in_lower(static_cast<std::int32_t>(f.lower[k + 1] - lower)),
        in_upper(static_cast<std::int32_t>(f.upper[k + 1] - upper)) {}
  PROTEAN_HOST_DEVICE FactorPivot<T> pivot(std::int32_t e) const { return f.pivot_of(lower + e); }
  PROTEAN_HOST_DEVICE T& value(std::int32_t e) const {
    return f.values[e < in_lower ? lower + e : upper + e - in_lower];
  }
  PROTEAN_HOST_DEVICE std::int32_t key(std::int32_t e) const {
    return f.key[e < in_lower ? lower + e : upper + e - in_lower];
  }
  // The entry with this key among the entries from number `from` on; -1 if none has it.
  PROTEAN_HOST_DEVICE std::int32_t find(std::int32_t from, std::int32_t key) const {
    std::int64_t at = from < in_lower ? find_key(f.key, lower + from, lower + in_lower, key) : -1;
    if (at >= 0) return static_cast<std::int32_t>(at - lower);
    at = find_key(f.key, upper, upper + in_upper, key);
    return at < 0 ? -1 : in_lower + static_cast<std::int32_t>(at - upper);
  }
};

template <class T>
class DeviceFactors final : public DeviceSweep<T> {
 public:
  // pattern: with its stages, in host memory. factors: whether factor() will be called. Solves need a pattern by
  // colours.
  DeviceFactors(const ContextPtr& device, const SweepPattern& pattern, bool factors);
  // For rows that the device has coloured.
  DeviceFactors(const ContextPtr& device, ColouredRows rows);

  // Values that a host has computed.
  void set_values(const SweepPattern& pattern, const SweepValues<T>& values) override;

  // Factors csr, which lies on the device and has the pattern, with shift diag(A) added. Waits for the device. The
  // factors that were there stay in use until keep(); drop() forgets the new ones.
  FactorStatus factor(const CsrMatrix<T>& csr, const FactorRules& rules, T shift);
  // Instead of factors, the triangles of ssor with relaxation w, and of gauss-seidel: L := w L D^-1, U := w D^-1 U,
  // D := scale D^-1, of the parts of csr. As factor() otherwise.
  FactorStatus relax(const CsrMatrix<T>& csr, bool one_for_zero, T w, T scale);
  void keep();
  void drop() noexcept { next_values_ = Buffer<T>(), next_d_ = Buffer<T>(); }

  void solve(VectorView<const T> r, VectorView<T> z) const override;
  std::size_t bytes() const noexcept override;
  // The arrays of the factors in use; next: of the factors that factor() has left.
  FactorView<T> view(bool next = false) const noexcept;
  int lanes() const noexcept { return factor_lanes_; }
  std::int64_t stages() const noexcept { return static_cast<std::int64_t>(first_.size()) - 1; }
  // Off the diagonal.
  std::int64_t entries() const noexcept { return col_.size(); }
  const ContextPtr& context() const noexcept { return device_; }

 private:
  // Lanes of the kernels, by the entries of L and U before each stage.
  void find_lanes(const std::vector<std::int64_t>& lower_first, const std::vector<std::int64_t>& upper_first);
  // Room for new values.
  void make_room();

  ContextPtr device_;
  std::int64_t rows_;
  bool by_place_;
  std::vector<std::int64_t> first_;  // place of each stage, and the number of rows
  std::vector<int> lower_lanes_, upper_lanes_;
  int factor_lanes_ = 1;
  bool with_upper_;
  Buffer<std::int32_t> row_, place_, col_, key_, mirror_;
  Buffer<std::int64_t> lower_, upper_;
  Buffer<T> values_, d_, diagonal_, next_values_, next_d_;
  Buffer<FactorStatus> status_;
};

}  // namespace protean::detail

// Defined in device_factors.cu. CUDA builds only. Only coloured_pass() heeds the stop of a run.
namespace protean::device {

template <class T>
void load_entries(const Context& context, const detail::FactorView<T>& f, int lanes, const CsrMatrix<T>& csr,
                  detail::FactorStatus* status);
template <class T>
void compare_mirrored(const Context& context, const detail::FactorView<T>& f, int lanes,
                      detail::FactorStatus* status);
// entries: of L and U of all rows.
template <class T>
void factor_stage(const Context& context, const detail::FactorView<T>& f, int lanes, std::int64_t entries,
                  const detail::FactorRules& rules, std::int64_t begin, std::int64_t end, T shift,
                  T smallest_part, detail::FactorStatus* status);
// All rows in one kernel, in which each waits for the rows that it needs. done: workspace, f.rows + 1 numbers.
template <class T>
void factor_all(const Context& context, const detail::FactorView<T>& f, int lanes, std::int64_t entries,
                const detail::FactorRules& rules, T shift, T smallest_part, std::int32_t* done,
                detail::FactorStatus* status);
template <class T>
void finish_factors(const Context& context, const detail::FactorView<T>& f, int lanes,
                    const detail::FactorRules& rules, detail::FactorStatus* status);
template <class T>
void relax_entries(const Context& context, const detail::FactorView<T>& f, int lanes,
                   const detail::FactorRules& rules, T w, T scale, detail::FactorStatus* status);
// For rows i at places begin .. end: z_i := after_i (before_i rhs_i - sum_j t_ij from_j), t the entries from ptr[k] to
// ptr[k + 1]; before and after may be null, for ones.
template <class T>
void coloured_pass(const Context& context, const detail::FactorView<T>& f, const std::int64_t* ptr, int lanes,
                   std::int64_t begin, std::int64_t end, const T* before, const T* after, const T* rhs,
                   const T* from, T* z);

}  // namespace protean::device
