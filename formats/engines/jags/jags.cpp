// Jagged diagonals and strips in groups on the host: the conversions and the products.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/jags/jags.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/jags/jags.hpp"
#include "formats/engines/view/ordered-inl.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Not inlined: the loops before it need the registers.
template <bool ordered, class T>
HWY_NOINLINE void write_sums(const JagProduct<T>& job, const T* sums, std::int64_t p, std::int64_t count,
                             T& dot) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = job.a.perm[p + i];
    if constexpr (ordered) {
      store_ordered(job.alpha, sums[i], job.beta, job.y[row]);
    } else {
      store(job.alpha, sums[i], job.beta, job.y[row]);
      if (job.with_dot) dot += job.x[row] * job.y[row];
    }
  }
}

// JagView::reaches() for a matrix in which jag_ptr says where rows end, or for any matrix. It is asked in the innermost
// loops.
template <bool by_jag_ptr, class T>
HWY_INLINE bool reaches(const JagView<T>& a, const std::int64_t* jag_ptr, std::int64_t p, std::int64_t k) {
  if constexpr (by_jag_ptr) return jag_ptr[k] + p < jag_ptr[k + 1];
  return a.reaches(p, k);
}

// A strip of U vectors of rows at a time, and not whole jags, so that y is written once. Entries that all rows of the
// strip have are computed in vectors. The remaining entries of its longer rows follow, row by row.
template <int U, bool by_jag_ptr, class D, class T>
std::int64_t jagged(D d, const JagProduct<T>& job, std::int64_t p, std::int64_t end, T& dot) {
  constexpr std::int64_t N = lanes_of<D>, rows = U * N, ahead = 512 / static_cast<std::int64_t>(sizeof(T));
  const JagView<T>& a = job.a;
  const std::int64_t *const ptr = a.jag_ptr, all_jags = a.jags;
  const T *const all_values = a.values, *const x = job.x;
  const std::int32_t* const all_col = a.col;
  std::int64_t common = all_jags;
  alignas(64) T sums[rows];
  for (; p + rows <= end; p += rows) {
    while (common > 0 && !reaches<by_jag_ptr>(a, ptr, p + rows - 1, common - 1)) --common;
    hn::Vec<D> sum[U];
    for (int u = 0; u < U; ++u) sum[u] = hn::Zero(d);
    for (std::int64_t k = 0; k < common; ++k) {
      const T* values = all_values + ptr[k] + p;
      const std::int32_t* col = all_col + ptr[k] + p;
      for (int u = 0; u < U; ++u) {
        hwy::Prefetch(values + u * N + ahead);
        if (u * N * 4 % 64 == 0) hwy::Prefetch(col + u * N + ahead);
        sum[u] = hn::MulAdd(hn::LoadU(d, values + u * N), take(d, x, col + u * N), sum[u]);
      }
    }
    for (int u = 0; u < U; ++u) hn::StoreU(sum[u], d, sums + u * N);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int64_t k = common;
      for (; k < all_jags && reaches<by_jag_ptr>(a, ptr, p + i, k); ++k)
        sums[i] += all_values[ptr[k] + p + i] * x[all_col[ptr[k] + p + i]];
      if (k == common) break;  // later rows are not longer
    }
    write_sums<false>(job, sums, p, rows, dot);
  }
  return p;
}

// Eight positions at a time, jag by jag.
template <bool by_jag_ptr, class T>
void jagged_ordered(const JagProduct<T>& job, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t block = 8;
  const JagView<T>& a = job.a;
  for (std::int64_t p = begin, count; p < end; p += count) {
    count = std::min(block, end - p);
    T sums[block] = {}, none = 0;
    for (std::int64_t k = 0, rows = count; k < a.jags; ++k) {
      while (rows > 0 && !reaches<by_jag_ptr>(a, a.jag_ptr, p + rows - 1, k)) --rows;
      if (rows == 0) break;
      const T* values = a.values + a.jag_ptr[k] + p;
      const std::int32_t* col = a.col + a.jag_ptr[k] + p;
      hwy::Prefetch(values + 4096 / sizeof(T));
      for (std::int64_t i = 0; i < rows; ++i) sums[i] = std::fma(values[i], job.x[col[i]], sums[i]);
    }
    write_sums<true>(job, sums, p, count, none);
  }
}

template <bool by_jag_ptr, class T>
T jags(const JagProduct<T>& job, std::int64_t begin, std::int64_t end) {
  T dot = 0;
  if (job.ordered) {
    jagged_ordered<by_jag_ptr>(job, begin, end);
    return dot;
  }
  begin = jagged<4, by_jag_ptr>(hn::ScalableTag<T>(), job, begin, end, dot);
  jagged<1, by_jag_ptr>(hn::CappedTag<T, 1>(), job, begin, end, dot);
  return dot;
}
template <class T>
T jags(const JagProduct<T>& job, std::int64_t begin, std::int64_t end) {
  return job.a.lengths || job.a.jag_rows ? jags<false>(job, begin, end) : jags<true>(job, begin, end);
}

