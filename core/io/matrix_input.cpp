#include "core/io/matrix_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/memory.hpp"

namespace protean::io_detail {

void fail(const Input& input, Position at, const std::string& message) {
  throw BadFile(input.name, at.line, at.column, message);
}

void check_memory(const Input& input, const Header& header, double entries, double item_bytes,
                  double row_bytes, const ReadOptions& options) {
  const double bytes = entries * item_bytes + static_cast<double>(header.rows + 1) * row_bytes;
  const auto most = static_cast<double>(std::numeric_limits<std::int64_t>::max());
  detail::require_memory(
      bytes < most ? static_cast<std::size_t>(bytes) : std::numeric_limits<std::size_t>::max(),
      fmt::format("{}:{}: a matrix of {} x {} and {} entries", input.name, header.size_line, header.rows,
                  header.cols, header.entries),
      options.memory_limit);
}

void check_rows(const Input& input, const Header& header) {
  constexpr std::int64_t harmless = std::int64_t{1} << 24, empty_for_each_entry = 16;
  const std::int64_t longer = std::max(header.rows, header.cols),
                     shorter = std::min(header.rows, header.cols);
  const std::int64_t entries_of_line = header.mirrored() ? 2 : 1;
  if (shorter <= 1 || longer <= harmless || longer / empty_for_each_entry / entries_of_line < header.entries)
    return;
  fail(input, {header.size_line, 0},
       fmt::format(
           "a matrix of {} x {} with {} entries has nearly only empty rows or columns; the sizes must be "
           "wrong. Above {} rows or columns at least one entry for {} of them is needed",
           header.rows, header.cols, header.entries, harmless, empty_for_each_entry));
}

std::string both_triangles(const Header& header, bool above_is_later, std::string_view instead) {
  return fmt::format(
      "the first entry {} the diagonal after entries {} it; a {} file gives one triangle only, the "
      "other follows from it ({} when both are meant)",
      above_is_later ? "above" : "below", above_is_later ? "below" : "above",
      header.symmetry == Header::Symmetry::skew ? "skew-symmetric" : "symmetric", instead);
}

}  // namespace protean::io_detail
