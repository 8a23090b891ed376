// The machine table as a file: what `protean tune` writes and `schedule: {policy: auto, machine: FILE}`
// reads.
#pragma once
#include <string>

#include "operators/cost_model.hpp"

namespace protean::apps {

// YAML, one line a format: [name, bytes, seconds of a product, seconds of a conversion from csr].
std::string machine_text(const MachineTable& table);

// Throws BadFile with line and column for anything that is not such a table.
MachineTable parse_machine(std::string_view text, const std::string& file);
MachineTable read_machine(const std::string& file);

// The table to predict with: of `file`; when that is empty, of the file that the environment variable
// PROTEAN_MACHINE names; else the one built in. A space that a file says nothing about is taken from the one
// built in.
struct ChosenMachine {
  MachineTable table;
  std::string from;  // "built in", or the file
};
ChosenMachine choose_machine(const std::string& file);

}  // namespace protean::apps
