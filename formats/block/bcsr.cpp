// BCSR: compressed rows of small dense blocks on a grid.
//
//        | 1 . 2 . |     2 x 2 blocks                          (. is a stored 0)
//    A = | . 3 . . |     block_ptr = 0 2 4
//        | . . . . |     block_col = 0 1 0 1
//        | 4 5 . 6 |     values    = 1 . . 3 | 2 . . . | . . 4 5 | . . . 6
//                        entries   =    9         1        12         8
//
// Arrays:
//   block_ptr  [block rows + 1] int64: number of blocks before each block row; block rows = ceil(rows / R).
//   block_col  [blocks] int32: number of the block's column of blocks, ascending within a block row. The
//              block begins at matrix column C times that number.
//   values     [R C blocks]: one block after another, each row by row; 0 where there is no entry, no such row
//              or no such column.
//   entries    [ceil(R C / 8) blocks] uint8: bit i % 8 of byte i / 8 of a block is 1 where its value i is an
//              entry. It distinguishes stored zeros from fill. Products do not read it, except in
//              deterministic mode.
// Bytes: blocks (v R C + 4 + ceil(R C / 8)) + 8 (block rows + 1), with v bytes a value.
// Parameters:
//   rows, cols  R and C: 1, 2, 3, 4, 8 or auto. auto takes the size among 2, 3 and 4 that needs the fewest
//               bytes. It counts blocks in all rows of a matrix of up to 768 rows, and in 32 groups of 24
//               rows of a larger one.
//   max_fill    the most stored values an entry.
// Wins: where unknowns come in groups, such as several in each node of a mesh. One column index serves R C
//   values, and x is loaded without a gather.
// Refuses: when R C blocks > max_fill nonzeros.
// Source: A. Pinar, M. T. Heath, Improving performance of sparse matrix-vector multiplication, SC 1999,
//   doi:10.1145/331532.331562; E.-J. Im, K. Yelick, R. Vuduc, Sparsity: optimization framework for sparse
//   matrix kernels, Int. J. High Perform. Comput. Appl. 18(1), 2004, doi:10.1177/1094342004041296.
//
// A NaN or infinity in x_j also reaches rows without an entry in column j when a block of theirs covers
// column j, because 0 times it is NaN. In deterministic mode it reaches only rows with an entry there.
#include <algorithm>
#include <memory>

#include "formats/block/bcsr.hpp"
#include "formats/block/blocks.hpp"
#include "formats/private/array_views.hpp"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

// Calls f(R, C, row pointers) with R and C as constants.
template <class F>
void with_shape(const SparsityPattern& pattern, const BlockShape& shape, F f) {
  with_size(shape.R, [&](auto R) {
    with_size(shape.C, [&](auto C) { pattern.row_ptr.visit([&](auto* row_ptr) { f(R, C, row_ptr); }); });
  });
}

// Merges the rows of a block row: calls block(number of its column, bits of its entries) for each of its
// blocks, in order. Bit i C + j is 1 when there is an entry at i, j.
template <int R, int C, class P, class Block>
void for_blocks(const SparsityPattern& pattern, const P* row_ptr, std::int64_t block_row, Block block) {
  constexpr std::uint32_t none = ~std::uint32_t{0};
  constexpr std::uint64_t full = C == 8 ? 255 : (1u << C) - 1;
  const std::int32_t* const cols = pattern.col;
  std::int64_t next[R], end[R];
  std::uint32_t head[R];  // number of the block that a row's next entry is in
  const auto look = [&](int i) {
    return next[i] < end[i] ? static_cast<std::uint32_t>(cols[next[i]]) / C : none;
  };
  for (int i = 0; i < R; ++i) {
    const std::int64_t row = std::min(block_row * R + i, pattern.rows);
    next[i] = row_ptr[row], end[i] = row_ptr[std::min(row + 1, pattern.rows)];
    head[i] = look(i);
  }
  for (;;) {
    std::uint32_t number = head[0];
    for (int i = 1; i < R; ++i) number = std::min(number, head[i]);
    if (number == none) return;
    const std::int64_t left = std::int64_t{number} * C, past = left + C;
    std::uint64_t bits = 0;
    for (int i = 0; i < R; ++i) {
      if (head[i] != number) continue;
      std::uint64_t row = full;
      if (next[i] + C <= end[i] && cols[next[i] + C - 1] < past) {
        next[i] += C;
      } else {
        row = 0;
        for (; next[i] < end[i] && cols[next[i]] < past; ++next[i])
          row |= std::uint64_t{1} << (cols[next[i]] - left);
      }
      bits |= row << (i * C);
      head[i] = look(i);
    }
    block(number, bits);
  }
}

std::int64_t block_rows(const SparsityPattern& pattern, const BlockShape& shape) {
  return (pattern.rows + shape.R - 1) / shape.R;
}

