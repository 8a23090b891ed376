// The machine table as a file. `protean tune` writes it, `schedule: {policy: auto, machine: FILE}` reads it.
#pragma once
#include <string>

#include "operators/policy/cost_model.hpp"

namespace protean::apps {

// YAML with a line for each format: [name, bytes, seconds of a product, seconds of a conversion from csr].
std::string machine_text(const MachineTable& table);

// Throw BadFile, with line and column, for a text that is not such a table.
MachineTable parse_machine(std::string_view text, const std::string& file);
MachineTable read_machine(const std::string& file);

// The table that predictions use: that of `file`; for an empty name, that of the file which the environment
// variable PROTEAN_MACHINE names; without both, the built-in table. If a file has no matrix of a space, the
// built-in table is used for that space.
struct ChosenMachine {
  MachineTable table;
  std::string from;  // "built in", or the path of the file
};
ChosenMachine choose_machine(const std::string& file);

}  // namespace protean::apps
