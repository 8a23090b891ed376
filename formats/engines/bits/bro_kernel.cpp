// Products with coded columns and rows on the host (bro.hpp). Lanes of a slice lie in the lanes of vectors: all fields
// of a slot have the same width, so a vector of symbols is shifted by one number.
#define PROTEAN_WITHOUT_AVX512  // it gains nothing: see core/simd.hpp
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/bits/bro_kernel.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/behind.hpp"
#include "formats/engines/bits/bro.hpp"
#include "formats/engines/rows/row_dot-inl.hpp"
#include "formats/engines/rows/rows.hpp"
#include "formats/host_support.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

// Streams of U vectors of lanes, read in step.
template <int U, class D32>
struct Streams {
  static constexpr std::int64_t N = lanes_of<D32>;
  const D32 d;
  const std::uint32_t* next;
  const std::int64_t lanes;
  hn::Vec<D32> symbol[U];
  int have = 0;

  HWY_INLINE Streams(D32 tag, const std::uint32_t* symbols, std::int64_t count)
      : d(tag), next(symbols), lanes(count) {
    for (int u = 0; u < U; ++u) symbol[u] = hn::Zero(d);
  }
  // 0 < width < 32
  HWY_INLINE void take(int width, hn::Vec<D32>* fields) {
    if (width <= have) {
      for (int u = 0; u < U; ++u) {
        fields[u] = hn::ShiftRightSame(symbol[u], symbol_bits - width);
        symbol[u] = hn::ShiftLeftSame(symbol[u], width);
      }
      have -= width;
      return;
    }
    const int more = width - have;
    for (int u = 0; u < U; ++u) {
      const auto fresh = hn::LoadU(d, next + u * N);
      fields[u] = hn::Or(hn::ShiftRightSame(symbol[u], symbol_bits - width),
                         hn::ShiftRightSame(fresh, symbol_bits - more));
      symbol[u] = hn::ShiftLeftSame(fresh, more);
    }
    next += lanes, have = symbol_bits - more;
  }
};

// The lanes of slice s from this one on, at a time the number that fills U vectors. Returns the lane after them.
template <int U, class D, class T>
std::int64_t lanes_of_slice(D d, const BroProduct<T>& job, std::int64_t s, std::int64_t lane) {
  constexpr std::int64_t N = lanes_of<D>, rows = U * N, ahead = 4096 / sizeof(T);
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::int32_t, D> signed32;
  const BroView<T>& a = job.view;
  const std::int64_t lanes = a.lanes(s), first = a.col_ptr[s], end = a.col_ptr[s + 1];
  for (; lane + rows <= lanes; lane += rows) {
    Streams<U, decltype(d32)> streams(d32, behind(a.symbols, a.h * a.symbol_ptr[s] + lane), lanes);
    const T* values = behind(a.values, a.h * first + lane);
    hn::Vec<decltype(signed32)> col[U];
    hn::Vec<decltype(d32)> step[U];
    hn::Vec<D> sum[U];
    for (int u = 0; u < U; ++u) col[u] = hn::Set(signed32, -1), sum[u] = hn::Zero(d);
    alignas(64) std::int32_t cols[rows];
    for (std::int64_t k = first; k < end; ++k, values += lanes) {
      streams.take(a.bit_alloc[k], step);
      for (int u = 0; u < U; ++u) {
        hwy::Prefetch(values + u * N + ahead);
        col[u] = hn::Add(col[u], hn::BitCast(signed32, step[u]));
        // A row without entries has column -1 here; its sum is dropped below.
        hn::StoreU(hn::Max(col[u], hn::Zero(signed32)), signed32, cols + u * N);
        sum[u] = hn::MulAdd(hn::LoadU(d, values + u * N), take(d, job.x, cols + u * N), sum[u]);
      }
    }
    const std::int64_t p = s * a.h + lane;
    for (int u = 0; u < U; ++u) {
      const std::int64_t at = p + u * N;
      if (!a.perm && hn::AllFalse(signed32, hn::Lt(col[u], hn::Zero(signed32)))) {
        auto result = hn::Mul(hn::Set(d, job.alpha), sum[u]);
        if (job.beta != T(0)) result = hn::MulAdd(hn::Set(d, job.beta), hn::LoadU(d, job.y + at), result);
        hn::StoreU(result, d, job.y + at);
        continue;
      }
      alignas(64) T sums[N];
      hn::StoreU(sum[u], d, sums);
      hn::StoreU(col[u], signed32, cols);
      for (std::int64_t i = 0; i < N; ++i)
        store(job.alpha, cols[i] < 0 ? T(0) : sums[i], job.beta, job.y[a.row(at + i)]);
    }
  }
  return lane;
}

