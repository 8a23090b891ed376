// The rule of dia and hdi that host and device share. Private to this folder.
#pragma once
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// Admission of `diagonals` diagonals of `height` rows and `other` bytes. Refuses more than max_fill values an
// entry.
Admission admit_diagonals(std::int64_t diagonals, std::int64_t height, std::size_t other,
                          const SparsityPattern& pattern, const FormatParams& params,
                          std::size_t value_bytes);

}  // namespace protean::formats
