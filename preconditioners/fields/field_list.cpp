#include "preconditioners/fields/field_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "preconditioners/preconditioner.hpp"

namespace protean::detail {
namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view fields_syntax =
    "write the name of each field and its ranges of rows, which count from 0 and have both ends, such as "
    "'u 0-9999, p 10000-' or 'u 0-/3 1-/3, p 2-/3'";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// The whole text is a number of at least 0.
std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '-') return {};
  return number;
}

struct RowRange {
  std::int64_t first = 0, last = 0, step = 1;
};

// "7", "0-99", "100-", "0-/3", "0-99/3"
RowRange range_of(std::string_view name, std::string_view text, std::int64_t rows) {
  const auto fail = [&](std::string_view what) {
    throw BadArgument(
        fmt::format("fields: the range '{}' of field {} {}; {}", text, name, what, fields_syntax));
  };
  const std::size_t slash = text.find('/');
  const std::string_view ends = text.substr(0, slash);
  const std::size_t dash = ends.find('-');
  const auto first = number_of(ends.substr(0, dash));
  auto last = first, step = std::optional<std::int64_t>(1);
  if (dash != std::string_view::npos)
    last = dash + 1 == ends.size() ? rows - 1 : number_of(ends.substr(dash + 1));
  if (slash != std::string_view::npos) step = number_of(text.substr(slash + 1));
  if (!first || !last || !step || *step == 0) fail("is none");
  if (*first >= rows || *last >= rows)
    fail(fmt::format("has row {}, and the matrix has rows 0 to {}", std::max(*first, *last), rows - 1));
  if (*last < *first) fail("ends before it begins");
  return {*first, *last, *step};
}

}  // namespace

std::vector<std::string_view> parts_of(std::string_view called, std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    if (parts.back().empty())
      throw BadArgument(
          fmt::format("{}: '{}' has an empty part between its commas; leave it out", called, text));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = text.find_first_not_of(blanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(blanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(blanks, end);
  }
  return words;
}

std::vector<std::vector<std::int32_t>> FieldList::rows_of_fields() const {
  std::vector<std::vector<std::int32_t>> lists(names.size());
  for (std::size_t i = 0; i < of_row.size(); ++i)
    lists[static_cast<std::size_t>(of_row[i])].push_back(static_cast<std::int32_t>(i));
  return lists;
}

bool fields_are_found(const PreconditionerOptions& options) noexcept {
  return options.fields == "auto" && options.interleaved == 0;
}

FieldList named_fields(const PreconditionerOptions& options, std::int64_t rows) {
  FieldList list;
  if (options.interleaved > 0) {
    if (options.fields != "auto")
      throw BadArgument(
          "both options fields and interleaved say which rows form a field; leave one of them out");
    if (options.interleaved > rows)
      throw BadArgument(fmt::format(
          "interleaved is {}, and the matrix has {} rows, so that field {} would be empty; take a smaller number",
          options.interleaved, rows, rows));
    for (std::int64_t k = 0; k < options.interleaved; ++k) list.names.push_back(fmt::format("{}", k));
    list.of_row.resize(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i)
      list.of_row[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i % options.interleaved);
    return list;
  }
  constexpr std::int32_t nobody = -1;
  list.of_row.assign(static_cast<std::size_t>(rows), nobody);
  for (const std::string_view part : parts_of("fields", options.fields)) {
    const std::vector<std::string_view> words = words_of(part);
    if (std::find(list.names.begin(), list.names.end(), words.front()) != list.names.end())
      throw BadArgument(
          fmt::format("fields: there are two fields {}; give each one name and all its ranges: {}",
                      words.front(), fields_syntax));
    const auto field = static_cast<std::int32_t>(list.names.size());
    list.names.emplace_back(words.front());
    if (words.size() == 1)
      throw BadArgument(fmt::format("fields: field {} has no rows; {}", words.front(), fields_syntax));
    for (std::size_t k = 1; k < words.size(); ++k) {
      const RowRange range = range_of(words.front(), words[k], rows);
      for (std::int64_t i = range.first; i <= range.last; i += range.step) {
        std::int32_t& owner = list.of_row[static_cast<std::size_t>(i)];
        if (owner != nobody)
          throw BadArgument(
              fmt::format("fields: row {} (counted from 0) is in field {} and again in field {}; "
                          "each row belongs to one field",
                          i, list.names[static_cast<std::size_t>(owner)], words.front()));
        owner = field;
      }
    }
  }
  const auto left = std::find(list.of_row.begin(), list.of_row.end(), nobody);
  if (left != list.of_row.end())
    throw BadArgument(fmt::format(
        "fields: row {} (counted from 0) is in no field, and so are {} rows in all; each row belongs "
        "to one field",
        left - list.of_row.begin(), std::count(left, list.of_row.end(), nobody)));
  return list;
}

}  // namespace protean::detail

namespace protean {

// Rows in equal distances are one range.
std::string fields_of_labels(std::span<const std::int32_t> labels) {
  if (labels.empty()) throw BadArgument("labels: there are none; give one for each row");
  std::map<std::int32_t, std::vector<std::int64_t>> rows;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0)
      throw BadArgument(
          fmt::format("labels: the label of row {} is {}; it must be a number of at least 0", i, labels[i]));
    rows[labels[i]].push_back(static_cast<std::int64_t>(i));
  }
  std::string text;
  for (const auto& [label, own] : rows) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", label);
    for (std::size_t first = 0; first < own.size();) {
      const std::int64_t step = first + 1 < own.size() ? own[first + 1] - own[first] : 1;
      std::size_t last = first;
      while (last + 1 < own.size() && own[last + 1] - own[last] == step) ++last;
      if (last < first + 2 && step != 1) last = first;  // two of them are not a range
      text += last == first ? fmt::format(" {}", own[first])
              : step == 1   ? fmt::format(" {}-{}", own[first], own[last])
                            : fmt::format(" {}-{}/{}", own[first], own[last], step);
      first = last + 1;
    }
  }
  return text;
}

}  // namespace protean
