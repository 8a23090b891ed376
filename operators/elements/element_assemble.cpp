#include "operators/elements/element_assemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/background.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/words.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::detail {
namespace {

// Collects the distinct columns of a row, for one row after the other. where(c) is the index of column c in
// the sorted row, for columns added since next_row(). Needs 8 bytes for each column of the matrix.
class RowColumns {
 public:
  explicit RowColumns(std::int64_t cols) : seen_(static_cast<std::size_t>(cols), {-1, 0}) {}
  void next_row(std::int32_t row) { row_ = row, columns_.clear(); }
  void add(std::int32_t c) {
    if (seen_[c].row == row_) return;
    seen_[c].row = row_;
    columns_.push_back(c);
  }
  // Sorts the columns; where() is valid afterwards.
  const std::vector<std::int32_t>& sorted() {
    std::sort(columns_.begin(), columns_.end());
    for (std::size_t k = 0; k < columns_.size(); ++k) seen_[columns_[k]].place = static_cast<std::int32_t>(k);
    return columns_;
  }
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(columns_.size()); }
  std::int32_t where(std::int32_t c) const noexcept { return seen_[c].place; }

 private:
  struct Seen {
    std::int32_t row, place;
  };
  std::vector<Seen> seen_;
  std::vector<std::int32_t> columns_;
  std::int32_t row_ = -1;
};

// Number of rows, or elements, between two checkpoints for cancellation.
constexpr std::int64_t rows_at_a_time = 256;
void checkpoint_at(std::int64_t row) {
  if (row % rows_at_a_time == 0) checkpoint();
}

// Calls f(column, batch, j) for the columns of one row of one element.
template <class F>
void for_element_row(const ElementPlan& plan, std::int64_t slot, F&& f) {
  const ElementBatch& batch = plan.batches[slot / plan.lanes];
  const std::int32_t* map = plan.map.data() + batch.map + slot % plan.lanes;
  for (std::int32_t j = 0; j < batch.m; ++j)
    if (const std::int32_t c = map[j * plan.lanes]; c >= 0) f(c, batch, j);
}

}  // namespace

void require_assembly(const Context& context, std::int64_t rows, std::int64_t nonzeros,
                      std::size_t value_bytes, std::size_t workspace, std::size_t most_bytes) {
  const std::size_t width = nonzeros < std::int64_t{1} << 31 ? 4 : 8;
  const std::size_t bytes = workspace + static_cast<std::size_t>(rows + 1) * width +
                            static_cast<std::size_t>(nonzeros) * (value_bytes + 4);
  const std::size_t most = most_bytes > 0 ? most_bytes : available_bytes(context);
  // The entries are counted in the workspace, so its size is checked before.
  const std::string what =
      nonzeros > 0 ? fmt::format("assembling a matrix of {} rows and {} entries", rows, nonzeros)
                   : fmt::format("assembling a matrix of {} rows, whose entries are not counted yet,", rows);
  if (bytes > most)
    throw OutOfMemory(
        fmt::format("{} takes {}; at most {} may be used. Solve with the element matrices, or free "
                    "memory",
                    what, human_bytes(bytes), human_bytes(most)),
        bytes);
}

template <class T>
CsrMatrix<T> assemble_elements(const ContextPtr& host, const ElementPlan& plan, const T* values,
                               std::size_t most_bytes) {
  const int parts = parts_of_elements(*host, plan);
  const std::size_t workspace = 8 * static_cast<std::size_t>(plan.map.size() + plan.rows * (parts + 2));
  require_assembly(*host, plan.rows, 0, sizeof(T), workspace, most_bytes);
  const ElementRows<ElementRow> rows = element_rows(host, plan);
  std::vector<unsigned char> constrained(static_cast<std::size_t>(plan.rows), 0);
  for (const std::int32_t r : plan.constrained) constrained[r] = 1;
  // Divide the rows into parts of about equal work.
  std::vector<std::int64_t> borders(static_cast<std::size_t>(parts) + 1, plan.rows);
  for (int part = 0; part < parts; ++part) {
    const std::int64_t share = rows.items.size() / parts * part;
    borders[part] = std::lower_bound(rows.ptr.begin(), rows.ptr.end() - 1, share) - rows.ptr.begin();
  }
  borders[0] = 0;

  // f(column, batch, lane, row and column in the element)
  const auto for_columns = [&](std::int64_t r, auto&& f) {
    for (std::int64_t k = rows.ptr[r]; k < rows.ptr[r + 1]; ++k) {
      const ElementRow item = rows.items[k];
      for_element_row(plan, item.slot, [&](std::int32_t c, const ElementBatch& batch, std::int32_t j) {
        f(c, batch, item.slot % plan.lanes, item.i, j);
      });
    }
  };

  std::vector<std::int64_t> length(static_cast<std::size_t>(plan.rows));
  parallel(parts, [&](int part, int) {
    RowColumns columns(plan.rows);
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) {
      checkpoint_at(r);
      columns.next_row(static_cast<std::int32_t>(r));
      for_columns(r, [&](std::int32_t c, auto&&...) { columns.add(c); });
      length[r] = constrained[r] ? 1 : columns.size();
    }
  });
  std::int64_t nonzeros = 0;
  for (const std::int64_t n : length) nonzeros += n;
  // The workspace has been allocated by now, so it is no longer in the free memory.
  require_assembly(*host, plan.rows, nonzeros, sizeof(T), most_bytes > 0 ? workspace : 0, most_bytes);
  CsrBuilder<T> builder(host, plan.rows, plan.rows, nonzeros);
  for (std::int64_t r = 0; r < plan.rows; ++r) builder.set_row_ptr(r + 1, builder.row_ptr(r) + length[r]);
  parallel(parts, [&](int part, int) {
    RowColumns columns(plan.rows);
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) {
      checkpoint_at(r);
      std::int32_t* col = builder.col() + builder.row_ptr(r);
      T* value = builder.values() + builder.row_ptr(r);
      if (constrained[r]) {
        *col = static_cast<std::int32_t>(r), *value = 1;
        continue;
      }
      columns.next_row(static_cast<std::int32_t>(r));
      for_columns(r, [&](std::int32_t c, auto&&...) { columns.add(c); });
      const auto& sorted = columns.sorted();
      std::copy(sorted.begin(), sorted.end(), col);
      std::fill(value, value + sorted.size(), T(0));
      for_columns(r, [&](std::int32_t c, const ElementBatch& batch, std::int64_t lane, std::int64_t i,
                         std::int64_t j) {
        value[columns.where(c)] += values[batch.values + plan.entry(batch.m, i, j) * plan.lanes + lane];
      });
    }
  });
  return builder.freeze();
}

