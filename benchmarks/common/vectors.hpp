// Vectors and contexts of the benchmarks, and checks of what was computed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "core/csr.hpp"

namespace protean::bench {

// Numbers in [-1, 1), always the same.
std::vector<double> random_numbers(std::int64_t count);
// sin(i mod 1013) + middle
std::vector<double> waves(std::int64_t count, double middle);

// The first device for "device", else `host`.
ContextPtr context_of(const std::string& space, const ContextPtr& host);

// y = A x of a host matrix, summed in long double, and how far each entry of a right product may be from it.
class Reference {
 public:
  Reference(const CsrMatrix<double>& A, const double* x);
  bool agrees(const double* y) const;

 private:
  std::vector<double> sum_, bound_;
};

// ||b - A x|| / ||b|| of a host matrix in long double, row by row.
double relative_residual(const CsrMatrix<double>& A, const double* b, const double* x);

}  // namespace protean::bench
