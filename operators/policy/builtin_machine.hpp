// The text of builtin_machine.tsv. Private to the room.
#pragma once
#include <string_view>

#include "operators/policy/cost_model.hpp"

namespace protean {

// Reads a machine table of lines whose fields are separated by tabs:
//   machine  TEXT                                                once
//   matrix   NAME  host|device  ROWS  NONZEROS  ROW_CHANGES      ROW_CHANGES: -1 if unknown
//   format   NAME  BYTES  SECONDS_OF_A_PRODUCT  SECONDS_OF_A_CONVERSION_FROM_CSR
// The formats of a matrix follow it. Empty lines and lines that begin with # mean nothing. Throws BadFile, which
// names `file` and the line.
MachineTable parse_machine_lines(std::string_view text, std::string_view file);

}  // namespace protean
