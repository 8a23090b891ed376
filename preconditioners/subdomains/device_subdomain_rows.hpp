// Subdomains of rows that follow each other, of a matrix that lies on a device, found there. Private to
// preconditioners/.
//
// They are the subdomains of make_subdomains() with partition order and without overlap, in the same arrays with the
// same bits; the rules by which a size is chosen are here for both. Three passes over the entries:
//   inspect  Looks at all entries for what the host must go on with, compares mirrored ones if the matrix must be
//            symmetric, and counts entries within the subdomains of each size that may be chosen. So few numbers come
//            back to the host, which leaves out sizes that have no room.
//   order    A thread block for each subdomain finds levels, places and the lengths of L and U. Only then is it known
//            how many levels a size leads to, and whether it has room; in rare cases the next size follows.
//   fill     L and U.
//
// Levels: round k of a block finds the rows of level k: all coupled rows before them have a level. A row knows how many
// rows before it have an entry in its column and no level; this number counts down. If each entry within the subdomain
// has its mirrored one, this is enough, and only rows that are ready have work in a round. Else all rows also look up
// the columns of their own entries, one after another, until one has no level.
//
// Workspace: 16 bytes for each subdomain of each size, and 4 bytes for each row and subdomain.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "preconditioners/factors/factorization.hpp"
#include "preconditioners/subdomains/device_subdomains.hpp"

namespace protean::detail {

// The arrays of Subdomains in the space of a context.
template <class Index>
struct SubdomainArrays {
  Buffer<std::int64_t> first, level_first, lower_first, upper_first;
  Buffer<std::int32_t> row, level, lower_ptr, upper_ptr;
  Buffer<Index> place, lower_col, upper_col;

  std::size_t bytes() const noexcept {
    return first.bytes() + level_first.bytes() + lower_first.bytes() + upper_first.bytes() + row.bytes() +
           level.bytes() + lower_ptr.bytes() + upper_ptr.bytes() + place.bytes() + lower_col.bytes() +
           upper_col.bytes();
  }
};

// What remains of Subdomains besides their arrays. places, lower, upper: the lengths of `row` and of both `col`.
struct KnownSubdomains {
  std::int64_t count = 0, size = 0, entries = 0, levels = 0, most_rows = 0, places = 0, lower = 0, upper = 0;
  SubdomainLaunch launch;
};

// Bytes of shared memory that a thread block needs, the most of all subdomains.
struct SubdomainNeeds {
  std::int64_t columns[3] = {0, 0, 0}, factors = 0;  // as in SubdomainLaunch