// Adds the columns of a group of h rows: U vectors of rows, column by column.
template <int U, class D, class T>
HWY_INLINE void add_columns(D d, const BisectedProduct<T>& job, std::int64_t at, std::int64_t end, int h,
                            T* sums) {
  constexpr std::int64_t N = lanes_of<D>;
  const BisectedView<T>& a = job.a;
  hn::Vec<D> sum[U];
  for (int u = 0; u < U; ++u) sum[u] = hn::LoadU(d, sums + u * N);
  for (; at < end; at += h)
    for (int u = 0; u < U; ++u)
      sum[u] = hn::MulAdd(hn::LoadU(d, a.values + at + u * N), take(d, job.x, a.col + at + u * N), sum[u]);
  for (int u = 0; u < U; ++u) hn::StoreU(sum[u], d, sums + u * N);
}

template <class T>
void strips(const BisectedProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  constexpr int N = static_cast<int>(lanes_of<hn::ScalableTag<T>>);
  const BisectedView<T>& a = job.a;
  for (std::int64_t s = begin; s < end; ++s) {
    alignas(64) T sums[std::max(32, 4 * N)] = {};
    for (int g = 0, h = a.W; g < a.groups; ++g, h /= 2) {
      std::int64_t at = a.group_ptr[s * a.groups + g];
      const std::int64_t group_end = a.group_ptr[s * a.groups + g + 1];
      if (at == group_end) continue;
      int i = 0;
      for (; i + 4 * N <= h; i += 4 * N) add_columns<4>(d, job, at + i, group_end, h, sums + i);
      for (; i + N <= h; i += N) add_columns<1>(d, job, at + i, group_end, h, sums + i);
      if (i == h) continue;
      // Fewer rows than lanes: neighbouring lanes have the rows of several columns.
      hn::Vec<decltype(d)> sum = hn::Zero(d);
      for (; at + N <= group_end; at += N)
        sum = hn::MulAdd(hn::LoadU(d, a.values + at), take(d, job.x, a.col + at), sum);
      alignas(64) T lanes[N];
      hn::StoreU(sum, d, lanes);
      for (int l = 0; l < N; ++l) sums[l % h] += lanes[l];
      for (int l = 0; at < group_end; ++at, ++l) sums[l % h] += a.values[at] * job.x[a.col[at]];
    }
    const std::int64_t first = s * a.W, count = std::min<std::int64_t>(a.W, a.rows - first);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t row = a.perm[first + i];
      // The padding of a row without entries reads x[0], which may be NaN.
      store(job.alpha, row < 0 ? T(0) : sums[i], job.beta, job.y[row < 0 ? -1 - row : row]);
    }
  }
}

