// DIA: whole diagonals, without any column index.
//
//        | 1 . 2 . |     off     = -3 -2 0 2                (. is a stored 0)
//    A = | . 3 . . |     values  = . . . 4 | . . . 5 | 1 3 . 6 | 2 . . .
//        | . . . . |     entries =   8     |   8     |  11     |  1
//        | 4 5 . 6 |
//
// Arrays:
//   off      [diagonals] int32: column - row of every diagonal with an entry, ascending.
//   values   [rows diagonals]: a(r, r + off[d]) at d rows + r; 0 if there is no entry or no such column.
//   entries  [ceil(rows / 8) diagonals] uint8: bit r % 8 of byte r / 8 of diagonal d is 1 where its value r
//            is an entry. It distinguishes stored zeros from fill. Products do not read it, except in
//            deterministic mode.
//   ptr      [2] int64: 0 and the number of diagonals, for the products of hdi, which see one hack.
// Bytes: diagonals (v rows + 4 + ceil(rows / 8)) + 16, with v bytes a value.
// Parameters:
//   max_fill  the most stored values an entry.
//   values   how values are stored next to vectors in double: auto, double or float (docs/precision.md). On the host.
// Wins: on stencils: little more than a value is read for each entry, and x needs no gather.
// Refuses: when rows diagonals > max_fill nonzeros.
// Source: Y. Saad, SPARSKIT: a basic tool kit for sparse matrix computations, RIACS 90-20, 1990; N. Bell, M.
//   Garland, Implementing sparse matrix-vector multiplication on throughput-oriented processors, SC 2009,
//   doi:10.1145/1654059.1654078.
//
// A NaN or infinity in x also reaches rows whose diagonal has fill there, because 0 times it is NaN. In deterministic
// mode it reaches only rows with an entry there.
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/engines/library/library_kernels.hpp"
#include "formats/engines/view/array_views.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class Dia final : public HackMatrix<T>, public HasArrayView<DiaView<T>> {
 public:
  explicit Dia(const BuildRequest<T>& request) : HackMatrix<T>(request) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + this->ptr_.bytes(); }
  DiaView<T> array_view() const noexcept override {
    return {this->rows(), this->cols(), this->off_.size(), this->off_.data(), this->row_view().values};
  }

  std::vector<LayoutArray> layout() const override {
    return {layout_array("off", this->off_), this->lines_.layout("values"),
            layout_array("entries", this->entries_), layout_array("ptr", this->ptr_)};
  }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<const Diagonals>(find_diagonals(context, pattern, pattern.rows));
  Admission admission =
      admit_diagonals(plan->count(), pattern.rows, dia_ptr_bytes, pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {{.name = "max_fill",
                                .doc = "stored values an entry above which the format refuses",
                                .default_value = "4",
                                .smallest = 1,
                                .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Dia>(Sums::ordered, Values::either),
                              PROTEAN_KOKKOS_KERNEL(dia)};

}  // namespace

constinit const FormatEntry entries::dia{
    .family = "diagonal",
    .id = "dia",
    .title = "Diagonals",
    .source = "Saad, SPARSKIT, RIACS 90-20, 1990; Bell, Garland, SC 2009",
    .traits = {.needs_alike_rows = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::dia};

}  // namespace protean::formats
