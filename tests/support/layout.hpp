// Golden tests of storage formats: the arrays of a matrix by name.
#pragma once
#include <string_view>
#include <vector>

#include "operators/assembled_matrix.hpp"
#include "operators/layout.hpp"

namespace protean::test {

// The numbers of one array of a matrix's layout. Fails the test (and returns nothing) when the format shows
// no layout or has no such array.
std::vector<double> layout_numbers(const AssembledMatrix<double>& matrix, std::string_view array);

// Builds a matrix in the named format on the context of two threads.
std::unique_ptr<AssembledMatrix<double>> build(std::string_view format, const CsrMatrix<double>& csr,
                                               const FormatParams& params = {}, std::string_view kernel = {});

}  // namespace protean::test
