// The values of sell-packed from those of CSR, by the rules that its slots were made by. See
// sell_packed_layout.hpp.
#include <limits>

#include "formats/compressed/sell_packed_layout.hpp"

namespace protean::formats::packed {
namespace {

constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();

// The rows of a slice. Entries are counted from the window's first, so that 32 bits hold them.
struct Rows {
  const std::int32_t* col;  // of the window's first entry
  std::array<std::uint32_t, height> begin, length;
  std::uint32_t any;  // some entry of the slice
};

// For each slot in the order of its number and each lane its entry, or no_source.
class Sources {
 public:
  const std::uint32_t* slot(std::size_t number) const { return &of_[number * height]; }

  void full_then_rank(const Rows& rows, const std::uint32_t* code, std::size_t slots) {
    full_.clear();
    // The contiguous slots are the full diagonals in ascending order, in as many chunks as they need.
    for (ChunkHeader header{}; !header.last;) {
      header = read_header(code);
      code += header_words;
      for (int kind = 0; kind < kinds; ++kind) {
        if (kind == contiguous)
          for (int g = 0; g < header.groups[kind]; ++g) full_.push_back(static_cast<std::int32_t>(code[g]));
        code += header.groups[kind] * group_words[kind];
      }
    }
    const auto full = static_cast<std::uint32_t>(full_.size());
    full_.push_back(none);
    of_.assign(slots * height, no_source);
    for (int l = 0; l < height; ++l) {
      const std::int32_t* col = rows.col + rows.begin[l];
      std::uint32_t next = 0, rest = full;
      // Without branches, which nothing could predict.
      for (std::uint32_t k = 0; k < rows.length[l]; ++k) {
        const std::uint32_t is_full = col[k] - l == full_[next];
        const std::uint32_t number = is_full ? next : rest;
        of_[number * height + static_cast<std::uint32_t>(l)] = rows.begin[l] + k;
        next += is_full, rest += 1 - is_full;
      }
    }
  }

  void by_diagonal(const Rows& rows, std::size_t slots) {
    of_.resize(slots * height);
    std::array<std::int32_t, height> diagonal;
    std::array<std::uint32_t, height> at, last;
    for (int l = 0; l < height; ++l) {
      at[l] = last[l] = rows.any;
      diagonal[l] = none;
      if (rows.length[l] == 0) continue;
      at[l] = rows.begin[l], last[l] = rows.begin[l] + rows.length[l] - 1;
      diagonal[l] = rows.col[at[l]] - l;
    }
    std::uint32_t* to = of_.data();
    for (std::size_t s = 0; s < slots; ++s, to += height) {
      const std::int32_t lowest = *std::min_element(diagonal.begin(), diagonal.end());
      for (int l = 0; l < height; ++l) {
        const bool taken = diagonal[l] == lowest, more = at[l] < last[l];
        to[l] = taken ? at[l] : no_source;
        at[l] += taken && more;
        const std::int32_t following = more ? rows.col[at[l]] - l : none;
        diagonal[l] = taken ? following : diagonal[l];
      }
    }
  }

 private:
  std::vector<std::int32_t> full_;
  std::vector<std::uint32_t> of_;
};

// act(number of the first slot, run) for the groups of a slice, in order; moves code and places behind it.
template <class Act>
void for_each_group(const std::uint32_t*& code, const unsigned char*& places, int size, Act act) {
  ChunkHeader header;
  do {
    header = read_header(code);
    code += header_words;
    for (int kind = 0; kind < kinds; ++kind)
      for (int g = 0; g < header.groups[kind]; ++g, code += group_words[kind], places += size) {
        std::uint32_t number = places[0];
        for (int byte = 1; byte < size; ++byte)
          number |= static_cast<std::uint32_t>(places[byte]) << 8 * byte;
        act(number, kind == pair ? code[2] >> 24 : kind == quad ? code[4] : 1);
      }
  } while (!header.last);
}

std::size_t count_slots(const std::uint32_t* code, const unsigned char* places, int size) {
  std::size_t slots = 0;
  for_each_group(code, places, size, [&](std::uint32_t, std::uint32_t run) { slots += run; });
  return slots;
}

template <class T>
void fill(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
          const T* from, std::int64_t begin, std::int64_t end, T* to) {
  Sources sources;
  for (std::int64_t first = begin; first < end; first += window) {
    const unsigned char* order = nullptr;
    if (*code++ != 0) order = reinterpret_cast<const unsigned char*>(code), code += order_words;
    const std::int64_t entry = pattern.row_ptr[first];
    const T* window_from = from + entry;
    const std::int64_t window_rows = std::min<std::int64_t>(window, end - first);
    for (std::int64_t s = 0; s < window_rows; s += height) {
      Rows rows{pattern.col + entry, {}, {}, 0};
      for (std::int64_t l = 0; l < height && s + l < window_rows; ++l) {
        const std::int64_t row = first + (order ? order[s + l] : s + l), at = pattern.row_ptr[row];
        rows.begin[l] = static_cast<std::uint32_t>(at - entry);
        rows.length[l] = static_cast<std::uint32_t>(pattern.row_ptr[row + 1] - at);
        if (rows.length[l] > 0) rows.any = rows.begin[l];
      }
      const int rule = *places & 3, size = *places >> 2;
      ++places;
      if (rule == by_rank) {
        for_each_group(code, places, size, [&](std::uint32_t number, std::uint32_t run) {
          for (; run > 0; --run, ++number, to += height)
            for (int l = 0; l < height; ++l) {
              const bool stored = number < rows.length[l];
              const T value = window_from[stored ? rows.begin[l] + number : rows.any];
              to[l] = stored ? value : T(0);
            }
        });
        continue;
      }
      const std::size_t slots = count_slots(code, places, size);
      if (rule == full_then_rank)
        sources.full_then_rank(rows, code, slots);
      else
        sources.by_diagonal(rows, slots);
      for_each_group(code, places, size, [&](std::uint32_t number, std::uint32_t run) {
        for (const std::uint32_t* source = sources.slot(number); run > 0;
             --run, source += height, to += height)
          for (int l = 0; l < height; ++l) {
            const bool stored = source[l] != no_source;
            const T value = window_from[stored ? source[l] : rows.any];
            to[l] = stored ? value : T(0);
          }
      });
    }
  }
}

}  // namespace

void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const double* from, std::int64_t begin, std::int64_t end, double* values) {
  fill(code, places, pattern, from, begin, end, values);
}
void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const float* from, std::int64_t begin, std::int64_t end, float* values) {
  fill(code, places, pattern, from, begin, end, values);
}

}  // namespace protean::formats::packed