template <class T>
HWY_INLINE void slices(const BroProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  for (std::int64_t s = begin; s < end; ++s) {
    std::int64_t lane = lanes_of_slice<4>(d, job, s, 0);
    lane = lanes_of_slice<1>(d, job, s, lane);
    lanes_of_slice<1>(hn::CappedTag<T, 1>(), job, s, lane);
  }
}

#if HWY_TARGET != HWY_SCALAR
// Sums over the lanes up to each one. Vectors of 4 or 8 lanes.
template <class D>
HWY_INLINE hn::Vec<D> sums_up_to(D d, hn::Vec<D> v) {
  v = hn::Add(v, hn::ShiftLeftLanes<1>(d, v));
  v = hn::Add(v, hn::ShiftLeftLanes<2>(d, v));  // within four lanes
  if constexpr (lanes_of<D> == 8) {
    const auto four = hn::TableLookupLanes(v, hn::IndicesFromVec(d, hn::Set(d, 3)));
    v = hn::Add(v, hn::IfThenElseZero(hn::Gt(hn::Iota(d, 0), hn::Set(d, 3)), four));
  }
  return v;
}
#endif

constexpr std::int64_t decoded_most = 1024, decoded_lanes = 8;

// The columns of a row with `count` > 0 entries; up to decoded_lanes numbers behind them are overwritten. `symbols` is
// the number of symbols from the first one of this row to the end of the array.
template <class T>
HWY_INLINE void decode_row(const BroView<T>& a, std::int64_t p, const std::uint32_t* HWY_RESTRICT stream,
                           [[maybe_unused]] std::int64_t symbols, std::int64_t count,
                           std::int32_t* HWY_RESTRICT cols) {
  const std::uint32_t width = a.width[p];
  auto at = static_cast<std::int32_t>(*stream);
  cols[0] = at;
  std::int64_t i = 1, bit = symbol_bits;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint32_t, decoded_lanes> d;
  constexpr std::int64_t N = lanes_of<decltype(d)>;
  // N fields lie in N symbols, wherever the first one begins.
  if (width <= 24) {
    const auto last = hn::IndicesFromVec(d, hn::Set(d, static_cast<std::uint32_t>(N - 1)));
    auto before = hn::Set(d, *stream);  // the column before the fields
    const auto distance = hn::Mul(hn::Iota(d, 0), hn::Set(d, width));
    for (; i < count && bit / symbol_bits + N <= symbols; i += N, bit += N * width) {
      const auto place = hn::Add(distance, hn::Set(d, static_cast<std::uint32_t>(bit % symbol_bits)));
      const auto word = hn::ShiftRight<5>(place), skip = hn::And(place, hn::Set(d, 31));
      const auto next = hn::Min(hn::Add(word, hn::Set(d, 1)), hn::Set(d, static_cast<std::uint32_t>(N - 1)));
      const auto all = hn::LoadU(d, stream + bit / symbol_bits);
      const auto high = hn::Shl(hn::TableLookupLanes(all, hn::IndicesFromVec(d, word)), skip);
      // Two shifts: one of 32 bits is not defined.
      const auto low = hn::Shr(hn::ShiftRight<1>(hn::TableLookupLanes(all, hn::IndicesFromVec(d, next))),
                               hn::Sub(hn::Set(d, 31), skip));
      const auto step = hn::ShiftRightSame(hn::Or(high, low), symbol_bits - static_cast<int>(width));
      const auto col = hn::Add(sums_up_to(d, step), before);
      const hn::RebindToSigned<decltype(d)> as_signed;
      hn::StoreU(hn::BitCast(as_signed, col), as_signed, cols + i);
      before = hn::TableLookupLanes(col, last);
    }
    at = static_cast<std::int32_t>(hn::GetLane(before));
  }
#endif
  if (i >= count) return;
  FieldReader reader(stream + bit / symbol_bits, 1);
  reader.take(static_cast<int>(bit % symbol_bits));
  for (; i < count; ++i) cols[i] = at += static_cast<std::int32_t>(reader.take(static_cast<int>(width)));
}

