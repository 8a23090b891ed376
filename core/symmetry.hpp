// What the entries of a square matrix show of its symmetry and of the signs of its diagonal, in either space. Private.
#pragma once
#include <cstdint>

#include "core/csr.hpp"

namespace protean::detail {

struct SymmetryFacts {
  double asymmetry = 0;           // as asymmetry() of core/statistics.hpp
  std::int64_t not_positive = 0;  // rows whose diagonal entry is missing, or is not greater than 0
};
// The rows are sorted. csr lies in host memory or in the space of the context. One pass; on a device it waits.
template <class T>
SymmetryFacts symmetry_facts(const Context& context, const CsrMatrix<T>& csr);

}  // namespace protean::detail
