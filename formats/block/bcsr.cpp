// BCSR: compressed rows of small dense blocks on a grid.
//
//        | 1 . 2 . |     2 x 2 blocks                          (. is a stored 0)
//    A = | . 3 . . |     block_ptr = 0 2 4
//        | . . . . |     block_col = 0 1 0 1
//        | 4 5 . 6 |     values    = 1 . . 3 | 2 . . . | . . 4 5 | . . . 6
//                        entries   =    9         1        12         8
//
// block_ptr [block rows + 1] int64: blocks before each block row; block rows = ceil(rows / R).
// block_col [blocks] int32: number of the block's column, ascending in a block row; it begins at column C
// times that. values    [R C blocks]: a block after the other, each row by row; 0 where there is no entry or
// no such row or column. entries   [ceil(R C / 8) blocks] uint8: bit i % 8 of byte i / 8 of a block says that
// its value i is an entry, so that
//           stored zeros are told from fill. Not read by products.
// Bytes: blocks (v R C + 4 + ceil(R C / 8)) + 8 (block rows + 1), v bytes a value.
// Parameters: rows R and cols C of a block: 1, 2, 3, 4, 8, or auto: of 2, 3, 4 the one that takes the fewest
// bytes, judged
//   on all rows of a matrix of up to 1536 rows and on 64 groups of 24 rows of a larger one. max_fill, stored
//   values an entry.
// NaN or infinity in x also reaches rows of a block that have no entry in that column (0 times it is NaN).
// Wins where unknowns come in groups (several to a node): one column index serves R C values, and x is loaded
// without a gather. Refuses when R C blocks > max_fill * nonzeros. Source: A. Pinar, M. T. Heath, Improving
// performance of sparse matrix-vector multiplication, SC 1999,
//   doi:10.1145/331532.331562; E.-J. Im, K. Yelick, R. Vuduc, Sparsity: optimization framework for sparse
//   matrix kernels, Int. J. High Perform. Comput. Appl. 18(1), 2004, doi:10.1177/1094342004041296.
#include <array>

#include "formats/block/bcsr.hpp"
#include "formats/block/blocks.hpp"

