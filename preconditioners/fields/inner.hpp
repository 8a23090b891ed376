// What solves with the block of a field: option `inner`. Private to preconditioners/ and solvers/.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// A Krylov method that solves with a block.
struct InnerMethod {
  std::string method;       // empty: the preconditioner is applied once
  double tolerance = 1e-2;  // relative to the norm of the right-hand side
  std::int64_t iterations = 100;
};
struct InnerSpec {
  std::string field;
  std::string id;  // of preconditioners(); "auto": by the block (default_inner())
  PreconditionerOptions options = {};
  InnerMethod solver = {};
};

// The parts of option `inner`; none for "auto". Throws BadArgument for a text that does not follow the syntax, for
// unknown types, options and methods, for values out of range, and for a field that has two parts.
std::vector<InnerSpec> inner_specs(std::string_view text);
// The spec of this field; auto if it has none.
InnerSpec inner_of(const std::vector<InnerSpec>& specs, const std::string& field);
// Throws BadArgument for the spec of a field that is none of `fields`.
void require_fields(const std::vector<InnerSpec>& specs, const std::vector<std::string>& fields);

// Of type auto, as option inner has it after the name of a field: amg for a block as of a diffusion problem; else for a
// symmetric one ic0, or amg with `unknowns` if `nodes` and it has nodes of 2 or 3 unknowns, such as the velocities of a
// flow: there the iterations with ic0 grow with the number of nodes. With 3 unknowns strength is 0.06: for elements of
// degree 2 in space the iterations are the same on all grids with 0.03 to 0.07, and grow with the grid with 0.08, the
// default of amg, which leaves out couplings of their large stencils. Else ilu0. Throws BadMatrix for a symmetric block
// whose diagonal is not positive, since a symmetric preconditioner was expected of it.
template <class T>
std::string default_inner(const Context& host, const CsrMatrix<T>& block, std::string_view field, bool nodes);

// z := x with ||r - A x|| <= tolerance ||r|| by the method from x = 0, or its x after that many iterations. M is null
// for no preconditioner. It is variable(). solvers/inner_solver.cpp defines both functions, because a room includes no
// room below it.
template <class T>
std::unique_ptr<Preconditioner<T>> make_inner_solver(const LinearOperator<T>& A,
                                                     std::unique_ptr<Preconditioner<T>> M,
                                                     const InnerMethod& method);
// Throws BadArgument for a method that there is not, and for one that needs a symmetric preconditioner if
// `symmetric` is false.
void check_inner_method(const InnerMethod& method, bool symmetric);

}  // namespace protean::detail
