// HYB: the first K entries of every row in ELLPACK, the rest as coordinates.
//
//        | 1 . 2 . |     K = 1   ell_col    = 0 1 0 0      coo_row    = 0 3 3
//    A = | . 3 . . |             ell_values = 1 3 0 4      coo_col    = 2 1 3
//        | . . . . |             empty_row  = 2            coo_values = 2 5 6
//        | 4 5 . 6 |
//
// Arrays:
//   ell_col     [K rows] int32, slot s of row r at s rows + r. A slot without an entry has the column of the
//               row's last entry (0 in a row without entries).
//   ell_values  [K rows], in the same places. A slot without an entry has the value 0.
//   empty_row   [rows without entries] int32: ascending; absent when K = 0.
//   coo_row     [m] int32, for entries K, K + 1, ... of every row, sorted by row and column.
//   coo_col     [m] int32.
//   coo_values  [m].
// Bytes: (v + 4) K rows + (v + 8) m + 4 empty rows, with v bytes a value.
// Parameters:
//   K           entries of each row in ELLPACK; at most cols are used. -1 takes the rule: the smallest K such
//               that fewer than a third of the rows, or fewer than break_even rows, have more than K entries.
//               The third is there because an entry in ELLPACK is taken to be three times as fast as one in
//               coordinates.
//   break_even  see K.
// Wins: when most rows have similar lengths and a few are long.
// Refuses: never.
// Source: N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented
//   processors, SC 2009, doi:10.1145/1654059.1654078.
//
// Padding never carries a NaN of x into a row that does not use it.

// Registers of unknown length do not fit the four lanes of row_dot; such machines take their 128-bit set.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/hybrid/hyb.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "formats/private/coo.hpp"
#include "formats/private/ordered-inl.hpp"
#include "formats/private/row_dot-inl.hpp"

#ifndef PROTEAN_FORMATS_HYB
#define PROTEAN_FORMATS_HYB
namespace protean::formats {
namespace {

template <class T>
struct EllWork {
  std::int64_t rows, slots;
  const std::int32_t* col;
  const T* values;
  const std::int32_t *empty, *empty_end;
  T alpha;
  const T* x;
  T beta;
  T* y;
};

// Rows that are summed together, slot by slot. The parts of the threads begin at multiples of it.
constexpr std::int64_t ell_block = 16;

}  // namespace
}  // namespace protean::formats
#endif

