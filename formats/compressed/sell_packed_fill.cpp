// Writes the values of CSR into sell-packed, by the rules by which its slots were made. See sell_packed_layout.hpp.
#include "formats/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/compressed/sell_packed_fill.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/compressed/sell_packed_layout.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::packed {
namespace HWY_NAMESPACE {
namespace {

// The rows of a slice. Entries are counted from the first of the window, so that 32 bits hold them.
struct Rows {
  std::uint32_t begin[height], length[height];
  std::uint32_t any;  // the number of some entry of the slice
};

// For each slot of a slice in natural order, the entry of each lane, counted from the first of the slice, or
// no_source. Slices with the same shape share one result.
class Sources {
 public:
  // col: the column of the slice's first entry; row: its first row.
  const std::uint32_t* of(int rule, const Rows& rows, const std::int32_t* col, std::int32_t row,
                          const std::uint32_t* code) {
    std::uint32_t entries = 0, slots = 0, hash = static_cast<std::uint32_t>(rule);
    for (int l = 0; l < height; ++l) {
      entries += rows.length[l], slots = std::max(slots, rows.length[l]);
      hash = (hash ^ rows.length[l]) * 0x85ebca6bu;
    }
    if (entries == 0) return nullptr;
    hash ^= static_cast<std::uint32_t>(col[0] - row) * 0x9e3779b1u;
    hash ^= static_cast<std::uint32_t>(col[entries / 2] - row) * 0x27d4eb2fu;
    Known& known = known_[(hash ^ hash >> 16) % shapes];
    std::uint32_t other_lengths = 0;
    for (int l = 0; l < height; ++l) other_lengths |= rows.length[l] ^ known.length[l];
    if (known.rule == rule && other_lengths == 0) {
      std::int32_t differ = 0;
      for (std::uint32_t k = 0; k < entries; ++k) differ |= (col[k] - row) ^ known.col[k];
      if (differ == 0) return known.of.data();
    }
    known.rule = rule;
    std::copy(rows.length, rows.length + height, known.length);
    known.col.resize(entries);
    for (std::uint32_t k = 0; k < entries; ++k) known.col[k] = col[k] - row;
    known.of.assign(std::size_t{slots} * height, no_source);
    if (rule == full_then_rank)
      FullThenRank(known, row, code);
    else
      ByDiagonal(known, slots);
    return known.of.data();
  }

 private:
  struct Known {
    int rule = -1;
    std::uint32_t length[height] = {};
    std::vector<std::int32_t> col;  // relative to the slice's first row
    std::vector<std::uint32_t> of;
  };
  static constexpr std::size_t shapes = 64;

  void FullThenRank(Known& known, std::int32_t row, const std::uint32_t* code) {
    full_.clear();
    // The contiguous slots are the full diagonals in ascending order. They may take several chunks.
    for (ChunkHeader header{}; !header.last;) {
      header = read_header(code);
      code += header_words;
      for (int kind = 0; kind < kinds; ++kind) {
        if (kind == contiguous)
          for (int g = 0; g < header.groups[kind]; ++g)
            full_.push_back(static_cast<std::int32_t>(code[g]) - row);
        code += header.groups[kind] * group_words[kind];
      }
    }
    const auto full = static_cast<std::uint32_t>(full_.size());
    full_.push_back(no_column);
    for (std::uint32_t l = 0, at = 0; l < height; ++l) {
      std::uint32_t next = 0, rest = full;
      // Without branches, because they could not be predicted.
      for (std::uint32_t k = 0; k < known.length[l]; ++k, ++at) {
        const std::uint32_t is_full = known.col[at] - static_cast<std::int32_t>(l) == full_[next];
        known.of[(is_full ? next : rest) * height + l] = at;
        next += is_full, rest += 1 - is_full;
      }
    }
  }

  void ByDiagonal(Known& known, std::uint32_t slots) {
    std::int32_t diagonal[height];
    std::uint32_t at[height], last[height];
    for (std::uint32_t l = 0, begin = 0; l < height; begin += known.length[l++]) {
      at[l] = last[l] = 0;
      diagonal[l] = no_column;
      if (known.length[l] == 0) continue;
      at[l] = begin, last[l] = begin + known.length[l] - 1;
      diagonal[l] = known.col[begin] - static_cast<std::int32_t>(l);
    }
    std::uint32_t* to = known.of.data();
    for (std::uint32_t s = 0; s < slots; ++s, to += height) {
      std::int32_t lowest = no_column;
      for (int l = 0; l < height; ++l) lowest = diagonal[l] < lowest ? diagonal[l] : lowest;
      for (int l = 0; l < height; ++l) {
        const bool taken = diagonal[l] == lowest && lowest != no_column, more = at[l] < last[l];
        to[l] = taken ? at[l] : no_source;
        at[l] += taken && more;
        const std::int32_t following = more ? known.col[at[l]] - l : no_column;
        diagonal[l] = taken ? following : diagonal[l];
      }
    }
  }

