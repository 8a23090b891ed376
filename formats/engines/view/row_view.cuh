// The device side of row_view.hpp: the same view, one thread for each position. Private to formats/.
#pragma once
#include "core/device/primitives.hpp"
#include "core/host_device.hpp"
#include "formats/engines/view/device_rows.cuh"

namespace protean::formats {

template <class View, class N>
__global__ void view_count(View view, N* row_ptr) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= view.positions()) return;
  if (const std::int64_t row = view.row(p); row >= 0) row_ptr[row] = static_cast<N>(view.length(p));
}

template <class View, class N, class T>
__global__ void view_write(View view, const N* row_ptr, std::int32_t* to_col, T* to_values) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= view.positions()) return;
  const std::int64_t row = view.row(p);
  if (row < 0) return;
  std::int64_t k = row_ptr[row];
  view.for_entries(p, [&](std::int32_t col, std::int64_t place) {
    to_col[k] = col, to_values[k] = view.values[place], ++k;
  });
}

template <class View, class T>
__global__ void view_diagonal(View view, std::int64_t size, T* diagonal) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= view.positions()) return;
  const std::int64_t row = view.row(p);
  if (row < 0 || row >= size) return;
  T found = 0;
  view.for_entries(p, [&](std::int32_t col, std::int64_t place) {
    if (col == row) found = view.values[place];
  });
  diagonal[row] = found;
}

template <class View, class T>
__global__ void view_update(View view, DeviceRowPointers row_ptr, const T* from, T* values) {
  const std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= view.positions()) return;
  const std::int64_t row = view.row(p);
  if (row < 0) return;
  std::int64_t k = row_ptr[row];
  view.for_entries(p, [&](std::int32_t, std::int64_t place) { values[place] = from[k++]; });
}

template <class View, class T>
void update_by_view(const Context& context, const View& view, const CsrMatrix<T>& csr, T* values) {
  if (view.positions() == 0) return;
  view_update<<<blocks_of(view.positions()), device::block_size, 0, device::stream(context)>>>(
      view, DeviceRowPointers{csr.pattern.row_ptr.p32, csr.pattern.row_ptr.p64}, csr.values, values);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

// Internal, because row_view.hpp has a function of this name for the same views.
template <class T, class View>
static CsrMatrix<T> csr_from_view(const ContextPtr& context, std::int64_t rows, std::int64_t cols,
                                  std::int64_t nonzeros, const View& view) {
  CsrBuilder<T> builder(context, rows, cols, nonzeros);
  const cudaStream_t queue = device::stream(*context);
  const auto build = [&](auto* row_ptr) {
    PROTEAN_CUDA_CHECK(cudaMemsetAsync(row_ptr + rows, 0, sizeof *row_ptr, queue));
    if (rows == 0) return;
    const unsigned blocks = blocks_of(view.positions());
    view_count<<<blocks, device::block_size, 0, queue>>>(view, row_ptr);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    device::exclusive_scan(*context, row_ptr, rows + 1);
    view_write<<<blocks, device::block_size, 0, queue>>>(view, row_ptr, builder.col(), builder.values());
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  };
  if (builder.row_ptr32())
    build(builder.row_ptr32());
  else
    build(builder.row_ptr64());
  return builder.freeze();
}

// A matrix in device memory. Derived has with_view(f), which calls f with a view of its rows as on the host and returns
// what f returns, do_update_values() and do_apply(). The values of the view may be in float if T is double.
template <class T, class Derived>
class RowsOnDevice : public AssembledMatrix<T> {
 public:
  using AssembledMatrix<T>::AssembledMatrix;
  CsrMatrix<T> to_csr() const override {
    const detail::DeviceScope scope(*this->context());
    return self().with_view([&](const auto& view) {
      return csr_from_view<T>(this->context(), this->rows(), this->cols(), this->nonzeros(), view);
    });
  }
  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    self().with_view([&](const auto& view) {
      if (d.size == 0 || view.positions() == 0) return;
      view_diagonal<<<blocks_of(view.positions()), device::block_size, 0, device::stream(*this->context())>>>(
          view, d.size, d.data);
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    });
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

// The same for values of T. Derived has row_view() and mutable_values() as on the host, and its own do_apply().
template <class T, class Derived>
class RowViewOnDevice : public RowsOnDevice<T, Derived> {
 public:
  using RowsOnDevice<T, Derived>::RowsOnDevice;
  template <class F>
  decltype(auto) with_view(F&& f) const {
    return f(self().row_view());
  }

 protected:
  void do_update_values(const CsrMatrix<T>& csr) override {
    update_by_view(*this->context(), self().row_view(), csr, static_cast<Derived&>(*this).mutable_values());
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

}  // namespace protean::formats
