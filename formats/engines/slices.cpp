// Slices whose rows know their lengths, on the host: the conversion and the product.
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/slices.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/slices.hpp"
#include "formats/simd_gather-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Writes the sums of positions p, p + 1, ... and drops those past the last row.
template <class T>
HWY_INLINE void write_sums(const SliceProduct<T>& job, const T* sums, std::int64_t p, std::int64_t count) {
  const SliceView<T>& a = job.a;
  count = std::min(count, a.rows - p);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = a.perm ? a.perm[p + i] : p + i;
    T sum = sums[i];
    if (a.diagonal_apart) sum += a.values[a.slots + row] * job.x[row];
    store(job.alpha, sum, job.beta, job.y[row]);
  }
}

// Order columns: U vectors of rows from position p on, all of one slice.
template <int U, class D, class T>
HWY_INLINE void lanes_of_rows(D d, const SliceProduct<T>& job, std::int64_t p) {
  constexpr std::int64_t N = lanes_of<D>;
  const SliceView<T>& a = job.a;
  const LaneSlots at = a.at(p);
  std::int64_t least = at.width, most[U];
  for (int u = 0; u < U; ++u) {
    most[u] = at.width;
    if (a.kind == LaneLengths::none) continue;
    most[u] = 0;
    for (std::int64_t i = 0; i < N; ++i) {
      const std::int64_t q = p + u * N + i;
      const std::int64_t length = q < a.rows ? a.lengths[q] : 0;
      most[u] = std::max(most[u], length), least = std::min(least, length);
    }
  }
  hn::Vec<D> sum[U];
  for (int u = 0; u < U; ++u) sum[u] = hn::Zero(d);
  // Slots that all of these rows have.
  for (std::int64_t k = 0; k < least; ++k) {
    const T* values = a.values + at.base + k * a.C;
    const std::int32_t* col = a.col + at.base + k * a.C;
    for (int u = 0; u < U; ++u)
      sum[u] = hn::MulAdd(hn::LoadU(d, values + u * N), take(d, job.x, col + u * N), sum[u]);
  }
  HWY_ALIGN T sums[U * N];
  for (int u = 0; u < U; ++u) hn::StoreU(sum[u], d, sums + u * N);
  // Slots of longer rows: padding of the others is not read.
  for (int u = 0; u < U; ++u)
    for (std::int64_t k = least; k < most[u]; ++k)
      for (std::int64_t i = 0; i < N; ++i) {
        const std::int64_t q = p + u * N + i, slot = at.base + k * a.C + u * N + i;
        if (k < (q < a.rows ? a.lengths[q] : 0)) sums[u * N + i] += a.values[slot] * job.x[a.col[slot]];
      }
  write_sums(job, sums, p, U * N);
}

template <int U, class D, class T>
std::int64_t columns(D d, const SliceProduct<T>& job, std::int64_t p, std::int64_t end) {
  constexpr std::int64_t rows = U * lanes_of<D>;
  for (; p + rows <= end; p += rows) lanes_of_rows<U>(d, job, p);
  return p;
}

// Order threads: a vector of neighbouring slots of one row.
template <class D, class T>
void vectors_of_row(D d, const SliceProduct<T>& job, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t N = lanes_of<D>;
  const SliceView<T>& a = job.a;
  const std::int64_t step = a.C * a.threads;
  for (std::int64_t p = begin; p < std::min(end, a.rows); ++p) {
    const LaneSlots at = a.at(p);
    hn::Vec<D> sum = hn::Zero(d);
    const std::int64_t steps = a.lengths[p];
    for (std::int64_t s = 0; s < steps; ++s)
      for (std::int64_t t = 0; t < a.threads; t += N) {
        const std::int64_t slot = at.base + s * step + t;
        sum = hn::MulAdd(hn::LoadU(d, a.values + slot), take(d, job.x, a.col + slot), sum);
      }
    const T total = hn::GetLane(hn::SumOfLanes(d, sum));
    write_sums(job, &total, p, 1);
  }
}

template <class T>
void run(const SliceProduct<T>& job, std::int64_t begin, std::int64_t end) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  constexpr std::int64_t N = lanes_of<hn::ScalableTag<T>>;
  const SliceView<T>& a = job.a;
  if (a.order == LaneOrder::threads) {
    if (a.threads >= N) return vectors_of_row(d, job, begin, end);
    if (a.threads >= 8) return vectors_of_row(hn::CappedTag<T, 8>(), job, begin, end);
    if (a.threads >= 4) return vectors_of_row(hn::CappedTag<T, 4>(), job, begin, end);
    if (a.threads >= 2) return vectors_of_row(hn::CappedTag<T, 2>(), job, begin, end);
    return vectors_of_row(one, job, begin, end);
  }
  // A group of rows lies within one slice.
  if (a.C % (4 * N) == 0 || !a.slice_ptr) begin = columns<4>(d, job, begin, end);
  if (a.C % N == 0 || !a.slice_ptr) begin = columns<1>(d, job, begin, end);
  if (a.C % 4 == 0) begin = columns<1>(hn::CappedTag<T, 4>(), job, begin, end);
  columns<1>(one, job, begin, end);
}

