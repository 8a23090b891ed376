// Private: from Matrix Market text to entries. No threads and no files here.
#pragma once
#include <cstdint>
#include <string>

#include "core/io/text_source.hpp"

namespace protean::io_detail {

struct Header {
  enum class Field : unsigned char { real, integer, pattern };
  enum class Symmetry : unsigned char { general, symmetric, skew };
  bool coordinate = true;
  Field field = Field::real;
  Symmetry symmetry = Symmetry::general;
  bool allow_not_finite = false;  // from the reader's options
  std::int64_t rows = 0, cols = 0;
  std::int64_t entries = 0;    // in the file: as stated (coordinate), or as the sizes demand (array)
  std::int64_t size_line = 0;  // number of the line with the sizes
  std::int64_t lines = 0;      // lines of the header: all before the first data line

  bool mirrored() const noexcept { return symmetry != Symmetry::general; }
};

// Reads banner, comments and sizes. The next piece of the source begins after them. Throws BadFile.
Header read_header(LineSource& source, bool allow_not_finite);

// An error at a place in a piece. The caller knows the line at which the piece begins and throws BadFile.
struct ParseError {
  const char* at;
  std::string message;
  std::int64_t entries_before;
};

// What is wrong with such an entry of a skew-symmetric matrix. Zeros may stand there: SciPy writes them.
constexpr std::string_view diagonal_of_skew =
    "an entry on the diagonal that is not 0; a skew-symmetric matrix has only zeros there";

struct ValueItem {
  std::int32_t row, col;
  double value;
  void flip_sign() noexcept { value = -value; }
};
struct PatternItem {
  std::int32_t row, col;
  void flip_sign() noexcept {}
};

struct PieceResult {
  std::int64_t items = 0;    // written to `out`
  std::int64_t entries = 0;  // in the text; items counts mirrored entries also
  std::int64_t lines = 0;
  std::int64_t first_lower = -1, first_upper = -1;  // entry of the piece, for symmetric files
};

// The most items that a piece can hold, mirrored entries included.
inline std::int64_t most_items(const Piece& piece, bool mirror) noexcept {
  const auto entries = static_cast<std::int64_t>(piece.size / 4 + 1);  // "1 1\n"
  return mirror ? 2 * entries : entries;
}

// Writes 0-based entries in the order of the file. With `mirror` each entry off the diagonal of a symmetric
// file is followed by its mirror image. Throws ParseError.
PieceResult parse_coordinate(const Header& header, const Piece& piece, bool mirror, ValueItem* out);
PieceResult parse_coordinate(const Header& header, const Piece& piece, bool mirror, PatternItem* out);
// Writes values in the order of the file. Throws ParseError.
PieceResult parse_array(const Header& header, const Piece& piece, double* out);

// Line (from 1) and column (from 1) of a place in the piece.
struct Position {
  std::int64_t line = 0, column = 0;
};
Position position_of(const Piece& piece, const char* at);
// The start of data line number `entry`, counted from 0 without empty and comment lines.
const char* entry_in(const Piece& piece, std::int64_t entry);

}  // namespace protean::io_detail
