#include "core/io/vector_writer.hpp"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string_view>

#include "core/io/atomic_file.hpp"
#include "core/io/text_sink.hpp"

namespace protean::io_detail {
namespace {

constexpr std::string_view magic("\x93NUMPY\1\0", 8);
constexpr std::size_t block_bytes = 64;  // the numbers begin at a multiple of it

}  // namespace

std::string npy_header(const std::string& shape, bool fortran_order) {
  std::string header = fmt::format("{{'descr': '<f8', 'fortran_order': {}, 'shape': {}, }}",
                                   fortran_order ? "True" : "False", shape);
  // Magic and length come before it, and it ends in a newline.
  const std::size_t before = magic.size() + 2;
  header.resize((before + header.size() + 1 + block_bytes - 1) / block_bytes * block_bytes - before - 1, ' ');
  header += '\n';
  std::string all(magic);
  all += static_cast<char>(header.size() & 0xff);
  all += static_cast<char>(header.size() >> 8);
  return all + header;
}

struct VectorWriter::State {
  std::string path;
  std::optional<AtomicFile> binary;
  std::unique_ptr<TextSink> text;
  std::int64_t left = 0;
};

VectorWriter::VectorWriter(const std::string& path, std::int64_t size, const std::string& comment)
    : state_(std::make_unique<State>()) {
  state_->path = path, state_->left = size;
  if (path.ends_with(".npy")) {
    state_->binary.emplace(path);
    state_->binary->write(npy_header(fmt::format("({},)", size), false));
    return;
  }
  std::string lines;
  for (std::size_t at = 0; at < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', at), comment.size());
    lines += "% " + comment.substr(at, end - at) + "\n";
    at = end + 1;
  }
  state_->text = open_sink(path);
  state_->text->write(fmt::format("%%MatrixMarket matrix array real general\n{}{} 1\n", lines, size));
}

VectorWriter::~VectorWriter() = default;

void VectorWriter::add(std::span<const double> entries) {
  State& s = *state_;
  s.left -= static_cast<std::int64_t>(entries.size());
  if (s.left < 0) throw BadArgument(fmt::format("'{}': more entries than were announced", s.path));
  if (s.binary) return s.binary->write(entries.data(), entries.size_bytes());
  fmt::memory_buffer text;
  for (const double entry : entries) {
    fmt::format_to(std::back_inserter(text), "{}\n", entry);
    if (text.size() > (std::size_t{1} << 20)) s.text->write({text.data(), text.size()}), text.clear();
  }
  s.text->write({text.data(), text.size()});
}

void VectorWriter::commit() {
  State& s = *state_;
  if (s.left != 0) throw BadArgument(fmt::format("'{}': {} entries are missing", s.path, s.left));
  if (s.binary)
    s.binary->commit();
  else
    s.text->commit();
}

}  // namespace protean::io_detail
