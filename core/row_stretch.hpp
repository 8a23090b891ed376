// Matrices passed in stretches of rows, so that a matrix need not be in memory as a whole.
#pragma once
#include <cstdint>

#include <protean/core/csr.hpp>
#include <protean/core/export.hpp>

namespace PROTEAN_EXPORT protean {

// `rows` consecutive rows of a matrix, from row `first` on. Row first + i has the entries row_ptr[i] ..
// row_ptr[i+1] - 1, counted as `row_ptr[0]` says; col and values point at the first of the stretch, that is
// at entry row_ptr[0]. Valid during the call only.
struct RowStretch {
  std::int64_t first = 0, rows = 0;
  RowPointers row_ptr;
  const std::int32_t* col = nullptr;
  const double* values = nullptr;

  std::int64_t entries() const noexcept { return row_ptr[rows] - row_ptr[0]; }
};

// A consumer of such a matrix: begin() once, then take() for consecutive stretches without a gap, until all
// rows have been passed.
class RowReceiver {
 public:
  virtual ~RowReceiver() = default;
  virtual void begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) = 0;
  virtual void take(const RowStretch& stretch) = 0;
};

}  // namespace protean
