// What kept objects owe: the result of fresh ones. How closely depends on where and what, by the contracts in
// docs/deterministic.md, solvers/solver.hpp and operators/elements/element_operator.hpp:
//
//   host, simulated device     bits, in the same storage format, with the same number of threads. Exceptions,
//                              which agree up to rounding: elements scattered by atomic additions from several
//                              threads; a change of format whose iteration depends on time (beside, automatic);
//                              chebyshev, whose interval depends on the format in which it was found
//   host, deterministic mode   bits, whatever the format, its changes and the number of threads, in the same order of
//                              the rows
//   GPU                        up to rounding
//   GPU, deterministic mode    bits, in the same format, when the observer names its iterations beforehand;
//                              but changes that depend on time as above
//
// Bits: the reason, all numbers of the report except its times and counts of graphs, what the observer saw, and x. Up
// to rounding: the reason, if it does not depend on a rounding error; iterations, about; x within (||b - A x|| + ||b -
// A x'||) ||A^-1||, with both residuals and the norm of the inverse computed without the library. In every case b - A x
// is computed in long double and compared with the residual of the report.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "life/solve.hpp"
#include "life/world.hpp"

namespace protean::test::life {

// answer: only x, if both converged, as with preconditioners that differ.
enum class Owed : unsigned char { answer, rounding, bits };

// `before` is the operator as the solve found it.
Owed owed(const OperatorSpec& before, const SolvePlan& plan, int threads);

// The system that a solve ended with.
template <class T>
struct Solved {
  int system = 0;
  unsigned generation = 0;
  const std::vector<T>& b;
  std::string_view method;
  StoppingRule rule;
};

// Empty, or how the report lies about its own x.
template <class T>
std::string lie(const Outcome<T>& outcome, const Solved<T>& solved);

// Empty, or the first thing in which the two outcomes differ by more than they may.
template <class T>
std::string difference(Owed owed, const Outcome<T>& kept, const Outcome<T>& fresh, const Solved<T>& solved);

// The same of two results of y = alpha A x + beta y0, and of the sum in long double.
template <class T>
struct Product {
  T alpha, beta;
  const std::vector<T>&x, &y0;
};
template <class T>
std::string difference(Owed owed, const Product<T>& product, const std::vector<T>& kept,
                       const std::vector<T>& fresh, const Numbers<T>& numbers);

}  // namespace protean::test::life
