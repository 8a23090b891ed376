// sell-packed on the device. As in sell_packed.cpp, each slot of a slice has its columns in the shortest code that can
// hold them. The layout is made for warps: slices of 32 rows, one thread for each row.
//
// A slot holds at most one entry of each of the slice's 32 rows. There are four kinds:
//   diagonal  key, mask           column = key + r - r % b in the rows r of the mask's lanes; 8 bytes for 32
//                                 entries. b is one number for the matrix: 1, or 2, 3, 4 if rows come in
//                                 groups with the same columns (b unknowns in a node)
//   near      base, 32 x 8 bits   column = base + offset; offset 255: no entry. Four slots lie together, so
//                                 that the four offsets of a lane are one word
//   far       base, 32 x 16 bits  the same; 65535: no entry
//   wide      32 x 32 bits        the columns; -1: no entry
// A diagonal slot is made for each diagonal that enough rows of the slice have. The other entries are taken
// by rank: the k-th of each row into one slot.
//
// Arrays:
//   slices  [ceil(rows / 32)] 16 bytes each: first slot and first unit of code (uint32), number of slots of
//           each of the four kinds (uint16).
//   code    [units of 32 bytes] for each slice: key and mask of each diagonal slot, the bases of near and far
//           slots, zeros up to a whole unit; then the offsets of near and far slots and the columns of wide
//           ones.
//   values  [32 slots]: 0 if there is no entry. In float next to vectors in double, or places in a table, if parameter
//           values says so.
//   table   [256], in a dictionary only: the distinct values.
//   perm    [rows] int32, only when rows are sorted by length in windows of 1024: the row at each position.
// Bytes: 16 slices + 32 units + 32 v slots + 4 rows [sorted], with v bytes a value; 2048 more for the table of a
// dictionary, with v = 1. In double precision an
// entry costs 8.25 bytes in a full diagonal slot, 9.13 in a near one, 10.13 far, 12 wide. A slice costs 16 to
// 40 bytes more.
// Parameters: order, as on the host. auto sorts if natural order stores more than 1.15 slots an entry and sorting saves
// a tenth.
// Refuses: when more than 4 values would be stored for an entry, and rows of more than 32767 entries.
//
// x_j is read only if there is an entry, so an infinite or NaN x_j reaches exactly the rows with an entry
// in column j.
#include "formats/compressed/sell_packed.hpp"

#include <cmath>
#include <string>

#include "formats/compressed/sell_packed_encode.cuh"
#include "formats/compressed/sell_packed_kernel.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/engines/view/stored_values.hpp"
#include "formats/entries.hpp"
#include "operators/multi_product.hpp"
#include "operators/narrow_values.hpp"

namespace protean::formats {
namespace {

using namespace packed_device;

template <class T>
class PackedDevice final : public RowsOnDevice<T, PackedDevice<T>>,
                           public HasApplyDot<T>,
                           public HasMultiProduct<T>,
                           public detail::HasValueTable {
 public:
  explicit PackedDevice(const BuildRequest<T>& request)
      : RowsOnDevice<T, PackedDevice<T>>(request), HasValueTable(request.table) {
    const PlanArrays& made = plan_of<PlanArrays>(request.admission);
    plan_ = made.plan;
    heads_ = Buffer<SliceHead>(request.context, plan_.slices);
    code_ = Buffer<std::uint32_t>(request.context, plan_.units * 8);
    values_ = StoredOrTable<T>(request.context, plan_.slots * height, request.float_values, request.table);
    if (plan_.sorted) perm_ = copy_of(request.context, made.perm);
    if (plan_.slices == 0) return;
    write_heads(*request.context, made, heads_.data(), code_.data());
    assign(request.csr);
    const auto slots = static_cast<double>(plan_.slots), slices = static_cast<double>(plan_.slices);
    launch_.split = row_split(request.context->device_state(), plan_.slices * height, slots / slices);
    // Slices that are prefetched into the second-level cache have to fit there until they are used.
    const bool offsets = plan_.wide * 4 <= plan_.rest && slots / slices <= 40;
    launch_.rest = plan_.rest == 0                 ? Rest::none
                   : plan_.rest * 8 <= plan_.slots ? Rest::few
                   : offsets                       ? Rest::offsets
                                                   : Rest::many;
  }

  std::size_t bytes() const noexcept override {
    return heads_.bytes() + code_.bytes() + values_.bytes() + perm_.bytes();
  }

  template <class F>
  decltype(auto) with_view(F&& f) const {
    return values_.visit([&](const auto& values) { return f(view_of(values)); });
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    with_view([&](const auto& view) {
      multiply_packed(*this->context(), view, launch_, T(1), x.data, T(0), y.data, result);
    });
  }
  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    if (this->rows() == 0) return;
    with_view([&](const auto& view) { multi_packed_on_device(*this->context(), view, alpha, X, beta, Y); });
  }

