#include "core/io/pbin.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "core/io/atomic_file.hpp"
#include "core/io/input_file.hpp"
#include "core/io/pbin_parts.hpp"
#include "core/parallel.hpp"

namespace protean {
namespace {

constexpr std::array<char, 8> magic = {'\x89', 'P', 'B', 'I', 'N', '\r', '\n', '\x1a'};
constexpr std::uint32_t this_version = 1, byte_order = 0x0a0b0c0d, type_double = 1;

struct FileHeader {
  std::array<char, 8> magic{};
  std::uint32_t version = 0, byte_order = 0, pointer_bytes = 0, value_type = 0;
  std::int64_t rows = 0, cols = 0, entries = 0;
  std::array<std::uint64_t, 3> offset{};
  std::uint64_t file_bytes = 0;
  std::array<std::uint64_t, 3> checksum{};
  std::array<std::uint64_t, 2> zero{};
  std::uint64_t header_checksum = 0;
};
static_assert(sizeof(FileHeader) == 128 && std::is_trivially_copyable_v<FileHeader>);

constexpr std::uint64_t K = 0x9e3779b97f4a7c15u, L = 0xbf58476d1ce4e5b9u;
constexpr std::size_t block_bytes = std::size_t{1} << 20;

std::uint64_t block_checksum(const unsigned char* data, std::size_t bytes) noexcept {
  std::uint64_t lanes[4] = {K, 2 * K, 3 * K, 4 * K};
  const auto step = [&](int lane, std::uint64_t word) {
    lanes[lane] = std::rotl((lanes[lane] ^ word) * K, 29);
  };
  std::size_t at = 0;
  for (; at + 32 <= bytes; at += 32) {
    std::uint64_t words[4];
    std::memcpy(words, data + at, 32);
    for (int lane = 0; lane < 4; ++lane) step(lane, words[lane]);
  }
  for (int lane = 0; at < bytes; ++lane, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::size_t>(8, bytes - at));
    step(lane, word);
  }
  std::uint64_t sum = bytes;
  for (const std::uint64_t lane : lanes) sum = std::rotl(sum ^ lane, 27) * L;
  return sum;
}

// Adds these bytes to the checksum of a section. They must begin where one of its blocks begins.
std::uint64_t add_blocks(const Context& context, std::uint64_t sum, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  const auto blocks = static_cast<std::int64_t>((bytes + block_bytes - 1) / block_bytes);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(blocks));
  parallel(useful_parts(context, blocks, 4), [&](int part, int parts) {
    const Range range = even_range(blocks, part, parts);
    for (std::int64_t b = range.begin; b < range.end; ++b) {
      const std::size_t begin = static_cast<std::size_t>(b) * block_bytes;
      sums[b] = block_checksum(from + begin, std::min(block_bytes, bytes - begin));
    }
  });
  for (const std::uint64_t block : sums) sum = std::rotl(sum ^ block, 27) * L;
  return sum;
}

std::uint64_t checksum(const Context& context, const void* data, std::size_t bytes) {
  const std::uint64_t sum = add_blocks(context, bytes, data, bytes);
  return sum ^ (sum >> 32);
}

std::uint64_t header_checksum(const Context& context, const FileHeader& header) {
  return checksum(context, &header, offsetof(FileHeader, header_checksum));
}

