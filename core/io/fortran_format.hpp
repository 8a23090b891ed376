// Private: Fortran formats of one kind of number, such as (10I6) or (1P,5E16.9), and the numbers that stand in lines
// written with them. Such numbers fill columns: there need be no blank between two of them.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace protean::io_detail {

// What is wrong with a format or with a number. The message follows its text: "is not a whole number".
class FortranError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct FortranField {
  int begin = 0, width = 0;  // in columns, counted from 0
  int digits = 0;            // d of Ew.d
};

struct FortranFormat {
  std::string text;                  // as in the file
  std::vector<FortranField> fields;  // of a line, at least one
  int scale = 0;                     // k of kP
};

// The format of one line. Letters: I, and E, D, F, G (also ES, EN), which may stand in one group with a count, next to
// blanks (2X) and a scale factor (1P). Throws FortranError for everything else.
FortranFormat parse_fortran_format(std::string_view text);

// The columns of a field, without blanks around; empty if the line has none, or ends before.
std::string_view in_field(std::string_view line, const FortranField& field) noexcept;

// The number of a field that is not empty. A real one may have an exponent of E, D or Q, or of a sign alone
// (1.5-103). Refused is what Fortran would multiply by a power of ten: a number without a point in a format with
// digits behind it, and a number without an exponent under a scale factor. It is infinite or not a number only
// if it is spelled so. Throws FortranError.
std::int64_t whole_in(std::string_view text);
double real_in(std::string_view text, const FortranField& field, const FortranFormat& format);

}  // namespace protean::io_detail
