// GPUs, MPI and the machine table.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "apps/command/build_info.hpp"
#include "apps/command/launch.hpp"
#include "apps/doctor/findings.hpp"
#include "apps/machine/shared_table.hpp"
#include "core/error.hpp"
#include "core/words.hpp"
#if defined(PROTEAN_HAVE_CUDA)
#include "core/device/driver.hpp"
#endif

extern char** environ;

namespace protean::apps {
namespace {

struct Ran {
  int code = -1;       // 128 + signal; -1: it did not start
  std::string output;  // both streams
};

// Runs a program without a shell for at most ten seconds.
Ran run_for_output(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {-1, std::strerror(errno)};
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Ran ran;
  if (error != 0) {
    ::close(ends[0]);
    return {-1, std::strerror(error)};
  }
  constexpr std::size_t most = std::size_t{1} << 16;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (std::array<char, 4096> piece{}; ran.output.size() < most;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd waiting{ends[0], POLLIN, 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      ::kill(child, SIGKILL);
      ran.output += " (it did not end within 10 seconds)";
      break;
    }
    const ssize_t count = ::read(ends[0], piece.data(), piece.size());
    if (count <= 0) break;
    ran.output.append(piece.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

std::string first_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n\t"), text.size()));
  return std::string(text.substr(0, text.find('\n')));
}

// As a shell finds it.
std::string on_path(std::string_view program) {
  const char* const path = std::getenv("PATH");
  for (const std::string_view folder : split(path ? path : "", ':')) {
    const std::string file = fmt::format("{}{}{}", folder, folder.empty() ? "./" : "/", program);
    std::error_code error;
    if (access(file.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(file, error)) return file;
  }
  return {};
}

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// MPICH and those that start its programs are one family.
std::string_view mpi_family(std::string_view text) {
  for (const auto& [mark, family] : {std::pair<std::string_view, std::string_view>{"Open MPI", "Open MPI"},
                                     {"OpenRTE", "Open MPI"},
                                     {"PRTE", "Open MPI"},
                                     {"MPICH", "MPICH"},
                                     {"HYDRA", "MPICH"},
                                     {"Intel(R) MPI", "MPICH"},
                                     {"MVAPICH", "MPICH"}})
    if (text.find(mark) != std::string_view::npos) return family;
  return {};
}

}  // namespace

GpuFacts gpu_facts(const std::string& root) {
  GpuFacts facts;
  std::ifstream file(root + "/proc/driver/nvidia/version");
  // NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 ...
  if (std::string line; std::getline(file, line)) {
    facts.kernel_driver = "of unknown version";
    for (const std::string_view word : split(line, ' '))
      if (!word.empty() && word.find_first_not_of("0123456789.") == std::string_view::npos &&
          word.find('.') != std::string_view::npos)
        facts.kernel_driver = word;
  }
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible = visible;
#if defined(PROTEAN_HAVE_CUDA)
  facts.in_build = true;
  device::DriverState state = device::driver_state();
  facts.runtime = state.runtime, facts.driver = state.driver;
  facts.error = std::move(state.error), facts.gpus = std::move(state.gpus);
#endif
  return facts;
}

Finding finding_of(const GpuFacts& f) {
  Finding found{"GPU", Health::ok, {}, {}};
  const auto say = [&](Health health, std::string text, std::string advice) {
    found.health = health, found.text = std::move(text), found.advice = std::move(advice);
    return found;
  };
  const std::string driver = f.kernel_driver.empty() ? "no NVIDIA driver is loaded"
                                                     : fmt::format("NVIDIA driver {}", f.kernel_driver);
  if (!f.in_build)
    return f.kernel_driver.empty()
               ? say(Health::ok, fmt::format("not used: {}, and this build has no GPU code", driver), "")
               : say(Health::warning, fmt::format("{} is loaded, but this build has no GPU code", driver),
                     "To solve on the GPU, build with -DPROTEAN_CUDA=ON (CUDA Toolkit 12 or newer; preset "
                     "cuda-release).");
  const std::string versions = fmt::format("this build needs CUDA {}", cuda_version(f.runtime));
  if (f.error.empty())
    return say(Health::ok,
               fmt::format("{}; {}, which supports CUDA {}; {}", fmt::join(f.gpus, "; "), driver,
                           cuda_version(f.driver), versions),
               "");
  if (f.driver > 0 && f.driver < f.runtime)
    return say(
        Health::fault,
        fmt::format("no device: the driver is too old: it supports CUDA {}, and {}", cuda_version(f.driver),
                    versions),
        fmt::format("Install a driver of CUDA {} or newer, or build with a CUDA Toolkit that the driver "
                    "supports. Until then solve with operator.space: host.",
                    cuda_version(f.runtime)));
  if (f.visible && (f.visible->empty() || f.visible->find_first_of("0123456789") == std::string::npos ||
                    f.visible->starts_with('-')))
    return say(Health::warning,
               fmt::format("no device: CUDA_VISIBLE_DEVICES='{:.50}' hides all GPUs", *f.visible),
               "Unset CUDA_VISIBLE_DEVICES, or name a GPU, such as 0.");
  if (f.driver == 0 && f.kernel_driver.empty())
    return say(
        Health::warning, fmt::format("no device: {} ({})", driver, f.error),
        "On a machine without a GPU this is as it should be: solve with operator.space: host. Otherwise "
        "install the driver, or start the container with the GPUs (docker run --gpus all).");
  return say(
      Health::fault, fmt::format("no device: {} ({}); {}", f.error, driver, versions),
      "Check nvidia-smi; in a container, start it with the GPUs (docker run --gpus all); after an update of "
      "the driver, restart the machine.");
}

MpiFacts mpi_facts() {
  MpiFacts facts;
  facts.ranks = program_beside("protean-ranks");
  if (!facts.ranks.empty()) {
    Ran ran = run_for_output({facts.ranks, "--mpi"});
    (ran.code == 0 ? facts.library : facts.why_not) = std::move(ran.output);
    if (ran.code != 0 && facts.why_not.empty())
      facts.why_not = fmt::format("it ends with exit code {}", ran.code);
  }
  facts.mpirun = on_path("mpirun");
  if (!facts.mpirun.empty() && !facts.ranks.empty())
    facts.mpirun_says = run_for_output({facts.mpirun, "--version"}).output;
  return facts;
}

Finding finding_of(const MpiFacts& f) {
  Finding found{"MPI", Health::ok, {}, {}};
  const auto say = [&](Health health, std::string text, std::string advice) {
    found.health = health, found.text = std::move(text), found.advice = std::move(advice);
    return found;
  };
  if (f.ranks.empty())
    return say(Health::ok, "not used: protean-ranks, which solves on several ranks with PETSc, is not there",
               "");
  if (!f.why_not.empty())
    return say(
        Health::fault, fmt::format("{} does not start: {}", f.ranks, first_line(f.why_not)),
        "Install the PETSc and the MPI with which it was built, or build it again with those that are here.");
  const std::string library = first_line(f.library);
  if (f.mpirun.empty())
    return say(Health::warning, fmt::format("{}; no mpirun on PATH", library),
               "Install the launcher of that MPI (Debian, Ubuntu: openmpi-bin), or add its folder to PATH.");
  const std::string_view of_library = mpi_family(f.library), of_launcher = mpi_family(f.mpirun_says);
  if (!of_library.empty() && !of_launcher.empty() && of_library != of_launcher)
    return say(
        Health::fault,
        fmt::format("{} is of {}, but protean-ranks is linked with {} ({})", f.mpirun, of_launcher,
                    of_library, library),
        fmt::format("Each process would solve alone: call the mpirun of {}, or put its folder first in PATH.",
                    of_library));
  if (of_library.empty() || of_launcher.empty())
    return say(
        Health::warning, fmt::format("{}; {} says '{:.80}'", library, f.mpirun, first_line(f.mpirun_says)),
        "It is not known whether this mpirun is of that MPI: `mpirun -n 2 protean solve P.yaml` must say 2 "
        "ranks.");
  return say(Health::ok, fmt::format("{}; {}", library, f.mpirun), "");
}

TableFacts table_facts() {
  TableFacts facts;
  facts.here = fmt::format("{}, {} threads", machine_info().cpu, machine_info().cores);
  const char* const named = std::getenv("PROTEAN_MACHINE");
  facts.path = named ? named : "";
  try {
    const ChosenMachine machine = choose_machine({});
    if (!machine.own) return facts;
    facts.path = machine.from;
    facts.machine = machine.own->machine;
    facts.days = days_since(machine.own->origin.date);
  } catch (const Error& error) { facts.error = error.what(); }
  facts.writable = !named || access(facts.path.c_str(), W_OK) == 0;
  return facts;
}

Finding finding_of(const TableFacts& f) {
  Finding found{"machine table", Health::ok, {}, {}};
  constexpr double old = 365;
  if (!f.error.empty()) {
    found.health = Health::fault, found.text = f.error;
    found.advice = "Unset PROTEAN_MACHINE, or let `protean tune -o FILE` write a new table.";
    return found;
  }
  if (f.path.empty()) {
    found.text =
        "built in, of another machine; `protean tune -o machine.yaml` and PROTEAN_MACHINE=machine.yaml make "
        "predictions fit this one";
    return found;
  }
  found.text =
      fmt::format("{}: of {}{}{}", f.path, f.machine.empty() ? "an unnamed machine" : f.machine,
                  f.days ? fmt::format(", {:.0f} days old", *f.days) : "", f.writable ? "" : ", read-only");
  const auto processor = [](const std::string& machine) { return machine.substr(0, machine.find(',')); };
  if (processor(f.machine) != processor(f.here)) {
    found.health = Health::warning;
    found.advice = fmt::format(
        "It is the table of another processor; this one is {}: measure it with `protean tune "
        "-o FILE`.",
        processor(f.here));
  } else if (!f.writable) {
    found.health = Health::warning;
    found.advice = "`protean tune` cannot extend it: allow writing, or copy it to a folder of yours.";
  } else if (f.days && *f.days > old) {
    found.health = Health::warning;
    found.advice =
        "Compilers, drivers and this library have changed since: measure again with `protean tune -o FILE`.";
  }
  return found;
}

}  // namespace protean::apps
