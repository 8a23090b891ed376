// Private: what a file of a matrix states at its beginning.
#pragma once
#include <cstdint>
#include <string>

namespace protean::io_detail {

struct MatrixHead {
  std::string form;  // "Matrix Market, symmetric"
  std::int64_t rows = 0, cols = 0;
  std::int64_t entries = 0;  // in the file: of a symmetric matrix one triangle
};

// Reads the header of a file that read_matrix() takes, and nothing behind it; of a pipe that is gone then. Throws
// BadFile for what read_matrix() refuses in the header.
MatrixHead read_matrix_head(const std::string& path);

}  // namespace protean::io_detail
