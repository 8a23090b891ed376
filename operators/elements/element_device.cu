// Element matrices on the device: one element per lane, and several warps compute one batch
// (element_product.cuh). The layout is computed on the host from the connectivity (element_plan.cpp). The
// matrices are checked, copied into batches, updated and assembled in device memory.
#include <cmath>
#include <memory>
#include <vector>

#include "core/device/copy.hpp"
#include "core/device/narrow.hpp"
#include "core/device/primitives.hpp"
#include "core/device_checks.hpp"
#include "core/error.hpp"
#include "core/multi_blas1.hpp"
#include "core/words.hpp"
#include "operators/elements/element_product.cuh"

namespace protean::detail {
namespace {

// y := alpha * (sum of the results of a row, in the order of the elements) + beta y
template <bool with_dot, class T>
__global__ void __launch_bounds__(device::block_size)
    add_results(ElementView<T> a, const std::int64_t* ptr, const std::uint32_t* item, const T* results,
                T alpha, const T* x, T beta, T* y, double* partials, unsigned* arrived, T* result,
                const int* stop) {
  if (device::stopped(stop)) return;
  T dots[1] = {};
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t r = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < a.rows; r += stride) {
    T sum = 0;
    const std::int64_t last = ptr[r + 1];
#pragma unroll 4
    for (std::int64_t k = ptr[r]; k < last; ++k) sum += __ldg(results + __ldg(item + k));
    y[r] = beta == T(0) ? alpha * sum : alpha * sum + beta * y[r];
    if (with_dot) dots[0] += x[r] * sum;
  }
  if constexpr (with_dot) {
    for (std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < a.constrained_rows;
         k += stride) {
      const T value = x[a.constrained[k]];
      dots[0] += value * value;
    }
    device::finish_reduction<1>(dots, partials, arrived, result);
  }
}

// Rows of the identity: y += alpha x.
template <class T>
__global__ void add_constrained(ElementView<T> a, T alpha, const T* x, T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < a.constrained_rows) y[a.constrained[k]] += alpha * x[a.constrained[k]];
}

template <class T>
__global__ void add_constrained_multi(ElementView<T> a, int columns, MultiSteps step, T alpha, const T* x,
                                      T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= a.constrained_rows * columns) return;
  const std::int64_t r = a.constrained[t / columns], j = t % columns;
  y[r * step.y_row + j * step.y_column] += alpha * x[r * step.x_row + j * step.x_column];
}

template <class T>
__global__ void set_constrained(ElementView<T> a, T value, T* y) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < a.constrained_rows) y[a.constrained[k]] = value;
}

// results[position in the map] := diagonal entry of the element
template <bool symmetric, class T>
__global__ void element_diagonals(ElementView<T> a, std::int64_t batches, T* results) {
  for (std::int64_t b = blockIdx.x; b < batches; b += gridDim.x) {
    const ElementBatch batch = a.batches[b];
    for (int i = 0; i < batch.m; ++i)
      results[batch.map + i * warp + threadIdx.x] =
          a.values[batch.values + element_entry<symmetric>(batch.m, i, i) * warp + threadIdx.x];
  }
}

