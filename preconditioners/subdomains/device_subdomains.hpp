// Incomplete factors of subdomains (subdomains.hpp): what one subdomain computes, for hosts, simulated devices and
// kernels, and the kernels. Private to preconditioners/.
//
// On a device a thread block has one subdomain. It copies L, then U to shared memory in whole words and keeps its part
// of the vector there, so that each number of the factors is read once, in order, and no row waits for device memory.
// A barrier separates the rows of a level from the rows of the level before. Levels are used, and not rows that wait
// for the results of others one by one: a barrier of one block costs less than words in shared memory on which all rows
// spin, and a level of few rows needs a single warp, whose barrier costs next to nothing. The columns, row pointers and
// numbers of the next level are loaded while the threads wait.
//
// The factors are computed there, too: a block has L, U and D of its subdomain in shared memory, and adds to the
// diagonal until no pivot is bad, without the host. If rows are long and shared memory has room for it, the lanes of a
// row have a table that says where its entries are; else they search.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "core/multi_vector.hpp"
#include "preconditioners/factors/device/device_factors.hpp"

namespace protean::detail {

// Shift number k: 0, 0.001, 0.002, 0.004 ... up to 10^4.
inline constexpr int most_shifts = 25;
PROTEAN_HOST_DEVICE constexpr double subdomain_shift(int k) {
  double shift = 0;
  for (int i = 0; i < k; ++i) shift = i == 0 ? 1e-3 : 2 * shift;
  return shift;
}

struct SubdomainStatus {
  unsigned trouble = 0;      // FactorTrouble
  int shift = 0;             // the largest number of a shift
  std::int32_t shifted = 0;  // subdomains that have one
  // If every shift fails: the smallest row with a bad pivot, and 2^32 times it plus its subdomain; all bits 1 if there
  // is none.
  unsigned long long broken = ~0ull;
  // The bits, as double, of the least size max_j |a_ij| of a row, and of max |a_ij - a_ji| within subdomains.
  unsigned long long least_row = ~0ull >> 1, largest_difference = 0;
};

// The place in col[begin] .. col[end - 1], which ascend, that has `wanted`; -1 if none has.
template <class Index>
PROTEAN_HOST_DEVICE inline std::int32_t find_place(const Index* col, std::int32_t begin, std::int32_t end,
                                                   std::int32_t wanted) {
  std::int32_t low = begin, high = end;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (static_cast<std::int32_t>(col[middle]) < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low < end && static_cast<std::int32_t>(col[low]) == wanted ? low : -1;
}

// One subdomain: M_s = (I + L) D^-1 (I + U) in the order of its places. Arrays as in Subdomains, from its first one on.
template <class T, class Index>
struct SubdomainRows {
  std::int32_t rows = 0;
  const std::int32_t* row = nullptr;
  const Index* place = nullptr;
  const std::int32_t *lower = nullptr, *upper = nullptr;
  const Index *lower_col = nullptr, *upper_col = nullptr;
  T *l = nullptr, *u = nullptr, *d = nullptr;

  PROTEAN_HOST_DEVICE static bool is_finite(T a) { return a - a == T(0); }
  PROTEAN_HOST_DEVICE std::int32_t global(std::int32_t k) const { return row[k] < 0 ? ~row[k] : row[k]; }

  // The number here of row j of the matrix; -1 if it is not in the subdomain.
  PROTEAN_HOST_DEVICE std::int32_t local(std::int32_t j) const {
    // Mostly they follow each other.
    const std::int64_t guess = std::int64_t{j} - global(0);
    if (guess < 0) return -1;
    if (guess < rows && global(static_cast<std::int32_t>(guess)) == j)
      return static_cast<std::int32_t>(guess);
    std::int32_t low = 0, high = rows;
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      if (global(middle) < j)
        low = middle + 1;
      else
        high = middle;
    }
    return low < rows && global(low) == j ? low : -1;
  }

  // The entries of row number k of a CSR matrix to L, U and, the diagonal, to D. These are 0 before. Returns trouble;
  // largest: the largest |a_ij| that it has seen.
  template <class Pointer>
  PROTEAN_HOST_DEVICE unsigned load_row(const Pointer* ptr, const std::int32_t* columns, const T* a,
                                        std::int32_t k, int lane, int lanes, double& largest) const {
    unsigned trouble = 0;
    const std::int32_t i = global(k), own = static_cast<std::int32_t>(place[k]);
    for (std::int64_t e = ptr[i] + lane; e < static_cast<std::int64_t>(ptr[i + 1]); e += lanes) {
      const std::int32_t j = columns[e];
      const T value = a[e];
      if (!is_finite(value)) trouble |= entry_not_finite;
      const double size = value < T(0) ? -static_cast<double>(value) : static_cast<double>(value);
      if (size > largest) largest = size;
      if (j == i) {
        d[own] = value;
        continue;
      }
      const std::int32_t number = local(j);
      if (number < 0) continue;
      const auto other = static_cast<std::int32_t>(place[number]);
      if (other < own) {
        const std::int32_t at = find_place(lower_col, lower[own], lower[own + 1], other);
        if (at >= 0) l[at] = value;
      } else {
        const std::int32_t at = find_place(upper_col, upper[own], upper[own + 1], other);
        if (at >= 0) u[at] = value;
      }
    }
    return trouble;
  }

  // max |a_ij - a_ji| over the entries of L at place p that have their mirrored ones.
  PROTEAN_HOST_DEVICE double difference_of_row(std::int32_t p, int lane, int lanes) const {
    double largest = 0;
    for (std::int32_t e = lower[p] + lane; e < lower[p + 1]; e += lanes) {
      const auto k = static_cast<std::int32_t>(lower_col[e]);
      const std::int32_t mine = find_place(upper_col, upper[k], upper[k + 1], p);
      if (mine < 0) continue;
      const double difference = static_cast<double>(l[e]) - static_cast<double>(u[mine]);
      const double size = difference < 0 ? -difference : difference;
      if (size > largest) largest = size;
    }
    return largest;
  }

  // The entry of U in the mirrored place of entry e of L at place p; -1 if there is none.
  PROTEAN_HOST_DEVICE std::int32_t mirror(std::int32_t p, std::int32_t e) const {
    const auto k = static_cast<std::int32_t>(lower_col[e]);
    return find_place(upper_col, upper[k], upper[k + 1], p);
  }

  // The factors of the row at place p of A_s + shift diag(A_s): the levels before are factored. mirror_of(e): mirror(),
  // which all lanes ask for one entry of L after another. find(other, after): the value at place `other` of this row,
  // null if there is none; of L behind entry `after`. sync() lets each lane see what the others have written. Returns
  // trouble; good: whether the pivot is. U of a symmetric matrix is still without D.
  template <class Mirror, class Find, class Sync>
  PROTEAN_HOST_DEVICE unsigned factor_row(const FactorRules& rules, std::int32_t p, T shift, T smallest_part,
                                          int lane, int lanes, Mirror mirror_of, Find find, Sync sync,
                                          bool& good) const {
    unsigned trouble = 0;
    T on_diagonal = d[p];
    if (!is_finite(on_diagonal) || !is_finite(T(1) / on_diagonal)) {
      if (!rules.one_for_zero) trouble |= diagonal_unusable;
      on_diagonal = 1;
    }
    if (rules.symmetric && on_diagonal < T(0)) trouble |= diagonal_negative;
    T pivot = on_diagonal * (T(1) + shift);
    for (std::int32_t e = lower[p]; e < lower[p + 1]; ++e) {
      const auto k = static_cast<std::int32_t>(lower_col[e]);
      const std::int32_t mine = mirror_of(e);
      std::int32_t first = upper[k];
      T w = l[e], factor = w * d[k];
      if (rules.symmetric) {
        // Of row k of U, which is still without d_k, so that L and U have the same bits.
        w = factor = u[mine] * d[k], first = mine + 1;
        pivot -= factor * u[mine];
      } else if (mine >= 0) {
        pivot -= w * u[mine];
      }
      for (std::int32_t q = first + lane; q < upper[k + 1]; q += lanes)
        if (T* const at = find(static_cast<std::int32_t>(upper_col[q]), e)) *at -= w * u[q];
      sync();
      if (lane == 0) l[e] = factor;
    }
    const T size = on_diagonal < T(0) ? -on_diagonal : on_diagonal,
            pivot_size = rules.symmetric || pivot > T(0) ? pivot : -pivot;
    good = pivot_size > smallest_part * size && is_finite(pivot) && is_finite(T(1) / pivot);
    const T inverse = good ? T(1) / pivot : T(1);
    if (!rules.symmetric)
      for (std::int32_t q = upper[p] + lane; q < upper[p + 1]; q += lanes) u[q] *= inverse;
    sync();
    if (lane == 0) d[p] = inverse;
    return trouble;
  }

  // U of a symmetric matrix times D; returns trouble.
  PROTEAN_HOST_DEVICE unsigned finish_row(const FactorRules& rules, std::int32_t p, int lane,
                                          int lanes) const {
    unsigned trouble = 0;
    const T scale = rules.symmetric ? d[p] : T(1);
    for (std::int32_t q = upper[p] + lane; q < upper[p + 1]; q += lanes) {
      if (rules.symmetric) u[q] *= scale;
      if (!is_finite(u[q])) trouble |= factor_overflow;
    }
    for (std::int32_t e = lower[p] + lane; e < lower[p + 1]; e += lanes)
      if (!is_finite(l[e])) trouble |= factor_overflow;
    return trouble;
  }
};

// L or U of all subdomains, as in SubdomainTriangle.
template <class T, class Index>
struct SubdomainTriangleView {
  const std::int64_t* first = nullptr;
  const std::int32_t* ptr = nullptr;
  const Index* col = nullptr;
  T* values = nullptr;
};
// All subdomains, as in Subdomains; d: of each place.
template <class T, class Index>
struct SubdomainView {
  std::int64_t count = 0;
  const std::int64_t *first = nullptr, *level_first = nullptr;
  const std::int32_t *row = nullptr, *level = nullptr;
  const Index* place = nullptr;
  SubdomainTriangleView<T, Index> lower, upper;
  T* d = nullptr;

