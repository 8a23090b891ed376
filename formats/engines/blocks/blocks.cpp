// The host side of the blocks engine except for its products: the finder of blocks, the shapes, the slots, the values.
#include <algorithm>
#include <numeric>

#include "core/product_parts.hpp"
#include "formats/engines/blocks/blocks_host.hpp"
#include "formats/engines/several/multi_rows.hpp"

namespace protean::formats {
namespace {

// Calls f(R, C, row pointers).
template <class F>
void with_pattern(const SparsityPattern& pattern, const BlockShape& shape, F f) {
  with_shape(shape.R, shape.C,
             [&](auto R, auto C) { pattern.row_ptr.visit([&](auto* row_ptr) { f(R, C, row_ptr); }); });
}

std::vector<std::int32_t> sampled_blocks(const SparsityPattern& pattern, const BlockShape& shape) {
  const std::int64_t groups = (pattern.rows + group_rows - 1) / group_rows,
                     taken = std::min(groups, most_groups);
  std::vector<std::int32_t> counts;
  with_pattern(pattern, shape, [&](auto R, auto C, auto* row_ptr) {
    for (std::int64_t g = 0; g < taken; ++g) {
      const std::int64_t first = g * groups / taken * group_rows,
                         last = std::min(pattern.rows, first + group_rows);
      for (std::int64_t i = first / R; i * R < last; ++i) {
        std::int32_t count = 0;
        for_blocks(pattern, row_ptr, R, C, i, [&](std::uint32_t, std::uint64_t) { ++count; });
        counts.push_back(count);
      }
    }
  });
  return counts;
}

std::uint64_t read_bits(const std::uint8_t* entries, int bytes) {
  std::uint64_t bits = 0;
  for (int byte = 0; byte < bytes; ++byte) bits |= std::uint64_t{entries[byte]} << (8 * byte);
  return bits;
}
void write_bits(std::uint64_t bits, std::uint8_t* entries, int bytes) {
  for (int byte = 0; byte < bytes; ++byte) entries[byte] = static_cast<std::uint8_t>(bits >> (8 * byte));
}

// Writes the next values of the rows of a block to the places of its entries, 0 to the others. from[r] is the next
// value of row r. Value (r, c) lies at to[(r C / W + c / W) unit + c % W]; one after another without units.
template <bool units, class RowSize, class ColSize, class T>
void expand_block(RowSize R, ColSize C, std::uint64_t bits, const T** from, T* to, int W, std::int64_t unit) {
  const std::uint64_t full = ~std::uint64_t{0} >> (64 - R * C);
  const auto place = [&](int r, int c) -> T& {
    return units ? to[(r * (C / W) + c / W) * unit + c % W] : to[r * C + c];
  };
  if (bits == full) {
    for (int r = 0; r < R; ++r, from[r - 1] += C)
      for (int c = 0; c < C; ++c) place(r, c) = from[r][c];
    return;
  }
  // Without branches, because they could not be predicted.
  const T zero = 0;
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) {
      const auto bit = static_cast<std::int64_t>(bits >> (r * C + c) & 1);
      const T* const source = bit ? from[r] : &zero;
      place(r, c) = *source;
      from[r] += bit;
    }
}

template <bool units, class RowSize, class ColSize, class T>
void expand(const CsrMatrix<T>& csr, const BlockGrid<T>& a, RowSize R, ColSize C, std::int64_t begin,
            std::int64_t end, T* values) {
  const int bytes = (R * C + 7) / 8;
  for (std::int64_t at = begin; at < end; ++at) {
    const std::int64_t i = a.number(at);
    const BlockRow b = a.block_row_at(at);
    const T* from[RowSize::most];
    for (int r = 0; r < R; ++r) from[r] = csr.values + csr.pattern.row_ptr[std::min(i * R + r, csr.rows())];
    bool wanted = a.diagonal_apart;
    const auto diagonal = [&] {
      const BlockRow d = a.apart(i);
      expand_block<units>(R, C, read_bits(a.entries + d.first * bytes, bytes), from, values + d.base, a.W,
                          d.unit);
      wanted = false;
    };
    for (std::int64_t k = 0; k < b.count; ++k) {
      const std::int64_t slot = b.first + k * b.slot_step;
      if (wanted && a.block_col[slot] > i) diagonal();
      expand_block<units>(R, C, read_bits(a.entries + slot * bytes, bytes), from,
                          values + b.base + k * b.step, a.W, b.unit);
    }
    if (wanted) diagonal();
  }
}

}  // namespace

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

