// CDS, column diagonal storage: diagonals of blocks, with one line of values for each column of the blocks.
//
//        | 1 2 3 . |     block = 2
//    A = | 4 5 . 6 |     off    = 0 1                                       (. is a stored 0)
//        | . . 7 8 |     values = 1 4 7 . | 2 5 8 9 | 3 . . . | . 6 . .
//        | . . . 9 |     lines:   column 0  column 1  column 0  column 1 of the blocks on the diagonals 0 and 1
//                        entries =   7    |   15    |   1     |   2
//
// Arrays:
//   off      [block diagonals] int32: block column - block row of every diagonal of blocks of b = block rows with an
//            entry, ascending.
//   values   [rows b block diagonals]: a(r, (r / b + off[d]) b + c) lies at (d b + c) rows + r; 0 if there is no entry
//            or no such column.
//   entries  [ceil(rows / 8) b block diagonals] uint8: bit r % 8 of byte r / 8 of line d b + c is 1 if its value r
//            is an entry. It distinguishes stored zeros from fill. Products do not read it, except in deterministic
//            mode.
// Bytes: b block diagonals (v rows + ceil(rows / 8)) + 4 block diagonals, with v bytes a value.
// Parameters:
//   block     b: rows and columns of a block; 0 takes the size up to 8 with the fewest values. It is chosen from all
//             rows of a matrix of up to 4096 rows, and from 16 pieces of 256 rows of a larger matrix.
//   max_fill  the most stored values per entry.
// Wins: for stencils with several unknowns at each point: for each diagonal of blocks dia needs 2 b - 1 diagonals and
//   cds b lines. The rows of a block share x.
// Refuses: when rows b block diagonals > max_fill nonzeros.
// Source: J. Godwin, J. Holewinski, P. Sadayappan, High-performance sparse matrix-vector multiplication on GPUs for
//   structured grid computations, GPGPU-5, 2012. The order of the lines is our reading.
//
// A NaN or infinity in x also reaches rows whose line has no entry there, because 0 times it is NaN. In
// deterministic mode it reaches only rows with an entry there.
#include "formats/diagonal/cds.hpp"
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

struct BlockDiagonals {
  std::int64_t b;
  std::vector<std::int32_t> off;
};

template <class T>
class Cds final : public LineMatrix<T, Cds<T>> {
 public:
  explicit Cds(const BuildRequest<T>& request) : Cds(request, plan_of<BlockDiagonals>(request.admission)) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + off_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("off", off_), layout_array("values", this->values_),
            layout_array("entries", this->entries_)};
  }
  BlockLineView<T> row_view() const noexcept {
    BlockLineView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = this->rows(), view.hacks = 1;
    view.b = b_, view.bit_bytes = (this->rows() + 7) / 8, view.diagonals = off_.size(),
    view.off = off_.data();
    return view;
  }

 private:
  Cds(const BuildRequest<T>& request, const BlockDiagonals& plan)
      : LineMatrix<T, Cds<T>>(
            request, request.csr.rows() * plan.b * static_cast<std::int64_t>(plan.off.size()),
            (request.csr.rows() + 7) / 8 * plan.b * static_cast<std::int64_t>(plan.off.size())),
        b_(plan.b),
        off_(request.context, static_cast<std::int64_t>(plan.off.size())) {
    std::copy(plan.off.begin(), plan.off.end(), off_.begin());
    this->set_borders(1, 0, [](std::int64_t) { return 0; });
    this->fill(request.csr);
  }
  std::int64_t b_;
  Buffer<std::int32_t> off_;
};

// marks[block column - block row + zero] = 1 for the blocks of row r; calls first_time() for new ones.
template <class P, class F>
void mark_blocks(const P* row_ptr, const std::int32_t* col, std::int64_t r, std::int64_t b, std::int64_t zero,
                 std::uint8_t* marks, F first_time) {
  const std::int64_t shift = zero - r / b;
  std::int64_t past = 0;  // the first column after the block that was marked last
  for (std::int64_t k = row_ptr[r]; k < row_ptr[r + 1]; ++k) {
    if (col[k] < past) continue;
    const std::int64_t block = col[k] / b;
    past = (block + 1) * b;
    std::uint8_t& mark = marks[block + shift];
    if (!mark) mark = 1, first_time();
  }
}

std::int64_t block_rows(std::int64_t rows, std::int64_t b) { return (rows + b - 1) / b; }
std::vector<std::uint8_t> no_marks(const SparsityPattern& pattern, std::int64_t b) {
  return std::vector<std::uint8_t>(
      static_cast<std::size_t>(block_rows(pattern.rows, b) + block_rows(pattern.cols, b) + 1));
}

int chosen_block(const SparsityPattern& pattern) {
  const RowSample sample{pattern.rows};
  std::int64_t diagonals[most_of_block + 1] = {};
  pattern.row_ptr.visit([&](auto* row_ptr) {
    for (int b = 1; b <= most_of_block; ++b) {
      auto marks = no_marks(pattern, b);
      for (std::int64_t i = 0; i < sample.count(); ++i)
        mark_blocks(row_ptr, pattern.col, sample.row(i), b, block_rows(pattern.rows, b), marks.data(),
                    [&] { ++diagonals[b]; });
    }
  });
  return best_block(diagonals);
}

BlockDiagonals find_block_diagonals(const Context& context, const SparsityPattern& pattern, std::int64_t b) {
  if (b == 0) b = chosen_block(pattern);
  BlockDiagonals result{b, {}};
  if (b == 1) {
    result.off = find_diagonals(context, pattern, pattern.rows).off;
    return result;
  }
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  const std::int64_t zero = block_rows(pattern.rows, b);
  std::vector<std::vector<std::uint8_t>> marks(static_cast<std::size_t>(parts));
  pattern.row_ptr.visit([&](auto* row_ptr) {
    parallel(parts, [&](int part, int) {
      marks[static_cast<std::size_t>(part)] = no_marks(pattern, b);
      const Range range = even_range(pattern.rows, part, parts);
      for (std::int64_t r = range.begin; r < range.end; ++r)
        mark_blocks(row_ptr, pattern.col, r, b, zero, marks[static_cast<std::size_t>(part)].data(), [] {});
    });
  });
  for (std::size_t i = 0; i < marks[0].size(); ++i)
    for (const auto& mine : marks)
      if (mine[i]) {
        result.off.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) - zero));
        break;
      }
  return result;
}

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan =
      std::make_shared<BlockDiagonals>(find_block_diagonals(context, pattern, params.integer("block")));
  Admission admission =
      admit_cds(plan->b, static_cast<std::int64_t>(plan->off.size()), pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {{.name = "block",
                                .doc = "rows and columns of a block; 0: chosen",
                                .default_value = "0",
                                .smallest = 0,
                                .largest = 8},
                               {.name = "max_fill",
                                .doc = "the format refuses more stored values per entry than this",
                                .default_value = "4",
                                .smallest = 1,
                                .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Cds>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::cds{.family = "diagonal",
                                         .id = "cds",
                                         .title = "Column diagonal storage",
                                         .source = "Godwin, Holewinski, Sadayappan, GPGPU-5, 2012",
                                         .traits = {.needs_alike_rows = true},
                                         .params = params,
                                         .kernels = kernels,
                                         .admit = admit,
                                         .device = &device_code::cds};

}  // namespace protean::formats
