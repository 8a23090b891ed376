// lightspmv on the device: csr's arrays and the counter of lightspmv.cpp, which a launch of one thread sets to 0 before
// each product.
#include "formats/engines/rows/rows.cuh"
#include "formats/entries.hpp"
#include "formats/row/rules.hpp"

namespace protean::formats {
namespace {

__global__ void reset_counter(unsigned long long* next, const int* stop) {
  if (device::stopped(stop)) return;
  *next = 0;
}

// by_warp: a warp asks for 32 / lanes rows; otherwise each group asks for one.
template <bool by_warp, int lanes, class T, class P>
__global__ void __launch_bounds__(device::block_size)
    multiply_handed_out(CsrArrays<T, P> a, unsigned long long* next, T alpha, const T* __restrict__ x, T beta,
                        T* y, const int* stop) {
  if (device::stopped(stop)) return;
  const int lane = threadIdx.x % 32, in_group = lane % lanes;
  for (;;) {
    unsigned long long asked = 0;
    if (lane % (by_warp ? 32 : lanes) == 0) asked = atomicAdd(next, by_warp ? 32ull / lanes : 1ull);
    asked = __shfl_sync(0xffffffffu, asked, by_warp ? 0 : lane - in_group);
    const std::int64_t row = static_cast<std::int64_t>(asked) + (by_warp ? lane / lanes : 0);
    const bool there = row < a.rows;
    // All threads of a warp take part in its shuffles.
    if (__all_sync(0xffffffffu, !there)) return;
    T sum;
    if constexpr (lanes == 32) {
      // The first load begins at a group of 32 entries.
      sum = 0;
      if (there) {
        const P begin = __ldg(a.row_ptr + row), end = __ldg(a.row_ptr + row + 1);
        for (P k = (begin & ~P{31}) + in_group; k < end; k += lanes)
          if (k >= begin) sum += __ldg(a.values + k) * __ldg(x + __ldg(a.col + k));
      }
      sum = device::sum_lanes<lanes>(sum);
    } else {
      sum = group_sum<lanes>(a, row, there, x);
    }
    if (there && in_group == 0) store(alpha, sum, beta, y + row);
  }
}

template <class T>
class LightSpmvDevice final : public CsrOnDevice<T> {
 public:
  explicit LightSpmvDevice(const BuildRequest<T>& request)
      : CsrOnDevice<T>(request),
        next_(request.context, 1),
        lanes_(lightspmv_lanes(request.csr.rows(), request.csr.nonzeros())),
        by_warp_(request.params.word("level") == "warp") {}
  std::size_t bytes() const noexcept override { return CsrOnDevice<T>::bytes() + next_.bytes(); }

 protected:
  void do_apply(T alpha, VectorView<const T> x, T beta, VectorView<T> y) const override {
    if (this->rows() == 0) return;
    const DeviceState& state = this->context()->device_state();
    // The counter is workspace of the product.
    auto* const next = const_cast<unsigned long long*>(next_.data());
    device::launch(state, reset_counter, 1, 1, next, state.stop);
    this->with_arrays([&]<class P>(const CsrArrays<T, P>& arrays) {
      with_group(lanes_, [&](auto lanes) {
        // As many blocks as the device holds, and no more than have rows to begin with.
        const int blocks = device::blocks_for(state, this->rows() * lanes());
        device::launch(
            state,
            by_warp_ ? multiply_handed_out<true, lanes(), T, P> : multiply_handed_out<false, lanes(), T, P>,
            blocks, device::block_size, arrays, next, alpha, x.data, beta, y.data, state.stop);
      });
    });
  }

 private:
  Buffer<unsigned long long> next_;
  int lanes_;
  bool by_warp_;
};

Admission admit(const Context&, const SparsityPattern& pattern, const FormatParams&,
                std::size_t value_bytes) {
  return Admission::accept(csr_bytes(pattern, value_bytes) + 8, pattern.nonzeros);
}

constexpr ParamDoc level_param[] = {
    {.name = "level",
     .doc = "who asks for rows: a warp for as many as it computes side by side, or "
            "each group of threads for one",
     .default_value = "warp",
     .choices = "warp|vector"}};
constexpr Kernel with_level() {
  Kernel kernel = device_kernel<LightSpmvDevice>("native");
  kernel.params = level_param;
  return kernel;
}

constexpr Kernel kernels[] = {with_level()};

}  // namespace

constinit const DeviceCode device_code::lightspmv{kernels, admit};

}  // namespace protean::formats
