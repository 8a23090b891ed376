// Norms outside of the range of squares, and the cause behind a scalar that should have been positive or
// nonzero. Private to solvers/.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "solvers/iteration_control.hpp"
#include "solvers/method.hpp"

namespace protean::detail {

// ||v||. If the sum of squares overflows or underflows in T, v is scaled for it and scaled back. The result is NaN or
// infinity only if v contains one. `number`: one entry of workspace in the space of v.
template <class T>
double norm(const Context& context, VectorView<T> v, Vector<T>& number);

// SolverOptions::residual_norm: weights := the diagonal of W = D^-1, in the caller's order and in the space of A.
// Returns the largest |1 / w_i|. `number`: as above. Throws BadArgument if A does not know its diagonal D.
template <class T>
double make_weights(const LinearOperator<T>& A, const SolverOptions& options, Vector<T>& weights,
                    Vector<T>& number);

// The first entry of v that is not finite, by one reduction; nothing if all are. `number`: as above.
struct BadEntry {
  std::int64_t row;
  double value;
  std::int64_t column = 0;  // of several vectors
};
template <class T>
std::optional<BadEntry> first_not_finite(const Context& context, VectorView<const T> v, Vector<T>& number);
// The same for each vector of X, in their order. One reduction if X has no gaps and all entries are finite. `column` is
// workspace, which is made when it is needed.
template <class T>
std::vector<BadEntry> columns_not_finite(const ContextPtr& context, const MultiVectorView<const T>& X,
                                         Vector<T>& number, Vector<T>& column);
// "the initial guess is nan in row 3 (from 0); give finite numbers, or zeros"
std::string guess_text(const std::string& what, const BadEntry& bad);

// One system at a point of its solve, as the functions below look at it.
template <class T>
struct Evidence {
  System<T> system;                    // x: the iterate
  VectorView<T> residual;              // b - A x
  std::array<VectorView<T>, 2> spare;  // vectors that may be overwritten
  Vector<T>& number;                   // workspace: one entry
};

// "x is nan in row 3 (from 0)". If the residual does not see it (`unseen`), A e_row is looked at, which is 0 if
// x_row is not determined. This takes one product and overwrites the spare vectors.
template <class T>
std::string text_of(const BadEntry& bad, bool unseen, const Evidence<T>& of);

struct Diagnosis {
  StopReason reason;
  std::string detail;
};

// A solve ends with `reason`, which the scalars of the last verdict gave; b - A x is at hand.
// Returns the cause if that is a different reason, else `reason` and `detail` as they are:
//   underflow           the scalar is zero only because products of two norms are below the range of T; or the
//                       solve diverged after it began with such norms: initial_residual is ||b - A x0||, and ||A M^-1
//                       r|| is taken in the same ratio to it as at the end
//   negative_definite   cg: the first curvature is negative, and all diagonal entries are, as far as A knows
//                       its diagonal (HasDiagonal)
//   not_finite          a breakdown: the scalar is zero only compared with norms whose squares overflow
// With not_finite the detail says so if products of two norms are above the range of T.
// first: no scalar before the last one was good. Overwrites all vectors except x and b; may compute one product.
template <class T>
Diagnosis diagnose(const Evidence<T>& of, const Verdict& verdict, bool first, double initial_residual,
                   StopReason reason, std::string detail);

// Whether all diagonal entries are positive. Empty if A does not know its diagonal. Overwrites a spare vector.
template <class T>
std::optional<bool> has_positive_diagonal(const Evidence<T>& of);

// Whether A is symmetric, by w . A v = v . A w for two vectors that look random, within 100 times the rounding of such
// a dot product; if it is not, why_not has the numbers. So entries that are small next to the norm of A are not
// seen. Empty if a number is not finite. Two products. Overwrites the residual and the spare vectors.
template <class T>
std::optional<bool> is_symmetric(const Evidence<T>& of, std::string& why_not);

// Minres found that r = b - A x is a null vector of A M^-1, by its
// recurrences; this computes ||A z|| / ||z|| for z = M^-1 r and the same for a vector that looks random. Returns
//   inconsistent if the ratio of the two is at most the cube root of the rounding of T
//   stagnation if it is, and ||r|| is at most the rounding of b - A x, so that r says nothing about b
//   breakdown     else, since the recurrences were wrong
// Two products. Overwrites the spare vectors.
template <class T>
Diagnosis check_least_squares(const Evidence<T>& of, double rhs_norm);

// Whether no x solves the system because the entries of each column of A add up to zero, as in Neumann problems,
// and the entries of b do not: |sum b| / sqrt(n) <= ||b - A x|| for all x. Tested if that is above `tolerance`, by the
// sums of A v for a v that looks random and for a v of ones, which takes two products. Overwrites the spare vectors.
template <class T>
std::optional<Diagnosis> find_inconsistent(const Evidence<T>& of, double tolerance);

// What is wrong with M, by M^-1 v for a v that looks random: "M^-1 v is not finite ...", "3 rows of M^-1 are zero ...",
// "||A M^-1 v|| is 1e30 ||v||" next to an ||A v|| that is not. Empty: nothing was found, or there is no M. Some
// applications and products. Overwrites the spare vectors. The system is in the caller's order.
template <class T>
std::string fault_of_preconditioner(const Evidence<T>& of);

}  // namespace protean::detail
