// The equation of the pressure that the recipes cpr-.. solve first. On the host. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <vector>

#include "core/csr.hpp"
#include "preconditioners/fields/field_list.hpp"

namespace protean::detail {

// The rows of field 0, the pressure, minus multiples of the rows of the other fields of the same cell, so that the
// other unknowns drop out of it as far as the weights say. Cell c has row c of each field. With D_ij(c) either a_ij of
// the unknowns of cell c (quasi-IMPES) or the sum of column c of A_ij (true-IMPES) the weights solve
//   sum_i w_i(c) D_ij(c) = D_0j(c),   i, j = 1 .. k - 1.
template <class T>
struct PressureEquation {
  std::vector<T> weights;  // -w_i(c) at (i - 1) cells + c
  CsrMatrix<T> matrix;     // A_00 - sum_i W_i A_i0, W_i the diagonal matrix of w_i
};
// columns: the blocks A_i0 of csr, in host memory. Throws BadMatrix, naming `called`, for a cell whose D is singular.
template <class T>
PressureEquation<T> pressure_equation(std::string_view called, const ContextPtr& host,
                                      const CsrMatrix<T>& csr, const FieldList& fields,
                                      const std::vector<CsrMatrix<T>>& columns, bool true_impes);

}  // namespace protean::detail
