// Products of sell-packed with several vectors, compiled for each instruction set by Highway. See multi_rows.hpp.
#include <type_traits>
#include <vector>

#include "formats/simd.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/compressed/sell_packed_multi.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/compressed/sell_packed_layout.hpp"
#include "formats/compressed/sell_packed_multi.hpp"
#include "formats/engines/several/multi_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::packed {
namespace HWY_NAMESPACE {
namespace {

using namespace formats::HWY_NAMESPACE;
using lanes::HWY_NAMESPACE::few_widths;

// The position of a reader of sell-packed.
template <class V>
struct PackedPlace {
  const std::uint32_t* code;
  ValuesPointer<V> values;
  const unsigned char* entries;
};

// The groups of a slice and where their values lie. Decoded once for all vectors, apart from the sums, which are
// compiled for many numbers of vectors.
template <class T>
struct DecodedSlice {
  std::vector<Decoded> groups;  // mask: also without the rows that have ended
  const T* values = nullptr;
  std::vector<T> widened;                  // the values, if they are not stored as T
  const unsigned char* entries = nullptr;  // for each slot, in deterministic mode
};

// Reads a slice and moves `at` behind it.
template <class T, class V>
HWY_NOINLINE void decode_slice(bool ordered, PackedPlace<V>& at, DecodedSlice<T>& slice) {
  const ValuesPointer<V> first = at.values;
  std::int64_t count = 0;
  slice.groups.clear(), slice.entries = at.entries;
  for (bool last = false; !last;) {
    const ChunkHeader header = read_header(at.code);
    at.code += header_words, last = header.last;
    for (int kind = 0; kind < kinds; ++kind)
      for (int g = 0; g < header.groups[static_cast<std::size_t>(kind)]; ++g) {
        slice.groups.push_back(read_group(static_cast<Kind>(kind), at.code));
        Decoded& group = slice.groups.back();
        group.mask &= header.live;
        at.code += group_words[static_cast<std::size_t>(kind)];
        count += group.run * height, at.entries += ordered ? group.run : 0;
      }
  }
  at.values += count;
  if constexpr (std::is_same_v<T, V>) {
    slice.values = first;
  } else {
    slice.widened.resize(static_cast<std::size_t>(count)), slice.values = slice.widened.data();
    for (std::int64_t k = 0; k < count; ++k) slice.widened[static_cast<std::size_t>(k)] = first[k];
  }
}

// Adds the slots of a slice to the sums of its rows, for W vectors from `first` on.
template <class How, int W, class T>
HWY_INLINE void packed_slice(const MultiTask<T>& t, std::int64_t first, const DecodedSlice<T>& slice,
                             Lanes<T, W>* sums) {
  const T* values = slice.values;
  const unsigned char* entries = slice.entries;
  for (const Decoded& group : slice.groups)
    for (int j = 0; j < group.run; ++j, values += height) {
      unsigned mask = group.mask;
      if constexpr (How::ordered) mask = *entries++;
      for (int l = 0; l < height; ++l)
        if (mask >> l & 1)
          add_entry<How>(t, values[l], group.col[static_cast<std::size_t>(l)] + j, first, sums[l]);
    }
}

template <class How, class T, class V>
void packed_rows(How, const Part<V>& part, const MultiTask<T>& t) {
  PackedPlace<V> at{part.code, part.values, part.entries};
  DecodedSlice<T> slice;
  for (std::int64_t top = part.begin; top < part.end; top += window) {
    const unsigned char* order = nullptr;
    if (*at.code++) order = reinterpret_cast<const unsigned char*>(at.code), at.code += order_words;
    const std::int64_t end = std::min<std::int64_t>(top + window, part.end);
    for (std::int64_t row = top; row < end; row += height) {
      decode_slice(How::ordered, at, slice);
      for_chunks<How::few_widths || few_widths>(t.columns, [&]<int W>(std::int64_t first) HWY_ATTR {
        Lanes<T, W> sums[height];
        for (Lanes<T, W>& sum : sums) sum = Lanes<T, W>::zero();
        packed_slice<How>(t, first, slice, sums);
        for (std::int64_t l = 0; l < height && row + l < end; ++l)
          finish_row<How>(t, order ? top + order[row - top + l] : row + l, first, sums[l]);
      });
    }
  }
}

template <class T, class V>
void packed_rows_of(const Part<V>& part, const MultiTask<T>& t) {
  with_how(t, [&](auto how) {
    if constexpr (decltype(how)::few_widths)  // registers of at most 256 bits
      packed::PROTEAN_NARROW::packed_rows(how, part, t);
    else
      packed_rows(how, part, t);
  });
}

void multi_f64(const Part<double>& part, const MultiTask<double>& t) { packed_rows_of(part, t); }
void multi_f32(const Part<float>& part, const MultiTask<float>& t) { packed_rows_of(part, t); }
void multi_f32_f64(const Part<float>& part, const MultiTask<double>& t) { packed_rows_of(part, t); }
void multi_table_f64(const Part<std::uint8_t>& part, const MultiTask<double>& t) { packed_rows_of(part, t); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace protean::formats::packed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats::packed {
namespace {
HWY_EXPORT(multi_f64);
HWY_EXPORT(multi_f32);
HWY_EXPORT(multi_f32_f64);
HWY_EXPORT(multi_table_f64);
}  // namespace

void multi_product(const Part<double>& part, const MultiTask<double>& task) {
  HWY_DYNAMIC_DISPATCH(multi_f64)(part, task);
}
void multi_product(const Part<float>& part, const MultiTask<float>& task) {
  HWY_DYNAMIC_DISPATCH(multi_f32)(part, task);
}
void multi_product(const Part<float>& part, const MultiTask<double>& task) {
  HWY_DYNAMIC_DISPATCH(multi_f32_f64)(part, task);
}
void multi_product(const Part<std::uint8_t>& part, const MultiTask<double>& task) {
  HWY_DYNAMIC_DISPATCH(multi_table_f64)(part, task);
}

}  // namespace protean::formats::packed
#endif
