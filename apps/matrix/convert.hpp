// `protean convert`.
#pragma once
#include <string>

#include "core/csr.hpp"

namespace protean::apps {

// Reads a matrix (.mtx, .mtx.gz, .mtx.xz or .pbin; its first bytes decide), multiplies its values by `scale`
// and writes it to `to`, whose ending decides the file format. A text file of a symmetric matrix has `symmetric` in its
// header and the lower triangle. Throws BadArgument for another ending, for a
// scale of 0, and when both are the same file.
void convert(const std::string& from, const std::string& to, double scale, int threads, bool quiet);

// Throws BadArgument unless the name ends in .mtx, .mtx.gz, .mtx.xz or .pbin, or is `-`, the standard output, which gets
// the text of a .mtx file.
void require_matrix_name(const std::string& path);
// Writes the file format of the name's ending. Text files contain the comment, and the lower triangle where the matrix
// is symmetric.
void write_matrix(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                  const std::string& comment = {});

}  // namespace protean::apps
