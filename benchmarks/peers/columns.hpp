// Products with several vectors of other libraries: MKL on the host, cuSPARSE on a device.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/csr.hpp"
#include "core/multi_vector.hpp"

namespace protean::bench {

// A product Y := A X of a library.
struct LibraryProduct {
  std::string name;
  VectorLayout layout;
  std::function<void(const double* x, double* y)> apply;
};

// The products with k vectors of the library for the space of the context, one for each layout. None without the
// library, or if the row pointers have 64 bits. The csr arrays must outlive them.
std::vector<LibraryProduct> products_of_columns(const ContextPtr& context, const CsrMatrix<double>& csr,
                                                std::int64_t k);

}  // namespace protean::bench
