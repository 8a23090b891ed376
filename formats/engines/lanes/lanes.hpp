// The engine of lane-mapped ELLPACK (argcsr, adell, coadell, adell-plus): rows take as many lanes as they have entries
// for, L lanes are a unit, and a unit is as wide as its fullest lane. This is the host side and what host and device
// share; lanes.cuh is the device side.
//
//   unit 0, L = 4, width 3        unit 1, width 2
//   lane      0 1 2 3             4 5 6 7
//   row       0 1 1 2             2 2 3 3          lane_row, ascending
//   k = 0     a d g i             k m n .          slot k of lane l of a unit at unit_ptr + k L + l
//   k = 1     b e h j             l . o .
//   k = 2     c f . .
//
// The entries of a row are cut into pieces that follow each other in its lanes: c = min(width, entries left / lanes of
// the row in the unit, rounded up) in each lane of a unit. lane_row of a lane without entries is -1 - row; such a lane
// is not read. An empty row has one lane of this kind, and lanes that are left over belong to the row before them.
// Padding has the value 0 and repeats the last column of the row.
//
// A row may go on in the next unit. The unit in which it begins writes it; each other unit has a carry, and the carries
// are added in the order of the units. So the order of the sums is fixed, and no atomic operations are needed.
//
// Columns can be coded: `first` has the first column of each lane, `delta` what is added from slot to slot (uint16). A
// unit in which a difference needs more than 16 bits keeps its columns. code_ptr gives the place: d >= 0 is a place in
// delta, -1 - c a place in col.
//
// Rows are cut into sections of lane_section rows. Units do not cross sections, so sections can be converted at the
// same time.
//
// Slots can be blocks of two entries: of one row and neighbouring columns (1x2), or of one column and two rows (2x1).
// The pattern of blocks has their keys as columns: 4 c + mask: c is the first column, and bit e of mask says whether
// value e is an entry. Lanes, units, padding and codes then belong to this pattern. lane_row has block rows, which are
// pairs of rows in blocks 2x1. A unit has value 0 of all lanes of a slot, then value 1 of all lanes of it. A value that
// is no entry is 0. It is multiplied by a column that its row has, or by 0: a NaN in another place of x does not reach
// the row. Private to formats/.
#pragma once
#include <cstdint>
#include <string>

#include "core/bisect.hpp"
#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"
#if !defined(__CUDACC__)
#include <algorithm>
#include <memory>
#include <vector>

#include "formats/engines/view/row_view.hpp"
#endif

