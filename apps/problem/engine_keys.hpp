// The keys that say who solves and where: engine, petsc_options, partition and operator.devices.
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

#include "apps/problem/problem_file.hpp"
#include "apps/problem/problem_keys.hpp"
#include "systems/part_system.hpp"

namespace protean::apps {

// operator.devices. op.space is known. Throws BadFile.
void read_devices(const KeySection& section, OperatorSpec& op);

// engine, petsc_options and partition. place: of the problem. Relative paths begin at `folder`. All other sections have
// been read. Throws BadFile.
void read_engine(const KeySection& top, const Place& place, const std::filesystem::path& folder,
                 Problem& problem);

// Throws BadFile for what a system over several devices does not serve, at the place of the key.
void require_served_by_devices(const Problem& problem);

// Throws BadFile if the problem asks for other devices than GPU 0. what: the command, which takes that one.
void require_one_device(const Problem& problem, std::string_view what);

// Throws BadFile for a partition that shares out nothing, since the solve is on one rank and the problem has no
// operator.devices.
void require_partition_in_use(const Problem& problem);

// Throws BadFile at the place of the setting; `otherwise` if it was not given.
[[noreturn]] void fail_at_setting(const Problem& problem, const detail::Unserved& unserved,
                                  const Place& otherwise);

// The GPUs of the solve, by number: number 0 without operator.devices. Throws NotAvailable for one that does not exist.
std::vector<int> devices_of(const Problem& problem);

}  // namespace protean::apps
