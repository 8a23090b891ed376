// What smoothed aggregation keeps of a level for new values of the same pattern. Private to preconditioners/.
#pragma once
#include <cstddef>
#include <string>

namespace protean::detail {

// Couplings, aggregates and patterns, which depend on the values of a level only through its strong couplings. Each
// side derives its own.
struct LevelStructure {
  // Which patterns the matrices of the levels hold and count themselves.
  struct Shared {
    bool host_matrices =
        false;  // P and R, and a coarse matrix in csr, lie in host memory as the structure does
    bool coarse_matrix = false;  // there is a matrix of the next level
  };
  LevelStructure() = default;
  LevelStructure(const LevelStructure&) = delete;
  LevelStructure& operator=(const LevelStructure&) = delete;
  virtual ~LevelStructure() = default;
  virtual std::size_t bytes(Shared shared) const noexcept = 0;

  std::string format, format_of_P, format_of_R;  // `format` is the format of the coarse matrix
};

}  // namespace protean::detail
