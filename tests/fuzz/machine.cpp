// Machine tables, as `protean tune` writes them. A table that is read gives a text from which the same table is read.
#include <array>

#include "apps/machine/machine_file.hpp"
#include "fuzz/mutate.hpp"
#include "fuzz/read.hpp"

namespace protean::fuzz {
namespace {

void run(Bytes input) {
  const auto table = read_or_refuse([&] { return apps::parse_machine(input, "machine.yaml"); });
  if (!table) return;
  const std::string text = apps::machine_text(*table);
  const auto again = read_or_refuse([&] { return apps::parse_machine(text, "again.yaml"); });
  if (!again) broken("a table that was read cannot be written and read");
  if (again->matrices.size() != table->matrices.size()) broken("matrices are lost");
  for (std::size_t i = 0; i < table->matrices.size(); ++i) {
    const MeasuredMatrix &one = table->matrices[i], &other = again->matrices[i];
    if (one.matrix != other.matrix || one.rows != other.rows || one.nonzeros != other.nonzeros ||
        one.formats.size() != other.formats.size())
      broken("a table changes when it is written and read");
  }
}

constexpr std::array<std::string_view, 20> words = {"machine: ",
                                                    "matrices:\n",
                                                    "  - matrix: ",
                                                    "    space: host\n",
                                                    "    space: device\n",
                                                    "    rows: ",
                                                    "    nonzeros: ",
                                                    "    row_changes: ",
                                                    "    formats:\n",
                                                    "      - [csr, 1, 1e-6, 0]\n",
                                                    "[",
                                                    "]",
                                                    "csr",
                                                    "1e-12",
                                                    "9007199254740992",
                                                    "1e6",
                                                    "\"",
                                                    "\\",
                                                    "\n",
                                                    "0.5"};

std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return mutate_words(data, size, most, seed, words);
}

}  // namespace

extern const Target machine{"machine", run, mutate};

}  // namespace protean::fuzz
