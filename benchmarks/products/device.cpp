// Matrix-vector products on a GPU: all our device formats and kernels next to cuSPARSE, in one process. The
// time of a product is the median over replays of a CUDA graph of back-to-back products, divided by their
// number; nothing empties the caches between them. "copy" is the share of the bandwidth of a 1 GiB copy in
// device memory, measured in the same run, that the product would reach if it moved 12 bytes an entry, the
// row pointers, x and y once. Every product is checked once against a sum in long double.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/matrices.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "benchmarks/common/vectors.hpp"
#include "benchmarks/peers/cusparse.hpp"
#include "core/device/copy.hpp"
#include "core/device/state.hpp"
#include "formats/catalogue.hpp"

namespace protean::bench {
namespace {

struct Options {
  std::string json, matrices;
  std::vector<std::string> only, formats;
  bool peers = true;
  double seconds = 0.02, entries = 2e7;
};

// One of our formats with a kernel and parameters.
struct Spec {
  std::string name;
  const FormatEntry* format;
  std::string kernel;
  FormatParams params;
};

std::vector<Spec> specs(const std::vector<std::string>& asked) {
  std::vector<Spec> list;
  for (const std::string& text : asked) {
    const auto at_kernel = split(text, '@');
    const auto words = split(at_kernel.front(), ':');
    Spec spec{text, &find_format(words.front()), at_kernel.size() > 1 ? at_kernel[1] : std::string(), {}};
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto pair = split(words[i], '=');
      if (pair.size() != 2) throw BadArgument("a parameter is name=value, not '" + words[i] + "'");
      spec.params.set(pair[0], pair[1]);
    }
    list.push_back(std::move(spec));
  }
  if (!asked.empty()) return list;
  for (const FormatEntry* format : catalogue()) {
    bool is_default = true;  // the first one that is built, whatever its name
    for (const Kernel& kernel : kernels_in(*format, Space::device))
      if (kernel.unavailable.empty()) {
        const std::string id(format->id), name(kernel.name);
        list.push_back({is_default ? id : id + "@" + name, format, name, {}});
        is_default = false;
      }
  }
  return list;
}

std::string gpu_state() {
  std::string text;
  if (std::FILE* pipe = popen("nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,"
                              "temperature.gpu --format=csv,noheader 2>/dev/null",
                              "r")) {
    char buffer[256];
    while (std::fgets(buffer, sizeof buffer, pipe)) text += buffer;
    pclose(pipe);
  }
  return text.substr(0, text.find('\n'));
}

class Event {
 public:
  Event() { PROTEAN_CUDA_CHECK(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { (void)cudaEventDestroy(event_); }
  void record(cudaStream_t stream) { PROTEAN_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  double seconds_since(const Event& start) const {
    float milliseconds = 0;
    PROTEAN_CUDA_CHECK(cudaEventSynchronize(event_));
    PROTEAN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.event_, event_));
    return 1e-3 * milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Seconds of one run of `work`, which queues on the stream: of replays of a graph, unless it may not be recorded, as
// if the host has a part in it.
template <class Work>
double time_of(const ContextPtr& context, double seconds, bool recordable, const Work& work) {
  const cudaStream_t stream = context->device_state().stream;
  Event start, end;
  for (int i = 0; i < 2; ++i) work();
  start.record(stream);
  work();
  end.record(stream);
  const double once = std::max(1e-6, end.seconds_since(start));
  const int count = std::clamp(static_cast<int>(1e-3 / once), 2, 50);
  const auto all = [&] {
    for (int i = 0; i < count; ++i) work();
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  if (recordable) {
    PROTEAN_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    all();
    PROTEAN_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    PROTEAN_CUDA_CHECK(cudaGraphInstantiate(&ready, graph, 0));
  }
  std::vector<double> samples;
  const int replays = std::clamp(static_cast<int>(seconds / (count * once)), 7, 31);
  for (int i = -2; i < replays; ++i) {
    start.record(stream);
    if (ready)
      PROTEAN_CUDA_CHECK(cudaGraphLaunch(ready, stream));
    else
      all();
    end.record(stream);
    const double sample = end.seconds_since(start) / count;
    if (i >= 0) samples.push_back(sample);
  }
  if (ready) {
    PROTEAN_CUDA_CHECK(cudaGraphExecDestroy(ready));
    PROTEAN_CUDA_CHECK(cudaGraphDestroy(graph));
  }
  return median(samples);
}

// Bytes read and written a second by a copy of 1 GiB. Not in a graph, where copies are slower.
double copy_bandwidth(const ContextPtr& context) {
  constexpr std::int64_t size = std::int64_t{1} << 30;
  constexpr int repeat = 10;
  const cudaStream_t stream = context->device_state().stream;
  Buffer<char> from(context, size), to(context, size);
  Event start, end;
  std::vector<double> samples;
  for (int i = 0; i < 5; ++i) {
    start.record(stream);
    for (int k = 0; k < repeat; ++k) device::copy_within(*context, to.data(), from.data(), size);
    end.record(stream);
    samples.push_back(2.0 * repeat * static_cast<double>(size) / end.seconds_since(start));
  }
  return median(samples);
}

struct Result {
  std::string name, format;
  // library: one of our formats, computed by a library's kernel; not counted as ours in the end.
  bool ours = false, library = false, from_csr = false, right = false;
  double seconds = 0, convert_seconds = 0, bytes = 0;
};

class Race {
 public:
  Race(const Options& options, const ContextPtr& context, const CsrMatrix<double>& host)
      : options_(options), context_(context), host_(host), device_(upload(context, host)) {
    const std::vector<double> x = waves(host.cols(), 1.5);
    reference_.emplace(host, x.data());
    x_ = Buffer<double>(context, host.cols()), y_ = Buffer<double>(context, host.rows());
    device::copy_in(*context, x_.data(), x.data(), x_.bytes());
  }

  void run_peers(std::vector<Result>& results) {
    std::vector<GpuPeer> peers = cusparse_peers(context_, host_, device_);
    for (GpuPeer& peer : newer_cusparse_peers(context_, host_, device_)) peers.push_back(std::move(peer));
    for (const GpuPeer& peer : peers) try {
        const auto product = peer.make();
        if (!product) continue;
        Result result;
        result.name = peer.name, result.from_csr = peer.from_csr;
        measure(result, true, [&] { product(x_.data(), y_.data()); });
        results.push_back(result);
      } catch (const Error& error) { fmt::print("  {:24} failed: {}\n", peer.name, error.what()); }
  }

  void run_ours(const Spec& spec, std::vector<Result>& results) {
    Result result;
    result.name = spec.name, result.format = spec.format->id, result.ours = true;
    try {
      std::unique_ptr<AssembledMatrix<double>> matrix;
      result.convert_seconds = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 3; ++i) {
        matrix.reset();
        context_->synchronize();
        const auto start = Clock::now();
        matrix = make_matrix(*spec.format, device_, context_, spec.params, spec.kernel);
        context_->synchronize();
        result.convert_seconds = std::min(result.convert_seconds, seconds_since(start));
      }
      result.bytes = static_cast<double>(matrix->bytes());
      result.library = matrix->kernel().starts_with("cusparse") || matrix->kernel() == "kokkos";
      const auto multiply = [&] {
        matrix->apply(VectorView<const double>{x_.data(), x_.size(), Space::device},
                      VectorView<double>{y_.data(), y_.size(), Space::device});
      };
      // A format that tunes itself in its first products cannot be recorded before it has. Others may never be.
      constexpr int most_tuning_products = 100;
      for (int i = 0; i < most_tuning_products && !matrix->recording().allowed; ++i) multiply();
      measure(result, matrix->recording().allowed, multiply);
      results.push_back(result);
    } catch (const FormatRefused& refusal) {
      fmt::print("  {:24} refused: {}\n", spec.name, refusal.reason());
    }
  }

 private:
  template <class Work>
  void measure(Result& result, bool recordable, const Work& work) {
    std::vector<double> y(static_cast<std::size_t>(host_.rows()), std::numeric_limits<double>::quiet_NaN());
    device::copy_in(*context_, y_.data(), y.data(), y_.bytes());
    work();
    device::copy_out(*context_, y.data(), y_.data(), y_.bytes());
    result.right = reference_->agrees(y.data());
    result.seconds = time_of(context_, options_.seconds, recordable, work);
  }

  const Options& options_;
  ContextPtr context_;
  const CsrMatrix<double>& host_;
  CsrMatrix<double> device_;
  std::optional<Reference> reference_;
  Buffer<double> x_, y_;
};

// Ratios printed at the end: (group, our format, against what) -> one a matrix.
using Ratios = std::map<std::string, std::vector<double>>;

nlohmann::json tell(const NamedMatrix& what, const CsrMatrix<double>& A, const std::vector<Result>& results,
                    double bandwidth, Ratios& ratios) {
  const auto n = static_cast<double>(A.nonzeros());
  const double compulsory =
      12 * n + 4 * static_cast<double>(A.rows() + 1) + 8 * static_cast<double>(A.rows() + A.cols());
  const double infinity = std::numeric_limits<double>::infinity();
  double from_csr = infinity, any = infinity, ours = infinity;
  std::string best;
  for (const Result& r : results) {
    if (r.from_csr) from_csr = std::min(from_csr, r.seconds);
    if (!r.ours) any = std::min(any, r.seconds);
    if (r.ours && !r.library && r.seconds < ours) ours = r.seconds, best = r.name;
  }
  const char* group = what.group == Group::regular  ? "regular"
                      : what.group == Group::skewed ? "skewed"
                                                    : "gather";
  nlohmann::json rows = nlohmann::json::array();
  fmt::print("  {:24} {:>9} {:>6} {:>8} {:>8} {:>8} {:>9}\n", "", "us", "copy", "csr/coo", "any", "B/entry",
             "convert");
  for (const Result& r : results) {
    fmt::print("  {:24} {:9.2f} {:5.0f}% {:8.2f} {:8.2f} {:>8} {:>9}{}\n", r.name, 1e6 * r.seconds,
               100 * compulsory / r.seconds / bandwidth, from_csr / r.seconds, any / r.seconds,
               r.ours ? fmt::format("{:.2f}", r.bytes / n) : "",
               r.ours ? fmt::format("{:.1f} x", r.convert_seconds / r.seconds) : "",
               r.right ? "" : "  IS WRONG");
    rows.push_back({{"name", r.name},
                    {"ours", r.ours},
                    {"right", r.right},
                    {"microseconds", 1e6 * r.seconds},
                    {"share_of_copy", compulsory / r.seconds / bandwidth},
                    {"best_cusparse_csr_coo_over_this", from_csr / r.seconds},
                    {"best_cusparse_over_this", any / r.seconds}});
    if (!r.ours) continue;
    rows.back()["bytes"] = r.bytes;
    rows.back()["convert_microseconds"] = 1e6 * r.convert_seconds;
    rows.back()["convert_products"] = r.convert_seconds / r.seconds;
    ratios[fmt::format("{:8} {:20} to cuSPARSE CSR/COO", group, r.name)].push_back(from_csr / r.seconds);
    ratios[fmt::format("{:8} {:20} to cuSPARSE any", group, r.name)].push_back(any / r.seconds);
  }
  if (!best.empty()) {
    fmt::print("  best of our own kernels: {}, {:.2f} times as fast as the best of cuSPARSE\n", best,
               any / ours);
    ratios[fmt::format("{:8} {:20} to cuSPARSE any", group, "(best of ours)")].push_back(any / ours);
  }
  return {{"matrix", what.name}, {"what", what.what}, {"group", group},
          {"rows", A.rows()},    {"nonzeros", n},     {"compulsory_bytes", compulsory},
          {"products", rows},    {"best_ours", best}};
}

}  // namespace

int run_device(Arguments& arguments) {
  Options options;
  arguments.read(
      {shared::only(options.only),
       {"--formats SPEC,...", &options.formats,
        "our formats; SPEC is a format, then parameters, then a kernel: csr:balance=merge@native"},
       {"--peers", &options.peers, "cuSPARSE, too"},
       shared::seconds(options.seconds, "time for replays of each product"),
       {"--folder FOLDER", &options.matrices, "matrices of this folder instead of those from formulas"},
       shared::entries(options.entries),
       shared::json(options.json)});
  const auto host = Context::host(), context = Context::device();
  int driver = 0, runtime = 0;
  PROTEAN_CUDA_CHECK(cudaDriverGetVersion(&driver));
  PROTEAN_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  const double bandwidth = copy_bandwidth(context);
  Report report("gpu_spmv", host->threads(), options.json);
  report["gpu_before"] = gpu_state(), report["cuda_driver"] = driver, report["cuda_runtime"] = runtime;
  report["cusparse"] = cusparse_version(context), report["copy_bytes_per_second"] = bandwidth;
  fmt::print("{}\ncopy of 1 GiB: {:.0f} GB/s\n", report.all().dump(), 1e-9 * bandwidth);
  const std::vector<Spec> ours = specs(options.formats);
  Ratios ratios;
  bool all_right = true;
  const std::vector<NamedMatrix> matrices =
      options.matrices.empty()
          ? formula_matrices()
          : repeated_matrices(host, options.matrices, static_cast<std::int64_t>(options.entries));
  for (const NamedMatrix& what : matrices) {
    if (!wanted(options.only, what.name)) continue;
    const auto start = Clock::now();
    const CsrMatrix<double> A = what.make(host);
    fmt::print("\n{}: {}; {} rows, {} entries, made in {:.1f} s\n", what.name, what.what, A.rows(),
               A.nonzeros(), seconds_since(start));
    Race race(options, context, A);
    std::vector<Result> results;
    if (options.peers) race.run_peers(results);
    for (const Spec& spec : ours) race.run_ours(spec, results);
    for (const Result& r : results) all_right &= r.right;
    report["matrices"].push_back(tell(what, A, results, bandwidth, ratios));
    std::fflush(stdout);
  }
  fmt::print("\ngeometric means of time of cuSPARSE over time of ours\n");
  for (const auto& [name, values] : ratios) {
    const double mean = geometric_mean(values), least = *std::min_element(values.begin(), values.end());
    if (!std::isfinite(mean)) continue;
    fmt::print("  {:52} {:6.2f} over {} matrices, least {:.2f}\n", name, mean, values.size(), least);
    report["geometric_means"][name] = {{"mean", mean}, {"matrices", values.size()}, {"least", least}};
  }
  report["gpu_after"] = gpu_state();
  fmt::print("{}\n", report["gpu_after"].dump());
  report.write();
  return all_right ? 0 : 1;
}

}  // namespace protean::bench
