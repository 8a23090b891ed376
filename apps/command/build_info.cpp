#include "apps/command/build_info.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/highway.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "core/context.hpp"
#include "core/parallel.hpp"
#include "formats/catalogue.hpp"
#include "preconditioners/preconditioner.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/driver.hpp"
#endif

namespace protean::apps {
namespace {

std::string compiler_name() {
#if defined(__clang__)
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

// "yes" with the formats that have this kernel in this build, or "no" with the reason.
std::string kernel_in_build(std::string_view name) {
  std::vector<std::string_view> ids;
  std::string_view note;
  std::string why = "no format has a kernel of it";
  for (const FormatEntry* entry : catalogue())
    for (const Kernel& kernel : entry->kernels) {
      if (kernel.name != name) continue;
      if (kernel.unavailable.empty())
        ids.push_back(entry->id), note = kernel.note;
      else
        why = kernel.unavailable;
    }
  if (ids.empty()) return fmt::format("no ({})", why);
  const bool vectors = name == to_string(VectorKernels::kokkos) && unavailable(VectorKernels::kokkos).empty();
  return fmt::format("yes ({}formats {}){}{}", vectors ? "vector operations, " : "", fmt::join(ids, ", "),
                     note.empty() ? "" : ": ", note);
}

// The same for hypre, which computes amg with setup classical.
std::string hypre_in_build() {
  const std::string_view why = unavailable(AmgSetup::classical);
  if (!why.empty()) return fmt::format("no ({})", why);
  for (const PreconditionerEntry& entry : preconditioners())
    if (entry.id == "amg") return fmt::format("yes (preconditioner amg, setup classical): {}", entry.library);
  return "no";
}

std::string metis_in_build() {
  const std::string_view why = unavailable(SubdomainPartition::metis);
  return why.empty() ? "yes (order metis, partition metis)" : fmt::format("no ({})", why);
}

std::string value_in(const char* file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

}  // namespace

BuildInfo build_info() {
  BuildInfo info;
  info.version = PROTEAN_VERSION_TEXT;
  info.compiler = compiler_name();
  info.build_type = PROTEAN_BUILD_TYPE_TEXT;
  const auto supported = static_cast<std::uint64_t>(hwy::SupportedTargets());
  // The lower the bit, the better the target.
  for (int bit = 0; bit < 62; ++bit) {
    const std::uint64_t target = std::uint64_t{1} << bit;
    if (!(static_cast<std::uint64_t>(HWY_TARGETS) & target)) continue;
    info.simd_targets.emplace_back(hwy::TargetName(static_cast<std::int64_t>(target)));
    if (info.simd_chosen.empty() && (supported & target)) info.simd_chosen = info.simd_targets.back();
  }
#if defined(_OPENMP)
  info.openmp = fmt::format("{}, {} threads here", _OPENMP, available_threads());
#else
  info.openmp = "no";
#endif
  info.kokkos = kernel_in_build("kokkos");
  info.mkl = kernel_in_build("mkl");
  info.metis = metis_in_build();
  info.hypre = hypre_in_build();
#if defined(PROTEAN_HAVE_CUDA)
  info.cuda = fmt::format("yes, {} GPUs here", Context::device_count());
#else
  info.cuda = "no (built without CUDA)";
#endif
  return info;
}

MachineInfo machine_info() {
  MachineInfo info;
  info.cpu = value_in("/proc/cpuinfo", "model name");
  if (info.cpu.empty()) info.cpu = "unknown";
  utsname name{};
  if (uname(&name) == 0) info.system = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  info.cores = available_threads();
  info.memory_bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return info;
}

std::string gpu_name() {
#if defined(PROTEAN_HAVE_CUDA)
  const std::vector<std::string> gpus = device::driver_state().gpus;
  return gpus.empty() ? std::string() : gpus.front().substr(0, gpus.front().find(','));
#else
  return {};
#endif
}

std::size_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

std::string version_text() {
  const BuildInfo info = build_info();
  return fmt::format(
      "protean {}\n"
      "  compiler  {}, {}\n"
      "  SIMD      {} (here: {})\n"
      "  OpenMP    {}\n"
      "  Kokkos    {}\n"
      "  MKL       {}\n"
      "  METIS     {}\n"
      "  hypre     {}\n"
      "  CUDA      {}\n"
      "  formats   {}",
      info.version, info.compiler, info.build_type, fmt::join(info.simd_targets, ", "), info.simd_chosen,
      info.openmp, info.kokkos, info.mkl, info.metis, info.hypre, info.cuda, catalogue().size());
}

}  // namespace protean::apps
