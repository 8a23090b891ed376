#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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

}  // namespace

void write_matrix_market(const Context& context, const std::string& path, const CsrMatrix<double>& matrix,
                         const std::string& comment) {
  const SparsityPattern& p = matrix.pattern;
  const auto sink = io_detail::open_sink(path);
  sink->write(fmt::format("%%MatrixMarket matrix coordinate real general\n{}{} {} {}\n",
                          comment_lines(comment), p.rows, p.cols, p.nonzeros));
  // Threads format a stretch of entries each, which are then written in order.
  constexpr std::int64_t stretch = 16384;
  const int workers = useful_parts(context, p.nonzeros);
  std::vector<fmt::memory_buffer> texts(static_cast<std::size_t>(workers));
  for (std::int64_t begin = 0; begin < p.nonzeros; begin += stretch * workers) {
    parallel(workers, [&](int part, int) {
      fmt::memory_buffer& text = texts[part];
      text.clear();
      const std::int64_t first = std::min(p.nonzeros, begin + stretch * part);
      const std::int64_t last = std::min(p.nonzeros, first + stretch);
      std::int64_t low = 0, high = p.rows;  // the row of entry `first`
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (p.row_ptr[middle] <= first ? low : high) = middle;
      }
      for (std::int64_t k = first, row = low; k < last; ++k) {
        while (p.row_ptr[row + 1] <= k) ++row;
        fmt::format_to(std::back_inserter(text), "{} {} {}\n", row + 1, p.col[k] + 1, matrix.values[k]);
      }
    });
    for (const fmt::memory_buffer& text : texts) sink->write({text.data(), text.size()});
  }
  sink->commit();
}

void write_vector_market(const std::string& path, VectorView<const double> vector,
                         const std::string& comment) {
  if (vector.space != Space::host)
    throw WrongSpace("'" + path + "': a vector is written from host memory; copy it there first");
  const auto sink = io_detail::open_sink(path);
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "%%MatrixMarket matrix array real general\n{}{} 1\n",
                 comment_lines(comment), vector.size);
  for (std::int64_t i = 0; i < vector.size; ++i) {
    fmt::format_to(std::back_inserter(text), "{}\n", vector[i]);
    if (text.size() > (std::size_t{1} << 20)) sink->write({text.data(), text.size()}), text.clear();
  }
  sink->write({text.data(), text.size()});
  sink->commit();
}

}  // namespace protean
