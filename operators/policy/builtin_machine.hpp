// The built-in machine tables and their text. Private to the library.
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

// The hosts that were measured: products of the formats compare differently with other vector instructions.
enum class BuiltinHost {
  avx512,  // builtin_machine.tsv
  avx2  // builtin_avx2.tsv; what that machine did not measure is from builtin_machine.tsv: GPU, element matrices
};

// The table of a host.
const MachineTable& builtin_machine(BuiltinHost host);
// The host whose vector instructions are those of this processor: avx512 where Highway finds AVX-512, else avx2.
BuiltinHost builtin_host();

}  // namespace protean
