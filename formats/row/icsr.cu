// icsr on the device: the arrays of icsr.cpp are made on the device, and T threads compute a row.
#include "formats/engines/rows/aligned_rows.hpp"
#include "formats/engines/rows/rows.cuh"
#include "formats/engines/view/row_view.cuh"
#include "formats/entries.hpp"

namespace protean::formats {
namespace {

__global__ void aligned_lengths(DevicePattern a, std::int64_t align, std::int64_t* lengths) {
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (r <= a.rows) lengths[r] = r < a.rows ? aligned_length(a.length(r), align) : 0;
}

// row_ptr[0 .. rows] of the aligned rows.
void align_rows(const Context& context, const SparsityPattern& pattern, std::int64_t align,
                std::int64_t* row_ptr) {
  aligned_lengths<<<blocks_of(pattern.rows + 1), device::block_size, 0, device::stream(context)>>>(
      device_pattern(pattern), align, row_ptr);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, row_ptr, pattern.rows + 1);
}

// A warp for each row.
template <class T>
__global__ void fill_aligned(DeviceRows<T> a, const std::int64_t* row_ptr, std::int32_t* col, T* values) {
  const std::int64_t r = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (r >= a.rows) return;
  const std::int64_t from = a.row_ptr[r], length = a.row_ptr[r + 1] - from, to = row_ptr[r],
                     slots = row_ptr[r + 1] - to;
  for (std::int64_t i = threadIdx.x % 32; i < slots; i += 32) {
    col[to + i] = a.col[from + min(i, length - 1)];
    values[to + i] = i < length ? a.values[from + i] : T(0);
  }
}

struct Plan {
  explicit Plan(const Context& context, std::int64_t size) : row_ptr(context, size) {}
  device::Scratch<std::int64_t> row_ptr;
};

template <class T>
class IcsrDevice final : public RowViewOnDevice<T, IcsrDevice<T>> {
 public:
  explicit IcsrDevice(const BuildRequest<T>& request)
      : RowViewOnDevice<T, IcsrDevice>(request),
        row_ptr_(copy_of(request.context, plan_of<Plan>(request.admission).row_ptr)),
        col_(request.context, request.admission.stored_values),
        values_(request.context, request.admission.stored_values),
        lanes_(static_cast<int>(request.params.integer("T"))) {
    const CsrMatrix<T>& csr = request.csr;
    if (csr.rows() == 0) return;
    const DeviceRows<T> from{
        csr.rows(), {csr.pattern.row_ptr.p32, csr.pattern.row_ptr.p64}, csr.pattern.col, csr.values};
    fill_aligned<<<blocks_of(csr.rows(), device::block_size / 32), device::block_size, 0,
                   device::stream(*request.context)>>>(from, row_ptr_.data(), col_.data(), values_.data());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }
  std::size_t bytes() const noexcept override { return row_ptr_.bytes() + col_.bytes() + values_.bytes(); }
  AlignedRows<T> row_view() const { return {values_.data(), col_.data(), row_ptr_.data(), this->rows()}; }
  T* mutable_values() { return values_.data(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    const CsrArrays<T, std::int64_t> arrays{this->rows(), row_ptr_.data(), col_.data(), values_.data()};
    multiply_groups(this->context()->device_state(), {lanes_, 1, 128}, arrays, nullptr, this->rows(), alpha,
                    x.data, beta, y.data);
  }

 private:
  Buffer<std::int64_t> row_ptr_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;
  int lanes_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams& params,
                std::size_t value_bytes) {
  auto plan = std::make_shared<Plan>(context, pattern.rows + 1);
  align_rows(context, pattern, params.integer("align"), plan->row_ptr.data());
  Admission admission =
      admit_aligned(pattern, params, read_back(context, plan->row_ptr.data() + pattern.rows), value_bytes);
  if (admission.ok) keep_plan(admission, std::move(plan));
  return admission;
}

constexpr ParamDoc threads_param[] = {
    {.name = "T", .doc = "threads per row", .default_value = "32", .choices = "1|2|4|8|16|32"}};
constexpr Kernel with_threads() {
  Kernel kernel = device_kernel<IcsrDevice>("native");
  kernel.params = threads_param;
  return kernel;
}
constexpr Kernel kernels[] = {with_threads()};

}  // namespace

constinit const DeviceCode device_code::icsr{kernels, admit};

}  // namespace protean::formats
