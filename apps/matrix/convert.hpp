// `protean convert`.
#pragma once
#include <string>

#include "core/csr.hpp"

namespace protean::apps {

struct ConvertArguments {
  std::string from, to;
  std::string order;        // empty: the rows keep their order
  std::string permutation;  // file for the old numbers of the rows; given if and only if an order is
  double scale = 1;
  int threads = 0;
  bool quiet = false;
};

// Reads a matrix (Matrix Market, Harwell-Boeing or .pbin; its first bytes decide), multiplies its values by `scale`,
// puts rows and columns into the order, and writes it to `to`, whose ending decides the file format. A text file of
// a symmetric matrix has `symmetric` in its header and the lower triangle. Line k of the permutation (Matrix Market,
// an array of one column) is the number of the row, from 1, that becomes row k; it is written before the matrix.
// Throws BadArgument for another ending, for a scale of 0, for an unknown order, and when two of the files are the
// same; ShapeMismatch for an order of a matrix that is not square.
void convert(const ConvertArguments& arguments);

// Throws BadArgument unless the name ends in .mtx, .mtx.gz, .mtx.xz or .pbin, or is `-`, the standard output, which
// gets the text of a .mtx file.
void require_matrix_name(const std::string& path);
// Writes the file format of the name's ending. Text files contain the comment, and the lower triangle if the matrix
// is symmetric.
void write_matrix(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                  const std::string& comment = {});

}  // namespace protean::apps