namespace protean::formats {
namespace {

// Calls block(number of its column) for every block of a block row, in order: a merge of its rows; then
// entries(place, k, count) for the entries k .. k+count-1 of one row that lie side by side in the block from
// that place on.
template <class Block, class Entries>
void for_blocks(const SparsityPattern& pattern, const BlockShape& shape, std::int64_t block_row, Block block,
                Entries entries) {
  const std::int32_t* const cols = pattern.col;
  std::array<std::int64_t, largest_block> next, end;
  const std::int64_t top = block_row * shape.R, height = std::min(shape.R, pattern.rows - top);
  for (std::int64_t i = 0; i < height; ++i)
    next[i] = pattern.row_ptr[top + i], end[i] = pattern.row_ptr[top + i + 1];
  for (;;) {
    std::int64_t col = pattern.cols;
    for (std::int64_t i = 0; i < height; ++i)
      if (next[i] < end[i]) col = std::min<std::int64_t>(col, cols[next[i]]);
    if (col == pattern.cols) return;
    const std::int64_t number = static_cast<std::uint32_t>(col) / static_cast<std::uint32_t>(shape.C);
    const std::int64_t past = (number + 1) * shape.C;
    block(number);
    for (std::int64_t i = 0; i < height; ++i)
      if (next[i] + shape.C <= end[i] && cols[next[i] + shape.C - 1] < past) {  // the block's row is full
        entries(i * shape.C, next[i], shape.C);
        next[i] += shape.C;
      } else {
        for (; next[i] < end[i] && cols[next[i]] < past; ++next[i])
          entries(i * shape.C + cols[next[i]] - number * shape.C, next[i], 1);
      }
  }
}

std::int64_t count_blocks(const SparsityPattern& pattern, const BlockShape& shape, std::int64_t block_row) {
  std::int64_t count = 0;
  for_blocks(
      pattern, shape, block_row, [&](std::int64_t) { ++count; },
      [](std::int64_t, std::int64_t, std::int64_t) {});
  return count;
}

std::int64_t block_rows(const SparsityPattern& pattern, const BlockShape& shape) {
  return (pattern.rows + shape.R - 1) / shape.R;
}

std::int64_t sampled_blocks(const SparsityPattern& pattern, const BlockShape& shape) {
  const std::int64_t groups = (pattern.rows + group_rows - 1) / group_rows,
                     taken = std::min(groups, most_groups);
  std::int64_t count = 0;
  for (std::int64_t g = 0; g < taken; ++g) {
    const std::int64_t first = g * groups / taken * group_rows,
                       last = std::min(pattern.rows, first + group_rows);
    for (std::int64_t i = first / shape.R; i * shape.R < last; ++i) count += count_blocks(pattern, shape, i);
  }
  return count;
}

BlockShape choose_shape(const SparsityPattern& pattern, const FormatParams& params, std::size_t value_bytes) {
  const std::vector<BlockShape> shapes = allowed_shapes(params);
  if (shapes.size() == 1) return shapes[0];
  std::vector<std::int64_t> sampled;
  for (const BlockShape& shape : shapes) sampled.push_back(sampled_blocks(pattern, shape));
  return fewest_bytes(shapes, sampled, pattern.rows, value_bytes);
}

template <class T>
class Bcsr final : public AssembledMatrix<T>, public HasApplyDot<T>, public HasLayout {
 public:
  explicit Bcsr(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request), shape_(choose_shape(request.csr.pattern, request.params, sizeof(T))) {
    const SparsityPattern& pattern = request.csr.pattern;
    const std::int64_t count = block_rows(pattern, shape_);
    block_ptr_ = Buffer<std::int64_t>(request.context, count + 1);
    const int parts = useful_parts(*request.context, pattern.nonzeros + pattern.rows);
    const auto borders = balanced_row_borders(pattern, parts, shape_.R);
    parallel(parts, [&](int part, int) {
      for (std::int64_t i = borders[part] / shape_.R; i * shape_.R < borders[part + 1]; ++i)
        block_ptr_[i + 1] = count_blocks(pattern, shape_, i);
    });
    block_ptr_[0] = 0;
    for (std::int64_t i = 0; i < count; ++i) block_ptr_[i + 1] += block_ptr_[i];
    block_col_ = Buffer<std::int32_t>(request.context, block_ptr_[count]);
    values_ = Buffer<T>(request.context, block_ptr_[count] * area());
    entries_ = Buffer<std::uint8_t>(request.context, block_ptr_[count] * bit_bytes());
    for (int part = 0; part <= parts; ++part) {
      const std::int64_t share = block_ptr_[count] / parts * part;
      borders_.push_back(std::lower_bound(block_ptr_.begin(), block_ptr_.end(), share) - block_ptr_.begin());
    }
    borders_.front() = 0, borders_.back() = count;
    write(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return block_ptr_.bytes() + block_col_.bytes() + values_.bytes() + entries_.bytes();
  }

  CsrMatrix<T> to_csr() const override {
    const auto visit = [&](std::int64_t r, auto entry) {
      const std::int64_t i = r / shape_.R, first = r % shape_.R * shape_.C;
      for (std::int64_t b = block_ptr_[i]; b < block_ptr_[i + 1]; ++b)
        for (std::int64_t j = 0; j < shape_.C; ++j)
          if (is_entry(b, first + j))
            entry(static_cast<std::int32_t>(block_col_[b] * shape_.C + j), values_[b * area() + first + j]);
    };
    return csr_from_rows<T>(
        this->context(), this->rows(), this->cols(), this->nonzeros(),
        [&](std::int64_t r) {
          std::int64_t count = 0;
          visit(r, [&](std::int32_t, T) { ++count; });
          return count;
        },
        [&](std::int64_t r, std::int64_t first, CsrBuilder<T>& builder) {
          visit(r, [&](std::int32_t col, T value) {
            builder.col()[first] = col, builder.values()[first++] = value;
          });
        });
  }

  void diagonal(VectorView<T> d) const override {
    parallel(useful_parts(*this->context(), d.size), [&](int part, int parts) {
      const Range range = even_range(d.size, part, parts);
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        const std::int64_t i = r / shape_.R;
        const std::int32_t *first = block_col_.data() + block_ptr_[i],
                           *last = block_col_.data() + block_ptr_[i + 1];
        const std::int32_t* found = std::lower_bound(first, last, static_cast<std::int32_t>(r / shape_.C));
        d.data[r] =
            found != last && *found == r / shape_.C
                ? values_[(found - block_col_.data()) * area() + r % shape_.R * shape_.C + r % shape_.C]
                : T(0);
      }
    });
  }

  std::vector<LayoutArray> layout() const override {
    return {layout_array("block_ptr", block_ptr_), layout_array("block_col", block_col_),
            layout_array("values", values_), layout_array("entries", entries_)};
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { write(csr); }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run(alpha, x, beta, y, false);
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x, T(0), y, true);
  }

 private:
  std::int64_t area() const { return shape_.R * shape_.C; }
  std::int64_t bit_bytes() const { return (area() + 7) / 8; }
  bool is_entry(std::int64_t block, std::int64_t i) const {
    return entries_[block * bit_bytes() + i / 8] >> (i % 8) & 1;
  }

  T run(T alpha, VectorView<const T> x, T beta, VectorView<T> y, bool with_dot) const {
    const BlockProduct<T> product{static_cast<int>(shape_.R),
                                  static_cast<int>(shape_.C),
                                  values_.data(),
                                  block_ptr_.data(),
                                  block_col_.data(),
                                  block_col_.size(),
                                  this->rows(),
                                  this->cols(),
                                  alpha,
                                  beta,
                                  x.data,
                                  y.data,
                                  with_dot};
    const int parts = static_cast<int>(borders_.size()) - 1;
    PartialSums<T> sums(parts);
    parallel(parts,
             [&](int part, int) { sums[part] = block_product(product, borders_[part], borders_[part + 1]); });
    return sums.total();
  }