// One block per element of a group: *bad := smallest number of an element that is not finite or, with
// `symmetric`, not symmetric.
template <class T>
__global__ void check_elements(const T* matrices, std::int64_t first, std::int64_t elements, int m,
                               bool symmetric, T tolerance, unsigned long long* bad) {
  __shared__ T largest_of[warp];
  for (std::int64_t e = blockIdx.x; e < elements; e += gridDim.x) {
    const T* k = matrices + e * m * m;
    T largest = 0;
    bool good = true;
    for (int n = threadIdx.x; n < m * m; n += blockDim.x) {
      const T size = k[n] < T(0) ? -k[n] : k[n];
      good = good && isfinite(k[n]);
      largest = size > largest ? size : largest;
    }
    if (symmetric) {
      for (int step = 16; step > 0; step /= 2) {
        const T other = __shfl_xor_sync(0xffffffffu, largest, step);
        largest = other > largest ? other : largest;
      }
      if (threadIdx.x % warp == 0) largest_of[threadIdx.x / warp] = largest;
      __syncthreads();
      for (int w = 0; w < static_cast<int>(blockDim.x) / warp; ++w)
        largest = largest_of[w] > largest ? largest_of[w] : largest;
      __syncthreads();
      for (int n = threadIdx.x; n < m * m; n += blockDim.x) {
        const T difference = k[n] - k[n % m * m + n / m];
        good = good && !((difference < T(0) ? -difference : difference) > tolerance * largest);
      }
    }
    if (!good) atomicMin(bad, static_cast<unsigned long long>(first + e));
  }
}

// Copies the matrices of one group, stored element by element, into its batches: in tiles of 32 elements x 32
// entries through shared memory. Blocks of 32 x 8 threads, one per batch.
template <bool symmetric, class T>
__global__ void __launch_bounds__(256)
    fill_batches(const T* matrices, std::int64_t first, std::int64_t elements, const ElementBatch* batches,
                 const std::int32_t* element_in, T* values) {
  __shared__ T block[warp][warp + 1];
  const std::int64_t b = blockIdx.x;
  const ElementBatch batch = batches[b];
  const std::int64_t element = element_in[b * warp];  // the first lane is always in use
  if (element < first || element >= first + elements) return;
  const std::int64_t m = batch.m, stored = symmetric ? m * (m + 1) / 2 : m * m;
  for (std::int64_t begin = 0; begin < stored; begin += warp) {
    const std::int64_t n = begin + threadIdx.x;
    std::int64_t source = n;
    if (symmetric) {
      auto i = static_cast<std::int64_t>((sqrt(8.0 * static_cast<double>(n) + 1) - 1) / 2);
      while (i * (i + 1) / 2 > n) --i;
      while ((i + 1) * (i + 2) / 2 <= n) ++i;
      source = i * m + n - i * (i + 1) / 2;
    }
    for (int lane = threadIdx.y; lane < warp; lane += blockDim.y) {
      const std::int64_t e = element_in[b * warp + lane];
      block[lane][threadIdx.x] = n < stored && e >= 0 ? matrices[(e - first) * m * m + source] : T(0);
    }
    __syncthreads();
    for (int row = threadIdx.y; row < warp; row += blockDim.y)
      if (begin + row < stored)
        values[batch.values + (begin + row) * warp + threadIdx.x] = block[threadIdx.x][row];
    __syncthreads();
  }
}

template <class N>
Buffer<N> uploaded(const ContextPtr& context, const N* data, std::int64_t size) {
  Buffer<N> buffer(context, size);
  if (size > 0) device::copy_in(*context, buffer.data(), data, buffer.bytes());
  return buffer;
}

template <class T>
class DeviceElements final : public ElementOperator<T> {
 public:
  DeviceElements(ContextPtr context, ContextPtr host, std::shared_ptr<const ElementPlan> plan,
                 ElementScatter scatter, std::span<const ElementGroup<T>> groups)
      : ElementOperator<T>(context, plan, scatter),
        host_(std::move(host)),
        values_(context, plan->values),
        batches_(uploaded(context, plan->batches.data(), batches())),
        map_(uploaded(context, plan->map.data(), plan->map.size())),
        constrained_(
            uploaded(context, plan->constrained.data(), static_cast<std::int64_t>(plan->constrained.size()))),
        slot_of_(uploaded(context, plan->slot_of.data(), plan->elements)),
        element_in_(
            uploaded(context, plan->element_in.data(), static_cast<std::int64_t>(plan->element_in.size()))) {
    std::vector<ElementGroupView> views;
    std::int64_t before = 0, largest = 0;
    for (const auto& group : plan->groups) {
      if (group.elements == 0) continue;
      views.push_back({group.first, before, group.m});
      before += group.elements * group.m * group.m;
      largest = std::max<std::int64_t>(largest, group.m);
    }
    groups_ = uploaded(context, views.data(), static_cast<std::int64_t>(views.size()));
    shared_bytes_ =
        static_cast<int>(largest * warp * static_cast<std::int64_t>(sizeof(T)) * (plan->symmetric ? 2 : 1));
    prepare_kernels(largest);
    if (scatter == ElementScatter::gather) {
      need_positions();
      results_ = Buffer<T>(context, plan->map.size());
    }
    load(groups);
  }

