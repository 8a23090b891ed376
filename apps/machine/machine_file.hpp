// The machine table as a file. `protean tune` writes it, `schedule: {policy: auto, machine: FILE}` reads it.
#pragma once
#include <optional>
#include <string>

#include "apps/machine/measure.hpp"
#include "operators/policy/cost_model.hpp"

namespace protean::apps {

// Where a table was measured, for those who use it elsewhere. Empty and 0: the file does not say.
struct TableOrigin {
  std::string processor = {}, gpu = {};  // as the system and CUDA call them
  int threads = 0;
  std::string version = {};  // of protean
  std::string date = {};     // of the last measurement, UTC: 2026-11-29
};

// Days since midnight UTC of a date such as 2026-11-29; empty for another text.
std::optional<double> days_since(const std::string& date);

// What the file has: the table, the roofs of this machine, one a space at most, and its origin.
struct TunedMachine : MachineTable {
  std::vector<MeasuredRoof> roofs = {};
  TableOrigin origin = {};
};

// YAML with a line for each format: [name, bytes, seconds of a product, seconds of a conversion from csr].
std::string machine_text(const TunedMachine& machine);

// Throw BadFile, with line and column, for a text that is not such a table.
TunedMachine parse_machine(std::string_view text, const std::string& file);
TunedMachine read_machine(const std::string& file);

// The roof of a space; null if it has no roof.
const MeasuredRoof* roof_of(const TunedMachine& machine, Space space);

// The table that predictions use: the table in `file`; for an empty name, in the file that the environment
// variable PROTEAN_MACHINE names; without both, a contributed table of this processor or GPU (contributed_table());
// without that, the built-in table. If a file has no matrix of a space, the built-in table is used for that space.
struct ChosenMachine {
  std::optional<TunedMachine> own;  // none: the built-in table, which is read when something is asked of it
  std::string from;                 // "built in", or the path of the file

  const MachineTable* table() const noexcept { return own ? &*own : nullptr; }  // null: the built-in one
  CostModel model(Space space) const { return model_of(table(), space); }
  // Null if the table has none, as the built-in one.
  const MeasuredRoof* roof(Space space) const { return own ? roof_of(*own, space) : nullptr; }
};
ChosenMachine choose_machine(const std::string& file);

}  // namespace protean::apps
