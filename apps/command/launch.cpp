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

std::string ranks_program() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  for (const char* const place : {"protean-ranks", "../libexec/protean/protean-ranks"}) {
    const std::filesystem::path program = (self.parent_path() / place).lexically_normal();
    if (access(program.c_str(), X_OK) == 0) return program.string();
  }
  return {};
}

void become_ranks(char** arguments) {
  const std::string program = ranks_program();
  if (program.empty())
    throw NotAvailable(
        "engine petsc, which solves on several ranks, is the program protean-ranks. It is not there: it is "
        "built where "
        "PETSc is found. Install PETSc with its MPI (Debian: petsc-dev, openmpi-bin), and configure and "
        "build again "
        "with -DPROTEAN_PETSC=ON. Without mpirun, `engine: protean` solves on one rank");
  execv(program.c_str(), arguments);
  throw NotAvailable(fmt::format("'{}' cannot be started: {}", program, std::strerror(errno)));
}

}  // namespace protean::apps
