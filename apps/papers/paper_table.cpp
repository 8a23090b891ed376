#include "apps/papers/paper_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/papers/paper_text.hpp"
#include "core/error.hpp"
#include "core/words.hpp"

namespace protean::apps {

namespace {

std::optional<double> number_of(std::string_view text) {
  double factor = 1;
  if (!text.empty() && (text.back() == 'K' || text.back() == 'k'))
    factor = 1e3;
  else if (!text.empty() && text.back() == 'M')
    factor = 1e6;
  if (factor != 1) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // from_chars() would take "inf".
  if (error != std::errc() || end != text.data() + text.size() ||
      text.find_first_of("0123456789") == text.npos)
    return {};
  return value * factor;
}

}  // namespace

PaperTable::PaperTable(std::string name, std::string_view text) : name_(std::move(name)) {
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    if (line.starts_with("# ")) {
      (source_.empty() ? source_ : about_) = line.substr(2);
      continue;
    }
    std::vector<std::string> fields;
    for (const std::string_view field : split(line, '\t')) fields.emplace_back(field);
    if (columns_.empty()) {
      columns_ = std::move(fields);
      continue;
    }
    if (fields.size() != columns_.size())
      throw BadArgument(
          fmt::format("{}, line {}: {} fields, but there are {} columns; give one field for each, - "
                      "where the paper prints none",
                      name_, number, fields.size(), columns_.size()));
    rows_.push_back(std::move(fields));
  }
  if (rows_.empty()) throw BadArgument(fmt::format("{}: a table needs a line of names and rows", name_));
}

std::optional<std::size_t> PaperTable::find(std::string_view first) const {
  for (std::size_t row = 0; row < rows_.size(); ++row)
    if (rows_[row].front() == first) return row;
  return {};
}

const std::string& PaperTable::text(std::size_t row, std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end())
    throw BadArgument(
        fmt::format("{} has no column '{}'; it has {}", name_, column, fmt::join(columns_, ", ")));
  return rows_.at(row)[static_cast<std::size_t>(found - columns_.begin())];
}

std::optional<double> PaperTable::number(std::size_t row, std::string_view column) const {
  return number_of(text(row, column));
}

PaperTables::PaperTables() {
  for (const PaperText* one = paper_texts; one->name; ++one) replace(one->name, one->text);
}

const PaperTable& PaperTables::operator[](std::string_view name) const {
  const auto found = tables_.find(name);
  if (found == tables_.end()) throw BadArgument(fmt::format("no table of a paper is called '{}'", name));
  return found->second;
}

void PaperTables::replace(const std::string& name, std::string_view text) {
  tables_.insert_or_assign(name, PaperTable(name, text));
  texts_.insert_or_assign(name, std::string(text));
}

std::string_view PaperTables::text(std::string_view name) const {
  (void)(*this)[name];
  return texts_.find(name)->second;
}

std::vector<std::string> PaperTables::names() const {
  std::vector<std::string> names;
  for (const auto& [name, table] : tables_) names.push_back(name);
  return names;
}

const PaperTables& built_in_papers() {
  static const PaperTables tables;
  return tables;
}

}  // namespace protean::apps
