// Which field each row belongs to: option `fields` or `interleaved`. Private to preconditioners/.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/context.hpp"
#include "preconditioners/preconditioner_options.hpp"

namespace protean::detail {

struct FieldList {
  std::vector<std::string> names;
  std::vector<std::int32_t> of_row;  // the field of each row

  std::int64_t size() const noexcept { return static_cast<std::int64_t>(names.size()); }
  // The rows of each field, ascending.
  std::vector<std::vector<std::int32_t>> rows_of_fields() const;
  bool operator==(const FieldList&) const = default;
};

// Whether the options leave it to the matrix.
bool fields_are_found(const PreconditionerOptions& options) noexcept;
// What the options name for a matrix of `rows` rows. Throws BadArgument, naming row and field, for a text that does not
// follow the syntax, a row in two fields, in none or beyond the matrix, an empty field, two fields of one name, and if
// both options are given.
FieldList named_fields(const PreconditionerOptions& options, std::int64_t rows);
// One or more parts of a text between commas, without the blanks around them; what remains is never empty. Throws
// BadArgument, which calls the text `called`, for an empty part.
std::vector<std::string_view> parts_of(std::string_view called, std::string_view text);
// Words between blanks.
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace protean::detail
