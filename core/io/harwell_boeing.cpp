#include "core/io/harwell_boeing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/io/harwell_boeing_layout.hpp"
#include "core/io/matrix_market_pieces.hpp"

namespace protean::io_detail {
namespace {

// The columns of a file as they stand there.
struct Columns {
  std::vector<std::int64_t> begin;  // cols + 1
  std::vector<std::int32_t> row;
  std::vector<double> value;    // empty for a pattern
  std::int64_t index_line = 0;  // the first one with row indices
};

// The place of the row index of entry k.
Position index_place(const Columns& columns, const Layout& layout, std::int64_t k) {
  const std::vector<FortranField>& fields = layout.indices.fields;
  const auto of_line = static_cast<std::int64_t>(fields.size());
  return {columns.index_line + k / of_line, fields[static_cast<std::size_t>(k % of_line)].begin + 1};
}

double finite(const Cards& cards, std::string_view text, double value, bool allow_not_finite) {
  if (!allow_not_finite && !std::isfinite(value))
    cards.fail(text, fmt::format("the value is {}; only finite numbers are allowed", shown(text)));
  return value;
}

class ColumnReader {
 public:
  ColumnReader(const Input& input, Cards& cards, const Layout& layout)
      : input_(input), cards_(cards), layout_(layout), header_(layout.header) {}

  Columns read() {
    pointers();
    columns_.index_line = cards_.number() + 1;
    indices();
    if (layout_.has_values) values();
    check_symmetry();
    return std::move(columns_);
  }

 private:
  void pointers() {
    std::vector<std::int64_t>& begin = columns_.begin;
    cards_.numbers(
        layout_.pointers, header_.cols + 1, "pointers", [&](std::string_view text, const FortranField&) {
          const std::int64_t value = whole_in(text), before = begin.empty() ? 1 : begin.back() + 1;
          if (begin.empty() ? value != 1 : (value < before || value > header_.entries + 1))
            cards_.fail(text,
                        begin.empty()
                            ? fmt::format("the first pointer is {}; it must be 1", shown(text))
                            : fmt::format("the pointer of column {} is {}; allowed is {} to {}, from the one "
                                          "before to the number of entries and 1",
                                          begin.size() + 1, shown(text), before, header_.entries + 1));
          begin.push_back(value - 1);
        });
    if (begin.back() != header_.entries)
      cards_.fail(0, fmt::format("the last pointer is {}; it must be {}, since line {} states {} entries",
                                 begin.back() + 1, header_.entries + 1, header_.size_line, header_.entries));
  }

  void indices() {
    cards_.numbers(layout_.indices, header_.entries, "row indices",
                   [&](std::string_view text, const FortranField&) {
                     const std::int64_t row = whole_in(text);
                     if (row < 1 || row > header_.rows)
                       cards_.fail(text, fmt::format("the row is {}; {}allowed is 1 to {}", shown(text),
                                                     row == 0 ? "indices count from 1, " : "", header_.rows));
                     columns_.row.push_back(static_cast<std::int32_t>(row - 1));
                   });
  }

  void values() {
    cards_.numbers(
        layout_.values, header_.entries, "values", [&](std::string_view text, const FortranField& field) {
          columns_.value.push_back(
              finite(cards_, text, real_in(text, field, layout_.values), header_.allow_not_finite));
        });
  }

  // One triangle only, and no diagonal in a skew-symmetric matrix.
  void check_symmetry() const {
    if (!header_.mirrored()) return;
    std::int64_t lower = -1, upper = -1;
    for (std::int64_t c = 0; c < header_.cols; ++c)
      for (std::int64_t k = columns_.begin[c]; k < columns_.begin[c + 1]; ++k) {
        const std::int64_t row = columns_.row[k];
        if (row > c && lower < 0) lower = k;
        if (row < c && upper < 0) upper = k;
        if (row == c && header_.symmetry == Header::Symmetry::skew && columns_.value[k] != 0)
          fail(input_, index_place(columns_, layout_, k), std::string(diagonal_of_skew));
      }
    if (lower < 0 || upper < 0) return;
    fail(input_, index_place(columns_, layout_, std::max(lower, upper)),
         both_triangles(header_, upper > lower, "write U as the second letter of the type"));
  }

