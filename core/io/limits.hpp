// Private: what a file that nobody has checked may demand. docs/limits.md has them in a table, with what happens at
// each of them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace protean::io_detail {

// A line of text: Matrix Market, Gmsh.
constexpr std::size_t longest_line = std::size_t{512} << 10;

// The text of a Matrix Market file. An entry takes less than 60 bytes; the rest is for comments and blanks.
constexpr std::size_t most_text(std::int64_t entries) noexcept {
  constexpr std::size_t free_bytes = std::size_t{64} << 20, bytes_of_entry = 256;
  const auto count = static_cast<std::size_t>(entries);
  return count > (SIZE_MAX - free_bytes) / bytes_of_entry ? SIZE_MAX : free_bytes + count * bytes_of_entry;
}

// What that many bytes of gzip or xz data may become. gzip reaches 1032 bytes for one, a real matrix 50.
constexpr std::size_t most_decoded(std::size_t compressed) noexcept {
  constexpr std::size_t free_bytes = std::size_t{256} << 20, growth = 1000;
  return compressed > (SIZE_MAX - free_bytes) / growth ? SIZE_MAX : free_bytes + compressed * growth;
}

// The dictionary of an xz file, which is allocated before the first byte. xz -9 takes 65 MiB.
constexpr std::size_t most_xz_memory = std::size_t{256} << 20;

// Files that are read as a whole: problem files, machine tables, exhibits.
constexpr std::size_t most_whole_file = std::size_t{16} << 20;

}  // namespace protean::io_detail
