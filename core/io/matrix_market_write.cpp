#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "core/io/matrix_market.hpp"
#include "core/io/text_sink.hpp"
#include "core/parallel.hpp"

namespace protean {
namespace {

std::string comment_lines(const std::string& comment) {
  std::string lines;
  for (std::size_t at = 0; at < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', at), comment.size());
    lines += "% " + comment.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return lines;
}

// Formats entries as text. The buffers of the threads are kept from one call to the next.
class EntryText {
 public:
  EntryText(const Context& context, io_detail::TextSink& sink, Symmetry symmetry = Symmetry::general)
      : context_(context), sink_(sink), lower_only_(symmetry == Symmetry::symmetric) {}

  // Each thread formats some thousand entries; the texts are then written in order.
  void write(const RowStretch& rows) {
    const std::int64_t base = rows.row_ptr[0], entries = rows.entries();
    const int workers = useful_parts(context_, entries);
    texts_.resize(static_cast<std::size_t>(workers));
    for (std::int64_t begin = 0; begin < entries; begin += stretch * workers) {
      parallel(workers, [&](int part, int) {
        std::string& text = texts_[static_cast<std::size_t>(part)];
        text.resize(static_cast<std::size_t>(stretch) * longest_line);
        const std::int64_t first = std::min(entries, begin + stretch * part);
        const std::int64_t last = std::min(entries, first + stretch);
        char* at = text.data();
        std::int64_t row = detail::row_of_entry(rows.row_ptr, rows.rows, base + first);
        for (std::int64_t k = first; k < last; ++k) {
          while (rows.row_ptr[row + 1] - base <= k) ++row;
          if (lower_only_ && rows.col[k] > rows.first + row) continue;
          at = fmt::format_to(at, FMT_COMPILE("{} {} {}\n"), rows.first + row + 1, rows.col[k] + 1,
                              rows.values[k]);
        }
        text.resize(static_cast<std::size_t>(at - text.data()));
      });
      for (const std::string& text : texts_) sink_.write(text);
    }
  }

 private:
  static constexpr std::int64_t stretch = 16384;
  static constexpr std::size_t longest_line = 64;  // 20 + 11 digits and a number of at most 24
  const Context& context_;
  io_detail::TextSink& sink_;
  bool lower_only_;
  std::vector<std::string> texts_;
};

std::string header_text(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros,
                        const std::string& comment, Symmetry symmetry = Symmetry::general) {
  return fmt::format("%%MatrixMarket matrix coordinate real {}\n{}{} {} {}\n",
                     symmetry == Symmetry::symmetric ? "symmetric" : "general", comment_lines(comment), rows,
                     cols, nonzeros);
}

std::int64_t entries_of_lower_triangle(const Context& context, const SparsityPattern& p) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(context.threads()));
  parallel(context, [&](int part, int parts) {
    const Range range = even_range(p.rows, part, parts);
    std::int64_t count = 0;
    for (std::int64_t row = range.begin; row < range.end; ++row)
      for (const std::int32_t col : p.row(row)) count += col <= row ? 1 : 0;
    counts[static_cast<std::size_t>(part)] = count;
  });
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

void write_matrix_market(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                         const std::string& comment, Symmetry symmetry) {
  const SparsityPattern& p = matrix.pattern;
  const std::int64_t entries =
      symmetry == Symmetry::symmetric ? entries_of_lower_triangle(context, p) : p.nonzeros;
  const auto sink = io_detail::open_sink(path, context.threads());
  sink->write(header_text(p.rows, p.cols, entries, comment, symmetry));
  EntryText(context, *sink, symmetry).write({0, p.rows, p.row_ptr, p.col, matrix.values});
  sink->commit();
}

struct MatrixMarketWriter::State {
  State(ContextPtr c, const std::string& p, std::string text)
      : context(std::move(c)),
        path(p),
        comment(std::move(text)),
        sink(io_detail::open_sink(p, context->threads())),
        entries(*context, *sink) {}
  ContextPtr context;
  std::string path, comment;
  std::unique_ptr<io_detail::TextSink> sink;
  EntryText entries;
  std::int64_t rows = 0, next = 0;
};

MatrixMarketWriter::MatrixMarketWriter(ContextPtr context, const std::string& path, std::string comment)
    : state_(std::make_unique<State>(std::move(context), path, std::move(comment))) {}
MatrixMarketWriter::~MatrixMarketWriter() = default;

void MatrixMarketWriter::begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) {
  state_->rows = rows;
  state_->sink->write(header_text(rows, cols, nonzeros, state_->comment));
}

void MatrixMarketWriter::take(const RowStretch& stretch) {
  if (stretch.first != state_->next)
    throw BadArgument(
        fmt::format("'{}': row {} follows row {}", state_->path, stretch.first, state_->next - 1));
  state_->entries.write(stretch);
  state_->next += stretch.rows;
}

void MatrixMarketWriter::commit() {
  if (state_->next != state_->rows) throw BadArgument(fmt::format("'{}': rows are missing", state_->path));
  state_->sink->commit();
}

void write_vectors_market(const std::string& path, MultiVectorView<const double> vectors,
                          const std::string& comment) {
  if (vectors.space != Space::host)
    throw WrongSpace("'" + path + "': a vector is written from host memory; copy it there first");
  const auto sink = io_detail::open_sink(path);
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "%%MatrixMarket matrix array real general\n{}{} {}\n",
                 comment_lines(comment), vectors.rows, vectors.columns);
  for (std::int64_t j = 0; j < vectors.columns; ++j)
    for (std::int64_t i = 0; i < vectors.rows; ++i) {
      fmt::format_to(std::back_inserter(text), "{}\n", vectors(i, j));
      if (text.size() > (std::size_t{1} << 20)) sink->write({text.data(), text.size()}), text.clear();
    }
  sink->write({text.data(), text.size()});
  sink->commit();
}

void write_vector_market(const std::string& path, VectorView<const double> vector,
                         const std::string& comment) {
  write_vectors_market(path, {vector.data, vector.size, 1, vector.size, VectorLayout::columns, vector.space},
                       comment);
}

}  // namespace protean
