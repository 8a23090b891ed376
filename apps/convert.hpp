// `protean convert`.
#pragma once
#include <string>

#include "core/csr.hpp"

namespace protean::apps {

// Reads a matrix (.mtx, .mtx.gz, .mtx.xz, .pbin, told by its first bytes) and writes it in the form the name
// `to` ends in, values times `scale`. Throws BadArgument for another ending, for a scale of 0, or when both
// are the same file.
void convert(const std::string& from, const std::string& to, double scale, int threads, bool quiet);

// Throws BadArgument for an ending that names no matrix format.
void require_matrix_name(const std::string& path);
// In the format that the name's ending says; the comment goes into text files.
void write_matrix(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                  const std::string& comment = {});

}  // namespace protean::apps
