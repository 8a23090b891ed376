// SELL-C-sigma: rows sorted by length inside windows of sigma rows, cut into slices of C rows, each slice as
// wide as its longest row; a SIMD lane computes a row.
//
//        | 1 . 2 . |     C = 2, sigma = 4:  lengths 2 1 0 3
//    A = | . 3 . . |     perm      = 3 0 1 2
//        | . . . . |     slice_ptr = 0 6 8
//        | 4 5 . 6 |     col       = 0 0  1 2  3 2 | 1 0
//                        values    = 4 1  5 2  6 . | 3 .        (. is a stored 0)
//                        empty     = 3
//
// Arrays:
//   slice_ptr  [slices + 1] int64: number of slots before each slice; slices = ceil(rows / C). Slice s is
//              (slice_ptr[s + 1] - slice_ptr[s]) / C slots wide.
//   col        [slots] int32: slot k of lane i of slice s at slice_ptr[s] + k C + i. Entries come first,
//              columns ascending. Padding repeats the row's last column (0 in rows without entries and past
//              the last row), so the first column that does not ascend ends a row.
//   values     [slots]: 0 where padded. The last slice is padded to C rows.
//   perm       [rows] int32, only when sigma > 1: the row at each position; stable, longest first inside a
//              window.
//   empty      [rows without entries] int32: their positions, ascending. They give 0, whatever x[0] is.
// Bytes: (v + 4) slots + 8 (slices + 1) + 4 rows [sigma > 1] + 4 empty rows, with v bytes a value.
// Parameters:
//   C         rows in a slice. 0 takes 8 on the host, where 8 doubles fill the widest SIMD register of
//             today's processors, and 32 (a warp) on the device.
//   sigma     rows in a window, a multiple of C. 1 keeps the order of the rows, and so neighbouring columns
//             together, which stencils need. 0 takes 1 when that stores at most 1.15 slots an entry, else
//             512.
//   round     the width of a slice is a multiple of it.
//   max_fill  the most slots an entry.
//   threads   of the native device kernel: threads a row, in different warps of a block; 0 takes 1, or more where the
//             rows are too few to fill the device.
// Wins: on rows of similar length.
// Refuses: when slots > max_fill nonzeros, or when sigma is not a multiple of C.
// Source: M. Kreutzer, G. Hager, G. Wellein, H. Fehske, A. R. Bishop, A unified sparse matrix data format for
//   efficient general sparse matrix-vector multiplication on modern processors with wide SIMD units, SIAM J.
//   Sci. Comput. 36(5), C401-C423, 2014, doi:10.1137/130930352.
//
// A NaN in x reaches only rows that use it. An infinite x_j gives NaN in a padded row whose last column is j.
#include "formats/ell/sell_c_sigma.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formats/ell/slots.hpp"
#include "formats/engines/row_order.hpp"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

constexpr std::int64_t usual_height = 8;

// Calls slice(s, width) for every slice, in parallel over windows. Where rows are sorted, sigma > 1, their order is
// written to perm.
template <class Slice>
void for_slices(const Context& context, const SparsityPattern& pattern, std::int64_t C, std::int64_t sigma,
                std::int32_t* perm, Slice slice) {
  const std::int64_t window = sigma > 1 ? sigma : C;
  const std::int64_t windows = (pattern.rows + window - 1) / window;
  const int parts = useful_parts(context, pattern.rows);
  parallel(parts, [&](int part, int) {
    const Range range = even_range(windows, part, parts);
    std::vector<std::int64_t> scratch;
    for (std::int64_t w = range.begin; w < range.end; ++w) {
      const std::int64_t first = w * window, count = std::min(window, pattern.rows - first);
      std::int32_t* const order = sigma > 1 ? perm + first : nullptr;
      if (sigma > 1) sort_window(pattern, first, count, order, scratch);
      for (std::int64_t i = 0; i < count; i += C) {
        std::int64_t width = 0;
        if (sigma > 1)
          width = pattern.row_length(order[i]);
        else
          for (std::int64_t r = first; r < first + count; ++r) width = std::max(width, pattern.row_length(r));
        slice((first + i) / C, width, part);
      }
    }
  });
}

