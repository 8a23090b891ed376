// The steps of device_levels.hpp, over a Work that runs them: on a GPU (device_levels.cu) or on the simulated device
// (device_levels.cpp). Work has
//   context                                the ContextPtr
//   each(n, f)                             f(i) for i in 0 .. n - 1, in any order
//   rows(n, lanes, f)                      f(i, own), where `own` are the lanes of a warp that share i
//   tables(n, lanes, size, f)              f(i, own, table), with a table of so many numbers for each group of lanes:
//                                          -1 at first, and left so by f
//   sum(n, result, f)                      result := the sum of f(i), in a fixed order
//   sum_rows(n, lanes, result, f)          the same of f(i, own), whose lanes return the same
//   largest(n, result, f)                  result := the largest f(i) >= 0
//   fold(n, before, after, f)              after := the best f(e, pivot), pivot the best of `before` (EliminateEntry)
//   scan(data, n)                          data[i] := data[0] + ... + data[i - 1]
//   sort(keys, items, n, bits)             pairs by their keys, stable
//   fill(data, n, byte)
// All are queued; read() waits. Private to preconditioners/.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/host_device.hpp"
#include "core/transfer.hpp"
#include "preconditioners/aggregates.hpp"
#include "preconditioners/device_levels.hpp"
#include "preconditioners/prolongator.hpp"

#if defined(__CUDACC__)
#define PROTEAN_ON_DEVICE __device__
#else
#define PROTEAN_ON_DEVICE
#endif

namespace protean::detail::levels {

using Count = unsigned long long;

// What threads do to a number that they share. The results do not depend on their order, but for take().
PROTEAN_HOST_DEVICE inline void raise(unsigned* flags, unsigned more) {
#if defined(__CUDA_ARCH__)
  atomicOr(flags, more);
#else
  *flags |= more;
#endif
}
PROTEAN_HOST_DEVICE inline void raise_to(Count* number, Count least) {
#if defined(__CUDA_ARCH__)
  atomicMax(number, least);
#else
  if (*number < least) *number = least;
#endif
}
PROTEAN_HOST_DEVICE inline void lower_to(Count* number, Count most) {
#if defined(__CUDA_ARCH__)
  atomicMin(number, most);
#else
  if (*number > most) *number = most;
#endif
}
PROTEAN_HOST_DEVICE inline std::int32_t take(std::int32_t* counter) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(counter, 1);
#else
  return (*counter)++;
#endif
}
// Writes key where there is none (-1). Returns what was there.
PROTEAN_HOST_DEVICE inline std::int32_t claim(std::int32_t* place, std::int32_t key) {
#if defined(__CUDA_ARCH__)
  return atomicCAS(place, -1, key);
#else
  const std::int32_t was = *place;
  if (was < 0) *place = key;
  return was;
#endif
}
// What other lanes may just have changed by one of these.
PROTEAN_HOST_DEVICE inline std::int32_t seen(const std::int32_t* where) {
#if defined(__CUDA_ARCH__)
  return *const_cast<const volatile std::int32_t*>(where);
#else
  return *where;
#endif
}

PROTEAN_HOST_DEVICE inline double size_of(double a) { return a < 0 ? -a : a; }
template <class T>
PROTEAN_HOST_DEVICE inline bool is_finite(T a) {
  return a - a == T(0);
}
PROTEAN_HOST_DEVICE inline Count bits_of(double size) { return std::bit_cast<Count>(size); }

// The first place from begin on whose number is `least` or more; end where there is none. The numbers ascend.
template <class Number, class Place>
PROTEAN_HOST_DEVICE inline Place lower_bound(const Number* numbers, Place begin, Place end, Number least) {
  while (begin < end) {
    const Place middle = begin + (end - begin) / 2;
    if (numbers[middle] < least)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

// `count` neighbouring threads of a warp; on the simulated device one.
template <int lanes>
struct Lanes {
  int id = 0;
  unsigned mask = 1;
  static constexpr int count = lanes;
  PROTEAN_HOST_DEVICE void sync() const {
#if defined(__CUDA_ARCH__)
    if constexpr (lanes > 1) __syncwarp(mask);
#endif
  }
  // In all lanes, in a fixed order.
  template <class Number>
  PROTEAN_HOST_DEVICE Number sum(Number value) const {
#if defined(__CUDA_ARCH__)
    for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step, lanes);
#endif
    return value;
  }
  PROTEAN_HOST_DEVICE Count largest(Count value) const {
#if defined(__CUDA_ARCH__)
    for (int step = lanes / 2; step > 0; step /= 2) {
      const Count other = __shfl_xor_sync(mask, value, step, lanes);
      value = value > other ? value : other;
    }
#endif
    return value;
  }
};

struct NodesView {
  const std::int32_t *first, *of;
  std::int32_t size;
  PROTEAN_HOST_DEVICE std::int32_t node(std::int64_t row) const {
    return of ? of[row] : static_cast<std::int32_t>(row) / size;
  }
  PROTEAN_HOST_DEVICE std::int64_t begin(std::int64_t node) const {
    return first ? first[node] : node * size;
  }
  // Each row is a node.
  PROTEAN_HOST_DEVICE bool single() const { return !first && size == 1; }
};
inline NodesView view_of(const DeviceNodes& nodes) {
  return {nodes.first.data(), nodes.of.data(), nodes.size};
}

template <class T>
struct MatrixView {
  const std::int32_t *ptr, *col;
  const T* values;
};
template <class T>
MatrixView<T> view_of(const CsrMatrix<T>& csr) {
  return {csr.pattern.row_ptr.p32, csr.pattern.col, csr.values};
}

// ---- The host's view of device memory.

template <class Work, class Number>
Number read(const Work& work, const Number* where) {
  Number value{};
  copy_bytes(*work.context, &value, Space::host, where, Space::device, sizeof value);
  return value;
}
template <class Number, class Work>
Buffer<Number> zeros(const Work& work, std::int64_t size) {
  Buffer<Number> made(work.context, size);
  work.fill(made.data(), size, 0);
  return made;
}

struct PatternArrays {
  Buffer<std::int32_t> ptr, col;
};
inline SparsityPattern pattern_of(std::int64_t rows, std::int64_t cols, Buffer<std::int32_t> ptr,
                                  Buffer<std::int32_t> col) {
  auto arrays = std::make_shared<PatternArrays>(PatternArrays{std::move(ptr), std::move(col)});
  SparsityPattern made;
  made.rows = rows, made.cols = cols, made.nonzeros = arrays->col.size();
  made.row_ptr.p32 = arrays->ptr.data(), made.col = arrays->col.data();
  made.space = Space::device, made.owner = std::move(arrays);
  return made;
}
template <class T>
CsrMatrix<T> matrix_in(const SparsityPattern& pattern, Buffer<T> values) {
  CsrMatrix<T> made;
  made.pattern = pattern;
  auto owned = std::make_shared<const Buffer<T>>(std::move(values));
  made.values = owned->data(), made.values_owner = std::move(owned);
  return made;
}

// Row pointers of these lengths (n + 1 numbers, of which the last needs no value), and the number of entries.
template <class Work>
std::pair<Buffer<std::int32_t>, std::int64_t> pointers(const Work& work, Buffer<std::int64_t>& lengths) {
  const std::int64_t size = lengths.size();
  work.scan(lengths.data(), size);
  const std::int64_t entries = read(work, lengths.data() + size - 1);
  if (entries > std::numeric_limits<std::int32_t>::max()) throw TooManyEntries();
  Buffer<std::int32_t> ptr(work.context, size);
  const std::int64_t* const from = lengths.data();
  std::int32_t* const to = ptr.data();
  work.each(size, [=] PROTEAN_ON_DEVICE(std::int64_t i) { to[i] = static_cast<std::int32_t>(from[i]); });
  return {std::move(ptr), entries};
}

// As many lanes as items, 1 to 32.
inline int lanes_for(std::int64_t items, std::int64_t rows) {
  int lanes = 1;
  while (lanes < 32 && 2 * lanes * rows <= items) lanes *= 2;
  return lanes;
}

// ---- Rows that are unions of columns.

// The keys of a row: their number, the places where they are, and the places, by hashes. Up to most + 1 + lanes keys
// are taken, so there are more places than that.
struct RowTable {
  std::int32_t *counter, *list, *keys;
  std::int32_t most, places;

  static constexpr std::int32_t head = 32;
  static std::int64_t size(std::int64_t most, std::int64_t places) { return head + most + places; }
  static std::int32_t places_for(std::int64_t most, int lanes) {
    return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * (most + lanes))));
  }
  PROTEAN_HOST_DEVICE RowTable(std::int32_t* table, std::int32_t most_keys, std::int32_t key_places)
      : counter(table),
        list(table + head),
        keys(table + head + most_keys),
        most(most_keys),
        places(key_places) {}

  // The counter of an empty table is -1, as all of its memory.
  PROTEAN_HOST_DEVICE std::int32_t count() const { return seen(counter) + 1; }
  PROTEAN_HOST_DEVICE std::int32_t key(std::int32_t k) const { return seen(keys + list[k]); }
  // False where there are more than `most` keys.
  PROTEAN_HOST_DEVICE bool insert(std::int32_t key) const {
    const std::uint32_t last = static_cast<std::uint32_t>(places) - 1;
    std::uint32_t at = (static_cast<std::uint32_t>(key) * 2654435761u) >> 7 & last;
    for (;; at = (at + 1) & last) {
      std::int32_t there = seen(keys + at);
      if (there == key) return true;
      if (there >= 0) continue;
      if (count() > most) return false;
      there = claim(keys + at, key);
      if (there == key) return true;
      if (there >= 0) continue;
      const std::int32_t n = take(counter) + 1;
      if (n < most) list[n] = static_cast<std::int32_t>(at);
      return true;
    }
  }
  template <class Own>
  PROTEAN_HOST_DEVICE void clear(const Own& own) const {
    const std::int32_t n = count();
    own.sync();
    if (n <= most)
      for (std::int32_t k = own.id; k < n; k += Own::count) keys[list[k]] = -1;
    else
      for (std::int32_t k = own.id; k < places; k += Own::count) keys[k] = -1;
    if (own.id == 0) *counter = -1;
    own.sync();
  }
};

