// Private: files of other programs that hold matrices, and how they become Matrix Market files.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace protean::io_detail {

// What a file with these first bytes is, if it is not read here, and the command that converts it. Empty for all other
// files. `path` stands in the command.
std::string foreign_file(std::string_view first_bytes, const std::string& path);
constexpr std::size_t foreign_bytes = 6;  // so many of its first bytes tell

// The same for a text whose name says what it is: Rutherford-Boeing and Harwell-Boeing files.
std::string foreign_name(const std::string& path);

}  // namespace protean::io_detail
