// The product of the diagonal formats: rows lie side by side in SIMD lanes, and no column index is read.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/diagonals/diagonals.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>
#include <iterator>
#include <limits>

#include "core/behind.hpp"
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/engines/view/ordered-inl.hpp"
#include "formats/simd_gather-inl.hpp"
#include "formats/simd_load-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t block = 512;  // rows whose sums and x stay in the first cache

// Rows [r, end) of one hack, with its lines from `lines` on.
template <bool in_blocks, class View, class Lines, class T>
struct Block {
  const View& view;
  const LineProduct<T>& job;
  const Lines& lines;
  std::int64_t r, end;
  bool with_dot;
};

// The lines of a hack in an array: if finding the next line takes longer than in dia and hdi, it is done once for all
// rows of a block.
struct Line {
  std::int64_t at, shift;
};
struct ListedLines {
  const Line *now, *last;
  std::int64_t at;
  bool more() const { return now < last; }
  void next() { ++now, at = now->at; }  // the array has one line more
  std::int64_t shift() const { return now->shift; }
};

template <int U, class D, bool in_blocks, class View, class Lines, class T>
HWY_INLINE void inner(D d, Block<in_blocks, View, Lines, T>& b, T& dot) {
  constexpr std::int64_t N = lanes_of<D>, rows = U * N;
  const auto& job = b.job;
  const auto alpha = hn::Set(d, job.alpha), beta = hn::Set(d, job.beta);
  auto dots = hn::Zero(d);
  for (; b.r + rows <= b.end; b.r += rows) {
    [[maybe_unused]] std::int32_t first_of_block[in_blocks ? rows : 1];
    if constexpr (in_blocks) {
      std::int64_t top = b.view.block_row(b.r);
      for (std::int64_t i = 0; i < rows; ++i) {
        if (b.r + i == top + b.view.b) top += b.view.b;
        first_of_block[i] = static_cast<std::int32_t>(top);
      }
    }
    hn::Vec<D> sum[U];
    for (int u = 0; u < U; ++u) sum[u] = hn::Zero(d);
    const auto* const values = behind(b.view.values, b.r);
    const T* const x = behind(job.x, b.r);  // null if the matrix has no columns
    for (auto l = b.lines; l.more(); l.next())
      for (int u = 0; u < U; ++u) {
        const auto value = load_values(d, values + l.at + u * N);
        if constexpr (in_blocks)
          sum[u] = hn::MulAdd(value, take(d, job.x + l.shift(), first_of_block + u * N), sum[u]);
        else
          sum[u] = hn::MulAdd(value, hn::LoadU(d, x + l.shift() + u * N), sum[u]);
      }
    for (int u = 0; u < U; ++u) {
      T* y = job.y + b.r + u * N;
      auto result = hn::Mul(alpha, sum[u]);
      if (job.beta != T(0)) result = hn::MulAdd(beta, hn::LoadU(d, y), result);
      hn::StoreU(result, d, y);
      if (b.with_dot) dots = hn::MulAdd(result, hn::LoadU(d, x + u * N), dots);
    }
  }
  if (b.with_dot) dot += hn::GetLane(hn::SumOfLanes(d, dots));
}

// For rows for which all lines have a value and a column.
template <bool in_blocks, class View, class Lines, class T>
HWY_INLINE void whole(const View& view, const LineProduct<T>& job, const Lines& lines, std::int64_t begin,
                      std::int64_t end, bool with_dot, T& dot) {
  Block<in_blocks, View, Lines, T> b{view, job, lines, begin, end, with_dot};
  const hn::ScalableTag<T> d;
  inner<4>(d, b, dot);
  inner<1>(d, b, dot);
  inner<1>(hn::CappedTag<T, 1>(), b, dot);
}