std::size_t block_bytes(const BlockRule& rule, const BlockShape& shape, std::int64_t slots, std::int64_t rows,
                        std::size_t value_bytes) {
  const auto block =
      static_cast<std::size_t>(shape.area()) * value_bytes + static_cast<std::size_t>(shape.bit_bytes());
  const auto block_rows = static_cast<std::size_t>(shape.block_rows(rows));
  std::size_t bytes = static_cast<std::size_t>(slots) * (block + 4);
  if (rule.container == BlockContainer::rows) bytes += 8 * (block_rows + 1);
  if (rule.container == BlockContainer::list) bytes += 4 * static_cast<std::size_t>(slots);
  if (rule.container == BlockContainer::slices && rule.slice > 0)
    bytes += 8 * static_cast<std::size_t>(rule.slices(shape.block_rows(rows)) + 1);
  if (rule.sorted) bytes += 4 * block_rows;
  if (rule.diagonal_apart) bytes += block * block_rows;
  return bytes;
}

BlockShape fewest_bytes(const BlockRule& rule, const std::vector<BlockShape>& shapes,
                        const BlockSamples& samples, std::int64_t rows, std::size_t value_bytes) {
  const std::int64_t sampled_rows = std::min(rows, most_groups * group_rows);
  std::size_t best = 0, fewest = ~std::size_t{0};
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const auto blocks = std::accumulate(samples[s].begin(), samples[s].end(), std::int64_t{0});
    const std::size_t bytes = block_bytes(rule, shapes[s], blocks, sampled_rows, value_bytes);
    if (bytes < fewest) fewest = bytes, best = s;
  }
  return shapes[best];
}

std::string refusal_of(const BlockRule& rule, const SparsityPattern& pattern) {
  if (!rule.diagonal_apart || pattern.rows == pattern.cols) return {};
  return fmt::format("the matrix is {} x {}; blocks on the diagonal are stored apart, so it must be square",
                     pattern.rows, pattern.cols);
}

