#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "research/reproduce/lab.hpp"

namespace protean::research {

// libnvidia-ml is part of the driver, so it is opened if it is there and not linked.
struct EnergyMeter::Nvml {
  void* library = nullptr;
  void* gpu = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;
  int (*name)(void*, char*, unsigned) = nullptr;
  int (*shutdown)() = nullptr;
  ~Nvml() {
    if (shutdown) (void)shutdown();
    if (library) (void)dlclose(library);
  }
};

EnergyMeter::EnergyMeter(Space space) {
  if (space == Space::device) {
    auto nvml = std::make_unique<Nvml>();
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
      why_not_ = "energy: NVML (libnvidia-ml.so.1) is not there";
      return;
    }
    const auto init = reinterpret_cast<int (*)()>(dlsym(nvml->library, "nvmlInit_v2"));
    const auto handle =
        reinterpret_cast<int (*)(unsigned, void**)>(dlsym(nvml->library, "nvmlDeviceGetHandleByIndex_v2"));
    nvml->energy = reinterpret_cast<int (*)(void*, unsigned long long*)>(
        dlsym(nvml->library, "nvmlDeviceGetTotalEnergyConsumption"));
    unsigned long long millijoules = 0;
    if (!init || !handle || !nvml->energy || init() != 0) {
      why_not_ = "energy: NVML cannot be started";
      return;
    }
    nvml->shutdown = reinterpret_cast<int (*)()>(dlsym(nvml->library, "nvmlShutdown"));
    nvml->name = reinterpret_cast<int (*)(void*, char*, unsigned)>(dlsym(nvml->library, "nvmlDeviceGetName"));
    if (handle(0, &nvml->gpu) != 0 || nvml->energy(nvml->gpu, &millijoules) != 0) {
      why_not_ = "energy: NVML does not tell it of this GPU";
      return;
    }
    nvml_ = std::move(nvml);
    return;
  }
  // One domain for each processor package: intel-rapl:0, intel-rapl:1; their parts have two colons.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/powercap", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("intel-rapl:") || name.find(':') != name.rfind(':')) continue;
    const std::string file = (entry.path() / "energy_uj").string();
    long long value = 0;
    if (std::ifstream(file) >> value) counters_.push_back(file);
  }
  if (counters_.empty())
    why_not_ = "energy: RAPL (/sys/class/powercap/intel-rapl:*/energy_uj) cannot be read here";
}

EnergyMeter::~EnergyMeter() = default;

std::string EnergyMeter::gpu_name() const {
  char name[96] = {};
  return nvml_ && nvml_->name && nvml_->name(nvml_->gpu, name, sizeof name) == 0 ? std::string(name)
                                                                                 : std::string();
}

double EnergyMeter::joules() const {
  if (!why_not_.empty()) throw NotAvailable(why_not_);
  if (nvml_) {
    unsigned long long millijoules = 0;
    if (nvml_->energy(nvml_->gpu, &millijoules) != 0)
      throw NotAvailable("energy: NVML has stopped to tell it");
    return static_cast<double>(millijoules) * 1e-3;
  }
  double sum = 0;
  for (const std::string& file : counters_) {
    long long value = 0;
    if (!(std::ifstream(file) >> value))
      throw NotAvailable(fmt::format("energy: {} cannot be read any more", file));
    sum += static_cast<double>(value) * 1e-6;
  }
  return sum;
}

}  // namespace protean::research
