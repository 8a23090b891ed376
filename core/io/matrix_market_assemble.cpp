#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "core/io/matrix_market_pieces.hpp"
#include "core/parallel.hpp"

namespace protean::io_detail {
namespace {

double value_of(const ValueItem& item) noexcept { return item.value; }
double value_of(const PatternItem&) noexcept { return 1.0; }

constexpr std::int32_t removed = -1;  // the column of an entry that was added to another one

// Sorts one row in place, keeping the order of equal columns.
class RowSorter {
 public:
  void sort(std::int32_t* col, double* value, std::int64_t length) {
    if (std::is_sorted(col, col + length)) return;
    if (length <= 32) {
      for (std::int64_t i = 1; i < length; ++i) {
        const std::int32_t c = col[i];
        const double v = value[i];
        std::int64_t k = i;
        for (; k > 0 && col[k - 1] > c; --k) col[k] = col[k - 1], value[k] = value[k - 1];
        col[k] = c, value[k] = v;
      }
      return;
    }
    row_.resize(static_cast<std::size_t>(length));
    for (std::int64_t k = 0; k < length; ++k) row_[k] = {col[k], value[k]};
    std::stable_sort(row_.begin(), row_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::int64_t k = 0; k < length; ++k) col[k] = row_[k].first, value[k] = row_[k].second;
  }

 private:
  std::vector<std::pair<std::int32_t, double>> row_;
};

// Columns in one row: of the first entry that was given more than once, and of the first one whose sum
// overflowed.
struct Repeated {
  std::optional<std::int32_t> first, overflow;
};

// Adds the entries of a sorted row that have the same column. The row becomes shorter; the columns after its
// new end are set to `removed`.
Repeated add_repeated(std::int32_t* col, double* value, std::int64_t length) {
  Repeated result;
  const auto found = std::adjacent_find(col, col + length);
  if (found == col + length) return result;
  result.first = *found;
  std::int64_t out = 0;
  for (std::int64_t k = 1; k < length; ++k) {
    if (col[k] != col[out]) {
      ++out, col[out] = col[k], value[out] = value[k];
      continue;
    }
    const double before = value[out];
    value[out] += value[k];
    if (!std::isfinite(value[out]) && std::isfinite(before) && std::isfinite(value[k]) && !result.overflow)
      result.overflow = col[out];
  }
  std::fill(col + out + 1, col + length, removed);
  return result;
}

CsrMatrix<double> without_removed(const ContextPtr& context, const CsrMatrix<double>& full) {
  const SparsityPattern& p = full.pattern;
  const auto kept = [&](std::int64_t row) {
    const auto cols = p.row(row);
    return static_cast<std::int64_t>(std::find(cols.begin(), cols.end(), removed) - cols.begin());
  };
  const int workers = useful_parts(*context, p.nonzeros);
  std::vector<std::int64_t> start(static_cast<std::size_t>(workers) + 1, 0);
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(p.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) start[part + 1] += kept(r);
  });
  std::partial_sum(start.begin(), start.end(), start.begin());
  CsrBuilder<double> builder(context, p.rows, p.cols, start[workers]);
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(p.rows, part, parts);
    std::int64_t at = start[part];
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const std::int64_t begin = p.row_ptr[r], length = kept(r);
      std::copy_n(p.col + begin, length, builder.col() + at);
      std::copy_n(full.values + begin, length, builder.values() + at);
      at += length;
      builder.set_row_ptr(r + 1, at);
    }
  });
  return builder.freeze();
}

}  // namespace

template <class Item>
void store(ItemPiece<Item>& piece, const Buckets& buckets, const Item* parsed) {
  const std::int64_t count = piece.result.items;
  piece.items = PageArray<Item>(count);
  piece.bucket_start.assign(static_cast<std::size_t>(buckets.count) + 1, 0);
  for (std::int64_t k = 0; k < count; ++k) ++piece.bucket_start[(parsed[k].row >> buckets.shift) + 1];
  std::partial_sum(piece.bucket_start.begin(), piece.bucket_start.end(), piece.bucket_start.begin());
  std::vector<std::uint32_t> next(piece.bucket_start.begin(), piece.bucket_start.end() - 1);
  for (std::int64_t k = 0; k < count; ++k)
    piece.items.data()[next[parsed[k].row >> buckets.shift]++] = parsed[k];
}