Admission admit_blocks(const BlockRule& rule, const BlockShape& shape, std::int64_t slots,
                       const SparsityPattern& pattern, const FormatParams& params, std::size_t value_bytes) {
  const std::int64_t apart = rule.diagonal_apart ? shape.block_rows(pattern.rows) : 0;
  const std::int64_t stored = (slots + apart) * shape.area();
  const std::size_t bytes = block_bytes(rule, shape, slots, pattern.rows, value_bytes);
  if (auto reason = too_much_fill(stored, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty() && pattern.nonzeros > 0)  // blocks apart are stored without entries, too
    return Admission::refuse(fmt::format("with {} x {} blocks {}", shape.R, shape.C, reason), bytes, stored);
  return Admission::accept(bytes, stored);
}

BlockShape choose_shape(const Context& context, const SparsityPattern& pattern, const BlockSpec& spec,
                        std::size_t value_bytes) {
  if (spec.shapes.size() == 1) return spec.shapes[0];
  BlockSamples samples(spec.shapes.size());
  parallel(useful_parts(context, pattern.nonzeros + pattern.rows), [&](int part, int parts) {
    for (std::size_t i = static_cast<std::size_t>(part); i < spec.shapes.size();
         i += static_cast<std::size_t>(parts))
      samples[i] = sampled_blocks(pattern, spec.shapes[i]);
  });
  return spec.choose(spec.rule, spec.shapes, samples, pattern.rows, value_bytes);
}

BlockPlan::BlockPlan(const Context& context, const SparsityPattern& pattern, const BlockRule& of,
                     const BlockShape& chosen)
    : rule(of), shape(chosen) {
  const std::int64_t block_rows = shape.block_rows(pattern.rows);
  block_ptr.resize(static_cast<std::size_t>(block_rows) + 1);
  if (rule.diagonal_apart) diagonal.resize(static_cast<std::size_t>(block_rows * shape.bit_bytes()));
  parts.resize(static_cast<std::size_t>(product_parts(context, pattern.rows, pattern.nonzeros)));
  const int count = static_cast<int>(parts.size());
  const auto borders = balanced_row_borders(pattern, count, shape.R);
  for (const std::int64_t border : borders) first_block_row.push_back((border + shape.R - 1) / shape.R);
  parallel(count, [&](int part, int) {
    const std::int64_t top = borders[part], end = borders[part + 1];
    const auto most = static_cast<std::size_t>(pattern.row_ptr[end] - pattern.row_ptr[top]);
    const int bytes = static_cast<int>(shape.bit_bytes());
    Part mine;
    mine.col = std::make_unique_for_overwrite<std::int32_t[]>(most);
    mine.entries = std::make_unique_for_overwrite<std::uint8_t[]>(most * static_cast<std::size_t>(bytes));
    with_pattern(pattern, shape, [&](auto R, auto C, auto* row_ptr) {
      std::int32_t* col = mine.col.get();
      std::uint8_t* entries = mine.entries.get();
      std::int64_t* ptr = block_ptr.data();
      std::uint8_t* const apart = diagonal.empty() ? nullptr : diagonal.data();
      const int bytes_each = (R * C + 7) / 8;
      // Rounded up: the last block row may be incomplete, and a part that begins after it has none.
      const std::int64_t past = (end + R - 1) / R;
      for (std::int64_t i = (top + R - 1) / R; i < past; ++i) {
        const std::int32_t* const first = col;
        for_blocks(pattern, row_ptr, R, C, i, [&](std::uint32_t number, std::uint64_t bits) {
          if (apart && number == i) {
            write_bits(bits, apart + i * bytes_each, bytes_each);
            return;
          }
          *col++ = static_cast<std::int32_t>(number);
          write_bits(bits, entries, bytes_each);
          entries += bytes_each;
        });
        ptr[i + 1] = col - first;
      }
      mine.blocks = col - mine.col.get();
    });
    parts[static_cast<std::size_t>(part)] = std::move(mine);
  });
  if (rule.container == BlockContainer::slices || rule.sorted) {
    const std::int64_t* const counts = block_ptr.data() + 1;
    if (rule.sorted) {
      perm.resize(static_cast<std::size_t>(block_rows));
      std::iota(perm.begin(), perm.end(), 0);
      std::stable_sort(perm.begin(), perm.end(), [&](auto a, auto b) { return counts[a] > counts[b]; });
    }
    const std::int64_t height = rule.height(block_rows);
    slice_ptr.push_back(0);
    for (std::int64_t top = 0; top < block_rows; top += height) {
      const std::int64_t end = std::min(top + height, block_rows);
      std::int64_t width = 0;
      for (std::int64_t at = top; at < end; ++at)
        width = std::max(width, counts[perm.empty() ? at : perm[static_cast<std::size_t>(at)]]);
      slice_ptr.push_back(slice_ptr.back() + (end - top) * width);
    }
  }
  for (std::size_t i = 1; i < block_ptr.size(); ++i) block_ptr[i] += block_ptr[i - 1];
}

template <class T>
BlockMatrix<T>::BlockMatrix(const BuildRequest<T>& request)
    : RowViewMatrix<T, BlockMatrix<T>>(request),
      rule_(plan_of<BlockPlan>(request.admission).rule),
      shape_(plan_of<BlockPlan>(request.admission).shape) {
  const BlockPlan& plan = plan_of<BlockPlan>(request.admission);
  const ContextPtr& context = request.context;
  const std::int64_t slots = plan.slots(), block_rows = shape_.block_rows(this->rows()),
                     apart = rule_.diagonal_apart ? block_rows : 0;
  const auto copied = [&](const auto& from) {
    Buffer<std::remove_cvref_t<decltype(from[0])>> to(context, static_cast<std::int64_t>(from.size()));
    std::copy(from.begin(), from.end(), to.begin());
    return to;
  };
  if (rule_.container == BlockContainer::rows) ptr_ = copied(plan.block_ptr);
  if (rule_.container == BlockContainer::slices && rule_.slice > 0) ptr_ = copied(plan.slice_ptr);
  if (rule_.container == BlockContainer::list) block_row_ = Buffer<std::int32_t>(context, slots);
  if (rule_.sorted) perm_ = copied(plan.perm);
  block_col_ = Buffer<std::int32_t>(context, slots);
  values_ = Buffer<T>(context, (slots + apart) * shape_.area());
  entries_ = Buffer<std::uint8_t>(context, (slots + apart) * shape_.bit_bytes());
  fill_slots(plan);
  divide(plan);
  do_update_values(request.csr);
}

// Columns and entries.
template <class T>
void BlockMatrix<T>::fill_slots(const BlockPlan& plan) {
  const std::int64_t bytes = shape_.bit_bytes();
  const BlockGrid<T> a = row_view();
  const auto part_of = [&](std::int64_t block_row) {
    return std::upper_bound(plan.first_block_row.begin(), plan.first_block_row.end() - 1, block_row) -
           plan.first_block_row.begin() - 1;
  };
  std::copy(plan.diagonal.begin(), plan.diagonal.end(), entries_.begin() + a.slots * bytes);
  if (rule_.container != BlockContainer::slices) {
    parallel(static_cast<int>(plan.parts.size()), [&](int part, int) {
      const BlockPlan::Part& mine = plan.parts[static_cast<std::size_t>(part)];
      const std::int64_t first = plan.first_block_row[part], before = plan.block_ptr[first];
      std::copy_n(mine.col.get(), mine.blocks, block_col_.data() + before);
      std::copy_n(mine.entries.get(), mine.blocks * bytes, entries_.data() + before * bytes);
      if (rule_.container != BlockContainer::list) return;
      for (std::int64_t i = first; i < plan.first_block_row[part + 1]; ++i)
        std::fill(block_row_.data() + plan.block_ptr[i], block_row_.data() + plan.block_ptr[i + 1],
                  static_cast<std::int32_t>(i));
    });
    return;
  }
  parallel(useful_parts(*this->context(), a.slots), [&](int part, int parts) {
    const Range range = even_range(a.block_rows, part, parts, 8);
    for (std::int64_t at = range.begin; at < range.end; ++at) {
      const std::int64_t i = a.number(at), count = plan.block_ptr[i + 1] - plan.block_ptr[i];
      const auto source = static_cast<std::size_t>(part_of(i));
      const std::int64_t from = plan.block_ptr[i] - plan.block_ptr[plan.first_block_row[source]];
      const BlockRow b = a.block_row_at(at);
      std::int32_t last = rule_.diagonal_apart ? static_cast<std::int32_t>(i) : 0;
      for (std::int64_t k = 0; k < b.count; ++k) {
        const std::int64_t slot = b.first + k * b.slot_step;
        if (k < count) {
          last = plan.parts[source].col[from + k];
          std::copy_n(plan.parts[source].entries.get() + (from + k) * bytes, bytes,
                      entries_.data() + slot * bytes);
        } else {
          std::fill_n(entries_.data() + slot * bytes, bytes, std::uint8_t{0});
        }
        block_col_[slot] = last;
      }
    }
  });
}

// Parts with about the same number of slots.
template <class T>
void BlockMatrix<T>::divide(const BlockPlan& plan) {
  const int parts = static_cast<int>(plan.parts.size());
  const std::int64_t block_rows = shape_.block_rows(this->rows()), height = rule_.height(block_rows);
  for (int part = 0; part <= parts; ++part) {
    const std::int64_t share = plan.slots() / parts * part;
    if (rule_.container != BlockContainer::slices) {
      borders_.push_back(std::lower_bound(plan.block_ptr.begin(), plan.block_ptr.end(), share) -
                         plan.block_ptr.begin());
      continue;
    }
    // Within a slice, whole groups of 8 block rows.
    const auto s =
        std::max<std::ptrdiff_t>(0, std::upper_bound(plan.slice_ptr.begin(), plan.slice_ptr.end(), share) -
                                        plan.slice_ptr.begin() - 1);
    const std::int64_t top = std::min<std::int64_t>(s * height, block_rows),
                       h = std::min(height, block_rows - top);
    const std::int64_t width = h > 0 ? (plan.slice_ptr[static_cast<std::size_t>(s) + 1] -
                                        plan.slice_ptr[static_cast<std::size_t>(s)]) /
                                           h
                                     : 0;
    const std::int64_t in_slice =
        width > 0 ? (share - plan.slice_ptr[static_cast<std::size_t>(s)]) / width / 8 * 8 : 0;
    borders_.push_back(std::min(top + in_slice, block_rows));
  }
  borders_.front() = 0, borders_.back() = block_rows;
}

template <class T>
BlockGrid<T> BlockMatrix<T>::row_view() const noexcept {
  BlockGrid<T> a{};
  a.values = values_.data(), a.block_col = block_col_.data(), a.entries = entries_.data();
  a.ptr = ptr_.empty() ? nullptr : ptr_.data();
  a.block_row = block_row_.data();
  a.perm = rule_.container == BlockContainer::slices && rule_.sorted ? perm_.data() : nullptr;
  a.set_shape(rule_, shape_, this->rows(), this->cols(), block_col_.size());
  return a;
}

template <class T>
std::vector<LayoutArray> BlockMatrix<T>::layout() const {
  const std::int64_t slots = block_col_.size();
  std::vector<LayoutArray> all;
  if (rule_.container == BlockContainer::rows) all.push_back(layout_array("block_ptr", ptr_));
  if (rule_.container == BlockContainer::list) all.push_back(layout_array("block_row", block_row_));
  if (rule_.container == BlockContainer::slices && rule_.slice > 0)
    all.push_back(layout_array("slice_ptr", ptr_));
  if (rule_.sorted)
    all.push_back(layout_array(rule_.container == BlockContainer::rows ? "border" : "perm", perm_));
  all.push_back(layout_array("block_col", block_col_));
  all.push_back(layout_array("values", values_.data(), slots * shape_.area()));
  all.push_back(layout_array("entries", entries_.data(), slots * shape_.bit_bytes()));
  if (rule_.diagonal_apart) {
    const std::int64_t block_rows = shape_.block_rows(this->rows());
    all.push_back(
        layout_array("diagonal", values_.data() + slots * shape_.area(), block_rows * shape_.area()));
    all.push_back(layout_array("diagonal_entries", entries_.data() + slots * shape_.bit_bytes(),
                               block_rows * shape_.bit_bytes()));
  }
  return all;
}

template <class T>
void BlockMatrix<T>::do_update_values(const CsrMatrix<T>& csr) {
  const BlockGrid<T> a = row_view();
  with_usual_shape(shape_.R, shape_.C, [&](auto R, auto C) {
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      if (rule_.order == BlockOrder::blocks)
        expand<false>(csr, a, R, C, borders_[part], borders_[part + 1], values_.data());
      else
        expand<true>(csr, a, R, C, borders_[part], borders_[part + 1], values_.data());
    });
  });
}