// For other rows of hack h: each line is limited to its rows.
template <class View, class T>
void edge(const View& view, const LineProduct<T>& job, std::int64_t h, std::int64_t begin, std::int64_t end,
          bool with_dot, T& dot) {
  T sum[block];
  std::fill_n(sum, end - begin, T(0));
  for (auto l = view.lines(h); l.more(); l.next()) {
    const std::int64_t first = std::max(begin, l.begin()), last = std::min(end, l.end());
    const auto* const values = view.values + l.at;
    if constexpr (View::in_blocks) {
      if (first >= last) continue;
      // Block after block: a division in every row would take longer than the product.
      std::int64_t top = view.block_row(first);
      for (std::int64_t r = first; r < last; top += view.b)
        for (const std::int64_t stop = std::min(last, top + view.b); r < stop; ++r)
          sum[r - begin] += values[r] * job.x[top + l.shift()];
    } else {
      for (std::int64_t r = first; r < last; ++r) sum[r - begin] += values[r] * job.x[r + l.shift()];
    }
  }
  for (std::int64_t r = begin; r < end; ++r) {
    formats::store(job.alpha, sum[r - begin], job.beta, job.y[r]);
    if (with_dot) dot += job.x[r] * job.y[r];
  }
}

// Rows [begin, end) of hack h.
template <class V, class T>
void rows_of_hack(const HackView<V>& view, const LineProduct<T>& job, std::int64_t h, std::int64_t begin,
                  std::int64_t end, bool with_dot, T& dot) {
  if (view.inside(h, begin, end))
    whole<false>(view, job, view.lines(h), begin, end, with_dot, dot);
  else
    edge(view, job, h, begin, end, with_dot, dot);
}
template <class View, class T>
void rows_of_hack(const View& view, const LineProduct<T>& job, std::int64_t h, std::int64_t begin,
                  std::int64_t end, bool with_dot, T& dot) {
  constexpr int most = 128;
  Line listed[most + 1];
  int count = 0;
  std::int64_t first = begin, last = end;  // the rows that all lines have
  for (auto l = view.lines(h); l.more(); l.next()) {
    first = std::max(first, l.begin()), last = std::min(last, l.end());
    if (count == most || first >= last) {
      last = first = begin;  // too many lines, or no such rows
      break;
    }
    listed[count++] = {l.at, l.shift()};
  }
  if (first == last) {
    edge(view, job, h, begin, end, with_dot, dot);
    return;
  }
  listed[count] = {0, 0};
  const ListedLines lines{listed, listed + count, listed[0].at};
  if (begin < first) edge(view, job, h, begin, first, with_dot, dot);
  if constexpr (View::in_blocks) {
    if (view.b > 1)
      whole<true>(view, job, lines, first, last, with_dot, dot);
    else
      whole<false>(view, job, lines, first, last, with_dot, dot);
  } else {
    whole<false>(view, job, lines, first, last, with_dot, dot);
  }
  if (last < end) edge(view, job, h, last, end, with_dot, dot);
}

// Eight rows at a time: the bits of one byte.
template <class View, class T>
void ordered(const View& view, const LineProduct<T>& job, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t byte = 8;
  for (std::int64_t r = begin, count; r < end; r += count) {
    const std::int64_t h = view.hack(r), i = r - h * view.height;
    count = std::min({byte, end - r, view.height - i});
    T sums[byte] = {};
    for (auto l = view.lines(h); l.more(); l.next()) {
      if (!l.stores_some(r, r + count)) continue;
      const unsigned bits = view.entries[l.byte(i)];
      const auto* const values = view.values + l.at + r;
      const auto add = [&](std::int64_t j) HWY_ATTR {
        sums[j] = std::fma(T{values[j]}, job.x[View::in_blocks ? l.col(r + j) : r + l.shift() + j], sums[j]);
      };
      if (bits == 255)
        for (std::int64_t j = 0; j < byte; ++j) add(j);
      else
        for (std::int64_t j = 0; j < count; ++j)
          if (bits >> j & 1) add(j);
    }
    for (std::int64_t j = 0; j < count; ++j) store_ordered(job.alpha, sums[j], job.beta, job.y[r + j]);
  }
}

// Adds the entries of rows [begin, end) that lie apart from the lines of hack h.
template <class View, class T>
void add_apart(const View&, const LineProduct<T>&, std::int64_t, std::int64_t, std::int64_t) {}
template <class T>
void add_apart(const BandView<T>& view, const LineProduct<T>& job, std::int64_t h, std::int64_t begin,
               std::int64_t end) {
  const T* const values = view.values + view.scatter_values;
  const std::int64_t last = view.scatter_ptr[h + 1];
  for (std::int64_t k = view.first_apart(h, begin); k < last && view.scatter_row[k] < end; ++k)
    job.y[view.scatter_row[k]] += job.alpha * (values[k] * job.x[view.scatter_col[k]]);
}

