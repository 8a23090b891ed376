// The units of sparsex: the reader and the writer of their bytes, the same on host and device. sparsex.cpp says what a
// stream is. Private to formats/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/host_device.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr int sparsex_most_rows = 256;  // of a part
constexpr int sparsex_most_picks = 4;

// The kind of a unit, in the lower six bits of its first byte. Blocks of r rows have kind block + r.
namespace unit {
constexpr int delta8 = 0, delta16 = 1, delta32 = 2, horizontal = 3, vertical = 4, diagonal = 5,
              antidiagonal = 6, block = 8;
constexpr int kinds = 64, new_row = 128, jump = 64;
constexpr int tried[] = {horizontal, vertical,  diagonal,  antidiagonal, block + 2,
                         block + 3,  block + 4, block + 6, block + 8};
constexpr int tried_count = 9, most_size = 255, most_block_size = 31;
// What a unit of a run saves is about a byte an entry, less this for the unit.
constexpr int cost = 3;
}  // namespace unit

// The kinds that are looked for, one after another.
struct SparsexPicks {
  int count = 0;
  int kind[sparsex_most_picks] = {};
};

// One unit: `size` entries (a block: columns), the first at row, col. Rows count from the first one of the part.
struct SparsexUnit {
  int kind, size;
  std::int64_t row, col, step;
  const std::uint8_t* deltas;

  PROTEAN_HOST_DEVICE bool is_delta() const { return kind <= unit::delta32; }
  PROTEAN_HOST_DEVICE int block_rows() const { return kind > unit::block ? kind - unit::block : 1; }
  PROTEAN_HOST_DEVICE int entries() const { return block_rows() * size; }
  // From entry k - 1 to entry k of a delta unit; k > 0.
  PROTEAN_HOST_DEVICE std::int64_t delta(int k) const {
    const std::uint8_t* at = deltas + ((k - 1) << kind);
    std::uint32_t value = at[0];
    for (int byte = 1; byte < 1 << kind; ++byte) value |= std::uint32_t{at[byte]} << (8 * byte);
    return value;
  }
  // Row and column of entry k, of all kinds but delta units.
  PROTEAN_HOST_DEVICE std::int64_t row_of(int k) const {
    if (kind > unit::block) return row + k / size;
    return kind == unit::horizontal ? row : row + k * step;
  }
  PROTEAN_HOST_DEVICE std::int64_t col_of(int k) const {
    if (kind > unit::block) return col + k % size;
    if (kind == unit::vertical) return col;
    return kind == unit::antidiagonal ? col - k * step : col + k * step;
  }
};

// Reads the units of a part one after another.
class SparsexReader {
 public:
  PROTEAN_HOST_DEVICE explicit SparsexReader(const std::uint8_t* at) : at_(at) {}
  PROTEAN_HOST_DEVICE SparsexUnit next() {
    const int head = *at_++;
    SparsexUnit u{};
    u.kind = head & (unit::kinds - 1), u.size = *at_++;
    if (head & unit::new_row) ++row_, col_ = 0;
    if (head & unit::jump) row_ += number();
    col_ += number();
    u.row = row_, u.col = col_;
    if (u.is_delta())
      u.deltas = at_, at_ += (u.size - 1) << u.kind;
    else if (u.kind < unit::block)
      u.step = number();
    return u;
  }
  PROTEAN_HOST_DEVICE const std::uint8_t* at() const { return at_; }

 private:
  // Seven bits a byte, the lowest first; the highest bit says that more follow.
  PROTEAN_HOST_DEVICE std::int64_t number() {
    std::int64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const int byte = *at_++;
      value |= std::int64_t{byte & 127} << shift;
      if (byte < 128) return value;
    }
  }
  const std::uint8_t* at_;
  std::int64_t row_ = -1, col_ = 0;
};

// Counts the bytes, and writes them if `out` is not null.
class SparsexBytes {
 public:
  PROTEAN_HOST_DEVICE explicit SparsexBytes(std::uint8_t* out) : out_(out) {}
  PROTEAN_HOST_DEVICE void byte(std::int64_t value) {
    if (out_) out_[count_] = static_cast<std::uint8_t>(value);
    ++count_;
  }
  PROTEAN_HOST_DEVICE void number(std::int64_t value) {
    for (; value > 127; value >>= 7) byte((value & 127) | 128);
    byte(value);
  }
  PROTEAN_HOST_DEVICE std::int64_t count() const { return count_; }

 private:
  std::uint8_t* out_;
  std::int64_t count_ = 0;
};