template <class Item>
Assembled assemble(const ContextPtr& context, const Header& header, const Buckets& buckets,
                   std::vector<ItemPiece<Item>> pieces, Duplicates duplicates) {
  std::vector<std::int64_t> base(static_cast<std::size_t>(buckets.count) + 1, 0);
  for (const auto& piece : pieces)
    for (std::int64_t b = 0; b < buckets.count; ++b)
      base[b + 1] += piece.bucket_start[b + 1] - piece.bucket_start[b];
  std::partial_sum(base.begin(), base.end(), base.begin());
  CsrBuilder<double> builder(context, header.rows, header.cols, base[buckets.count]);
  const int workers = useful_parts(*context, base[buckets.count] + header.rows);
  struct Found {
    std::optional<EntryPlace> repeated, overflow;
    static void keep_first(std::optional<EntryPlace>& known, const std::optional<EntryPlace>& other) {
      if (other && (!known || other->row < known->row)) known = other;
    }
  };
  std::vector<Found> found(static_cast<std::size_t>(workers));
  std::atomic<std::int64_t> next_bucket{0};
  parallel(workers, [&](int part, int) {
    std::vector<std::int64_t> next;
    RowSorter sorter;
    Found mine;
    // The rows of a bucket depend on no other bucket, so any thread may build it.
    while (true) {
      const std::int64_t b = next_bucket.fetch_add(1);
      if (b >= buckets.count) break;
      const std::int64_t first = b << buckets.shift, last = std::min(header.rows, (b + 1) << buckets.shift);
      const auto each = [&](auto&& visit) {
        for (const auto& piece : pieces)
          for (std::uint32_t k = piece.bucket_start[b]; k < piece.bucket_start[b + 1]; ++k)
            visit(piece.items.data()[k]);
      };
      next.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, last - first)) + 1, 0);
      next[0] = base[b];
      each([&](const Item& item) { ++next[item.row - first + 1]; });
      std::partial_sum(next.begin(), next.end(), next.begin());
      for (std::int64_t r = first; r < last; ++r) builder.set_row_ptr(r + 1, next[r - first + 1]);
      each([&](const Item& item) {
        const std::int64_t at = next[item.row - first]++;
        builder.col()[at] = item.col, builder.values()[at] = value_of(item);
      });
      // next[r] is now the position after the last entry of row r.
      for (std::int64_t r = first, begin = base[b]; r < last; begin = next[r - first], ++r) {
        const std::int64_t length = next[r - first] - begin;
        sorter.sort(builder.col() + begin, builder.values() + begin, length);
        const Repeated row = add_repeated(builder.col() + begin, builder.values() + begin, length);
        const auto place = [&](std::int32_t column) {
          return EntryPlace{static_cast<std::int32_t>(r), column};
        };
        if (row.first) Found::keep_first(mine.repeated, place(*row.first));
        if (row.overflow) Found::keep_first(mine.overflow, place(*row.overflow));
      }
    }
    found[part] = mine;
  });
  pieces.clear();
  Assembled result;
  result.matrix = builder.freeze();
  for (const Found& of_worker : found) {
    Found::keep_first(result.repeated, of_worker.repeated);
    Found::keep_first(result.overflow, of_worker.overflow);
  }
  if (result.repeated && duplicates == Duplicates::sum)
    result.matrix = without_removed(context, result.matrix);
  return result;
}

CsrMatrix<double> assemble_array(const ContextPtr& context, const Header& header,
                                 std::vector<ValuePiece> pieces) {
  using Symmetry = Header::Symmetry;
  const std::int64_t rows = header.rows, cols = header.cols;
  const bool skew = header.symmetry == Symmetry::skew;
  const std::int64_t width = skew ? std::max<std::int64_t>(0, cols - 1) : cols;  // entries of a row
  CsrBuilder<double> builder(context, rows, cols, rows * width);
  std::vector<std::int64_t> start(pieces.size() + 1, 0);
  for (std::size_t i = 0; i < pieces.size(); ++i) start[i + 1] = start[i] + pieces[i].result.entries;
  const int workers = useful_parts(*context, rows * width);
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      builder.set_row_ptr(r + 1, (r + 1) * width);
      std::int32_t* col = builder.col() + r * width;
      for (std::int32_t c = 0; c < cols; ++c)
        if (!skew || c != r) *col++ = c;
    }
  });
  parallel(workers, [&](int part, int parts) {
    const Range range = even_range(static_cast<std::int64_t>(pieces.size()), part, parts);
    const auto first_row = [&](std::int64_t c) {
      return header.symmetry == Symmetry::general ? 0 : skew ? c + 1 : c;
    };
    // The file gives the values column by column; a symmetric file gives each column from the diagonal down,
    // a skew-symmetric one from below the diagonal.
    std::int64_t before = 0, c = 0;
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      while (c + 1 < cols && before + rows - first_row(c) <= start[i]) before += rows - first_row(c++);
      std::int64_t r = first_row(c) + start[i] - before;
      const double* value = pieces[i].items.data();
      for (std::int64_t k = 0; k < pieces[i].result.entries; ++k) {
        while (r >= rows) before += rows - first_row(c), r = first_row(++c);
        const auto put = [&](std::int64_t row, std::int64_t column, double v) {
          builder.values()[row * width + column - (skew && column > row ? 1 : 0)] = v;
        };
        put(r, c, value[k]);
        if (header.mirrored() && r != c) put(c, r, skew ? -value[k] : value[k]);
        ++r;
      }
    }
  });
  return builder.freeze();
}

template void store(ItemPiece<ValueItem>&, const Buckets&, const ValueItem*);
template void store(ItemPiece<PatternItem>&, const Buckets&, const PatternItem*);
template Assembled assemble(const ContextPtr&, const Header&, const Buckets&,
                            std::vector<ItemPiece<ValueItem>>, Duplicates);
template Assembled assemble(const ContextPtr&, const Header&, const Buckets&,
                            std::vector<ItemPiece<PatternItem>>, Duplicates);

}  // namespace protean::io_detail
