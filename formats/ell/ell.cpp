// ELLPACK: every row padded to the length of the longest, stored column by column.
//
//        | 1 . 2 . |     align = 1: ld = 4, width = 3
//    A = | . 3 . . |     col    = 0 1 0 0 | 2 1 0 1 | 2 1 0 3
//        | . . . . |     values = 1 3 . 4 | 2 . . 5 | . . . 6        (. is a stored 0)
//        | 4 5 . 6 |     empty  = 2
//
// Arrays:
//   col     [ld width] int32: slot k of row r at k ld + r; ld = rows rounded up to a multiple of align, width
//           = length of the longest row. Entries come first, columns ascending. Padding repeats the row's
//           last column (0 in rows without entries and past the last row), so the first column that does not
//           ascend ends a row.
//   values  [ld width]: 0 where padded.
//   empty   [rows without entries] int32, ascending: these rows give 0, whatever x[0] is.
// Bytes: (v + 4) ld width + 4 empty rows, with v bytes a value.
// Parameters:
//   align     ld is a multiple of it. With 8, every column of values begins on a cache line.
//   max_fill  the most slots an entry.
// Wins: on small matrices with rows of equal length (stencils). A large one is read through 2 width streams
//   at once, where sell-c-sigma reads two.
// Refuses: when ld width > max_fill nonzeros: one long row pads all the others.
// Source: R. G. Grimes, D. R. Kincaid, D. M. Young, ITPACK 2.0 user's guide, CNA-150, University of Texas,
//   1979; N. Bell, M. Garland, Implementing sparse matrix-vector multiplication on throughput-oriented
//   processors, SC 2009, doi:10.1145/1654059.1654078.
//
// A NaN in x reaches only rows that use it. An infinite x_j gives NaN in a padded row whose last column is j.
#include "formats/ell/ell.hpp"
#include "formats/ell/slots.hpp"
#include "formats/private/library_kernels.hpp"

namespace protean::formats {
namespace {

struct Columns {
  static constexpr SlotOrder order = SlotOrder::ell;
  std::int64_t ld, longest;

  std::int64_t slots() const { return ld * longest; }
  const std::int64_t* pointers() const { return nullptr; }
  std::int64_t stride() const { return ld; }
  std::int64_t width() const { return longest; }
  SlotRow at(std::int64_t p) const { return {p, ld, longest}; }
  std::vector<std::int64_t> borders(int parts) const {
    std::vector<std::int64_t> result(static_cast<std::size_t>(parts) + 1);
    for (int part = 0; part < parts; ++part) result[part + 1] = even_range(ld, part, parts, 64).end;
    return result;
  }
};

template <class T>
class Ell final : public SlotMatrix<T, Columns>, public HasArrayView<SlotView<T>> {
 public:
  explicit Ell(const BuildRequest<T>& request)
      : SlotMatrix<T, Columns>(request,
                               {column_length(request.csr.pattern, request.params),
                                row_lengths(*request.context, request.csr.pattern).longest},
                               {}) {}

  std::size_t bytes() const noexcept override { return this->slot_bytes(); }
  SlotView<T> array_view() const noexcept override { return this->slot_view(this->geometry_.ld); }

  std::vector<LayoutArray> layout() const override {
    return {layout_array("col", this->col_), layout_array("values", this->values_),
            layout_array("empty", this->empty_)};
  }
};

}  // namespace

Admission admit_columns(const SparsityPattern& pattern, std::int64_t longest, std::int64_t empty_rows,
                        const FormatParams& params, std::size_t value_bytes) {
  const std::int64_t slots = column_length(pattern, params) * longest;
  const std::size_t bytes =
      static_cast<std::size_t>(slots) * (value_bytes + 4) + static_cast<std::size_t>(4 * empty_rows);
  if (auto reason = too_much_fill(slots, pattern.nonzeros, params.integer("max_fill"), bytes);
      !reason.empty())
    return Admission::refuse(std::move(reason), bytes, slots);
  return Admission::accept(bytes, slots);
}

namespace {

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const RowLengths lengths = row_lengths(context, pattern);
  return admit_columns(pattern, lengths.longest, lengths.empty, params, value_bytes);
}

constexpr ParamDoc params[] = {{.name = "align",
                                .doc = "the length of a stored column is a multiple of this",
                                .default_value = "8",
                                .smallest = 1,
                                .largest = 1024},
                               {.name = "max_fill",
                                .doc = "stored values an entry above which the format refuses",
                                .default_value = "4",
                                .smallest = 1,
                                .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Ell>(Sums::ordered), PROTEAN_KOKKOS_KERNEL(ell)};

}  // namespace

namespace device_code {
extern const DeviceCode ell;
}

extern const FormatEntry ell;
constinit const FormatEntry ell{
    .family = "ell",
    .id = "ell",
    .title = "ELLPACK",
    .source = "Grimes, Kincaid, Young, ITPACK 2.0 user's guide, 1979; Bell, Garland, SC 2009",
    .traits = {.grows_with_longest = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = PROTEAN_DEVICE_CODE(ell)};

}  // namespace protean::formats