template <class T>
void BlockMatrix<T>::do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const {
  // The kernel of blocks that lie one after another has its own deterministic mode, which is faster.
  if (rule_.order == BlockOrder::blocks)
    run(alpha, x.data, beta, y.data, false);
  else
    RowViewMatrix<T, BlockMatrix<T>>::do_apply(alpha, x, beta, y);
}

template <class T>
void BlockMatrix<T>::do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const {
  const MultiTask<T> task(*this->context(), alpha, X, beta, Y);
  const BlockGrid<T> grid = row_view();
  parallel(static_cast<int>(borders_.size()) - 1,
           [&](int part, int) { multi_product(grid, task, borders_[part], borders_[part + 1]); });
}

template <class T>
T BlockMatrix<T>::run(T alpha, const T* x, T beta, T* y, bool with_dot) const {
  const BlockProduct<T> product{row_view(), alpha, beta, x, y, with_dot, this->context()->deterministic()};
  const int parts = static_cast<int>(borders_.size()) - 1;
  PartialSums<T> sums(parts);
  parallel(parts,
           [&](int part, int) { sums[part] = block_product(product, borders_[part], borders_[part + 1]); });
  return sums.total();
}

template class BlockMatrix<double>;
template class BlockMatrix<float>;

}  // namespace protean::formats