  PROTEAN_HOST_DEVICE void add(const SubdomainShape& one, std::int64_t value) {
    for (int k = 0; k < 3; ++k) keep_most(columns[k], shared_for_solve(one, value, std::int64_t{1} << k));
    keep_most(factors, shared_for_factors(one, value));
  }
  // two: a processor shall have room for two solves.
  bool have_room(std::int64_t shared, bool two) const noexcept {
    return std::max(factors, columns[0]) <= shared && (!two || 2 * columns[0] <= shared);
  }
  PROTEAN_HOST_DEVICE static void keep_most(std::int64_t& most, std::int64_t value) {
    if (value > most) most = value;
  }
};
// known: without its launch.
SubdomainLaunch subdomain_launch(const KnownSubdomains& known, const SubdomainNeeds& needs,
                                 std::int64_t shared);

struct SubdomainsThere {
  KnownSubdomains known;
  SubdomainArrays<std::uint16_t> arrays;
};
// Subdomains of the first size that has room by have_room(), with `two` for all sizes except the last one; sizes fall.
// shared: bytes of a thread block. Nothing if the host must find them or refuse the matrix: entries that are not
// finite, columns that do not ascend strictly, no rows, no room, or a matrix that must be symmetric and does not show
// it. Waits for the device; csr lies there.
template <class T>
std::optional<SubdomainsThere> subdomains_on_device(const ContextPtr& device, const CsrMatrix<T>& csr,
                                                    const std::vector<std::int64_t>& sizes,
                                                    const FactorTask& task, std::int64_t shared);

// Adds to *to and returns what it was.
PROTEAN_HOST_DEVICE inline std::int32_t add_together(std::int32_t* to, std::int32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(to, value);
#else
  const std::int32_t before = *to;
  *to += value;
  return before;
#endif
}

// The sizes that may be chosen.
struct SubdomainSizes {
  static constexpr int most = 6;
  int count = 0;
  bool whole_warps = true;  // all are multiples of 32
  std::int32_t size[most] = {};
  // Subdomains of each size, and where their counts begin: of L and U, one pair after another.
  std::int64_t subdomains[most] = {}, first[most] = {};
};
// The subdomain of a row for each size: rows begin .. end - 1. For numbers of no size there are no other rows in it.
struct SubdomainBorders {
  std::int32_t begin[SubdomainSizes::most], end[SubdomainSizes::most];
};
PROTEAN_HOST_DEVICE inline SubdomainBorders borders_of(const SubdomainSizes& sizes, std::int32_t i,
                                                       std::int32_t n) {
  SubdomainBorders made;
  for (int k = 0; k < SubdomainSizes::most; ++k) {
    made.begin[k] = k < sizes.count ? i - i % sizes.size[k] : n;
    made.end[k] = k >= sizes.count                    ? 0
                  : sizes.size[k] < n - made.begin[k] ? made.begin[k] + sizes.size[k]
                                                      : n;
  }
  return made;
}

// What a pass over the entries finds.
enum RowsTrouble : unsigned { rows_not_finite = 1, rows_not_ascending = 2, rows_not_mirrored = 4 };
struct RowsFound {
  unsigned trouble = 0;
  double largest = 0, difference = 0;  // max |a_ij| since it was 0 last, max |a_ij - a_ji|
  double least_row = 0x1p1023;         // the least of `largest` that a row has left; kept by the caller
  std::int64_t above = 0;              // entries above the diagonal less those below it
  // Entries of L and U within the subdomain, for each size.
  std::int32_t lower[SubdomainSizes::most] = {}, upper[SubdomainSizes::most] = {};
};
// The same for all rows. Doubles by their bits; numbers of sizes as in SubdomainSizes.
struct SubdomainInspection {
  std::uint64_t trouble = 0, least_row = ~std::uint64_t{0} >> 1, difference = 0, above = 0;
  std::int64_t entries[SubdomainSizes::most] = {};  // within subdomains
  std::int64_t most[SubdomainSizes::most] = {};     // within one
  SubdomainNeeds needs[SubdomainSizes::most];       // with one level
};

// The entries of row i that belong to the subdomain of rows begin .. end - 1: of L from lower to lower_end - 1, of U
// from upper to upper_end - 1.
struct RowWithin {
  std::int64_t lower, lower_end, upper, upper_end;
};

template <class Pointer>
struct InspectedRows {
  std::int32_t n = 0;
  const Pointer* ptr = nullptr;
  const std::int32_t* columns = nullptr;  // ascending, except in inspect()

  // The first of the entries begin .. end - 1 of a row with a column from `wanted` on; `end` if there is none.
  PROTEAN_HOST_DEVICE std::int64_t first_from(std::int64_t begin, std::int64_t end,
                                              std::int32_t wanted) const {
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      if (columns[middle] < wanted)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }
  PROTEAN_HOST_DEVICE RowWithin within(std::int32_t i, std::int32_t begin, std::int32_t end) const {
    const std::int64_t last = ptr[i + 1];
    RowWithin found;
    found.lower = first_from(ptr[i], last, begin);
    found.lower_end = first_from(found.lower, last, i);
    found.upper =
        found.lower_end < last && columns[found.lower_end] == i ? found.lower_end + 1 : found.lower_end;
    found.upper_end = end < n ? first_from(found.upper, last, end) : last;
    return found;
  }

