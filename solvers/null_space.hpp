// What the drivers of solves do with a null space of A: Solver::set_null_space(), MultiSolver::set_null_space().
// Private to solvers/.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/blas1.hpp"
#include "core/vector.hpp"
#include "operators/linear_operator.hpp"
#include "solvers/solver.hpp"

namespace protean::detail {

// Throws BadArgument for a method that is not for symmetric A.
void require_null_space_method(std::string_view method);

// The null space of a solve: `given`, else the vector of equal entries if the options say so, which is made in
// `constant`; a block without vectors if there is no null space. `components` gets room for a number of each vector.
// Throws ShapeMismatch, WrongSpace.
template <class T>
VectorBlock<const T> null_space_of(const SolverOptions& options, VectorBlock<const T> given,
                                   const ContextPtr& context, std::int64_t n, Vector<T>& constant,
                                   Vector<T>& components);

// Throws BadArgument unless A maps all vectors nearly to zero. rhs_norm: ||b||, not 0. q and d are overwritten.
template <class T>
void check_null_space(const LinearOperator<T>& A, const VectorBlock<const T>& N, VectorView<const T> b,
                      double rhs_norm, VectorView<T> q, VectorView<T> d, Vector<T>& number);

// v := v - N N^T v
template <class T>
void project(const Context& context, const VectorBlock<const T>& N, VectorView<T> v, Vector<T>& components);

// ||N^T b||
template <class T>
double part_in_null_space(const Context& context, const VectorBlock<const T>& N, VectorView<const T> b,
                          Vector<T>& components);
std::string inconsistent_detail(double part, double tolerance);

}  // namespace protean::detail