HWY_BEFORE_NAMESPACE();
namespace protean::formats::HWY_NAMESPACE {
namespace {

// Computes rows [begin, end). Returns their part of x . y when `with_dot`, else 0.
template <class T>
T ell_rows(const EllWork<T>& w, std::int64_t begin, std::int64_t end, bool with_dot) {
  const RowTag<T> d;
  constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(RowTag<T>()));
  constexpr int vectors = static_cast<int>(ell_block / lanes);
  const std::int32_t* empty = std::lower_bound(w.empty, w.empty_end, static_cast<std::int32_t>(begin));
  T dot = 0;
  for (std::int64_t first = begin; first < end; first += ell_block) {
    const std::int64_t count = std::min(ell_block, end - first);
    HWY_ALIGN T sums[ell_block] = {};
    if (count == ell_block) {
      hn::Vec<RowTag<T>> sum[vectors];
      for (auto& s : sum) s = hn::Zero(d);
      for (std::int64_t slot = 0; slot < w.slots; ++slot) {
        const T* values = w.values + slot * w.rows + first;
        const std::int32_t* col = w.col + slot * w.rows + first;
        hwy::Prefetch(values + 32 * ell_block);
        hwy::Prefetch(values + 33 * ell_block - 1);
        hwy::Prefetch(col + 32 * ell_block);
        for (int v = 0; v < vectors; ++v)
          sum[v] = hn::MulAdd(hn::LoadU(d, values + v * lanes), pick(w.x, col + v * lanes), sum[v]);
      }
      for (int v = 0; v < vectors; ++v) hn::Store(sum[v], d, sums + v * lanes);
    } else {
      for (std::int64_t slot = 0; slot < w.slots; ++slot)
        for (std::int64_t i = 0; i < count; ++i)
          sums[i] += w.values[slot * w.rows + first + i] * w.x[w.col[slot * w.rows + first + i]];
    }
    for (; empty < w.empty_end && *empty < first + count; ++empty) sums[*empty - first] = T(0);
    for (std::int64_t i = 0; i < count; ++i) {
      T& y = w.y[first + i];
      y = w.beta == T(0) ? w.alpha * sums[i] : w.alpha * sums[i] + w.beta * y;
    }
    if (with_dot)
      for (std::int64_t i = 0; i < count; ++i) dot += w.x[first + i] * sums[i];
  }
  return dot;
}

// Computes rows [begin, end), the coordinates included, in deterministic mode.
template <class T>
HWY_INLINE void hyb_rows(const EllWork<T>& w, const Triples<T>& tail, std::int64_t begin, std::int64_t end) {
  const std::int32_t* empty = std::lower_bound(w.empty, w.empty_end, static_cast<std::int32_t>(begin));
  std::int64_t k =
      std::lower_bound(tail.row, tail.row + tail.size, static_cast<std::int32_t>(begin)) - tail.row;
  for (std::int64_t first = begin; first < end; first += ell_block) {
    const std::int64_t count = std::min(ell_block, end - first);
    T sums[ell_block] = {};
    std::int32_t last[ell_block];
    std::fill_n(last, ell_block, -1);
    for (std::int64_t slot = 0; slot < w.slots; ++slot) {
      const T* values = w.values + slot * w.rows + first;
      const std::int32_t* col = w.col + slot * w.rows + first;
      for (std::int64_t i = 0; i < count; ++i) {
        if (col[i] <= last[i]) continue;  // padding repeats a column
        sums[i] = std::fma(values[i], w.x[col[i]], sums[i]);
        last[i] = col[i];
      }
    }
    for (; empty < w.empty_end && *empty < first + count; ++empty) sums[*empty - first] = T(0);
    for (std::int64_t i = 0; i < count; ++i) {
      for (; k < tail.size && tail.row[k] == first + i; ++k)
        sums[i] = std::fma(tail.values[k], w.x[tail.col[k]], sums[i]);
      store_ordered(w.alpha, sums[i], w.beta, w.y[first + i]);
    }
  }
}
void hyb_rows_f64(const EllWork<double>& w, const Triples<double>& tail, std::int64_t begin,
                  std::int64_t end) {
  hyb_rows(w, tail, begin, end);
}
void hyb_rows_f32(const EllWork<float>& w, const Triples<float>& tail, std::int64_t begin, std::int64_t end) {
  hyb_rows(w, tail, begin, end);
}

double ell_f64(const EllWork<double>& w, std::int64_t begin, std::int64_t end, bool with_dot) {
  return ell_rows(w, begin, end, with_dot);
}
float ell_f32(const EllWork<float>& w, std::int64_t begin, std::int64_t end, bool with_dot) {
  return ell_rows(w, begin, end, with_dot);
}

}  // namespace
}  // namespace protean::formats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace protean::formats {
namespace {

HWY_EXPORT(ell_f64);
HWY_EXPORT(ell_f32);
HWY_EXPORT(hyb_rows_f64);
HWY_EXPORT(hyb_rows_f32);

struct HybShape {
  std::int64_t slots = 0, tail = 0,
               empty = 0;  // K, entries in coordinates, rows without entries (0 when K = 0)
};

HybShape hyb_shape(const SparsityPattern& pattern, const FormatParams& params) {
  std::int64_t longest = 0, empty = 0;
  for (std::int64_t r = 0; r < pattern.rows; ++r) {
    longest = std::max(longest, pattern.row_length(r));
    empty += pattern.row_length(r) == 0;
  }
  std::vector<std::int64_t> with_length(static_cast<std::size_t>(longest) + 1, 0);
  for (std::int64_t r = 0; r < pattern.rows; ++r) ++with_length[pattern.row_length(r)];
  // longer = number of rows with more than K entries; entries = number of entries in the first K slots.
  const std::int64_t wanted = params.integer("K"), break_even = params.integer("break_even");
  std::int64_t slots = 0, longer = pattern.rows - with_length[0], entries = 0;
  const auto enough = [&] {
    if (wanted >= 0) return slots == std::min(wanted, longest);
    return longer == 0 || 3 * longer < pattern.rows || longer < break_even;
  };
  while (!enough()) {
    entries += longer;
    longer -= with_length[++slots];
  }
  slots = std::max(slots, std::min(wanted, pattern.cols));
  return {slots, pattern.nonzeros - entries, slots == 0 ? 0 : empty};
}

template <class T>
class Hyb final : public AssembledMatrix<T>, public HasApplyDot<T>, public HasLayout {
 public:
  explicit Hyb(const BuildRequest<T>& request)
      : AssembledMatrix<T>(request), shape_(plan_of<HybShape>(request.admission)) {
    const ContextPtr& context = request.context;
    const SparsityPattern& pattern = request.csr.pattern;
    const std::int64_t rows = pattern.rows;
    ell_col_ = Buffer<std::int32_t>(context, shape_.slots * rows);
    ell_values_ = Buffer<T>(context, shape_.slots * rows);
    empty_row_ = Buffer<std::int32_t>(context, shape_.empty);
    coo_row_ = Buffer<std::int32_t>(context, shape_.tail);
    coo_col_ = Buffer<std::int32_t>(context, shape_.tail);
    coo_values_ = Buffer<T>(context, shape_.tail);
    for (std::int64_t r = 0, at = 0; r < rows && shape_.empty > 0; ++r)
      if (pattern.row_length(r) == 0) empty_row_[at++] = static_cast<std::int32_t>(r);
    each_row(pattern, [&](std::int64_t r, std::int64_t begin, std::int64_t end, std::int64_t tail) {
      for (std::int64_t slot = 0; slot < shape_.slots; ++slot)
        ell_col_[slot * rows + r] = begin == end ? 0 : pattern.col[std::min(begin + slot, end - 1)];
      for (std::int64_t k = begin + shape_.slots; k < end; ++k, ++tail)
        coo_row_[tail] = static_cast<std::int32_t>(r), coo_col_[tail] = pattern.col[k];
    });
    set_values(request.csr);
  }