namespace protean::formats {

constexpr std::int64_t lane_section = 4096;

// How rows get their lanes.
//   whole   A unit takes successive rows until they have L `desired` entries, or are L rows. Each has one lane and its
//           share of the others, rounded down; the rows of the greatest length get the lanes that are left, in turn.
//           (ArgCSR)
//   greedy  Row after row gets its entries / `desired` lanes, rounded up. One that does not fit takes the lanes that
//           are left, as wide as the unit is, or as it needs for all its lanes, and goes on in the next unit. (AdELL)
//   scan    The same number of lanes, wherever a unit ends: a prefix sum gives the lanes of all rows. (AdELL+)
enum class LaneMapping : unsigned char { whole, greedy, scan };

struct LaneRule {
  LaneMapping mapping = LaneMapping::greedy;
  int L = 32;
  std::int64_t desired = 16;  // entries of a lane, or blocks
  bool coded = false;
  int R = 1, C = 1;  // a block: 1 x 1, 1 x 2 or 2 x 1
  constexpr int block() const { return R * C; }
};
// Keys of blocks fit into 31 bits up to this number of columns.
constexpr std::int64_t most_block_columns = std::int64_t{1} << 29;
// The entries of a lane of AdELL: a tenth more than the mean row has.
inline std::int64_t mean_and_a_tenth(const SparsityPattern& pattern) {
  const std::int64_t mean = 11 * pattern.nonzeros / (10 * (pattern.rows > 0 ? pattern.rows : 1));
  return mean > 1 ? mean : 1;
}

PROTEAN_HOST_DEVICE constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
PROTEAN_HOST_DEVICE constexpr std::int64_t row_of_lane(std::int32_t lane_row) {
  return lane_row < 0 ? -1 - std::int64_t{lane_row} : lane_row;
}

PROTEAN_HOST_DEVICE constexpr std::int32_t empty_lane(std::int32_t lane_row) {
  return lane_row < 0 ? lane_row : -1 - lane_row;
}

// Calls f(key) for the blocks of block row p, in ascending order of their keys.
template <class RowPtr, class F>
PROTEAN_HOST_DEVICE void for_blocks(const RowPtr& row_ptr, const std::int32_t* col, std::int64_t rows, int R,
                                    std::int64_t p, F&& f) {
  if (R == 1) {
    for (std::int64_t k = row_ptr[p], end = row_ptr[p + 1]; k < end; ++k) {
      const bool pair = k + 1 < end && col[k + 1] == col[k] + 1;
      f(col[k] * 4 + (pair ? 3 : 1));
      k += pair;
    }
    return;
  }
  std::int64_t k = row_ptr[2 * p];
  const std::int64_t middle = row_ptr[2 * p + 1], end = 2 * p + 1 < rows ? row_ptr[2 * p + 2] : middle;
  for (std::int64_t next = middle; k < middle || next < end;) {
    const bool both = k < middle && next < end && col[k] == col[next];
    const bool upper = both || (k < middle && (next == end || col[k] < col[next]));
    f((upper ? col[k] : col[next]) * 4 + (both ? 3 : upper ? 1 : 2));
    k += upper, next += both || !upper;
  }
}

// A view of the rows in the sense of row_view.hpp.
template <class T>
struct MappedLanes {
  const T* values;               // [slots R C]
  const std::int32_t* col;       // of all slots, or of units that are not coded; keys if slots are blocks
  const std::int64_t* unit_ptr;  // slots before each unit
  const std::int32_t* lane_row;  // [units L]
  const std::int32_t* first;     // [units L]; this and the next are null if columns are not coded
  const std::int64_t* code_ptr;  // [units]
  const std::uint16_t* delta;
  std::int64_t rows, units;
  int L;
  int R = 1, C = 1;

  // Where value e of the block in a slot is.
  PROTEAN_HOST_DEVICE std::int64_t value_place(std::int64_t place, int e) const {
    return R * C == 1 ? place : place + (place / L + e) * L;
  }
  PROTEAN_HOST_DEVICE std::int64_t positions() const { return rows; }
  PROTEAN_HOST_DEVICE std::int64_t row(std::int64_t p) const { return p; }
  PROTEAN_HOST_DEVICE std::int64_t row_at(std::int64_t lane) const { return row_of_lane(lane_row[lane]); }
  PROTEAN_HOST_DEVICE std::int64_t width(std::int64_t u) const { return (unit_ptr[u + 1] - unit_ptr[u]) / L; }
  PROTEAN_HOST_DEVICE std::int64_t first_lane(std::int64_t r) const {
    return first_where<std::int64_t>(0, units * L, [&](std::int64_t i) { return row_at(i) >= r; });
  }
  // Whether unit u > 0 begins with a row of the unit before.
  PROTEAN_HOST_DEVICE bool continues(std::int64_t u) const { return row_at(u * L - 1) == row_at(u * L); }

