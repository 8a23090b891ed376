// acsr on the device: the list of acsr.cpp is sorted on the device, and each bin that has rows is one launch. Bin b has
// 2^(b-1) threads a row: lanes of a warp up to bin 6, then a block. The borders of the bins stay in host memory.
#include <vector>

#include "formats/engines/rows/rows.cuh"
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

struct Plan {
  std::vector<std::int64_t> bin_ptr;  // as in acsr.cpp
  std::int64_t pieces;
};

template <class T>
class AcsrDevice final : public CsrOnDevice<T> {
 public:
  explicit AcsrDevice(const BuildRequest<T>& request)
      : CsrOnDevice<T>(request),
        row_list_(request.context, request.csr.rows()),
        bin_ptr_(plan_of<Plan>(request.admission).bin_ptr),
        bin_max_(static_cast<int>(request.params.integer("bin_max"))) {
    list_by_bin(*request.context, request.csr.pattern, bin_max_, row_list_.data());
    long_ = LongRows<T>(request.context, request.csr.pattern, row_list_.data() + bin_ptr_[bin_max_],
                        bin_ptr_[bin_max_ + 1] - bin_ptr_[bin_max_], plan_of<Plan>(request.admission).pieces);
  }
  std::size_t bytes() const noexcept override {
    return CsrOnDevice<T>::bytes() + row_list_.bytes() + long_.bytes();
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const DeviceState& state = this->context()->device_state();
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      const auto in_groups = [&](int lanes, int bin) {
        multiply_groups(state, {lanes, 1, device::block_size}, arrays, row_list_.data() + bin_ptr_[bin],
                        bin_ptr_[bin + 1] - bin_ptr_[bin], alpha, x.data, beta, y.data);
      };
      for (int bin = 0; bin < bin_max_; ++bin) {
        const std::int64_t count = bin_ptr_[bin + 1] - bin_ptr_[bin];
        if (bin <= 5)
          in_groups(1 << bin, bin);
        else if (count > 0)
          device::launch(state, block_rows<T, P>, count, 1 << bin, arrays, row_list_.data() + bin_ptr_[bin],
                         alpha, x.data, beta, y.data, state.stop);
      }
      long_.multiply(state, arrays, alpha, x.data, beta, y.data);
      in_groups(1, bin_max_ + 1);  // rows without entries
    });
  }

 private:
  Buffer<std::int32_t> row_list_;
  std::vector<std::int64_t> bin_ptr_;
  int bin_max_;
  LongRows<T> long_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  const auto bin_max = static_cast<int>(params.integer("bin_max"));
  const LengthClasses lengths = length_classes(context, pattern, std::int64_t{1} << bin_max);
  auto plan = std::make_shared<Plan>();
  // Bin 1 has the classes 1 and 2 (lengths 1 and 2), bin b class b + 1.
  plan->bin_ptr = {0};
  for (int bin = 1; bin <= bin_max; ++bin) plan->bin_ptr.push_back(lengths.rows_of(1, bin + 1));
  plan->bin_ptr.push_back(plan->bin_ptr.back() + lengths.cut_rows);
  plan->bin_ptr.push_back(pattern.rows);
  plan->pieces = lengths.pieces;
  Admission admission =
      Admission::accept(csr_bytes(pattern, value_bytes) + static_cast<std::size_t>(pattern.rows) * 4 +
                            long_row_bytes(lengths.cut_rows, lengths.pieces, value_bytes),
                        pattern.nonzeros);
  keep_plan(admission, std::move(plan));
  return admission;
}

constexpr Kernel kernels[] = {device_kernel<AcsrDevice>("native")};

}  // namespace

constinit const DeviceCode device_code::acsr{kernels, admit};

}  // namespace protean::formats
