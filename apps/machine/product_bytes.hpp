// Bytes that a product with a CSR matrix moves, after I. Reguly, M. Giles, Efficient sparse matrix-vector
// multiplication on cache-based GPUs, InPar 2012, with indices of 4 bytes and lines of 128.
#pragma once
#include <cstdint>

#include "core/csr.hpp"

namespace protean::apps {

// effective, equation (2): x is read again for every entry; worst, (3): every number costs a cache line; minimum,
// (4): x is read once; caching, section 5.5: as (4), but x costs `lines_of_x` cache lines.
double effective_bytes(std::int64_t rows, std::int64_t nonzeros, double value_bytes = 8);
double worst_bytes(std::int64_t rows, std::int64_t nonzeros);
double minimum_bytes(std::int64_t rows, std::int64_t nonzeros, double value_bytes = 8);
double caching_bytes(std::int64_t rows, std::int64_t nonzeros, std::int64_t lines_of_x,
                     double value_bytes = 8);

// The number of cache lines of x that blocks of 128 rows touch. Each block counts a line once.
std::int64_t count_lines(const SparsityPattern& pattern, std::int64_t value_bytes = 8);

}  // namespace protean::apps
