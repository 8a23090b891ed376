// Jagged diagonals on the device: the layout is that of jad.cpp, one thread for each row.
#include "formats/engines/row_order.cuh"
#include "formats/engines/slices.cuh"

namespace protean::formats {
namespace {

// lengths[k] = number of rows with more than k entries. These rows come first.
static __global__ void jag_lengths(DevicePattern a, const std::int32_t* perm, std::int64_t jags,
                                   std::int64_t* lengths) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= jags) return;
  std::int64_t low = 0, high = a.rows;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (a.length(perm[middle]) > k)
      low = middle + 1;
    else
      high = middle;
  }
  lengths[k] = low;
}

struct Plan {
  Buffer<std::int64_t> jag_ptr;
  Buffer<std::int32_t> perm;
};

template <class T>
Plan plan(const BuildRequest<T>& request) {
  const SparsityPattern& pattern = request.csr.pattern;
  const Context& context = *request.context;
  const std::int64_t longest = device_row_lengths(context, pattern).longest;
  Plan made{Buffer<std::int64_t>(request.context, longest + 1),
            Buffer<std::int32_t>(request.context, pattern.rows)};
  order_rows(context, pattern, std::max<std::int64_t>(1, pattern.rows), longest, made.perm.data());
  const cudaStream_t queue = device::stream(context);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(made.jag_ptr.data(), 0, made.jag_ptr.bytes(), queue));
  if (longest > 0)
    jag_lengths<<<blocks_of(longest), device::block_size, 0, queue>>>(
        device_pattern(pattern), made.perm.data(), longest, made.jag_ptr.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  device::exclusive_scan(context, made.jag_ptr.data(), longest + 1);
  return made;
}

// Slot k of a position is at(position).slot(k), k < at(position).width.
struct JagSlots {
  const std::int64_t* jag_ptr;
  std::int64_t position, width;
  __device__ std::int64_t slot(std::int64_t k) const { return __ldg(jag_ptr + k) + position; }
};

template <class T>
struct JagRows {
  static constexpr bool diagonal_apart = false;
  static constexpr std::int64_t slots = 0;
  const T* values;
  const std::int32_t *col, *perm;
  const std::int64_t* jag_ptr;
  std::int64_t jags, rows;

  __host__ __device__ std::int64_t positions() const { return rows; }
  __device__ std::int64_t row(std::int64_t p) const { return p < rows ? __ldg(perm + p) : -1; }
  __device__ JagSlots at(std::int64_t p) const {
    std::int64_t low = 0, high = jags;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (__ldg(jag_ptr + middle + 1) - __ldg(jag_ptr + middle) > p)
        low = middle + 1;
      else
        high = middle;
    }
    return {jag_ptr, p, low};
  }
  __device__ std::int64_t length(std::int64_t p) const { return at(p).width; }
  template <class F>
  __device__ void for_entries(std::int64_t p, F&& f) const {
    const JagSlots slots_of_row = at(p);
    for (std::int64_t k = 0; k < slots_of_row.width; ++k) {
      const std::int64_t slot = slots_of_row.slot(k);
      f(col[slot], slot);
    }
  }
  template <int split>
  __device__ T part_sum(std::int64_t p, int part, const T* x) const {
    T sum = 0;
    const JagSlots slots_of_row = at(p);
#pragma unroll 4
    for (std::int64_t k = part; k < slots_of_row.width; k += split) {
      const std::int64_t slot = slots_of_row.slot(k);
      sum += __ldcs(values + slot) * __ldg(x + __ldcs(col + slot));
    }
    return sum;
  }
  __device__ T whole(std::int64_t, T sum) const { return sum; }
};

template <class T>
class JadDevice final : public RowViewOnDevice<T, JadDevice<T>>, public HasApplyDot<T> {
 public:
  explicit JadDevice(const BuildRequest<T>& request)
      : RowViewOnDevice<T, JadDevice<T>>(request),
        plan_(plan(request)),
        col_(request.context, request.csr.nonzeros()),
        values_(request.context, request.csr.nonzeros()),
        split_(row_split(request.context->device_state(), this->rows(),
                         static_cast<double>(this->nonzeros()) /
                             static_cast<double>(std::max<std::int64_t>(1, this->rows())))) {
    fill_slots(*request.context, row_view(), request.csr, Padding::last_column, col_.data(), values_.data());
  }

  std::size_t bytes() const noexcept override {
    return values_.bytes() + col_.bytes() + plan_.perm.bytes() + plan_.jag_ptr.bytes();
  }
  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    multiply_slots<true>(*this->context(), row_view(), split_, T(1), x.data, T(0), y.data, result);
  }
  JagRows<T> row_view() const noexcept {
    return {values_.data(),           col_.data(), plan_.perm.data(), plan_.jag_ptr.data(),
            plan_.jag_ptr.size() - 1, this->rows()};
  }
  T* mutable_values() noexcept { return values_.data(); }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    fill_slots(*this->context(), row_view(), csr, Padding::last_column, static_cast<std::int32_t*>(nullptr),
               values_.data());
  }
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() > 0)
      multiply_slots<false>(*this->context(), row_view(), split_, alpha, x.data, beta, y.data,
                            static_cast<T*>(nullptr));
  }

 private:
  Plan plan_;
  Buffer<std::int32_t> col_;
  Buffer<T> values_;
  int split_;
};

Admission admit(const Context& context, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(
      static_cast<std::size_t>(pattern.nonzeros) * (value_bytes + 4) +
          static_cast<std::size_t>(4 * pattern.rows + 8 * (device_row_lengths(context, pattern).longest + 1)),
      pattern.nonzeros);
}

constexpr Kernel kernels[] = {device_kernel<JadDevice>("native")};

}  // namespace

namespace device_code {
extern const DeviceCode jad;
constinit const DeviceCode jad{kernels, admit};
}  // namespace device_code

}  // namespace protean::formats