  void write(const CsrMatrix<T>& csr) {
    // Plain pointers: bytes may alias anything, members would be read again after every store of one.
    const BlockShape shape = shape_;
    const std::int64_t size = area(), bits = bit_bytes();
    const T* const from = csr.values;
    T* const to = values_.data();
    std::uint8_t* const entries = entries_.data();
    std::int32_t* const block_col = block_col_.data();
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      for (std::int64_t i = borders_[part]; i < borders_[part + 1]; ++i) {
        std::int64_t b = block_ptr_[i] - 1;
        for_blocks(
            csr.pattern, shape, i,
            [&](std::int64_t number) {
              ++b;
              block_col[b] = static_cast<std::int32_t>(number);
              for (std::int64_t e = 0; e < size; ++e) to[b * size + e] = 0;
              for (std::int64_t e = 0; e < bits; ++e) entries[b * bits + e] = 0;
            },
            [&](std::int64_t place, std::int64_t k, std::int64_t count) {
              for (std::int64_t e = 0; e < count; ++e, ++place) {
                to[b * size + place] = from[k + e];
                entries[b * bits + place / 8] |= static_cast<std::uint8_t>(1u << (place % 8));
              }
            });
      }
    });
  }

  BlockShape shape_;
  Buffer<std::int64_t> block_ptr_;
  Buffer<std::int32_t> block_col_;
  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;
  std::vector<std::int64_t> borders_;  // block rows of each part
};

}  // namespace

std::size_t block_bytes(const BlockShape& shape, std::int64_t blocks, std::int64_t rows,
                        std::size_t value_bytes) {
  const auto area = static_cast<std::size_t>(shape.R * shape.C);
  return static_cast<std::size_t>(blocks) * (area * value_bytes + 4 + (area + 7) / 8) +
         8 * static_cast<std::size_t>((rows + shape.R - 1) / shape.R + 1);
}

std::vector<BlockShape> allowed_shapes(const FormatParams& params) {
  const auto allowed = [&](std::string_view name) -> std::vector<std::int64_t> {
    if (params.word(name) == "auto") return {2, 3, 4};
    return {params.integer(name)};
  };
  std::vector<BlockShape> shapes;
  for (const std::int64_t R : allowed("rows"))
    for (const std::int64_t C : allowed("cols")) shapes.push_back({R, C});
  return shapes;
}

BlockShape fewest_bytes(const std::vector<BlockShape>& shapes, const std::vector<std::int64_t>& sampled,
                        std::int64_t rows, std::size_t value_bytes) {
  const std::int64_t sampled_rows = std::min(rows, most_groups * group_rows);
  std::size_t best = 0, fewest = ~std::size_t{0};
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const std::size_t bytes = block_bytes(shapes[s], sampled[s], sampled_rows, value_bytes);
    if (bytes < fewest) fewest = bytes, best = s;
  }
  return shapes[best];
}

Admission admit_blocks(const BlockShape& shape, std::int64_t blocks, const SparsityPattern& pattern,
                       const FormatParams& params, std::size_t value_bytes) {
  const std::int64_t stored = blocks * shape.R * shape.C;
  const std::size_t bytes = block_bytes(shape, blocks, pattern.rows, value_bytes);
  if (auto reason = too_much_fill(stored, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(fmt::format("with {} x {} blocks {}", shape.R, shape.C, reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

namespace {

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const BlockShape shape = choose_shape(pattern, params, value_bytes);
  const int parts = useful_parts(context, pattern.nonzeros + pattern.rows);
  const auto borders = balanced_row_borders(pattern, parts, shape.R);
  PartialSums<std::int64_t> counts(parts);
  parallel(parts, [&](int part, int) {
    for (std::int64_t i = borders[part] / shape.R; i * shape.R < borders[part + 1]; ++i)
      counts[part] += count_blocks(pattern, shape, i);
  });
  return admit_blocks(shape, counts.total(), pattern, params, value_bytes);
}

constexpr ParamDoc params[] = {
    {.name = "rows",
     .doc = "rows of a block; auto takes what needs the fewest bytes of 2, 3, 4",
     .default_value = "auto",
     .choices = "auto|1|2|3|4|8"},
    {.name = "cols",
     .doc = "columns of a block; auto takes what needs the fewest bytes of 2, 3, 4",
     .default_value = "auto",
     .choices = "auto|1|2|3|4|8"},
    {.name = "max_fill",
     .doc = "stored values an entry above which the format refuses",
     .default_value = "2",
     .smallest = 1,
     .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Bcsr>()};

}  // namespace

namespace device_code {
extern const DeviceCode bcsr;
}

extern const FormatEntry bcsr;
constinit const FormatEntry bcsr{.family = "block",
                                 .id = "bcsr",
                                 .title = "Compressed rows of small dense blocks",
                                 .source = "Pinar, Heath, SC 1999; Im, Yelick, Vuduc, IJHPCA 18(1), 2004",
                                 .traits = {},
                                 .params = params,
                                 .kernels = kernels,
                                 .admit = admit,
                                 .device = PROTEAN_DEVICE_CODE(bcsr)};

}  // namespace protean::formats
