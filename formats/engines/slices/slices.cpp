// Slices on the host: what they hold, the conversion, and all except the arithmetic of the product.
#include "formats/engines/slices/slices.hpp"

#include <algorithm>
#include <array>

#include "core/product_parts.hpp"
#include "formats/engines/rows/row_order.hpp"
#include "formats/engines/several/multi_rows.hpp"

namespace protean::formats {
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
  copy_array(*context, from.data(), to.size(), to.data());
  return to;
}

struct PartCounts {
  std::int64_t absent = 0, longest = 0;
  std::vector<std::int32_t> row_start;  // of slices whose heights vary
  std::vector<std::int64_t> slots;
};

// The plan for a rule that leaves no choice.
SlicePlanOnHost count_slices(const Context& context, const SparsityPattern& pattern, const SliceRule& rule) {
  SlicePlanOnHost plan{rule, {}, {}, {}, {}};
  const std::int64_t C = rule.height(pattern.rows), blocks = rule.blocks(pattern.rows);
  if (rule.window > 0) plan.perm.resize(static_cast<std::size_t>(pattern.rows));
  plan.slice_ptr.assign(static_cast<std::size_t>(blocks) + 1, 0);
  const int parts = useful_parts(context, pattern.rows);
  std::vector<PartCounts> found(static_cast<std::size_t>(parts));
  // A part has whole windows and slices, or, if there is one slice, some of its rows.
  const std::int64_t unit = rule.window > 0 ? rule.window : rule.C > 0 ? C : 1;
  const std::int64_t step = rule.C > 0 ? C : pattern.rows;
  parallel(parts, [&](int part, int) {
    const Range range = even_range(pattern.rows, part, parts, unit);
    PartCounts mine;
    std::vector<std::int64_t> scratch;
    for (std::int64_t p = range.begin; rule.window > 0 && p < range.end; p += rule.window)
      sort_window(pattern, p, std::min(rule.window, range.end - p), plan.perm.data() + p, scratch);
    const auto stored = [&](std::int64_t p) {
      const std::int64_t r = plan.perm.empty() ? p : plan.perm[p];
      const std::int64_t length = pattern.row_length(r);
      if (!rule.diagonal_apart) return mine.absent += length == 0, length;
      const bool there = diagonal_place(pattern, r) >= 0;
      return mine.absent += !there, length - there;
    };
    for (std::int64_t p = range.begin, end; p < range.end; p = end) {
      end = std::min(range.end, p + step);
      if (rule.variable()) {
        cut_block(
            end - p, rule.padding, [&](std::int64_t i) { return stored(p + i); },
            [&](std::int64_t first, std::int64_t height, std::int64_t width) {
              mine.row_start.push_back(static_cast<std::int32_t>(p + first));
              mine.slots.push_back(height * width);
            });
        continue;
      }
      std::int64_t width = 0;
      for (std::int64_t q = p; q < end; ++q) width = std::max(width, stored(q));
      width = (width + rule.round - 1) / rule.round * rule.round;
      if (rule.C > 0)
        plan.slice_ptr[p / C + 1] = C * width;
      else
        mine.longest = std::max(mine.longest, C * width);
    }
    found[part] = std::move(mine);
  });
  if (rule.variable()) plan.slice_ptr.assign(1, 0);
  for (const PartCounts& one : found) {
    plan.counts.absent += rule.lists_absent() ? one.absent : 0;
    if (rule.C == 0 && blocks > 0) plan.slice_ptr[1] = std::max(plan.slice_ptr[1], one.longest);
    plan.row_start.insert(plan.row_start.end(), one.row_start.begin(), one.row_start.end());
    plan.slice_ptr.insert(plan.slice_ptr.end(), one.slots.begin(), one.slots.end());
  }
  if (rule.variable()) plan.row_start.push_back(static_cast<std::int32_t>(pattern.rows));
  plan.counts.slices = static_cast<std::int64_t>(plan.slice_ptr.size()) - 1;
  for (std::int64_t s = 0; s < plan.counts.slices; ++s) plan.slice_ptr[s + 1] += plan.slice_ptr[s];
  plan.counts.slots = plan.slice_ptr.back();
  return plan;
}

}  // namespace

std::string refusal_of(const SliceRule& rule, const SparsityPattern& pattern) {
  if (rule.window > 0 && rule.C > 0 && rule.window % rule.C != 0)
    return fmt::format("sigma = {} is not a multiple of C = {}; slices would cross windows", rule.window,
                       rule.C);
  if (!rule.diagonal_apart || pattern.rows == pattern.cols) return {};
  return fmt::format("the matrix is {} x {}; the diagonal is a separate array, which needs a square matrix",
                     pattern.rows, pattern.cols);
}