// The number of blocks in the sampled rows.
std::int64_t sampled_blocks(const SparsityPattern& pattern, const BlockShape& shape) {
  const std::int64_t groups = (pattern.rows + group_rows - 1) / group_rows,
                     taken = std::min(groups, most_groups);
  std::int64_t count = 0;
  with_shape(pattern, shape, [&](auto R, auto C, auto* row_ptr) {
    for (std::int64_t g = 0; g < taken; ++g) {
      const std::int64_t first = g * groups / taken * group_rows,
                         last = std::min(pattern.rows, first + group_rows);
      for (std::int64_t i = first / R; i * R < last; ++i)
        for_blocks<R, C>(pattern, row_ptr, i, [&](std::uint32_t, std::uint64_t) { ++count; });
    }
  });
  return count;
}

BlockShape choose_shape(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                        std::size_t value_bytes) {
  const std::vector<BlockShape> shapes = allowed_shapes(params);
  if (shapes.size() == 1) return shapes[0];
  std::vector<std::int64_t> sampled(shapes.size());
  parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
    for (std::size_t i = static_cast<std::size_t>(part); i < shapes.size();
         i += static_cast<std::size_t>(parts))
      sampled[i] = sampled_blocks(pattern, shapes[i]);
  });
  return fewest_bytes(shapes, sampled, pattern.rows, value_bytes);
}

// Everything but the values, as admit() finds it. Counting the blocks is nearly all of the work of a build,
// so the maker uses this.
struct BlockPlan {
  struct Part {
    std::int64_t blocks = 0;
    std::unique_ptr<std::int32_t[]>
        col;  // as long as if each entry had its own block; unused pages cost nothing
    std::unique_ptr<std::uint8_t[]> entries;  // bytes_each a block
  };
  BlockShape shape{};
  std::vector<std::int64_t> block_ptr;
  std::vector<Part> parts;  // consecutive block rows

  std::int64_t blocks() const { return block_ptr.back(); }
  std::int64_t bytes_each() const { return (shape.R * shape.C + 7) / 8; }

  BlockPlan(const Context& context, const SparsityPattern& pattern, const BlockShape& chosen)
      : shape(chosen) {
    block_ptr.resize(static_cast<std::size_t>(block_rows(pattern, shape)) + 1);
    parts.resize(static_cast<std::size_t>(useful_parts(context, pattern.nonzeros + pattern.rows)));
    const int count = static_cast<int>(parts.size());
    const auto borders = balanced_row_borders(pattern, count, shape.R);
    parallel(count, [&](int part, int) {
      const std::int64_t top = borders[part], end = borders[part + 1];
      const auto most = static_cast<std::size_t>(pattern.row_ptr[end] - pattern.row_ptr[top]);
      Part mine;
      mine.col = std::make_unique_for_overwrite<std::int32_t[]>(most);
      mine.entries =
          std::make_unique_for_overwrite<std::uint8_t[]>(most * static_cast<std::size_t>(bytes_each()));
      with_shape(pattern, shape, [&](auto R, auto C, auto* row_ptr) {
        std::int32_t* col = mine.col.get();
        std::uint8_t* entries = mine.entries.get();
        std::int64_t* ptr = block_ptr.data();
        // Rounded up: the last block row may be incomplete, and a part that begins after it has none.
        const std::int64_t past = (end + R - 1) / R;
        for (std::int64_t i = (top + R - 1) / R; i < past; ++i) {
          const std::int32_t* const first = col;
          for_blocks<R, C>(pattern, row_ptr, i, [&](std::uint32_t number, std::uint64_t bits) {
            *col++ = static_cast<std::int32_t>(number);
            for (int byte = 0; byte < (R * C + 7) / 8; ++byte)
              *entries++ = static_cast<std::uint8_t>(bits >> (8 * byte));
          });
          ptr[i + 1] = col - first;
        }
        mine.blocks = col - mine.col.get();
      });
      parts[static_cast<std::size_t>(part)] = std::move(mine);
    });
    for (std::size_t i = 1; i < block_ptr.size(); ++i) block_ptr[i] += block_ptr[i - 1];
  }
};

