// BRC, blocked row-column: the rows are sorted by length and grouped into blocks of B1 rows; each of these is cut into
// blocks of at most B2 columns of its compressed rows.
//
//        | 1 . 2 . |     B1 = 2, B2 = 2
//    A = | . 3 . . |     lane_row  = 3 0 1 -3      unit_ptr   = 0 6 8
//        | . . . . |     block_ptr = 0 4 6 8       block_unit = 0 0 1
//        | 4 5 . 6 |     col       = 0 0 1 2 | 3 2 | 1 0        values = 4 1 5 2 | 6 . | 3 .
//
// Arrays:
//   lane_row    [row blocks B1] int32: the row at each position, longest first, sorted stably; -1 - row if it has no
//               entries. Past the last row the last row is repeated, also as -1 - row.
//   unit_ptr    [row blocks + 1] int64: slots before each row block, which is as wide as its first row.
//   block_ptr   [blocks + 1] int64: slots before each block.
//   block_unit  [blocks] int32: the row block of each block. Each row block has at least one block.
//   col         [slots] int32: slot k of row i of block b lies at block_ptr[b] + k B1 + i. Padding repeats the row's
//               last column.
//   values      [slots]: 0 if padded.
//   partial     [blocks of cut row blocks] B1, on a device: workspace of a product.
// Bytes: (v + 4) slots + 4 B1 row blocks + 8 (row blocks + 1) + 8 (blocks + 1) + 4 blocks + v [partial], with v bytes a
//   value.
// Parameters:
//   B1        rows of a block: 4, 8, 16 or 32.
//   B2        the most columns of a block; 0: the number that makes 8192 full blocks, at least 16.
//   max_fill  the most slots per entry.
// Wins: on a GPU, when a few rows are very long (power laws): all blocks have about the same work.
// Refuses: when slots > max_fill nonzeros.
// Source: A. Ashari, N. Sedaghati, J. Eisenlohr, P. Sadayappan, An efficient two-dimensional blocking strategy for
//   sparse matrix-vector multiplication on GPUs, ICS 2014, doi:10.1145/2597652.2597678. The rule for B2 is our reading;
//   the original adds to y by atomic operations; here a second launch adds the sums of blocks in a fixed order. Medium
//   confidence.
#include "formats/lanes/brc.hpp"

#include "formats/engines/lanes/lanes.hpp"
#include "formats/engines/rows/row_order.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

struct Plan {
  BrcRule rule;
  BrcSizes sizes;
  std::vector<std::int32_t> lane_row, block_unit;
  std::vector<std::int64_t> unit_ptr, block_ptr;
};

