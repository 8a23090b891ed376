// The kernels of multi_rows.cuh for csr, slices and blocks.
#include "formats/engines/several/multi_rows.cuh"

#include "formats/engines/blocks/blocks.hpp"
#include "formats/engines/slices/slice_view.hpp"

namespace protean::formats {

// The parts of a row of blocks: every `split`-th block.
template <class T, class F>
__device__ inline void for_products(const BlockGrid<T>& a, std::int64_t p, int part, int split, F&& f) {
  const std::int64_t place = p / a.R, i = a.number(place);
  const int r = static_cast<int>(p - place * a.R);
  // As BlockGrid::place(): the first value of the row in a block, the distance between its values, and whether they
  // come in units of four.
  const bool by_columns = a.order == BlockOrder::columns, quads = !by_columns && a.W == 4 && a.C > 4;
  const int unit_of_row = by_columns ? r : r * (a.C / a.W);
  const auto block = [&](const BlockRow& of, std::int64_t k, std::int64_t number) {
    const T* const values = a.values + of.base + k * of.step + unit_of_row * of.unit;
    const std::int64_t next = by_columns ? a.R * of.unit : a.W == 1 ? of.unit : 1;
    const auto first = static_cast<std::int32_t>(number * a.C);
    const int count = static_cast<int>(min(std::int64_t{a.C}, a.cols - first));
#pragma unroll 4
    for (int c = 0; c < count; ++c)
      f(first + c, __ldg(values + (quads ? c / 4 * of.unit + c % 4 : c * next)));
  };
  const BlockRow b = a.block_row_at(place);
  for (std::int64_t k = part; k < b.count; k += split)
    block(b, k, __ldg(a.block_col + b.first + k * b.slot_step));
  if (a.diagonal_apart && part == 0) block(a.apart(i), 0, i);
}

// Slots of padding count if no length identifies them: they have the value 0 and the column of an entry of the row.
template <class T, class F>
__device__ inline void for_products(const SliceView<T>& a, std::int64_t p, int part, int split, F&& f) {
  const LaneSlots at = a.at(p);
  std::int64_t end = at.width;
  if (a.kind == LaneLengths::entries) end = __ldg(a.lengths + p);
  if (a.kind == LaneLengths::steps) end = std::int64_t{__ldg(a.lengths + p)} * a.threads;
  if (a.diagonal_apart) {
    // A row without entries has its own column in its padding.
    const std::int64_t row = a.row(p);
    if (a.absent_count > 0 && a.is_absent(row)) {
      if (part == 0)
        a.walk(p, [&](std::int32_t col, std::int64_t slot) { return f(col, __ldg(a.values + slot)), true; });
      return;
    }
    if (part == 0) f(static_cast<std::int32_t>(row), __ldg(a.values + a.slots + row));
  } else if (a.kind == LaneLengths::none && a.absent_count > 0 && a.is_absent(p)) {
    end = 0;
  }
  if (at.order == LaneOrder::columns) {
    const T* values = a.values + at.base + part * at.C;
    const std::int32_t* col = a.col + at.base + part * at.C;
    const std::int64_t step = split * at.C;
#pragma unroll 4
    for (std::int64_t k = part; k < end; k += split, values += step, col += step)
      f(__ldg(col), __ldg(values));
  } else {
    for (std::int64_t k = part; k < end; k += split) {
      const std::int64_t slot = at.slot(k);
      f(__ldg(a.col + slot), __ldg(a.values + slot));
    }
  }
}

template <class T, class P>
void multi_csr_on_device(const Context& context, const CsrArrays<T, P>& csr, std::int64_t nonzeros, T alpha,
                         const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  // Measured on an H200 with 7, 27 and 81 entries a row: fewer parts are faster for many vectors, but slower for two
  // than two products.
  const std::int64_t mean = csr.rows > 0 ? nonzeros / csr.rows : 0;
  const int split = mean < 12 ? 1 : mean < 20 ? 2 : mean < 200 ? 4 : mean < 400 ? 8 : 16;
  multi_rows_on_device<4>(context, MultiCsrRows<T, P>(csr), split, alpha, X, beta, Y);
}

template <class T>
void multi_slices_on_device(const Context& context, const SliceView<T>& slices, T alpha,
                            const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  multi_rows_on_device<8>(context, slices, 1, alpha, X, beta, Y);
}

template <class T>
void multi_blocks_on_device(const Context& context, const BlockGrid<T>& blocks, T alpha,
                            const MultiVectorView<const T>& X, T beta, const MultiVectorView<T>& Y) {
  multi_rows_on_device<8>(context, blocks, 2, alpha, X, beta, Y);
}

#define PROTEAN_INSTANTIATE(T)                                                                            \
  template void multi_csr_on_device<T, std::int32_t>(const Context&, const CsrArrays<T, std::int32_t>&,   \
                                                     std::int64_t, T, const MultiVectorView<const T>&, T, \
                                                     const MultiVectorView<T>&);                          \
  template void multi_csr_on_device<T, std::int64_t>(const Context&, const CsrArrays<T, std::int64_t>&,   \
                                                     std::int64_t, T, const MultiVectorView<const T>&, T, \
                                                     const MultiVectorView<T>&);                          \
  template void multi_slices_on_device<T>(const Context&, const SliceView<T>&, T,                         \
                                          const MultiVectorView<const T>&, T, const MultiVectorView<T>&); \
  template void multi_blocks_on_device<T>(const Context&, const BlockGrid<T>&, T,                         \
                                          const MultiVectorView<const T>&, T, const MultiVectorView<T>&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::formats
