// MGPU-CSR: what host and device share. The head of mgpu_csr.cpp describes the arrays. Private to formats/.
#pragma once
#include "formats/engines/runs/runs.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

constexpr int most_code_threads = 128, most_code_values = 13;
constexpr std::uint32_t limit_row = 0x7fffffffu, limit_open = 0x80000000u;

struct CodeShape {
  int threads, values;  // of a tile; of a thread
  PROTEAN_HOST_DEVICE std::int64_t entries() const { return std::int64_t{threads} * values; }
  std::int64_t tiles(std::int64_t nonzeros) const { return (nonzeros + entries() - 1) / entries(); }
};
inline CodeShape usual_code_shape(std::size_t value_bytes) {
  return {most_code_threads, value_bytes == 8 ? 7 : 11};
}
inline CodeShape code_shape(const FormatParams& params, std::size_t value_bytes) {
  const auto threads = static_cast<int>(params.integer("threads")),
             values = static_cast<int>(params.integer("values"));
  const CodeShape usual = usual_code_shape(value_bytes);
  return {threads > 0 ? threads : usual.threads, values > 0 ? values : usual.values};
}

// The fields of a thread's code.
PROTEAN_HOST_DEVICE inline std::uint32_t thread_code(std::uint32_t ends, int since, std::int64_t index) {
  return ends | static_cast<std::uint32_t>(since) << 13 | static_cast<std::uint32_t>(index) << 20;
}
PROTEAN_HOST_DEVICE inline std::uint32_t code_ends(std::uint32_t code) { return code & 0x1fffu; }
PROTEAN_HOST_DEVICE inline int code_since(std::uint32_t code) { return static_cast<int>(code >> 13 & 0x7fu); }
PROTEAN_HOST_DEVICE inline int code_index(std::uint32_t code) {
  return static_cast<int>(code >> 20 & 0x7ffu);
}

// Rows without entries are not counted. number[r]: the rows with entries before row r; null when all rows have entries.
struct UsedRows {
  const std::int32_t* number;
  PROTEAN_HOST_DEVICE std::int64_t operator()(std::int64_t r) const { return number ? number[r] : r; }
};

// limits[tile], for tile = 0 .. tiles. There is an entry.
template <class Pointers>
PROTEAN_HOST_DEVICE inline std::uint32_t limit_of(const Pointers& row_ptr, std::int64_t rows,
                                                  std::int64_t nonzeros, UsedRows used,
                                                  const CodeShape& shape, std::int64_t tile) {
  const std::int64_t k = tile * shape.entries();
  if (k >= nonzeros) return static_cast<std::uint32_t>(used(rows));
  const std::int64_t row = row_with(row_ptr, 0, rows - 1, k);
  return static_cast<std::uint32_t>(used(row)) | (row_ptr[row] < k ? limit_open : 0u);
}

// The code of a thread of a tile.
template <class Pointers>
PROTEAN_HOST_DEVICE inline std::uint32_t code_of(const Pointers& row_ptr, std::int64_t rows,
                                                 std::int64_t nonzeros, UsedRows used, const CodeShape& shape,
                                                 std::int64_t tile, int thread) {
  const std::int64_t begin = tile * shape.entries(), first_row = row_with(row_ptr, 0, rows - 1, begin);
  const std::int64_t k = begin + std::int64_t{thread} * shape.values;
  std::int64_t row = k < nonzeros ? row_with(row_ptr, first_row, rows - 1, k) : rows;
  const std::int64_t index = used(row) - used(first_row);
  std::uint32_t ends = 0;
  for (int j = 0; j < shape.values && k + j < nonzeros; ++j) {
    if (row_ptr[row + 1] != k + j + 1) continue;
    ends |= 1u << j;
    if (k + j + 1 < nonzeros) row = row_with(row_ptr, row + 1, rows - 1, k + j + 1);
  }
  // The row that is open at the end of the thread began right after the last row end.
  const std::int64_t open = row < rows ? row_ptr[row] : nonzeros;
  const int since = ends            ? 0
                    : open <= begin ? thread
                                    : thread - static_cast<int>((open - 1 - begin) / shape.values);
  return thread_code(ends, since, index);
}

inline std::size_t code_bytes(const SparsityPattern& pattern, const CodeShape& shape, std::int64_t empty_rows,
                              std::size_t value_bytes) {
  const std::int64_t tiles = shape.tiles(pattern.nonzeros);
  return pattern.bytes() + static_cast<std::size_t>(pattern.nonzeros) * value_bytes +
         static_cast<std::size_t>(4 * (tiles + 1) + 4 * tiles * shape.threads +
                                  (empty_rows > 0 ? 4 * (pattern.rows - empty_rows) : 0));
}

}  // namespace protean::formats
