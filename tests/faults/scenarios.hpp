// The public calls in which allocations fail, as data. Each file has the calls of some rooms.
#pragma once
#include <string>
#include <vector>

#include "core/csr.hpp"
#include "faults/trials.hpp"
#include "operators/assembled_matrix.hpp"

namespace protean::test {

// Where the objects of a scenario lie.
enum class Where : unsigned char { host, fake, device };
const char* to_string(Where where);
// Null for a device that is not there. One context for all tests.
ContextPtr context_at(Where where);
const FormatEntry& format_at(Where where, std::string_view id);
// Parameters that let the format take any matrix.
std::unique_ptr<AssembledMatrix<double>> matrix_at(Where where, std::string_view format,
                                                   const CsrMatrix<double>& csr);

// A small symmetric positive definite matrix in host memory, and the same with other values.
const CsrMatrix<double>& small_matrix();
const CsrMatrix<double>& other_values();

std::vector<Scenario> matrix_scenarios(Where where);  // formats, orders, element matrices
std::vector<Scenario> solve_scenarios(Where where);   // methods, preconditioners, several right-hand sides
std::vector<Scenario> change_scenarios(Where where);  // changes of format and order in a solve
std::vector<Scenario> system_scenarios(Where where);  // LinearSystem, one call, policy
std::vector<Scenario> c_scenarios(Where where);       // the C interface
std::vector<Scenario> file_scenarios();               // reading and writing, on the host

}  // namespace protean::test
