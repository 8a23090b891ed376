// The host side of blocks.hpp. Private to formats/.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "formats/engines/blocks/blocks.hpp"
#include "formats/engines/view/row_view.hpp"
#include "operators/multi_product.hpp"

namespace protean::formats {

// Merges the rows of a block row: calls block(number of its column, bits of its entries) for each of its blocks, in
// order. Bit i C + j is 1 when there is an entry at i, j.
template <class RowSize, class ColSize, class P, class Block>
void for_blocks(const SparsityPattern& pattern, const P* row_ptr, RowSize R, ColSize C,
                std::int64_t block_row, Block block) {
  constexpr std::uint32_t none = ~std::uint32_t{0};
  const std::uint64_t full = C == 8 ? 255 : (1u << C) - 1;
  const std::int32_t* const cols = pattern.col;
  std::int64_t next[RowSize::most], end[RowSize::most];
  std::uint32_t head[RowSize::most];  // number of the block that a row's next entry is in
  const auto look = [&](int i) {
    return next[i] < end[i] ? static_cast<std::uint32_t>(cols[next[i]]) / static_cast<unsigned>(C) : none;
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

// y := alpha A x + beta y.
template <class T>
struct BlockProduct {
  BlockGrid<T> grid;
  T alpha, beta;  // beta == 0 never reads y
  const T* x;
  T* y;
  bool with_dot;  // return the sum of x[row] * y[row], else 0
  bool ordered;   // add as in deterministic mode, without a dot product; order blocks only
};

// Block rows at places [begin, end). x is read and y is written inside the matrix only.
double block_product(const BlockProduct<double>& product, std::int64_t begin, std::int64_t end);
float block_product(const BlockProduct<float>& product, std::int64_t begin, std::int64_t end);

// Everything except the values, as admit() finds it. Counting the blocks is nearly all of the work of a build, so the
// maker uses this.
struct BlockPlan {
  struct Part {
    std::int64_t blocks = 0;
    // As long as if each entry had its own block; unused pages cost nothing.
    std::unique_ptr<std::int32_t[]> col;
    std::unique_ptr<std::uint8_t[]> entries;
  };
  BlockRule rule;
  BlockShape shape{};
  std::vector<std::int64_t> block_ptr;        // blocks before each block row, without those apart
  std::vector<std::int64_t> slice_ptr;        // slices; if there is one, {0, slots}
  std::vector<std::int32_t> perm;             // if sorted
  std::vector<std::uint8_t> diagonal;         // bits of the separate blocks
  std::vector<Part> parts;                    // consecutive block rows
  std::vector<std::int64_t> first_block_row;  // of each part, and the number of block rows

  BlockPlan(const Context& context, const SparsityPattern& pattern, const BlockRule& rule,
            const BlockShape& shape);
  std::int64_t blocks() const { return block_ptr.back(); }
  std::int64_t slots() const {
    return rule.container == BlockContainer::slices ? slice_ptr.back() : blocks();
  }
};

// The shape that the format takes for this pattern.
BlockShape choose_shape(const Context& context, const SparsityPattern& pattern, const BlockSpec& spec,
                        std::size_t value_bytes);

// admit() on the host.
template <BlockSpecOf spec_of>
Admission admit_blocks_on_host(const Context& context, const SparsityPattern& pattern,
                               const FormatParams& params, std::size_t value_bytes) {
  const BlockSpec spec = spec_of(params);
  if (std::string reason = refusal_of(spec.rule, pattern); !reason.empty())
    return Admission::refuse(std::move(reason));
  auto plan = std::make_shared<const BlockPlan>(context, pattern, spec.rule,
                                                choose_shape(context, pattern, spec, value_bytes));
  Admission admission = admit_blocks(spec.rule, plan->shape, plan->slots(), pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

// The matrix of every format of this engine. The formats differ in the spec that admit() made of their parameters.
template <class T>
class BlockMatrix : public RowViewMatrix<T, BlockMatrix<T>>,
                    public HasApplyDot<T>,
                    public HasMultiProduct<T> {
 public:
  explicit BlockMatrix(const BuildRequest<T>& request);

  std::size_t bytes() const noexcept override {
    return ptr_.bytes() + block_row_.bytes() + block_col_.bytes() + values_.bytes() + entries_.bytes() +
           perm_.bytes();
  }
  std::vector<LayoutArray> layout() const override;
  BlockGrid<T> row_view() const noexcept;
  T* mutable_values() noexcept { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const { run(alpha, x, beta, y, false); }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override;

 protected:
  // Writes the padding as well, so the constructor uses it.
  void do_update_values(const CsrMatrix<T>& csr) override;
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override;
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x.data, T(0), y.data, true);
  }

 private:
  T run(T alpha, const T* x, T beta, T* y, bool with_dot) const;
  void fill_slots(const BlockPlan& plan);
  void divide(const BlockPlan& plan);

  BlockRule rule_;
  BlockShape shape_;
  Buffer<std::int64_t> ptr_;
  Buffer<std::int32_t> block_row_, block_col_;
  Buffer<T> values_;
  Buffer<std::uint8_t> entries_;
  Buffer<std::int32_t> perm_;
  std::vector<std::int64_t> borders_;  // places of each part
};
extern template class BlockMatrix<double>;
extern template class BlockMatrix<float>;

}  // namespace protean::formats
