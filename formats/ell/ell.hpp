// The rules of ell that host and device share. Private to this folder; ell.cpp opens with the layout.
#pragma once
#include "operators/assembled_matrix.hpp"

namespace protean::formats {

inline std::int64_t column_length(const SparsityPattern& pattern, const FormatParams& params) {
  const std::int64_t align = params.integer("align");
  return (pattern.rows + align - 1) / align * align;
}

Admission admit_columns(const SparsityPattern& pattern, std::int64_t longest, std::int64_t empty_rows,
                        const FormatParams& params, std::size_t value_bytes);

}  // namespace protean::formats