double jags_f64(const JagProduct<double>& job, std::int64_t begin, std::int64_t end) {
  return jags(job, begin, end);
}
float jags_f32(const JagProduct<float>& job, std::int64_t begin, std::int64_t end) {
  return jags(job, begin, end);
}
void strips_f64(const BisectedProduct<double>& job, std::int64_t begin, std::int64_t end) {
  strips(job, begin, end);
}
void strips_f32(const BisectedProduct<float>& job, std::int64_t begin, std::int64_t end) {
  strips(job, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "formats/engines/rows/row_order.hpp"

namespace protean::formats {

HWY_EXPORT(jags_f64);
HWY_EXPORT(jags_f32);
HWY_EXPORT(strips_f64);
HWY_EXPORT(strips_f32);

double jag_product(const JagProduct<double>& product, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(jags_f64)(product, begin, end);
}
float jag_product(const JagProduct<float>& product, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(jags_f32)(product, begin, end);
}
void bisected_product(const BisectedProduct<double>& product, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(strips_f64)(product, begin, end);
}
void bisected_product(const BisectedProduct<float>& product, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(strips_f32)(product, begin, end);
}

namespace {

template <class N>
Buffer<N> buffer_of(const ContextPtr& context, const std::vector<N>& from) {
  Buffer<N> to(context, static_cast<std::int64_t>(from.size()));
  std::copy(from.begin(), from.end(), to.begin());
  return to;
}

std::vector<std::int32_t> sorted_rows(const SparsityPattern& pattern, std::int64_t window) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(pattern.rows));
  std::vector<std::int64_t> scratch;
  for (std::int64_t first = 0; first < pattern.rows; first += window)
    sort_window(pattern, first, std::min(window, pattern.rows - first), order.data() + first, scratch);
  return order;
}

}  // namespace

JagRule jag_rule(const FormatParams& params) {
  return {params.integer("round"), params.word("ends") == "rows" ? JagEnds::rows : JagEnds::jags};
}
BisectedRule bisected_rule(const FormatParams& params) {
  return {static_cast<int>(params.integer("W")), params.word("sort") == "all"};
}

Admission admit_slots_of(std::size_t bytes, std::int64_t slots, const SparsityPattern& pattern,
                         const FormatParams& params) {
  if (auto reason = too_much_fill(slots, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, slots);
  return Admission::accept(bytes, slots);
}

Admission admit_jags_on_host(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                             std::size_t value_bytes) {
  JagPlanOnHost plan{
      jag_rule(params), {0}, {}, sorted_rows(pattern, std::max<std::int64_t>(1, pattern.rows))};
  // Jag k has the positions up to the last row of more than k entries.
  std::vector<std::int64_t> rows_of;
  for (std::int64_t p = pattern.rows - 1; p >= 0; --p)
    while (static_cast<std::int64_t>(rows_of.size()) < pattern.row_length(plan.perm[p]))
      rows_of.push_back(p + 1);
  for (const std::int64_t rows : rows_of) {
    const std::int64_t round = plan.rule.round;
    plan.jag_ptr.push_back(plan.jag_ptr.back() + (rows + round - 1) / round * round);
    if (plan.rule.keeps_jag_rows()) plan.jag_rows.push_back(static_cast<std::int32_t>(rows));
  }
  const std::int64_t slots = plan.jag_ptr.back();
  Admission admission = admit_slots_of(
      jag_bytes(plan.rule, pattern.rows, static_cast<std::int64_t>(rows_of.size()), slots, value_bytes),
      slots, pattern, params);
  if (admission.ok) keep_plan(admission, std::make_shared<const JagPlanOnHost>(std::move(plan)));
  return admission;
}

template <class T>
JagMatrix<T>::JagMatrix(const BuildRequest<T>& request) : RowViewMatrix<T, JagMatrix<T>>(request) {
  const JagPlanOnHost& plan = plan_of<JagPlanOnHost>(request.admission);
  const SparsityPattern& pattern = request.csr.pattern;
  const ContextPtr& context = request.context;
  rule_ = plan.rule;
  jag_ptr_ = buffer_of(context, plan.jag_ptr), jag_rows_ = buffer_of(context, plan.jag_rows);
  perm_ = buffer_of(context, plan.perm);
  values_ = Buffer<T>(context, plan.jag_ptr.back());
  col_ = Buffer<std::int32_t>(context, plan.jag_ptr.back());
  if (rule_.ends == JagEnds::rows) lengths_ = Buffer<std::int32_t>(context, pattern.rows);
  // Parts with nearly the same number of entries. Positions are sorted by decreasing length.
  const int parts = useful_parts(*context, pattern.nonzeros + pattern.rows);
  const std::int64_t total = pattern.nonzeros + pattern.rows;
  borders_.assign(static_cast<std::size_t>(parts) + 1, pattern.rows);
  std::int64_t before = 0;
  for (std::int64_t p = 0, part = 0; p < pattern.rows; ++p) {
    while (part < parts && before >= total / parts * part) borders_[part++] = p;
    const std::int64_t length = pattern.row_length(perm_[p]);
    before += length + 1;
    if (rule_.ends == JagEnds::rows) lengths_[p] = static_cast<std::int32_t>(length);
  }
  borders_.front() = 0, borders_.back() = pattern.rows;
  const JagView<T> view = row_view();
  parallel(parts, [&](int part, int) {
    for (std::int64_t p = borders_[part]; p < borders_[part + 1]; ++p) {
      std::int64_t k = pattern.row_ptr[perm_[p]];
      view.for_entries(p, [&](std::int32_t, std::int64_t place) {
        values_[place] = request.csr.values[k], col_[place] = pattern.col[k++];
      });
    }
  });
  std::int64_t rows = view.rows;
  for (std::int64_t k = 0; rule_.round > 1 && k < view.jags; ++k) {
    while (!view.reaches(rows - 1, k)) --rows;  // a jag has at least one row
    std::fill(values_.begin() + jag_ptr_[k] + rows, values_.begin() + jag_ptr_[k + 1], T(0));
    std::fill(col_.begin() + jag_ptr_[k] + rows, col_.begin() + jag_ptr_[k + 1], 0);
  }
}

template <class T>
JagView<T> JagMatrix<T>::row_view() const noexcept {
  return {values_.data(),
          col_.data(),
          jag_ptr_.data(),
          jag_rows_.empty() ? nullptr : jag_rows_.data(),
          rule_.ends == JagEnds::rows ? lengths_.data() : nullptr,
          perm_.data(),
          this->rows(),
          jag_ptr_.size() - 1};
}

template <class T>
T JagMatrix<T>::run(T alpha, const T* x, T beta, T* y, bool with_dot) const {
  const JagProduct<T> job{row_view(), alpha, beta, x, y, with_dot, this->context()->deterministic()};
  const int parts = static_cast<int>(borders_.size()) - 1;
  PartialSums<T> sums(parts);
  parallel(parts, [&](int part, int) { sums[part] = jag_product(job, borders_[part], borders_[part + 1]); });
  return sums.total();
}

template <class T>
std::vector<LayoutArray> JagMatrix<T>::layout() const {
  std::vector<LayoutArray> arrays{layout_array("jag_ptr", jag_ptr_), layout_array("perm", perm_),
                                  layout_array("col", col_), layout_array("values", values_)};
  if (rule_.keeps_jag_rows()) arrays.push_back(layout_array("jag_rows", jag_rows_));
  if (rule_.ends == JagEnds::rows) arrays.push_back(layout_array("lengths", lengths_));
  return arrays;
}

Admission admit_strips_on_host(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                               std::size_t value_bytes) {
  BisectedPlanOnHost plan;
  plan.rule = bisected_rule(params);
  plan.perm =
      sorted_rows(pattern, plan.rule.sort_all ? std::max<std::int64_t>(1, pattern.rows) : plan.rule.W);
  const int groups = plan.rule.groups();
  plan.group_ptr.push_back(0);
  for (std::int64_t first = 0; first < pattern.rows; first += plan.rule.W) {
    const auto length = [&](std::int64_t i) {
      return first + i < pattern.rows ? pattern.row_length(plan.perm[first + i]) : 0;
    };
    for (std::int64_t g = 0, h = plan.rule.W, before = 0; g < groups; ++g, h /= 2) {
      const std::int64_t end = group_end(plan.rule, static_cast<int>(g), length);
      plan.group_ptr.push_back(plan.group_ptr.back() + h * (end - before));
      before = end;
    }
  }
  for (std::int32_t& row : plan.perm)
    if (pattern.row_length(row) == 0) row = -1 - row;
  const std::int64_t slots = plan.group_ptr.back();
  Admission admission =
      admit_slots_of(bisected_bytes(plan.rule, pattern.rows, slots, value_bytes), slots, pattern, params);
  if (admission.ok) keep_plan(admission, std::make_shared<const BisectedPlanOnHost>(std::move(plan)));
  return admission;
}

template <class T>
BisectedMatrix<T>::BisectedMatrix(const BuildRequest<T>& request)
    : RowViewMatrix<T, BisectedMatrix<T>>(request) {
  const BisectedPlanOnHost& plan = plan_of<BisectedPlanOnHost>(request.admission);
  const SparsityPattern& pattern = request.csr.pattern;
  const ContextPtr& context = request.context;
  rule_ = plan.rule;
  group_ptr_ = buffer_of(context, plan.group_ptr), perm_ = buffer_of(context, plan.perm);
  const std::int64_t slots = plan.group_ptr.back(), strips = rule_.strips(pattern.rows);
  values_ = Buffer<T>(context, slots), col_ = Buffer<std::int32_t>(context, slots);
  // Parts of whole strips with nearly the same number of slots and rows.
  const int parts = useful_parts(*context, slots + pattern.rows), groups = rule_.groups();
  borders_.assign(static_cast<std::size_t>(parts) + 1, strips);
  for (std::int64_t s = 0, part = 0; s < strips; ++s)
    while (part < parts && group_ptr_[s * groups] + s * rule_.W >= (slots + strips * rule_.W) / parts * part)
      borders_[part++] = s;
  borders_.front() = 0;
  const BisectedView<T> view = row_view();
  parallel(parts, [&](int part, int) {
    for (std::int64_t p = borders_[part] * rule_.W; p < borders_[part + 1] * rule_.W; ++p) {
      std::int64_t begin = 0, end = 0;
      if (p < pattern.rows) begin = pattern.row_ptr[view.row(p)], end = pattern.row_ptr[view.row(p) + 1];
      view.fill(p, begin, end, pattern.col, request.csr.values, col_.data(), values_.data());
    }
  });
}

template <class T>
void BisectedMatrix<T>::multiply(T alpha, const T* x, T beta, T* y) const {
  const BisectedProduct<T> job{row_view(), alpha, beta, x, y};
  parallel(static_cast<int>(borders_.size()) - 1,
           [&](int part, int) { bisected_product(job, borders_[part], borders_[part + 1]); });
}

template class JagMatrix<double>;
template class JagMatrix<float>;
template class BisectedMatrix<double>;
template class BisectedMatrix<float>;

}  // namespace protean::formats
#endif
