// The command with a made-up table of a machine.
#pragma once
#include "support/command.hpp"

namespace protean::test {

class SmallRules : public CommandTest {
 protected:
  // One matrix on which csr takes 1 ms a product and dia half of it after a conversion of 50 ms.
  void write_machine() {
    write("machine.yaml",
          "machine: \"made up\"\nmatrices:\n"
          "  - {matrix: \"m\", space: host, rows: 3600, nonzeros: 17760, formats: "
          "[[csr, 227524, 1.0e-3, 0], [dia, 144020, 0.5e-3, 5.0e-2]]}\n");
  }
};

}  // namespace protean::test
