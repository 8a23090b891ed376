// The operations on blocks of vectors that GMRES, FCG and IDR consist of: our kernels, which heed the end of a solve,
// beside cuBLAS, which is used outside of recorded steps. Medians in microseconds, and the share of the copy bandwidth.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "benchmarks/peers/cuda_cg.hpp"
#include "core/blas1.hpp"
#include "core/buffer.hpp"
#include "core/device/state.hpp"

namespace protean::bench {
namespace {

template <class Work>
double microseconds(cudaStream_t stream, Work&& work) {
  cudaEvent_t begin, end;
  PROTEAN_CUDA_CHECK(cudaEventCreate(&begin));
  PROTEAN_CUDA_CHECK(cudaEventCreate(&end));
  std::vector<double> samples;
  work();
  for (int sample = 0; sample < 9; ++sample) {
    constexpr int times = 10;
    PROTEAN_CUDA_CHECK(cudaEventRecord(begin, stream));
    for (int k = 0; k < times; ++k) work();
    PROTEAN_CUDA_CHECK(cudaEventRecord(end, stream));
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(end));
    float ms = 0;
    PROTEAN_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    samples.push_back(1000.0 * ms / times);
  }
  PROTEAN_CUDA_CHECK(cudaEventDestroy(begin));
  PROTEAN_CUDA_CHECK(cudaEventDestroy(end));
  std::nth_element(samples.begin(), samples.begin() + 4, samples.end());
  return samples[4];
}

int run() {
  const ContextPtr context = Context::device();
  DeviceState& state = context->device_state();
  const double rate = copy_bandwidth(*context);
  std::printf("copy %.2f TB/s\n%9s %7s %6s %12s %12s %7s %10s\n", rate / 1e12, "rows", "vectors", "",
              "ours, us", "cuBLAS, us", "ratio", "of copy");
  Buffer<int> go_on(context, 1);
  PROTEAN_CUDA_CHECK(cudaMemset(go_on.data(), 0, sizeof(int)));
  for (const std::int64_t n : {std::int64_t{100000}, std::int64_t{1000000}, std::int64_t{8000000}}) {
    Vector<double> basis(context, 31 * n), numbers(context, 64);
    fill<double>(*context, 1e-3, basis), fill<double>(*context, 1e-3, numbers);
    const VectorView<double> w{basis.data() + 30 * n, n, Space::device};
    for (const std::int64_t count : {1, 2, 4, 5, 8, 15, 30})
      for (const bool dot : {true, false}) {
        const VectorBlock<const double> V{basis.data(), n, n, count, Space::device};
        const auto work = [&] {
          if (dot)
            block_dot<double>(*context, V, w, numbers.data());
          else
            block_axpy<double>(*context, -1e-9, V, numbers.data() + 32, w);
        };
        state.stop = go_on.data();
        const double ours = microseconds(state.stream, work);
        state.stop = nullptr;
        const double theirs = microseconds(state.stream, work);
        const double bytes = 8.0 * static_cast<double>(n * (count + (dot ? 1 : 2)));
        std::printf("%9lld %7lld %6s %12.2f %12.2f %6.2fx %9.0f%%\n", static_cast<long long>(n),
                    static_cast<long long>(count), dot ? "dot" : "axpy", ours, theirs, theirs / ours,
                    100 * bytes / (ours * 1e-6) / rate);
      }
  }
  return 0;
}

}  // namespace
}  // namespace protean::bench

int main() { return protean::bench::run(); }
