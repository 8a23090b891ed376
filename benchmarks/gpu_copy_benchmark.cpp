// upload() and download() of a matrix beside plain copies of the same size between pinned host memory and the
// GPU.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>

#include "benchmarks/clock.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/report.hpp"
#include "core/csr.hpp"
#include "core/device/state.hpp"
#include "core/generate/generate.hpp"

namespace {

using namespace protean;
using namespace protean::bench;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

constexpr const char* usage =
    R"(usage: gpu_copy_benchmark [--json FILE] [--size N] [--rounds K]
  --size    of the cube whose matrix is copied (200)
  --rounds  of all copies (9)
)";

struct Options {
  std::string json;
  double size = 200;
  int rounds = 9;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  const bool read = read_options(
      argc, argv, {{"--json", &options.json}, {"--size", &options.size}, {"--rounds", &options.rounds}});
  if (!read || options.rounds < 1) return {};
  return options;
}

int run(const Options& options) {
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
  if (!options.json.empty())
    write_json(options.json, {{"machine", machine(host->threads())},
                              {"bytes", bytes},
                              {"rounds", options.rounds},
                              {"first_upload_seconds", first},
                              {"upload_bytes_per_second", rate(in)},
                              {"pinned_in_bytes_per_second", rate(pinned_in)},
                              {"upload_of_pinned", rate(in) / rate(pinned_in)},
                              {"download_bytes_per_second", rate(out)},
                              {"pinned_out_bytes_per_second", rate(pinned_out)},
                              {"download_of_pinned", rate(out) / rate(pinned_out)}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program(usage, parse(argc, argv), run); }