template <class T>
class Bcsr final : public AssembledMatrix<T>,
                   public HasApplyDot<T>,
                   public HasLayout,
                   public HasArrayView<BlockView<T>> {
 public:
  explicit Bcsr(const BuildRequest<T>& request) : Bcsr(request, plan_of<BlockPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return block_ptr_.bytes() + block_col_.bytes() + values_.bytes() + entries_.bytes();
  }

  BlockView<T> array_view() const noexcept override {
    return {this->rows(), this->cols(),      block_ptr_.size() - 1, block_col_.size(), shape_.R,
            shape_.C,     block_ptr_.data(), block_col_.data(),     values_.data()};
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
  void do_update_values(const CsrMatrix<T>& csr) override { write_values(csr); }

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
                                  with_dot,
                                  this->context()->deterministic(),
                                  entries_.data()};
    const int parts = static_cast<int>(borders_.size()) - 1;
    PartialSums<T> sums(parts);
    parallel(parts,
             [&](int part, int) { sums[part] = block_product(product, borders_[part], borders_[part + 1]); });
    return sums.total();
  }

  Bcsr(const BuildRequest<T>& request, const BlockPlan& plan)
      : AssembledMatrix<T>(request),
        shape_(plan.shape),
        block_ptr_(request.context, static_cast<std::int64_t>(plan.block_ptr.size())),
        block_col_(request.context, plan.blocks()),
        values_(request.context, plan.blocks() * area()),
        entries_(request.context, plan.blocks() * bit_bytes()) {
    std::copy(plan.block_ptr.begin(), plan.block_ptr.end(), block_ptr_.begin());
    const int parts = static_cast<int>(plan.parts.size());
    parallel(parts, [&](int part, int) {
      std::int64_t before = 0;
      for (int p = 0; p < part; ++p) before += plan.parts[p].blocks;
      const BlockPlan::Part& mine = plan.parts[part];
      std::copy_n(mine.col.get(), mine.blocks, block_col_.data() + before);
      std::copy_n(mine.entries.get(), mine.blocks * bit_bytes(), entries_.data() + before * bit_bytes());
    });
    for (int part = 0; part <= parts; ++part) {
      const std::int64_t share = plan.blocks() / parts * part;
      borders_.push_back(std::lower_bound(block_ptr_.begin(), block_ptr_.end(), share) - block_ptr_.begin());
    }
    borders_.front() = 0, borders_.back() = block_ptr_.size() - 1;
    write_values(request.csr);
  }

  // The entry bits are known, so only the row pointers and the values are read.
  void write_values(const CsrMatrix<T>& csr) {
    with_shape(csr.pattern, shape_, [&](auto R, auto C, auto* row_ptr) {
      parallel(static_cast<int>(borders_.size()) - 1,
               [&](int part, int) { expand<R, C>(csr, row_ptr, borders_[part], borders_[part + 1]); });
    });
  }

  template <int R, int C, class P>
  void expand(const CsrMatrix<T>& csr, const P* row_ptr, std::int64_t begin, std::int64_t end) {
    constexpr int size = R * C, bytes = (size + 7) / 8;
    constexpr std::uint64_t full = ~std::uint64_t{0} >> (64 - size);
    const T zero = 0;
    const std::int64_t* const block_ptr = block_ptr_.data();
    const std::uint8_t* entries = entries_.data() + block_ptr[begin] * bytes;
    T* to = values_.data() + block_ptr[begin] * size;
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from[R];
      for (int k = 0; k < R; ++k) from[k] = csr.values + row_ptr[std::min(i * R + k, csr.rows())];
      for (std::int64_t b = block_ptr[i]; b < block_ptr[i + 1]; ++b, to += size, entries += bytes) {
        std::uint64_t bits = 0;
        for (int byte = 0; byte < bytes; ++byte) bits |= std::uint64_t{entries[byte]} << (8 * byte);
        if (bits == full) {
          for (int k = 0; k < R; ++k, from[k - 1] += C)
            for (int j = 0; j < C; ++j) to[k * C + j] = from[k][j];
          continue;
        }
        // Without branches, because they could not be predicted.
        for (int k = 0; k < R; ++k)
          for (int j = 0; j < C; ++j) {
            const auto bit = static_cast<std::int64_t>(bits >> (k * C + j) & 1);
            const T* const source = bit ? from[k] : &zero;
            to[k * C + j] = *source;
            from[k] += bit;
          }
      }
    }
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
  auto plan = std::make_shared<const BlockPlan>(context, pattern,
                                                choose_shape(context, pattern, params, value_bytes));
  Admission admission = admit_blocks(plan->shape, plan->blocks(), pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
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
constexpr Kernel kernels[] = {native_host_kernel<Bcsr>(Sums::ordered), PROTEAN_KOKKOS_KERNEL(bcsr)};

}  // namespace

namespace device_code {
extern const DeviceCode bcsr;
}

extern const FormatEntry bcsr;
constinit const FormatEntry bcsr{.family = "block",
                                 .id = "bcsr",
                                 .title = "Compressed rows of small dense blocks",
                                 .source = "Pinar, Heath, SC 1999; Im, Yelick, Vuduc, IJHPCA 18(1), 2004",
                                 .traits = {.admits_slowly = true},
                                 .params = params,
                                 .kernels = kernels,
                                 .admit = admit,
                                 .device = PROTEAN_DEVICE_CODE(bcsr)};

}  // namespace protean::formats
