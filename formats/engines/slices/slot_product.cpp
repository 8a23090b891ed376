// slot_product.hpp: the product of padded rows.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/slices/slot_product.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/slices/slot_product.hpp"
#include "formats/engines/view/ordered-inl.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// The state of one call: the next empty row, and the sum x . y.
template <class T>
struct Sink {
  const SlotProduct<T>& job;
  const std::int32_t* next_empty;
  const bool direct;  // the sums of positions are the sums of rows
  T dot = 0;

  Sink(const SlotProduct<T>& product, std::int64_t begin)
      : job(product),
        next_empty(
            std::lower_bound(product.empty.data(), product.empty.data() + product.empty.size(), begin)),
        direct(!product.perm && !product.diagonal) {}

  bool plain(std::int64_t p, std::int64_t count) const {
    return direct && p + count <= job.rows &&
           (next_empty == job.empty.data() + job.empty.size() || *next_empty >= p + count);
  }

  // Writes sums[0..count) of positions p, p + 1, ...: drops positions past the last row, writes 0 for empty
  // rows, and undoes the permutation.
  template <bool ordered = false>
  HWY_NOINLINE void store(T* sums, std::int64_t p, std::int64_t count) {
    count = std::min(count, job.rows - p);
    for (const auto* end = job.empty.data() + job.empty.size(); next_empty != end && *next_empty < p + count;)
      sums[*next_empty++ - p] = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = job.perm ? job.perm[p + i] : p + i;
      if constexpr (ordered) {
        store_ordered(job.alpha, sums[i], job.beta, job.y[row]);
        continue;
      }
      if (job.diagonal) sums[i] += job.diagonal[row] * job.x[row];
      formats::store(job.alpha, sums[i], job.beta, job.y[row]);
      if (job.with_dot) dot += job.x[row] * job.y[row];
    }
  }
};

// U vectors of rows from position p on. Slot k of the first row is at offset(k).
template <int U, class D, class T, class Offset>
HWY_INLINE void slot_sums(D d, const SlotProduct<T>& job, std::int64_t width, std::int64_t ahead,
                          Offset offset, hn::Vec<D>* sum) {
  constexpr std::int64_t N = lanes_of<D>;
  for (int u = 0; u < U; ++u) sum[u] = hn::Zero(d);
  for (std::int64_t k = 0; k < width; ++k) {
    const T* values = job.values + offset(k);
    const std::int32_t* col = job.col + offset(k);
    for (int u = 0; u < U; ++u) {
      hwy::Prefetch(values + u * N + ahead);
      if (u * N * 4 % 64 == 0) hwy::Prefetch(col + u * N + ahead);
      sum[u] = hn::MulAdd(hn::LoadU(d, values + u * N), take(d, job.x, col + u * N), sum[u]);
    }
  }
}

// The same for rows that know their lengths: slots beyond the end of a row are not multiplied.
template <int U, class D, class T, class Offset>
HWY_INLINE void slot_sums_of_lengths(D d, const SlotProduct<T>& job, std::int64_t p, std::int64_t ahead,
                                     Offset offset, hn::Vec<D>* sum) {
  constexpr std::int64_t N = lanes_of<D>, rows = U * N;
  std::int32_t length[rows];
  const std::int64_t there = std::clamp<std::int64_t>(job.rows - p, 0, rows);
  std::copy_n(job.lengths + p, there, length);
  std::fill(length + there, length + rows, 0);
  std::int32_t shortest = length[0], longest = length[0];
  for (std::int64_t i = 1; i < rows; ++i)
    shortest = std::min(shortest, length[i]), longest = std::max(longest, length[i]);
  const std::int64_t least = shortest, most = longest;
  slot_sums<U>(d, job, least, ahead, offset, sum);
  if (most == least) return;
  constexpr std::int64_t exact = 1 << 24;  // numbers up to here are exact in T
  HWY_ALIGN T ends[rows];
  for (std::int64_t i = 0; i < rows; ++i) ends[i] = static_cast<T>(length[i]);
  for (std::int64_t k = least; k < std::min(most, exact); ++k) {
    const auto slot = hn::Set(d, static_cast<T>(k));
    const T* values = job.values + offset(k);
    const std::int32_t* col = job.col + offset(k);
    for (int u = 0; u < U; ++u) {
      const auto more = hn::MulAdd(hn::LoadU(d, values + u * N), take(d, job.x, col + u * N), sum[u]);
      sum[u] = hn::IfThenElse(hn::Lt(slot, hn::Load(d, ends + u * N)), more, sum[u]);
    }
  }
  if (most <= exact) return;
  for (int u = 0; u < U; ++u) hn::Store(sum[u], d, ends + u * N);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = std::max(least, exact); k < length[i]; ++k)
      ends[i] += job.values[offset(k) + i] * job.x[job.col[offset(k) + i]];
  for (int u = 0; u < U; ++u) sum[u] = hn::Load(d, ends + u * N);
}

