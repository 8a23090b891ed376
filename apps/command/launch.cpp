#include "apps/command/launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/error.hpp"

namespace protean::apps {
namespace {

// A whole number in the environment; -1 without.
int number_of(const char* name) noexcept {
  const char* const text = std::getenv(name);
  if (!text) return -1;
  int value = -1;
  const char* const end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  return error == std::errc() && at == end ? value : -1;
}

std::filesystem::path this_program() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : self;
}

// What builds protean-ranks where this command looks for it.
std::string how_to_build() {
  const std::filesystem::path folder = this_program().parent_path();
  if (folder.filename() == "bin")
    return fmt::format("`make install PREFIX={}`", folder.parent_path().string());
  return "`cmake --preset cpu-release` and `cmake --build --preset cpu-release --target protean_ranks`, or "
         "`make install PREFIX=FOLDER` for a command that is installed";
}

[[noreturn]] void become(const std::string& program, char** arguments) {
  execv(program.c_str(), arguments);
  throw NotAvailable(fmt::format("'{}' cannot be started: {}", program, std::strerror(errno)));
}

}  // namespace

Launch launch_of_environment() noexcept {
  constexpr const char* names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},  // Open MPI
                                      {"PMI_RANK", "PMI_SIZE"},                          // MPICH, Intel MPI
                                      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};         // srun with PMIx
  for (const auto& [rank, count] : names)
    if (const Launch launch{number_of(rank), number_of(count)};
        launch.rank >= 0 && launch.count > launch.rank)
      return launch;
  return {};
}

std::string program_beside(const char* name) {
  const std::filesystem::path self = this_program();
  if (self.empty()) return {};
  for (const char* const folder : {".", "../libexec/protean"}) {
    const std::filesystem::path program = (self.parent_path() / folder / name).lexically_normal();
    if (access(program.c_str(), X_OK) == 0) return program.string();
  }
  return {};
}

std::string ranks_program() {
  std::string program = program_beside("protean-ranks");
  if (program.empty())
    throw NotAvailable(fmt::format(
        "engine petsc, which solves on several ranks, is the program protean-ranks. It is not there: it is "
        "built where PETSc is found. In this order: 1. install PETSc 3.18 or later with its MPI (Debian, "
        "Ubuntu: apt-get install petsc-dev openmpi-bin); 2. in the folder of Protean's sources, {} (`make "
        "solve` does not build it; the option -DPROTEAN_PETSC=ON of cmake says why a PETSc is not taken); "
        "3. call this again. Without mpirun, `engine: protean` solves on one rank",
        how_to_build()));
  return program;
}

void become_ranks(char** arguments) { become(ranks_program(), arguments); }

void become_research(char** arguments) {
  const std::string program = program_beside("protean-research");
  if (program.empty())
    throw NotAvailable(
        "`protean reproduce` is a part of the program protean-research, which is not installed by default and is not "
        "there. In the folder of Protean's sources, `make research` builds it, and "
        "`make research-install PREFIX=FOLDER` puts it next to an installed command");
  become(program, arguments);
}

}  // namespace protean::apps
