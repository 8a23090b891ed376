#include "apps/problem/input.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/io/foreign_file.hpp"
#include "core/io/harwell_boeing.hpp"
#include "core/io/input_file.hpp"
#include "core/io/limits.hpp"

namespace protean::apps {

std::string read_problem_text(const std::string& file) {
  return io_detail::read_text(file, io_detail::most_whole_file);
}

std::string input_path(const std::string& given) { return given == "-" ? "/dev/stdin" : given; }

std::filesystem::path folder_of_problem(const std::string& file) {
  for (const char* of_the_system : {"/dev/", "/proc/"})
    if (file.starts_with(of_the_system)) return {};
  return std::filesystem::path(file).parent_path();
}

bool is_matrix_file(const std::string& file) {
  for (const char* ending : {".mtx", ".mtx.gz", ".mtx.xz", ".pbin"})
    if (file.ends_with(ending)) return true;
  if (io_detail::is_harwell_boeing_name(file)) return true;
  const io_detail::FileKind kind = io_detail::kind_of(file);
  if (kind != io_detail::FileKind::ordinary && kind != io_detail::FileKind::pipe &&
      kind != io_detail::FileKind::unreachable)
    return false;
  constexpr std::string_view banner = "%%matrixmarket";
  std::string begin =
      io_detail::first_bytes(file, std::max(io_detail::harwell_boeing_bytes, io_detail::foreign_bytes));
  if (!io_detail::foreign_file(begin, file).empty()) return true;
  if (begin.starts_with(io_detail::byte_order_mark)) begin.erase(0, io_detail::byte_order_mark.size());
  if (io_detail::is_harwell_boeing(begin)) return true;
  for (const std::string_view magic : {std::string_view("\x1f\x8b"),
                                       std::string_view("\xfd"
                                                        "7zXZ"),
                                       std::string_view("\x89PBIN")})
    if (begin.starts_with(magic)) return true;
  // The format makes no difference between upper and lower case.
  for (char& c : begin) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return begin.starts_with(banner);
}

}  // namespace protean::apps
