// BCOO + BCSR: strips of rows hold small dense blocks that may begin anywhere in their strip; the other entries are
// stored as ELL.
//
//        | 1 . 2 . |     2 x 2 blocks with 2 entries at least, strip = 4          (. is a stored 0)
//    A = | . 3 . . |     strip_ptr = 0 1        rest_length = 1 0 0 3
//        | . . . . |     local_row = 0          rest_col    = 2 . . 0 | . . . 1 | . . . 3
//        | 4 5 . 6 |     block_col = 0          rest_values = 2 . . 4 | . . . 5 | . . . 6
//                        values    = 1 . . 3
//
// Arrays:
//   strip_ptr    [strips + 1] int64: blocks before each strip of `strip` rows.
//   local_row    [blocks] uint8: row in its strip in which a block begins, ascending within a strip. No block goes past
//                its strip or the matrix.
//   block_col    [blocks] int32: first column of the block, at any place; ascending for blocks of one local_row.
//   values       [R C blocks]: one block after another, each row by row; 0 if another block has the entry or there is
//                no entry.
//   entries      [ceil(R C / 8) blocks] uint8: as in bcsr. Each entry of the matrix lies in exactly one block or in the
//                rest.
//   rest_length  [rows] int32: number of entries of each row that lie in no block.
//   rest_col     [rest_width rows] int32: slot k of row r at k rows + r; columns ascend. Padding has column 0 and is
//                not read.
//   rest_values  [rest_width rows]: the same.
// Bytes: blocks (v R C + 5 + ceil(R C / 8)) + 8 (strips + 1) + rest_width rows (v + 4) + 4 rows, with v bytes a value.
// Parameters:
//   rows, cols  R and C: 1 to 4.
//   theta       the smallest share of the values of a block that must be entries, in percent.
//   select      dynamic or greedy. dynamic cuts the rows of a strip into bands of R rows and single rows, and places
//               blocks in the bands so that blocks and rest have the fewest bytes. greedy goes from entry to entry and
//               takes the block with the most entries.
//   strip       rows of a strip.
//   max_fill    the most stored values per entry.
// Wins: when small dense blocks do not lie on a grid and the other entries are spread evenly over the rows.
// Refuses: when stored values > max_fill nonzeros.
// Source: A. Monakov, A. Avetisyan, Implementing blocked sparse matrix-vector multiplication on NVIDIA GPUs, SAMOS
//   2009, doi:10.1007/978-3-642-03138-0_32, as described by S. Filippone, V. Cardellini, D. Barbieri, A. Fanfarillo,
//   ACM Trans. Math. Softw. 43(4), 2017. The blocks are selected by dynamic programming or greedily (bcoo_bcsr.hpp), as
//   the authors do; the costs in bytes, the strips and the limit theta are ours.
//
// A NaN or infinity in x_j also reaches rows without an entry in column j if one of their blocks covers it. In
// deterministic mode they do not.
#include "formats/block/bcoo_bcsr.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "formats/engines/view/row_view.hpp"
#include "formats/entries.hpp"

