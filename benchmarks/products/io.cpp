// Reading and writing: megabytes of text a second, .pbin against memory, and the memory that reading takes at most.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "benchmarks/common/clock.hpp"
#include "benchmarks/common/options.hpp"
#include "benchmarks/common/report.hpp"
#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/parallel.hpp"

namespace protean::bench {
namespace {

namespace fs = std::filesystem;

double best_of(int runs, const std::function<void()>& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    run();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

// Bytes of this process: VmHWM (the most it ever held) or VmRSS (what it holds).
double process_bytes(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::strtod(line.c_str() + std::strlen(key) + 1, nullptr) * 1024;
  return 0;
}

// In a separate process, because the peak of a process cannot be reset: peak above what it held before reading, over
// the bytes of the matrix.
int print_peak(const std::string& path, int threads) {
  const auto context = Context::host(threads);
  parallel(*context, [](int, int) {});
  const double before = process_bytes("VmRSS:");
  const auto a = read_matrix(context, path);
  fmt::print("{}\n", (process_bytes("VmHWM:") - before) / static_cast<double>(a.bytes()));
  return 0;
}

double peak_ratio(const std::string& path, int threads) {
  const std::string self = fs::read_symlink("/proc/self/exe");
  double ratio = std::numeric_limits<double>::quiet_NaN();
  if (std::FILE* pipe =
          popen(fmt::format("'{}' io --peak '{}' --threads {}", self, path, threads).c_str(), "r")) {
    if (std::fscanf(pipe, "%lf", &ratio) != 1) ratio = std::numeric_limits<double>::quiet_NaN();
    pclose(pipe);
  }
  return ratio;
}

}  // namespace

int run_io(Arguments& arguments) {
  std::string work = fs::temp_directory_path(), json, peak_of;
  int threads = 1;
  double share = 1;
  arguments.read(
      {{"--folder FOLDER", &work, "for the files"},
       {"--share", &share, "of the sides of the matrices, at most 1", above(0)},
       {"--peak FILE", &peak_of, "prints the memory that this file takes while it is read, and ends"},
       {"--threads", &threads, "of --peak", at_least(1)},
       shared::json(json)});
  if (share > 1) arguments.refuse("--share must be at most 1");
  if (!peak_of.empty()) return print_peak(peak_of, threads);
  const fs::path folder = work;
  const auto all = Context::host(), one = Context::host(1);
  nlohmann::json results = nlohmann::json::array();
  constexpr std::string_view heading =
      "{:<16} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}\n";
  fmt::print(heading, "matrix", "entries", "text MB", "1 thread", "1 thread", "all", "write", "pbin map",
             "verified", "peak", "pbin");
  fmt::print(heading, "", "", "", "MB/s", "MB/cpu s", "MB/s/core", "MB/s", "ms", "GB/s", "x CSR", "x CSR");
  const std::pair<const char*, GeneratorParams> cases[] = {
      {"poisson-3d", {{"n", std::ceil(120 * share)}}},
      {"random-spd", {{"n", std::ceil(400000 * share)}, {"degree", 20}}},
      {"elasticity-3d", {{"n", std::ceil(36 * share)}}}};
  for (const auto& [kind, params] : cases) {
    const auto a = generate(all, kind, params);
    const std::string text = folder / fmt::format("{}.mtx", kind),
                      binary = folder / fmt::format("{}.pbin", kind);
    const double write = best_of(1, [&] { write_matrix_market(*all, text, a); });
    write_pbin(*all, binary, a);
    const double megabytes = static_cast<double>(fs::file_size(text)) / 1e6;
    const std::clock_t cpu_start = std::clock();
    read_matrix_market(one, text);
    const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    const double single = best_of(3, [&] { read_matrix_market(one, text); });
    const double many = best_of(3, [&] { read_matrix_market(all, text); });
    const double mapped = best_of(3, [&] { read_pbin(all, binary, false); });
    const double verified = best_of(3, [&] { read_pbin(all, binary); });
    const double peak = peak_ratio(text, all->threads()), pbin_peak = peak_ratio(binary, all->threads());
    const nlohmann::json result = {
        {"matrix", kind},
        {"entries", a.nonzeros()},
        {"text_megabytes", megabytes},
        {"text_megabytes_per_second_1_thread", megabytes / single},
        {"text_megabytes_per_second_per_core", megabytes / many / all->threads()},
        {"write_megabytes_per_second", megabytes / write},
        {"pbin_map_seconds", mapped},
        {"pbin_verified_gigabytes_per_second", static_cast<double>(a.bytes()) / verified / 1e9},
        {"peak_over_csr", peak},
        {"pbin_peak_over_csr", pbin_peak}};
    fmt::print(
        "{:<16} {:>9} {:>9.1f} {:>10.0f} {:>10.0f} {:>10.0f} {:>10.0f} {:>10.3f} {:>10.2f} {:>8.2f} "
        "{:>8.2f}\n",
        kind, a.nonzeros(), megabytes, megabytes / single, megabytes / cpu, megabytes / many / all->threads(),
        megabytes / write, mapped * 1e3, static_cast<double>(a.bytes()) / verified / 1e9, peak, pbin_peak);
    results.push_back(result);
    fs::remove(text), fs::remove(binary);
  }
  Report report("io", all->threads(), json);
  report["results"] = results;
  report.write();
  return 0;
}

}  // namespace protean::bench