// The device has no sort for a thread.
PROTEAN_HOST_DEVICE inline void heap_sort(std::uint64_t* keys, std::int64_t n) {
  const auto sink = [&](std::int64_t i, std::int64_t end) {
    const std::uint64_t key = keys[i];
    for (std::int64_t child; (child = 2 * i + 1) < end; i = child) {
      if (child + 1 < end && keys[child + 1] > keys[child]) ++child;
      if (keys[child] <= key) break;
      keys[i] = keys[child];
    }
    keys[i] = key;
  };
  for (std::int64_t i = n / 2; i-- > 0;) sink(i, n);
  for (std::int64_t end = n - 1; end > 0; --end) {
    const std::uint64_t largest = keys[0];
    keys[0] = keys[end], keys[end] = largest;
    sink(0, end);
  }
}

// Finds and writes the units of a part. Arrays for each entry of the part are the caller's.
struct SparsexWriter {
  static constexpr std::uint8_t open = 0,
                                covered = 255;  // in `kind`; else the kind of the unit that begins here

  const std::int32_t* col;
  std::int64_t entries;
  int rows, min_run;
  bool in_order;  // the units of a row in the order of its columns
  std::uint64_t* keys;
  std::uint8_t *row, *kind, *size;
  std::int32_t* step;

  // row_ptr: of the first row of the part.
  template <class Pointers>
  PROTEAN_HOST_DEVICE void begin(const Pointers& row_ptr, std::int64_t first_row) {
    std::int64_t e = 0;
    for (int r = 0; r < rows; ++r)
      for (const std::int64_t end = row_ptr[first_row + r + 1] - row_ptr[first_row]; e < end; ++e)
        row[e] = static_cast<std::uint8_t>(r), kind[e] = open;
  }

  // Finds the runs of one kind among open entries, and takes them if `take`. Returns the bytes that they save.
  PROTEAN_HOST_DEVICE std::int64_t find(int which, bool take) {
    return which > unit::block ? find_blocks(which - unit::block, take) : find_lines(which, take);
  }

  // Writes the units in the order of their first entries. All entries are covered afterwards.
  PROTEAN_HOST_DEVICE std::int64_t write(std::uint8_t* out) {
    SparsexBytes bytes(out);
    std::int64_t row_before = -1, col_before = 0;
    for (std::int64_t e = 0; e < entries; ++e) {
      if (kind[e] == covered) continue;
      int of = kind[e], count = kind[e] == open ? 1 : size[e];
      std::int64_t last = e;  // of a delta unit
      if (kind[e] == open) {
        of = unit::delta8;
        for (std::int64_t i = e + 1; i < entries && row[i] == row[e] && count < unit::most_size; ++i) {
          if (kind[i] != open) {
            if (in_order) break;
            continue;
          }
          const std::int64_t delta = col[i] - col[last];
          const int width = delta < 256 ? unit::delta8 : delta < 65536 ? unit::delta16 : unit::delta32;
          if (count == 1)
            of = width;
          else if (width != of)
            break;
          last = i, ++count;
        }
      }
      const std::int64_t rows_on = row[e] - row_before;
      bytes.byte(of | (rows_on > 0 ? unit::new_row : 0) | (rows_on > 1 ? unit::jump : 0));
      bytes.byte(count);
      if (rows_on > 0) col_before = 0;
      if (rows_on > 1) bytes.number(rows_on - 1);
      bytes.number(col[e] - col_before);
      row_before = row[e], col_before = col[e];
      if (kind[e] != open) {
        if (of < unit::block) bytes.number(step[e]);
        continue;
      }
      kind[e] = covered;
      std::int64_t before = e;
      for (std::int64_t i = e + 1; i <= last; ++i) {
        if (kind[i] != open) continue;
        const std::int64_t delta = col[i] - col[before];
        for (int byte = 0; byte < 1 << of; ++byte) bytes.byte(delta >> (8 * byte) & 255);
        kind[i] = covered, before = i;
      }
    }
    return bytes.count();
  }

 private:
  PROTEAN_HOST_DEVICE void sort_keys(std::int64_t n) {
#if defined(__CUDACC__)
    heap_sort(keys, n);
#else
    std::sort(keys, keys + n);
#endif
  }
  static PROTEAN_HOST_DEVICE std::int64_t entry_of(std::uint64_t key) {
    return static_cast<std::int64_t>(key & 0xffffffffu);
  }

