// Private: what the readers of matrices in text share, whatever its form.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/io/matrix_market.hpp"
#include "core/io/matrix_market_parse.hpp"

namespace protean::io_detail {

struct Input {
  std::string name;
  std::function<std::unique_ptr<ByteSource>()> open;
  std::unique_ptr<LineSource> lines() const { return std::make_unique<LineSource>(name, open()); }
};

[[noreturn]] void fail(const Input& input, Position at, const std::string& message);

// Throws OutOfMemory when `entries` entries of `item_bytes` bytes each, and `row_bytes` for each row, cannot
// fit.
void check_memory(const Input& input, const Header& header, double entries, double item_bytes,
                  double row_bytes, const ReadOptions& options);

// Throws BadFile for a matrix of many rows or columns if nearly all of these would be empty: the header is damaged.
// Otherwise a file of a few bytes could take 16 GB of memory, and minutes, for two billion empty rows. A vector may be
// that sparse.
void check_rows(const Input& input, const Header& header);

// What is wrong with an entry.
constexpr std::string_view given_twice =
    "is given twice; allow repeated entries to be added if that is what is meant";
constexpr std::string_view sum_too_large =
    "is given more than once; the sum of its values is too large for double precision";

// What is wrong with a symmetric file that has entries on both sides of the diagonal. `instead` says how a file calls
// a matrix that is stored whole.
std::string both_triangles(const Header& header, bool above_is_later, std::string_view instead);

}  // namespace protean::io_detail