// What admit() finds out and the maker uses: the borders of the slices and the order of the rows, which is empty
// where rows keep theirs. Rows are sorted once.
struct SlicePlan {
  SliceShape shape;
  std::vector<std::int64_t> slice_ptr;
  std::vector<std::int32_t> perm;
};

SlicePlan plan_slices(const Context& context, const SparsityPattern& pattern, std::int64_t C,
                      std::int64_t sigma, std::int64_t round) {
  const std::int64_t slices = (pattern.rows + C - 1) / C;
  SlicePlan plan{{C, sigma, 0}, {}, {}};
  plan.slice_ptr.resize(static_cast<std::size_t>(slices) + 1);
  plan.perm.resize(sigma > 1 ? static_cast<std::size_t>(pattern.rows) : 0);
  std::int64_t* const ptr = plan.slice_ptr.data();
  for_slices(context, pattern, C, sigma, plan.perm.empty() ? nullptr : plan.perm.data(),
             [&](std::int64_t s, std::int64_t width, int) {
               ptr[s + 1] = C * ((width + round - 1) / round * round);
             });
  for (std::int64_t s = 0; s < slices; ++s) ptr[s + 1] += ptr[s];
  plan.shape.slots = ptr[slices];
  return plan;
}

// The plan for the parameters, with sigma = 0 replaced by the value that it takes for this matrix.
SlicePlan plan_for(const Context& context, const SparsityPattern& pattern, const FormatParams& params) {
  const std::int64_t C = slice_height(params, usual_height), sigma = params.integer("sigma"),
                     round = params.integer("round");
  if (sigma > 1 && sigma % C != 0) return {{C, sigma, 0}, {}, {}};  // refused by admit_slices()
  if (sigma != 0) return plan_slices(context, pattern, C, sigma, round);
  SlicePlan unsorted = plan_slices(context, pattern, C, 1, round);
  if (pays_unsorted(unsorted.shape.slots, pattern.nonzeros)) return unsorted;
  SlicePlan sorted = plan_slices(context, pattern, C, sorted_window, round);
  return sorted.shape.slots < unsorted.shape.slots ? sorted : unsorted;
}

struct Slices {
  static constexpr SlotOrder order = SlotOrder::sliced;
  std::int64_t C, rows;
  Buffer<std::int64_t> slice_ptr;

  std::int64_t slots() const { return slice_ptr[slice_ptr.size() - 1]; }
  const std::int64_t* pointers() const { return slice_ptr.data(); }
  std::int64_t stride() const { return C; }
  std::int64_t width() const { return 0; }
  SlotRow at(std::int64_t p) const {
    const std::int64_t first = slice_ptr[p / C];
    return {first + p % C, C, (slice_ptr[p / C + 1] - first) / C};
  }
  // Borders of parts, at slices, so that all parts have nearly the same number of slots and rows.
  std::vector<std::int64_t> borders(int parts) const {
    const std::int64_t slices = slice_ptr.size() - 1, total = slots() + slices * C;
    std::vector<std::int64_t> result(static_cast<std::size_t>(parts) + 1, slices * C);
    const std::int64_t* const p = slice_ptr.data();
    for (int part = 0; part < parts; ++part) {
      const std::int64_t share = total / parts * part;
      const std::int64_t* slice = std::partition_point(
          p, p + slices, [&](const std::int64_t& first) { return first + (&first - p) * C < share; });
      result[part] = (slice - p) * C;
    }
    return result;
  }
};

template <class N>
Buffer<N> buffer_of(const ContextPtr& context, const std::vector<N>& from) {
  Buffer<N> to(context, static_cast<std::int64_t>(from.size()));
  copy_array(*context, from.data(), to.size(), to.data());
  return to;
}