  // Calls f(col, place) for the slots of a lane until it returns false.
  template <class F>
  PROTEAN_HOST_DEVICE void for_slots(std::int64_t lane, F&& f) const {
    const std::int64_t u = lane / L, l = lane % L;
    std::int64_t code = -1 - unit_ptr[u];
    if (code_ptr) code = code_ptr[u];
    std::int32_t at = code >= 0 ? first[lane] : 0;
    for (std::int64_t place = unit_ptr[u] + l, k = 0; place < unit_ptr[u + 1]; place += L, ++k) {
      if (code < 0)
        at = col[-1 - code + k * L + l];
      else if (k > 0)
        at += delta[code + (k - 1) * L + l];
      if (!f(at, place)) return;
    }
  }
  // Calls f(col or key, slot) for the entries or blocks of a row or block row.
  template <class F>
  PROTEAN_HOST_DEVICE void for_row(std::int64_t p, F&& f) const {
    std::int32_t last = -1;
    for (std::int64_t lane = first_lane(p); lane < units * L && row_at(lane) == p; ++lane)
      if (lane_row[lane] >= 0)
        for_slots(lane, [&](std::int32_t column, std::int64_t place) {
          if (column <= last) return false;  // padding
          last = column;
          f(column, place);
          return true;
        });
  }
  template <class F>
  PROTEAN_HOST_DEVICE void for_entries(std::int64_t p, F&& f) const {
    if (R == 2) {
      const int e = static_cast<int>(p % 2);
      for_row(p / 2, [&](std::int32_t key, std::int64_t place) {
        if (key >> e & 1) f(key / 4, value_place(place, e));
      });
    } else if (C == 2) {
      for_row(p, [&](std::int32_t key, std::int64_t place) {
        f(key / 4, value_place(place, 0));
        if (key & 2) f(key / 4 + 1, value_place(place, 1));
      });
    } else {
      for_row(p, f);
    }
  }
  PROTEAN_HOST_DEVICE std::int64_t length(std::int64_t p) const {
    std::int64_t count = 0;
    for_entries(p, [&](std::int32_t, std::int64_t) { ++count; });
    return count;
  }
};

// Writes the values of the blocks of one block row, whose slots are visited in ascending order of the blocks.
template <class T, class RowPtr>
struct BlockValues {
  const T* from;
  std::int64_t next[2];  // the entry that comes next, of each row