  CsrMatrix<T> to_csr() const override {
    const std::int64_t rows = this->rows(), size = this->nonzeros();
    CsrBuilder<T> builder(this->context(), rows, this->cols(), size);
    std::int64_t k = 0, tail = 0;
    const std::int32_t* empty = empty_row_.begin();
    for (std::int64_t r = 0; r < rows; ++r) {
      const bool none = empty != empty_row_.end() && *empty == r;
      if (none) ++empty;
      for (std::int64_t slot = 0; slot < shape_.slots && !none; ++slot) {
        const std::int64_t at = slot * rows + r;
        if (slot > 0 && ell_col_[at] == ell_col_[at - rows]) break;
        builder.col()[k] = ell_col_[at], builder.values()[k++] = ell_values_[at];
      }
      for (; tail < shape_.tail && coo_row_[tail] == r; ++tail)
        builder.col()[k] = coo_col_[tail], builder.values()[k++] = coo_values_[tail];
      builder.set_row_ptr(r + 1, k);
    }
    return builder.freeze();
  }
  std::size_t bytes() const noexcept override {
    return ell_col_.bytes() + ell_values_.bytes() + empty_row_.bytes() + coo_row_.bytes() + coo_col_.bytes() +
           coo_values_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("ell_col", ell_col_),     layout_array("ell_values", ell_values_),
            layout_array("empty_row", empty_row_), layout_array("coo_row", coo_row_),
            layout_array("coo_col", coo_col_),     layout_array("coo_values", coo_values_)};
  }
  void diagonal(VectorView<T> d) const override {
    const std::int64_t rows = this->rows();
    parallel(useful_parts(*this->context(), shape_.slots * rows), [&](int part, int parts) {
      const Range range = even_range(d.size, part, parts);
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        d.data[r] = T(0);
        // Padding repeats the column of the last entry, so the first slot of a column is the entry.
        for (std::int64_t slot = 0; slot < shape_.slots && ell_col_[slot * rows + r] <= r; ++slot)
          if (ell_col_[slot * rows + r] == r) {
            d.data[r] = ell_values_[slot * rows + r];
            break;
          }
      }
    });
    for (std::int64_t k = 0; k < shape_.tail; ++k)
      if (coo_row_[k] == coo_col_[k]) d.data[coo_row_[k]] = coo_values_[k];
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = multiply(T(1), x.data, T(0), y.data, true);
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override { set_values(csr); }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    multiply(alpha, x.data, beta, y.data, false);
  }

 private:
  // Calls body(row, first entry, end of entries, place of the row's first entry in the coordinates) for all
  // rows.
  template <class Body>
  void each_row(const SparsityPattern& pattern, Body body) {
    const auto borders =
        balanced_row_borders(pattern, useful_parts(*this->context(), pattern.nonzeros + pattern.rows));
    const int parts = static_cast<int>(borders.size()) - 1;
    std::vector<std::int64_t> before(static_cast<std::size_t>(parts) + 1, 0);
    parallel(parts, [&](int part, int) {
      std::int64_t count = 0;
      for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r)
        count += std::max<std::int64_t>(0, pattern.row_length(r) - shape_.slots);
      before[part + 1] = count;
    });
    for (int part = 0; part < parts; ++part) before[part + 1] += before[part];
    pattern.row_ptr.visit([&](auto* row_ptr) {
      parallel(parts, [&](int part, int) {
        std::int64_t tail = before[part];
        for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) {
          const std::int64_t begin = row_ptr[r], end = row_ptr[r + 1];
          body(r, begin, end, tail);
          tail += std::max<std::int64_t>(0, end - begin - shape_.slots);
        }
      });
    });
  }

  void set_values(const CsrMatrix<T>& csr) {
    const std::int64_t rows = csr.rows();
    each_row(csr.pattern, [&](std::int64_t r, std::int64_t begin, std::int64_t end, std::int64_t tail) {
      for (std::int64_t slot = 0; slot < shape_.slots; ++slot)
        ell_values_[slot * rows + r] = begin + slot < end ? csr.values[begin + slot] : T(0);
      for (std::int64_t k = begin + shape_.slots; k < end; ++k) coo_values_[tail++] = csr.values[k];
    });
  }

  T multiply(T alpha, const T* x, T beta, T* y, bool with_dot) const {
    const EllWork<T> ell{this->rows(),
                         shape_.slots,
                         ell_col_.data(),
                         ell_values_.data(),
                         empty_row_.begin(),
                         empty_row_.end(),
                         alpha,
                         x,
                         beta,
                         y};
    const Triples<T> tail{shape_.tail, coo_row_.data(), coo_col_.data(), coo_values_.data()};
    const int parts = useful_parts(*this->context(), (shape_.slots + 1) * this->rows());
    if (this->context()->deterministic()) {
      parallel(parts, [&](int part, int) {
        const Range range = even_range(this->rows(), part, parts, ell_block);
        if constexpr (sizeof(T) == 8)
          HWY_DYNAMIC_DISPATCH(hyb_rows_f64)(ell, tail, range.begin, range.end);
        else
          HWY_DYNAMIC_DISPATCH(hyb_rows_f32)(ell, tail, range.begin, range.end);
      });
      return T(0);
    }
    PartialSums<T> dots(parts);
    parallel(parts, [&](int part, int) {
      const Range range = even_range(this->rows(), part, parts, ell_block);
      if constexpr (sizeof(T) == 8)
        dots[part] = HWY_DYNAMIC_DISPATCH(ell_f64)(ell, range.begin, range.end, with_dot);
      else
        dots[part] = HWY_DYNAMIC_DISPATCH(ell_f32)(ell, range.begin, range.end, with_dot);
    });
    return dots.total() + add_triples<T>(*this->context(), tail, alpha, x, y, with_dot);
  }

  HybShape shape_;
  Buffer<std::int32_t> ell_col_;
  Buffer<T> ell_values_;
  Buffer<std::int32_t> empty_row_, coo_row_, coo_col_;
  Buffer<T> coo_values_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const HybShape shape = hyb_shape(pattern, params);
  const std::size_t ell = static_cast<std::size_t>(shape.slots) * pattern.rows, tail = shape.tail;
  if (ell > std::numeric_limits<std::int64_t>::max() / 32)
    return Admission::refuse("K times the number of rows is larger than any memory; take a smaller K");
  Admission admission = Admission::accept(
      ell * (value_bytes + 4) + tail * (value_bytes + 8) + 4 * static_cast<std::size_t>(shape.empty),
      static_cast<std::int64_t>(ell + tail));
  keep_plan(admission, std::make_shared<const HybShape>(shape));
  return admission;
}

