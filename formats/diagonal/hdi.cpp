// HDI, hacked diagonals: each hack, a group of consecutive rows, stores only the diagonals that it has.
//
//        | 1 . 2 . |     hack = 2
//    A = | . 3 . . |     hack_ptr = 0 2 5
//        | . . . . |     off      =  0    2  |  -3   -2    0
//        | 4 5 . 6 |     values   = 1 3 | 2 . | . 4 | . 5 | . 6        (. is a stored 0)
//                        entries  =  3    1     2    2     2
//
// Arrays:
//   hack_ptr  [hacks + 1] int64: number of diagonals before each hack; hacks = ceil(rows / hack).
//   off       [diagonals] int32: column - row, ascending within a hack.
//   values    [hack diagonals]: a(r, r + off[d]) lies at d hack + r % hack; 0 if there is no entry, no such column or,
//             in the last hack, no such row.
//   entries   [ceil(hack / 8) diagonals] uint8: bit i % 8 of byte i / 8 of diagonal d is 1 if its value i
//             is an entry. It distinguishes stored zeros from fill. Products do not read it, except in
//             deterministic mode.
// Bytes: diagonals (v hack + 4 + ceil(hack / 8)) + 8 (hacks + 1), with v bytes a value.
// Parameters:
//   hack      rows in a hack. Short hacks store less fill, long hacks read fewer offsets.
//   max_fill  the most stored values per entry.
//   values    how values are stored next to vectors in double: auto, double or float (docs/precision.md). On the host.
// Wins: when parts of the matrix are diagonal, or the diagonals of a stencil begin and end within the matrix.
// Refuses: when hack diagonals > max_fill nonzeros.
// Source: D. Barbieri, V. Cardellini, A. Fanfarillo, S. Filippone, Three storage formats for sparse matrices
//   on GPGPUs, RR-15.6, Universita di Roma Tor Vergata, 2015; S. Filippone, V. Cardellini, D. Barbieri, A.
//   Fanfarillo, Sparse matrix-vector multiplication on GPGPUs, ACM TOMS 43(4), 2017, doi:10.1145/3017994.
//
// A NaN or infinity in x also reaches rows whose diagonal has no entry there, because 0 times it is NaN. In
// deterministic mode it reaches only rows with an entry there.
#include "formats/engines/diagonals/diagonals.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class Hdi final : public HackMatrix<T> {
 public:
  explicit Hdi(const BuildRequest<T>& request) : HackMatrix<T>(request) {}

  std::size_t bytes() const noexcept override { return this->array_bytes() + this->ptr_.bytes(); }

  std::vector<LayoutArray> layout() const override {
    return {layout_array("hack_ptr", this->ptr_), layout_array("off", this->off_),
            this->lines_.layout("values"), layout_array("entries", this->entries_)};
  }
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const std::int64_t height = params.integer("hack");
  auto plan = std::make_shared<const Diagonals>(find_diagonals(context, pattern, height));
  Admission admission = admit_diagonals(plan->count(), height,
                                        8 * static_cast<std::size_t>(hack_count(pattern.rows, height) + 1),
                                        pattern, params, value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {
    {.name = "hack", .doc = "rows in a hack", .default_value = "32", .smallest = 1, .largest = 1024},
    {.name = "max_fill",
     .doc = "the format refuses more stored values per entry than this",
     .default_value = "4",
     .smallest = 1,
     .largest = 1'000'000}};
constexpr Kernel kernels[] = {native_host_kernel<Hdi>(Sums::ordered, Values::either)};

}  // namespace

constinit const FormatEntry entries::hdi{
    .family = "diagonal",
    .id = "hdi",
    .title = "Hacked diagonals",
    .source = "Barbieri, Cardellini, Fanfarillo, Filippone, RR-15.6, 2015",
    .traits = {.needs_alike_rows = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::hdi};

}  // namespace protean::formats
