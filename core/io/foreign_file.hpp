// Private: files of other programs that hold matrices, and how they become Matrix Market files.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace protean::io_detail {

// What a file with these first bytes is, if it is not read here, and the command that converts it. Empty for all other
// files. `path` stands in the command.
std::string foreign_file(std::string_view first_bytes, const std::string& path);
constexpr std::size_t foreign_bytes = 512;  // this many of its first bytes show what it is

// Whether the type in the header of a .npy file is complex: '<c16' with its quotes. What to say about a vector of such
// numbers.
bool is_complex(std::string_view type) noexcept;
std::string complex_vector(std::string_view type, const std::string& path);

// The bytes of UTF-8 text with which some editors begin a file; they mean nothing.
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
// What to say about a text in UTF-16, with the command that converts it. Empty for other texts.
std::string wide_text(std::string_view first_bytes, const std::string& path);

// A word of a command for a shell: in quotes if it needs them. A path that begins with '-' gets "./" before it.
std::string shell_quoted(const std::string& path);

}  // namespace protean::io_detail
