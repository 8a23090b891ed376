// The rule of sell-packed that host and device share. Private to this folder.
#pragma once
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

// Refuses more than 4 stored values an entry.
Admission admit_stored(const SparsityPattern& pattern, std::int64_t stored, int height, std::size_t bytes);

}  // namespace protean::formats
