// Reading and writing: megabytes of text a second, .pbin against memory, and the memory reading takes at
// most.
//   io_benchmark [FOLDER] [FILE.json] [SHARE]        SHARE: of the sides of the matrices, 1 if not given
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

#include "clock.hpp"
#include "core/blas1.hpp"
#include "core/generate/generate.hpp"
#include "core/io/matrix_market.hpp"
#include "core/io/pbin.hpp"
#include "core/parallel.hpp"
#include "report.hpp"

namespace {

using namespace protean;
namespace fs = std::filesystem;

double best_of(int runs, const std::function<void()>& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const auto start = bench::Clock::now();
    run();
    best = std::min(best, bench::seconds_since(start));
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

// In a process of its own, because the most a process held cannot be taken back: peak above what it held
// before reading, over the bytes of the matrix.
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
  if (std::FILE* pipe = popen(fmt::format("'{}' --peak '{}' {}", self, path, threads).c_str(), "r")) {
    if (std::fscanf(pipe, "%lf", &ratio) != 1) ratio = std::numeric_limits<double>::quiet_NaN();
    pclose(pipe);
  }
  return ratio;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--peak") == 0) return print_peak(argv[2], std::atoi(argv[3]));
  const fs::path folder = argc > 1 ? fs::path(argv[1]) : fs::temp_directory_path();
  const auto all = Context::host(), one = Context::host(1);
  nlohmann::json results = nlohmann::json::array();
  constexpr std::string_view heading =
      "{:<16} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}\n";
  fmt::print(heading, "matrix", "entries", "text MB", "1 thread", "1 thread", "all", "write", "pbin map",
             "verified", "peak", "pbin");
  fmt::print(heading, "", "", "", "MB/s", "MB/cpu s", "MB/s/core", "MB/s", "ms", "GB/s", "x CSR", "x CSR");
  const double share = argc > 3 ? std::atof(argv[3]) : 1;
  if (!(share > 0 && share <= 1)) {
    fmt::print(stderr, "io_benchmark: the share is {}; it must be above 0 and at most 1\n", argv[3]);
    return 2;
  }
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
  if (argc > 2 && *argv[2] != '\0')
    bench::write_json(argv[2], {{"machine", bench::machine(all->threads())}, {"results", results}});
}
