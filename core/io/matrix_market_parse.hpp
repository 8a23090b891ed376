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
  std::int64_t entries = 0;    // the file's, as stated (coordinate) or as the sizes demand (array)
  std::int64_t size_line = 0;  // where the sizes stand
  std::int64_t lines = 0;      // of the header, all before the first data line

  bool mirrored() const noexcept { return symmetry != Symmetry::general; }
};

// Reads banner, comments and sizes; what follows is the source's next piece. Throws BadFile.
Header read_header(LineSource& source, bool allow_not_finite);

// Something wrong at a place of a piece; whoever knows the piece's first line makes a BadFile of it.
struct ParseError {
  const char* at;
  std::string message;
  std::int64_t entries_before;
};

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
  std::int64_t entries = 0;  // of the text; items also counts mirrored ones
  std::int64_t lines = 0;
  std::int64_t first_lower = -1, first_upper = -1;  // entry of the piece, for symmetric files
};

// Most items a piece can hold, mirrored ones included.
inline std::int64_t most_items(const Piece& piece, bool mirror) noexcept {
  const auto entries = static_cast<std::int64_t>(piece.size / 4 + 1);  // "1 1\n"
  return mirror ? 2 * entries : entries;
}

// 0-based entries in the file's order; with `mirror` each entry off the diagonal of a symmetric file is
// followed by its image. Throws ParseError.
PieceResult parse_coordinate(const Header& header, const Piece& piece, bool mirror, ValueItem* out);
PieceResult parse_coordinate(const Header& header, const Piece& piece, bool mirror, PatternItem* out);
// Values in the file's order.
PieceResult parse_array(const Header& header, const Piece& piece, double* out);

// Line (from 1) and column (from 1) of a place in the piece.
struct Position {
  std::int64_t line = 0, column = 0;
};
Position position_of(const Piece& piece, const char* at);
// Start of data line number `entry` (from 0), empty and comment lines not counted.
const char* entry_in(const Piece& piece, std::int64_t entry);

}  // namespace protean::io_detail