template <class T>
void add_element_bounds(const ContextPtr& host, const ElementPlan& plan, const T* values, T factor,
                        T* bounds) {
  // Each part reads all elements and adds the rows of its own range.
  parallel(parts_of_elements(*host, plan), [&](int part, int parts) {
    const Range range = even_range(plan.rows, part, parts);
    std::vector<T> sums(static_cast<std::size_t>(range.size())), terms(sums.size());
    for (std::int64_t e = 0; e < plan.elements; ++e) {
      checkpoint_at(e);
      const std::int64_t slot = plan.slot_of[e], lane = slot % plan.lanes;
      const ElementBatch& at = plan.batches[slot / plan.lanes];
      for (std::int32_t i = 0; i < at.m; ++i) {
        const std::int64_t r = plan.map[at.map + i * plan.lanes + lane] - range.begin;
        if (r < 0 || r >= range.size()) continue;
        for_element_row(plan, slot, [&](std::int32_t, const ElementBatch& batch, std::int32_t j) {
          sums[r] += std::abs(values[batch.values + plan.entry(batch.m, i, j) * plan.lanes + lane]);
          terms[r] += 1;
        });
      }
    }
    for (std::int64_t r = 0; r < range.size(); ++r)
      bounds[range.begin + r] += factor * (terms[r] + 2) * sums[r];
  });
}

namespace {
struct PatternArrays {
  std::vector<std::int64_t> row_ptr;
  std::vector<std::int32_t> col;
};
}  // namespace

SparsityPattern assembled_rows(const ElementPlan& plan,
                               std::span<const std::pair<std::int64_t, std::int64_t>> blocks) {
  std::int64_t total = 0, last = 0;
  for (const auto& [first, end] : blocks) {
    if (first < last || end < first || end > plan.rows)
      throw BadArgument(fmt::format("a block has rows {} to {}; blocks must be ascending and within 0..{}",
                                    first, end, plan.rows));
    total += end - first, last = end;
  }
  // The index of a row among the rows of the blocks, or -1.
  const auto place_of = [&](std::int32_t row) {
    std::int64_t before = 0;
    for (const auto& [first, end] : blocks) {
      if (row >= first && row < end) return before + row - first;
      before += end - first;
    }
    return std::int64_t{-1};
  };
  std::vector<std::vector<std::int32_t>> columns(static_cast<std::size_t>(total));
  // Nearly all lines of the map contain none of these rows. This test of a line has no branch for each
  // number.
  const auto any_of = [&](const std::int32_t* map) {
    unsigned char any = 0;
    for (const auto& [first, end] : blocks)
      for (int lane = 0; lane < plan.lanes; ++lane)
        any |= static_cast<std::uint32_t>(map[lane] - static_cast<std::int32_t>(first)) <
               static_cast<std::uint32_t>(end - first);
    return any != 0;
  };
  for (std::size_t b = 0; b < plan.batches.size(); ++b) {
    const ElementBatch& batch = plan.batches[b];
    for (std::int64_t n = 0; n < std::int64_t{batch.m} * plan.lanes; n += plan.lanes) {
      const std::int32_t* map = plan.map.data() + batch.map + n;
      if (!any_of(map)) continue;
      for (int lane = 0; lane < plan.lanes; ++lane)
        if (const std::int64_t place = place_of(map[lane]); place >= 0)
          for_element_row(
              plan, static_cast<std::int64_t>(b) * plan.lanes + lane,
              [&](std::int32_t c, const ElementBatch&, std::int32_t) { columns[place].push_back(c); });
    }
  }
  for (const std::int32_t row : plan.constrained)
    if (const std::int64_t place = place_of(row); place >= 0) columns[place] = {row};
  auto arrays = std::make_shared<PatternArrays>();
  arrays->row_ptr.push_back(0);
  for (std::vector<std::int32_t>& row : columns) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    arrays->col.insert(arrays->col.end(), row.begin(), row.end());
    arrays->row_ptr.push_back(static_cast<std::int64_t>(arrays->col.size()));
  }
  SparsityPattern pattern;
  pattern.rows = total, pattern.cols = plan.rows, pattern.nonzeros = arrays->row_ptr.back();
  pattern.row_ptr.p64 = arrays->row_ptr.data(), pattern.col = arrays->col.data();
  pattern.owner = std::move(arrays);
  return pattern;
}

#define PROTEAN_INSTANTIATE(T)                                                                              \
  template CsrMatrix<T> assemble_elements<T>(const ContextPtr&, const ElementPlan&, const T*, std::size_t); \
  template void add_element_bounds<T>(const ContextPtr&, const ElementPlan&, const T*, T, T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
