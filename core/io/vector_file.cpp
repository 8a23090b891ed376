#include "core/io/vector_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/io/atomic_file.hpp"
#include "core/io/foreign_file.hpp"
#include "core/io/input_file.hpp"
#include "core/io/vector_writer.hpp"

namespace protean {
namespace {

static_assert(std::endian::native == std::endian::little, "a .npy file is written as it is in memory");

constexpr std::string_view magic("\x93NUMPY", 6);

bool is_npy(const std::string& path) { return io_detail::first_bytes(path, magic.size()) == magic; }

void write_npy(const std::string& path, MultiVectorView<const double> vectors, bool two_dimensions) {
  const std::string shape = two_dimensions ? fmt::format("({}, {})", vectors.rows, vectors.columns)
                                           : fmt::format("({},)", vectors.rows);
  AtomicFile file(path);
  file.write(io_detail::npy_header(shape, two_dimensions));
  std::vector<double> column(vectors.has_vectors() ? 0 : static_cast<std::size_t>(vectors.rows));
  for (std::int64_t j = 0; j < vectors.columns; ++j) {
    const double* from = vectors.column(j).data;
    if (!column.empty()) {
      for (std::int64_t i = 0; i < vectors.rows; ++i) column[static_cast<std::size_t>(i)] = vectors(i, j);
      from = column.data();
    }
    file.write(from, static_cast<std::size_t>(vectors.rows) * sizeof(double));
  }
  file.commit();
}

// The text of a value in the header's dictionary, such as "(3,)" of 'shape'; empty if it is not there.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(": "), rest.size()));
  const char closing = rest.starts_with('(') ? ')' : ',';
  const std::size_t end = rest.find(closing);
  if (end == std::string_view::npos) return {};
  return rest.substr(0, closing == ')' ? end + 1 : end);
}

// The lengths in "(3,)" or "(3, 1)".
std::vector<std::int64_t> lengths_of(std::string_view shape) {
  std::vector<std::int64_t> lengths;
  std::int64_t value = -1;
  for (const char c : shape) {
    if (c >= '0' && c <= '9') {
      value = (value < 0 ? 0 : value) * 10 + (c - '0');
      if (value > (std::int64_t{1} << 48)) return {};
    } else {
      if (value >= 0) lengths.push_back(value);
      value = -1;
    }
  }
  return lengths;
}

// Numbers of type From as double.
template <class From>
void convert(const std::vector<char>& bytes, double* to) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    to[i] = static_cast<double>(value);
  }
}

