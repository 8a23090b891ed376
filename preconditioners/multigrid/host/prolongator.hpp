// The values of the prolongator of smoothed aggregation: P = (I - 4 / (3 lambda) D^-1 A_F) T (aggregation.cpp). Private
// to preconditioners/.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "core/vector.hpp"
#include "preconditioners/multigrid/host/aggregation_structure.hpp"

namespace protean::detail {

// A diagonal entry that is this small compared with the entries of the finest level from which it was computed is
// rounding.
inline constexpr double rounding_terms = 256;

// 1 / (2/3): see l1-jacobi of aggregation.cpp.
inline constexpr double longest_sweep = 1.5;

// The power method by which the largest eigenvalue of D^-1 A is estimated. It begins with numbers of xorshift64
// (Marsaglia, J. Stat. Softw. 8 (2003) 14) from this state.
inline constexpr std::uint64_t spectral_seed = 88172645463325252u;
inline constexpr int spectral_steps = 12;
// squares: of the norms of the first vector and of all results. gershgorin: an upper bound.
double spectral_bound(std::span<const double, spectral_steps + 1> squares, double gershgorin);

// The diagonal of a level, without the entries that are nothing but rounding. scale: the size of the diagonal entries
// of the finest level that each is made of.
template <class T>
std::vector<double> divisors(const Vector<T>& diagonal, const std::vector<double>& scale);
// The scale of the rows of the next level.
std::vector<double> coarse_scale(const std::vector<double>& scale, const Nodes& nodes,
                                 const Structure& structure);
// What a host knows of the rows of other parts, if csr has the rows of one part of a matrix: fill() puts the entries of
// other parts behind those of the rows, the other two are over all parts. Empty functions: csr is the whole matrix.
struct OtherParts {
  std::function<void(std::vector<double>& x)> fill;
  std::function<double(double)> sum, largest;
};
// 4 / (3 lambda). diagonal: divisors().
template <class T>
double prolongator_omega(const Context& context, const CsrMatrix<T>& csr, const std::vector<double>& diagonal,
                         const OtherParts& others = {});
// In the pattern of structure.P.
template <class T>
Buffer<T> prolongator_values(const ContextPtr& host, const CsrMatrix<T>& csr,
                             const std::vector<double>& diagonal, double omega, const Nodes& nodes,
                             const Structure& structure);
// The inverse of S for l1-jacobi. Throws BadMatrix if a number is too large for T.
template <class T>
Vector<T> l1_inverse(const ContextPtr& host, const CsrMatrix<T>& csr, const Vector<T>& diagonal,
                     const std::vector<double>& scale);

}  // namespace protean::detail