  std::size_t bytes() const noexcept override {
    return values_.bytes() + batches_.bytes() + map_.bytes() + constrained_.bytes() + slot_of_.bytes() +
           element_in_.bytes() + groups_.bytes() + ptr_.bytes() + items_.bytes() + results_.bytes();
  }

  void diagonal(VectorView<T> d) const override {
    const detail::DeviceScope scope(*this->context());
    const Context& context = *this->context();
    require<T>(d, this->rows(), Space::device, "the diagonal");
    if (d.size == 0) return;
    need_positions();
    const device::Scratch<T> own(context, map_.size());
    if (batches() > 0) {
      const auto kernel = this->symmetric() ? element_diagonals<true, T> : element_diagonals<false, T>;
      kernel<<<static_cast<unsigned>(std::min<std::int64_t>(batches(), 65535)), warp, 0, stream()>>>(
          view(), batches(), own.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    add_results<false><<<strided_blocks(d.size), device::block_size, 0, stream()>>>(
        view(), ptr_.data(), items_.data(), own.data(), T(1), static_cast<const T*>(nullptr), T(0), d.data,
        nullptr, nullptr, static_cast<T*>(nullptr), nullptr);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
    if (constrained_.empty()) return;
    set_constrained<<<strided_blocks(constrained_.size()), device::block_size, 0, stream()>>>(view(), T(1),
                                                                                              d.data);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void add_rounding_bounds(T factor, VectorView<T> bounds) const override {
    const detail::DeviceScope scope(*this->context());
    require<T>(bounds, this->rows(), Space::device, "the bounds");
    add_bounds_on_device<T>(this->context(), this->symmetric(), view(), batches(), factor, bounds.data);
  }

  void do_apply_transposed(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    product(alpha, x.data, beta, y, true);
  }

  void do_multi_apply(T alpha, MultiVectorView<const T> X, T beta, MultiVectorView<T> Y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    const MultiSteps step{X.row_step(), X.column_step(), Y.row_step(), Y.column_step()};
    const int columns = narrow<int>(X.columns, "columns");
    multi_scale<T>(*this->context(), beta, Y);
    const auto multiply = [&](auto kernel, std::int64_t begin, std::int64_t end) {
      if (begin == end) return;
      kernel<<<static_cast<unsigned>(end - begin), warps_ * warp, shared_bytes_, state.stream>>>(
          view(), begin, columns, step, alpha, X.data, Y.data, state.stop);
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    };
    if (this->scatter() == ElementScatter::atomic) {
      multiply(multi_kernel_of<Target::atomic>(this->symmetric()), 0, batches());
    } else {
      const auto& colour = this->plan().colour_ptr;
      for (std::size_t c = 0; c + 1 < colour.size(); ++c)
        multiply(multi_kernel_of<Target::add>(this->symmetric()), colour[c], colour[c + 1]);
    }
    if (constrained_.empty()) return;
    add_constrained_multi<<<blocks_of_rows(constrained_.size() * columns), device::block_size, 0,
                            state.stream>>>(view(), columns, step, alpha, X.data, Y.data, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void do_apply_dot(VectorView<const T> x, VectorView<T> y, T* result) const override {
    const DeviceState& state = this->context()->device_state();
    switch (this->scatter()) {
      case ElementScatter::gather:
        multiply<Target::store, false>(0, batches(), T(1), x.data, results_.data(), nullptr);
        add_into<true>(device::blocks_for(state, this->rows()), T(1), x.data, T(0), y.data, result);
        break;
      case ElementScatter::atomic:
        // For few batches the dot product is computed in the same kernel, since a second launch would cost
        // more. Each block writes one partial sum. The number of partial sums is limited, and distributing
        // more batches over that many blocks would cost more than reading both vectors again, since blocks
        // are not equally fast.
        if (batches() <= most_parts) {
          scale<T>(*this->context(), Coefficient<T>(T(0)), y);
          multiply<Target::atomic, true>(0, batches(), T(1), x.data, y.data, result);
          break;
        }
        [[fallthrough]];
      default:
        product(T(1), x.data, T(0), y);
        dot<T>(*this->context(), x, y, result);
        return;
    }
    constrained(T(1), x.data, y.data);
  }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    product(alpha, x.data, beta, y);
  }

  void do_update_values(std::span<const ElementGroup<T>> groups) override { load(groups); }

  CsrMatrix<T> do_assemble(std::size_t most_bytes) const override {
    return assemble_on_device<T>(this->context(), this->symmetric(), view(), groups_.data(),
                                 static_cast<int>(groups_.size()), slot_of_.data(), this->entries(),
                                 most_bytes);
  }

 private:
  static constexpr std::int64_t most_parts = 2048;
  static_assert(most_parts <= DeviceState::max_blocks);

  cudaStream_t stream() const { return device::stream(*this->context()); }
  std::int64_t batches() const { return static_cast<std::int64_t>(this->plan().batches.size()); }
  static unsigned blocks_of_rows(std::int64_t rows) {
    return static_cast<unsigned>((rows + device::block_size - 1) / device::block_size);
  }
  ElementView<T> view() const {
    return {batches_.data(),     values_.data(),      map_.data(),
            constrained_.data(), constrained_.size(), this->rows()};
  }

  // With lower halves A^T is A.
  template <Target target, bool with_dot>
  static auto kernel_of(bool symmetric, bool transposed = false) {
    if constexpr (!with_dot)
      if (transposed && !symmetric) return element_product<false, target, false, true, T>;
    return symmetric ? element_product<true, target, with_dot, false, T>
                     : element_product<false, target, with_dot, false, T>;
  }

  template <Target target>
  static auto multi_kernel_of(bool symmetric) {
    return symmetric ? element_multi_product<true, target, T> : element_multi_product<false, target, T>;
  }

  // The largest element determines the shared memory of the kernels.
  void prepare_kernels(std::int64_t largest) {
    const int ordinal = this->context()->device_state().ordinal;
    int most = 0, of_processor = 0;
    PROTEAN_CUDA_CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
    PROTEAN_CUDA_CHECK(
        cudaDeviceGetAttribute(&of_processor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal));
    if (shared_bytes_ > most - 1024)
      throw NotAvailable(
          "elements of this size need " + human_bytes(static_cast<std::size_t>(shared_bytes_)) +
          " of shared memory on the GPU, which has " + human_bytes(static_cast<std::size_t>(most - 1024)) +
          "; use smaller elements, whole matrices (symmetric off) or the host");
    const auto allow = [&](auto kernel) {
      PROTEAN_CUDA_CHECK(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most - 1024));
    };
    for (const bool symmetric : {false, true}) {
      allow(kernel_of<Target::atomic, false>(symmetric));
      allow(kernel_of<Target::atomic, true>(symmetric));
      allow(kernel_of<Target::add, false>(symmetric));
      allow(kernel_of<Target::store, false>(symmetric));
      allow(kernel_of<Target::atomic, false>(symmetric, true));
      allow(kernel_of<Target::add, false>(symmetric, true));
      allow(kernel_of<Target::store, false>(symmetric, true));
      allow(multi_kernel_of<Target::atomic>(symmetric));
      allow(multi_kernel_of<Target::add>(symmetric));
    }
    warps_ = warps_for<T>(largest, of_processor / (shared_bytes_ + 1024));
  }

  template <Target target, bool with_dot>
  void multiply(std::int64_t begin, std::int64_t end, T alpha, const T* x, T* y, T* result,
                bool transposed = false) const {
    if (begin == end && !with_dot) return;
    const DeviceState& state = this->context()->device_state();
    const std::int64_t blocks = std::max<std::int64_t>(end - begin, 1);
    const auto sums = with_dot ? device::sums_into<1>(*this->context(), blocks, result) : device::Sums<T>();
    const auto kernel = kernel_of<target, with_dot>(this->symmetric(), transposed);
    kernel<<<static_cast<unsigned>(blocks), warps_ * warp, shared_bytes_, state.stream>>>(
        view(), begin, end, alpha, x, y, sums.parts, sums.arrived, sums.result, state.stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  template <bool with_dot>
  void add_into(std::int64_t blocks, T alpha, const T* x, T beta, T* y, T* result) const {
    const auto sums = with_dot ? device::sums_into<1>(*this->context(), blocks, result) : device::Sums<T>();
    add_results<with_dot><<<static_cast<unsigned>(blocks), device::block_size, 0, stream()>>>(
        view(), ptr_.data(), items_.data(), results_.data(), alpha, x, beta, y, sums.parts, sums.arrived,
        sums.result, this->context()->device_state().stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void constrained(T alpha, const T* x, T* y) const {
    if (constrained_.empty()) return;
    add_constrained<<<blocks_of_rows(constrained_.size()), device::block_size, 0, stream()>>>(
        view(), alpha, x, y, this->context()->device_state().stop);
    PROTEAN_CUDA_CHECK(cudaGetLastError());
  }

  void product(T alpha, const T* x, T beta, VectorView<T> y, bool transposed = false) const {
    if (this->rows() == 0) return;
    if (this->scatter() == ElementScatter::gather) {
      multiply<Target::store, false>(0, batches(), T(1), x, results_.data(), nullptr, transposed);
      add_into<false>(strided_blocks(this->rows()), alpha, x, beta, y.data, nullptr);
    } else {
      scale<T>(*this->context(), Coefficient<T>(beta), y);
      if (this->scatter() == ElementScatter::atomic) {
        multiply<Target::atomic, false>(0, batches(), alpha, x, y.data, nullptr, transposed);
      } else {
        const auto& colour = this->plan().colour_ptr;
        for (std::size_t c = 0; c + 1 < colour.size(); ++c)
          multiply<Target::add, false>(colour[c], colour[c + 1], alpha, x, y.data, nullptr, transposed);
      }
    }
    constrained(alpha, x, y.data);
  }

  // Computed when first needed; with scatter gather at once.
  void need_positions() const {
    if (!ptr_.empty()) return;
    const ElementRows<std::uint32_t> rows = map_positions(host_, this->plan());
    items_ = uploaded(this->context(), rows.items.data(), rows.items.size());
    ptr_ = uploaded(this->context(), rows.ptr.data(), rows.ptr.size());
  }

  // Checks all groups before it fills the batches, so that a wrong matrix changes nothing.
  void load(std::span<const ElementGroup<T>> groups) {
    const ElementPlan& plan = this->plan();
    const Context& context = *this->context();
    std::vector<Buffer<T>> copies;
    std::vector<const T*> matrices;
    device::Scratch<unsigned long long> bad(context, 1);
    constexpr unsigned long long none = ~0ull;
    device::copy_in(context, bad.data(), &none, sizeof none);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto& group = plan.groups[g];
      if (groups[g].space == Space::host) {
        copies.push_back(uploaded(this->context(), groups[g].matrices.data(),
                                  static_cast<std::int64_t>(groups[g].matrices.size())));
        matrices.push_back(copies.back().data());
      } else {
        matrices.push_back(groups[g].matrices.data());
      }
      if (group.elements == 0) continue;
      check_elements<<<static_cast<unsigned>(std::min<std::int64_t>(group.elements, 1 << 20)), 128, 0,
                       stream()>>>(matrices[g], group.first, group.elements, group.m, plan.symmetric,
                                   mirror_tolerance<T>(), bad.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    unsigned long long found = none;
    device::copy_out(context, &found, bad.data(), sizeof found);
    if (found != none) {
      const auto element = static_cast<std::int64_t>(found);
      const std::size_t g = plan.group_of(element);
      const std::int64_t size = std::int64_t{plan.groups[g].m} * plan.groups[g].m;
      std::vector<T> matrix(static_cast<std::size_t>(size));
      device::copy_out(context, matrix.data(), matrices[g] + (element - plan.groups[g].first) * size,
                       matrix.size() * sizeof(T));
      refuse_matrix(plan, element, matrix.data());
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto& group = plan.groups[g];
      if (group.elements == 0) continue;
      const auto kernel = plan.symmetric ? fill_batches<true, T> : fill_batches<false, T>;
      kernel<<<static_cast<unsigned>(batches()), dim3(warp, 8), 0, stream()>>>(
          matrices[g], group.first, group.elements, batches_.data(), element_in_.data(), values_.data());
      PROTEAN_CUDA_CHECK(cudaGetLastError());
    }
    this->context()->synchronize();
  }

  ContextPtr host_;
  Buffer<T> values_;
  Buffer<ElementBatch> batches_;
  Buffer<std::int32_t> map_, constrained_, slot_of_, element_in_;
  Buffer<ElementGroupView> groups_;
  int shared_bytes_ = 0, warps_ = 1;  // of a block of the product
  mutable Buffer<std::int64_t> ptr_;  // with items_: the rows of elements that are added to each row
  mutable Buffer<std::uint32_t> items_;
  mutable Buffer<T> results_;  // gather
};

}  // namespace

template <class T>
std::unique_ptr<ElementOperator<T>> make_device_elements(ContextPtr context, std::int64_t nodes,
                                                         std::span<const ElementGroup<T>> groups,
                                                         const ElementOptions& options) {
  std::vector<ElementShape> shapes;
  std::vector<std::vector<std::int32_t>> copies(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::span<const std::int32_t> connectivity = groups[g].connectivity;
    if (groups[g].space == Space::device && !connectivity.empty()) {
      copies[g].resize(connectivity.size());
      device::copy_out(*context, copies[g].data(), connectivity.data(), connectivity.size_bytes());
      connectivity = {copies[g].data(), copies[g].size()};
    }
    shapes.push_back({groups[g].elements, groups[g].nodes, connectivity});
  }
  const ElementScatter scatter =
      options.scatter == ElementScatter::automatic ? ElementScatter::atomic : options.scatter;
  ContextPtr host = Context::host();
  auto plan = std::make_shared<ElementPlan>(
      plan_elements(host, nodes, {shapes.data(), shapes.size()}, options, warp,
                    scatter == ElementScatter::coloured ? Colouring::elements : Colouring::none));
  check_matrices(*plan, groups);
  return std::make_unique<DeviceElements<T>>(context, std::move(host), std::move(plan), scatter, groups);
}

#define PROTEAN_INSTANTIATE(T)                                          \
  template std::unique_ptr<ElementOperator<T>> make_device_elements<T>( \
      ContextPtr, std::int64_t, std::span<const ElementGroup<T>>, const ElementOptions&);
PROTEAN_INSTANTIATE(float)
PROTEAN_INSTANTIATE(double)
#undef PROTEAN_INSTANTIATE

}  // namespace protean::detail
