// The layout of sell-packed: what the encoder writes, and the kernel and the decoder read. Private to this
// folder. sell_packed.cpp describes it.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/csr.hpp"
#include "formats/engines/view/table_values.hpp"

namespace protean::formats::packed {

// Rows of a slice: one 512-bit register of doubles. The code words hold a mask of 8 bits and 8 indices of 4
// bits.
constexpr int height = 8;
// Rows may be reordered within a window. A part of the threads owns whole windows.
constexpr int window = 256;
constexpr int most_groups = 255;  // of one kind in one chunk
constexpr int most_run = 255;

// The kinds of slot in the order in which a chunk stores them.
enum Kind : int { contiguous, pair, quad, near, far, wide, kinds };
// Code words of one group of each kind; for pair and quad, of a whole run of slots.
constexpr std::array<int, kinds> group_words = {1, 3, 5, 3, 5, 8};

struct ChunkHeader {
  std::array<int, kinds> groups;
  unsigned live;  // bit l: lane l is a row that has entries
  bool last;      // of its slice
};
constexpr int header_words = 2;

inline ChunkHeader read_header(const std::uint32_t* code) {
  const std::uint32_t a = code[0], b = code[1];
  return {{static_cast<int>(a & 255), static_cast<int>(a >> 8 & 255), static_cast<int>(a >> 16 & 255),
           static_cast<int>(a >> 24), static_cast<int>(b & 255), static_cast<int>(b >> 8 & 255)},
          b >> 16 & 255,
          (b >> 24) != 0};
}

inline void write_header(const ChunkHeader& h, std::uint32_t* code) {
  const auto word = [](int i) { return static_cast<std::uint32_t>(i); };
  code[0] = word(h.groups[0]) | word(h.groups[1]) << 8 | word(h.groups[2]) << 16 | word(h.groups[3]) << 24;
  code[1] = word(h.groups[4]) | word(h.groups[5]) << 8 | h.live << 16 | (h.last ? 1u << 24 : 0u);
}

// The columns of the first slot of a group. Lane l is padding that reads no x if bit l of mask is 0.
struct Decoded {
  std::array<std::int32_t, height> col;
  unsigned mask;
  int run;
};

inline Decoded read_group(Kind kind, const std::uint32_t* code) {
  Decoded d{{}, 255, 1};
  const auto base = static_cast<std::int32_t>(code[0]);
  const auto* bytes = reinterpret_cast<const unsigned char*>(code + 1);
  std::array<std::int32_t, 4> start{base, 0, 0, 0};
  unsigned second_pair = 0;
  if (kind == pair) {
    start[1] = base + static_cast<std::int32_t>(code[2] & 0xffff);
    d.mask = code[2] >> 16 & 255, d.run = static_cast<int>(code[2] >> 24);
  } else if (kind == quad) {
    start[1] = base + static_cast<std::int32_t>(code[2] & 0xffff);
    start[2] = base + static_cast<std::int32_t>(code[2] >> 16);
    start[3] = base + static_cast<std::int32_t>(code[3] & 0xffff);
    second_pair = code[3] >> 24;
    d.mask = (code[3] >> 16 & 255) | second_pair, d.run = static_cast<int>(code[4]);
  }
  for (int l = 0; l < height; ++l) {
    std::uint16_t offset = 0;
    switch (kind) {
      case contiguous:
        d.col[l] = base + l;
        break;
      case pair:
      case quad: {
        const std::uint32_t index = code[1] >> (4 * l) & 15;
        d.col[l] = start[(second_pair >> l & 1) * 2 + index / 8] + static_cast<std::int32_t>(index % 8);
        break;
      }
      case near:
        d.col[l] = base + bytes[l];
        break;
      case far:
        std::memcpy(&offset, bytes + 2 * l, 2);
        d.col[l] = base + offset;
        break;
      default:
        d.col[l] = static_cast<std::int32_t>(code[l]);
    }
  }
  return d;
}

// Words before the slices of a window: 0; or 1 and the 256 rows of the window in the order of the lanes.
constexpr int order_words = window / 4;

// Walks through the code, window by window. Calls window_begins(first_row, order); order is null if rows keep their
// places, else a byte for each row. For each slice it calls slice_begins(first_position, live), group(kind, words,
// live) for all groups, with live as in their chunk, and slice_ends().
template <class WindowBegins, class SliceBegins, class Group, class SliceEnds>
void walk(const std::uint32_t* code, std::int64_t begin, std::int64_t end, WindowBegins window_begins,
          SliceBegins slice_begins, Group group, SliceEnds slice_ends) {
  for (std::int64_t first = begin; first < end; first += window) {
    const bool permuted = *code++ != 0;
    window_begins(first, permuted ? reinterpret_cast<const unsigned char*>(code) : nullptr);
    if (permuted) code += order_words;
    const std::int64_t rows = std::min<std::int64_t>(window, end - first);
    for (std::int64_t s = 0; s < rows; s += height) {
      ChunkHeader header;
      bool first_chunk = true;
      do {
        header = read_header(code);
        code += header_words;
        if (first_chunk) slice_begins(s, header.live);
        first_chunk = false;
        for (int kind = 0; kind < kinds; ++kind)
          for (int g = 0; g < header.groups[kind]; ++g) {
            group(static_cast<Kind>(kind), code, header.live);
            code += group_words[kind];
          }
      } while (!header.last);
      slice_ends();
    }
  }
}

// The same with slot(columns, mask, values) for all slots.
template <class Values, class WindowBegins, class SliceBegins, class Slot, class SliceEnds>
void decode(const std::uint32_t* code, Values values, std::int64_t begin, std::int64_t end,
            WindowBegins window_begins, SliceBegins slice_begins, Slot slot, SliceEnds slice_ends) {
  walk(
      code, begin, end, window_begins, slice_begins,
      [&](Kind kind, const std::uint32_t* words, unsigned live) {
        Decoded d = read_group(kind, words);
        for (int j = 0; j < d.run; ++j) {
          slot(d.col, d.mask & live, values);
          values += height;
          for (auto& c : d.col) ++c;
        }
      },
      slice_ends);
}

// What is known of a group without decoding it: its slots and, for all kinds except wide, the largest possible distance
// of the columns of its first slot from the base.
struct Reach {
  int run;
  std::int64_t span;
};
inline Reach reach(Kind kind, const std::uint32_t* code) {
  switch (kind) {
    case contiguous:
      return {1, height - 1};
    case pair:
      return {static_cast<int>(code[2] >> 24), (code[2] & 0xffff) + 7};
    case quad:
      return {static_cast<int>(code[4]), std::max({code[2] & 0xffff, code[2] >> 16, code[3] & 0xffff}) + 7};
    case near:
      return {1, 255};
    default:
      return {1, 65535};
  }
}

// The rule by which the slots of a slice were filled, from which the sources of their values follow. The
// slots are numbered in the order in which they were made; the code stores them by kind. For each slice
// `places` holds a byte rule | size << 2, then for each group of its code, in order, the number of its first
// slot in `size` bytes (1, 2 or 4). Within a run the numbers increase by one.
//   by_rank         slot k has the k-th entry of each row
//   full_then_rank  first the diagonals that all rows have (the contiguous slots), then the other entries by
//                   rank
//   by_diagonal     one slot for each diagonal column - lane that some row has, in ascending order
enum Rule : unsigned char { by_rank, full_then_rank, by_diagonal };

// Words of code, slots and bytes of places of a stretch of windows.
struct Extent {
  std::int64_t words = 0, slots = 0, places = 0;
  Extent& operator+=(const Extent& other) {
    return words += other.words, slots += other.slots, places += other.places, *this;
  }
  bool operator==(const Extent&) const = default;
};

enum class Order : unsigned char { automatic, natural, sorted };

// The source of a stored value that is padding.
constexpr std::uint32_t no_source = 0xffffffff;

// Writes the values of the windows of rows begin .. end - 1 from the values of the matrix, without a search for
// columns. The pattern must be the one that was encoded.
void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const double* from, std::int64_t begin, std::int64_t end, double* values);
void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const float* from, std::int64_t begin, std::int64_t end, float* values);
// The same rounded to float.
void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const double* from, std::int64_t begin, std::int64_t end, float* values);
// The same with bytes: places in a table, in which place 0 is 0.
void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const std::uint8_t* from, std::int64_t begin, std::int64_t end, std::uint8_t* values);

