// The host side of flagged_blocks.hpp.

#define PROTEAN_WITHOUT_AVX512  // not written in SIMD: see core/simd.hpp
#include "formats/simd.hpp"
// (Highway compiles this file once for each instruction set.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/engines/flagged_blocks/flagged_blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/engines/flagged_blocks/flagged_blocks_host.hpp"
#include "formats/engines/rows/row_dot-inl.hpp"
#include "formats/engines/tuning/text_integer.hpp"

#ifndef PROTEAN_FORMATS_FLAGGED_BLOCKS
#define PROTEAN_FORMATS_FLAGGED_BLOCKS
namespace protean::formats {
namespace {

template <class T>
struct FlagProduct {
  FlaggedBlocks<T> a;
  std::int64_t limit;  // rows of y
  T alpha;
  const T* x;
  T beta;
  T* y;
};
// What a part of a product leaves for the block row that began before; row -1: nothing.
template <class T>
struct BlockRowCarry {
  std::int64_t row = -1;
  T sum[4] = {};
};

}  // namespace
}  // namespace protean::formats
#endif

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

// The tiles [begin, end), of which there is at least one. number: the columns of the blocks.
template <int R, int C, class T, class Number>
HWY_INLINE BlockRowCarry<T> flagged_range(const FlagProduct<T>& w, const Number* number, std::int64_t begin,
                                          std::int64_t end) {
  const FlaggedBlocks<T>& a = w.a;
  const std::int64_t tile = a.size.tile, lanes = a.size.lanes, cols = a.size.cols, whole = cols / C,
                     last = std::min(end * tile, a.size.blocks), plane = a.slots * C;
  const T* const x = w.x;
  BlockRowCarry<T> carry;
  bool continued = a.continues(begin);
  std::int64_t j = a.first_row[begin];
  T sum[R] = {};
  const auto finish = [&]() HWY_ATTR {
    if (continued) {
      carry.row = j;
      for (int r = 0; r < R; ++r) carry.sum[r] = sum[r];
    } else {
      for (int r = 0; r < R; ++r)
        if (const std::int64_t row = j * R + r; row < w.limit) {
          const T scaled = w.alpha * sum[r];
          w.y[row] = w.beta == T(0) ? scaled : scaled + w.beta * w.y[row];
        }
    }
  };
  bool more = false;
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t slot = a.slot_of(t * tile), past = std::min((t + 1) * tile, last);
    const Number* col = number + slot;
    const T* v = a.values + slot * C;
    for (std::int64_t k = t * tile; k < past; k += 8) {
      unsigned flags = a.flags[k / 8];
      const int count = static_cast<int>(std::min<std::int64_t>(8, past - k));
      for (int p = 0; p < count; ++p, flags >>= 1, col += lanes, v += lanes * C) {
        const std::int64_t c0 = *col;
        const T* const from = x + c0 * C;
        if (c0 < whole) {
          for (int r = 0; r < R; ++r)
            for (int c = 0; c < C; ++c) sum[r] = add_product(v[r * plane + c], from[c], sum[r]);
        } else {
          for (int r = 0; r < R; ++r)
            for (int c = 0; c0 * C + c < cols; ++c) sum[r] = add_product(v[r * plane + c], from[c], sum[r]);
        }
        more = flags & 1;
        if (more) continue;
        finish();
        ++j, continued = false;
        for (int r = 0; r < R; ++r) sum[r] = 0;
      }
    }
  }
  if (more) finish();
  return carry;
}