template <class View, class T>
T run(const View& view, const LineProduct<T>& job, std::int64_t begin, std::int64_t end) {
  if (job.ordered) {
    ordered(view, job, begin, end);
    return T(0);
  }
  T dot = 0;
  while (begin < end) {
    const std::int64_t h = view.hack(begin), stop = std::min({begin + block, end, (h + 1) * view.height});
    const bool apart = view.apart(h);
    rows_of_hack(view, job, h, begin, stop, job.with_dot && !apart, dot);
    if (apart) {
      add_apart(view, job, h, begin, stop);
      if (job.with_dot)
        for (std::int64_t r = begin; r < stop; ++r) dot += job.x[r] * job.y[r];
    }
    begin = stop;
  }
  return dot;
}

#define PROTEAN_RUN(name, View, T)                                                               \
  T name(const View<T>& view, const LineProduct<T>& job, std::int64_t begin, std::int64_t end) { \
    return run(view, job, begin, end);                                                           \
  }
PROTEAN_RUN(hacks_f64, HackView, double)
PROTEAN_RUN(hacks_f32, HackView, float)
PROTEAN_RUN(bands_f64, BandView, double)
PROTEAN_RUN(bands_f32, BandView, float)
PROTEAN_RUN(segments_f64, SegmentView, double)
PROTEAN_RUN(segments_f32, SegmentView, float)
PROTEAN_RUN(blocks_f64, BlockLineView, double)
PROTEAN_RUN(blocks_f32, BlockLineView, float)
#undef PROTEAN_RUN
double hacks_f32_f64(const HackView<float>& view, const LineProduct<double>& job, std::int64_t begin,
                     std::int64_t end) {
  return run(view, job, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {
namespace {

// The set of the offsets of some rows: a byte for each possible offset, and one for each 64 of those. Marking
// an offset takes two stores, and nothing has to be sorted.
class OffsetMarks {
 public:
  OffsetMarks(std::int64_t rows, std::int64_t cols)
      : zero_(rows),
        offset_(static_cast<std::size_t>((rows + cols) / 64 + 1) * 64),
        line_((offset_.size() / 64 + 7) / 8 * 8) {}

  template <class P>
  void add(const P* row_ptr, const std::int32_t* col, std::int64_t begin, std::int64_t end) {
    std::uint8_t *const offset = offset_.data(), *const line = line_.data();
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t first = row_ptr[r], last = row_ptr[r + 1], shift = zero_ - r;
      if (first == last || (r > begin && last - first == first - row_ptr[r - 1] &&
                            moved_by_one(col + row_ptr[r - 1], col + first, last - first)))
        continue;  // the same diagonals as the row before
      low_ = std::min(low_, col[first] + shift), high_ = std::max(high_, col[last - 1] + shift);
      for (std::int64_t k = first; k < last; ++k) {
        const std::int64_t at = col[k] + shift;
        offset[at] = 1, line[at / 64] = 1;
      }
    }
  }

  // Appends the offsets to `to`, ascending, and clears the set.
  void take(std::vector<std::int32_t>& to) {
    if (low_ > high_) return;
    for (std::int64_t l = low_ / 512 * 8; l <= high_ / 64; l += 8)
      each_byte(line_.data() + l, [&](std::int64_t i) {
        for (std::int64_t at = (l + i) * 64, end = at + 64; at < end; at += 8)
          each_byte(offset_.data() + at,
                    [&](std::int64_t j) { to.push_back(static_cast<std::int32_t>(at + j - zero_)); });
      });
    low_ = std::numeric_limits<std::int64_t>::max(), high_ = -1;
  }

 private:
  static bool moved_by_one(const std::int32_t* before, const std::int32_t* now, std::int64_t count) {
    if (now[0] - before[0] != 1) return false;
    std::int32_t other = 0;
    for (std::int64_t k = 1; k < count; ++k) other |= (now[k] - before[k]) ^ 1;
    return other == 0;
  }

  // Calls body(i) for each of eight bytes that is set, and clears them.
  template <class Body>
  static void each_byte(std::uint8_t* bytes, Body body) {
    std::uint64_t all;
    std::memcpy(&all, bytes, 8);
    if (all == 0) return;
    for (std::int64_t i = 0; i < 8; ++i)
      if (bytes[i]) body(i);
    std::memset(bytes, 0, 8);
  }

  std::int64_t zero_, low_ = std::numeric_limits<std::int64_t>::max(), high_ = -1;
  std::vector<std::uint8_t> offset_, line_;
};

Diagonals find(const Context& context, const SparsityPattern& pattern, std::int64_t height, bool whole) {
  const std::int64_t hacks = whole ? 1 : hack_count(pattern.rows, height);
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  const auto borders = balanced_row_borders(pattern, parts, whole ? 1 : height);
  Diagonals result{height, std::vector<std::int64_t>(static_cast<std::size_t>(hacks) + 1), {}};
  std::vector<std::vector<std::int32_t>> found(static_cast<std::size_t>(parts));
  pattern.row_ptr.visit([&](auto* row_ptr) {
    parallel(parts, [&](int part, int) {
      OffsetMarks marks(pattern.rows, pattern.cols);
      std::vector<std::int32_t> mine;
      const std::int64_t end = borders[part + 1];
      if (whole) {
        marks.add(row_ptr, pattern.col, borders[part], end);
        marks.take(mine);
      } else {
        for (std::int64_t r = borders[part]; r < end; r += height) {
          const std::size_t before = mine.size();
          marks.add(row_ptr, pattern.col, r, std::min(end, r + height));
          marks.take(mine);
          result.ptr[r / height + 1] = static_cast<std::int64_t>(mine.size() - before);
        }
      }
      found[static_cast<std::size_t>(part)] = std::move(mine);
    });
  });
  result.off = std::move(found[0]);
  for (int part = 1; part < parts; ++part) {
    if (whole) {
      std::vector<std::int32_t> both;
      std::set_union(result.off.begin(), result.off.end(), found[part].begin(), found[part].end(),
                     std::back_inserter(both));
      result.off = std::move(both);
    } else {
      result.off.insert(result.off.end(), found[part].begin(), found[part].end());
    }
  }
  if (whole) result.ptr[1] = result.count();
  for (std::int64_t h = 0; h < hacks; ++h) result.ptr[h + 1] += whole ? 0 : result.ptr[h];
  return result;
}

}  // namespace

Diagonals find_diagonals(const Context& context, const SparsityPattern& pattern, std::int64_t height) {
  return find(context, pattern, height, height == pattern.rows);
}
Diagonals find_diagonals_of_hacks(const Context& context, const SparsityPattern& pattern,
                                  std::int64_t height) {
  return find(context, pattern, height, false);
}

Admission admit_stored(std::int64_t stored, std::size_t bytes, const SparsityPattern& pattern,
                       const FormatParams& params) {
  if (auto reason = too_much_fill(stored, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

#define PROTEAN_DISPATCH(name, View, T) \
  HWY_EXPORT(name);                     \
  PROTEAN_LINE_PRODUCT(View, T) { return HWY_DYNAMIC_DISPATCH(name)(view, product, begin, end); }
PROTEAN_DISPATCH(hacks_f64, HackView, double)
PROTEAN_DISPATCH(hacks_f32, HackView, float)
HWY_EXPORT(hacks_f32_f64);
double line_product(const HackView<float>& view, const LineProduct<double>& product, std::int64_t begin,
                    std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(hacks_f32_f64)(view, product, begin, end);
}
PROTEAN_DISPATCH(bands_f64, BandView, double)
PROTEAN_DISPATCH(bands_f32, BandView, float)
PROTEAN_DISPATCH(segments_f64, SegmentView, double)
PROTEAN_DISPATCH(segments_f32, SegmentView, float)
PROTEAN_DISPATCH(blocks_f64, BlockLineView, double)
PROTEAN_DISPATCH(blocks_f32, BlockLineView, float)

}  // namespace protean::formats
#endif
