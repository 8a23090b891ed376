// PCSR, prefetch-CRS: the rows are grouped into panels, and the entries of a panel into blocks whose part of x fits the
// fast memory of a processor, so that their columns need only 16 bits.
//
//        | 1 . 2 . |     panel = 2, partition = 2, align = 1: four blocks
//    A = | . 3 . . |     panel_ptr = 0 2 4          block_ptr = 0 2 3 5 6
//        | . . . . |     first_col = 0 2 0 3        width     = 2 1 2 1
//        | 4 5 . 6 |     row_end   = 1 2 | 1 1 | 0 2 | 0 1
//                        col       = 0 1 | 0 | 0 1 | 0          values = 1 3 | 2 | 4 5 | 6
//
// Arrays:
//   panel_ptr  [panels + 1] int64: number of blocks before each panel; panels = ceil(rows / panel).
//   first_col  [blocks] int32: the first column of the panel that no earlier block has. The block has all entries of
//              the panel in the `partition` columns from there on.
//   width      [blocks] int32: columns from the first to the last one that it uses, at most `partition`.
//   block_ptr  [blocks + 1] int64: number of slots before each block.
//   row_end    [blocks panel] int32: the end of each row's slots in its block; rows past the last one have none.
//   col        [slots] uint16: the column minus first_col. Entries come first, columns ascending. Padding repeats the
//              row's last column. A row without entries in the block has no slots.
//   values     [slots]: 0 if padded.
// Bytes: (v + 2) slots + (16 + 4 panel) blocks + 8 + 8 (panels + 1), with v bytes a value.
// Parameters:
//   panel      rows of a panel.
//   partition  the most columns of a block: that many numbers of x are held in fast memory.
//   align      the slots of a row in a block are a multiple of this: 16 threads of a GPU compute a row.
//   max_fill   the most slots per entry.
// Wins: for finite element matrices with long rows in a band: x is read from memory in order, once for each block, and
//   indices take half the bytes.
// Refuses: when slots > max_fill nonzeros, as happens if partitions are nearly empty.
// Source: M. M. Dehnavi, D. M. Fernandez, D. Giannacopoulos, Finite-element sparse matrix vector multiplication on
//   graphic processing units, IEEE Trans. Magnetics 46(8), 2982-2985, 2010, doi:10.1109/TMAG.2010.2043511. The survey
//   of Filippone et al. says no more than "a vector partitioning scheme, zero padding of the matrix rows and
//   computation strategy"; the arrays, and that partitions begin where the panel needs x, are our reading. Low
//   confidence.
//
// A NaN in x reaches only rows that use it. An infinite x_j gives NaN in a padded row whose last column of a block is
// j.
#include "formats/row/pcsr.hpp"

#include <algorithm>
#include <array>

#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

// Calls f(begins, ends) for each block of panel p: entries [begins[r], ends[r]) of row r of the panel lie in it.
template <class F>
void walk_panel(const SparsityPattern& pattern, const PanelShape& shape, std::int64_t p, F&& f) {
  std::array<std::int64_t, most_panel_rows> begins, ends;
  const std::int64_t first = p * shape.panel, rows = std::min(shape.panel, pattern.rows - first);
  for (std::int64_t r = 0; r < shape.panel; ++r)
    ends[r] = begins[r] = r < rows ? pattern.row_ptr[first + r] : 0;
  for (;;) {
    std::int64_t next = no_column;
    for (std::int64_t r = 0; r < rows; ++r)
      if (begins[r] = ends[r]; begins[r] < pattern.row_ptr[first + r + 1])
        next = std::min<std::int64_t>(next, pattern.col[begins[r]]);
    if (next == no_column) return;
    for (std::int64_t r = 0; r < rows; ++r)
      ends[r] = std::lower_bound(pattern.col + begins[r], pattern.col + pattern.row_ptr[first + r + 1],
                                 next + shape.partition) -
                pattern.col;
    f(begins, ends);
  }
}

// The number of blocks and of slots before each panel.
struct PanelPlan {
  std::vector<std::int64_t> blocks, slots;
};

