// upload() and download() of a matrix next to plain copies of the same size between pinned host memory and the GPU.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <functional>
#include <string>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "core/csr.hpp"
#include "core/device/state.hpp"
#include "core/generate/generate.hpp"
#include "core/identical.hpp"

namespace protean::bench {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

struct Options {
  std::string json;
  double size = 200;
  int rounds = 9;
};

}  // namespace

int run_copy(Arguments& arguments) {
  Options options;
  arguments.read({{"--size", &options.size, "of the cube whose matrix is copied", above(0)},
                  shared::repeat(options.rounds, "rounds of all copies"),
                  shared::json(options.json)});
  const ContextPtr host = Context::host(), context = Context::device();
  const CsrMatrix<double> csr = generate(host, "poisson-3d", {{"n", options.size}});
  const auto bytes = csr.bytes();

  // The first copy of a context takes its pinned pieces and the pool's memory from the driver.
  const double first = seconds_of([&] { (void)upload(context, csr); });
  std::vector<double> pinned_in, pinned_out, in, out;
  void *pinned = nullptr, *there = nullptr;
  PROTEAN_CUDA_CHECK(cudaMallocHost(&pinned, bytes));
  PROTEAN_CUDA_CHECK(cudaMalloc(&there, bytes));
  cudaStream_t stream = device::stream(*context);
  const auto plain = [&](void* to, const void* from, cudaMemcpyKind kind) {
    return seconds_of([&] {
      PROTEAN_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, stream));
      PROTEAN_CUDA_CHECK(cudaStreamSynchronize(stream));
    });
  };
  for (int k = 0; k <= options.rounds; ++k) {
    const double plain_in = plain(there, pinned, cudaMemcpyHostToDevice);
    CsrMatrix<double> copy, back;
    const double ours_in = seconds_of([&] { copy = upload(context, csr); });
    const double plain_out = plain(pinned, there, cudaMemcpyDeviceToHost);
    const double ours_out = seconds_of([&] { back = download(host, *context, copy); });
    if (k == 0 && !identical(back, csr)) throw std::runtime_error("what came back is not what was sent");
    if (k == 0) continue;
    pinned_in.push_back(plain_in), in.push_back(ours_in);
    pinned_out.push_back(plain_out), out.push_back(ours_out);
  }
  PROTEAN_CUDA_CHECK(cudaFree(there));
  PROTEAN_CUDA_CHECK(cudaFreeHost(pinned));

  const auto rate = [&](const std::vector<double>& samples) {
    return static_cast<double>(bytes) / median(samples);
  };
  fmt::print("{} MB: pinned copy in {:.1f} GB/s, upload {:.1f} GB/s ({:.0f} %), the first {:.1f} GB/s\n",
             bytes / 1000000, rate(pinned_in) / 1e9, rate(in) / 1e9, 100 * rate(in) / rate(pinned_in),
             static_cast<double>(bytes) / first / 1e9);
  fmt::print("pinned copy out {:.1f} GB/s, download into fresh memory {:.1f} GB/s ({:.0f} %)\n",
             rate(pinned_out) / 1e9, rate(out) / 1e9, 100 * rate(out) / rate(pinned_out));
  Report report("copy", host->threads(), options.json);
  report["bytes"] = bytes, report["rounds"] = options.rounds;
  report["first_upload_seconds"] = first;
  report["upload_bytes_per_second"] = rate(in), report["pinned_in_bytes_per_second"] = rate(pinned_in);
  report["upload_of_pinned"] = rate(in) / rate(pinned_in);
  report["download_bytes_per_second"] = rate(out), report["pinned_out_bytes_per_second"] = rate(pinned_out);
  report["download_of_pinned"] = rate(out) / rate(pinned_out);
  report.write();
  return 0;
}

}  // namespace protean::bench