// Terms: row i has the columns key(q) >= 0 for all q of the ranges 0 .. count(i) - 1 of numbers q. Lanes share the
// ranges.
template <class Terms, class Own>
PROTEAN_HOST_DEVICE std::int32_t collect(const Terms& terms, std::int64_t i, const Own& own,
                                         const RowTable& table) {
  const std::int64_t count = terms.count(i);
  bool fits = true;
  for (std::int64_t k = own.id; fits && k < count; k += Own::count) {
    std::int64_t begin, end;
    terms.range(i, k, begin, end);
    for (std::int64_t q = begin; fits && q < end; ++q)
      if (const std::int32_t key = terms.key(q); key >= 0) fits = table.insert(key);
  }
  own.sync();
  return table.count();
}

template <class Terms>
struct CountRows {
  Terms terms;
  const std::int32_t* which;  // rows; null: all
  std::int32_t most, places;
  std::int64_t* lengths;
  std::int32_t* longer;  // rows that do not fit
  std::int32_t* longer_count;
  Count* most_keys;  // of these, or more

  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t at, const Own& own, std::int32_t* memory) const {
    const std::int64_t i = which ? which[at] : at;
    const RowTable table(memory, most, places);
    const std::int32_t found = collect(terms, i, own, table);
    if (found <= most) {
      if (own.id == 0) lengths[i] = found;
    } else {
      std::int64_t bound = 0;
      for (std::int64_t k = own.id; k < terms.count(i); k += Own::count) {
        std::int64_t begin, end;
        terms.range(i, k, begin, end);
        bound += end - begin;
      }
      bound = own.sum(bound);
      if (own.id == 0) {
        lengths[i] = 0, longer[take(longer_count)] = static_cast<std::int32_t>(i);
        raise_to(most_keys, static_cast<Count>(bound));
      }
    }
    table.clear(own);
  }
};

// Writes the columns of rows; those of listed rows are not sorted.
template <class Terms>
struct FillRows {
  Terms terms;
  const std::int32_t* which;
  std::int32_t most, places;
  const std::int32_t* ptr;
  std::int32_t* col;

  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t at, const Own& own, std::int32_t* memory) const {
    const std::int64_t i = which ? which[at] : at;
    const std::int32_t begin = ptr[i], length = ptr[i + 1] - begin;
    if (length == 0 || length > most) return;  // a longer row
    const RowTable table(memory, most, places);
    collect(terms, i, own, table);
    for (std::int32_t e = own.id; e < length; e += Own::count) {
      const std::int32_t key = table.key(e);
      std::int32_t place = e;
      if (!which) {
        place = 0;
        for (std::int32_t k = 0; k < length; ++k) place += table.key(k) < key;
      }
      col[begin + place] = key;
    }
    table.clear(own);
  }
};

// Sorts the columns of these rows.
template <class Work>
void sort_rows(const Work& work, const std::int32_t* which, std::int64_t count, const std::int32_t* ptr,
               std::int32_t* col) {
  Buffer<std::int64_t> begins(work.context, count + 1);
  std::int64_t* const begin = begins.data();
  work.each(count, [=] PROTEAN_ON_DEVICE(std::int64_t k) { begin[k] = ptr[which[k] + 1] - ptr[which[k]]; });
  work.scan(begin, count + 1);
  const std::int64_t size = read(work, begin + count);
  Buffer<std::uint64_t> keys(work.context, size);
  Buffer<std::int32_t> items(work.context, size);
  std::uint64_t* const key = keys.data();
  std::int32_t* const item = items.data();
  const auto entry = [=] PROTEAN_ON_DEVICE(std::int64_t p) {
    // The last row that begins at p or before.
    const std::int64_t k = lower_bound(begin, std::int64_t{0}, count, p + 1) - 1;
    key[p] =
        static_cast<std::uint64_t>(k) << 32 | static_cast<std::uint32_t>(col[ptr[which[k]] + p - begin[k]]);
    item[p] = 0;
  };
  work.each(size, entry);
  work.sort(key, item, size, 32 + std::bit_width(static_cast<std::uint64_t>(count)));
  work.each(size, [=] PROTEAN_ON_DEVICE(std::int64_t p) {
    const auto k = static_cast<std::int64_t>(key[p] >> 32);
    col[ptr[which[k]] + p - begin[k]] = static_cast<std::int32_t>(key[p] & 0xffffffffu);
  });
}

// mean: expected keys a row, with those that are there several times; count: expected ranges of a row.
template <class Work, class Terms>
SparsityPattern unite(const Work& work, std::int64_t rows, std::int64_t cols, const Terms& terms, double mean,
                      double count) {
  // Rows of more keys take larger tables, of which there are few.
  const auto most =
      static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp(mean, 16.0, 512.0))));
  const int lanes = lanes_for(static_cast<std::int64_t>(2 * count), 2);
  const std::int32_t places = RowTable::places_for(most, lanes);
  Buffer<std::int64_t> lengths(work.context, rows + 1);
  Buffer<std::int32_t> longer(work.context, rows), longer_count = zeros<std::int32_t>(work, 1);
  Buffer<Count> most_keys = zeros<Count>(work, 1);
  work.tables(rows, lanes, RowTable::size(most, places),
              CountRows<Terms>{terms, nullptr, most, places, lengths.data(), longer.data(),
                               longer_count.data(), most_keys.data()});
  const std::int64_t long_rows = rows > 0 ? read(work, longer_count.data()) : 0;
  std::int32_t long_most = 0, long_places = 0;
  if (long_rows > 0) {
    const auto bound =
        static_cast<std::int64_t>(std::min<Count>(read(work, most_keys.data()), static_cast<Count>(cols)));
    if (bound > std::int64_t{1} << 29) throw TooManyEntries();
    long_most = static_cast<std::int32_t>(bound);
    long_places = RowTable::places_for(long_most, 32);
    work.tables(long_rows, 32, RowTable::size(long_most, long_places),
                CountRows<Terms>{terms, longer.data(), long_most, long_places, lengths.data(), nullptr,
                                 nullptr, nullptr});
  }
  auto [ptr, entries] = pointers(work, lengths);
  lengths = Buffer<std::int64_t>();
  Buffer<std::int32_t> col(work.context, entries);
  work.tables(rows, lanes, RowTable::size(most, places),
              FillRows<Terms>{terms, nullptr, most, places, ptr.data(), col.data()});
  if (long_rows > 0) {
    work.tables(long_rows, 32, RowTable::size(long_most, long_places),
                FillRows<Terms>{terms, longer.data(), long_most, long_places, ptr.data(), col.data()});
    sort_rows(work, longer.data(), long_rows, ptr.data(), col.data());
  }
  return pattern_of(rows, cols, std::move(ptr), std::move(col));
}

