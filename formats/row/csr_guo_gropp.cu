// csr-guo-gropp on the device: the list of csr_guo_gropp.cpp, sorted on the device, and a launch for each range that
// has rows. The borders of the ranges stay with the host program. Parameter `entries`: a range whose longest row has L
// entries has L / entries threads a row, at most a warp. `measured` tunes the distribution of threads to the matrix and
// the device.
#include <array>

#include "formats/engines/rows/rows.cuh"
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

struct Plan {
  std::int64_t longest;
  std::array<std::int64_t, guo_gropp_ranges + 1> range_ptr;
};

template <class T>
class GuoGroppDevice final : public CsrOnDevice<T> {
 public:
  explicit GuoGroppDevice(const BuildRequest<T>& request)
      : CsrOnDevice<T>(request),
        row_list_(request.context, request.csr.rows()),
        range_ptr_(plan_of<Plan>(request.admission).range_ptr),
        entries_(static_cast<int>(request.params.integer("entries"))) {
    list_by_length(*request.context, request.csr.pattern, plan_of<Plan>(request.admission).longest,
                   row_list_.data());
  }
  std::size_t bytes() const noexcept override { return CsrOnDevice<T>::bytes() + row_list_.bytes(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      for (int range = 0; range < guo_gropp_ranges; ++range)
        multiply_groups(this->context()->device_state(),
                        {guo_gropp_lanes(range, entries_), 1, device::block_size}, arrays,
                        row_list_.data() + range_ptr_[range], range_ptr_[range + 1] - range_ptr_[range],
                        alpha, x.data, beta, y.data);
    });
  }

 private:
  Buffer<std::int32_t> row_list_;
  std::array<std::int64_t, guo_gropp_ranges + 1> range_ptr_;
  int entries_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  const LengthClasses lengths = length_classes(context, pattern, std::numeric_limits<std::int64_t>::max());
  auto plan = std::make_shared<Plan>();
  plan->longest = lengths.longest;
  plan->range_ptr.back() = pattern.rows;
  // Class 2 ends with length 2, class 3 with 4, ...
  for (int range = 0; range + 1 < guo_gropp_ranges; ++range)
    plan->range_ptr[range + 1] = lengths.rows_of(0, range + 2);
  Admission admission = Admission::accept(
      csr_bytes(pattern, value_bytes) + static_cast<std::size_t>(pattern.rows) * 4, pattern.nonzeros);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc entries_param[] = {
    {.name = "entries",
     .doc = "entries of the longest row of a range for each thread; measured: the fastest",
     .default_value = "1",
     .choices = "measured|1|2|4|8"}};
constexpr Kernel kernels[] = {with_params(device_kernel<GuoGroppDevice>("native"), entries_param)};

}  // namespace

constinit const DeviceCode device_code::csr_guo_gropp{kernels, admit};

}  // namespace protean::formats
