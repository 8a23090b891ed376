// .pbin: a CSR matrix as it lies in memory, to be mapped, not read.
#pragma once
#include <string>

#include <protean/core/csr.hpp>

namespace protean {

// Maps the file; the arrays are the file's own pages, shared with other processes, read on first use.
// verify: check the checksum, which reads every page once. Throws BadFile (wrong magic, version, size,
// checksum, or arrays that break CSR's invariants when verifying).
CsrMatrix<double> read_pbin(const ContextPtr& context, const std::string& path, bool verify = true);

// Atomic, as write_matrix_market.
void write_pbin(const Context& context, const std::string& path, const CsrMatrix<double>& matrix);

}  // namespace protean