  // Entries of the same line at equal distances. On a line the entries are in the order of the part.
  PROTEAN_HOST_DEVICE std::int64_t find_lines(int which, bool take) {
    std::int64_t n = 0;
    for (std::int64_t e = 0; e < entries; ++e) {
      if (kind[e] != open) continue;
      const std::int64_t line = which == unit::horizontal ? row[e]
                                : which == unit::vertical ? col[e]
                                : which == unit::diagonal ? std::int64_t{col[e]} + rows - row[e]
                                                          : std::int64_t{col[e]} + row[e];
      keys[n++] = static_cast<std::uint64_t>(line) << 32 | static_cast<std::uint64_t>(e);
    }
    if (which != unit::horizontal) sort_keys(n);
    const auto position = [&](std::int64_t i) -> std::int64_t {
      return which == unit::horizontal ? col[entry_of(keys[i])] : row[entry_of(keys[i])];
    };
    std::int64_t saved = 0;
    for (std::int64_t i = 0; i + 1 < n;) {
      const std::uint64_t line = keys[i] >> 32;
      if (keys[i + 1] >> 32 != line) {
        ++i;
        continue;
      }
      const std::int64_t distance = position(i + 1) - position(i);
      std::int64_t end = i + 2;
      while (end < n && end - i < unit::most_size && keys[end] >> 32 == line &&
             position(end) - position(end - 1) == distance)
        ++end;
      if (end - i < min_run) {
        i = end - 1;  // the last entry may begin a run with another distance
        continue;
      }
      saved += end - i - unit::cost;
      if (take) {
        const std::int64_t first = entry_of(keys[i]);
        for (std::int64_t k = i; k < end; ++k) kind[entry_of(keys[k])] = covered;
        kind[first] = static_cast<std::uint8_t>(which), size[first] = static_cast<std::uint8_t>(end - i);
        step[first] = static_cast<std::int32_t>(distance);
      }
      i = end;
    }
    return saved;
  }

  // Neighbouring columns that are full in `height` rows, which begin at a multiple of height.
  PROTEAN_HOST_DEVICE std::int64_t find_blocks(int height, bool take) {
    // A key has the block row in 8 bits, the column in 31, the row in 3 and the entry in 22.
    constexpr int entry_bits = 22;
    if (entries >> entry_bits != 0) return 0;
    std::int64_t n = 0;
    for (std::int64_t e = 0; e < entries; ++e)
      if (kind[e] == open)
        keys[n++] = static_cast<std::uint64_t>(row[e] / height) << 56 |
                    static_cast<std::uint64_t>(col[e]) << 25 |
                    static_cast<std::uint64_t>(row[e] % height) << entry_bits | static_cast<std::uint64_t>(e);
    sort_keys(n);
    const auto full = [&](std::int64_t i) {
      return i + height <= n && keys[i] >> 25 == keys[i + height - 1] >> 25;
    };
    std::int64_t saved = 0;
    for (std::int64_t i = 0; i < n;) {
      const std::uint64_t first = keys[i] >> 25;
      std::int64_t count = 0;
      while (count < unit::most_block_size && full(i + count * height) &&
             keys[i + count * height] >> 25 == first + static_cast<std::uint64_t>(count))
        ++count;
      if (count < 2 || count * height < min_run) {
        i += count > 0 ? count * height : 1;
        continue;
      }
      saved += count * height - unit::cost;
      if (take) {
        constexpr std::uint64_t mask = (std::uint64_t{1} << entry_bits) - 1;
        for (std::int64_t k = i; k < i + count * height; ++k) kind[keys[k] & mask] = covered;
        kind[keys[i] & mask] = static_cast<std::uint8_t>(unit::block + height);
        size[keys[i] & mask] = static_cast<std::uint8_t>(count);
      }
      i += count * height;
    }
    return saved;
  }
};

// The arrays. Not owning.
template <class T>
struct SparsexArrays {
  const T* values;
  const std::uint8_t* stream;
  const std::int64_t *part_begin, *part_value;
  std::int64_t all_rows, part_rows, parts;

  PROTEAN_HOST_DEVICE std::int64_t first_row(std::int64_t part) const { return part * part_rows; }
  PROTEAN_HOST_DEVICE int rows_of(std::int64_t part) const {
    const std::int64_t left = all_rows - part * part_rows;
    return static_cast<int>(left < part_rows ? left : part_rows);
  }
};

// A few parts of the matrix, from which the kinds are chosen: row pointers from 0, and columns.
struct SparsexSample {
  std::vector<std::int64_t> row_ptr;
  std::vector<std::int32_t> col;
};
constexpr std::int64_t sparsex_samples = 8, sparsex_most_sampled = 65536;  // parts; entries of one
// The kinds that save most in the samples, the best first; horizontal is always among them; it is the only one if units
// must be in the order of the columns.
SparsexPicks pick_sparsex_kinds(std::vector<SparsexSample>& samples, int min_run, bool in_order);

inline std::int64_t sparsex_parts(std::int64_t rows, std::int64_t part_rows) {
  return (rows + part_rows - 1) / part_rows;
}
Admission admit_sparsex(std::int64_t stream_bytes, std::int64_t parts, std::int64_t nonzeros,
                        std::size_t value_bytes);

}  // namespace protean::formats
