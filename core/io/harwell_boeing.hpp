// Private: matrices in the formats of Harwell and Boeing and of Rutherford and Boeing: a header of four or five
// lines, then the pointers, row indices and values of compressed columns, in the columns that Fortran formats say.
// Sources: Duff, Grimes and Lewis, Users' guide for the Harwell-Boeing sparse matrix collection, 1992; the same,
// The Rutherford-Boeing sparse matrix collection, 1997.
#pragma once
#include <string>
#include <string_view>

#include "core/io/matrix_input.hpp"

namespace protean::io_detail {

// Whether a text with these first lines is such a file. harwell_boeing_bytes of it are enough.
bool is_harwell_boeing(std::string_view first_lines) noexcept;
constexpr std::size_t harwell_boeing_bytes = 512;
// Whether a file with such a name should be one: A.rua, A.rsa.gz, A.rb. A file with another name may be one all the
// same.
bool is_harwell_boeing_name(std::string_view path) noexcept;

// Either, for a text that does not begin as Matrix Market. The source still begins at its first line afterwards.
bool begins_as_harwell_boeing(LineSource& source);

// Assembled matrices (the third letter of the type is A) of real numbers, whole numbers or a pattern (R, I, P),
// general, rectangular, symmetric or skew-symmetric (U, R, S, Z). Right-hand sides are left out. Limits and the
// treatment of repeated entries and of the other half of a symmetric matrix are the same as in read_matrix_market().
// Throws BadFile and OutOfMemory as that does.
CsrMatrix<double> read_harwell_boeing(const ContextPtr& context, const Input& input, LineSource& source,
                                      const ReadOptions& options);

// The right-hand sides of a Harwell-Boeing file, which must be full (F). Throws BadFile if it has none, and, unless
// `several` is set, if it has more than one.
VectorColumns read_right_hand_sides(const ContextPtr& context, const Input& input, LineSource& source,
                                    const ReadOptions& options, bool several);

}  // namespace protean::io_detail