Admission admit_slots(const SliceRule& rule, const SliceCounts& counts, const SparsityPattern& pattern,
                      const FormatParams& params, std::size_t value_bytes) {
  const std::size_t bytes = slice_bytes(rule, counts, pattern.rows, value_bytes);
  const std::int64_t stored = counts.slots + (rule.diagonal_apart ? pattern.rows : 0);
  if (rule.variable()) return Admission::accept(bytes, stored);  // its padding is bounded
  // The diagonal is not fill, so that a matrix without entries has a format.
  if (auto reason = too_much_fill(counts.slots, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

SlicePlanOnHost plan_slices_on_host(const Context& context, const SparsityPattern& pattern,
                                    const SliceRule& rule) {
  if (!rule.sort_if_it_pays) return count_slices(context, pattern, rule);
  SliceRule natural = rule;
  natural.window = 0;
  SlicePlanOnHost unsorted = count_slices(context, pattern, natural);
  if (pays_unsorted(unsorted.counts.slots, pattern.nonzeros)) return unsorted;
  SlicePlanOnHost sorted = count_slices(context, pattern, rule);
  return sorted.counts.slots < unsorted.counts.slots ? sorted : unsorted;
}

template <class T>
SliceMatrix<T>::SliceMatrix(const BuildRequest<T>& request) : RowViewMatrix<T, SliceMatrix<T>>(request) {
  const SlicePlanOnHost& plan = plan_of<SlicePlanOnHost>(request.admission);
  const SparsityPattern& pattern = request.csr.pattern;
  const ContextPtr& context = request.context;
  rule_ = plan.rule, counts_ = plan.counts;
  values_ = Buffer<T>(context, counts_.slots + (rule_.diagonal_apart ? pattern.rows : 0));
  col_ = Buffer<std::int32_t>(context, counts_.slots);
  if (rule_.C > 0) slice_ptr_ = buffer_of(context, plan.slice_ptr);
  row_start_ = buffer_of(context, plan.row_start);
  perm_ = buffer_of(context, plan.perm);
  if (rule_.kind != LaneLengths::none) lengths_ = Buffer<std::int32_t>(context, pattern.rows);
  if (rule_.diagonal_index) diagonal_index_ = Buffer<std::int32_t>(context, pattern.rows);
  absent_ = Buffer<std::int32_t>(context, counts_.absent);
  for (std::int64_t p = 0, to = 0; p < pattern.rows && to < counts_.absent; ++p) {
    const bool absent = rule_.diagonal_apart ? diagonal_place(pattern, p) < 0
                                             : pattern.row_length(perm_.empty() ? p : perm_[p]) == 0;
    if (absent) absent_[to++] = static_cast<std::int32_t>(p);
  }
  if (!lengths_.empty() || !diagonal_index_.empty())
    for_rows_of_view(*context, row_view(), pattern.rows, [&](std::int64_t p, std::int64_t r) {
      const std::int64_t length = pattern.row_length(r);
      if (rule_.kind == LaneLengths::entries) lengths_[p] = static_cast<std::int32_t>(length);
      if (rule_.kind == LaneLengths::steps)
        lengths_[p] = static_cast<std::int32_t>((length + rule_.threads - 1) / rule_.threads);
      if (rule_.diagonal_index) diagonal_index_[p] = static_cast<std::int32_t>(diagonal_place(pattern, r));
    });
  divide();
  write<true>(request.csr);
}

// Parts of whole slices, or of 64 rows of one slice, with about the same number of slots and rows.
template <class T>
void SliceMatrix<T>::divide() {
  const std::int64_t places = row_view().positions();
  const int parts = product_parts(*this->context(), this->rows(), counts_.slots);
  borders_.assign(static_cast<std::size_t>(parts) + 1, places);
  borders_[0] = 0;
  const auto first_position = [&](std::int64_t slice) {
    return row_start_.empty() ? slice * rule_.C : row_start_[slice];
  };
  for (int part = 1; part < parts; ++part) {
    if (rule_.C == 0) {
      borders_[part] = even_range(places, part, parts, 64).begin;
      continue;
    }
    const std::int64_t share = (counts_.slots + places) / parts * part;
    const std::int64_t* const p = slice_ptr_.data();
    const std::int64_t* slice = std::partition_point(p, p + counts_.slices, [&](const std::int64_t& first) {
      return first + first_position(&first - p) < share;
    });
    borders_[part] = first_position(slice - p);
  }
}

template <class T>
SliceView<T> SliceMatrix<T>::row_view() const noexcept {
  const auto array = [](const auto& buffer) { return buffer.empty() ? nullptr : buffer.data(); };
  SliceView<T> view{};
  view.values = values_.data(), view.col = col_.data();
  view.slice_ptr = array(slice_ptr_), view.row_start = array(row_start_);
  view.lengths = lengths_.data(), view.perm = array(perm_);
  view.absent = absent_.data(), view.absent_count = absent_.size();
  view.set_shape(rule_, this->rows(), counts_);
  return view;
}

template <class T>
SlotView<T> SliceMatrix<T>::array_view() const noexcept {
  const SliceView<T> a = row_view();
  return {a.rows,   a.places, a.slots,  a.C,           a.slice_ptr ? 0 : a.one_width, a.slice_ptr, a.col,
          a.values, a.perm,   a.absent, a.absent_count};
}

template <class T>
SlotProduct<T> SliceMatrix<T>::product(T alpha, const T* x, T beta, T* y) const noexcept {
  const SliceView<T> a = row_view();
  SlotProduct<T> job{};
  job.order = rule_.order == LaneOrder::threads ? SlotOrder::threads
              : a.row_start                     ? SlotOrder::variable
              : a.slice_ptr                     ? SlotOrder::sliced
                                                : SlotOrder::ell;
  job.values = a.values, job.col = a.col, job.ptr = a.slice_ptr;
  job.stride = a.C, job.width = a.one_width, job.rows = a.rows, job.perm = a.perm;
  job.alpha = alpha, job.beta = beta, job.x = x, job.y = y;
  if (rule_.diagonal_apart)
    job.diagonal = a.values + a.slots;
  else
    job.empty = {absent_.begin(), absent_.end()};
  if (rule_.kind != LaneLengths::none) job.lengths = a.lengths;
  job.row_start = a.row_start, job.slices = a.slices, job.threads = a.threads;
  return job;
}

template <class T>
void SliceMatrix<T>::multiply(T alpha, const T* x, T beta, T* y) const {
  run_slot_product(product(alpha, x, beta, y), borders_);
}

template <class T>
void SliceMatrix<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  SlotProduct<T> job = product(alpha, x.data, beta, y.data);
  const bool slot_by_slot = job.order == SlotOrder::ell || job.order == SlotOrder::sliced;
  if (!this->context()->deterministic() || !slot_by_slot || job.diagonal)
    return RowViewMatrix<T, SliceMatrix<T>>::do_apply(alpha, x, beta, y);
  job.ordered = true;  // faster than row by row
  run_slot_product(job, borders_);
}

template <class T>
void SliceMatrix<T>::do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const {
  SlotProduct<T> job = product(T(1), x.data, T(0), y.data);
  job.with_dot = true;
  *result = run_slot_product(job, borders_);
}

template <class T>
void SliceMatrix<T>::do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const {
  const MultiTask<T> task(*this->context(), alpha, X, beta, Y);
  const SliceView<T> view = row_view();
  parallel(static_cast<int>(borders_.size()) - 1,
           [&](int part, int) { multi_product(view, task, borders_[part], borders_[part + 1]); });
}

template <class T>
void SliceMatrix<T>::do_update_values(const CsrMatrix<T>& csr) {
  write<false>(csr);
}

namespace {

// Positions whose slots are written together, because they lie side by side.
constexpr std::int64_t group = 16;
struct Group {
  std::array<LaneSlots, group> to;
  std::array<RowSource, group> from;
  std::array<std::int32_t, group> last;  // the column of padding

  // True when positions [first, first + count) have the same number of slots and lie side by side.
  bool together(std::int64_t first, std::int64_t count) const noexcept {
    bool same = to[first].order == LaneOrder::columns;
    for (std::int64_t i = 0; i < count; ++i)
      same = same && from[first + i].diagonal < 0 && to[first + i].base == to[first].base + i &&
             to[first + i].width == to[first].width && to[first + i].C == to[first].C;
    return same;
  }
};

template <bool columns, class T>
void write_slot(const CsrMatrix<T>& csr, const Group& g, std::int64_t i, std::int64_t k, std::int32_t* to_col,
                T* to_values) {
  const std::int64_t slot = g.to[i].slot(k);
  const bool entry = k < g.from[i].count();
  if constexpr (columns) to_col[slot] = entry ? csr.pattern.col[g.from[i].from(k)] : g.last[i];
  to_values[slot] = entry ? csr.values[g.from[i].from(k)] : T(0);
}

// `count` positions that lie together. The slots that all of these have are written without a test for each row.
template <bool columns, std::int64_t count, class T>
void write_together(const CsrMatrix<T>& csr, const Group& g, std::int64_t first, std::int32_t* to_col,
                    T* to_values) {
  const LaneSlots& to = g.to[first];
  std::int64_t all = to.width;
  const std::int32_t* from_col[count];
  const T* from_values[count];
  for (std::int64_t i = 0; i < count; ++i) {
    const RowSource& from = g.from[first + i];
    all = std::min(all, from.length);
    from_col[i] = csr.pattern.col + from.begin, from_values[i] = csr.values + from.begin;
  }
  for (std::int64_t k = 0; k < all; ++k) {
    const std::int64_t slots = to.base + k * to.C;
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (columns) to_col[slots + i] = from_col[i][k];
      to_values[slots + i] = from_values[i][k];
    }
  }
  for (std::int64_t k = all; k < to.width; ++k)
    for (std::int64_t i = 0; i < count; ++i) write_slot<columns>(csr, g, first + i, k, to_col, to_values);
}

}  // namespace

// Writes the entries of each row, then padding.
template <class T>
template <bool columns>
void SliceMatrix<T>::write(const CsrMatrix<T>& csr) {
  const SliceView<T> view = row_view();
  std::int32_t* const to_col = col_.data();
  T* const to_values = values_.data();
  const auto source = [&](std::int64_t row) {
    const std::int64_t begin = csr.pattern.row_ptr[row];
    return RowSource{begin, csr.pattern.row_ptr[row + 1] - begin,
                     rule_.diagonal_apart ? diagonal_place(csr.pattern, row) : -1};
  };
  parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
    for (std::int64_t p = borders_[part]; p < borders_[part + 1]; p += group) {
      const std::int64_t count = std::min(group, borders_[part + 1] - p);
      Group g;
      for (std::int64_t i = 0; i < count; ++i) {
        g.to[i] = view.at(p + i), g.from[i] = {0, 0, -1}, g.last[i] = 0;
        const std::int64_t row = view.row(p + i);
        if (row < 0) continue;
        const RowSource& from = g.from[i] = source(row);
        if (rule_.diagonal_apart) {
          to_values[counts_.slots + row] = from.diagonal < 0 ? T(0) : csr.values[from.begin + from.diagonal];
          g.last[i] = static_cast<std::int32_t>(row);
        }
        if (columns && from.count() > 0) g.last[i] = csr.pattern.col[from.from(from.count() - 1)];
      }
      constexpr std::int64_t half = group / 2;
      if (count == group && g.together(0, group)) {
        write_together<columns, group>(csr, g, 0, to_col, to_values);
      } else if (count == group && g.together(0, half) && g.together(half, half)) {
        write_together<columns, half>(csr, g, 0, to_col, to_values);
        write_together<columns, half>(csr, g, half, to_col, to_values);
      } else {
        for (std::int64_t i = 0; i < count; ++i)
          for (std::int64_t k = 0; k < g.to[i].width; ++k)
            write_slot<columns>(csr, g, i, k, to_col, to_values);
      }
    }
  });
}