template <class T>
class SellCSigma final : public SlotMatrix<T, Slices>, public HasArrayView<SlotView<T>> {
 public:
  explicit SellCSigma(const BuildRequest<T>& request)
      : SellCSigma(request, plan_of<SlicePlan>(request.admission)) {}

  std::size_t bytes() const noexcept override {
    return this->slot_bytes() + this->geometry_.slice_ptr.bytes();
  }

  SlotView<T> array_view() const noexcept override {
    return this->slot_view((this->geometry_.slice_ptr.size() - 1) * this->geometry_.C);
  }

  std::vector<LayoutArray> layout() const override {
    return {layout_array("slice_ptr", this->geometry_.slice_ptr), layout_array("col", this->col_),
            layout_array("values", this->values_), layout_array("perm", this->perm_),
            layout_array("empty", this->empty_)};
  }

 private:
  SellCSigma(const BuildRequest<T>& request, const SlicePlan& plan)
      : SlotMatrix<T, Slices>(request,
                              {plan.shape.C, request.csr.rows(), buffer_of(request.context, plan.slice_ptr)},
                              buffer_of(request.context, plan.perm)) {}
};

}  // namespace

Admission admit_slices(const SliceShape& shape, const SparsityPattern& pattern, std::int64_t empty_rows,
                       const FormatParams& params, std::size_t value_bytes) {
  if (shape.sigma > 1 && shape.sigma % shape.C != 0)
    return Admission::refuse(fmt::format("sigma = {} is not a multiple of C = {}; slices would cross windows",
                                         shape.sigma, shape.C));
  const std::int64_t slices = (pattern.rows + shape.C - 1) / shape.C;
  const std::size_t bytes =
      static_cast<std::size_t>(shape.slots) * (value_bytes + 4) +
      static_cast<std::size_t>(8 * (slices + 1) + (shape.sigma > 1 ? 4 * pattern.rows : 0) + 4 * empty_rows);
  if (auto reason = too_much_fill(shape.slots, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, shape.slots);
  return Admission::accept(bytes, shape.slots);
}

namespace {

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  SlicePlan plan = plan_for(context, pattern, params);
  Admission admission =
      admit_slices(plan.shape, pattern, row_lengths(context, pattern).empty, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::make_shared<const SlicePlan>(std::move(plan)));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "C",
     .doc = "rows in a slice; 0 is 8 on the host and 32 on the device",
     .default_value = "0",
     .choices = "0|1|2|4|8|16|32|64"},
    {.name = "sigma",
     .doc =
         "rows in a window sorted by length, a multiple of C; 1 keeps the order; 0 sorts only when that pays",
     .default_value = "0",
     .smallest = 0,
     .largest = std::int64_t{1} << 30},
    {.name = "round",
     .doc = "widths of slices are multiples of it",
     .default_value = "1",
     .choices = "1|2|4|8|16|32"},
    {.name = "max_fill",
     .doc = "stored values an entry above which the format refuses",
     .default_value = "4",
     .smallest = 1,
     .largest = 1'000'000}};

constexpr Kernel kernels[] = {native_host_kernel<SellCSigma>(Sums::ordered),
                              PROTEAN_KOKKOS_KERNEL(sell_c_sigma)};

}  // namespace

namespace device_code {
extern const DeviceCode sell_c_sigma;
}

extern const FormatEntry sell_c_sigma;
constinit const FormatEntry sell_c_sigma{
    .family = "ell",
    .id = "sell-c-sigma",
    .title = "Sliced ELLPACK, rows sorted in windows",
    .source = "Kreutzer, Hager, Wellein, Fehske, Bishop, SIAM J. Sci. Comput. 36(5), 2014",
    .traits = {.grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = PROTEAN_DEVICE_CODE(sell_c_sigma)};

}  // namespace protean::formats
