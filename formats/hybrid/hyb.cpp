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

// The product is that of ell for the slots (formats/engines/slot_product.hpp) and that of coo for the coordinates, which adds to it. In
// deterministic mode the sum of a row goes on from its slots to its coordinates before it is written.
#include "formats/hybrid/hyb.hpp"

#include <limits>

#include "formats/engines/row_view.hpp"
#include "formats/engines/slot_product.hpp"
#include "formats/private/coo.hpp"

namespace protean::formats {
namespace {

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
class Hyb final : public RowViewMatrix<T, Hyb<T>>, public HasApplyDot<T> {
 public:
  explicit Hyb(const BuildRequest<T>& request)
      : RowViewMatrix<T, Hyb<T>>(request),
        shape_(plan_of<HybShape>(request.admission)),
        ell_size_(shape_.slots * this->rows()),
        col_(request.context, ell_size_ + shape_.tail),
        values_(request.context, ell_size_ + shape_.tail),
        empty_row_(request.context, shape_.empty),
        coo_row_(request.context, shape_.tail) {
    const SparsityPattern& pattern = request.csr.pattern;
    const std::int64_t rows = this->rows();
    borders_ = {0};
    const int product_parts = useful_parts(*request.context, ell_size_ + rows);
    for (int part = 0; part < product_parts; ++part)
      borders_.push_back(even_range(rows, part, product_parts, 64).end);
    for (std::int64_t r = 0, at = 0; r < rows && shape_.empty > 0; ++r)
      if (pattern.row_length(r) == 0) empty_row_[at++] = static_cast<std::int32_t>(r);
    // The place of each part's first coordinate.
    const auto borders =
        balanced_row_borders(pattern, useful_parts(*request.context, pattern.nonzeros + rows));
    const int parts = static_cast<int>(borders.size()) - 1;
    std::vector<std::int64_t> before(static_cast<std::size_t>(parts) + 1, 0);
    const auto longer = [&](std::int64_t r) {
      return std::max<std::int64_t>(0, pattern.row_length(r) - shape_.slots);
    };
    parallel(parts, [&](int part, int) {
      for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) before[part + 1] += longer(r);
    });
    for (int part = 0; part < parts; ++part) before[part + 1] += before[part];
    parallel(parts, [&](int part, int) {
      std::int64_t to = before[part];
      for (std::int64_t r = borders[part]; r < borders[part + 1]; ++r) {
        const std::int64_t begin = pattern.row_ptr[r], end = pattern.row_ptr[r + 1];
        for (std::int64_t slot = 0; slot < shape_.slots; ++slot) {
          col_[slot * rows + r] = begin == end ? 0 : pattern.col[std::min(begin + slot, end - 1)];
          if (begin + slot >= end) values_[slot * rows + r] = T(0);
        }
        for (std::int64_t k = begin + shape_.slots; k < end; ++k, ++to)
          coo_row_[to] = static_cast<std::int32_t>(r), col_[ell_size_ + to] = pattern.col[k];
      }
    });
    do_update_values(request.csr);
  }

  std::size_t bytes() const noexcept override {
    return col_.bytes() + values_.bytes() + empty_row_.bytes() + coo_row_.bytes();
  }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("ell_col", col_.data(), ell_size_),
            layout_array("ell_values", values_.data(), ell_size_),
            layout_array("empty_row", empty_row_),
            layout_array("coo_row", coo_row_),
            layout_array("coo_col", col_.data() + ell_size_, shape_.tail),
            layout_array("coo_values", values_.data() + ell_size_, shape_.tail)};
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    *result = run(T(1), x.data, T(0), y.data, true);
  }
  HybView<T> row_view() const {
    return {this->rows(),    shape_.slots,       shape_.tail,      col_.data(),
            coo_row_.data(), empty_row_.begin(), empty_row_.end(), values_.data()};
  }
  T* mutable_values() { return values_.data(); }
  void multiply(T alpha, const T* x, T beta, T* y) const { run(alpha, x, beta, y, false); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    parallel(static_cast<int>(borders_.size()) - 1, [&](int part, int) {
      const auto first = static_cast<std::int32_t>(borders_[part]);
      std::int64_t to =
          ell_size_ + (std::lower_bound(coo_row_.begin(), coo_row_.end(), first) - coo_row_.begin());
      for (std::int64_t r = borders_[part]; r < borders_[part + 1]; ++r) {
        const std::int64_t begin = csr.pattern.row_ptr[r], end = csr.pattern.row_ptr[r + 1];
        for (std::int64_t k = begin; k < std::min(end, begin + shape_.slots); ++k)
          values_[(k - begin) * this->rows() + r] = csr.values[k];
        for (std::int64_t k = begin + shape_.slots; k < end; ++k) values_[to++] = csr.values[k];
      }
    });
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    run(alpha, x.data, beta, y.data, false);
  }

 private:
  T run(T alpha, const T* x, T beta, T* y, bool with_dot) const {
    const Triples<T> tail{shape_.tail, coo_row_.data(), col_.data() + ell_size_, values_.data() + ell_size_};
    SlotProduct<T> slots{};
    slots.order = SlotOrder::ell, slots.values = values_.data(), slots.col = col_.data();
    slots.stride = slots.rows = this->rows(), slots.width = shape_.slots;
    slots.empty = {empty_row_.begin(), empty_row_.end()};
    slots.alpha = alpha, slots.beta = beta, slots.x = x, slots.y = y, slots.with_dot = with_dot;
    slots.ordered = this->context()->deterministic();
    if (slots.ordered) slots.tail = tail;
    const T dot = run_slot_product(slots, borders_);
    return slots.ordered ? T(0) : dot + add_triples<T>(*this->context(), tail, alpha, x, y, with_dot);
  }

  HybShape shape_;
  std::int64_t ell_size_;
  std::vector<std::int64_t> borders_;  // rows of the threads
  Buffer<std::int32_t> col_;           // ell_col, then coo_col
  Buffer<T> values_;                   // ell_values, then coo_values
  Buffer<std::int32_t> empty_row_, coo_row_;
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