void slices_f64(const SliceProduct<double>& job, std::int64_t begin, std::int64_t end) {
  run(job, begin, end);
}
void slices_f32(const SliceProduct<float>& job, std::int64_t begin, std::int64_t end) {
  run(job, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "formats/engines/row_order.hpp"

namespace protean::formats {

HWY_EXPORT(slices_f64);
HWY_EXPORT(slices_f32);

void slice_product(const SliceProduct<double>& product, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(slices_f64)(product, begin, end);
}
void slice_product(const SliceProduct<float>& product, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(slices_f32)(product, begin, end);
}

namespace {

// The place of the diagonal entry in row r, or -1.
std::int64_t diagonal_place(const SparsityPattern& pattern, std::int64_t r) {
  const std::int32_t *first = pattern.col + pattern.row_ptr[r], *last = pattern.col + pattern.row_ptr[r + 1];
  const std::int32_t* const found = std::lower_bound(first, last, r);
  return found != last && *found == r ? found - first : -1;
}

template <class N>
Buffer<N> buffer_of(const ContextPtr& context, const std::vector<N>& from) {
  Buffer<N> to(context, static_cast<std::int64_t>(from.size()));
  std::copy(from.begin(), from.end(), to.begin());
  return to;
}

}  // namespace

std::string refusal_of(const SliceRule& rule, const SparsityPattern& pattern) {
  if (!rule.diagonal_apart || pattern.rows == pattern.cols) return {};
  return fmt::format("the matrix is {} x {}; the diagonal is an array of its own in square matrices only",
                     pattern.rows, pattern.cols);
}

Admission admit_slots(const SliceRule& rule, const SliceCounts& counts, const SparsityPattern& pattern,
                      const FormatParams& params, std::size_t value_bytes) {
  const std::size_t bytes = slice_bytes(rule, counts, pattern.rows, value_bytes);
  const std::int64_t stored = counts.slots + (rule.diagonal_apart ? pattern.rows : 0);
  // The diagonal is no fill, so that a matrix without entries has a format.
  if (auto reason = too_much_fill(counts.slots, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

SlicePlanOnHost plan_slices_on_host(const Context& context, const SparsityPattern& pattern,
                                    const SliceRule& rule) {
  SlicePlanOnHost plan{rule, {}, {}, {}};
  if (rule.sort_all) {
    plan.perm.resize(static_cast<std::size_t>(pattern.rows));
    std::vector<std::int64_t> scratch;
    if (pattern.rows > 0) sort_window(pattern, 0, pattern.rows, plan.perm.data(), scratch);
  }
  const std::int64_t C = rule.height(pattern.rows), slices = rule.slices(pattern.rows);
  plan.slice_ptr.assign(static_cast<std::size_t>(slices) + 1, 0);
  const int parts = useful_parts(context, pattern.rows);
  std::vector<std::int64_t> without(static_cast<std::size_t>(parts), 0),
      longest(static_cast<std::size_t>(parts), 0);
  // A part has whole slices, or, where there is one, some of its rows.
  const std::int64_t unit = rule.C > 0 ? C : 1;
  parallel(parts, [&](int part, int) {
    const Range range = even_range(pattern.rows, part, parts, unit);
    for (std::int64_t p = range.begin; p < range.end; ++p) {
      const std::int64_t r = plan.perm.empty() ? p : plan.perm[p];
      std::int64_t length = pattern.row_length(r);
      if (rule.diagonal_apart) {
        const bool there = diagonal_place(pattern, r) >= 0;
        length -= there, without[part] += !there;
      }
      const std::int64_t width = (length + rule.threads - 1) / rule.threads * rule.threads;
      std::int64_t& widest = rule.C > 0 ? plan.slice_ptr[p / C + 1] : longest[part];
      widest = std::max(widest, C * width);
    }
  });
  if (rule.C == 0 && slices > 0) plan.slice_ptr[1] = *std::max_element(longest.begin(), longest.end());
  for (std::int64_t s = 0; s < slices; ++s) plan.slice_ptr[s + 1] += plan.slice_ptr[s];
  plan.counts.slots = plan.slice_ptr[slices];
  for (const std::int64_t count : without) plan.counts.without_diagonal += count;
  return plan;
}

template <class T>
SliceMatrix<T>::SliceMatrix(const BuildRequest<T>& request) : RowViewMatrix<T, SliceMatrix<T>>(request) {
  const SlicePlanOnHost& plan = plan_of<SlicePlanOnHost>(request.admission);
  const SparsityPattern& pattern = request.csr.pattern;
  const ContextPtr& context = request.context;
  rule_ = plan.rule, slots_ = plan.counts.slots;
  values_ = Buffer<T>(context, slots_ + (rule_.diagonal_apart ? pattern.rows : 0));
  col_ = Buffer<std::int32_t>(context, slots_);
  if (rule_.C > 0) slice_ptr_ = buffer_of(context, plan.slice_ptr);
  perm_ = buffer_of(context, plan.perm);
  if (rule_.kind != LaneLengths::none) lengths_ = Buffer<std::int32_t>(context, pattern.rows);
  if (rule_.diagonal_index) diagonal_index_ = Buffer<std::int32_t>(context, pattern.rows);
  without_ = Buffer<std::int32_t>(context, plan.counts.without_diagonal);
  for (std::int64_t r = 0, at = 0; r < pattern.rows && without_.size() > 0; ++r)
    if (diagonal_place(pattern, r) < 0) without_[at++] = static_cast<std::int32_t>(r);
  for_rows_of_view(*context, row_view(), pattern.nonzeros, [&](std::int64_t p, std::int64_t r) {
    const std::int64_t length = pattern.row_length(r);
    if (rule_.kind == LaneLengths::entries) lengths_[p] = static_cast<std::int32_t>(length);
    if (rule_.kind == LaneLengths::steps)
      lengths_[p] = static_cast<std::int32_t>((length + rule_.threads - 1) / rule_.threads);
    if (rule_.diagonal_index) diagonal_index_[p] = static_cast<std::int32_t>(diagonal_place(pattern, r));
  });
  do_update_values(request.csr);
  // Parts of whole slices, or of 64 rows of one slice, with about the same number of slots and rows.
  const std::int64_t places = row_view().positions(), unit = rule_.C > 0 ? rule_.C : 64;
  const int parts = useful_parts(*context, slots_ + pattern.rows);
  borders_.assign(static_cast<std::size_t>(parts) + 1, places);
  borders_[0] = 0;
  for (int part = 1; part < parts; ++part) {
    if (rule_.C == 0) {
      borders_[part] = even_range(places, part, parts, unit).begin;
      continue;
    }
    const std::int64_t share = (slots_ + places) / parts * part;
    const std::int64_t *const p = slice_ptr_.data(), slices = slice_ptr_.size() - 1;
    const std::int64_t* slice = std::partition_point(
        p, p + slices, [&](const std::int64_t& first) { return first + (&first - p) * unit < share; });
    borders_[part] = (slice - p) * unit;
  }
}

template <class T>
SliceView<T> SliceMatrix<T>::row_view() const noexcept {
  SliceView<T> view{};
  view.values = values_.data(), view.col = col_.data();
  view.slice_ptr = slice_ptr_.empty() ? nullptr : slice_ptr_.data();
  view.lengths = lengths_.data(), view.perm = perm_.empty() ? nullptr : perm_.data();
  view.without = without_.data(), view.without_count = without_.size();
  view.set_shape(rule_, this->rows(), slots_);
  return view;
}

template <class T>
void SliceMatrix<T>::multiply(T alpha, const T* x, T beta, T* y) const {
  const SliceProduct<T> job{row_view(), alpha, beta, x, y};
  parallel(static_cast<int>(borders_.size()) - 1,
           [&](int part, int) { slice_product(job, borders_[part], borders_[part + 1]); });
}

// Writes the padding as well, so the constructor uses it.
template <class T>
void SliceMatrix<T>::do_update_values(const CsrMatrix<T>& csr) {
  const SliceView<T> view = row_view();
  parallel(useful_parts(*this->context(), slots_ + view.places), [&](int part, int parts) {
    const Range range = even_range(view.places, part, parts);
    for (std::int64_t p = range.begin; p < range.end; ++p)
      view.fill(p, csr.pattern.row_ptr, csr.pattern.col, csr.values, col_.data(), values_.data());
  });
}

template <class T>
void SliceMatrix<T>::diagonal(VectorView<T> d) const {
  if (!rule_.diagonal_index && !rule_.diagonal_apart) return RowViewMatrix<T, SliceMatrix<T>>::diagonal(d);
  const SliceView<T> view = row_view();
  for_rows_of_view(*this->context(), view, 0, [&](std::int64_t p, std::int64_t r) {
    if (r >= d.size) return;
    if (rule_.diagonal_apart)
      d.data[r] = values_[slots_ + r];
    else
      d.data[r] = diagonal_index_[p] < 0 ? T(0) : values_[view.at(p).slot(diagonal_index_[p])];
  });
}

template <class T>
std::vector<LayoutArray> SliceMatrix<T>::layout() const {
  std::vector<LayoutArray> arrays{layout_array("slice_ptr", slice_ptr_), layout_array("col", col_),
                                  layout_array("values", values_.data(), slots_)};
  if (rule_.kind != LaneLengths::none) arrays.push_back(layout_array("lengths", lengths_));
  if (rule_.sort_all) arrays.push_back(layout_array("perm", perm_));
  if (rule_.diagonal_index) arrays.push_back(layout_array("diagonal_index", diagonal_index_));
  if (rule_.diagonal_apart) {
    arrays.push_back(layout_array("diagonal", values_.data() + slots_, this->rows()));
    arrays.push_back(layout_array("without_diagonal", without_));
  }
  return arrays;
}

template class SliceMatrix<double>;
template class SliceMatrix<float>;

}  // namespace protean::formats
#endif
