#include "benchmarks/common/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace protean::bench {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, name = "unknown";
  bool avx512 = false;
  while (std::getline(file, line)) {
    if (line.starts_with("model name")) name = line.substr(line.find(':') + 2);
    avx512 |= line.starts_with("flags") && line.find(" avx512f ") != std::string::npos;
  }
  return name + (avx512 ? ", AVX-512" : "");
}

std::string commit() {
  std::string text;
  if (std::FILE* pipe = popen("git -C '" PROTEAN_SOURCE_DIR "' describe --always --dirty 2>/dev/null", "r")) {
    char buffer[128];
    while (std::fgets(buffer, sizeof buffer, pipe)) text += buffer;
    pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "unknown" : text;
}

}  // namespace

nlohmann::json machine(int threads) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return {{"processor", processor()},
          {"cores", std::thread::hardware_concurrency()},
          {"threads", threads},
          {"compiler", "GNU C++ " __VERSION__},
          {"date", date},
          {"commit", commit()}};
}

double median(std::vector<double> samples) {
  if (samples.empty()) return std::nan("");
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += std::log(v);
  return values.empty() ? std::nan("") : std::exp(sum / static_cast<double>(values.size()));
}

double quantile(std::vector<double> samples, double part) {
  if (samples.empty()) return std::nan("");
  std::sort(samples.begin(), samples.end());
  const auto at = static_cast<std::size_t>(std::ceil(part * static_cast<double>(samples.size())));
  return samples[std::min(std::max<std::size_t>(at, 1), samples.size()) - 1];
}

void Report::write() const {
  if (path_.empty()) return;
  std::ofstream file(path_);
  file << all_.dump(1) << '\n';
  if (!file.flush()) throw std::runtime_error(fmt::format("cannot write {}", path_));
}

}  // namespace protean::bench