template <class T>
HWY_INLINE BlockRowCarry<T> flagged_shape(const FlagProduct<T>& w, std::int64_t begin, std::int64_t end) {
  BlockRowCarry<T> carry;
  with_flag_shape(w.a.size.R, w.a.size.C, [&](auto R, auto C) HWY_ATTR {
    if (w.a.col16)
      carry = flagged_range<decltype(R)::most, decltype(C)::most>(w, w.a.col16, begin, end);
    else
      carry = flagged_range<decltype(R)::most, decltype(C)::most>(w, w.a.col32, begin, end);
  });
  return carry;
}
BlockRowCarry<double> flagged_f64(const FlagProduct<double>& w, std::int64_t begin, std::int64_t end) {
  return flagged_shape(w, begin, end);
}
BlockRowCarry<float> flagged_f32(const FlagProduct<float>& w, std::int64_t begin, std::int64_t end) {
  return flagged_shape(w, begin, end);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <limits>
#include <numeric>

namespace protean::formats {
namespace {

HWY_EXPORT(flagged_f64);
HWY_EXPORT(flagged_f32);

constexpr std::int64_t most_slices = 32;

// The bytes of the sampled block rows, of which empty ones have a block of zeros. The first shape of equals.
BlockShape fewest_flagged_bytes(const BlockRule&, const std::vector<BlockShape>& shapes,
                                const BlockSamples& samples, std::int64_t, std::size_t value_bytes) {
  std::size_t best = 0;
  double fewest = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    std::int64_t blocks = 0;
    for (const std::int32_t count : samples[s]) blocks += std::max(1, count);
    const BlockShape& shape = shapes[s];
    // A column, a flag, and a row number for each tile of 8.
    const double each = static_cast<double>(shape.area()) * static_cast<double>(value_bytes) +
                        static_cast<double>(shape.bit_bytes()) + 4 + 0.125 + 0.5;
    const double bytes = static_cast<double>(blocks) * each;
    if (bytes < fewest) fewest = bytes, best = s;
  }
  return shapes[best];
}

}  // namespace

FlagRule flag_rule(const FormatParams& params) {
  const auto allowed = [&](std::string_view name, std::vector<std::int64_t> all) {
    if (params.word(name) == "auto") return all;
    return std::vector<std::int64_t>{params.integer(name)};
  };
  FlagRule rule;
  for (const std::int64_t R : allowed("rows", {1, 2, 3, 4}))
    for (const std::int64_t C : allowed("cols", {1, 2, 4})) rule.shapes.push_back({R, C});
  rule.shape = params.integer("shape"), rule.tile = params.integer("tile"),
  rule.lanes = params.integer("lanes");
  if (params.has("slices")) rule.slices = integer_within(params, "slices", 1, most_slices);
  return rule;
}
BlockSpec flag_block_spec(std::vector<BlockShape> shapes) {
  return {{}, std::move(shapes), fewest_flagged_bytes};
}
std::string no_shape(const FlagRule& rule) {
  return fmt::format(
      "shape = {}, but rows and cols allow {} size{} of blocks; give shape = 1, or rows = auto and cols = "
      "auto",
      rule.shape, rule.shapes.size(), rule.shapes.size() == 1 ? "" : "s");
}

std::string refusal_of(const FlagSizes& size) {
  if (size.stacked_rows() <= std::numeric_limits<std::int32_t>::max()) return {};
  return fmt::format("{} slices of {} block rows are more than 2^31 - 1; take fewer slices", size.slices,
                     size.block_rows());
}

Admission admit_flagged(const FlagSizes& size, std::int64_t nonzeros, const FormatParams& params,
                        std::size_t value_bytes, std::size_t extra) {
  const std::int64_t slots = size.slots(), area = std::int64_t{size.R} * size.C;
  const std::size_t stacked =
      size.slices > 1 ? static_cast<std::size_t>(size.stacked_rows() * size.R) * value_bytes : 0;
  const std::size_t bytes = static_cast<std::size_t>(slots) *
                                (static_cast<std::size_t>(area) * value_bytes + (size.narrow() ? 2 : 4) +
                                 static_cast<std::size_t>(size.bit_bytes())) +
                            static_cast<std::size_t>(slots / 8) +
                            4 * static_cast<std::size_t>(size.tiles() + 1) + stacked + extra;
  // Blocks that fill up the last tiles do not count, nor do blocks of block rows without entries.
  const std::int64_t counted = std::max<std::int64_t>(0, size.blocks - size.stacked_rows()) * area;
  if (std::string reason = too_much_fill(counted, nonzeros, params.integer("max_fill"), bytes);
      !reason.empty() && nonzeros > 0)
    return Admission::refuse(fmt::format("with {} x {} blocks {}", size.R, size.C, reason), bytes,
                             slots * area);
  if (size.slices > 1 && nonzeros > 0) {
    const std::int64_t percent = params.integer("max_fill_percent");
    if (static_cast<double>(stacked) * 100 >
        static_cast<double>(percent) * static_cast<double>(nonzeros) * static_cast<double>(value_bytes))
      return Admission::refuse(
          fmt::format("{} sums of {} slices would be kept for {} entries; max_fill_percent allows {} %",
                      size.stacked_rows() * size.R, size.slices, nonzeros, percent),
          bytes, slots * area);
  }
  return Admission::accept(bytes, slots * area);
}

FlagPlan::FlagPlan(const Context& context, const SparsityPattern& pattern, const FlagSizes& of)
    : size(of), found(context, pattern, BlockRule{}, {of.R, of.C}) {
  const std::int64_t block_rows = size.block_rows(), width = size.slice_cols();
  start.assign(static_cast<std::size_t>(size.stacked_rows()) + 1, 0);
  parallel(static_cast<int>(found.parts.size()), [&](int part, int) {
    const std::int32_t* col = found.parts[static_cast<std::size_t>(part)].col.get();
    for (std::int64_t i = found.first_block_row[part]; i < found.first_block_row[part + 1]; ++i)
      for (std::int64_t left = found.block_ptr[i + 1] - found.block_ptr[i]; left > 0; --left)
        ++start[static_cast<std::size_t>(*col++ / width * block_rows + i)];
  });
  std::int64_t next = 0;
  for (std::size_t j = 0; j < start.size(); ++j) {
    const std::int64_t count = std::max<std::int64_t>(1, start[j]);
    start[j] = next, next += count;
  }
  size.blocks = start.back();
}

Admission admit_flagged_on_host(const Context& context, const SparsityPattern& pattern,
                                const FormatParams& params, std::size_t value_bytes) {
  const FlagRule rule = flag_rule(params);
  const std::optional<BlockShape> shape = shape_of(
      rule, [&](const BlockSpec& spec) { return choose_shape(context, pattern, spec, value_bytes); });
  if (!shape) return Admission::refuse(no_shape(rule));
  FlagSizes size{pattern.rows, pattern.cols};
  size.R = static_cast<int>(shape->R), size.C = static_cast<int>(shape->C);
  size.tile = static_cast<int>(rule.tile), size.lanes = rule.lanes == 0 ? 1 : static_cast<int>(rule.lanes);
  size.slices = rule.slices;
  if (std::string reason = refusal_of(size); !reason.empty()) return Admission::refuse(std::move(reason));
  auto plan = std::make_shared<const FlagPlan>(context, pattern, size);
  Admission admission = admit_flagged(plan->size, pattern.nonzeros, params, value_bytes, 0);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

template <class T>
FlaggedMatrix<T>::FlaggedMatrix(const BuildRequest<T>& request)
    : RowViewMatrix<T, FlaggedMatrix<T>>(request), size_(plan_of<FlagPlan>(request.admission).size) {
  const FlagPlan& plan = plan_of<FlagPlan>(request.admission);
  const ContextPtr& context = request.context;
  const std::int64_t slots = size_.slots(), block_rows = size_.block_rows(), bytes = size_.bit_bytes();
  flags_ = Buffer<std::uint8_t>(context, slots / 8);
  if (size_.narrow())
    col16_ = Buffer<std::uint16_t>(context, slots);
  else
    col32_ = Buffer<std::int32_t>(context, slots);
  values_ = Buffer<T>(context, slots * size_.R * size_.C);
  first_row_ = Buffer<std::int32_t>(context, size_.tiles() + 1);
  entries_ = Buffer<std::uint8_t>(context, slots * bytes);
  if (size_.slices > 1) stacked_ = Buffer<T>(context, size_.stacked_rows() * size_.R);
  std::fill(flags_.begin(), flags_.end(), std::uint8_t{255});
  const FlaggedBlocks<T> a = row_view();
  const auto set = [&](std::int64_t slot, std::int64_t col) {
    if (size_.narrow())
      col16_[slot] = static_cast<std::uint16_t>(col);
    else
      col32_[slot] = static_cast<std::int32_t>(col);
  };
  // Padding, and the blocks of zeros; below, the blocks of block rows with entries are written again.
  parallel(useful_parts(*context, slots), [&](int part, int parts) {
    const Range range = even_range(slots, part, parts);
    std::fill(entries_.begin() + range.begin * bytes, entries_.begin() + range.end * bytes, std::uint8_t{0});
    for (int r = 0; r < size_.R; ++r)
      std::fill(values_.begin() + (r * slots + range.begin) * size_.C,
                values_.begin() + (r * slots + range.end) * size_.C, T(0));
    for (std::int64_t slot = range.begin; slot < range.end; ++slot) set(slot, 0);
  });
  for (std::int64_t j = 0; j < size_.stacked_rows(); ++j) {
    const std::int64_t first = plan.start[static_cast<std::size_t>(j)],
                       last = plan.start[static_cast<std::size_t>(j) + 1] - 1;
    flags_[last / 8] = static_cast<std::uint8_t>(flags_[last / 8] & ~(1 << (last % 8)));
    if (first == last) set(a.slot_of(first), size_.zero_col(j / block_rows));
  }
  for (std::int64_t t = 0, j = 0; t <= size_.tiles(); ++t) {
    while (j < size_.stacked_rows() && plan.start[static_cast<std::size_t>(j) + 1] <= t * size_.tile) ++j;
    first_row_[t] = static_cast<std::int32_t>(j);
  }
  parallel(static_cast<int>(plan.found.parts.size()), [&](int part, int) {
    const BlockPlan::Part& mine = plan.found.parts[static_cast<std::size_t>(part)];
    std::int64_t from = 0;
    for (std::int64_t i = plan.found.first_block_row[part]; i < plan.found.first_block_row[part + 1]; ++i) {
      std::int64_t slice = -1, k = 0;
      for (std::int64_t left = plan.found.block_ptr[i + 1] - plan.found.block_ptr[i]; left > 0;
           --left, ++from) {
        const std::int64_t col = mine.col[from];
        if (col / size_.slice_cols() != slice) {
          slice = col / size_.slice_cols();
          k = plan.start[static_cast<std::size_t>(slice * block_rows + i)];
        }
        const std::int64_t slot = a.slot_of(k++);
        set(slot, col);
        std::copy_n(mine.entries.get() + from * bytes, bytes, entries_.begin() + slot * bytes);
      }
    }
  });
  this->do_update_values(request.csr);
}

template <class T>
FlaggedBlocks<T> FlaggedMatrix<T>::row_view() const noexcept {
  return {values_.data(),
          col32_.empty() ? nullptr : col32_.data(),
          col16_.empty() ? nullptr : col16_.data(),
          flags_.data(),
          entries_.data(),
          first_row_.data(),
          size_,
          size_.slots()};
}

template <class T>
std::vector<LayoutArray> FlaggedMatrix<T>::layout() const {
  return {layout_array("flags", flags_),
          size_.narrow() ? layout_array("block_col", col16_) : layout_array("block_col", col32_),
          layout_array("values", values_), layout_array("first_row", first_row_),
          layout_array("entries", entries_)};
}

template <class T>
void FlaggedMatrix<T>::multiply_stacked(std::int64_t limit, T alpha, const T* x, T beta, T* y) const {
  const FlagProduct<T> work{row_view(), limit, alpha, x, beta, y};
  const std::int64_t tiles = size_.tiles();
  if (tiles == 0) return;
  const int parts = useful_parts(*this->context(), this->nonzeros() + this->rows());
  PartialSums<BlockRowCarry<T>> carries(parts);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(tiles, part, parts);
    if (range.size() == 0) return;
    if constexpr (sizeof(T) == 8)
      carries[part] = HWY_DYNAMIC_DISPATCH(flagged_f64)(work, range.begin, range.end);
    else
      carries[part] = HWY_DYNAMIC_DISPATCH(flagged_f32)(work, range.begin, range.end);
  });
  for (int part = 0; part < parts; ++part) {
    const BlockRowCarry<T>& carry = carries[part];
    if (carry.row < 0) continue;
    for (int r = 0; r < size_.R; ++r)
      if (carry.row * size_.R + r < limit) y[carry.row * size_.R + r] += alpha * carry.sum[r];
  }
}

template <class T>
void FlaggedMatrix<T>::multiply(T alpha, const T* x, T beta, T* y) const {
  if (size_.slices == 1) return multiply_stacked(this->rows(), alpha, x, beta, y);
  const std::scoped_lock lock(lock_);
  multiply_stacked(stacked_.size(), T(1), x, T(0), stacked_.data());
  const std::int64_t step = size_.block_rows() * size_.R;
  parallel(useful_parts(*this->context(), this->rows()), [&](int part, int parts) {
    const Range range = even_range(this->rows(), part, parts);
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      T sum = 0;
      for (std::int64_t s = 0; s < size_.slices; ++s) sum += stacked_[s * step + r];
      store(alpha, sum, beta, y[r]);
    }
  });
}

template class FlaggedMatrix<double>;
template class FlaggedMatrix<float>;

}  // namespace protean::formats
#endif  // HWY_ONCE
