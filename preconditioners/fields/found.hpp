// The fields of a matrix for which none are given. Private to preconditioners/ and systems/.
//
// Z are the rows i with |a_ii| <= 1e-10 max_j |a_ij|, or, in a symmetric matrix that also has positive diagonal
// entries, with a_ii <= 0. Z is the constraint, such as the pressure of an incompressible flow, if
// - not all rows are in Z, and Z has a row,
// - |a_ij| <= 1e-10 max_k |a_ik| for all i and j in Z: a zero block; or the matrix is symmetric and Z has negative
//   diagonal entries: a stabilised one,
// - each row of Z has an entry in a column outside of Z.
// The fields are then "u", all other rows, and "p", the rows of Z.
// If Z is empty and the matrix is not symmetric, cells of 2 to 4 rows are looked for, one row of which is like a
// pressure (cells.hpp): field "p"; the other rows are "s", or "s1", "s2" ..
// Otherwise there is one field "u".
#pragma once
#include <string>

#include "core/csr.hpp"
#include "preconditioners/fields/field_list.hpp"

namespace protean::detail {

struct FoundFields {
  FieldList fields;
  bool zero_block = false;  // there are two, and the block of p is zero
  bool stabilised = false;  // there are two, and it is not
  bool cells = false;       // they are the unknowns of cells, the pressure first
  std::string what;         // for a person: what was found, or why nothing
};
// csr is square, lies in host memory and has sorted rows and finite values. symmetric: as of the library
// (symmetry_tolerance).
template <class T>
FoundFields find_fields(const CsrMatrix<T>& csr, bool symmetric);

// Whether preconditioner auto takes fields for it: the block of p is zero, or it is a stabilised one whose rows have
// equal distances, as the last or every third row, so that a symmetric matrix of another kind is not taken for it.
bool is_saddle_point(const FoundFields& found);

// Whether A (0 .. 1 ..) = 0 up to the rounding of each row, for ones in the rows of this field.
template <class T>
bool maps_constant_to_zero(const CsrMatrix<T>& csr, const FieldList& fields, std::int32_t field);

}  // namespace protean::detail