// Row i of A B.
struct ProductTerms {
  const std::int32_t *a_ptr, *a_col, *b_ptr, *b_col;
  PROTEAN_HOST_DEVICE std::int64_t count(std::int64_t i) const { return a_ptr[i + 1] - a_ptr[i]; }
  PROTEAN_HOST_DEVICE void range(std::int64_t i, std::int64_t k, std::int64_t& begin,
                                 std::int64_t& end) const {
    const std::int32_t row = a_col[a_ptr[i] + k];
    begin = b_ptr[row], end = b_ptr[row + 1];
  }
  PROTEAN_HOST_DEVICE std::int32_t key(std::int64_t q) const { return b_col[q]; }
};
// The nodes of the columns of the rows of node I.
struct NodeTerms {
  NodesView nodes;
  const std::int32_t *ptr, *col;
  PROTEAN_HOST_DEVICE std::int64_t count(std::int64_t node) const {
    return nodes.begin(node + 1) - nodes.begin(node);
  }
  PROTEAN_HOST_DEVICE void range(std::int64_t node, std::int64_t k, std::int64_t& begin,
                                 std::int64_t& end) const {
    const std::int64_t row = nodes.begin(node) + k;
    begin = ptr[row], end = ptr[row + 1];
  }
  PROTEAN_HOST_DEVICE std::int32_t key(std::int64_t q) const { return nodes.node(col[q]); }
};
// The aggregates of node I and of its neighbours.
struct NearTerms {
  const std::int32_t *ptr, *col, *aggregate;
  std::int64_t entries;
  PROTEAN_HOST_DEVICE std::int64_t count(std::int64_t node) const { return 1 + ptr[node + 1] - ptr[node]; }
  PROTEAN_HOST_DEVICE void range(std::int64_t node, std::int64_t k, std::int64_t& begin,
                                 std::int64_t& end) const {
    begin = k == 0 ? entries + node : ptr[node] + k - 1, end = begin + 1;
  }
  PROTEAN_HOST_DEVICE std::int32_t key(std::int64_t q) const {
    return aggregate[q < entries ? col[q] : q - entries];
  }
};
// The columns of two patterns, the second of which follows the first.
struct UnionTerms {
  const std::int32_t *ptr, *col, *other_ptr, *other_col;
  std::int64_t entries;
  PROTEAN_HOST_DEVICE std::int64_t count(std::int64_t) const { return 2; }
  PROTEAN_HOST_DEVICE void range(std::int64_t i, std::int64_t k, std::int64_t& begin,
                                 std::int64_t& end) const {
    begin = k == 0 ? ptr[i] : entries + other_ptr[i], end = k == 0 ? ptr[i + 1] : entries + other_ptr[i + 1];
  }
  PROTEAN_HOST_DEVICE std::int32_t key(std::int64_t q) const {
    return q < entries ? col[q] : other_col[q - entries];
  }
};

template <class Work>
SparsityPattern product_pattern(const Work& work, const SparsityPattern& A, const SparsityPattern& B) {
  const auto mean = [](double entries, std::int64_t rows) {
    return rows > 0 ? entries / static_cast<double>(rows) : 0;
  };
  const double count = mean(static_cast<double>(A.nonzeros), A.rows),
               each = mean(static_cast<double>(B.nonzeros), B.rows);
  return unite(work, A.rows, B.cols, ProductTerms{A.row_ptr.p32, A.col, B.row_ptr.p32, B.col}, count * each,
               count);
}

// The row of each entry.
template <class Work>
Buffer<std::int32_t> rows_of_entries(const Work& work, const SparsityPattern& pattern) {
  Buffer<std::int32_t> rows(work.context, pattern.nonzeros);
  const std::int32_t* const ptr = pattern.row_ptr.p32;
  std::int32_t* const to = rows.data();
  work.each(pattern.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p) to[p] = static_cast<std::int32_t>(i);
  });
  return rows;
}

template <class Work>
SparsityPattern transpose(const Work& work, const SparsityPattern& pattern,
                          Buffer<std::int32_t>& transposition) {
  const std::int64_t size = pattern.nonzeros, rows = pattern.cols;
  Buffer<std::uint32_t> keys(work.context, size);
  transposition = Buffer<std::int32_t>(work.context, size);
  std::uint32_t* const key = keys.data();
  std::int32_t* const item = transposition.data();
  const std::int32_t* const from = pattern.col;
  work.each(size, [=] PROTEAN_ON_DEVICE(std::int64_t p) {
    key[p] = static_cast<std::uint32_t>(from[p]), item[p] = static_cast<std::int32_t>(p);
  });
  work.sort(key, item, size, std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows)))));
  Buffer<std::int32_t> ptr(work.context, rows + 1), col(work.context, size);
  std::int32_t *const to = ptr.data(), *const columns = col.data();
  work.each(rows + 1, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    to[i] = static_cast<std::int32_t>(lower_bound(key, std::int64_t{0}, size, static_cast<std::uint32_t>(i)));
  });
  const Buffer<std::int32_t> row = rows_of_entries(work, pattern);
  const std::int32_t* const rows_from = row.data();
  work.each(size, [=] PROTEAN_ON_DEVICE(std::int64_t p) { columns[p] = rows_from[item[p]]; });
  return pattern_of(rows, pattern.rows, std::move(ptr), std::move(col));
}

// ---- Values of products.

// Row i of A B: the entries of a row of B have different columns, so that lanes share them; those of A are taken one
// after another.
template <class T>
struct ProductRow {
  MatrixView<T> A, B;
  const std::int32_t *ptr, *col;
  T* values;

  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t i, const Own& own) const {
    const std::int32_t begin = ptr[i], end = ptr[i + 1];
    for (std::int32_t q = begin + own.id; q < end; q += Own::count) values[q] = 0;
    own.sync();
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const T a = A.values[p];
      const std::int32_t k = A.col[p];
      for (std::int32_t q = B.ptr[k] + own.id; q < B.ptr[k + 1]; q += Own::count)
        values[lower_bound(col, begin, end, B.col[q])] += a * B.values[q];
      own.sync();
    }
  }
};

template <class T, class Work>
CsrMatrix<T> product(const Work& work, const CsrMatrix<T>& A, const CsrMatrix<T>& B,
                     const SparsityPattern& pattern) {
  Buffer<T> values(work.context, pattern.nonzeros);
  work.rows(A.rows(), lanes_for(B.nonzeros(), B.rows()),
            ProductRow<T>{view_of(A), view_of(B), pattern.row_ptr.p32, pattern.col, values.data()});
  return matrix_in(pattern, std::move(values));
}

// ---- Couplings.

template <class T>
struct Couplings {
  NodesView nodes;
  MatrixView<T> A;
  const std::int32_t *ptr, *col;  // the nodes of the columns of each node
  double unit, square_of_strength;
  double* own;  // norms of diagonal blocks

  PROTEAN_HOST_DEVICE double square(std::int32_t p) const {
    const double a = static_cast<double>(A.values[p]) / unit;
    return a * a;
  }
  // The square of the norm of a block. at: the entry, where each row is a node.
  PROTEAN_HOST_DEVICE double square_of_block(std::int64_t node, std::int32_t other, std::int32_t at) const {
    if (nodes.single()) return square(at);
    const auto begin = static_cast<std::int32_t>(nodes.begin(other)),
               end = static_cast<std::int32_t>(nodes.begin(other + 1));
    double sum = 0;
    for (std::int64_t i = nodes.begin(node); i < nodes.begin(node + 1); ++i)
      for (std::int32_t p = lower_bound(A.col, A.ptr[i], A.ptr[i + 1], begin);
           p < A.ptr[i + 1] && A.col[p] < end; ++p)
        sum += square(p);
    return sum;
  }
  PROTEAN_HOST_DEVICE void find_own(std::int64_t node) const {
    double sum = 0;
    for (std::int32_t e = ptr[node]; e < ptr[node + 1]; ++e)
      if (col[e] == node) sum = square_of_block(node, static_cast<std::int32_t>(node), e);
    own[node] = std::sqrt(sum);
  }
  PROTEAN_HOST_DEVICE bool strong(std::int64_t node, std::int32_t e) const {
    const std::int32_t other = col[e];
    return other != node && square_of_block(node, other, e) > square_of_strength * own[node] * own[other];
  }
};

