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

// ||v||. Where the sum of squares overflows or underflows in T, v is scaled for it and scaled back. NaN and
// infinity only where v holds one. `number`: one entry of workspace in the space of v.
template <class T>
double norm(const Context& context, VectorView<T> v, Vector<T>& number);

// The first entry of v that is not finite, by one reduction; nothing where all are. `number`: as above.
struct BadEntry {
  std::int64_t row;
  double value;
};
template <class T>
std::optional<BadEntry> first_not_finite(const Context& context, VectorView<const T> v, Vector<T>& number);
// "the initial guess is nan in row 3 (from 0); give finite numbers, or zeros"
std::string guess_text(const std::string& what, const BadEntry& bad);
// "x is nan in row 3 (from 0)". Where the residual does not see it (`unseen`), A e_row is looked at, which is 0 where
// x_row is not determined. One product then, which overwrites the spare vectors.
template <class T>
std::string text_of(const BadEntry& bad, bool unseen, Method<T>& method, const System<T>& system,
                    Vector<T>& number);

struct Diagnosis {
  StopReason reason;
  std::string detail;
};

// A solve ends with `reason`, which the scalars of the last verdict gave; b - A x is in method.scratch().
// Returns the reason behind it where that is another one, else `reason` and `detail` as they are:
//   underflow           the scalar is zero only because products of two norms are below the range of T; or the
//                       solve diverged after it began with such norms: initial_residual is ||b - A x0||, and ||A M^-1
//                       r|| is taken in the same ratio to it as at the end
//   negative_definite   cg: the first curvature is negative, and all diagonal entries are, as far as A knows
//                       its diagonal (HasDiagonal)
//   not_finite          a breakdown: the scalar is zero only beside norms whose squares overflow
// With not_finite the detail says so where products of two norms are above the range of T.
// first: no scalar before the last one was good. Overwrites all vectors of the method but x; may compute one
// product.
template <class T>
Diagnosis diagnose(Method<T>& method, const System<T>& system, Vector<T>& number, const Verdict& verdict,
                   bool first, double initial_residual, StopReason reason, std::string detail);

// Whether all diagonal entries are positive. Nothing where A does not know its diagonal. Overwrites a spare vector.
template <class T>
std::optional<bool> has_positive_diagonal(Method<T>& method, const System<T>& system);

// Whether A is symmetric, by w . A v = v . A w for two vectors that look random, within 100 times the rounding of such
// a dot product; where it is not, the detail says so. So entries that are small beside the norm of A are not seen.
// Nothing where a number is not finite. Two products. Overwrites scratch() and the spare vectors.
template <class T>
std::optional<bool> is_symmetric(Method<T>& method, const System<T>& system, Vector<T>& number,
                                 std::string& detail);

// Minres found that r = b - A x, which is in method.scratch(), is a null vector of A M^-1. It was told so by its
// recurrences; this computes ||A z|| / ||z|| for z = M^-1 r beside that of a vector that looks random. Returns
//   inconsistent  where the ratio of the two is at most the cube root of the rounding of T
//   stagnation    where it is, and ||r|| is no more than the rounding of b - A x, so that r tells nothing of b
//   breakdown     else, since the recurrences were wrong
// Two products. Overwrites the spare vectors.
template <class T>
Diagnosis check_least_squares(Method<T>& method, const System<T>& system, Vector<T>& number,
                              double true_residual, double rhs_norm);

// Whether no x solves the system because the entries of each column of A add up to zero, as those of Neumann problems
// do, and those of b do not: |sum b| / sqrt(n) <= ||b - A x|| for all x. Looked for where that is above `tolerance`,
// by the sums of A v for a v that looks random and for ones. Two products then. Overwrites the spare vectors.
template <class T>
std::optional<Diagnosis> find_inconsistent(Method<T>& method, const System<T>& system, Vector<T>& number,
                                           double tolerance);

// What is wrong with M, by M^-1 v for a v that looks random: "M^-1 v is not finite ...", "3 rows of M^-1 are zero ...",
// "||A M^-1 v|| is 1e30 ||v||" beside an ||A v|| that is not. Empty: nothing was found, or there is no M. Some
// applications and products. Overwrites the spare vectors. The system is the one in the caller's order.
template <class T>
std::string fault_of_preconditioner(Method<T>& method, const System<T>& system, Vector<T>& number);

}  // namespace protean::detail