std::size_t section_bytes(const FileHeader& header, int section) {
  const auto entries = static_cast<std::size_t>(header.entries);
  return section == 0 ? static_cast<std::size_t>(header.rows + 1) * header.pointer_bytes
                      : entries * (section == 1 ? 4 : 8);
}
std::size_t padded(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

// The whole header without its checksums.
FileHeader layout_of(std::size_t pointer_bytes, std::int64_t rows, std::int64_t cols, std::int64_t entries) {
  FileHeader header;
  header.magic = magic, header.version = this_version, header.byte_order = byte_order;
  header.pointer_bytes = static_cast<std::uint32_t>(pointer_bytes), header.value_type = type_double;
  header.rows = rows, header.cols = cols, header.entries = entries;
  std::size_t end = sizeof header;
  for (int s = 0; s < 3; ++s) {
    header.offset[s] = end;
    end += padded(section_bytes(header, s));
  }
  header.file_bytes = end;
  return header;
}

constexpr std::string_view section_names[] = {"row pointers", "columns", "values"};

[[noreturn]] void fail_checksum(const std::string& path, int section) {
  throw BadFile(path, 0, 0, fmt::format("its {} are damaged (wrong checksum)", section_names[section]));
}

struct Mapping {
  const char* data = nullptr;
  std::size_t bytes = 0;
  Mapping(const std::string& path, int file, std::size_t size) : bytes(size) {
    void* mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
      throw BadFile(path, 0, 0, fmt::format("cannot be mapped: {}", std::strerror(errno)));
    data = static_cast<const char*>(mapped);
  }
  ~Mapping() { munmap(const_cast<char*>(data), bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
};

}  // namespace

bool is_pbin(const std::string& path) {
  return io_detail::first_bytes(path, magic.size()) == std::string_view(magic.data(), magic.size());
}

CsrMatrix<double> read_pbin(const ContextPtr& context, const std::string& path, bool verify,
                            bool allow_not_finite) {
  const auto fail = [&](const std::string& message) { throw BadFile(path, 0, 0, message); };
  const io_detail::InputFile file(path);
  if (!file.ordinary()) fail("is a pipe; a .pbin file is mapped into memory, so it must be an ordinary file");
  const auto size = static_cast<std::size_t>(file.size());
  FileHeader header;
  const bool whole = size >= sizeof header && file.read_at(0, &header, sizeof header) == sizeof header;
  if (!whole || header.magic != magic) fail("is no .pbin file (its first bytes are others)");
  if (header.byte_order != byte_order)
    fail(header.byte_order == 0x0d0c0b0a
             ? "was written on a machine of the other byte order; convert the text file here"
             : "its byte order mark is damaged");
  if (header.version != this_version)
    fail(fmt::format("is of version {}; this program reads version {}: convert the matrix again",
                     header.version, this_version));
  if (header.header_checksum != header_checksum(*context, header))
    fail("its header is damaged (wrong checksum)");
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  if (header.value_type != type_double || (header.pointer_bytes != 4 && header.pointer_bytes != 8))
    fail(fmt::format("has values of type {} and row pointers of {} bytes; known are type 1 and 4 or 8 bytes",
                     header.value_type, header.pointer_bytes));
  if (header.rows < 0 || header.rows > largest || header.cols < 0 || header.cols > largest ||
      header.entries < 0 || header.entries > static_cast<std::int64_t>(size) ||
      (header.pointer_bytes == 4 && header.entries > largest))
    fail(fmt::format("has impossible sizes: {} x {}, {} entries", header.rows, header.cols, header.entries));
  std::size_t end = sizeof header;
  for (int s = 0; s < 3; ++s) {
    if (header.offset[s] != end) fail("its sections do not begin where they must");
    end += padded(section_bytes(header, s));
  }
  if (header.file_bytes != end) fail("its size does not follow from its header");
  if (size != end)
    fail(fmt::format("has {} bytes, but its header states {}; it may have been cut off", size, end));

  const auto mapping = std::make_shared<Mapping>(path, file.descriptor(), size);
  CsrMatrix<double> matrix;
  SparsityPattern& p = matrix.pattern;
  p.rows = header.rows, p.cols = header.cols, p.nonzeros = header.entries;
  if (header.pointer_bytes == 4)
    p.row_ptr.p32 = reinterpret_cast<const std::int32_t*>(mapping->data + header.offset[0]);
  else
    p.row_ptr.p64 = reinterpret_cast<const std::int64_t*>(mapping->data + header.offset[0]);
  p.col = reinterpret_cast<const std::int32_t*>(mapping->data + header.offset[1]);
  matrix.values = reinterpret_cast<const double*>(mapping->data + header.offset[2]);
  p.owner = mapping, matrix.values_owner = mapping;
  if (p.row_ptr[0] != 0 || p.row_ptr[p.rows] != p.nonzeros) fail("its row pointers do not span its entries");
  if (!verify) return matrix;
  for (int s = 0; s < 3; ++s)
    if (checksum(*context, mapping->data + header.offset[s], section_bytes(header, s)) != header.checksum[s])
      fail_checksum(path, s);
  try {
    validate_sorted(*context, p);
    if (!allow_not_finite) require_finite(*context, matrix);
  } catch (const BadMatrix& error) { fail(error.what()); }
  return matrix;
}

namespace {

// The whole range of bytes; a file that has become shorter meanwhile is an error.
void read_bytes(const io_detail::InputFile& file, const std::string& path, std::uint64_t from, void* to,
                std::size_t bytes) {
  if (file.read_at(from, to, bytes) != bytes) throw BadFile(path, 0, 0, "became shorter while it was read");
}

std::int64_t blocks_of(const FileHeader& header, int section) {
  return static_cast<std::int64_t>((section_bytes(header, section) + block_bytes - 1) / block_bytes);
}

}  // namespace

namespace io_detail {

std::vector<std::uint64_t> pbin_block_sums(const std::string& path, int part, int parts) {
  const InputFile file(path);
  FileHeader header;
  read_bytes(file, path, 0, &header, sizeof header);
  std::vector<std::uint64_t> sums;
  std::vector<unsigned char> block(block_bytes);
  for (int s = 0; s < 3; ++s) {
    const Range range = even_range(blocks_of(header, s), part, parts);
    for (std::int64_t b = range.begin; b < range.end; ++b) {
      const std::size_t begin = static_cast<std::size_t>(b) * block_bytes,
                        bytes = std::min(block_bytes, section_bytes(header, s) - begin);
      read_bytes(file, path, header.offset[s] + begin, block.data(), bytes);
      sums.push_back(block_checksum(block.data(), bytes));
    }
  }
  return sums;
}

void require_pbin_checksums(const std::string& path, const std::vector<std::vector<std::uint64_t>>& parts) {
  const InputFile file(path);
  FileHeader header;
  read_bytes(file, path, 0, &header, sizeof header);
  const int count = static_cast<int>(parts.size());
  std::vector<std::size_t> at(parts.size(), 0);
  for (int s = 0; s < 3; ++s) {
    std::uint64_t sum = section_bytes(header, s);
    for (int part = 0; part < count; ++part) {
      const Range range = even_range(blocks_of(header, s), part, count);
      for (std::int64_t b = range.begin; b < range.end; ++b)
        sum = std::rotl(sum ^ parts[static_cast<std::size_t>(part)].at(at[static_cast<std::size_t>(part)]++),
                        27) *
              L;
    }
    if ((sum ^ (sum >> 32)) != header.checksum[s]) fail_checksum(path, s);
  }
}

}  // namespace io_detail

void write_pbin(const Context& context, const std::string& path, const CsrMatrix<double>& matrix) {
  const SparsityPattern& p = matrix.pattern;
  FileHeader header = layout_of(p.row_ptr.width(), p.rows, p.cols, p.nonzeros);
  const void* sections[3] = {p.row_ptr.p32 ? static_cast<const void*>(p.row_ptr.p32) : p.row_ptr.p64, p.col,
                             matrix.values};
  for (int s = 0; s < 3; ++s) header.checksum[s] = checksum(context, sections[s], section_bytes(header, s));
  header.header_checksum = header_checksum(context, header);
  AtomicFile file(path);
  file.write(&header, sizeof header);
  constexpr std::array<char, 64> zeros{};
  for (int s = 0; s < 3; ++s) {
    const std::size_t bytes = section_bytes(header, s);
    if (bytes > 0) file.write(sections[s], bytes);
    file.write(zeros.data(), padded(bytes) - bytes);
  }
  file.commit();
}

namespace {

// A section while it is written, from its first byte to its last.
struct Section {
  static constexpr std::size_t buffer_bytes = 8 * block_bytes;
  std::vector<char> buffer;
  std::uint64_t offset = 0, sum = 0;
  std::size_t left = 0;  // bytes that are still missing
};

}  // namespace

struct PbinWriter::State {
  State(ContextPtr c, const std::string& p) : context(std::move(c)), path(p), file(p) {}

  void add(Section& section, const void* data, std::size_t bytes) {
    if (bytes > section.left)
      throw BadArgument(fmt::format("'{}': more rows or entries than were announced", path));
    section.left -= bytes;
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const std::size_t part = std::min(bytes, Section::buffer_bytes - section.buffer.size());
      section.buffer.insert(section.buffer.end(), from, from + part);
      from += part, bytes -= part;
      if (section.buffer.size() == Section::buffer_bytes) flush(section);
    }
  }
  void flush(Section& section) {
    section.sum = add_blocks(*context, section.sum, section.buffer.data(), section.buffer.size());
    file.write_at(section.offset, section.buffer.data(), section.buffer.size());
    section.offset += section.buffer.size();
    section.buffer.clear();
  }
  void add_pointer(std::int64_t value) {
    if (header.pointer_bytes == 4) {
      const auto narrow = static_cast<std::int32_t>(value);
      add(sections[0], &narrow, 4);
    } else {
      add(sections[0], &value, 8);
    }
  }

  ContextPtr context;
  std::string path;
  AtomicFile file;
  FileHeader header;
  Section sections[3];
  std::int64_t rows = 0, entries = 0;  // received so far
};

PbinWriter::PbinWriter(ContextPtr context, const std::string& path)
    : state_(std::make_unique<State>(std::move(context), path)) {}
PbinWriter::~PbinWriter() = default;

void PbinWriter::begin(std::int64_t rows, std::int64_t cols, std::int64_t nonzeros) {
  State& s = *state_;
  const bool narrow = nonzeros <= std::numeric_limits<std::int32_t>::max();  // the rule of CsrBuilder
  s.header = layout_of(narrow ? 4 : 8, rows, cols, nonzeros);
  for (int i = 0; i < 3; ++i) {
    s.sections[i].offset = s.header.offset[i];
    s.sections[i].sum = s.sections[i].left = section_bytes(s.header, i);
    s.sections[i].buffer.reserve(std::min(Section::buffer_bytes, s.sections[i].left));
  }
  s.add_pointer(0);
}

void PbinWriter::take(const RowStretch& stretch) {
  State& s = *state_;
  if (stretch.first != s.rows)
    throw BadArgument(fmt::format("'{}': row {} follows row {}", s.path, stretch.first, s.rows - 1));
  const std::int64_t shift = s.entries - stretch.row_ptr[0], entries = stretch.entries();
  for (std::int64_t i = 1; i <= stretch.rows; ++i) s.add_pointer(stretch.row_ptr[i] + shift);
  s.add(s.sections[1], stretch.col, static_cast<std::size_t>(entries) * 4);
  s.add(s.sections[2], stretch.values, static_cast<std::size_t>(entries) * 8);
  s.rows += stretch.rows, s.entries += entries;
}

void PbinWriter::commit() {
  State& s = *state_;
  constexpr std::array<char, 64> zeros{};
  for (int i = 0; i < 3; ++i) {
    Section& section = s.sections[i];
    if (section.left > 0) throw BadArgument(fmt::format("'{}': rows are missing", s.path));
    s.flush(section);
    s.header.checksum[i] = section.sum ^ (section.sum >> 32);
    const std::size_t bytes = section_bytes(s.header, i);
    s.file.write_at(section.offset, zeros.data(), padded(bytes) - bytes);
  }
  s.header.header_checksum = header_checksum(*s.context, s.header);
  s.file.write_at(0, &s.header, sizeof s.header);
  s.file.commit();
}

}  // namespace protean
