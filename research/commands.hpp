// The commands of the program protean-research, each next to the system that it runs.
#pragma once
#include <string>

#include "apps/command/program.hpp"
#include "core/context.hpp"

namespace protean::research {

apps::Action add_list(CLI::App& command);
apps::Action add_source(CLI::App& command);
apps::Action add_run(CLI::App& command);
apps::Action add_tune(CLI::App& command);
apps::Action add_across(CLI::App& command);
apps::Action add_reproduce(CLI::App& command);

// Throws BadArgument for another word than host and device.
Space space_of(const std::string& word);

}  // namespace protean::research
