// The rows of a matrix and the entries of vectors on the ranks that own them. No rank except the first ever has a whole
// matrix, and the first only one of a Matrix Market file.
#pragma once
#include <petscmat.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/problem/problem_file.hpp"
#include "apps/ranks/agree.hpp"

namespace protean::apps::ranks {

// Rows [first, first + rows) of a matrix, in CSR with the columns of the whole matrix.
struct OwnRows {
  std::int64_t all_rows = 0, all_cols = 0, all_entries = 0;
  std::int64_t first = 0, rows = 0;
  std::vector<PetscInt> row_ptr, col;
  std::vector<double> values;
};

// Reads or makes the matrix of the problem, each rank its own rows, times matrix.scale:
//   .pbin       each rank maps the file and reads the row pointers that it needs, and its own columns and values. It
//               checks these, and computes the checksums of its share of the file
//   other files rank 0 reads the file once and sends each rank its rows
//   generated   each rank makes the rows block by block and keeps its own
// Ranks have equal numbers of entries. Collective; throws what Ranks::each() does. Finite elements: see elements.hpp.
OwnRows read_rows(const Ranks& ranks, const MatrixSpec& spec);

// Entries [first, first + size) of a vector of `all` entries: of a file, which rank 0 reads, of a value or of random
// numbers, the same as on one rank. Collective.
std::vector<double> read_part(const Ranks& ranks, const VectorSpec& spec, std::int64_t first,
                              std::int64_t size, std::int64_t all, const std::string& key);

// Writes a vector whose parts lie on the ranks in their order, once: rank 0 gets one part after the other and writes
// it. Collective.
void write_parts(const Ranks& ranks, const std::string& path, std::span<const double> part, std::int64_t all,
                 const std::string& comment);

}  // namespace protean::apps::ranks