template <class Work>
bool is_symmetric(const Work& work, const SparsityPattern& pattern) {
  if (pattern.nonzeros == 0) return true;
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const one_sided = flag.data();
  const std::int32_t *const ptr = pattern.row_ptr.p32, *const col = pattern.col;
  work.each(pattern.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p) {
      const std::int32_t j = col[p], end = ptr[j + 1];
      const std::int32_t at = lower_bound(col, ptr[j], end, static_cast<std::int32_t>(i));
      if (at == end || col[at] != i) raise(one_sided, 1);
    }
  });
  return read(work, one_sided) == 0;
}

template <class T, class Work>
SparsityPattern one_sided_couplings(const Work& work, const Couplings<T>& c, std::int64_t nodes) {
  Buffer<std::int64_t> lengths(work.context, nodes + 1);
  std::int64_t* const length = lengths.data();
  work.each(nodes, [=] PROTEAN_ON_DEVICE(std::int64_t node) {
    std::int64_t count = 0;
    for (std::int32_t e = c.ptr[node]; e < c.ptr[node + 1]; ++e) count += c.strong(node, e);
    length[node] = count;
  });
  auto [ptr, entries] = pointers(work, lengths);
  Buffer<std::int32_t> col(work.context, entries);
  const std::int32_t* const begin = ptr.data();
  std::int32_t* const to = col.data();
  work.each(nodes, [=] PROTEAN_ON_DEVICE(std::int64_t node) {
    std::int32_t at = begin[node];
    for (std::int32_t e = c.ptr[node]; e < c.ptr[node + 1]; ++e)
      if (c.strong(node, e)) to[at++] = c.col[e];
  });
  return pattern_of(nodes, nodes, std::move(ptr), std::move(col));
}

// The nodes of the columns of each node, in which its couplings are looked for.
template <class T, class Work>
SparsityPattern node_pattern(const Work& work, const DeviceLevel<T>& level, const DeviceNodes& nodes) {
  const SparsityPattern& A = level.csr.pattern;
  if (view_of(nodes).single()) return A;
  const double count =
      static_cast<double>(A.rows) / static_cast<double>(std::max<std::int64_t>(nodes.count, 1));
  const double mean =
      static_cast<double>(A.nonzeros) / static_cast<double>(std::max<std::int64_t>(A.rows, 1));
  return unite(work, nodes.count, nodes.count, NodeTerms{view_of(nodes), A.row_ptr.p32, A.col}, mean, count);
}

// Prepares what does not depend on the strength; `own` has room for a number a node.
template <class T, class Work>
Couplings<T> couplings_of(const Work& work, const DeviceLevel<T>& level, const DeviceNodes& nodes,
                          const SparsityPattern& near, double* own) {
  const Couplings<T> made{view_of(nodes),
                          view_of(level.csr),
                          near.row_ptr.p32,
                          near.col,
                          std::max(level.largest, 1e-300),
                          0,
                          own};
  work.each(nodes.count, [=] PROTEAN_ON_DEVICE(std::int64_t node) { made.find_own(node); });
  return made;
}

template <class T, class Work>
SparsityPattern strong_couplings(const Work& work, Couplings<T> c, std::int64_t nodes, double strength) {
  c.square_of_strength = strength * strength;
  SparsityPattern one = one_sided_couplings(work, c, nodes);
  if (is_symmetric(work, one)) return one;
  Buffer<std::int32_t> unused;
  const SparsityPattern other = transpose(work, one, unused);
  return unite(work, nodes, nodes,
               UnionTerms{one.row_ptr.p32, one.col, other.row_ptr.p32, other.col, one.nonzeros},
               2 * static_cast<double>(one.nonzeros) / static_cast<double>(nodes), 2);
}

template <class Work>
bool mostly_alone(const Work& work, const SparsityPattern& couplings) {
  if (couplings.rows == 0) return false;
  Buffer<double> alone(work.context, 1);
  const std::int32_t* const ptr = couplings.row_ptr.p32;
  work.sum(couplings.rows, alone.data(),
           [=] PROTEAN_ON_DEVICE(std::int64_t i) { return ptr[i] == ptr[i + 1] ? 1.0 : 0.0; });
  return 2 * read(work, alone.data()) > static_cast<double>(couplings.rows);
}

// Whether the couplings are these, which are symmetric, without making them.
template <class T, class Work>
bool are_couplings(const Work& work, Couplings<T> c, double strength, const SparsityPattern& strong) {
  c.square_of_strength = strength * strength;
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const differs = flag.data();
  const std::int32_t *const ptr = strong.row_ptr.p32, *const col = strong.col;
  work.each(strong.rows, [=] PROTEAN_ON_DEVICE(std::int64_t node) {
    std::int32_t at = ptr[node];
    const std::int32_t end = ptr[node + 1];
    bool same = true;
    for (std::int32_t e = c.ptr[node]; e < c.ptr[node + 1]; ++e) {
      const bool expected = at < end && col[at] == c.col[e];
      same = same && c.strong(node, e) == expected;
      at += expected;
    }
    if (!same || at < end) raise(differs, 1);
  });
  return read(work, differs) == 0;
}

template <class Work>
bool same_pattern(const Work& work, const SparsityPattern& a, const SparsityPattern& b) {
  if (a.rows != b.rows || a.nonzeros != b.nonzeros) return false;
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const differs = flag.data();
  const std::int32_t *const ptr = a.row_ptr.p32, *const other_ptr = b.row_ptr.p32, *const col = a.col,
                            *const other_col = b.col;
  work.each(a.rows + 1, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    if (ptr[i] != other_ptr[i]) raise(differs, 1);
  });
  work.each(a.nonzeros, [=] PROTEAN_ON_DEVICE(std::int64_t p) {
    if (col[p] != other_col[p]) raise(differs, 1);
  });
  return read(work, differs) == 0;
}
// ---- Aggregates.

// Those of the nodes for which keep(i), in their order, and how many they are: count, in device memory.
template <class Work, class Keep>
void filter(const Work& work, Buffer<std::int32_t>& nodes, std::int64_t size, std::int32_t* count,
            Keep keep) {
  Buffer<std::int32_t> places(work.context, size + 1), kept(work.context, size);
  std::int32_t *const place = places.data(), *const to = kept.data();
  const std::int32_t* const from = nodes.data();
  work.each(size, [=] PROTEAN_ON_DEVICE(std::int64_t k) { place[k] = keep(from[k]) ? 1 : 0; });
  work.scan(place, size + 1);
  work.each(size + 1, [=] PROTEAN_ON_DEVICE(std::int64_t k) {
    if (k == size)
      *count = place[k];
    else if (place[k] != place[k + 1])
      to[place[k]] = from[k];
  });
  nodes = std::move(kept);
}

struct IsOpen {
  const std::uint64_t* key;
  PROTEAN_HOST_DEVICE bool operator()(std::int32_t i) const {
    return (key[i] & node_states) == undecided_node;
  }
};
struct IsNearOpen {
  IsOpen open;
  const std::int32_t *ptr, *col;
  PROTEAN_HOST_DEVICE bool operator()(std::int32_t i) const {
    if (open(i)) return true;
    for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p)
      if (open(col[p])) return true;
    return false;
  }
};

// The keys of all nodes, of which some have become roots; the others are 0. As roots_of() of aggregates.cpp.
template <class Work>
Buffer<std::uint64_t> roots_of(const Work& work, const SparsityPattern& graph) {
  const std::int64_t n = graph.rows;
  const std::int32_t *const ptr = graph.row_ptr.p32, *const col = graph.col;
  Buffer<std::uint64_t> keys(work.context, n), nearby(work.context, n), decided(work.context, n);
  Buffer<std::int32_t> open(work.context, n), relays(work.context, n), counts(work.context, 2);
  std::uint64_t *const key = keys.data(), *const near = nearby.data(), *const next = decided.data();
  const IsOpen is_open{key};
  const IsNearOpen is_near_open{is_open, ptr, col};
  std::int32_t *const first = open.data(), *const second = relays.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    key[i] = ptr[i] == ptr[i + 1] ? 0 : node_key(undecided_node, i);
    first[i] = second[i] = static_cast<std::int32_t>(i);
  });
  std::array<std::int32_t, 2> size{static_cast<std::int32_t>(n), static_cast<std::int32_t>(n)};
  for (;;) {
    filter(work, open, size[0], counts.data(), is_open);
    filter(work, relays, size[1], counts.data() + 1, is_near_open);
    copy_bytes(*work.context, size.data(), Space::host, counts.data(), Space::device, sizeof size);
    if (size[0] == 0) return keys;
    const std::int32_t *const opens = open.data(), *const relay = relays.data();
    work.each(size[1], [=] PROTEAN_ON_DEVICE(std::int64_t k) {
      const std::int32_t i = relay[k];
      std::uint64_t best = key[i];
      for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p) best = best < key[col[p]] ? key[col[p]] : best;
      near[i] = best;
    });
    work.each(size[0], [=] PROTEAN_ON_DEVICE(std::int64_t k) {
      const std::int32_t i = opens[k];
      std::uint64_t best = near[i];
      for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p) best = best < near[col[p]] ? near[col[p]] : best;
      next[i] = best == key[i] ? key[i] | root_node : (best & node_states) == root_node ? 0 : key[i];
    });
    work.each(size[0], [=] PROTEAN_ON_DEVICE(std::int64_t k) { key[opens[k]] = next[opens[k]]; });
  }
}