  const Input& input_;
  Cards& cards_;
  const Layout& layout_;
  const Header& header_;
  Columns columns_;
};

template <class Item>
Item item_of(const Columns& columns, std::int64_t k, std::int32_t column) {
  if constexpr (std::is_same_v<Item, PatternItem>)
    return {columns.row[k], column};
  else
    return {columns.row[k], column, columns.value[k]};
}

// The entries, including the other half of a symmetric matrix, in the order of the file.
template <class Item>
std::vector<ItemPiece<Item>> pieces_of(const Columns& columns, const Header& header, const Buckets& buckets) {
  constexpr std::int64_t most = std::int64_t{1} << 20;  // entries of a piece
  std::vector<ItemPiece<Item>> pieces;
  PageArray<Item> scratch(std::min(most, header.entries) * (header.mirrored() ? 2 : 1));
  std::int64_t count = 0, entries = 0;
  const auto flush = [&] {
    ItemPiece<Item>& piece = pieces.emplace_back();
    piece.number = static_cast<std::int64_t>(pieces.size()) - 1;
    piece.result.items = count, piece.result.entries = entries;
    store(piece, buckets, scratch.data());
    count = entries = 0;
  };
  for (std::int64_t c = 0; c < header.cols; ++c)
    for (std::int64_t k = columns.begin[c]; k < columns.begin[c + 1]; ++k) {
      Item item = item_of<Item>(columns, k, static_cast<std::int32_t>(c));
      scratch.data()[count++] = item;
      if (header.mirrored() && item.row != item.col) {
        std::swap(item.row, item.col);
        if (header.symmetry == Header::Symmetry::skew) item.flip_sign();
        scratch.data()[count++] = item;
      }
      if (++entries == most) flush();
    }
  if (entries > 0) flush();
  return pieces;
}

template <class Item>
CsrMatrix<double> matrix_of(const ContextPtr& context, const Input& input, const Layout& layout,
                            const Columns& columns, const ReadOptions& options) {
  const Header& header = layout.header;
  const Buckets buckets(header.rows);
  Assembled result =
      assemble(context, header, buckets, pieces_of<Item>(columns, header, buckets), options.duplicates);
  // The message gives the place of the second row index of the entry.
  const auto refuse = [&](EntryPlace entry, std::string_view why) {
    if (header.mirrored() && std::find(columns.row.begin() + columns.begin[entry.col],
                                       columns.row.begin() + columns.begin[entry.col + 1],
                                       entry.row) == columns.row.begin() + columns.begin[entry.col + 1])
      std::swap(entry.row, entry.col);
    std::int64_t k = columns.begin[entry.col];
    for (int seen = columns.row[k] == entry.row ? 1 : 0; seen < 2;)
      seen += columns.row[++k] == entry.row ? 1 : 0;
    fail(input, index_place(columns, layout, k),
         fmt::format("entry ({}, {}) {}", entry.row + 1, entry.col + 1, why));
  };
  if (result.repeated && options.duplicates == Duplicates::refuse) refuse(*result.repeated, given_twice);
  if (result.overflow && !options.allow_not_finite) refuse(*result.overflow, sum_too_large);
  return result.matrix;
}

Layout read_layout(const Input& input, Cards& cards, LineSource& source, const ReadOptions& options) {
  Layout layout = layout_of(cards, options.allow_not_finite);
  const Header& header = layout.header;
  check_rows(input, header);
  // Of an entry: its index and value in vectors that have grown, its item, and what the matrix has.
  constexpr double item_bytes = 24 + sizeof(ValueItem) + 12;
  check_memory(input, header,
               static_cast<double>(header.entries) * (header.mirrored() ? 2 : 1) +
                   static_cast<double>(header.cols) * 8 / item_bytes,
               item_bytes, 8, options);
  source.allow(most_text(header.entries + header.cols),
               fmt::format("for the {} entries that line {} states", header.entries, header.size_line));
  return layout;
}

}  // namespace

bool is_harwell_boeing(std::string_view text) noexcept {
  std::array<std::string_view, 3> lines;
  for (std::string_view& line : lines) {
    const std::size_t end = text.find('\n');
    if (&line != &lines[2] && end == std::string_view::npos) return false;
    line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return lines[1].find_first_of("0123456789") != std::string_view::npos &&
         lines[1].find_first_not_of("0123456789 \t\r") == std::string_view::npos &&
         is_type(lines[2].substr(0, 3)) && lines[2].size() > 4 && (lines[2][3] == ' ' || lines[2][3] == '\t');
}

bool is_harwell_boeing_name(std::string_view path) noexcept {
  for (const std::string_view compressed : {".gz", ".xz"})
    if (path.ends_with(compressed)) path.remove_suffix(compressed.size());
  const std::string_view name = path.substr(path.rfind('/') + 1), ending = name.substr(name.rfind('.') + 1);
  return name.size() > ending.size() && (is_type(ending) || ending == "rb" || ending == "hb");
}

bool begins_as_harwell_boeing(LineSource& source) {
  Piece piece;
  if (!source.next(piece)) return false;
  const std::string_view text(piece.begin(), piece.size);
  const bool is_one = is_harwell_boeing(text.substr(0, harwell_boeing_bytes)) ||
                      (is_harwell_boeing_name(source.name()) && !text.starts_with("%%"));
  source.put_back(piece, 0);
  return is_one;
}

CsrMatrix<double> read_harwell_boeing(const ContextPtr& context, const Input& input, LineSource& source,
                                      const ReadOptions& options) {
  Cards cards(input, source);
  const Layout layout = read_layout(input, cards, source, options);
  const Columns columns = ColumnReader(input, cards, layout).read();
  while (layout.vectors_line == 0 && cards.next())
    if (const std::size_t more = cards.line().find_first_not_of(" \t"); more != std::string_view::npos)
      cards.fail(more + 1, fmt::format("{} behind the last number of the {} entries that line {} states",
                                       shown(cards.line().substr(more)), layout.header.entries,
                                       layout.header.size_line));
  return layout.has_values ? matrix_of<ValueItem>(context, input, layout, columns, options)
                           : matrix_of<PatternItem>(context, input, layout, columns, options);
}

VectorColumns read_right_hand_sides(const ContextPtr& context, const Input& input, LineSource& source,
                                    const ReadOptions& options, bool several) {
  Cards cards(input, source);
  const Layout layout = read_layout(input, cards, source, options);
  const std::int64_t rows = layout.header.rows, vectors = layout.vectors;
  const auto refuse = [&](std::int64_t line, const std::string& message) { fail(input, {line, 0}, message); };
  if (layout.vectors_line == 0 || vectors == 0)
    refuse(2, "this is a matrix without right-hand sides; give a Matrix Market or .npy file of a vector");
  if (!layout.full_vectors)
    refuse(
        layout.vectors_line,
        "the right-hand sides are sparse or of element matrices; only full ones (F) are read. Save them as "
        "Matrix Market");
  if (vectors != 1 && !several)
    refuse(layout.vectors_line, fmt::format("{} right-hand sides; one vector is needed here", vectors));
  check_memory(input, layout.header, static_cast<double>(rows) * static_cast<double>(vectors), 24, 0,
               options);
  source.allow(most_text(layout.header.entries + layout.header.cols + rows * vectors),
               fmt::format("for {} right-hand sides", vectors));
  (void)ColumnReader(input, cards, layout).read();
  std::vector<double> numbers;
  cards.numbers(layout.right_sides, rows * vectors, "numbers of right-hand sides",
                [&](std::string_view text, const FortranField& field) {
                  numbers.push_back(finite(cards, text, real_in(text, field, layout.right_sides),
                                           options.allow_not_finite));
                });
  VectorColumns result{Vector<double>(context, rows * vectors), vectors};
  std::copy(numbers.begin(), numbers.end(), result.entries.data());
  return result;
}

}  // namespace protean::io_detail