  PROTEAN_HOST_DEVICE BlockValues(const T* values, const RowPtr& row_ptr, std::int64_t rows, int R,
                                  std::int64_t p)
      : from(values), next{row_ptr[R * p], R == 2 && 2 * p + 1 < rows ? row_ptr[2 * p + 1] : 0} {}
  // mask: of the block's key, or 0 in padding.
  PROTEAN_HOST_DEVICE void write(const MappedLanes<T>& a, std::int64_t place, int mask, T* to) {
    for (int e = 0; e < 2; ++e)
      to[a.value_place(place, e)] = mask >> e & 1 ? from[next[a.R == 2 ? e : 0]++] : T(0);
  }
};

// Calls f(place, k, last) for all slots of row r: k is the entry of the row that lies there, or -1 in padding; last is
// the last entry up to there, which is before the row when it is empty. used(lane, n) gets how many entries each
// lane has. The view has no codes, and its lane_row marks as empty only lanes that are left over.
template <class T, class RowPtr, class Use, class F>
PROTEAN_HOST_DEVICE void lay_out_row(const MappedLanes<T>& a, std::int64_t r, const RowPtr& row_ptr,
                                     Use&& used, F&& f) {
  std::int64_t lane = a.first_lane(r), k = row_ptr[r];
  const std::int64_t end = row_ptr[r + 1], lanes = a.units * a.L;
  while (lane < lanes && a.lane_row[lane] == r) {
    const std::int64_t u = lane / a.L;
    std::int64_t mine = 1;
    while ((lane + mine) % a.L != 0 && a.lane_row[lane + mine] == r) ++mine;
    const std::int64_t width = a.width(u), wanted = divide_up(end - k, mine);
    const std::int64_t piece = wanted < width ? wanted : width;
    for (std::int64_t next = lane + mine; lane < next; ++lane) {
      const std::int64_t count = piece < end - k ? piece : end - k;
      used(lane, count);
      for (std::int64_t i = 0; i < width; ++i)
        f(a.unit_ptr[u] + i * a.L + lane % a.L, i < count ? k + i : std::int64_t{-1},
          k + (i < count ? i : count - 1));
      k += count;
    }
  }
  for (; lane < lanes && a.lane_row[lane] == -1 - r; ++lane) {  // left over
    used(lane, 0);
    for (std::int64_t place = a.unit_ptr[lane / a.L] + lane % a.L; place < a.unit_ptr[lane / a.L + 1];
         place += a.L)
      f(place, std::int64_t{-1}, k - 1);
  }
}

// The greedy mapping of rows [begin, end), which are a section: lanes(unit, lane, count, row) and close(unit, width).
// Lanes that are left over have the row -1 - last row. Returns the number of units.
template <class Length, class Lanes, class Close>
PROTEAN_HOST_DEVICE std::int64_t map_greedily(const LaneRule& rule, std::int64_t begin, std::int64_t end,
                                              const Length& length, Lanes&& lanes, Close&& close) {
  std::int64_t unit = 0, used = 0, width = 0;
  const auto end_unit = [&] {
    close(unit++, width);
    used = width = 0;
  };
  for (std::int64_t r = begin; r < end; ++r) {
    std::int64_t left = length(r);
    do {
      std::int64_t wanted = divide_up(left, rule.desired), each = 0;
      if (wanted < 1) wanted = 1;
      each = divide_up(left, wanted);
      if (width < each) width = each;
      const std::int64_t count = wanted < rule.L - used ? wanted : rule.L - used;
      lanes(unit, used, count, r);
      used += count;
      left -= count < wanted ? count * width : left;
      if (used == rule.L) end_unit();
    } while (left > 0);
  }
  if (used > 0) {
    lanes(unit, used, rule.L - used, -end);
    end_unit();
  }
  return unit;
}

// The lanes of a row in the mapping `scan`.
PROTEAN_HOST_DEVICE constexpr std::int64_t lanes_of_row(const LaneRule& rule, std::int64_t length) {
  return length <= rule.desired ? 1 : divide_up(length, rule.desired);
}

// The units of whole rows [begin, end), which are a section: unit(number, first row). Returns their number.
template <class Length, class Unit>
PROTEAN_HOST_DEVICE std::int64_t cut_whole(const LaneRule& rule, std::int64_t begin, std::int64_t end,
                                           const Length& length, Unit&& unit) {
  std::int64_t count = 0, entries = 0, first = begin;
  for (std::int64_t r = begin; r < end; ++r) {
    entries += length(r);
    if (entries < rule.L * rule.desired && r + 1 - first < rule.L && r + 1 < end) continue;
    unit(count++, first);
    first = r + 1, entries = 0;
  }
  return count;
}
// The lanes of whole rows [begin, end), which are a unit: lanes(first lane, count, row). Returns the width of the unit.
template <class Length, class Lanes>
PROTEAN_HOST_DEVICE std::int64_t share_lanes(const LaneRule& rule, std::int64_t begin, std::int64_t end,
                                             const Length& length, Lanes&& lanes) {
  std::int64_t entries = 0, longest = 0, longest_rows = 0, left = rule.L - (end - begin);
  for (std::int64_t r = begin; r < end; ++r) {
    entries += length(r);
    if (length(r) > longest) longest = length(r), longest_rows = 0;
    longest_rows += length(r) == longest;
  }
  const std::int64_t free = left;
  const auto share = [&](std::int64_t r) { return entries == 0 ? 0 : free * length(r) / entries; };
  for (std::int64_t r = begin; r < end; ++r) left -= share(r);
  std::int64_t width = 0, at = 0, nth = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    std::int64_t count = 1 + share(r);
    if (length(r) == longest) count += left / longest_rows + (nth++ < left % longest_rows);
    lanes(at, count, r);
    at += count;
    const std::int64_t each = divide_up(length(r), count);
    if (width < each) width = each;
  }
  return width;
}

inline std::int64_t section_count(std::int64_t rows) { return divide_up(rows, lane_section); }

struct LaneSizes {
  std::int64_t units = 0, slots = 0;
  std::int64_t coded_units = 0, delta_slots = 0, raw_slots = 0;  // of coded formats
};
inline std::size_t lane_bytes(const LaneRule& rule, const LaneSizes& sizes, std::size_t value_bytes) {
  std::size_t bytes = static_cast<std::size_t>(sizes.slots * rule.block()) * value_bytes +
                      static_cast<std::size_t>(8 * (sizes.units + 1) + 4 * sizes.units * rule.L);
  if (!rule.coded) return bytes + 4 * static_cast<std::size_t>(sizes.slots);
  return bytes + static_cast<std::size_t>(4 * sizes.units * rule.L + 8 * sizes.units + 2 * sizes.delta_slots +
                                          4 * sizes.raw_slots);
}
// Whether the columns of a coded format take fewer bytes so.
inline bool coding_pays(LaneRule rule, const LaneSizes& sizes) {
  const std::size_t coded = lane_bytes(rule, sizes, 0);
  rule.coded = false;
  return coded < lane_bytes(rule, sizes, 0);
}
Admission admit_lanes(const LaneRule& rule, const LaneSizes& sizes, const SparsityPattern& pattern,
                      const FormatParams& params, std::size_t value_bytes);