template <class T>
class Brc final : public RowViewMatrix<T, Brc<T>> {
 public:
  explicit Brc(const BuildRequest<T>& request)
      : RowViewMatrix<T, Brc<T>>(request), rule_(plan_of<Plan>(request.admission).rule) {
    const Plan& plan = plan_of<Plan>(request.admission);
    const SparsityPattern& pattern = request.csr.pattern;
    const ContextPtr& context = request.context;
    const auto keep = [&](auto& to, const auto& from) {
      to = std::remove_reference_t<decltype(to)>(context, static_cast<std::int64_t>(from.size()));
      std::copy(from.begin(), from.end(), to.begin());
    };
    keep(lane_row_, plan.lane_row), keep(unit_ptr_, plan.unit_ptr);
    keep(block_unit_, plan.block_unit), keep(block_ptr_, plan.block_ptr);
    values_ = Buffer<T>(context, plan.sizes.slots), col_ = Buffer<std::int32_t>(context, plan.sizes.slots);
    const std::int64_t units = unit_ptr_.size() - 1, total = plan.sizes.slots + units * rule_.B1;
    const int parts = useful_parts(*context, total);
    for (std::int64_t u = 0; u < units; ++u)
      while (static_cast<int>(borders_.size()) < parts &&
             unit_ptr_[u] + u * rule_.B1 >= even_range(total, static_cast<int>(borders_.size()), parts).begin)
        borders_.push_back(u);
    borders_.push_back(units);
    const BrcView<T> view = row_view();
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      for (std::int64_t p = borders_[part] * rule_.B1; p < borders_[part + 1] * rule_.B1; ++p) {
        const bool there = p < pattern.rows;
        view.fill(p, there ? pattern.row_ptr[view.row(p)] : 0, there ? pattern.row_ptr[view.row(p) + 1] : 0,
                  pattern.col, request.csr.values, col_.data(), values_.data());
      }
    });
  }

  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + lane_row_.bytes() + unit_ptr_.bytes() + block_ptr_.bytes() +
           block_unit_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("lane_row", lane_row_),
            layout_array("unit_ptr", unit_ptr_),
            layout_array("block_ptr", block_ptr_),
            layout_array("block_unit", block_unit_),
            layout_array("col", col_),
            layout_array("values", values_)};
  }
  BrcView<T> row_view() const {
    return {values_.data(), col_.data(), unit_ptr_.data(), lane_row_.data(), this->rows(), rule_.B1};
  }
  T* mutable_values() { return values_.data(); }

  // A thread has whole row blocks, so columns need not be cut.
  void multiply(T alpha, const T* x, T beta, T* y) const {
    LaneProduct<T> job{{}, alpha, beta, x, y};
    job.a.values = values_.data(), job.a.col = col_.data();
    job.a.unit_ptr = unit_ptr_.data(), job.a.lane_row = lane_row_.data();
    job.a.rows = this->rows(), job.a.units = unit_ptr_.size() - 1, job.a.L = static_cast<int>(rule_.B1);
    parallel(static_cast<int>(borders_.size()) - 1,
             [&](int part, int) { lane_product(job, 1, borders_[part], borders_[part + 1]); });
  }

 private:
  BrcRule rule_;
  Buffer<T> values_;
  Buffer<std::int32_t> col_, lane_row_, block_unit_;
  Buffer<std::int64_t> unit_ptr_, block_ptr_;
  std::vector<std::int64_t> borders_{0};  // row blocks of each part
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  Plan plan;
  plan.rule = brc_rule(pattern, params);
  const auto [B1, B2] = plan.rule;
  const std::int64_t units = plan.rule.units(pattern.rows);
  plan.lane_row.resize(static_cast<std::size_t>(units * B1));
  std::vector<std::int64_t> scratch;
  if (pattern.rows > 0) sort_window(pattern, 0, pattern.rows, plan.lane_row.data(), scratch);
  plan.unit_ptr = plan.block_ptr = {0};
  for (std::int64_t u = 0; u < units; ++u) {
    const std::int64_t longest = pattern.row_length(plan.lane_row[static_cast<std::size_t>(u * B1)]);
    for (std::int64_t k = 0; k < plan.rule.blocks(longest); ++k) {
      plan.block_ptr.push_back(plan.unit_ptr.back() + B1 * std::min(longest, (k + 1) * B2));
      plan.block_unit.push_back(static_cast<std::int32_t>(u));
    }
    plan.unit_ptr.push_back(plan.unit_ptr.back() + B1 * longest);
  }
  for (std::int64_t p = 0; p < units * B1; ++p) {
    std::int32_t& row = plan.lane_row[static_cast<std::size_t>(p)];
    if (p >= pattern.rows) {
      const std::int32_t before = plan.lane_row[static_cast<std::size_t>(pattern.rows - 1)];
      row = before < 0 ? before : -1 - before;
    } else if (pattern.row_length(row) == 0) {
      row = -1 - row;
    }
  }
  plan.sizes = {plan.unit_ptr.back(), static_cast<std::int64_t>(plan.block_unit.size())};
  Admission admission = admit_brc(plan.rule, plan.sizes, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::make_shared<const Plan>(std::move(plan)));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "B1", .doc = "rows of a block", .default_value = "32", .choices = "4|8|16|32"},
    {.name = "B2",
     .doc = "the most columns of a block; 0: the number that makes 8192 full blocks, at least 16",
     .default_value = "0",
     .smallest = 0,
     .largest = 1 << 20},
    lane_fill_param};

constexpr Kernel kernels[] = {native_host_kernel<Brc>(Sums::ordered)};

}  // namespace

Admission admit_brc(const BrcRule& rule, const BrcSizes& sizes, const SparsityPattern& pattern,
                    const FormatParams& params, std::size_t value_bytes) {
  const std::size_t bytes = brc_bytes(rule, sizes, pattern.rows, value_bytes);
  if (auto reason = too_much_fill(sizes.slots, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, sizes.slots);
  return Admission::accept(bytes, sizes.slots);
}

constinit const FormatEntry entries::brc{
    .family = "lanes",
    .id = "brc",
    .title = "Blocked row-column: sorted rows in blocks of rows and columns",
    .source = "Ashari, Sedaghati, Eisenlohr, Sadayappan, ICS 2014",
    .traits = {},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::brc};

}  // namespace protean::formats