namespace protean::formats {

StripRule bcoo_bcsr_rule(const FormatParams& params, std::size_t value_bytes) {
  const int R = static_cast<int>(params.integer("rows")), C = static_cast<int>(params.integer("cols"));
  const auto v = static_cast<std::int64_t>(value_bytes);
  StripRule rule{params.integer("strip"),
                 R,
                 C,
                 static_cast<int>((params.integer("theta") * R * C + 99) / 100),
                 params.word("select") == "greedy",
                 0,
                 v + 4};
  rule.block_bytes = v * rule.area() + 5 + rule.bit_bytes();
  return rule;
}

Admission admit_strips(const StripRule& rule, const StripCounts& counts, const SparsityPattern& pattern,
                       const FormatParams& params, std::size_t value_bytes) {
  const auto area = static_cast<std::size_t>(rule.area()), rows = static_cast<std::size_t>(pattern.rows);
  const std::int64_t rest = counts.rest_width * pattern.rows, stored = counts.blocks * rule.area() + rest;
  const std::size_t bytes = static_cast<std::size_t>(counts.blocks) *
                                (area * value_bytes + 5 + static_cast<std::size_t>(rule.bit_bytes())) +
                            8 * static_cast<std::size_t>(rule.strips(pattern.rows) + 1) +
                            static_cast<std::size_t>(rest) * (value_bytes + 4) + 4 * rows;
  if (auto reason = too_much_fill(stored, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(fmt::format("with {} x {} blocks and ELL of {} columns {}", rule.R, rule.C,
                                         counts.rest_width, reason),
                             bytes, stored);
  return Admission::accept(bytes, stored);
}

namespace {

struct StripPlan {
  struct Part {
    std::vector<std::uint8_t> local_row, entries;
    std::vector<std::int32_t> col;
  };
  StripRule rule;
  StripCounts counts;
  std::vector<std::int64_t> borders;    // strips of each part
  std::vector<std::int64_t> strip_ptr;  // blocks before each strip
  std::vector<std::int32_t> rest_length;
  std::vector<Part> parts;

  StripPlan(const Context& context, const SparsityPattern& pattern, const StripRule& of)
      : rule(of),
        strip_ptr(static_cast<std::size_t>(of.strips(pattern.rows)) + 1),
        rest_length(static_cast<std::size_t>(pattern.rows)),
        parts(static_cast<std::size_t>(useful_parts(context, pattern.nonzeros + pattern.rows))) {
    const int count = static_cast<int>(parts.size());
    for (const std::int64_t border : balanced_row_borders(pattern, count, rule.height))
      borders.push_back((border + rule.height - 1) / rule.height);
    parallel(count, [&](int part, int) {
      Part mine;
      std::vector<std::uint8_t> covered, choice;
      for (std::int64_t s = borders[part]; s < borders[part + 1]; ++s) {
        const std::int64_t top = s * rule.height, end = std::min(top + rule.height, pattern.rows),
                           first = pattern.row_ptr[top];
        covered.assign(static_cast<std::size_t>(pattern.row_ptr[end] - first), 0);
        choice.resize(covered.size());
        const std::size_t before = mine.col.size();
        select_blocks(pattern.rows, pattern.cols, pattern.row_ptr, pattern.col, rule, s, covered.data(),
                      first, choice.data(), [&](int local_row, std::int64_t col, unsigned bits) {
                        mine.local_row.push_back(static_cast<std::uint8_t>(local_row));
                        mine.col.push_back(static_cast<std::int32_t>(col));
                        for (int byte = 0; byte < rule.bit_bytes(); ++byte)
                          mine.entries.push_back(static_cast<std::uint8_t>(bits >> (8 * byte)));
                      });
        strip_ptr[static_cast<std::size_t>(s) + 1] = static_cast<std::int64_t>(mine.col.size() - before);
        for (std::int64_t r = top; r < end; ++r)
          rest_length[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(
              std::count(covered.begin() + (pattern.row_ptr[r] - first),
                         covered.begin() + (pattern.row_ptr[r + 1] - first), std::uint8_t{0}));
      }
      parts[static_cast<std::size_t>(part)] = std::move(mine);
    });
    for (std::size_t s = 1; s < strip_ptr.size(); ++s) strip_ptr[s] += strip_ptr[s - 1];
    counts.blocks = strip_ptr.back();
    for (const std::int32_t length : rest_length)
      counts.rest_width = std::max<std::int64_t>(counts.rest_width, length);
  }
};

template <class T>
class BcooBcsr final : public RowViewMatrix<T, BcooBcsr<T>> {
 public:
  explicit BcooBcsr(const BuildRequest<T>& request)
      : RowViewMatrix<T, BcooBcsr<T>>(request), rule_(plan_of<StripPlan>(request.admission).rule) {
    const StripPlan& plan = plan_of<StripPlan>(request.admission);
    const ContextPtr& context = request.context;
    const std::int64_t blocks = plan.counts.blocks, rest = plan.counts.rest_width * this->rows();
    strip_ptr_ = Buffer<std::int64_t>(context, static_cast<std::int64_t>(plan.strip_ptr.size()));
    local_row_ = Buffer<std::uint8_t>(context, blocks);
    block_col_ = Buffer<std::int32_t>(context, blocks);
    entries_ = Buffer<std::uint8_t>(context, blocks * rule_.bit_bytes());
    rest_length_ = Buffer<std::int32_t>(context, this->rows());
    rest_col_ = Buffer<std::int32_t>(context, rest);
    values_ = Buffer<T>(context, blocks * rule_.area() + rest);
    borders_ = plan.borders;
    std::copy(plan.strip_ptr.begin(), plan.strip_ptr.end(), strip_ptr_.begin());
    std::copy(plan.rest_length.begin(), plan.rest_length.end(), rest_length_.begin());
    parallel(static_cast<int>(plan.parts.size()), [&](int part, int parts) {
      const StripPlan::Part& mine = plan.parts[static_cast<std::size_t>(part)];
      const std::int64_t first = strip_ptr_[borders_[part]];
      std::copy(mine.local_row.begin(), mine.local_row.end(), local_row_.begin() + first);
      std::copy(mine.col.begin(), mine.col.end(), block_col_.begin() + first);
      std::copy(mine.entries.begin(), mine.entries.end(), entries_.begin() + first * rule_.bit_bytes());
      const Range slots = even_range(rest, part, parts), all = even_range(values_.size(), part, parts);
      std::fill(rest_col_.begin() + slots.begin, rest_col_.begin() + slots.end, 0);
      std::fill(values_.begin() + all.begin, values_.begin() + all.end, T(0));
    });
    const StripView<T> view = row_view();
    const SparsityPattern& pattern = request.csr.pattern;
    for_rows_of_view(*context, view, this->nonzeros(), [&](std::int64_t, std::int64_t row) {
      std::int64_t slot = row;
      view.for_rest(row, pattern.col, pattern.row_ptr[row], pattern.row_ptr[row + 1],
                    [&](std::int32_t col) { rest_col_[slot] = col, slot += view.rows; });
    });
    this->do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return strip_ptr_.bytes() + local_row_.bytes() + block_col_.bytes() + entries_.bytes() +
           rest_length_.bytes() + rest_col_.bytes() + values_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    const std::int64_t in_blocks = block_col_.size() * rule_.area();
    return {layout_array("strip_ptr", strip_ptr_),
            layout_array("local_row", local_row_),
            layout_array("block_col", block_col_),
            layout_array("values", values_.data(), in_blocks),
            layout_array("entries", entries_),
            layout_array("rest_length", rest_length_),
            layout_array("rest_col", rest_col_),
            layout_array("rest_values", values_.data() + in_blocks, values_.size() - in_blocks)};
  }
  StripView<T> row_view() const noexcept {
    return {values_.data(),   strip_ptr_.data(),   local_row_.data(), block_col_.data(), entries_.data(),
            rest_col_.data(), rest_length_.data(), this->rows(),      block_col_.size(), rule_};
  }
  T* mutable_values() noexcept { return values_.data(); }

  void multiply(T alpha, const T* x, T beta, T* y) const {
    with_loose_size(rule_.R, [&](auto R) {
      with_loose_size(rule_.C, [&](auto C) {
        parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
          strips<R(), C()>(borders_[part], borders_[part + 1], alpha, x, beta, y);
        });
      });
    });
  }

 private:
  template <int R, int C>
  void strips(std::int64_t begin, std::int64_t end, T alpha, const T* x, T beta, T* y) const {
    const std::int64_t rows = this->rows();
    const T* const rest = values_.data() + block_col_.size() * (R * C);
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t top = s * rule_.height, count = std::min(rule_.height, rows - top);
      T sums[highest_strip];
      std::fill(sums, sums + count, T(0));
      for (std::int64_t b = strip_ptr_[s]; b < strip_ptr_[s + 1]; ++b) {
        const T *v = values_.data() + b * (R * C), *from = x + block_col_[b];
        T* const to = sums + local_row_[b];
        for (int r = 0; r < R; ++r)
          for (int c = 0; c < C; ++c) to[r] += v[r * C + c] * from[c];
      }
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t slot = top + i;
        for (std::int32_t k = 0; k < rest_length_[top + i]; ++k, slot += rows)
          sums[i] += rest[slot] * x[rest_col_[slot]];
        store(alpha, sums[i], beta, y[top + i]);
      }
    }
  }

  StripRule rule_;
  Buffer<std::int64_t> strip_ptr_;
  Buffer<std::uint8_t> local_row_, entries_;
  Buffer<std::int32_t> block_col_, rest_length_, rest_col_;
  Buffer<T> values_;
  std::vector<std::int64_t> borders_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const StripPlan>(context, pattern, bcoo_bcsr_rule(params, value_bytes));
  Admission admission = admit_strips(plan->rule, plan->counts, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "rows", .doc = "rows of a block", .default_value = "2", .smallest = 1, .largest = 4},
    {.name = "cols", .doc = "columns of a block", .default_value = "2", .smallest = 1, .largest = 4},
    {.name = "theta",
     .doc = "the smallest share of the values of a block that must be entries, in percent",
     .default_value = "60",
     .smallest = 1,
     .largest = 100},
    {.name = "select",
     .doc =
         "selection of blocks: the fewest bytes by dynamic programming, or the best block at each entry in "
         "turn",
     .default_value = "dynamic",
     .choices = "dynamic|greedy"},
    {.name = "strip",
     .doc = "rows of a strip",
     .default_value = "32",
     .smallest = largest_loose_block,
     .largest = highest_strip},
    {.name = "max_fill",
     .doc = "the format refuses more stored values per entry than this",
     .default_value = "3",
     .smallest = 1,
     .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<BcooBcsr>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::bcoo_bcsr{
    .family = "block",
    .id = "bcoo-bcsr",
    .title = "Strips of rows with blocks anywhere, the rest as ELL",
    .source = "Monakov, Avetisyan, SAMOS 2009",
    .traits = {.grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::bcoo_bcsr};

}  // namespace protean::formats
