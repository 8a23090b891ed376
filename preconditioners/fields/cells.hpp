// Fields whose rows belong to cells, such as the pressure and the saturation of a reservoir, and which of them is like
// a pressure. Private to preconditioners/.
//
// Cell c has row c of each field. Let a_ii be the diagonal entries of the rows of a field, and a_ij the entries within
// the field off the diagonal. Field f is like a pressure if
// - it acts far away: a_ii > 0, sum |a_ij| >= sum |a_ii| / 2, at most a tenth of sum |a_ij| belongs to positive
//   entries, and sum |a_ij - a_ji| <= sum |a_ij| / 10,
// - each other field s acts within its cell or downstream: a_ii != 0, and sum |a_ij| <= sum |a_ii| / 10 or
//   sum |a_ij - a_ji| >= sum |a_ij| / 2,
// - flow along differences of f enters the equation of each s: at least half of the rows of s have entries in columns
//   of f of other cells, and these entries have one sign: |their sum| >= 0.8 times the sum of their absolute values.
// So there is one such field at most. All sums are over the same 4,096 cells in equal distances, or all if there are
// fewer. A field must be like a pressure in 64 of them, too, so that most matrices need no longer look.
#pragma once
#include <cstdint>

#include "core/csr.hpp"
#include "preconditioners/fields/field_list.hpp"

namespace protean::detail {

// The field that is like a pressure; -1 if there is none, or if the fields differ in size. csr is square, lies in host
// memory and has sorted rows.
template <class T>
std::int64_t find_pressure(const CsrMatrix<T>& csr, const FieldList& fields);

// Cells of k consecutive rows, one of each field.
struct FoundCells {
  std::int64_t size = 0;      // k, from 2 to 4; 0: there are none
  std::int64_t pressure = 0;  // which of the k rows is like a pressure
};
// The smallest k with a pressure, at least 8 cells.
template <class T>
FoundCells find_cells(const CsrMatrix<T>& csr);

// The fields of these cells: "p", then "s", or "s1", "s2" ..
FieldList fields_of_cells(const FoundCells& cells, std::int64_t rows);
// The list with this field first.
FieldList with_first(const FieldList& fields, std::int64_t field);

}  // namespace protean::detail
