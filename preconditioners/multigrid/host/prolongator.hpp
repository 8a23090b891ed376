// The values of the prolongator of smoothed aggregation: P = (I - 4 / (3 lambda) D^-1 A_F) T (aggregation.cpp). Private
// to preconditioners/.
#pragma once
#include <cstdint>
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
// In the pattern of structure.P. diagonal: divisors().
template <class T>
Buffer<T> prolongator_values(const ContextPtr& host, const CsrMatrix<T>& csr,
                             const std::vector<double>& diagonal, const Nodes& nodes,
                             const Structure& structure);

}  // namespace protean::detail
