// Threads, memory and folders.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "apps/command/build_info.hpp"
#include "apps/doctor/findings.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "core/processors.hpp"
#include "core/words.hpp"

extern char** environ;

namespace protean::apps {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

std::string processors(int count) {
  return fmt::format("{} {}", count, count == 1 ? "processor" : "processors");
}

// Why no file can be written into this folder; empty if one was, which is removed again.
std::string refused_by(const std::string& folder) {
  std::string name = folder + "/protean-doctor-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) return std::strerror(errno);
  constexpr std::size_t bytes = std::size_t{64} << 10;
  const std::string zeros(bytes, '\0');
  std::size_t written = 0;
  std::string why;
  while (written < bytes && why.empty()) {
    const ssize_t some = ::write(file, zeros.data() + written, bytes - written);
    if (some > 0)
      written += static_cast<std::size_t>(some);
    else if (some == 0 || errno != EINTR)
      why = some == 0 ? "nothing more is written" : std::strerror(errno);
  }
  if (::close(file) != 0 && why.empty()) why = std::strerror(errno);
  (void)::unlink(name.c_str());
  return why;
}

}  // namespace

std::string_view to_string(Health health) noexcept {
  return health == Health::ok ? "ok" : health == Health::warning ? "warning" : "fault";
}

ThreadFacts thread_facts() {
  ThreadFacts facts;
  facts.threads = available_threads();
  facts.online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.affinity = detail::ProcessorSet::usable().count();
  facts.quota = detail::quota_processors();
  if (const char* const asked = std::getenv("OMP_NUM_THREADS")) facts.asked = asked;
  for (char** one = environ; *one; ++one) {
    const std::string_view text = *one;
    const std::string_view name = text.substr(0, text.find('='));
    if (name == "OMP_NUM_THREADS" || name.size() == text.size()) continue;
    for (const std::string_view prefix : {"OMP_", "GOMP_", "KMP_", "MKL_NUM_"})
      if (name.starts_with(prefix)) facts.variables.emplace_back(name, text.substr(name.size() + 1));
  }
  return facts;
}

Finding finding_of(const ThreadFacts& f) {
  Finding found{"threads", Health::ok, {}, {}};
  const int usable = f.quota > 0 && f.quota < f.affinity ? f.quota : f.affinity;
  std::string& text = found.text;
  text = fmt::format("{} {} on {}", f.threads, f.threads == 1 ? "thread" : "threads", processors(usable));
  if (f.affinity < f.online) text += fmt::format("; affinity permits {} of {}", f.affinity, f.online);
  if (f.quota > 0 && f.quota < f.affinity)
    text += fmt::format("; the control group grants the time of {}", f.quota);
  if (f.asked) text += fmt::format("; OMP_NUM_THREADS={}", *f.asked);
  for (const auto& [name, value] : f.variables) text += fmt::format("; {}={}", name, value);
  const auto warn = [&](const std::string& why, const std::string& advice) {
    found.health = Health::warning;
    found.advice += fmt::format("{}{}: {}.", found.advice.empty() ? "" : " ", why, advice);
  };
  if (f.threads > usable)
    warn(fmt::format("{} threads share {}, wait for each other, and a solve may take many times as long",
                     f.threads, processors(usable)),
         fmt::format("set OMP_NUM_THREADS={}, or unset it", usable));
  if (f.asked && detail::first_number_of_threads(f.asked->c_str()) == 0)
    warn(fmt::format("OMP_NUM_THREADS is '{:.50}', which is not a number of threads, and is ignored",
                     *f.asked),
         "set it to a whole number above 0, or unset it");
  if (f.affinity == 1 && f.online > 1)
    warn(fmt::format("this process may run on 1 of {} processors", f.online),
         "taskset, numactl, a batch system, OMP_PROC_BIND or OMP_PLACES chose that one; ask them for more");
  return found;
}

MemoryFacts memory_facts() { return {machine_info().memory_bytes, available_memory()}; }

Finding finding_of(const MemoryFacts& f) {
  Finding found{"memory", Health::ok, {}, {}};
  constexpr std::size_t scarce = 1024 * mebibyte, none = 64 * mebibyte;
  found.text = f.available == unlimited_memory
                   ? human_bytes(f.total)
                   : fmt::format("{} of {} available", human_bytes(f.available), human_bytes(f.total));
  if (f.available >= scarce) return found;
  found.health = f.available < none ? Health::fault : Health::warning;
  found.advice =
      "Only small problems fit: end other programs, raise the limit of the container or of `ulimit -v`, or take "
      "a machine with more memory.";
  return found;
}

FolderFacts folder_facts(std::string name, std::string path, std::string used_by) {
  FolderFacts facts{std::move(name), std::move(path), std::move(used_by)};
  facts.why_not = refused_by(facts.path);
  struct statvfs system {};
  if (statvfs(facts.path.c_str(), &system) == 0)
    facts.free = static_cast<std::size_t>(system.f_bavail) * static_cast<std::size_t>(system.f_frsize);
  return facts;
}

Finding finding_of(const FolderFacts& f) {
  Finding found{f.name, Health::ok, fmt::format("{}, {} free", f.path, human_bytes(f.free)), {}};
  constexpr std::size_t scarce = 100 * mebibyte;
  if (!f.why_not.empty()) {
    found.health = Health::fault;
    found.text = fmt::format("{}: no file can be written there: {}", f.path, f.why_not);
    found.advice =
        fmt::format("It is for {}: make space or allow writing there, or take another folder.", f.used_by);
  } else if (f.free < scarce) {
    found.health = Health::warning;
    found.advice = fmt::format("Little space is left for {}: make some, or take another folder.", f.used_by);
  }
  return found;
}

}  // namespace protean::apps