  // Subdomain s where its arrays lie.
  PROTEAN_HOST_DEVICE SubdomainRows<T, Index> of(std::int64_t s) const {
    SubdomainRows<T, Index> one;
    const std::int64_t begin = first[s];
    one.rows = static_cast<std::int32_t>(first[s + 1] - begin);
    one.row = row + begin, one.place = place + begin, one.d = d + begin;
    one.lower = lower.ptr + begin + s, one.upper = upper.ptr + begin + s;
    one.lower_col = lower.col + lower.first[s], one.upper_col = upper.col + upper.first[s];
    one.l = lower.values + lower.first[s], one.u = upper.values + upper.first[s];
    return one;
  }
};

// Sizes that tell how much shared memory a block needs.
struct SubdomainShape {
  std::int64_t rows = 0, lower = 0, upper = 0, levels = 0;  // of one subdomain; entries in whole words
};
PROTEAN_HOST_DEVICE constexpr std::int64_t in_words(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }
// Of a solve with that many columns, and of a factorization, in bytes.
PROTEAN_HOST_DEVICE constexpr std::int64_t shared_for_solve(const SubdomainShape& one, std::int64_t value,
                                                            std::int64_t columns) {
  const std::int64_t entries = one.lower > one.upper ? one.lower : one.upper;
  return in_words(one.rows * columns * value) + entries * value + in_words(2 * entries) +
         in_words(4 * (one.rows + 1)) + in_words(4 * (one.levels + 1));
}
PROTEAN_HOST_DEVICE constexpr std::int64_t shared_for_factors(const SubdomainShape& one, std::int64_t value) {
  return (one.lower + one.upper) * value + in_words(2 * one.lower) + in_words(2 * one.upper) +
         2 * in_words(4 * (one.rows + 1)) + in_words(4 * one.rows) + in_words(2 * one.rows) +
         in_words(one.rows * value) + in_words(4 * (one.levels + 1));
}

// How the kernels divide their threads.
struct SubdomainLaunch {
  int lower_lanes = 1, factor_lanes = 1;       // of a row: 1, 2, 4 or 8; to factor also 16 or 32
  std::int64_t most_columns = 4;               // of a solve: as many as have room
  std::int64_t shared_columns[3] = {0, 0, 0};  // bytes of shared memory of a solve with 1, 2 and 4 columns
  std::int64_t shared_factors = 0;
  std::int64_t most_rows = 0;  // of a subdomain
};

}  // namespace protean::detail

// Defined in device_subdomains.cu. CUDA builds only.
namespace protean::device {

// Must be called before the others, and not while work is recorded.
template <class T>
void prepare_subdomains(const Context& context, const detail::SubdomainLaunch& how);
// Z := alpha M^-1 R + beta Z for rows that are a subdomain's own. With beta == 0 Z is not read. Heeds the stop.
template <class T>
void solve_subdomains(const Context& context, const detail::SubdomainView<T, std::uint16_t>& view,
                      const detail::SubdomainLaunch& how, T alpha, const MultiVectorView<const T>& R, T beta,
                      const MultiVectorView<T>& Z);
// The factors of all subdomains of csr, which lies on the device. Does not heed the stop.
template <class T>
void factor_subdomains(const Context& context, const detail::SubdomainView<T, std::uint16_t>& view,
                       const detail::SubdomainLaunch& how, const CsrMatrix<T>& csr,
                       const detail::FactorRules& rules, T smallest_part, detail::SubdomainStatus* status);

}  // namespace protean::device