// Larger than every column of a matrix.
constexpr std::int32_t no_column = 0x7fffffff;

struct Slot {
  std::array<std::int32_t, height> col;  // any number if its bit of the mask is 0
  unsigned mask;
};

// Up to four stretches of eight columns, ascending, that hold the columns of a slot. The last may be moved
// down so that it ends at the end of x.
struct Stretches {
  // 0; or the distance to an earlier slot whose stretches, moved by this many columns, are the stretches of this slot.
  // Then only `follows` of the other members is written.
  std::int32_t after;
  std::array<std::int32_t, 4> start;  // those not needed equal the last that is
  std::uint32_t index;        // 4 bits a lane: 8 for the second of a pair, and the place in the stretch
  std::uint32_t second_pair;  // lanes of the last two
  int count;
  bool covered;     // the stretches hold all lanes
  bool at_the_end;  // a stretch was moved because of the end of x
  bool contiguous;  // all eight lanes, each one higher than the one before
  bool follows;     // the slot before has the same mask and columns lower by one
};

// Slot k gets the k-th column of each row. Entry -1 of a row without entries is read, but not used.
void slots_by_rank(const std::int32_t* const* columns, const std::int32_t* length, std::int32_t slots,
                   Slot* out);
// Requires cols >= 8.
void find_stretches(const Slot* slots, std::size_t count, std::int64_t cols, Stretches* out);