constexpr ParamDoc lane_fill_param = {.name = "max_fill",
                                      .doc = "the format refuses more stored values per entry than this",
                                      .default_value = "4",
                                      .smallest = 1,
                                      .largest = 1'000'000};
constexpr ParamDoc lane_width_param = {
    .name = "W", .doc = "lanes of a unit (a warp)", .default_value = "32", .choices = "2|4|8|16|32"};

// The rules that formats make of their parameters, for host and device.
LaneRule argcsr_rule(const SparsityPattern& pattern, const FormatParams& params);
LaneRule adell_rule(const SparsityPattern& pattern, const FormatParams& params);
LaneRule coadell_rule(const SparsityPattern& pattern, const FormatParams& params);

#if !defined(__CUDACC__)

template <class T>
struct LaneProduct {
  MappedLanes<T> a;
  T alpha, beta;
  const T* x;
  T* y;
};
// Over units [begin, end); no row continues across these two borders. unroll: the slots that one turn of the loop over
// a unit adds: 1, 2 or 4. The bits of y do not depend on it.
void lane_product(const LaneProduct<double>& product, int unroll, std::int64_t begin, std::int64_t end);
void lane_product(const LaneProduct<float>& product, int unroll, std::int64_t begin, std::int64_t end);
// The same if slots are blocks of two entries.
void lane_block_product(const LaneProduct<double>& product, int unroll, std::int64_t begin, std::int64_t end);
void lane_block_product(const LaneProduct<float>& product, int unroll, std::int64_t begin, std::int64_t end);

struct LanePlanOnHost {
  LaneRule rule;
  LaneSizes sizes;
  std::vector<std::int64_t> unit_ptr, code_ptr;
  std::vector<std::int32_t> lane_row;
  std::vector<std::int32_t> col;  // of all slots, only if the format codes columns
  // The pattern of blocks, only if slots are blocks.
  std::vector<std::int64_t> block_ptr;
  std::vector<std::int32_t> key;

  // The pattern whose rows have the lanes: the pattern of the matrix, or of its blocks.
  SparsityPattern mapped(const SparsityPattern& pattern) const;
};
// The number of blocks of a pattern.
std::int64_t count_blocks(const Context& context, const SparsityPattern& pattern, int R);
// rule.desired is set from the mean of the blocks if slots are blocks.
LanePlanOnHost plan_lanes_on_host(const Context& context, const SparsityPattern& pattern,
                                  const LaneRule& rule);

template <class T>
class LaneMatrix : public RowViewMatrix<T, LaneMatrix<T>> {
 public:
  explicit LaneMatrix(const BuildRequest<T>& request);
  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + unit_ptr_.bytes() + lane_row_.bytes() + first_.bytes() +
           code_ptr_.bytes() + delta_.bytes();
  }
  std::vector<LayoutArray> layout() const override;
  MappedLanes<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const { multiply(1, alpha, x, beta, y); }
  void multiply(int unroll, T alpha, const T* x, T beta, T* y) const;

 protected:
  const LaneRule& rule() const noexcept { return rule_; }

 private:
  LaneRule rule_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_, lane_row_, first_;
  Buffer<std::int64_t> unit_ptr_, code_ptr_;
  Buffer<std::uint16_t> delta_;
  std::vector<std::int64_t> borders_;  // units of each part
};
extern template class LaneMatrix<double>;
extern template class LaneMatrix<float>;

template <LaneRule (*rule_of)(const SparsityPattern&, const FormatParams&)>
Admission admit_lanes_on_host(const Context& context, const SparsityPattern& pattern,
                              const FormatParams& params, std::size_t value_bytes) {
  auto plan =
      std::make_shared<const LanePlanOnHost>(plan_lanes_on_host(context, pattern, rule_of(pattern, params)));
  Admission admission = admit_lanes(plan->rule, plan->sizes, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

#endif

}  // namespace protean::formats