VectorColumns read_npy(const ContextPtr& context, const std::string& path, const ReadOptions& options,
                       bool several) {
  const auto refuse = [&](const std::string& message) { throw BadFile(path, 0, 0, message); };
  io_detail::InputFile file(path);
  if (!file.ordinary())
    refuse("is a pipe; a .npy file must be an ordinary file, since its length is checked");
  const auto size = static_cast<std::size_t>(file.size());
  const auto read = [&](char* to, std::size_t bytes, const char* what) {
    for (std::size_t got = 0; got < bytes;) {
      const std::size_t now = file.read(to + got, bytes - got);
      if (now == 0) refuse(fmt::format("ends in the middle of {}; it was cut off", what));
      got += now;
    }
  };
  std::array<unsigned char, 12> start{};
  read(reinterpret_cast<char*>(start.data()), 10, "its header");
  std::size_t length = start[8] + std::size_t{256} * start[9], begin = 10;
  if (start[6] >= 2) {  // a length of four bytes
    read(reinterpret_cast<char*>(start.data()) + 10, 2, "its header");
    length += (std::size_t{start[10]} << 16) + (std::size_t{start[11]} << 24), begin = 12;
  }
  if (length > size - std::min(size, begin)) refuse("ends in the middle of its header; it was cut off");
  std::string header(length, '\0');
  read(header.data(), length, "its header");
  const std::string_view type = value_of(header, "'descr'");
  const std::vector<std::int64_t> lengths = lengths_of(value_of(header, "'shape'"));
  const auto others =
      std::count_if(lengths.begin(), lengths.end(), [](std::int64_t one) { return one != 1; });
  const bool columns = several && lengths.size() == 2 && others == 2;
  if (lengths.empty() || lengths.size() > 2 || (others > 1 && !columns))
    refuse("is not a vector: its shape must be one row or one column, such as (100,) or (100, 1)");
  const std::size_t bytes = type == "'<f8'" || type == "'<i8'"   ? 8
                            : type == "'<f4'" || type == "'<i4'" ? 4
                                                                 : 0;
  if (bytes == 0 && io_detail::is_complex(type)) refuse(io_detail::complex_vector(type, path));
  if (bytes == 0)
    refuse(
        fmt::format("has numbers of type {}; the types that are read are <f8, <f4, <i8 and <i4. In NumPy: "
                    "save x.astype('<f8')",
                    type.substr(0, 20)));
  // No product of lengths of the header may overflow: each is compared with what is there.
  const auto there = static_cast<std::int64_t>((size - begin - length) / bytes);
  std::int64_t n = 1;
  bool fits = (size - begin - length) % bytes == 0;
  for (const std::int64_t one : lengths) {
    fits = fits && (one == 0 || n <= there / one);
    if (fits) n *= one;
  }
  if (!fits || n != there)
    refuse(fmt::format("has {} bytes of numbers; its header says {} numbers of {} bytes",
                       size - begin - length, fmt::join(lengths, " x "), bytes));
  std::vector<char> raw(size - begin - length);
  read(raw.data(), raw.size(), "its numbers");
  VectorColumns vectors{Vector<double>(context, n), columns ? lengths[1] : 1};
  double* const to = vectors.entries.data();
  if (type == "'<f8'") convert<double>(raw, to);
  if (type == "'<f4'") convert<float>(raw, to);
  if (type == "'<i8'") convert<std::int64_t>(raw, to);
  if (type == "'<i4'") convert<std::int32_t>(raw, to);
  for (std::int64_t i = 0; i < n && !options.allow_not_finite; ++i)
    if (!std::isfinite(to[i]))
      refuse(fmt::format("entry {} (counted from 0) is {}; only finite numbers are allowed", i, to[i]));
  if (columns && value_of(header, "'fortran_order'") != "True") {
    // Row after row: the entries of a vector are brought together.
    const std::vector<double> rows(to, to + n);
    for (std::int64_t i = 0; i < lengths[0]; ++i)
      for (std::int64_t j = 0; j < lengths[1]; ++j)
        to[i + j * lengths[0]] = rows[static_cast<std::size_t>(i * lengths[1] + j)];
  }
  return vectors;
}

}  // namespace

std::string_view detail::vector_file_endings() noexcept { return ".mtx, .mtx.gz, .mtx.xz or .npy"; }

bool detail::is_vector_file_name(const std::string& path) noexcept {
  for (const char* ending : {".mtx", ".mtx.gz", ".mtx.xz", ".npy"})
    if (path.ends_with(ending)) return true;
  return false;
}

void write_vectors(const std::string& path, MultiVectorView<const double> vectors,
                   const std::string& comment) {
  if (!path.ends_with(".npy")) return write_vectors_market(path, vectors, comment);
  if (vectors.space != Space::host)
    throw WrongSpace("'" + path + "': a vector is written from host memory; copy it there first");
  write_npy(path, vectors, true);
}

void write_vector(const std::string& path, VectorView<const double> vector, const std::string& comment) {
  if (!path.ends_with(".npy")) return write_vector_market(path, vector, comment);
  if (vector.space != Space::host)
    throw WrongSpace("'" + path + "': a vector is written from host memory; copy it there first");
  write_npy(path, {vector.data, vector.size, 1, vector.size, VectorLayout::columns, vector.space}, false);
}

Vector<double> read_vector(const ContextPtr& context, const std::string& path, const ReadOptions& options) {
  return is_npy(path) ? read_npy(context, path, options, false).entries
                      : read_vector_market(context, path, options);
}

VectorColumns read_vectors(const ContextPtr& context, const std::string& path, const ReadOptions& options) {
  return is_npy(path) ? read_npy(context, path, options, true) : read_vectors_market(context, path, options);
}

}  // namespace protean
