// Which part of a distributed system has which rows.
//
//     rows of the caller      0 1 2 3 4 5 6        part of each row   0 1 0 0 1 2 1
//     order                   0 2 3 | 1 4 6 | 5    rows of part 0, of part 1, of part 2, ascending in each
//     begin                   0 3 6 7              part p has the places begin(p) .. begin(p + 1) - 1
//
// A part may have no rows. Private.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"

namespace protean::detail {

class Partition {
 public:
  // part_of_row: 0 .. parts - 1 for each row. Throws BadArgument, with the row, for another number, and for fewer than
  // one part.
  Partition(std::vector<std::int32_t> part_of_row, int parts);

  int parts() const noexcept { return static_cast<int>(begin_.size()) - 1; }
  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t begin(int part) const noexcept { return begin_[static_cast<std::size_t>(part)]; }
  std::int64_t size(int part) const noexcept { return begin(part + 1) - begin(part); }
  // The caller's numbers of the rows, by place; of one part.
  std::span<const std::int32_t> order() const noexcept { return order_; }
  std::span<const std::int32_t> rows_of(int part) const noexcept {
    return order().subspan(static_cast<std::size_t>(begin(part)), static_cast<std::size_t>(size(part)));
  }
  // The place of a row of the caller, and the part that has a place.
  std::int32_t place(std::int64_t row) const noexcept { return place_[static_cast<std::size_t>(row)]; }
  int part_of_place(std::int64_t place) const noexcept;

 private:
  std::vector<std::int32_t> order_, place_;
  std::vector<std::int64_t> begin_;
};

// The words of setting `partition`: "rows", neighbouring rows with about equally many entries, and "graph", METIS'
// k-way partition of the pattern of A + A^T.
std::span<const std::string_view> partition_words() noexcept;
// The pattern lies in host memory and is square. Throws BadArgument for another word, and for graph what metis_parts()
// throws.
Partition make_partition(const Context& host, const SparsityPattern& pattern, std::string_view word,
                         int parts);

// A file with the part of each row, from 0, one in a line, as METIS writes it. Throws BadFile, with the line.
std::vector<std::int32_t> read_partition(const std::string& path, std::int64_t rows, int parts);

}  // namespace protean::detail
