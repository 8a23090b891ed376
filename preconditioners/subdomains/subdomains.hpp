// Subdomains of a matrix: groups of rows, each with the small matrix A_s of its rows and columns, and how the host
// finds them. A device finds subdomains of rows that follow each other (device_subdomain_rows.hpp). Private to
// preconditioners/.
//
// A subdomain has rows of its own, which are in no other one, and with overlap 1 their halo, too: the other rows that
// have a column in its own rows. Its rows are in the order of the matrix; factors eliminate them in that order.
//
// Places: the rows of a subdomain level after level, where the level of a row is one more than the highest level of the
// rows before it that are coupled with it, by an entry on either side of the diagonal. So entries of L belong to places
// of earlier levels and entries of U to places of later ones, also in an unsymmetric pattern; both solves go through
// the same levels, and the rows of one level do not wait for each other. An elimination in the order of the places
// finds the factors of one in the order of the rows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {

// L or U of all subdomains. The entries of subdomain s begin at number first[s], a multiple of 4, so that a device
// copies whole words. Its place p has the entries first[s] + ptr[k] .. first[s] + ptr[k + 1] - 1, k =
// Subdomains::first[s] + s + p; `col` has places, ascending.
struct SubdomainTriangle {
  Buffer<std::int64_t> first;  // count + 1
  Buffer<std::int32_t> ptr, col;
  std::size_t bytes() const noexcept { return first.bytes() + ptr.bytes() + col.bytes(); }
};

// In host memory.
struct Subdomains {
  std::int64_t n = 0, count = 0;
  std::int64_t size = 0;                        // rows of each that were asked for or chosen
  std::int64_t entries = 0;                     // of L and U, without the gaps between subdomains
  std::int64_t most_rows = 0, most_levels = 0;  // of one
  // Subdomain s has the numbers first[s] .. first[s + 1] - 1 of `row` and `place`: its rows, ascending, rows of the
  // halo as ~row; and their places, 0 .. its rows - 1.
  Buffer<std::int64_t> first;
  Buffer<std::int32_t> row, place;
  SubdomainTriangle lower, upper;
  // Where the levels of subdomain s begin among its places: level[level_first[s]] .. level[level_first[s + 1] - 1], the
  // last of which is the number of its rows.
  Buffer<std::int64_t> level_first;
  Buffer<std::int32_t> level;

  std::int64_t rows(std::int64_t s) const noexcept { return first[s + 1] - first[s]; }
  std::int64_t levels(std::int64_t s) const noexcept { return level_first[s + 1] - level_first[s] - 1; }
  std::size_t bytes() const noexcept {
    return first.bytes() + row.bytes() + place.bytes() + lower.bytes() + upper.bytes() + level_first.bytes() +
           level.bytes();
  }
};

// Rows of a subdomain on a host if `size` is auto: enough subdomains for the threads, the same for any number of them.
std::int64_t subdomain_size_on_host(std::int64_t n) noexcept;

// Subdomains of `size` rows, with partition metis about that many. A is square, in host memory, its rows are sorted.
// Throws what metis_parts() throws.
Subdomains make_subdomains(const ContextPtr& host, const SparsityPattern& A, std::int64_t size,
                           SubdomainPartition partition, std::int64_t overlap);

}  // namespace protean::detail
