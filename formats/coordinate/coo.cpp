// COO: coordinates, one row index, column index and value for each entry.
//
//        | 1 . 2 . |     row    = 0 0 1 3 3 3
//    A = | . 3 . . |     col    = 0 2 1 0 1 3
//        | . . . . |     values = 1 2 3 4 5 6
//        | 4 5 . 6 |
//
// Arrays:
//   row     [nnz] int32: nondecreasing.
//   col     [nnz] int32: ascending within a row.
//   values  [nnz].
// Bytes: (v + 8) nnz, with v bytes a value.
// Parameters: none.
// Wins: when most rows are empty or one row holds most entries. Otherwise csr reads fewer bytes, since it has no row
//   indices.
// Refuses: never.
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented
//   processors, SC 2009, doi:10.1145/1654059.1654078.
//
// Each thread gets the same number of entries, wherever a row ends; in deterministic mode its share ends
// where a row ends. Kernels: native; kokkos (coo_kokkos.cpp) on the same arrays.

#define PROTEAN_WITHOUT_AVX512  // it gains nothing: see core/simd.hpp
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/coordinate/coo.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/rows/row_dot-inl.hpp"
#include "formats/engines/runs/coo.hpp"
#include "formats/engines/view/ordered-inl.hpp"

#ifndef PROTEAN_FORMATS_COO
#define PROTEAN_FORMATS_COO
namespace protean::formats {
namespace {

template <class T>
struct CooWork {
  Triples<T> A;
  std::int64_t rows;  // all rows are written; 0: add to y and leave rows without entries alone
  T alpha;
  const T* x;
  T beta;
  T* y;
};

// What entries [begin, end) add to the row that began before entry `begin`, and to x . A x.
template <class T>
struct CooCarry {
  std::int64_t row = -1;
  T sum = 0, dot = 0;
};

}  // namespace
}  // namespace protean::formats
#endif

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

// Sum over the entries of row r from k on. Leaves k at the first entry of another row, or at the end.
template <class T>
HWY_INLINE T run_of_row(const Triples<T>& A, const T* HWY_RESTRICT x, std::int32_t r, std::int64_t& k,
                        std::int64_t end) {
  const RowTag<T> d;
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(RowTag<T>()));
  T sum = 0;
  if (k + 4 <= end && A.row[k + 3] == r) {
    auto even = hn::Zero(d), odd = hn::Zero(d);
    for (; k + 2 * lanes <= end && A.row[k + 2 * lanes - 1] == r; k += 2 * lanes) {
      even = hn::MulAdd(hn::LoadU(d, A.values + k), pick(x, A.col + k), even);
      odd = hn::MulAdd(hn::LoadU(d, A.values + k + lanes), pick(x, A.col + k + lanes), odd);
    }
    if (k + lanes <= end && A.row[k + lanes - 1] == r) {
      even = hn::MulAdd(hn::LoadU(d, A.values + k), pick(x, A.col + k), even);
      k += lanes;
    }
    sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  }
  for (; k < end && A.row[k] == r; ++k) sum += A.values[k] * x[A.col[k]];
  return sum;
}

template <class T, bool with_dot>
CooCarry<T> coo_range(const CooWork<T>& w, std::int64_t k, std::int64_t end) {
  const Triples<T>& A = w.A;
  const bool adding = w.rows == 0, last = end == A.size;
  std::int64_t next = k > 0 ? A.row[k - 1] + std::int64_t{1} : 0, prefetched = k;
  CooCarry<T> carry;
  if (k > 0 && k < end && A.row[k] == A.row[k - 1]) {
    carry.row = A.row[k];
    carry.sum = run_of_row(A, w.x, A.row[k], k, end);
    if constexpr (with_dot) carry.dot += w.x[carry.row] * carry.sum;
  }
  const auto skip_to = [&](std::int64_t row) {
    for (; next < row; ++next) w.y[next] = w.beta == T(0) ? T(0) : w.beta * w.y[next];
  };
  while (k < end) {
    const std::int32_t r = A.row[k];
    if (!adding) skip_to(r);
    const T sum = run_of_row(A, w.x, r, k, end);
    prefetch_entries(k, prefetched, A.values, A.col, A.row);
    w.y[r] = !adding && w.beta == T(0) ? w.alpha * sum : w.alpha * sum + w.beta * w.y[r];
    if constexpr (with_dot) carry.dot += w.x[r] * sum;
    next = r + std::int64_t{1};
  }
  if (last) skip_to(w.rows);
  return carry;
}

