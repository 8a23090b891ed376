// BDIA, banded diagonals: whole diagonals; neighbouring diagonals form a band, which has one offset.
//
//        | 1 . 2 . |     band_off = -1 2                            (. is a stored 0)
//    A = | 3 4 . 5 |     band_ptr = 0 2 3
//        | . 6 7 . |     values   = . 3 6 . | 1 4 7 8 | 2 5 . .
//        | . . . 8 |     entries  =    6    |    15   |    3
//
// Arrays:
//   band_off  [bands] int32: column - row of each band's first diagonal, ascending.
//   band_ptr  [bands + 1] int64: diagonals before each band. Diagonal d of a band has the offset band_off + d.
//   values    [rows diagonals]: a(r, r + offset) lies at d rows + r; 0 if there is no entry or no such column.
//   entries   [ceil(rows / 8) diagonals] uint8: bit r % 8 of byte r / 8 of diagonal d is 1 if its value r
//             is an entry. It distinguishes stored zeros from fill. Products do not read it, except in
//             deterministic mode.
// Bytes: diagonals (v rows + ceil(rows / 8)) + 4 bands + 8 (bands + 1), with v bytes a value.
// Parameters:
//   max_fill  the most stored values per entry.
// Wins: when diagonals lie side by side. On a GPU a warp keeps the part of x that a wide band needs in registers: it
//   loads 32 elements for 32 diagonals, and its lanes exchange them.
// Refuses: when rows diagonals > max_fill nonzeros.
// Source: B.-Y. Su, K. Keutzer, clSpMV: a cross-platform OpenCL SpMV framework on GPUs, ICS 2012,
//   doi:10.1145/2304576.2304624. The authors keep x in local memory.
//
// A NaN or infinity in x also reaches rows whose diagonal has no entry there, because 0 times it is NaN. In
// deterministic mode it reaches only rows with an entry there.
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

struct BandPlan {
  std::int64_t diagonals;
  Bands bands;
};

template <class T>
class Bdia final : public LineMatrix<T, Bdia<T>> {
 public:
  explicit Bdia(const BuildRequest<T>& request) : Bdia(request, plan_of<BandPlan>(request.admission)) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + off_.bytes() + ptr_.bytes(); }
  std::vector<LayoutArray> layout() const override {
    return {layout_array("band_off", off_), layout_array("band_ptr", ptr_),
            layout_array("values", this->values_), layout_array("entries", this->entries_)};
  }
  BandView<T> row_view() const noexcept {
    BandView<T> view{};
    view.values = this->values_.data(), view.entries = this->entries_.data();
    view.rows = this->rows(), view.cols = this->cols();
    view.height = this->rows(), view.hacks = 1, view.bit_bytes = (this->rows() + 7) / 8;
    view.band_off = off_.data(), view.band_ptr = ptr_.data(), view.bands = off_.size();
    return view;
  }

 private:
  Bdia(const BuildRequest<T>& request, const BandPlan& plan)
      : LineMatrix<T, Bdia<T>>(request, request.csr.rows() * plan.diagonals,
                               (request.csr.rows() + 7) / 8 * plan.diagonals),
        off_(request.context, plan.bands.count()),
        ptr_(request.context, plan.bands.count() + 1) {
    std::copy(plan.bands.off.begin(), plan.bands.off.end(), off_.begin());
    std::copy(plan.bands.ptr.begin(), plan.bands.ptr.end(), ptr_.begin());
    this->set_borders(1, 0, [](std::int64_t) { return 0; });
    this->fill(request.csr);
  }
  Buffer<std::int32_t> off_;
  Buffer<std::int64_t> ptr_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const Diagonals where = find_diagonals(context, pattern, pattern.rows);
  auto plan = std::make_shared<BandPlan>(BandPlan{where.count(), {}});
  plan->bands.add(where.off.data(), where.off.data() + where.off.size());
  Admission admission = admit_bands(where.count(), plan->bands.count(), pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {{.name = "max_fill",
                                .doc = "the format refuses more stored values per entry than this",
                                .default_value = "4",
                                .smallest = 1,
                                .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Bdia>(Sums::ordered)};

}  // namespace

constinit const FormatEntry entries::bdia{.family = "diagonal",
                                          .id = "bdia",
                                          .title = "Banded diagonals",
                                          .source = "Su, Keutzer, ICS 2012",
                                          .traits = {.needs_alike_rows = true},
                                          .params = params,
                                          .kernels = kernels,
                                          .admit = admit,
                                          .device = &device_code::bdia};

}  // namespace protean::formats