// The aggregate that most neighbours of a node without one belong to, of several the first.
struct JoinMost {
  const std::int32_t *ptr, *col, *near;
  std::int32_t* aggregate;
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t i, const Own& own) const {
    if (near[i] >= 0) return;
    Count best = 0;
    for (std::int32_t p = ptr[i] + own.id; p < ptr[i + 1]; p += Own::count) {
      const std::int32_t a = near[col[p]];
      if (a < 0) continue;
      Count count = 0;
      for (std::int32_t q = ptr[i]; q < ptr[i + 1]; ++q) count += near[col[q]] == a;
      const Count one = count << 32 | (0xffffffffu - static_cast<std::uint32_t>(a));
      best = best < one ? one : best;
    }
    best = own.largest(best);
    if (own.id == 0 && best > 0)
      aggregate[i] = static_cast<std::int32_t>(0xffffffffu - static_cast<std::uint32_t>(best & 0xffffffffu));
  }
};

template <class Work>
std::int64_t aggregate(const Work& work, const SparsityPattern& graph, Buffer<std::int32_t>& of) {
  const std::int64_t n = graph.rows;
  const std::int32_t *const ptr = graph.row_ptr.p32, *const col = graph.col;
  const Buffer<std::uint64_t> keys = roots_of(work, graph);
  Buffer<std::int32_t> numbers(work.context, n + 1), joined(work.context, n);
  of = Buffer<std::int32_t>(work.context, n);
  const std::uint64_t* const key = keys.data();
  std::int32_t *const number = numbers.data(), *const to = of.data(), *const near = joined.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) { number[i] = key[i] != 0; });
  work.scan(number, n + 1);
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    std::int32_t found = key[i] != 0 ? number[i] : -1;
    // Two roots have no common neighbour.
    for (std::int32_t p = ptr[i]; p < ptr[i + 1]; ++p)
      if (key[col[p]] != 0) found = number[col[p]];
    near[i] = to[i] = found;
  });
  work.rows(n, lanes_for(graph.nonzeros, 4 * n), JoinMost{ptr, col, near, to});
  return read(work, number + n);
}

// ---- The tentative prolongator.

// Aggregate a has the nodes members[ptr[a]] .. members[ptr[a + 1] - 1]. Q and R as orthogonalise() has them on a host;
// lanes share the nodes.
struct Orthogonalise {
  NodesView nodes;
  const std::int32_t *members, *ptr;
  const double* values;  // null: see DeviceNodes
  std::int64_t vectors;
  double *Q, *R;  // R: zeros
  std::int64_t* rank;

  template <class Own, class F>
  PROTEAN_HOST_DEVICE void each_row(std::int64_t a, const Own& own, const F& f) const {
    for (std::int32_t m = ptr[a] + own.id; m < ptr[a + 1]; m += Own::count)
      for (std::int64_t i = nodes.begin(members[m]); i < nodes.begin(members[m] + 1); ++i) f(i);
  }
  PROTEAN_HOST_DEVICE double value(std::int64_t row, std::int64_t k) const {
    return values ? values[row * vectors + k] : row % nodes.size == k ? 1.0 : 0.0;
  }
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t a, const Own& own) const {
    double *const r = R + a * vectors * vectors, *const q_of = Q;
    const std::int64_t n = vectors;
    std::int64_t kept = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      double before = 0;
      each_row(a, own, [&](std::int64_t i) {
        const double one = value(i, k);
        q_of[i * n + kept] = one, before += one * one;
      });
      before = own.sum(before);
      for (int pass = 0; pass < 2; ++pass)
        for (std::int64_t q = 0; q < kept; ++q) {
          double dot = 0;
          each_row(a, own, [&](std::int64_t i) { dot += q_of[i * n + q] * q_of[i * n + kept]; });
          dot = own.sum(dot);
          each_row(a, own, [&](std::int64_t i) { q_of[i * n + kept] -= dot * q_of[i * n + q]; });
          if (own.id == 0) r[q * n + k] += dot;
        }
      double after = 0;
      each_row(a, own, [&](std::int64_t i) { after += q_of[i * n + kept] * q_of[i * n + kept]; });
      after = own.sum(after);
      if (!(after > 1e-20 * before)) continue;  // it depends on the columns before
      const double norm = std::sqrt(after);
      each_row(a, own, [&](std::int64_t i) { q_of[i * n + kept] /= norm; });
      if (own.id == 0) r[kept * n + k] = norm;
      ++kept;
    }
    if (own.id == 0) rank[a] = kept;
  }
};

template <class Work>
void orthogonalise(const Work& work, const DeviceNodes& nodes, DeviceStructure& made) {
  const std::int64_t n = nodes.count, count = made.aggregates, vectors = nodes.vectors;
  Buffer<std::uint32_t> keys(work.context, n);
  Buffer<std::int32_t> members(work.context, n), begins(work.context, count + 1);
  std::uint32_t* const key = keys.data();
  std::int32_t *const member = members.data(), *const begin = begins.data();
  const std::int32_t* const of = made.aggregate.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    key[i] = static_cast<std::uint32_t>(of[i] < 0 ? count : of[i]), member[i] = static_cast<std::int32_t>(i);
  });
  work.sort(key, member, n, std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count)))));
  work.each(count + 1, [=] PROTEAN_ON_DEVICE(std::int64_t a) {
    begin[a] = static_cast<std::int32_t>(lower_bound(key, std::int64_t{0}, n, static_cast<std::uint32_t>(a)));
  });
  made.tentative = zeros<double>(work, nodes.rows * vectors);
  Buffer<double> R = zeros<double>(work, count * vectors * vectors);
  Buffer<std::int64_t> ranks(work.context, count + 1);
  double* const r = R.data();
  work.rows(count, lanes_for(n, std::max<std::int64_t>(2 * count, 1)),
            Orthogonalise{view_of(nodes), member, begin, nodes.values.data(), vectors, made.tentative.data(),
                          r, ranks.data()});
  DeviceNodes& coarse = made.coarse;
  auto [first, rows] = pointers(work, ranks);
  coarse.count = count, coarse.rows = rows, coarse.vectors = vectors, coarse.size = 1;
  coarse.values = Buffer<double>(work.context, rows * vectors);
  double* const to = coarse.values.data();
  const std::int32_t* const place = first.data();
  const bool single = vectors == 1 && rows == count;
  if (!single) coarse.of = Buffer<std::int32_t>(work.context, rows);
  std::int32_t* const node = coarse.of.data();
  work.each(count, [=] PROTEAN_ON_DEVICE(std::int64_t a) {
    for (std::int64_t c = place[a]; c < place[a + 1]; ++c) {
      for (std::int64_t k = 0; k < vectors; ++k)
        to[c * vectors + k] = r[(a * vectors + c - place[a]) * vectors + k];
      if (node) node[c] = static_cast<std::int32_t>(a);
    }
  });
  if (!single) coarse.first = std::move(first);
}

template <class Work>
SparsityPattern prolongator_pattern(const Work& work, const DeviceNodes& nodes, const DeviceStructure& made) {
  const SparsityPattern& strong = made.strong;
  const double mean =
      static_cast<double>(strong.nonzeros) / static_cast<double>(std::max<std::int64_t>(nodes.count, 1)) + 1;
  const SparsityPattern near =
      unite(work, nodes.count, made.aggregates,
            NearTerms{strong.row_ptr.p32, strong.col, made.aggregate.data(), strong.nonzeros}, mean, mean);
  const NodesView fine = view_of(nodes), coarse = view_of(made.coarse);
  if (fine.single() && coarse.single()) return near;
  const std::int32_t *const ptr = near.row_ptr.p32, *const col = near.col;
  Buffer<std::int64_t> lengths(work.context, nodes.rows + 1);
  std::int64_t* const length = lengths.data();
  work.each(nodes.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const std::int32_t node = fine.node(i);
    std::int64_t sum = 0;
    for (std::int32_t p = ptr[node]; p < ptr[node + 1]; ++p)
      sum += coarse.begin(col[p] + 1) - coarse.begin(col[p]);
    length[i] = sum;
  });
  auto [begins, entries] = pointers(work, lengths);
  Buffer<std::int32_t> columns(work.context, entries);
  const std::int32_t* const begin = begins.data();
  std::int32_t* const to = columns.data();
  work.each(nodes.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const std::int32_t node = fine.node(i);
    std::int32_t at = begin[i];
    for (std::int32_t p = ptr[node]; p < ptr[node + 1]; ++p)
      for (std::int64_t c = coarse.begin(col[p]); c < coarse.begin(col[p] + 1); ++c)
        to[at++] = static_cast<std::int32_t>(c);
  });
  return pattern_of(nodes.rows, made.coarse.rows, std::move(begins), std::move(columns));
}