template <int U, class D, class T>
HWY_INLINE void finish(D d, Sink<T>& sink, std::int64_t p, const hn::Vec<D>* sum, hn::Vec<D>& dot) {
  constexpr std::int64_t N = lanes_of<D>;
  const auto& job = sink.job;
  if (sink.plain(p, U * N)) {
    const auto alpha = hn::Set(d, job.alpha), beta = hn::Set(d, job.beta);
    for (int u = 0; u < U; ++u) {
      T* y = job.y + p + u * N;
      auto result = hn::Mul(alpha, sum[u]);
      if (job.beta != T(0)) result = hn::MulAdd(beta, hn::LoadU(d, y), result);
      hn::StoreU(result, d, y);
      if (job.with_dot) dot = hn::MulAdd(result, hn::LoadU(d, job.x + p + u * N), dot);
    }
    return;
  }
  alignas(64) T buffer[U * N];
  for (int u = 0; u < U; ++u) hn::StoreU(sum[u], d, buffer + u * N);
  sink.store(buffer, p, U * N);
}

// U vectors of rows from position p on, whose first slots are at offset(0); y is written.
template <bool lengths, int U, class D, class T, class Offset>
HWY_INLINE void rows_of_slots(D d, Sink<T>& sink, std::int64_t p, std::int64_t width, std::int64_t ahead,
                              Offset offset, hn::Vec<D>& dot) {
  hn::Vec<D> sum[U];
  if constexpr (lengths)
    slot_sums_of_lengths<U>(d, sink.job, p, ahead, offset, sum);
  else
    slot_sums<U>(d, sink.job, width, ahead, offset, sum);
  finish<U>(d, sink, p, sum, dot);
}

template <bool lengths, int U, class D, class T>
std::int64_t ell(D d, Sink<T>& sink, std::int64_t p, std::int64_t end) {
  constexpr std::int64_t rows = U * lanes_of<D>;
  hn::Vec<D> dot = hn::Zero(d);
  for (; p + rows <= end; p += rows)
    rows_of_slots<lengths, U>(
        d, sink, p, sink.job.width, 512 / static_cast<std::int64_t>(sizeof(T)),
        [&](std::int64_t k) { return k * sink.job.stride + p; }, dot);
  sink.dot += hn::GetLane(hn::SumOfLanes(d, dot));
  return p;
}

template <class T>
constexpr std::int64_t slices_ahead = 4096 / static_cast<std::int64_t>(sizeof(T));

// Slices of a multiple of U * N rows.
template <bool lengths, int U, class D, class T>
void sliced(D d, Sink<T>& sink, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t rows = U * lanes_of<D>;
  const std::int64_t C = sink.job.stride;
  hn::Vec<D> dot = hn::Zero(d);
  for (std::int64_t p = begin; p < end; p += C) {
    const std::int64_t first = sink.job.ptr[p / C], width = (sink.job.ptr[p / C + 1] - first) / C;
    for (std::int64_t i = 0; i < C; i += rows)
      rows_of_slots<lengths, U>(
          d, sink, p + i, width, slices_ahead<T>, [&](std::int64_t k) { return first + k * C + i; }, dot);
  }
  sink.dot += hn::GetLane(hn::SumOfLanes(d, dot));
}

// As many rows of a slice of C rows as fill registers, from row i on. Returns the row after them.
template <bool lengths, int U, class D, class T>
std::int64_t part_of_slice(D d, Sink<T>& sink, std::int64_t p, std::int64_t C, std::int64_t first,
                           std::int64_t width, std::int64_t i) {
  constexpr std::int64_t rows = U * lanes_of<D>;
  hn::Vec<D> dot = hn::Zero(d);
  for (; i + rows <= C; i += rows)
    rows_of_slots<lengths, U>(
        d, sink, p + i, width, slices_ahead<T>, [&](std::int64_t k) { return first + k * C + i; }, dot);
  sink.dot += hn::GetLane(hn::SumOfLanes(d, dot));
  return i;
}