  // Adds what is found in row i.
  template <class T>
  PROTEAN_HOST_DEVICE void inspect(std::int32_t i, const T* a, bool symmetric,
                                   const SubdomainBorders& borders, int lane, int lanes,
                                   RowsFound& found) const {
    const std::int64_t first = ptr[i], last = ptr[i + 1];
    for (std::int64_t e = first + lane; e < last; e += lanes) {
      const std::int32_t j = columns[e];
      const T value = a[e];
      if (e > first && columns[e - 1] >= j) found.trouble |= rows_not_ascending;
      if (!(value - value == T(0))) found.trouble |= rows_not_finite;
      if (j < i) {
        for (int k = 0; k < SubdomainSizes::most; ++k) found.lower[k] += j >= borders.begin[k] ? 1 : 0;
      } else if (j > i) {
        for (int k = 0; k < SubdomainSizes::most; ++k) found.upper[k] += j < borders.end[k] ? 1 : 0;
      }
      if (!symmetric) continue;
      const auto wide = static_cast<double>(value);
      if (const double size = wide < 0 ? -wide : wide; size > found.largest) found.largest = size;
      if (j < i) --found.above;
      if (j <= i) continue;
      ++found.above;
      const std::int64_t end = ptr[j + 1], mirror = first_from(ptr[j], end, i);
      if (mirror == end || columns[mirror] != i) {
        found.trouble |= rows_not_mirrored;
        continue;
      }
      const double difference = wide - static_cast<double>(a[mirror]),
                   size = difference < 0 ? -difference : difference;
      if (size > found.difference) found.difference = size;
    }
  }
};

// One subdomain while its levels are found: arrays of a thread block with a number for each of its rows.
template <class Pointer>
struct OrderedRows {
  static constexpr std::uint16_t none = 0xffff;
  InspectedRows<Pointer> matrix;
  std::int32_t begin = 0, rows = 0;  // fewer than `none`
  // Entries of the row, L before U: from `start` on; their rows here are in `col`.
  std::int32_t* start = nullptr;
  std::uint16_t *lower = nullptr, *upper = nullptr, *col = nullptr;
  std::int32_t* waiting = nullptr;  // rows before it without a level that have an entry in its column
  std::uint16_t* next =
      nullptr;  // the first of its entries in L that is not known to have a level; none: it is ready
  std::uint16_t* level = nullptr;

  PROTEAN_HOST_DEVICE void clear(std::int32_t i) const { waiting[i] = 0, next[i] = 0, level[i] = none; }
  PROTEAN_HOST_DEVICE RowWithin within(std::int32_t i) const {
    return matrix.within(begin + i, begin, begin + rows);
  }
  // The entries of row i from col[at] on. All rows are cleared.
  PROTEAN_HOST_DEVICE void load(std::int32_t i, const RowWithin& row, std::int32_t at, int lane,
                                int lanes) const {
    const auto in_l = static_cast<std::int32_t>(row.lower_end - row.lower),
               in_u = static_cast<std::int32_t>(row.upper_end - row.upper);
    if (lane == 0) {
      start[i] = at;
      lower[i] = static_cast<std::uint16_t>(in_l), upper[i] = static_cast<std::uint16_t>(in_u);
    }
    for (std::int32_t k = lane; k < in_l; k += lanes)
      col[at + k] = static_cast<std::uint16_t>(matrix.columns[row.lower + k] - begin);
    for (std::int32_t k = lane; k < in_u; k += lanes) {
      const std::int32_t j = matrix.columns[row.upper + k] - begin;
      col[at + in_l + k] = static_cast<std::uint16_t>(j);
      add_together(waiting + j, 1);
    }
  }
  // All rows are loaded: whether each entry of row i in L has its mirrored one.
  PROTEAN_HOST_DEVICE bool is_mirrored(std::int32_t i, int lane, int lanes) const {
    for (std::int32_t k = start[i] + lane; k < start[i] + lower[i]; k += lanes) {
      const std::int32_t j = col[k], begin_u = start[j] + lower[j];
      if (find_place(col, begin_u, begin_u + upper[j], i) < 0) return false;
    }
    return true;
  }
  // If all entries are mirrored, a row is ready when it waits for nobody. Gives row i its level; rows that waited for
  // it alone go to `ready`, and their number is added to `count`.
  PROTEAN_HOST_DEVICE void release(std::int32_t i, std::int32_t round, std::uint16_t* ready,
                                   std::int32_t* count, int lane, int lanes) const {
    if (lane == 0) level[i] = static_cast<std::uint16_t>(round);
    const std::uint16_t* const after = col + start[i] + lower[i];
    for (std::int32_t k = lane; k < static_cast<std::int32_t>(upper[i]); k += lanes)
      if (add_together(waiting + after[k], -1) == 1) ready[add_together(count, 1)] = after[k];
  }
  // Else in each round first look() for all rows, then settle() for all: row i has a level, or looks whether it may
  // have one.
  PROTEAN_HOST_DEVICE void look(std::int32_t i) const {
    if (level[i] != none || waiting[i] != 0) return;
    const std::uint16_t* const mine = col + start[i];
    const std::uint16_t end = lower[i];
    std::uint16_t k = next[i];
    while (k < end && level[mine[k]] != none) ++k;
    next[i] = k < end ? k : none;
  }
  // Returns whether row i still waits.
  PROTEAN_HOST_DEVICE bool settle(std::int32_t i, std::int32_t round) const {
    if (level[i] != none) return false;
    if (next[i] != none) return true;
    level[i] = static_cast<std::uint16_t>(round);
    const std::uint16_t* const after = col + start[i] + lower[i];
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(upper[i]); ++k)
      add_together(waiting + after[k], -1);
    return false;
  }
};
// Bytes of its arrays.
constexpr std::int64_t shared_for_order(std::int64_t rows, std::int64_t entries) {
  return 2 * in_words(4 * rows) + 4 * in_words(2 * rows) + in_words(2 * entries);
}

