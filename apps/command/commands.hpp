// The commands of the program `protean`.
#pragma once
#include <span>

#include "apps/command/program.hpp"

namespace protean::apps {

struct SolveArguments;

std::span<const Command> protean_commands() noexcept;

// `solve` calls this in place of apps::solve(): in the program protean-ranks.
void solve_by(int (*solve)(const SolveArguments& arguments)) noexcept;

}  // namespace protean::apps
