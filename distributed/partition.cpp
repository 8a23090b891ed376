#include "distributed/partition.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.hpp"
#include "core/io/input_file.hpp"
#include "core/partition.hpp"

namespace protean::detail {
namespace {

constexpr std::string_view words[] = {"rows", "graph"};

// Row r belongs to the part in which the middle of its entries lies. Each row counts as one entry more, so that rows
// without entries are shared out, too.
std::vector<std::int32_t> equal_entries(const SparsityPattern& pattern, int parts) {
  std::vector<std::int32_t> part(static_cast<std::size_t>(pattern.rows));
  const auto all = static_cast<double>(pattern.nonzeros + pattern.rows);
  for (std::int64_t r = 0; r < pattern.rows; ++r) {
    const auto twice = static_cast<double>(pattern.row_ptr[r] + pattern.row_ptr[r + 1] + 2 * r + 1);
    const auto wanted = static_cast<std::int32_t>(twice / 2 / all * parts);
    part[static_cast<std::size_t>(r)] = std::min(wanted, parts - 1);
  }
  return part;
}

}  // namespace

Partition::Partition(std::vector<std::int32_t> part_of_row, int parts)
    : order_(part_of_row.size()),
      place_(part_of_row.size()),
      begin_(static_cast<std::size_t>(std::max(parts, 0)) + 1) {
  if (parts < 1) throw BadArgument(fmt::format("a partition has {} parts; it must have one or more", parts));
  for (std::size_t r = 0; r < part_of_row.size(); ++r) {
    const std::int32_t part = part_of_row[r];
    if (part < 0 || part >= parts)
      throw BadArgument(fmt::format("the partition has part {} for row {} (from 0); parts are 0 to {}", part,
                                    r, parts - 1));
    ++begin_[static_cast<std::size_t>(part) + 1];
  }
  for (std::size_t p = 1; p < begin_.size(); ++p) begin_[p] += begin_[p - 1];
  std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1);
  for (std::size_t r = 0; r < part_of_row.size(); ++r) {
    const std::int64_t place = next[static_cast<std::size_t>(part_of_row[r])]++;
    order_[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(r);
    place_[r] = static_cast<std::int32_t>(place);
  }
}

int Partition::part_of_place(std::int64_t place) const noexcept {
  return static_cast<int>(std::upper_bound(begin_.begin(), begin_.end(), place) - begin_.begin()) - 1;
}

std::span<const std::string_view> partition_words() noexcept { return words; }

Partition make_partition(const Context& host, const SparsityPattern& pattern, std::string_view word,
                         int parts) {
  if (word == "graph")
    return Partition(metis_parts(host, pattern, parts, "take partition rows, or give the part of each row"),
                     parts);
  if (word != "rows")
    throw BadArgument(fmt::format("partition is '{}'; it must be {}.{}", word, fmt::join(words, " or "),
                                  did_you_mean(word, words)));
  if (parts < 1) throw BadArgument(fmt::format("a partition has {} parts; it must have one or more", parts));
  return Partition(equal_entries(pattern, parts), parts);
}

std::vector<std::int32_t> read_partition(const std::string& path, std::int64_t rows, int parts) {
  const std::string text = io_detail::read_text(path, std::size_t{1} << 36);
  std::vector<std::int32_t> found;
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view word(text.data() + at, end - at);
    at = end + 1, ++line;
    while (!word.empty() && (word.back() == '\r' || word.back() == ' ')) word.remove_suffix(1);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    std::int32_t part = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), part);
    if (error != std::errc() || stop != word.data() + word.size() || part < 0 || part >= parts)
      throw BadFile(
          path, static_cast<std::int64_t>(line), 1,
          fmt::format("'{:.40}' is not a part; a line for each row has its part, 0 to {}", word, parts - 1));
    found.push_back(part);
  }
  if (static_cast<std::int64_t>(found.size()) != rows)
    throw BadFile(path, 0, 0, fmt::format("has {} lines; the matrix has {} rows", found.size(), rows));
  return found;
}

}  // namespace protean::detail
