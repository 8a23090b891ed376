// Solves sparse linear systems A x = b: what most programs need, quick to compile.
//
//   #include <protean/solve.hpp>
//
//   std::vector<int> row_ptr, col;                    // CSR, counted from 0
//   std::vector<double> values, b, x;                 // x: the initial guess on entry
//   const auto A = protean::csr_view(n, n, row_ptr, col, values);   // the arrays are not copied
//   const protean::SolveResult done = protean::solve(A, b, x, {.solver = {.stopping = {.relative_tolerance = 1e-6}}});
//   if (!done.converged()) std::cerr << protean::to_string(done.report.reason) << ": " << done.report.advice << '\n';
//
//   protean::LinearSystem<double> system(A);          // the same matrix again: all that was made is kept
//   system.solve(b, x);
//   system.update_values(new_values);                 // another matrix with the same pattern
//   system.solve(b, x);
//
// protean.hpp has everything: element matrices and operators of your own, storage formats, preconditioners, methods and
// the policy as objects. The two go together in one program.
#pragma once
#if __cplusplus < 202002L
#error "Protean needs C++20: compile with -std=c++20 (CMake does so for what links Protean::protean)"
#endif

#include <protean/core/context.hpp>           // Context: threads, or a GPU
#include <protean/core/csr.hpp>               // CsrMatrix, csr_view()
#include <protean/core/csr_view.hpp>          // csr_view() of arrays on a GPU, or counted from 1
#include <protean/core/error.hpp>             // Error, and the exceptions derived from it
#include <protean/core/multi_vector.hpp>      // MultiVectorView: several right-hand sides
#include <protean/core/vector.hpp>            // VectorView, Vector
#include <protean/systems/linear_system.hpp>  // solve(), multi_solve(), LinearSystem
#include <protean/systems/settings.hpp>       // SolveSettings, SolveResult, MultiSolveResult