// Encodes one window after another. The result depends on the pattern alone. Each thread has its own encoder.
class Encoder {
 public:
  // ordered: slots are made and stored so that each row is summed in ascending order of its columns.
  Encoder(const SparsityPattern& pattern, Order order, bool ordered = false)
      : pattern_(pattern), order_(order), ordered_(ordered), known_(shapes) {}

  // Encodes rows first .. min(first + 256, rows) - 1. What the members below return stays valid until the
  // next call.
  void encode(std::int64_t first);
  const std::vector<std::uint32_t>& code() const { return best_->code; }
  const std::vector<unsigned char>& places() const { return best_->places; }
  std::int64_t slots() const { return best_->slots; }

 private:
  struct Result {
    std::vector<std::uint32_t> code;
    std::vector<unsigned char> places;
    std::int64_t slots = 0;
    double cost = 0;
  };
  struct Group {
    Kind kind;
    int first, run;  // slots
    std::array<std::uint32_t, 8> words;
  };
  // A slice in natural order, relative to its first row and entry. A slice with the same shape elsewhere in
  // the matrix gets the same code with other bases.
  struct Shape {
    std::array<std::uint32_t, height> ends{};  // of the rows, counted in entries
    std::vector<std::int32_t> columns;
    std::vector<std::uint32_t> code, bases;  // bases: which words of code are columns
    std::vector<unsigned char> places;
    std::int64_t slots = 0;
    std::int64_t reach = 0;  // columns needed after the slice's first row
    double cost = 0;
  };
  static constexpr std::size_t shapes = 512;

  void encode_rows(std::int64_t first, int rows, const unsigned char* order, Result& result);
  void encode_natural_slice(std::int64_t row, Result& result);
  static void learn_shape(Shape& shape, std::int64_t row);
  double encode_slice(const std::array<std::int64_t, height>& rows, bool natural, Result& result);
  double least_cost_by_rank() const;
  void keep_all_rows();
  void add_all_by_rank();
  bool take_full_diagonals();
  bool add_slots_by_diagonal();
  void add_slots_by_rank();
  void fill_padding(Slot& slot) const;
  double group_slots();  // returns the cost
  void classify(int slot, Group& group);
  bool extends(const Group& group, int slot);
  bool sorting_saves_slots(int rows, const std::array<std::int64_t, window>& length, std::int64_t longest);
  bool sorting_pays(std::int64_t first, int rows, const std::array<std::int64_t, window>& length,
                    const std::array<unsigned char, window>& order);
  void encode_rows_of_slice(std::int64_t first, int rows, int s, const unsigned char* order, Result& result);
  double sampled_cost(std::int64_t first, int rows, const unsigned char* order);
  void number_by_diagonal();
  std::size_t take_in_order(std::size_t next);
  void emit(unsigned live, Rule rule, Result& result);

  const SparsityPattern pattern_;
  Order order_;
  bool ordered_;
  std::vector<Shape> known_;
  Result natural_, sorted_, sample_;
  const Result* best_ = nullptr;
  // One slice
  std::array<const std::int32_t*, height> columns_{};
  std::array<std::int64_t, height> length_{};
  std::array<std::vector<std::int32_t>, height> rest_;  // positions in the row not yet in a slot
  std::vector<Slot> slots_, other_slots_;
  std::vector<Stretches> stretches_;
  std::vector<Group> groups_, other_groups_;
  std::array<std::vector<int>, kinds> of_kind_;
  std::vector<int> sequence_;  // ordered: groups in the order of their slots
  std::vector<std::int32_t> full_;
  std::vector<std::uint32_t> number_;
  std::vector<int> place_;
  std::int64_t hits_ = 0, misses_ = 0;
  bool at_the_end_ = false;  // the end of x changed a code of this slice
};

// One part of a product: whole windows, rows begin .. end - 1. V: what values are stored as. Products are in double or
// in the same type.
template <class V>
struct Part {
  const std::uint32_t* code;
  ValuesPointer<V> values;
  std::int64_t begin, end;
  // entries: the lanes of each slot of an ordered code that hold entries. ordered: add as in deterministic
  // mode: fused, nothing if there is no entry, no dot product.
  const unsigned char* entries;
  bool ordered;
};

// y := alpha A x + beta y for the rows of a part; returns x . y of those rows when `with_dot`, else 0.
double product(const Part<double>& part, double alpha, const double* x, double beta, double* y,
               bool with_dot);
float product(const Part<float>& part, float alpha, const float* x, float beta, float* y, bool with_dot);
double product(const Part<float>& part, double alpha, const double* x, double beta, double* y, bool with_dot);
double product(const Part<std::uint8_t>& part, double alpha, const double* x, double beta, double* y,
               bool with_dot);

}  // namespace protean::formats::packed
