#include "operators/element_assemble.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/memory.hpp"
#include "core/parallel.hpp"

namespace protean::detail {
namespace {

// The columns of one row after the other, each once: where(c) is the place of column c in the row, for the
// columns seen since next_row(). Costs 8 bytes a column of the matrix.
class RowColumns {
 public:
  explicit RowColumns(std::int64_t cols) : seen_(static_cast<std::size_t>(cols), {-1, 0}) {}
  void next_row(std::int32_t row) { row_ = row, columns_.clear(); }
  void add(std::int32_t c) {
    if (seen_[c].row == row_) return;
    seen_[c].row = row_;
    columns_.push_back(c);
  }
  // Ascending; from now on where() is right.
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

}  // namespace

template <class T>
CsrMatrix<T> assemble_elements(const ContextPtr& host, const ElementPlan& plan, const T* values) {
  const ElementRows<ElementRow> rows = element_rows(host, plan);
  std::vector<unsigned char> constrained(static_cast<std::size_t>(plan.rows), 0);
  for (const std::int32_t r : plan.constrained) constrained[r] = 1;
  // Rows in parts of about the same work.
  const int parts = useful_parts(*host, plan.map.size());
  std::vector<std::int64_t> borders(static_cast<std::size_t>(parts) + 1, plan.rows);
  for (int part = 0; part < parts; ++part) {
    const std::int64_t share = rows.items.size() / parts * part;
    borders[part] = std::lower_bound(rows.ptr.begin(), rows.ptr.end() - 1, share) - rows.ptr.begin();
  }
  borders[0] = 0;

  // f(row, element row, its batch, lane, its part of the map)
  const auto for_columns = [&](std::int64_t r, auto&& f) {
    for (std::int64_t k = rows.ptr[r]; k < rows.ptr[r + 1]; ++k) {
      const ElementRow item = rows.items[k];
      const ElementBatch& batch = plan.batches[item.slot / plan.lanes];
      const std::int64_t lane = item.slot % plan.lanes;
      const std::int32_t* map = plan.map.data() + batch.map + lane;
      for (std::int32_t j = 0; j < batch.m; ++j)
        if (const std::int32_t c = map[j * plan.lanes]; c >= 0) f(c, batch, lane, item.i, j);
    }
  };

  std::vector<std::int64_t> length(static_cast<std::size_t>(plan.rows));
  parallel(parts, [&](int part, int) {
    RowColumns columns(plan.rows);
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) {
      columns.next_row(static_cast<std::int32_t>(r));
      for_columns(r, [&](std::int32_t c, auto&&...) { columns.add(c); });
      length[r] = constrained[r] ? 1 : columns.size();
    }
  });
  std::int64_t nonzeros = 0;
  for (const std::int64_t n : length) nonzeros += n;
  require_memory(
      static_cast<std::size_t>(nonzeros) * (sizeof(T) + 4) + static_cast<std::size_t>(plan.rows) * 8,
      fmt::format("an assembled matrix of {} rows and {} entries", plan.rows, nonzeros));
  CsrBuilder<T> builder(host, plan.rows, plan.rows, nonzeros);
  for (std::int64_t r = 0; r < plan.rows; ++r) builder.set_row_ptr(r + 1, builder.row_ptr(r) + length[r]);
  parallel(parts, [&](int part, int) {
    RowColumns columns(plan.rows);
    for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) {
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

#define PROTEAN_INSTANTIATE(T) \
  template CsrMatrix<T> assemble_elements<T>(const ContextPtr&, const ElementPlan&, const T*);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