constexpr ParamDoc params[] = {{.name = "K",
                                .doc = "entries of each row in the ELLPACK part; -1 takes the one-third rule",
                                .default_value = "-1",
                                .smallest = -1,
                                .largest = std::numeric_limits<std::int32_t>::max()},
                               {.name = "break_even",
                                .doc = "the rule also stops growing K when fewer rows than this are longer; "
                                       "Bell and Garland took 4096 on a GPU",
                                .default_value = "0",
                                .smallest = 0,
                                .largest = std::numeric_limits<std::int32_t>::max()}};

constexpr Kernel kernels[] = {native_host_kernel<Hyb>(Sums::ordered)};

}  // namespace

namespace device_code {
extern const DeviceCode hyb;  // hyb.cu
}

extern const FormatEntry hyb;
constinit const FormatEntry hyb{.family = "hybrid",
                                .id = "hyb",
                                .title = "ELLPACK for the first K entries of a row, coordinates for the rest",
                                .source =
                                    "Bell and Garland, Implementing sparse matrix-vector multiplication on "
                                    "throughput-oriented processors, SC 2009",
                                .traits = {},
                                .params = params,
                                .kernels = kernels,
                                .admit = admit,
                                .device = PROTEAN_DEVICE_CODE(hyb)};

}  // namespace protean::formats
#endif  // HWY_ONCE
