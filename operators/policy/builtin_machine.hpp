// The built-in machine tables and their text. Private to the library.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/policy/cost_model.hpp"

namespace protean {

// Reads a machine table of lines whose fields are separated by tabs:
//   machine  TEXT                                                once
//   few      host|device  likely|rare  FORMAT FORMAT...          see FewFormats
//   matrix   NAME  host|device  ROWS  NONZEROS  ROW_CHANGES      ROW_CHANGES: -1 if unknown
//   format   NAME  BYTES  SECONDS_OF_A_PRODUCT  SECONDS_OF_A_CONVERSION_FROM_CSR
// The formats of a matrix follow it. Empty lines and lines that begin with # mean nothing. Throws BadFile, which
// names `file` and the line.
// With `only`, the matrices of the other space and their formats are passed over without a look at their fields; so are
// the formats that are not `wanted`.
using WantedFormat = std::function<bool(std::string_view format)>;
MachineTable parse_machine_lines(std::string_view text, std::string_view file,
                                 std::optional<Space> only = std::nullopt, const WantedFormat& wanted = {});

// The storage formats of a table that are worth a look, as CostModel chooses them: formats for any solve, and formats
// that only long solves have time for. They stand in the built-in tables, so that a caller who asks for these alone
// need not read the times of all.
struct FewFormats {
  std::vector<std::string> likely, rare;
};

// The hosts that were measured: products of the formats compare differently with other vector instructions, and also on
// AMD and Intel with AVX-512 (docs/results/choice.md). What was not measured on the hosts with their own files is from
// builtin_machine.tsv: GPU, element matrices.
enum class BuiltinHost {
  avx512,      // Intel: builtin_machine.tsv
  amd_avx512,  // builtin_amd_avx512.tsv
  avx2         // AMD: builtin_avx2.tsv
};

// The table of a host.
const MachineTable& builtin_machine(BuiltinHost host);
// Its matrices of one space. It is read again without the other space, so that a caller who asks about a host need not
// wait for the times of GPUs.
MachineTable builtin_machine(BuiltinHost host, Space only, const WantedFormat& wanted = {});
FewFormats builtin_few(BuiltinHost host, Space space);
// The host that is like this processor: avx2 if Highway does not find AVX-512, else amd_avx512 for a processor of
// AMD and avx512 for any other.
BuiltinHost builtin_host();

}  // namespace protean