PanelPlan plan_panels(const Context& context, const SparsityPattern& pattern, const PanelShape& shape) {
  const std::int64_t panels = shape.panels(pattern.rows);
  PanelPlan plan{std::vector<std::int64_t>(panels + 1), std::vector<std::int64_t>(panels + 1)};
  parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
    const Range range = even_range(panels, part, parts);
    for (std::int64_t p = range.begin; p < range.end; ++p)
      walk_panel(pattern, shape, p, [&](const auto& begins, const auto& ends) {
        ++plan.blocks[p + 1];
        for (std::int64_t r = 0; r < shape.panel; ++r) plan.slots[p + 1] += shape.padded(ends[r] - begins[r]);
      });
  });
  for (std::int64_t p = 0; p < panels; ++p)
    plan.blocks[p + 1] += plan.blocks[p], plan.slots[p + 1] += plan.slots[p];
  return plan;
}

template <class T>
class Pcsr final : public RowViewMatrix<T, Pcsr<T>> {
 public:
  explicit Pcsr(const BuildRequest<T>& request) : Pcsr(request, plan_of<PanelPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return panel_ptr_.bytes() + first_col_.bytes() + width_.bytes() + block_ptr_.bytes() + row_end_.bytes() +
           col_.bytes() + values_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("panel_ptr", panel_ptr_), layout_array("first_col", first_col_),
            layout_array("width", width_),         layout_array("block_ptr", block_ptr_),
            layout_array("row_end", row_end_),     layout_array("col", col_),
            layout_array("values", values_)};
  }
  PcsrView<T> row_view() const {
    return {values_.data(),    col_.data(),     panel_ptr_.data(), first_col_.data(), width_.data(),
            block_ptr_.data(), row_end_.data(), this->rows(),      shape_.panel};
  }
  T* mutable_values() { return values_.data(); }

  // A thread has whole panels, nearly the same number of slots + rows each.
  void multiply(T alpha, const T* x, T beta, T* y) const {
    const PcsrView<T> a = row_view();
    const std::int64_t panels = panel_ptr_.size() - 1, work = values_.size() + panels * a.panel;
    parallel(useful_parts(*this->context(), work), [&](int part, int parts) {
      const auto border = [&](int p) {
        const std::int64_t share = even_range(work, p, parts).begin;
        const auto* first =
            std::partition_point(a.panel_ptr, a.panel_ptr + panels, [&](const std::int64_t& block) {
              return a.block_ptr[block] + (&block - a.panel_ptr) * a.panel < share;
            });
        return p == parts ? panels : first - a.panel_ptr;
      };
      for (std::int64_t p = border(part), end = border(part + 1); p < end; ++p) {
        T sums[most_panel_rows] = {};
        for (std::int64_t b = a.panel_ptr[p]; b < a.panel_ptr[p + 1]; ++b) {
          const T* const values = a.values + a.block_ptr[b];
          const T* const part_of_x = x + a.first_col[b];
          const std::uint16_t* const col = a.col + a.block_ptr[b];
          std::int32_t k = 0;
          for (std::int64_t r = 0; r < a.panel; ++r) {
            const std::int32_t row_end = a.row_end[b * a.panel + r];
            T even = 0, odd = 0;
            for (; k + 2 <= row_end; k += 2)
              even += values[k] * part_of_x[col[k]], odd += values[k + 1] * part_of_x[col[k + 1]];
            for (; k < row_end; ++k) even += values[k] * part_of_x[col[k]];
            sums[r] += even + odd;
          }
        }
        for (std::int64_t r = p * a.panel; r < std::min(this->rows(), (p + 1) * a.panel); ++r)
          store(alpha, sums[r - p * a.panel], beta, y[r]);
      }
    });
  }

 private:
  Pcsr(const BuildRequest<T>& request, const PanelPlan& plan)
      : RowViewMatrix<T, Pcsr<T>>(request),
        shape_(panel_shape(request.params)),
        panel_ptr_(request.context, static_cast<std::int64_t>(plan.blocks.size())),
        first_col_(request.context, plan.blocks.back()),
        width_(request.context, plan.blocks.back()),
        block_ptr_(request.context, plan.blocks.back() + 1),
        row_end_(request.context, plan.blocks.back() * shape_.panel),
        col_(request.context, plan.slots.back()),
        values_(request.context, plan.slots.back()) {
    const CsrMatrix<T>& csr = request.csr;
    std::copy(plan.blocks.begin(), plan.blocks.end(), panel_ptr_.begin());
    block_ptr_[plan.blocks.back()] = plan.slots.back();
    parallel(useful_parts(*request.context, csr.nonzeros() + csr.rows()), [&](int part, int parts) {
      const Range range = even_range(panel_ptr_.size() - 1, part, parts);
      for (std::int64_t p = range.begin; p < range.end; ++p) fill(csr, p, plan.blocks[p], plan.slots[p]);
    });
  }

  // Writes the blocks of panel p, the first of which is block b and begins at `slot`.
  void fill(const CsrMatrix<T>& csr, std::int64_t p, std::int64_t b, std::int64_t slot) {
    walk_panel(csr.pattern, shape_, p, [&](const auto& begins, const auto& ends) {
      std::int32_t first = std::numeric_limits<std::int32_t>::max(), last = 0;
      for (std::int64_t r = 0; r < shape_.panel; ++r)
        if (begins[r] < ends[r]) {
          first = std::min(first, csr.pattern.col[begins[r]]);
          last = std::max(last, csr.pattern.col[ends[r] - 1]);
        }
      first_col_[b] = first, width_[b] = last + 1 - first, block_ptr_[b] = slot;
      for (std::int64_t r = 0; r < shape_.panel; ++r) {
        for (std::int64_t k = begins[r], end = k + shape_.padded(ends[r] - k); k < end; ++k, ++slot) {
          col_[slot] = static_cast<std::uint16_t>(csr.pattern.col[std::min(k, ends[r] - 1)] - first);
          values_[slot] = k < ends[r] ? csr.values[k] : T(0);
        }
        row_end_[b * shape_.panel + r] = static_cast<std::int32_t>(slot - block_ptr_[b]);
      }
      ++b;
    });
  }

  PanelShape shape_;
  Buffer<std::int64_t> panel_ptr_;
  Buffer<std::int32_t> first_col_, width_;
  Buffer<std::int64_t> block_ptr_;
  Buffer<std::int32_t> row_end_;
  Buffer<std::uint16_t> col_;
  Buffer<T> values_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  PanelPlan plan = plan_panels(context, pattern, panel_shape(params));
  Admission admission = admit_panels(pattern, params, plan.blocks.back(), plan.slots.back(), value_bytes);
  if (admission.ok) keep_plan(admission, std::make_shared<const PanelPlan>(std::move(plan)));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "panel",
     .doc = "rows of a panel",
     .default_value = "128",
     .smallest = 1,
     .largest = most_panel_rows},
    {.name = "partition",
     .doc = "the most columns of a block: that many numbers of x are held in fast memory",
     .default_value = "4096",
     .smallest = 1,
     .largest = most_partition_cols},
    {.name = "align",
     .doc = "the slots of a row in a block are a multiple of this",
     .default_value = "16",
     .smallest = 1,
     .largest = 64},
    {.name = "max_fill",
     .doc = "the format refuses more stored values per entry than this",
     .default_value = "8",
     .smallest = 1,
     .largest = 1'000'000}};

constexpr Kernel kernels[] = {native_host_kernel<Pcsr>(Sums::ordered)};

}  // namespace

Admission admit_panels(const SparsityPattern& pattern, const FormatParams& params, std::int64_t blocks,
                       std::int64_t slots, std::size_t value_bytes) {
  const PanelShape shape = panel_shape(params);
  const std::size_t bytes =
      static_cast<std::size_t>(slots) * (value_bytes + 2) +
      static_cast<std::size_t>(blocks * (16 + 4 * shape.panel) + 8 + 8 * (shape.panels(pattern.rows) + 1));
  if (auto reason = too_much_fill(slots, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, slots);
  return Admission::accept(bytes, slots);
}

constinit const FormatEntry entries::pcsr{
    .family = "row",
    .id = "pcsr",
    .title = "Prefetch-CRS: panels of rows, partitions of x in fast memory",
    .source = "Dehnavi, Fernandez, Giannacopoulos, IEEE Trans. Magnetics 46(8), 2010",
    .traits = {.needs_alike_rows = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::pcsr};

}  // namespace protean::formats