// The slots [first, end) belong to one row, side by side.
template <class D, class T>
T sum_of_row(D d, const SlotProduct<T>& job, std::int64_t first, std::int64_t end) {
  constexpr std::int64_t N = lanes_of<D>;
  hn::Vec<D> sum = hn::Zero(d);
  std::int64_t slot = first;
  for (; slot + N <= end; slot += N)
    sum = hn::MulAdd(hn::LoadU(d, job.values + slot), take(d, job.x, job.col + slot), sum);
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; slot < end; ++slot) total += job.values[slot] * job.x[job.col[slot]];
  return total;
}

// A slice of any number of rows.
template <bool lengths, class T>
HWY_NOINLINE void any_slice(Sink<T>& sink, std::int64_t p, std::int64_t C, std::int64_t first,
                            std::int64_t end) {
  const hn::ScalableTag<T> d;
  if (C == 1 && !lengths) {
    T sum = sum_of_row(d, sink.job, first, end);
    return sink.store(&sum, p, 1);
  }
  const std::int64_t width = (end - first) / C;
  std::int64_t i = part_of_slice<lengths, 4>(d, sink, p, C, first, width, 0);
  i = part_of_slice<lengths, 1>(d, sink, p, C, first, width, i);
  i = part_of_slice<lengths, 1>(hn::CappedTag<T, 4>(), sink, p, C, first, width, i);
  part_of_slice<lengths, 1>(hn::CappedTag<T, 1>(), sink, p, C, first, width, i);
}

template <bool lengths, class T>
void slices_of_any_height(Sink<T>& sink, std::int64_t begin, std::int64_t end) {
  const std::int64_t C = sink.job.stride;
  for (std::int64_t p = begin; p < end; p += C)
    any_slice<lengths>(sink, p, C, sink.job.ptr[p / C], sink.job.ptr[p / C + 1]);
}

template <class T>
void slices_of_varying_height(Sink<T>& sink, std::int64_t begin, std::int64_t end) {
  const SlotProduct<T>& job = sink.job;
  std::int64_t s = std::lower_bound(job.row_start, job.row_start + job.slices, begin) - job.row_start;
  for (; s < job.slices && job.row_start[s] < end; ++s)
    any_slice<false>(sink, job.row_start[s], job.row_start[s + 1] - job.row_start[s], job.ptr[s],
                     job.ptr[s + 1]);
}

// Vectors of neighbouring slots of one row.
template <class D, class T>
void rows_of_steps(D d, Sink<T>& sink, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t N = lanes_of<D>;
  const SlotProduct<T>& job = sink.job;
  const std::int64_t C = job.stride, step = C * job.threads;
  end = std::min(end, job.rows);
  for (std::int64_t p = begin; p < end;) {
    const std::int64_t s = job.ptr ? p / C : 0, last = std::min(end, (s + 1) * C);
    std::int64_t base = (job.ptr ? job.ptr[s] : 0) + (p - s * C) * job.threads;
    for (; p < last; ++p, base += job.threads) {
      hn::Vec<D> sum = hn::Zero(d);
      const std::int64_t slots_end = base + job.lengths[p] * step;
      for (std::int64_t slots = base; slots < slots_end; slots += step)
        for (std::int64_t slot = slots; slot < slots + job.threads; slot += N)
          sum = hn::MulAdd(hn::LoadU(d, job.values + slot), take(d, job.x, job.col + slot), sum);
      T total = hn::GetLane(hn::SumOfLanes(d, sum));
      sink.store(&total, p, 1);
    }
  }
}

