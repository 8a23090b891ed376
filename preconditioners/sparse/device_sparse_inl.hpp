// Sparse patterns and products of matrices in device memory, by a Work (device_work_inl.hpp). Private to
// preconditioners/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/csr.hpp"
#include "core/host_device.hpp"
#include "preconditioners/sparse/device_work_inl.hpp"
#include "preconditioners/sparse/sparse_work.hpp"

namespace protean::detail::levels {

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
  // False if there are more than `most` keys.
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

// Writes the columns of rows; the columns of listed rows are not sorted.
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

// mean: expected keys a row, with keys that are there several times; count: expected ranges of a row.
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

template <class Work>
Buffer<std::int64_t> places(const Work& work, const Buffer<std::int32_t>& permutation) {
  Buffer<std::int64_t> made(work.context, permutation.size());
  const std::int32_t* const from = permutation.data();
  std::int64_t* const to = made.data();
  work.each(permutation.size(), [=] PROTEAN_ON_DEVICE(std::int64_t k) { to[from[k]] = k; });
  return made;
}

// Row i of a triangle: the columns of the row on one side of the diagonal, and i.
template <class Pointer>
struct TriangleOf {
  const Pointer* ptr;
  const std::int32_t* from;
  bool lower;
  const std::int32_t* to_ptr;
  std::int32_t* to;

  // Where the columns that are kept begin and end.
  PROTEAN_HOST_DEVICE void range(std::int64_t i, std::int64_t& begin, std::int64_t& end) const {
    begin = ptr[i], end = ptr[i + 1];
    const auto own = static_cast<std::int32_t>(i);
    (lower ? end : begin) = lower_bound(from, begin, end, lower ? own : own + 1);
  }
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t i, const Own& own) const {
    std::int64_t begin, end;
    range(i, begin, end);
    std::int32_t* const row = to + to_ptr[i] + (lower ? 0 : 1);
    for (std::int64_t e = begin + own.id; e < end; e += Own::count) row[e - begin] = from[e];
    if (own.id == 0) row[lower ? end - begin : -1] = static_cast<std::int32_t>(i);
  }
};
template <class Work, class Pointer>
SparsityPattern triangle(const Work& work, std::int64_t n, const Pointer* ptr, const std::int32_t* from,
                         bool lower) {
  Buffer<std::int64_t> lengths(work.context, n + 1);
  std::int64_t* const length = lengths.data();
  const TriangleOf<Pointer> counted{ptr, from, lower, nullptr, nullptr};
  work.each(n, [=] PROTEAN_ON_DEVICE(std::int64_t i) {
    std::int64_t begin, end;
    counted.range(i, begin, end);
    length[i] = end - begin + 1;
  });
  auto [row_ptr, entries] = pointers(work, lengths);
  Buffer<std::int32_t> col(work.context, entries);
  work.rows(n, lanes_for(entries, n), TriangleOf<Pointer>{ptr, from, lower, row_ptr.data(), col.data()});
  return pattern_of(n, n, std::move(row_ptr), std::move(col));
}

// ---- Values of products.

// Row i of A B: the entries of a row of B have different columns, so that lanes share them; entries of A are taken one
// after another. A row of up to `most` entries is added up in the memory of the lanes.
template <class T>
struct ProductRow {
  MatrixView<T> A, B;
  const std::int32_t *ptr, *col;
  T* values;
  std::int32_t most;

  static std::int64_t bytes(std::int64_t most) { return most * static_cast<std::int64_t>(sizeof(T) + 4); }

  // columns: of the row, and sums: as many.
  template <class Own>
  PROTEAN_HOST_DEVICE void add_up(std::int64_t i, const Own& own, const std::int32_t* columns, T* sums,
                                  std::int32_t length) const {
    for (std::int32_t q = own.id; q < length; q += Own::count) sums[q] = 0;
    own.sync();
    const std::int32_t end = A.ptr[i + 1];
    for (std::int32_t first = A.ptr[i]; first < end; first += Own::count) {
      // Each lane reads one entry of A, so that none waits for several.
      const bool mine = first + own.id < end;
      const T value = mine ? A.values[first + own.id] : T(0);
      const std::int32_t row = mine ? A.col[first + own.id] : 0, row_begin = mine ? B.ptr[row] : 0,
                         row_end = mine ? B.ptr[row + 1] : 0;
      const int count = end - first < Own::count ? end - first : Own::count;
      for (int k = 0; k < count; ++k) {
        const T a = own.of(value, k);
        const std::int32_t last = own.of(row_end, k);
        for (std::int32_t q = own.of(row_begin, k) + own.id; q < last; q += Own::count)
          sums[lower_bound(columns, std::int32_t{0}, length, B.col[q])] += a * B.values[q];
        own.sync();
      }
    }
  }
  template <class Own>
  PROTEAN_HOST_DEVICE void operator()(std::int64_t i, const Own& own, std::byte* memory) const {
    const std::int32_t begin = ptr[i], length = ptr[i + 1] - begin;
    if (length > most) return add_up(i, own, col + begin, values + begin, length);
    T* const sums = reinterpret_cast<T*>(memory);
    auto* const columns = reinterpret_cast<std::int32_t*>(sums + most);
    for (std::int32_t q = own.id; q < length; q += Own::count) columns[q] = col[begin + q];
    add_up(i, own, columns, sums, length);
    for (std::int32_t q = own.id; q < length; q += Own::count) values[begin + q] = sums[q];
  }
};

template <class T, class Work>
CsrMatrix<T> product(const Work& work, const CsrMatrix<T>& A, const CsrMatrix<T>& B,
                     const SparsityPattern& pattern) {
  Buffer<T> values(work.context, pattern.nonzeros);
  const int lanes = lanes_for(B.nonzeros(), B.rows());
  // Room for rows of twice the mean length, in even numbers.
  const std::int64_t mean = pattern.rows > 0 ? pattern.nonzeros / pattern.rows : 0,
                     room = work.memory_of_group(lanes) / ProductRow<T>::bytes(2) * 2,
                     most = std::min(room, 2 * mean + 8);
  work.rows_with_memory(A.rows(), lanes, ProductRow<T>::bytes(most),
                        ProductRow<T>{view_of(A), view_of(B), pattern.row_ptr.p32, pattern.col, values.data(),
                                      static_cast<std::int32_t>(most)});
  return matrix_in(pattern, std::move(values));
}

}  // namespace protean::detail::levels