template <class T, class Work>
std::shared_ptr<DeviceStructure> structure(const Work& work, const DeviceLevel<T>& level,
                                           const DeviceNodes& nodes, const CouplingRules& rules,
                                           const std::shared_ptr<DeviceStructure>& kept) {
  auto made = std::make_shared<DeviceStructure>();
  {
    const SparsityPattern near = node_pattern(work, level, nodes);
    Buffer<double> own(work.context, nodes.count);
    const Couplings<T> couplings = couplings_of(work, level, nodes, near, own.data());
    double strength = rules.strength;
    if (kept && !kept->halved && are_couplings(work, couplings, strength, kept->strong)) return kept;
    made->strong = strong_couplings(work, couplings, nodes.count, strength);
    for (int k = 0; k < rules.most_halvings && mostly_alone(work, made->strong); ++k) {
      made->strong = strong_couplings(work, couplings, nodes.count, strength /= 2);
      made->halved = true;
    }
  }
  if (kept && same_pattern(work, kept->strong, made->strong)) return kept;
  made->aggregates = aggregate(work, made->strong, made->aggregate);
  orthogonalise(work, nodes, *made);
  const std::int64_t rows = made->coarse.rows;
  if (rows == 0 || static_cast<double>(rows) > rules.least_coarsening * static_cast<double>(level.csr.rows()))
    return nullptr;
  made->P = prolongator_pattern(work, nodes, *made);
  made->R = transpose(work, made->P, made->transposition);
  made->AP = product_pattern(work, level.csr.pattern, made->P);
  made->coarse_pattern = product_pattern(work, made->R, made->AP);
  return made;
}

// ---- Values of the prolongator.

// State `chunk * k` of xorshift64 for each k, so that threads find the numbers of spectral_radius() (prolongator.cpp)
// which one thread finds one after another. A step is linear over the bits of the state: jump[k] maps a state to that
// `chunk * 2^k` steps later; column b is what becomes of bit b.
inline constexpr std::int64_t xorshift_chunk = 64;
inline constexpr int xorshift_jumps = 26;  // 2^31 numbers and more
using XorshiftJump = std::array<std::uint64_t, 64>;
PROTEAN_HOST_DEVICE inline std::uint64_t xorshift(std::uint64_t state) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
PROTEAN_HOST_DEVICE inline std::uint64_t jumped(const std::uint64_t* jump, std::uint64_t state) {
  std::uint64_t sum = 0;
  for (int b = 0; b < 64; ++b)
    if (state >> b & 1) sum ^= jump[b];
  return sum;
}
inline const std::array<XorshiftJump, xorshift_jumps>& xorshift_table() {
  static const std::array<XorshiftJump, xorshift_jumps> table = [] {
    std::array<XorshiftJump, xorshift_jumps> made{};
    for (std::size_t b = 0; b < 64; ++b) {
      std::uint64_t state = std::uint64_t{1} << b;
      for (std::int64_t k = 0; k < xorshift_chunk; ++k) state = xorshift(state);
      made[0][b] = state;
    }
    for (std::size_t k = 1; k < made.size(); ++k)
      for (std::size_t b = 0; b < 64; ++b) made[k][b] = jumped(made[k - 1].data(), made[k - 1][b]);
    return made;
  }();
  return table;
}

template <class Work>
void start_vector(const Work& work, std::int64_t n, double* x) {
  const auto& table = xorshift_table();
  constexpr std::int64_t size = 64 * xorshift_jumps;
  Buffer<std::uint64_t> jumps(work.context, size);
  copy_bytes(*work.context, jumps.data(), Space::device, table.data(), Space::host, jumps.bytes());
  const std::uint64_t* const jump = jumps.data();
  work.each((n + xorshift_chunk - 1) / xorshift_chunk, [=] PROTEAN_ON_DEVICE(std::int64_t c) {
    std::uint64_t state = spectral_seed;
    for (int k = 0; k < xorshift_jumps; ++k)
      if (c >> k & 1) state = jumped(jump + 64 * k, state);
    const std::int64_t end = (c + 1) * xorshift_chunk < n ? (c + 1) * xorshift_chunk : n;
    for (std::int64_t i = c * xorshift_chunk; i < end; ++i) {
      state = xorshift(state);
      x[i] = static_cast<double>(state >> 11) * 0x1p-52 - 1;
    }
  });
}

// One step of the power method: y := A x / (D ||x||), and the terms of ||y||^2.
template <class T>
struct PowerStep {
  MatrixView<T> A;
  const double *divisors, *x, *norm;  // the square of ||x||
  double* y;
  template <class Own>
  PROTEAN_HOST_DEVICE double operator()(std::int64_t i, const Own& own) const {
    double sum = 0;
    for (std::int32_t p = A.ptr[i] + own.id; p < A.ptr[i + 1]; p += Own::count)
      sum += static_cast<double>(A.values[p]) * x[A.col[p]];
    sum = own.sum(sum);
    const double weight = size_of(divisors[i]), factor = 1 / std::sqrt(*norm);
    const double next = factor * sum / weight;
    if (own.id == 0) y[i] = next;
    return weight * next * next;
  }
};

// An estimate of the largest eigenvalue of D^-1 A, as on a host.
template <class T, class Work>
double spectral_radius(const Work& work, const DeviceLevel<T>& level, const double* divisors) {
  const std::int64_t n = level.csr.rows();
  if (n == 0) return 1;
  const MatrixView<T> A = view_of(level.csr);
  Buffer<double> one(work.context, n), other(work.context, n), norms(work.context, spectral_steps + 1);
  Buffer<Count> bound = zeros<Count>(work, 1);
  double *x = one.data(), *y = other.data();
  start_vector(work, n, x);
  work.largest(n, bound.data(), [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    double sum = 0;
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) sum += size_of(static_cast<double>(A.values[p]));
    return sum / size_of(divisors[i]);
  });
  work.sum(n, norms.data(),
           [=] PROTEAN_ON_DEVICE(std::int64_t i) { return size_of(divisors[i]) * x[i] * x[i]; });
  const int lanes = lanes_for(level.csr.nonzeros(), 2 * n);
  for (int k = 0; k < spectral_steps; ++k) {
    work.sum_rows(n, lanes, norms.data() + k + 1, PowerStep<T>{A, divisors, x, norms.data() + k, y});
    std::swap(x, y);
  }
  std::array<double, spectral_steps + 1> squares{};
  copy_bytes(*work.context, squares.data(), Space::host, norms.data(), Space::device, sizeof squares);
  return spectral_bound(squares, std::bit_cast<double>(read(work, bound.data())));
}

// Lanes share the entries of row i of P; each adds up its own in the order of the columns of A.
template <class T>
struct ProlongatorRow {
  NodesView nodes, coarse;
  MatrixView<T> A;
  const double* divisors;
  double omega;
  const std::int32_t *strong_ptr, *strong_col, *aggregate;
  const double* tentative;
  std::int64_t vectors;
  const std::int32_t *ptr, *col;
  T* values;

  PROTEAN_HOST_DEVICE bool joined(std::int32_t node, std::int32_t other) const {
    const std::int32_t end = strong_ptr[node + 1], at = lower_bound(strong_col, strong_ptr[node], end, other);
    return other == node || (at < end && strong_col[at] == other);
  }
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t i, const Own& own) const {
    const std::int32_t node = nodes.node(i);
    const double factor = -omega / divisors[i];
    for (std::int32_t e = ptr[i] + own.id; e < ptr[i + 1]; e += Own::count) {
      const std::int32_t a = coarse.node(col[e]);
      const std::int64_t k = col[e] - coarse.begin(a);
      double sum = aggregate[node] == a ? tentative[i * vectors + k] : 0;
      for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
        std::int64_t row = A.col[p];
        std::int32_t other = nodes.node(row);
        if (!joined(node, other)) {
          const std::int64_t same = nodes.begin(node) + row - nodes.begin(other);
          row = same < nodes.begin(node + 1) ? same : i, other = node;
        }
        if (aggregate[other] == a)
          sum += factor * static_cast<double>(A.values[p]) * tentative[row * vectors + k];
      }
      values[e] = static_cast<T>(sum);
    }
  }
};

