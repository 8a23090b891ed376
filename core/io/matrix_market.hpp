// Matrix Market text files: .mtx, .mtx.gz, .mtx.xz.
#pragma once
#include <cstdint>
#include <string>

#include <protean/core/csr.hpp>
#include <protean/core/vector.hpp>

namespace protean {

struct ReadOptions {
  Duplicates duplicates = Duplicates::sum;
  bool allow_not_finite = false;  // else NaN and Inf are BadFile with the line
};

// Coordinate or array, real, integer or pattern (values 1), general, symmetric or skew-symmetric; the other
// half of a symmetric file is filled in. Explicit zeros are kept. Complex and hermitian are refused.
// Compression is told by the file's first bytes, not its name. Parsed in parallel on the context's threads;
// peak memory at most 2.5 times the matrix returned. Throws BadFile with line and column; OutOfMemory when
// the sizes stated cannot fit.
CsrMatrix<double> read_matrix_market(const ContextPtr& context, const std::string& path,
                                     const ReadOptions& options = {});

// A vector: an array file of one column (or one row), or a coordinate file of one column.
Vector<double> read_vector_market(const ContextPtr& context, const std::string& path,
                                  const ReadOptions& options = {});

// Written to a temporary file beside `path` and renamed: there is a whole file or none. 17 digits, so that
// reading returns the same bits. Compressed when the name ends in .gz or .xz.
void write_matrix_market(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                         const std::string& comment = {});
void write_vector_market(const std::string& path, VectorView<const double> vector,
                         const std::string& comment = {});

// .mtx, .mtx.gz, .mtx.xz or .pbin, told by the file's first bytes.
CsrMatrix<double> read_matrix(const ContextPtr& context, const std::string& path,
                              const ReadOptions& options = {});

}  // namespace protean
