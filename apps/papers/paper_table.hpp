// The numbers that the five papers on the formats print, as data: one file of data/ a table. Nothing in them is
// measured here.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace protean::apps {

// A printed table: a line of column names, then a row a line, fields separated by tabs.
class PaperTable {
 public:
  // Lines that begin with # are `source()` and `about()`. Throws BadArgument, with name and line, for a row that
  // has not one field for each column.
  PaperTable(std::string name, std::string_view text);

  const std::string& name() const noexcept { return name_; }
  const std::string& source() const noexcept { return source_; }
  const std::string& about() const noexcept { return about_; }
  const std::vector<std::string>& columns() const noexcept { return columns_; }
  std::size_t rows() const noexcept { return rows_.size(); }
  // The row with this first field; empty if there is none.
  std::optional<std::size_t> find(std::string_view first) const;

  // As printed. Throws BadArgument for a column that is not there.
  const std::string& text(std::size_t row, std::string_view column) const;
  const std::string& label(std::size_t row) const { return rows_.at(row).front(); }
  // Nothing for "-", for words and for "inf". K and M after a number are thousands and millions.
  std::optional<double> number(std::size_t row, std::string_view column) const;

 private:
  std::string name_, source_, about_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// All tables of data/, by the names of their files without ending. A test may put another text in the place of one.
class PaperTables {
 public:
  PaperTables();
  // Throws BadArgument for a name that is not there.
  const PaperTable& operator[](std::string_view name) const;
  void replace(const std::string& name, std::string_view text);
  std::string_view text(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, PaperTable, std::less<>> tables_;
  std::map<std::string, std::string, std::less<>> texts_;
};

// Those of this build.
const PaperTables& built_in_papers();

}  // namespace protean::apps