// Rows [begin, end) in deterministic mode.
template <class T>
HWY_INLINE void coo_rows(const CooWork<T>& w, std::int64_t begin, std::int64_t end) {
  const Triples<T>& A = w.A;
  std::int64_t k = std::lower_bound(A.row, A.row + A.size, static_cast<std::int32_t>(begin)) - A.row;
  for (std::int64_t r = begin; r < end; ++r) {
    T sum = 0;
    for (; k < A.size && A.row[k] == r; ++k) sum = std::fma(A.values[k], w.x[A.col[k]], sum);
    store_ordered(w.alpha, sum, w.beta, w.y[r]);
  }
}
void coo_rows_f64(const CooWork<double>& w, std::int64_t begin, std::int64_t end) { coo_rows(w, begin, end); }
void coo_rows_f32(const CooWork<float>& w, std::int64_t begin, std::int64_t end) { coo_rows(w, begin, end); }

CooCarry<double> coo_f64(const CooWork<double>& w, std::int64_t begin, std::int64_t end, bool with_dot) {
  return with_dot ? coo_range<double, true>(w, begin, end) : coo_range<double, false>(w, begin, end);
}
CooCarry<float> coo_f32(const CooWork<float>& w, std::int64_t begin, std::int64_t end, bool with_dot) {
  return with_dot ? coo_range<float, true>(w, begin, end) : coo_range<float, false>(w, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "formats/engines/library/library_kernels.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

HWY_EXPORT(coo_f64);
HWY_EXPORT(coo_f32);
HWY_EXPORT(coo_rows_f64);
HWY_EXPORT(coo_rows_f32);

// In deterministic mode a part begins at the first entry of the row in which it would begin otherwise.
template <class T>
void multiply_ordered(const Context& context, const CooWork<T>& work) {
  const int parts = useful_parts(context, work.A.size);
  const auto border = [&](int part) -> std::int64_t {
    const std::int64_t k = even_range(work.A.size, part, parts).begin;
    return part == 0 ? 0 : part == parts || k == work.A.size ? work.rows : work.A.row[k];
  };
  parallel(parts, [&](int part, int) {
    if constexpr (sizeof(T) == 8)
      HWY_DYNAMIC_DISPATCH(coo_rows_f64)(work, border(part), border(part + 1));
    else
      HWY_DYNAMIC_DISPATCH(coo_rows_f32)(work, border(part), border(part + 1));
  });
}

template <class T>
T multiply(const Context& context, const CooWork<T>& work, bool with_dot) {
  const int parts = useful_parts(context, work.A.size);
  PartialSums<CooCarry<T>> carries(parts);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(work.A.size, part, parts);
    // An empty part in the middle would be treated as the last one.
    if (range.size() == 0 && part + 1 < parts) return;
    if constexpr (sizeof(T) == 8)
      carries[part] = HWY_DYNAMIC_DISPATCH(coo_f64)(work, range.begin, range.end, with_dot);
    else
      carries[part] = HWY_DYNAMIC_DISPATCH(coo_f32)(work, range.begin, range.end, with_dot);
  });
  T dot = 0;
  for (int part = 0; part < parts; ++part) {
    const CooCarry<T>& carry = carries[part];
    if (carry.row >= 0) work.y[carry.row] += work.alpha * carry.sum;
    dot += carry.dot;
  }
  return dot;
}

}  // namespace

template <class T>
T multiply_triples(const Context& context, const Triples<T>& A, std::int64_t rows, T alpha, const T* x,
                   T beta, T* y, bool with_dot) {
  if (rows == 0) return T(0);
  const CooWork<T> work{A, rows, alpha, x, beta, y};
  if (!context.deterministic()) return multiply(context, work, with_dot);
  multiply_ordered(context, work);
  return T(0);
}
template <class T>
T add_triples(const Context& context, const Triples<T>& A, T alpha, const T* x, T* y, bool with_dot) {
  return A.size == 0 ? T(0) : multiply(context, CooWork<T>{A, 0, alpha, x, T(1), y}, with_dot);
}
#define PROTEAN_INSTANTIATE(T)                                                                               \
  template T multiply_triples<T>(const Context&, const Triples<T>&, std::int64_t, T, const T*, T, T*, bool); \
  template T add_triples<T>(const Context&, const Triples<T>&, T, const T*, T*, bool);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

namespace {

template <class T>
class Coo final : public CooHolder<T>, public HasApplyDot<T> {
 public:
  using CooHolder<T>::CooHolder;
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = multiply_triples<T>(*this->context(), this->triples(), this->rows(), T(1), x.data, T(0), y.data,
                                  true);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    multiply_triples<T>(*this->context(), this->triples(), this->rows(), alpha, x.data, beta, y.data, false);
  }
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 8), pattern.nonzeros);
}

constexpr Kernel kernels[] = {native_host_kernel<Coo>(Sums::ordered), PROTEAN_KOKKOS_KERNEL(coo)};

}  // namespace

constinit const FormatEntry entries::coo{
    .family = "coordinate",
    .id = "coo",
    .title = "Coordinates, sorted by row",
    .source =
        "Bell and Garland, Implementing sparse matrix-vector multiplication on "
        "throughput-oriented processors, SC 2009",
    .traits = {.shares_rows = true},
    .params = {},
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::coo};

}  // namespace protean::formats
#endif  // HWY_ONCE