  Known known_[shapes];
  std::vector<std::int32_t> full_;
};

// Calls act(number of the first slot, run) for the groups of a slice, in order. Leaves code and places behind
// the slice.
template <class Act>
HWY_INLINE void ForEachGroup(const std::uint32_t*& code, const unsigned char*& places, int size, Act act) {
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

// Writes lines of `height` values. When the whole array does not fit the caches, the stores go past them, so
// that the old lines are not read first.
template <class T, bool past_caches>
struct Lines {
  T* to;
  template <class Value>
  HWY_INLINE void Put(Value value) {
    if constexpr (past_caches) {
      namespace hn = hwy::HWY_NAMESPACE;
      using D = hn::CappedTag<T, height>;
      alignas(64) T line[height];
      for (int l = 0; l < height; ++l) line[l] = value(l);
      for (std::size_t l = 0; l < height; l += hn::MaxLanes(D()))
        hn::Stream(hn::Load(D(), line + l), D(), to + l);
    } else {
      for (int l = 0; l < height; ++l) to[l] = value(l);
    }
    to += height;
  }
};

template <class T, bool past_caches, class RowPtr, class V>
void FillOf(const std::uint32_t* code, const unsigned char* places, const RowPtr* row_ptr,
            const SparsityPattern& pattern, const T* from, std::int64_t begin, std::int64_t end, V* values) {
  Lines<V, past_caches> lines{values};
  constexpr std::int64_t line = 64 / sizeof(T);
  Sources sources;
  for (std::int64_t first = begin; first < end; first += window) {
    const unsigned char* order = nullptr;
    if (*code++ != 0) order = reinterpret_cast<const unsigned char*>(code), code += order_words;
    const std::int64_t window_end = std::min<std::int64_t>(first + window, end),
                       next_end = std::min<std::int64_t>(window_end + window, end);
    // The hardware does not recognise eight rows in any order as a stream, so they are prefetched here.
    for (std::int64_t k = row_ptr[window_end]; k < row_ptr[next_end]; k += line) hwy::Prefetch(from + k);
    const std::int64_t entry = row_ptr[first];
    const T* window_from = from + entry;
    for (std::int64_t s = first; s < window_end; s += height) {
      Rows rows{};
      for (std::int64_t l = 0; l < height && s + l < window_end; ++l) {
        const std::int64_t row = order ? first + order[s - first + l] : s + l;
        const std::int64_t at = row_ptr[row];
        rows.begin[l] = static_cast<std::uint32_t>(at - entry);
        rows.length[l] = static_cast<std::uint32_t>(row_ptr[row + 1] - at);
        if (rows.length[l] > 0) rows.any = rows.begin[l];
      }
      const int rule = *places & 3, size = *places >> 2;
      ++places;
      if (rule == by_rank) {
        ForEachGroup(code, places, size, [&](std::uint32_t number, std::uint32_t run) HWY_ATTR {
          for (; run > 0; --run, ++number)
            lines.Put([&](int l) HWY_ATTR {
              const bool stored = number < rows.length[l];
              const auto value = static_cast<V>(window_from[stored ? rows.begin[l] + number : rows.any]);
              return stored ? value : V(0);
            });
        });
        continue;
      }
      const T* slice_from = from + row_ptr[s];
      const std::uint32_t* source_of =
          sources.of(rule, rows, pattern.col + row_ptr[s], static_cast<std::int32_t>(s), code);
      ForEachGroup(code, places, size, [&](std::uint32_t number, std::uint32_t run) HWY_ATTR {
        for (const std::uint32_t* source = source_of + std::size_t{number} * height; run > 0;
             --run, source += height)
          lines.Put([&](int l) HWY_ATTR {
            const bool stored = source[l] != no_source;
            const auto value = static_cast<V>(slice_from[stored ? source[l] : 0]);
            return stored ? value : V(0);
          });
      });
    }
  }
}

template <class T, class V>
void Fill(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
          const T* from, std::int64_t begin, std::int64_t end, V* to) {
  // More than second-level caches hold. Eight bytes are less than a store past the caches writes.
  constexpr bool wide = sizeof(V) > 1;
  const bool past_caches =
      wide &&
      (pattern.row_ptr[end] - pattern.row_ptr[begin]) * static_cast<std::int64_t>(sizeof(V)) > 4 << 20;
  pattern.row_ptr.visit([&](auto* row_ptr) HWY_ATTR {
    if (past_caches)
      FillOf<T, wide>(code, places, row_ptr, pattern, from, begin, end, to);
    else
      FillOf<T, false>(code, places, row_ptr, pattern, from, begin, end, to);
  });
  if (past_caches) hwy::FlushStream();
}
void FillF64(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
             const double* from, std::int64_t begin, std::int64_t end, double* to) {
  Fill(code, places, pattern, from, begin, end, to);
}
void FillF32(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
             const float* from, std::int64_t begin, std::int64_t end, float* to) {
  Fill(code, places, pattern, from, begin, end, to);
}
void FillF64F32(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                const double* from, std::int64_t begin, std::int64_t end, float* to) {
  Fill(code, places, pattern, from, begin, end, to);
}
void FillU8(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
            const std::uint8_t* from, std::int64_t begin, std::int64_t end, std::uint8_t* to) {
  Fill(code, places, pattern, from, begin, end, to);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace protean::formats::packed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats::packed {
HWY_EXPORT(FillF64);
HWY_EXPORT(FillF32);
HWY_EXPORT(FillF64F32);
HWY_EXPORT(FillU8);

void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const double* from, std::int64_t begin, std::int64_t end, double* values) {
  HWY_DYNAMIC_DISPATCH(FillF64)(code, places, pattern, from, begin, end, values);
}
void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const float* from, std::int64_t begin, std::int64_t end, float* values) {
  HWY_DYNAMIC_DISPATCH(FillF32)(code, places, pattern, from, begin, end, values);
}
void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const double* from, std::int64_t begin, std::int64_t end, float* values) {
  HWY_DYNAMIC_DISPATCH(FillF64F32)(code, places, pattern, from, begin, end, values);
}
void fill_values(const std::uint32_t* code, const unsigned char* places, const SparsityPattern& pattern,
                 const std::uint8_t* from, std::int64_t begin, std::int64_t end, std::uint8_t* values) {
  HWY_DYNAMIC_DISPATCH(FillU8)(code, places, pattern, from, begin, end, values);
}
}  // namespace protean::formats::packed
#endif