// The places of the entries first .. end - 1 of a row to col, ascending. place: of the rows from `begin` on.
PROTEAN_HOST_DEVICE inline void fill_places(const std::int32_t* columns, std::int64_t first, std::int64_t end,
                                            std::int32_t begin, const std::uint16_t* place,
                                            std::uint16_t* col, int lane, int lanes) {
  for (std::int64_t e = first + lane; e < end; e += lanes) {
    const std::uint16_t own = place[columns[e] - begin];
    std::int32_t at = 0;
    for (std::int64_t other = first; other < end; ++other) at += place[columns[other] - begin] < own ? 1 : 0;
    col[at] = own;
  }
}

// What `order` finds of all subdomains. The sums are the lengths of level and of both col.
struct SubdomainsOrdered {
  std::int64_t levels = 0;  // the most of one
  std::int64_t level = 0, lower = 0, upper = 0;
  SubdomainNeeds needs;
};
// Where the arrays are written to. levels: the levels of subdomain s from its first place + s on, before it is known
// where they begin in `level`.
struct SubdomainTargets {
  std::int64_t *first = nullptr, *level_first = nullptr, *lower_first = nullptr, *upper_first = nullptr;
  std::int32_t *row = nullptr, *level = nullptr, *lower_ptr = nullptr, *upper_ptr = nullptr,
               *levels = nullptr;
  std::uint16_t *place = nullptr, *lower_col = nullptr, *upper_col = nullptr;
};

}  // namespace protean::detail

// Defined in device_subdomain_rows.cu. CUDA builds only. Each except fill_subdomains() waits for the device.
namespace protean::device {

// counts: two for each subdomain of each size, which are set.
template <class T>
detail::SubdomainInspection inspect_subdomains(const Context& context, const CsrMatrix<T>& csr,
                                               const detail::SubdomainSizes& sizes, bool symmetric,
                                               std::uint64_t* counts);
// entries: the most within one subdomain; value: bytes of one. Writes all targets except level and both col.
detail::SubdomainsOrdered order_subdomains(const Context& context, const SparsityPattern& pattern,
                                           std::int32_t size, std::int64_t entries, std::int64_t value,
                                           const detail::SubdomainTargets& to);
void fill_subdomains(const Context& context, const SparsityPattern& pattern, std::int32_t size,
                     const detail::SubdomainTargets& to);

}  // namespace protean::device
