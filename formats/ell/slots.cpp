// The product of the ELLPACK-like formats, with a row in each SIMD lane.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/ell/slots.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/ell/slots.hpp"
#include "formats/private/ordered-inl.hpp"
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
  T dot = 0;

  Sink(const SlotProduct<T>& product, std::int64_t begin)
      : job(product),
        next_empty(
            std::lower_bound(product.empty.data(), product.empty.data() + product.empty.size(), begin)) {}

  bool plain(std::int64_t p, std::int64_t count) const {
    return !job.perm && p + count <= job.rows &&
           (next_empty == job.empty.data() + job.empty.size() || *next_empty >= p + count);
  }

  // Writes sums[0..count) of positions p, p + 1, ...: drops positions past the last row, writes 0 for empty
  // rows, and undoes the permutation.
  template <bool ordered = false>
  void store(T* sums, std::int64_t p, std::int64_t count) {
    count = std::min(count, job.rows - p);
    for (const auto* end = job.empty.data() + job.empty.size(); next_empty != end && *next_empty < p + count;)
      sums[*next_empty++ - p] = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = job.perm ? job.perm[p + i] : p + i;
      if constexpr (ordered) {
        store_ordered(job.alpha, sums[i], job.beta, job.y[row]);
        continue;
      }
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

template <int U, class D, class T>
std::int64_t ell(D d, Sink<T>& sink, std::int64_t p, std::int64_t end) {
  constexpr std::int64_t N = lanes_of<D>, rows = U * N;
  hn::Vec<D> sum[U], dot = hn::Zero(d);
  for (; p + rows <= end; p += rows) {
    slot_sums<U>(
        d, sink.job, sink.job.width, 512 / static_cast<std::int64_t>(sizeof(T)),
        [&](std::int64_t k) { return k * sink.job.stride + p; }, sum);
    finish<U>(d, sink, p, sum, dot);
  }
  sink.dot += hn::GetLane(hn::SumOfLanes(d, dot));
  return p;
}

// Slices of a multiple of U * N rows.
template <int U, class D, class T>
void sliced(D d, Sink<T>& sink, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t N = lanes_of<D>, rows = U * N;
  const std::int64_t C = sink.job.stride;
  hn::Vec<D> sum[U], dot = hn::Zero(d);
  for (std::int64_t p = begin; p < end; p += C) {
    const std::int64_t first = sink.job.ptr[p / C], width = (sink.job.ptr[p / C + 1] - first) / C;
    for (std::int64_t i = 0; i < C; i += rows) {
      slot_sums<U>(
          d, sink.job, width, 4096 / static_cast<std::int64_t>(sizeof(T)),
          [&](std::int64_t k) { return first + k * C + i; }, sum);
      finish<U>(d, sink, p + i, sum, dot);
    }
  }
  sink.dot += hn::GetLane(hn::SumOfLanes(d, dot));
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
    std::int32_t last[block];
    std::fill_n(last, block, -1);
    for (std::int64_t k = 0; k < width; ++k) {
      const T* values = job.values + at;
      const std::int32_t* col = job.col + at;
      hwy::Prefetch(values + 4096 / sizeof(T));
      for (std::int64_t i = 0; i < count; ++i) {
        if (col[i] <= last[i]) continue;  // padding repeats a column
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

template <class T>
T run(const SlotProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  constexpr std::int64_t N = lanes_of<hn::ScalableTag<T>>;
  Sink<T> sink(job, begin);
  if (job.ordered) {
    ordered(sink, begin, end);
    return T(0);
  }
  if (job.order == SlotOrder::ell) {
    begin = ell<4>(d, sink, begin, end);
    ell<1>(one, sink, ell<1>(d, sink, begin, end), end);
  } else if (job.stride >= 4 * N) {
    sliced<4>(d, sink, begin, end);
  } else if (job.stride == 2 * N) {
    sliced<2>(d, sink, begin, end);
  } else if (job.stride == N) {
    sliced<1>(d, sink, begin, end);
  } else if (job.stride == 8) {
    sliced<1>(hn::CappedTag<T, 8>(), sink, begin, end);
  } else if (job.stride == 4) {
    sliced<1>(hn::CappedTag<T, 4>(), sink, begin, end);
  } else if (job.stride == 2) {
    sliced<1>(hn::CappedTag<T, 2>(), sink, begin, end);
  } else {
    sliced<1>(one, sink, begin, end);
  }
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

RowLengths row_lengths(const Context& context, const SparsityPattern& pattern) {
  const int parts = useful_parts(context, pattern.rows);
  std::vector<RowLengths> found(static_cast<std::size_t>(parts));
  parallel(parts, [&](int part, int) {
    RowLengths mine;
    const Range range = even_range(pattern.rows, part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      const std::int64_t length = pattern.row_length(r);
      mine.empty += length == 0, mine.longest = std::max(mine.longest, length);
    }
    found[part] = mine;
  });
  RowLengths all;
  for (const RowLengths& one : found)
    all.empty += one.empty, all.longest = std::max(all.longest, one.longest);
  return all;
}

}  // namespace protean::formats
#endif
