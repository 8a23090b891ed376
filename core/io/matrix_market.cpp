// How a file is read: each thread takes the next piece of text and parses it. The results are then combined
// in the order of the file, so that neither the matrix nor an error message depends on which thread parsed
// which piece.
#include "core/io/matrix_market.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <optional>

#include "core/io/harwell_boeing.hpp"
#include "core/io/matrix_input.hpp"
#include "core/io/matrix_market_pieces.hpp"
#include "core/io/pbin.hpp"
#include "core/parallel.hpp"

namespace protean {
namespace {

using namespace io_detail;

// The first error in the text.
struct Failure {
  std::int64_t piece = std::numeric_limits<std::int64_t>::max();
  Position position;
  std::string message;
  std::int64_t entries_before = 0;
  std::exception_ptr other;  // an error of the source itself: broken compression
};

template <class PieceOut>
struct Parsed {
  std::vector<PieceOut> pieces;
  std::optional<Failure> failure;
};

// All threads call parse(piece, scratch) -> PieceOut until every piece of the source is parsed. They stop
// after a failure, and when there are more than header.entries entries. The pieces returned are always the
// first ones of the text, without a gap.
template <class PieceOut, class Scratch, class Parse>
Parsed<PieceOut> parse_pieces(const Context& context, LineSource& source, const Header& header,
                              const Parse& parse) {
  const int workers = context.threads();
  std::vector<Parsed<PieceOut>> parts(static_cast<std::size_t>(workers));
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> entries{0};
  parallel(workers, [&](int part, int) {
    Piece piece;
    PageArray<Scratch> scratch;
    auto& mine = parts[part];
    while (!stop.load()) {
      try {
        if (!source.next(piece)) break;
      } catch (const BadFile&) {
        stop = true;
        mine.failure.emplace().other = std::current_exception();
        break;
      }
      try {
        mine.pieces.push_back(parse(piece, scratch));
        if (entries.fetch_add(mine.pieces.back().result.entries) + mine.pieces.back().result.entries >
            header.entries)
          stop = true;
      } catch (const ParseError& error) {
        stop = true;
        mine.failure =
            Failure{piece.number, position_of(piece, error.at), error.message, error.entries_before, {}};
        break;
      }
    }
  });
  Parsed<PieceOut> all;
  for (auto& part : parts) {
    std::move(part.pieces.begin(), part.pieces.end(), std::back_inserter(all.pieces));
    part.pieces.clear();
    if (part.failure && (!all.failure || part.failure->piece < all.failure->piece))
      all.failure = part.failure;
  }
  std::sort(all.pieces.begin(), all.pieces.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  if (all.failure)
    while (!all.pieces.empty() && all.pieces.back().number > all.failure->piece) all.pieces.pop_back();
  return all;
}

// The place of the first entry for which wanted(number, item) is true. The text is read once more for this,
// which happens only for an error message. Line 0 when it cannot be read again.
template <class Item, class Wanted>
Position find_entry(const Input& input, const Wanted& wanted) {
  try {
    const auto source = input.lines();
    const Header header = read_header(*source, true);
    Piece piece;
    std::vector<Item> items;
    std::int64_t entries = 0, lines = header.lines;
    while (source->next(piece)) {
      items.resize(piece.size / 2 + 1);  // "1\n" is the shortest array line
      PieceResult result;
      bool broken = false;
      try {
        if constexpr (std::is_same_v<Item, double>)
          result = parse_array(header, piece, items.data());
        else
          result = parse_coordinate(header, piece, false, items.data());
      } catch (const ParseError& error) { result.entries = error.entries_before, broken = true; }
      for (std::int64_t k = 0; k < result.entries; ++k)
        if (wanted(entries + k, items[k])) {
          Position position = position_of(piece, entry_in(piece, k));
          position.line += lines;
          return position;
        }
      if (broken) break;
      entries += result.entries, lines += result.lines;
    }
  } catch (const BadFile&) {  // broken compression further on, or the file was a pipe or has been removed
  }
  return {};
}

// Throws for the first error: too many entries, an entry that cannot be parsed, or too few entries.
template <class Item, class PieceOut>
void check(const Input& input, const Header& header, const Parsed<PieceOut>& parsed) {
  std::int64_t entries = parsed.failure ? parsed.failure->entries_before : 0, lines = header.lines;
  for (const auto& piece : parsed.pieces) entries += piece.result.entries, lines += piece.result.lines;
  if (entries > header.entries)
    fail(input,
         find_entry<Item>(input, [&](std::int64_t number, const Item&) { return number == header.entries; }),
         fmt::format("one entry more than the {} that line {} {}", header.entries, header.size_line,
                     header.coordinate ? "states" : "demands"));
  if (parsed.failure) {
    if (parsed.failure->other) std::rethrow_exception(parsed.failure->other);
    Position position = parsed.failure->position;
    position.line += lines;
    fail(input, position, parsed.failure->message);
  }
  if (entries < header.entries)
    fail(input, {lines, 0},
         fmt::format("the file ends after {} of the {} entries that line {} {}; it may have been cut off",
                     entries, header.entries, header.size_line, header.coordinate ? "states" : "demands"));
}

// A symmetric file may give either triangle but not both. With both, each entry would be added twice.
template <class Item>
void check_triangles(const Input& input, const Header& header, const Parsed<ItemPiece<Item>>& parsed) {
  std::int64_t lower = -1, upper = -1, entries = 0;
  for (const auto& piece : parsed.pieces) {
    if (lower < 0 && piece.result.first_lower >= 0) lower = entries + piece.result.first_lower;
    if (upper < 0 && piece.result.first_upper >= 0) upper = entries + piece.result.first_upper;
    entries += piece.result.entries;
  }
  if (lower < 0 || upper < 0) return;
  const std::int64_t later = std::max(lower, upper);
  fail(input, find_entry<Item>(input, [&](std::int64_t number, const Item&) { return number == later; }),
       both_triangles(header, later == upper, "say 'general' in the banner"));
}

// The same for vectors in coordinates. They may be sparse, such as a load in one point, so only vectors of more than a
// gigabyte need an entry now and then.
void check_vector_rows(const Input& input, const Header& header) {
  constexpr std::int64_t harmless = std::int64_t{1} << 27, empty_for_each_entry = 1000;
  const double size = static_cast<double>(header.rows) * static_cast<double>(header.cols);
  if (size <= static_cast<double>(harmless) ||
      size / empty_for_each_entry <= static_cast<double>(header.entries) * (header.mirrored() ? 2 : 1))
    return;
  fail(input, {header.size_line, 0},
       fmt::format("{} x {} numbers with {} entries are nearly only zeros; the sizes must be wrong. Above {} "
                   "numbers at least one entry for {} of them is needed",
                   header.rows, header.cols, header.entries, harmless, empty_for_each_entry));
}

template <class Item>
CsrMatrix<double> read_coordinate(const ContextPtr& context, const Input& input, LineSource& source,
                                  const Header& header, const ReadOptions& options) {
  check_rows(input, header);
  check_memory(input, header, static_cast<double>(header.entries) * (header.mirrored() ? 2 : 1),
               sizeof(Item) + 12, 8, options);
  const Buckets buckets(header.rows);
  auto parsed = parse_pieces<ItemPiece<Item>, Item>(
      *context, source, header, [&](const Piece& piece, PageArray<Item>& scratch) {
        scratch.at_least(most_items(piece, header.mirrored()));
        ItemPiece<Item> out;
        out.number = piece.number;
        out.result = parse_coordinate(header, piece, header.mirrored(), scratch.data());
        store(out, buckets, scratch.data());
        return out;
      });
  check<Item>(input, header, parsed);
  if (header.mirrored()) check_triangles(input, header, parsed);
  Assembled result = assemble(context, header, buckets, std::move(parsed.pieces), options.duplicates);
  // The message gives the place of the second occurrence of the entry, with the indices of the file.
  const auto refuse = [&](EntryPlace entry, std::string_view why) {
    int seen = 0;
    const Position second = find_entry<Item>(input, [&](std::int64_t, const Item& item) {
      const bool mirrored = header.mirrored() && item.row == entry.col && item.col == entry.row;
      if (!mirrored && (item.row != entry.row || item.col != entry.col)) return false;
      entry = {item.row, item.col};
      return ++seen == 2;
    });
    fail(input, second, fmt::format("entry ({}, {}) {}", entry.row + 1, entry.col + 1, why));
  };
  if (result.repeated && options.duplicates == Duplicates::refuse) refuse(*result.repeated, given_twice);
  if (result.overflow && !options.allow_not_finite) refuse(*result.overflow, sum_too_large);
  return result.matrix;
}

Parsed<ValuePiece> parse_values(const ContextPtr& context, const Input& input, LineSource& source,
                                const Header& header) {
  auto parsed = parse_pieces<ValuePiece, double>(
      *context, source, header, [&](const Piece& piece, PageArray<double>& scratch) {
        scratch.at_least(static_cast<std::int64_t>(piece.size / 2 + 1));
        ValuePiece out;
        out.number = piece.number;
        out.result = parse_array(header, piece, scratch.data());
        out.items = PageArray<double>(out.result.items);
        std::copy_n(scratch.data(), out.result.items, out.items.data());
        return out;
      });
  check<double>(input, header, parsed);
  return parsed;
}

CsrMatrix<double> read_from(const ContextPtr& context, const Input& input, const ReadOptions& options) {
  const auto source = input.lines();
  if (begins_as_harwell_boeing(*source)) return read_harwell_boeing(context, input, *source, options);
  const Header header = read_header(*source, options.allow_not_finite);
  if (!header.coordinate) {
    check_memory(input, header, static_cast<double>(header.entries) * (header.mirrored() ? 2 : 1), 20, 8,
                 options);
    auto parsed = parse_values(context, input, *source, header);
    return assemble_array(context, header, std::move(parsed.pieces));
  }
  return header.field == Header::Field::pattern
             ? read_coordinate<PatternItem>(context, input, *source, header, options)
             : read_coordinate<ValueItem>(context, input, *source, header, options);
}

VectorColumns read_vectors_from(const ContextPtr& context, const Input& input, const ReadOptions& options,
                                bool several) {
  const auto source = input.lines();
  if (begins_as_harwell_boeing(*source))
    return read_right_hand_sides(context, input, *source, options, several);
  const Header header = read_header(*source, options.allow_not_finite);
  // A file of one row is one vector.
  const bool row = header.rows == 1 && (header.cols != 1);
  const std::int64_t size = row ? header.cols : header.rows, columns = row ? 1 : header.cols;
  if (columns != 1 && !several)
    fail(input, {header.size_line, 0},
         fmt::format("{} x {}: a vector has one column (or one row)", header.rows, header.cols));
  check_memory(input, header, static_cast<double>(size) * static_cast<double>(columns), 8, 0, options);
  if (header.coordinate) check_vector_rows(input, header);
  // Memory for them is taken when the file has shown that it holds what its header promises.
  const auto allocate = [&] { return VectorColumns{Vector<double>(context, size * columns), columns}; };
  if (!header.coordinate && header.symmetry == Header::Symmetry::general) {
    check_memory(input, header, static_cast<double>(header.entries), 16, 0, options);
    const auto parsed = parse_values(context, input, *source, header);
    VectorColumns vectors = allocate();
    std::int64_t at = 0;
    for (const ValuePiece& piece : parsed.pieces) {
      std::copy_n(piece.items.data(), piece.items.size(), vectors.entries.data() + at);
      at += piece.items.size();
    }
    return vectors;
  }
  const CsrMatrix<double> matrix = read_from(context, input, options);
  VectorColumns vectors = allocate();
  std::fill_n(vectors.entries.data(), size * columns, 0.0);
  for (std::int64_t r = 0; r < matrix.rows(); ++r)
    for (std::int64_t k = matrix.pattern.row_ptr[r]; k < matrix.pattern.row_ptr[r + 1]; ++k) {
      const std::int64_t col = matrix.pattern.col[k];
      vectors.entries[row ? col : r + col * size] = matrix.values[k];
    }
  return vectors;
}

Input file_input(const std::string& path, const ReadOptions& options) {
  return {path, [path, limit = options.memory_limit] { return open_file(path, limit); }};
}

}  // namespace

CsrMatrix<double> read_matrix_market(const ContextPtr& context, const std::string& path,
                                     const ReadOptions& options) {
  return read_from(context, file_input(path, options), options);
}

CsrMatrix<double> read_matrix_market_text(const ContextPtr& context, const std::string& name,
                                          std::string_view text, const ReadOptions& options) {
  return read_from(context, {name, [=] { return open_memory(name, text, options.memory_limit); }}, options);
}

Vector<double> read_vector_market(const ContextPtr& context, const std::string& path,
                                  const ReadOptions& options) {
  return read_vectors_from(context, file_input(path, options), options, false).entries;
}

VectorColumns read_vectors_market(const ContextPtr& context, const std::string& path,
                                  const ReadOptions& options) {
  return read_vectors_from(context, file_input(path, options), options, true);
}

CsrMatrix<double> read_matrix(const ContextPtr& context, const std::string& path,
                              const ReadOptions& options) {
  return is_pbin(path) ? read_pbin(context, path, true, options.allow_not_finite)
                       : read_matrix_market(context, path, options);
}

}  // namespace protean