// Eight positions at a time, slot by slot, without padding.
template <class T>
void ordered(Sink<T>& sink, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t block = 8;
  const auto& job = sink.job;
  const bool sliced = job.order == SlotOrder::sliced;
  const Triples<T>& tail = job.tail;
  std::int64_t next =
      std::lower_bound(tail.row, tail.row + tail.size, static_cast<std::int32_t>(begin)) - tail.row;
  for (std::int64_t p = begin, count; p < end; p += count) {
    count = std::min(block, end - p);
    std::int64_t at = p, width = job.width;
    if (sliced) {
      const std::int64_t C = job.stride, first = job.ptr[p / C];
      count = std::min(count, C - p % C);
      at = first + p % C, width = (job.ptr[p / C + 1] - first) / C;
    }
    T sums[block] = {};
    std::int32_t last[block], lengths[block] = {};
    std::fill_n(last, block, -1);
    if (job.lengths)
      std::copy_n(job.lengths + p, std::max<std::int64_t>(0, std::min(count, job.rows - p)), lengths);
    for (std::int64_t k = 0; k < width; ++k) {
      const T* values = job.values + at;
      const std::int32_t* col = job.col + at;
      hwy::Prefetch(values + 4096 / sizeof(T));
      for (std::int64_t i = 0; i < count; ++i) {
        if (job.lengths ? k >= lengths[i] : col[i] <= last[i]) continue;  // padding repeats a column
        sums[i] = std::fma(values[i], job.x[col[i]], sums[i]);
        last[i] = col[i];
      }
      at += job.stride;
    }
    for (; next < tail.size && tail.row[next] < p + count; ++next) {
      T& sum = sums[tail.row[next] - p];
      sum = std::fma(tail.values[next], job.x[tail.col[next]], sum);
    }
    sink.template store<true>(sums, p, count);
  }
}

template <bool lengths, class T>
void columns(Sink<T>& sink, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  constexpr std::int64_t N = lanes_of<hn::ScalableTag<T>>;
  const std::int64_t C = sink.job.stride;
  if (sink.job.order == SlotOrder::ell) {
    begin = ell<lengths, 4>(d, sink, begin, end);
    ell<lengths, 1>(one, sink, ell<lengths, 1>(d, sink, begin, end), end);
  } else if (C % (4 * N) == 0) {
    sliced<lengths, 4>(d, sink, begin, end);
  } else if (C % (2 * N) == 0) {
    sliced<lengths, 2>(d, sink, begin, end);
  } else if (C % N == 0) {
    sliced<lengths, 1>(d, sink, begin, end);
  } else if (C == 8) {
    sliced<lengths, 1>(hn::CappedTag<T, 8>(), sink, begin, end);
  } else if (C == 4) {
    sliced<lengths, 1>(hn::CappedTag<T, 4>(), sink, begin, end);
  } else if (C == 2) {
    sliced<lengths, 1>(hn::CappedTag<T, 2>(), sink, begin, end);
  } else {
    slices_of_any_height<lengths>(sink, begin, end);
  }
}

template <class T>
void steps(Sink<T>& sink, std::int64_t begin, std::int64_t end) {
  const std::int64_t threads = sink.job.threads;
  if (threads >= lanes_of<hn::ScalableTag<T>>)
    rows_of_steps(hn::ScalableTag<T>(), sink, begin, end);
  else if (threads >= 8)
    rows_of_steps(hn::CappedTag<T, 8>(), sink, begin, end);
  else if (threads >= 4)
    rows_of_steps(hn::CappedTag<T, 4>(), sink, begin, end);
  else if (threads >= 2)
    rows_of_steps(hn::CappedTag<T, 2>(), sink, begin, end);
  else
    rows_of_steps(hn::CappedTag<T, 1>(), sink, begin, end);
}

template <class T>
T run(const SlotProduct<T>& job, std::int64_t begin, std::int64_t end) {
  Sink<T> sink(job, begin);
  if (job.ordered) {
    ordered(sink, begin, end);
    return T(0);
  }
  if (job.order == SlotOrder::variable)
    slices_of_varying_height(sink, begin, end);
  else if (job.order == SlotOrder::threads)
    steps(sink, begin, end);
  else if (job.lengths)
    columns<true>(sink, begin, end);
  else
    columns<false>(sink, begin, end);
  return sink.dot;
}

double slot_product_f64(const SlotProduct<double>& job, std::int64_t begin, std::int64_t end) {
  return run(job, begin, end);
}
float slot_product_f32(const SlotProduct<float>& job, std::int64_t begin, std::int64_t end) {
  return run(job, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace protean::formats {

HWY_EXPORT(slot_product_f64);
HWY_EXPORT(slot_product_f32);

double slot_product(const SlotProduct<double>& product, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(slot_product_f64)(product, begin, end);
}
float slot_product(const SlotProduct<float>& product, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(slot_product_f32)(product, begin, end);
}

}  // namespace protean::formats
#endif
