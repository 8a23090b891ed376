// The matrices on which every format and kernel is tested, each with the mistake that it exposes.
#pragma once
#include <string>
#include <vector>

#include "core/csr.hpp"

namespace protean::test {

struct BatteryMatrix {
  std::string name;     // letters, digits and _ only
  std::string exposes;  // what goes wrong in a kernel that fails here
  CsrMatrix<double> matrix;
};

// Built once. Values are multiples of 1/8 in [-4, 4], none zero unless the matrix is about explicit zeros, so
// that single precision holds them exactly.
const std::vector<BatteryMatrix>& battery();
const CsrMatrix<double>& battery_matrix(const std::string& name);

// T8 of the format catalogue: 8 x 8, 24 entries, value of (r, c) = 10 (r + 1) + c + 1.
CsrMatrix<double> t8();
// The 4 x 4 matrix B of Su and Keutzer, clSpMV (ICS 2012): rows 3 7 . . / . 4 8 . / 1 . 5 9 / . 2 . 6.
CsrMatrix<double> clspmv_b();
// Their 4 x 8 dense matrix C, entries 1..32 row by row.
CsrMatrix<double> clspmv_c();

// A context of two threads, shared by the tests of one binary.
const ContextPtr& test_context();

}  // namespace protean::test