// divisors() of prolongator.hpp
template <class T, class Work>
Buffer<double> divisors(const Work& work, const DeviceLevel<T>& level) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  Buffer<double> made(work.context, level.csr.rows());
  const T* const diagonal = level.diagonal.data();
  const double* const scale = level.scale.data();
  double* const to = made.data();
  work.each(level.csr.rows(), [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const double d = diagonal[i], least = rounding_terms * eps * scale[i];
    to[i] = size_of(d) > least ? d : least > 0 ? least : 1;
  });
  return made;
}

template <class T, class Work>
CsrMatrix<T> prolongator(const Work& work, const DeviceLevel<T>& level, const DeviceNodes& nodes,
                         const DeviceStructure& structure) {
  const Buffer<double> D = divisors(work, level);
  const double omega = 4.0 / 3 / spectral_radius(work, level, D.data());
  const SparsityPattern& P = structure.P;
  Buffer<T> values(work.context, P.nonzeros);
  work.rows(
      P.rows, lanes_for(P.nonzeros, std::max<std::int64_t>(P.rows, 1)),
      ProlongatorRow<T>{view_of(nodes), view_of(structure.coarse), view_of(level.csr), D.data(), omega,
                        structure.strong.row_ptr.p32, structure.strong.col, structure.aggregate.data(),
                        structure.tentative.data(), nodes.vectors, P.row_ptr.p32, P.col, values.data()});
  return matrix_in(P, std::move(values));
}

template <class T, class Work>
CsrMatrix<T> restriction(const Work& work, const CsrMatrix<T>& P, const DeviceStructure& structure) {
  Buffer<T> values(work.context, P.nonzeros());
  T* const to = values.data();
  const T* const from = P.values;
  const std::int32_t* const entry = structure.transposition.data();
  work.each(P.nonzeros(), [=] PROTEAN_ON_DEVICE(std::int64_t p) { to[p] = from[entry[p]]; });
  return matrix_in(structure.R, std::move(values));
}

// ---- Levels.

inline constexpr unsigned diagonal_refused = 1, columns_descend = 2;

// The diagonal, the largest entry, and what is wrong.
template <class T>
struct EntriesOfRow {
  MatrixView<T> A;
  T* diagonal;
  double* scale;  // null but on the finest level
  bool finest, one_for_zero;
  unsigned* refused;
  Count* first_bad;
  PROTEAN_HOST_DEVICE double operator()(std::int64_t i) const {
    T own = 0;
    double size = 0;
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p) {
      const T value = A.values[p];
      const double one = size_of(static_cast<double>(value));
      if (p > A.ptr[i] && A.col[p] <= A.col[p - 1]) raise(refused, columns_descend);
      if (!is_finite(value))
        lower_to(first_bad, static_cast<Count>(p));
      else
        size = size < one ? one : size;
      if (A.col[p] == i) own = value;
    }
    if (finest && !(is_finite(own) && is_finite(T(1) / own))) {
      if (!one_for_zero) raise(refused, diagonal_refused);
      own = 1;
    }
    diagonal[i] = own;
    if (scale) scale[i] = size_of(static_cast<double>(own));
    return size;
  }
};

struct EntryFindings {
  Count largest = 0, first_bad = ~Count{0};
  unsigned refused = 0;
};

template <class T, class Work>
EntryFindings look_at_entries(const Work& work, DeviceLevel<T>& level, bool finest, bool one_for_zero) {
  EntryFindings found;
  const std::int64_t n = level.csr.rows();
  level.diagonal = Buffer<T>(work.context, n);
  if (n == 0) return found;
  Buffer<EntryFindings> there(work.context, 1);
  copy_bytes(*work.context, there.data(), Space::device, &found, Space::host, sizeof found);
  EntryFindings* const to = there.data();
  work.largest(
      n, &to->largest,
      EntriesOfRow<T>{view_of(level.csr), level.diagonal.data(), finest ? level.scale.data() : nullptr,
                      finest, one_for_zero, &to->refused, &to->first_bad});
  found = read(work, to);
  level.largest = std::bit_cast<double>(found.largest);
  return found;
}

template <class T, class Work>
std::optional<DeviceLevel<T>> finest(const Work& work, const CsrMatrix<T>& csr, bool one_for_zero,
                                     bool& unsorted) {
  DeviceLevel<T> level;
  level.csr = csr;
  if (const std::int64_t* const wide = csr.pattern.row_ptr.p64) {
    struct Narrow {
      Buffer<std::int32_t> ptr;
      std::shared_ptr<const void> columns;
    };
    const auto narrow = std::make_shared<Narrow>(
        Narrow{Buffer<std::int32_t>(work.context, csr.rows() + 1), csr.pattern.owner});
    std::int32_t* const to = narrow->ptr.data();
    work.each(csr.rows() + 1,
              [=] PROTEAN_ON_DEVICE(std::int64_t i) { to[i] = static_cast<std::int32_t>(wide[i]); });
    level.csr.pattern.row_ptr = {narrow->ptr.data(), nullptr}, level.csr.pattern.owner = narrow;
  }
  level.scale = Buffer<double>(work.context, csr.rows());
  const EntryFindings found = look_at_entries(work, level, true, one_for_zero);
  unsorted = (found.refused & columns_descend) != 0;
  if (found.refused != 0 || found.first_bad != ~Count{0}) return std::nullopt;
  return level;
}
template <class T, class Work>
DeviceLevel<T> coarser(const Work& work, const CsrMatrix<T>& csr, const DeviceLevel<T>& level,
                       const DeviceNodes& nodes, const DeviceStructure& structure, std::int64_t& bad) {
  DeviceLevel<T> made;
  made.csr = csr;
  made.scale = Buffer<double>(work.context, csr.rows());
  // coarse_scale() of prolongator.hpp
  Buffer<Count> largest = zeros<Count>(work, structure.aggregates);
  Count* const of_aggregate = largest.data();
  const NodesView fine = view_of(nodes), coarse = view_of(structure.coarse);
  const double* const from = level.scale.data();
  const std::int32_t* const aggregate = structure.aggregate.data();
  double* const to = made.scale.data();
  work.each(nodes.rows, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const std::int32_t a = aggregate[fine.node(i)];
    if (a >= 0) raise_to(of_aggregate + a, bits_of(from[i]));
  });
  work.each(csr.rows(), [=] PROTEAN_ON_DEVICE(std::int64_t c) {
    to[c] = std::bit_cast<double>(of_aggregate[coarse.node(c)]);
  });
  const EntryFindings found = look_at_entries(work, made, false, false);
  bad = found.first_bad == ~Count{0} ? -1 : static_cast<std::int64_t>(found.first_bad);
  return made;
}

// As make_smoother() of aggregation.cpp has it.
template <class T, class Work>
bool l1(const Work& work, const DeviceLevel<T>& level, VectorView<T> inverse) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  if (level.csr.rows() == 0) return true;
  const MatrixView<T> A = view_of(level.csr);
  const T* const diagonal = level.diagonal.data();
  const double* const scale = level.scale.data();
  T* const to = inverse.data;
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const overflow = flag.data();
  work.each(level.csr.rows(), [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    const double own = size_of(static_cast<double>(diagonal[i]));
    double sum = own;
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      if (A.col[p] != i) sum += size_of(static_cast<double>(A.values[p]));
    const double from_row = longest_sweep / sum, from_diagonal = 1 / own;
    const double size = from_diagonal < from_row ? from_diagonal : from_row;
    T value = 0;
    // A row of nothing but rounding belongs to a null space of its own.
    if (sum > rounding_terms * eps * scale[i]) value = static_cast<T>(diagonal[i] < T(0) ? -size : size);
    if (!is_finite(value)) raise(overflow, 1);
    to[i] = value;
  });
  return read(work, overflow) == 0;
}

// ---- The inverse of a small matrix.

