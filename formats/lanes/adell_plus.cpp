// AdELL+: AdELL whose lanes are found by one prefix sum. It uses blocks of two entries and 16-bit differences of
// columns if they save memory, and an unrolled loop that is tuned while a solve runs.
//
//        | 1 . 2 . |     W = 2: 1 entry a lane; columns are kept
//    A = | . 3 . . |     unit_ptr = 0 2 4 6 8
//        | . . . . |     lane_row = 0 0 | 1 -3 | 3 3 | 3 -4
//        | 4 5 . 6 |     col      = 0 2 | 1 0  | 0 1 | 3 3      values = 1 2 | 3 . | 4 5 | 6 .
//
// Arrays: as in adell, or as in coadell if columns are coded. With blocks of two entries a slot is a block:
//   col       its key 4 c + mask: c is the first column; bit e of mask is 1 if value e is an entry. Differences are
//             differences of keys.
//   values    [2 slots]: value e of slot k of lane l of warp u lies at 2 unit_ptr[u] + (2 k + e) W + l; 0 if it is not
//             an entry.
//   lane_row  pairs of rows in blocks 2x1: pair p is rows 2 p and 2 p + 1.
//   carry     [2 warps] in blocks 2x1.
// Bytes: as adell or coadell, with 2 v slots for blocks of two entries.
// Parameters:
//   W         lanes of a warp.
//   blocking  1x1: no blocks; 1x2: two neighbouring columns of a row; 2x1: one column of two rows; auto: the one with
//             the fewest bytes.
//   columns   raw keeps columns, delta16 codes them; auto: the one with the fewest bytes.
//   max_fill  the most stored values per entry.
//   unroll    of the kernel: slots per turn of its loop, 1, 2 or 4; auto: the fastest in the first products.
// Wins: as adell and coadell. Small dense blocks, which several unknowns per point produce, take one column for two
//   entries. Lanes are found without waiting for earlier rows, but with `auto` the conversion plans several layouts: on
//   a host it takes more time than the conversion to adell.
// Refuses: when stored values > max_fill nonzeros; blocks of two entries for more than 2^29 columns.
// Source: M. Maggioni, T. Berger-Wolf, Optimization techniques for sparse matrix-vector multiplication on GPUs, J.
//   Parallel Distrib. Comput. 93-94, 2016, 66-86, doi:10.1016/j.jpdc.2016.03.011. The storage of blocks and codes, and
//   the choice of layouts by their bytes, are ours. Low confidence.
//
// The paper tries all its options while a solve runs. Here the layout (blocking and columns) is chosen during the
// conversion: of the layouts that the parameters allow, the one with the fewest bytes. Trying layouts in products would
// need several copies of the matrix in memory, and each conversion costs as much as many products. Only `unroll` is
// tried, in 12 products: each option is tried four times in turn, the first time is not counted, and the shortest time
// wins. All options of columns and unroll give the same bits, so no result depends on a measured time. Another blocking
// cuts rows at other places, so its sums have another order. On a device, products are recorded after the trials have
// ended. Deterministic mode tries nothing. The report of a solve says what was chosen (`tuning`), as does the ability
// HasTuning.
#include "formats/lanes/adell_plus.hpp"

#include "formats/engines/tuning/timed_products.hpp"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

template <class T>
class AdellPlus final : public LaneMatrix<T>, public HasTuning {
 public:
  explicit AdellPlus(const BuildRequest<T>& request)
      : LaneMatrix<T>(request), products_(unroll_sweep(request)) {}
  Tuning tuning() const override { return adell_plus_tuning(*this, this->rule(), products_); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->context()->deterministic()) return LaneMatrix<T>::do_apply(alpha, x, beta, y);
    products_.run([&](int option) { this->multiply(unrolls[option], alpha, x.data, beta, y.data); });
  }

 private:
  mutable TimedProducts products_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto [plan, admission] = cheapest_lanes(
      pattern, params, value_bytes,
      [&](const LaneRule& rule) {
        return std::make_shared<LanePlanOnHost>(plan_lanes_on_host(context, pattern, rule));
      },
      [&](int R) { return count_blocks(context, pattern, R); },
      [](LanePlanOnHost& raw) { raw.rule.coded = false, raw.col = {}, raw.code_ptr = {}; },
      [&](const LanePlanOnHost& one) {
        return admit_lanes(one.rule, one.sizes, pattern, params, value_bytes);
      });
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc params[] = {
    lane_width_param,
    {.name = "blocking",
     .doc = "entries of a slot: one, two of a row, two of a column, or whichever has the fewest bytes",
     .default_value = "auto",
     .choices = "auto|1x1|1x2|2x1"},
    {.name = "columns",
     .doc = "columns as they are, as 16-bit differences, or whichever has fewer bytes",
     .default_value = "auto",
     .choices = "auto|raw|delta16"},
    lane_fill_param};

constexpr Kernel with_params(Kernel kernel, std::span<const ParamDoc> docs) {
  kernel.params = docs;
  return kernel;
}
constexpr Kernel kernels[] = {
    with_params(native_host_kernel<AdellPlus>(Sums::ordered), adell_plus_kernel_params)};

}  // namespace

constinit const FormatEntry entries::adell_plus{
    .family = "lanes",
    .id = "adell-plus",
    .title = "AdELL by a prefix sum, with blocks and codes if they save memory, tuned while solving",
    .source = "Maggioni, Berger-Wolf, JPDC 93-94, 2016",
    .traits = {.shares_rows = true, .admission_converts = true},
    .params = params,
    .kernels = kernels,
    .admit = admit,
    .device = &device_code::adell_plus};

}  // namespace protean::formats
