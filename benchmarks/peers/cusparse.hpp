// cuSPARSE on the same matrix, as a user would call it: descriptors, buffer and preprocessing once.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/csr.hpp"

namespace protean::bench {

struct GpuPeer {
  std::string name;
  bool from_csr = false;  // works on CSR or COO, so nothing has to be converted
  // Makes the product, a function of device vectors; null if the format does not fit the matrix.
  std::function<std::function<void(const double* x, double* y)>()> make;
};

// `host` and `device` are the same matrix; both outlive the products.
std::vector<GpuPeer> cusparse_peers(const ContextPtr& context, const CsrMatrix<double>& host,
                                    const CsrMatrix<double>& device);
// Products that came with cuSPARSE 12.9.4; none with an older one.
std::vector<GpuPeer> newer_cusparse_peers(const ContextPtr& context, const CsrMatrix<double>& host,
                                          const CsrMatrix<double>& device);
std::string cusparse_version(const ContextPtr& context);

}  // namespace protean::bench