// A row that is too long to be decoded at once, or one of few rows.
template <class T>
HWY_INLINE T sum_of_row(const BroProduct<T>& job, std::int64_t p, std::int64_t k, std::int64_t last) {
  const BroView<T>& a = job.view;
  alignas(64) std::int32_t cols[decoded_most];
  const std::uint32_t* const stream = a.tail_symbols + a.row_symbol[p];
  FieldReader reader(stream + 1, 1);
  auto at = static_cast<std::int32_t>(*stream);
  cols[0] = at;
  T sum = 0;
  for (std::int64_t i = 1; k < last; i = 0) {
    const std::int64_t count = std::min(decoded_most, last - k);
    for (; i < count; ++i) cols[i] = at += static_cast<std::int32_t>(reader.take(a.width[p]));
    sum += row_dot(a.values + a.tail_at + k, cols, job.x, std::int64_t{0}, count);
    k += count;
  }
  return sum;
}

// As many rows as fit the first cache are decoded, and the product of csr multiplies them.
template <class T, class P>
HWY_INLINE void rows_of_tail(const BroProduct<T>& job, const P* row_ptr, const P* row_symbol,
                             std::int64_t begin, std::int64_t end) {
  const BroView<T>& a = job.view;
  if (job.adding) {  // most rows have no tail
    for (std::int64_t p = begin; p < end; ++p)
      if (row_ptr[p] < row_ptr[p + 1])
        store(job.alpha, sum_of_row(job, p, row_ptr[p], row_ptr[p + 1]), job.beta, job.y[a.row(p)]);
    return;
  }
  alignas(64) std::int32_t cols[decoded_most + decoded_lanes];
  P local_ptr[decoded_most + 1];
  for (std::int64_t p = begin; p < end;) {
    const P first = row_ptr[p];
    std::int64_t rows = 0;
    local_ptr[0] = 0;
    for (; p + rows < end && rows < decoded_most; ++rows) {
      const std::int64_t r = p + rows, at = row_ptr[r] - first, count = row_ptr[r + 1] - row_ptr[r];
      if (at + count > decoded_most) break;
      if (count > 0)
        decode_row(a, r, a.tail_symbols + row_symbol[r], row_symbol[a.rows] - row_symbol[r], count,
                   cols + at);
      local_ptr[rows + 1] = static_cast<P>(at + count);
    }
    if (rows == 0) {
      store(job.alpha, sum_of_row(job, p, row_ptr[p], row_ptr[p + 1]), job.beta, job.y[p]);
      ++p;
      continue;
    }
    const RowsWork<T, P> work{
        local_ptr, cols,     a.values + a.tail_at + first, job.alpha, job.x, job.beta, job.y + p, false,
        false,     job.alike};
    rows_product(work, {0, rows, 0, local_ptr[rows]}, false);
    p += rows;
  }
}
template <class T>
HWY_INLINE void rows_of_tail(const BroProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const BroView<T>& a = job.view;
  if (a.row_ptr.p32)
    rows_of_tail(job, a.row_ptr.p32, a.row_symbol.p32, begin, end);
  else
    rows_of_tail(job, a.row_ptr.p64, a.row_symbol.p64, begin, end);
}

template <class T>
HWY_INLINE void decode_rows(const BroView<T>& a, std::int64_t i, std::int32_t* rows) {
  const std::uint32_t* const symbols = a.tail_symbols + a.interval_symbol[i];
  const int width = a.width[i];
  const std::int64_t W = a.W;
  if (width == 0) {
    std::fill_n(rows, W * a.q, a.base[i]);
    return;
  }
  const hn::CappedTag<std::uint32_t, 8> d;
  constexpr std::int64_t N = lanes_of<decltype(d)>;
  std::int64_t lane = 0;
  for (; lane + N <= W; lane += N) {
    Streams<1, decltype(d)> streams(d, symbols + lane, W);
    auto row = hn::Set(d, static_cast<std::uint32_t>(a.base[i]));
    for (std::int64_t k = lane; k < W * a.q; k += W) {
      hn::Vec<decltype(d)> step[1];
      streams.take(width, step);
      row = hn::Add(row, step[0]);
      hn::StoreU(hn::BitCast(hn::RebindToSigned<decltype(d)>(), row), hn::RebindToSigned<decltype(d)>(),
                 rows + k);
    }
  }
  for (; lane < W; ++lane) {
    FieldReader reader(symbols + lane, W);
    std::int32_t row = a.base[i];
    for (std::int64_t k = lane; k < W * a.q; k += W)
      rows[k] = row += static_cast<std::int32_t>(reader.take(width));
  }
}