template <class T>
void SliceMatrix<T>::diagonal(VectorView<T> d) const {
  const SliceView<T> view = row_view();
  const std::int32_t* const index = rule_.diagonal_index ? diagonal_index_.data() : nullptr;
  for_rows_of_view(*this->context(), view, counts_.slots, [&](std::int64_t p, std::int64_t r) {
    if (r < d.size) d.data[r] = view.diagonal(p, index);
  });
}

template <class T>
std::vector<LayoutArray> SliceMatrix<T>::layout() const {
  std::vector<LayoutArray> arrays;
  const bool plain = rule_.C == 0 && rule_.kind == LaneLengths::none;  // ELLPACK
  if (!plain) arrays.push_back(layout_array("slice_ptr", slice_ptr_));
  if (rule_.variable()) arrays.push_back(layout_array("row_start", row_start_));
  arrays.push_back(layout_array("col", col_));
  arrays.push_back(layout_array("values", values_.data(), counts_.slots));
  if (rule_.kind != LaneLengths::none) arrays.push_back(layout_array("lengths", lengths_));
  if (!plain) arrays.push_back(layout_array("perm", perm_));
  if (rule_.diagonal_index) arrays.push_back(layout_array("diagonal_index", diagonal_index_));
  if (rule_.diagonal_apart)
    arrays.push_back(layout_array("diagonal", values_.data() + counts_.slots, this->rows()));
  if (rule_.lists_absent())
    arrays.push_back(layout_array(rule_.diagonal_apart ? "without_diagonal" : "empty", absent_));
  return arrays;
}

template class SliceMatrix<double>;
template class SliceMatrix<float>;

}  // namespace protean::formats