// The best pivot so far: the largest; of equal ones one on the diagonal, then the first.
struct Pivot {
  double size;
  std::int64_t rank;  // i for entry (i, i), n + i n + j for (i, j)
  PROTEAN_HOST_DEVICE static Pivot none() { return {-1, 0}; }
  PROTEAN_HOST_DEVICE void take(const Pivot& other) {
    if (other.size > size || (other.size == size && other.rank < rank)) *this = other;
  }
};

// invert_dense(), one kernel for each pivot, from one array into another: it exchanges row and column of the pivot with
// row and column k, and eliminates. f(e, pivot) is called for each entry e with the best pivot of the last step, and
// returns its own candidate for the next.
struct EliminateEntry {
  std::int64_t n, k;
  double smallest;
  const double* from;
  double* to;
  const std::int32_t* order;  // the row, and n later the column, of the matrix that each one is
  std::int32_t *next_order, *rank;

  PROTEAN_HOST_DEVICE Pivot operator()(std::int64_t e, const Pivot& pivot) const {
    const Pivot none = Pivot::none();
    const std::int64_t i = e / n, j = e % n;
    const bool taken = k >= 0 && pivot.size > smallest;
    double value = from[e];
    if (taken) {
      const std::int64_t off = pivot.rank - n, row = off < 0 ? pivot.rank : off / n,
                         column = off < 0 ? pivot.rank : off % n;
      const auto exchanged = [&](std::int64_t at, std::int64_t with) {
        return at == k ? with : at == with ? k : at;
      };
      const std::int64_t si = exchanged(i, row), sj = exchanged(j, column);
      const double inverse = 1 / from[row * n + column];
      if (i == k) {
        value = j == k ? inverse : from[row * n + sj] * inverse;
      } else {
        const double factor = from[si * n + column], above = j == k ? inverse : from[row * n + sj] * inverse;
        value = (j == k ? 0.0 : from[si * n + sj]) - factor * above;
      }
      if (i == 0) next_order[j] = order[exchanged(j, row)], next_order[n + j] = order[n + sj];
      if (e == 0) *rank = static_cast<std::int32_t>(k + 1);
    } else if (i == 0) {
      next_order[j] = order[j], next_order[n + j] = order[n + j];
    }
    to[e] = value;
    Pivot own = none;
    if (i > k && j > k) own.size = size_of(value), own.rank = i == j ? i : n + e;
    if (k >= 0 && !taken) own = none;
    return own;
  }
};

template <class T, class Work>
bool dense(const Work& work, const DeviceLevel<T>& level, VectorView<T> inverse) {
  constexpr double eps = std::numeric_limits<T>::epsilon();
  const std::int64_t n = level.csr.rows();
  if (n == 0) return true;
  const MatrixView<T> A = view_of(level.csr);
  const T* const diagonal = level.diagonal.data();
  const double* const scale = level.scale.data();
  // Of D A D with ones or less on the diagonal, so that the units of the unknowns do not matter.
  Buffer<double> one = zeros<double>(work, n * n), other(work.context, n * n), factors(work.context, n);
  double *a = one.data(), *b = other.data(), *const d = factors.data();
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    for (std::int32_t p = A.ptr[i]; p < A.ptr[i + 1]; ++p)
      a[i * n + A.col[p]] = static_cast<double>(A.values[p]);
    a[i * n + i] = static_cast<double>(diagonal[i]);
    d[i] = scale[i] > 0 ? 1 / std::sqrt(scale[i]) : 1;
  });
  Buffer<EntryFindings> findings = zeros<EntryFindings>(work, 1);
  EntryFindings* const found = findings.data();
  work.largest(n * n, &found->largest, [=] PROTEAN_ON_DEVICE(std::int64_t e) {
    a[e] *= d[e / n] * d[e % n];
    return size_of(a[e]);
  });
  const double largest = std::max(1.0, std::bit_cast<double>(read(work, &found->largest)));
  const double rounding = 1e-2 * std::sqrt(eps) * largest;
  work.each(n * n, [=] PROTEAN_ON_DEVICE(std::int64_t e) {
    if (!(size_of(a[e] - a[e % n * n + e / n]) <= rounding)) raise(&found->refused, 1);
  });
  // Rows and columns are exchanged; place k has row and column order[k] and order[n + k].
  Buffer<std::int32_t> orders(work.context, 4 * n), ranks = zeros<std::int32_t>(work, 1);
  std::int32_t *order = orders.data(), *next_order = orders.data() + 2 * n, *const rank = ranks.data();
  work.each(
      n, [=] PROTEAN_ON_DEVICE(std::int64_t i) { order[i] = order[n + i] = static_cast<std::int32_t>(i); });
  Buffer<Pivot> pivots(work.context, 2 * Work::folds);
  Pivot *before = pivots.data(), *after = pivots.data() + Work::folds;
  for (std::int64_t k = -1; k < n; ++k) {
    work.fold(n * n, k < 0 ? nullptr : before, after,
              EliminateEntry{n, k, rounding_terms * eps * largest, a, b, order, next_order, rank});
    std::swap(a, b), std::swap(order, next_order), std::swap(before, after);
  }
  // The leading block is that of the inverse.
  work.each(n * n, [=] PROTEAN_ON_DEVICE(std::int64_t e) {
    const std::int64_t i = e / n, j = e % n;
    b[order[n + i] * n + order[j]] = i < *rank && j < *rank ? a[e] : 0.0;
  });
  Buffer<unsigned> flag = zeros<unsigned>(work, 1);
  unsigned* const overflow = flag.data();
  T* const to = inverse.data;
  work.each(n * n, [=] PROTEAN_ON_DEVICE(std::int64_t e) {
    const std::int64_t i = e / n, j = e % n;
    const double value = found->refused == 0 ? 0.5 * (b[e] + b[j * n + i]) : b[e];
    to[e] = static_cast<T>(value * (d[i] * d[j]));
    if (!is_finite(to[e])) raise(overflow, 1);
  });
  return read(work, overflow) == 0;
}

template <class T, class Work>
class LevelWorkOn final : public LevelWork<T> {
 public:
  explicit LevelWorkOn(ContextPtr context) : work_{std::move(context)} {}

  std::optional<DeviceLevel<T>> finest(const CsrMatrix<T>& csr, bool one_for_zero,
                                       bool& unsorted) const override {
    return levels::finest(work_, csr, one_for_zero, unsorted);
  }
  std::shared_ptr<DeviceStructure> structure(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                                             const CouplingRules& rules,
                                             const std::shared_ptr<DeviceStructure>& kept) const override {
    return levels::structure(work_, level, nodes, rules, kept);
  }
  CsrMatrix<T> prolongator(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                           const DeviceStructure& structure) const override {
    return levels::prolongator(work_, level, nodes, structure);
  }
  CsrMatrix<T> restriction(const CsrMatrix<T>& P, const DeviceStructure& structure) const override {
    return levels::restriction(work_, P, structure);
  }
  CsrMatrix<T> product(const CsrMatrix<T>& A, const CsrMatrix<T>& B,
                       const SparsityPattern& pattern) const override {
    return levels::product(work_, A, B, pattern);
  }
  DeviceLevel<T> coarser(const CsrMatrix<T>& csr, const DeviceLevel<T>& level, const DeviceNodes& nodes,
                         const DeviceStructure& structure, std::int64_t& bad) const override {
    return levels::coarser(work_, csr, level, nodes, structure, bad);
  }
  bool l1(const DeviceLevel<T>& level, VectorView<T> inverse) const override {
    return levels::l1(work_, level, inverse);
  }
  bool dense(const DeviceLevel<T>& level, VectorView<T> inverse) const override {
    return levels::dense(work_, level, inverse);
  }
  SparsityPattern product_pattern(const SparsityPattern& A, const SparsityPattern& B) const override {
    return levels::product_pattern(work_, A, B);
  }
  SparsityPattern couplings(const DeviceLevel<T>& level, const DeviceNodes& nodes,
                            double strength) const override {
    const SparsityPattern near = node_pattern(work_, level, nodes);
    Buffer<double> own(work_.context, nodes.count);
    return strong_couplings(work_, couplings_of(work_, level, nodes, near, own.data()), nodes.count,
                            strength);
  }
  std::int64_t aggregate(const SparsityPattern& couplings, Buffer<std::int32_t>& of) const override {
    return levels::aggregate(work_, couplings, of);
  }
  SparsityPattern transpose(const SparsityPattern& pattern,
                            Buffer<std::int32_t>& transposition) const override {
    return levels::transpose(work_, pattern, transposition);
  }

 private:
  Work work_;
};

}  // namespace protean::detail::levels