template <class T>
HWY_INLINE BroCarry<T> entries_of_tail(const BroProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const BroView<T>& a = job.view;
  const std::int64_t interval = std::int64_t{a.W} * a.q;
  alignas(64) std::int32_t rows[most_bro_interval];
  BroCarry<T> carry;
  const std::int64_t before = begin > 0 ? a.row_of_entry(begin * interval - 1) : -1;
  std::int64_t next = before + 1, open = before;  // the first row that is not written; the row being summed
  T sum = 0;
  const auto skip_to = [&](std::int64_t row) HWY_ATTR {
    if (!job.adding)
      for (; next < row; ++next) store(T(0), T(0), job.beta, job.y[next]);
  };
  const auto flush = [&]() HWY_ATTR {
    if (open < 0) return;
    if (open == before) {
      carry.row = open, carry.sum = sum;
    } else {
      skip_to(open);
      store(job.alpha, sum, job.beta, job.y[open]);
      next = open + 1;
    }
    sum = 0;
  };
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int64_t first = n * interval, count = std::min(interval, a.tail_entries - first);
    decode_rows(a, n, rows);
    const T* const values = a.values + a.tail_at + first;
    const std::int32_t* const col = a.col + first;
    for (std::int64_t i = 0; i < count;) {
      const std::int32_t row = rows[i];
      std::int64_t j = i + 1;
      while (j < count && rows[j] == row) ++j;
      if (row != open) flush(), open = row;
      sum += row_dot(values, col, job.x, i, j);
      i = j;
    }
  }
  flush();
  if (end * interval >= a.tail_entries) skip_to(a.rows);
  return carry;
}

void slices_f64(const BroProduct<double>& job, std::int64_t begin, std::int64_t end) {
  slices(job, begin, end);
}
void slices_f32(const BroProduct<float>& job, std::int64_t begin, std::int64_t end) {
  slices(job, begin, end);
}
void rows_f64(const BroProduct<double>& job, std::int64_t begin, std::int64_t end) {
  rows_of_tail(job, begin, end);
}
void rows_f32(const BroProduct<float>& job, std::int64_t begin, std::int64_t end) {
  rows_of_tail(job, begin, end);
}
BroCarry<double> entries_f64(const BroProduct<double>& job, std::int64_t begin, std::int64_t end) {
  return entries_of_tail(job, begin, end);
}
BroCarry<float> entries_f32(const BroProduct<float>& job, std::int64_t begin, std::int64_t end) {
  return entries_of_tail(job, begin, end);
}
void decode_f64(const BroView<double>& view, std::int64_t i, std::int32_t* rows) {
  decode_rows(view, i, rows);
}
void decode_f32(const BroView<float>& view, std::int64_t i, std::int32_t* rows) {
  decode_rows(view, i, rows);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(slices_f64);
HWY_EXPORT(slices_f32);
HWY_EXPORT(rows_f64);
HWY_EXPORT(rows_f32);
HWY_EXPORT(entries_f64);
HWY_EXPORT(entries_f32);
HWY_EXPORT(decode_f64);
HWY_EXPORT(decode_f32);

void bro_slices(const BroProduct<double>& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(slices_f64)(job, begin, end);
}
void bro_slices(const BroProduct<float>& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(slices_f32)(job, begin, end);
}
void bro_rows(const BroProduct<double>& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(rows_f64)(job, begin, end);
}
void bro_rows(const BroProduct<float>& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(rows_f32)(job, begin, end);
}
BroCarry<double> bro_entries(const BroProduct<double>& job, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(entries_f64)(job, begin, end);
}
BroCarry<float> bro_entries(const BroProduct<float>& job, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(entries_f32)(job, begin, end);
}
void bro_decode_rows(const BroView<double>& view, std::int64_t i, std::int32_t* rows) {
  HWY_DYNAMIC_DISPATCH(decode_f64)(view, i, rows);
}
void bro_decode_rows(const BroView<float>& view, std::int64_t i, std::int32_t* rows) {
  HWY_DYNAMIC_DISPATCH(decode_f32)(view, i, rows);
}

}  // namespace protean::formats
#endif