 protected:
  // Faster than the update of the view, which reads each row with one thread.
  void do_update_values(const CsrMatrix<T>& csr) override {
    if (plan_.slices > 0) assign(csr);
  }

  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    with_view([&](const auto& view) {
      multiply_packed(*this->context(), view, launch_, alpha, x.data, beta, y.data, static_cast<T*>(nullptr));
    });
  }

 private:
  template <class V>
  PackedArrays<V> view_of(const V* values) const noexcept {
    return view_of_stored<V>(values);
  }
  PackedArrays<std::uint8_t> view_of(const TableValues& values) const noexcept {
    return view_of_stored<std::uint8_t>(values);
  }
  template <class V>
  PackedArrays<V> view_of_stored(const ValuesPointer<V>& values) const noexcept {
    return {this->rows(), plan_.slices, plan_.group, heads_.data(), code_.data(), values, perm_.data()};
  }
  void assign(const CsrMatrix<T>& csr) {
    values_.assign(csr, this->float_values(), this->value_table(), [&]<class V>(const auto* from, V* to) {
      fill_packed(*this->context(), plan_, view_of_stored<V>({}), csr.pattern, from, code_.data(), to);
    });
  }

  Plan plan_;
  Launch launch_;
  Buffer<SliceHead> heads_;
  Buffer<std::uint32_t> code_;
  StoredOrTable<T> values_;
  Buffer<std::int32_t> perm_;
};

// From here on the bytes decide, not the launch.
constexpr std::int64_t large_matrix = std::int64_t{1} << 20;

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  // With a table the slots are those of doubles, so that sums have the same order.
  const std::size_t bytes_in_csr = value_bytes == 1 ? sizeof(double) : value_bytes;
  auto arrays = std::make_shared<PlanArrays>(context, pattern, params, bytes_in_csr);
  const Plan& plan = arrays->plan;
  if (plan.too_long)
    return Admission::refuse("a row has more than " + std::to_string(longest_allowed) +
                             " entries; csr has no such limit");
  const std::size_t bytes = plan.bytes(pattern.rows, value_bytes);
  Admission admission = admit_stored(pattern, plan.slots * height, height, bytes);
  const auto csr =
      static_cast<double>(static_cast<std::size_t>(pattern.nonzeros) * (bytes_in_csr + sizeof(std::int32_t)) +
                          static_cast<std::size_t>(pattern.rows + 1) * sizeof(std::int32_t));
  const auto percent = static_cast<double>(params.integer("percent"));
  if (admission.ok && pattern.nonzeros >= large_matrix && static_cast<double>(bytes) > percent / 100 * csr)
    return Admission::refuse(std::to_string(std::llround(100 * static_cast<double>(bytes) / csr)) +
                                 " % of the bytes of csr would be needed; above " +
                                 std::to_string(std::llround(percent)) +
                                 " % csr or sell-c-sigma is faster on a GPU (parameter percent allows more)",
                             bytes, admission.stored_values);
  keep_plan(admission, std::move(arrays));
  return admission;
}

constexpr Kernel kernels[] = {with_params(device_kernel<PackedDevice>("native"), table_params)};

}  // namespace

constinit const DeviceCode device_code::sell_packed{kernels, admit};

}  // namespace protean::formats
