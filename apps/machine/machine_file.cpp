#include "apps/machine/machine_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "apps/problem/yaml_tree.hpp"
#include "core/error.hpp"
#include "core/io/input_file.hpp"
#include "core/io/limits.hpp"

namespace protean::apps {
namespace {

constexpr std::int64_t largest_exact = std::int64_t{1} << 53;
constexpr double long_time = 1e6;  // seconds

MeasuredFormat read_format(const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::list || node.items.size() != 4)
    fail(node.place, path + " must be [name, bytes, seconds of a product, seconds of a conversion]");
  MeasuredFormat format;
  format.format = read_text(node.items[0], path + "[0]");
  format.bytes = static_cast<std::size_t>(read_integer(node.items[1], path + "[1]", 1, largest_exact));
  format.product_seconds = read_number(node.items[2], path + "[2]", {1e-12, long_time});
  format.convert_seconds = read_number(node.items[3], path + "[3]", {0, long_time});
  return format;
}

MeasuredMatrix read_measured(const Node& node, const std::string& path) {
  const Section section(node, path, {"matrix", "space", "rows", "nonzeros", "row_changes", "formats"});
  for (const char* key : {"matrix", "space", "rows", "nonzeros", "formats"})
    if (!section.has(key)) fail(node.place, fmt::format("{} has no '{}'", path, key));
  MeasuredMatrix matrix;
  matrix.matrix = section.text("matrix", "");
  matrix.space = section.word("space", "host", {"host", "device"}) == "host" ? Space::host : Space::device;
  matrix.rows = section.integer("rows", 0, 1, largest_exact),
  matrix.nonzeros = section.integer("nonzeros", 0, 1, largest_exact);
  if (section.has("row_changes")) matrix.row_changes = section.number("row_changes", 0, {0, 1});
  const Node& formats = *section.find("formats");
  if (formats.kind != Node::Kind::list) fail(formats.place, path + ".formats must be a list");
  for (std::size_t i = 0; i < formats.items.size(); ++i)
    matrix.formats.push_back(read_format(formats.items[i], fmt::format("{}.formats[{}]", path, i)));
  if (std::none_of(matrix.formats.begin(), matrix.formats.end(),
                   [](const MeasuredFormat& f) { return f.format == "csr"; }))
    fail(formats.place, path + ".formats has no csr, to which all others are compared");
  return matrix;
}

MeasuredRoof read_roof(const Node& node, const std::string& path) {
  const Section section(node, path, {"space", "memory", "cache", "cache_bytes"});
  for (const char* key : {"space", "memory"})
    if (!section.has(key)) fail(node.place, fmt::format("{} has no '{}'", path, key));
  MeasuredRoof roof;
  roof.space = section.word("space", "host", {"host", "device"}) == "host" ? Space::host : Space::device;
  roof.memory = section.number("memory", 0, {1, 1e18});
  roof.cache = section.number("cache", 0, {0, 1e18});
  roof.cache_bytes = static_cast<std::size_t>(section.integer("cache_bytes", 0, 0, largest_exact));
  return roof;
}

// The id of a format, which needs no quotes.
bool is_plain(std::string_view id) {
  return !id.empty() &&
         std::all_of(id.begin(), id.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }) &&
         id.front() >= 'a' && id != "null";
}

// Text in quotes, from which the same text is read.
std::string yaml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

std::string machine_text(const TunedMachine& table) {
  std::string text =
      "# Machine table of protean, written by `protean tune`. Each format: name, bytes, seconds of a "
      "product, seconds of a\n"
      "# conversion from csr. order-rcm: the same in a random numbering, with the seconds to find that order "
      "and to permute the\n# matrix.\n";
  const TableOrigin& origin = table.origin;
  for (const auto& [key, value] : {std::pair{"machine", &table.machine},
                                   {"processor", &origin.processor},
                                   {"gpu", &origin.gpu},
                                   {"version", &origin.version},
                                   {"date", &origin.date}})
    if (!value->empty()) text += fmt::format("{}: {}\n", key, yaml_quoted(*value));
  if (origin.threads > 0) text += fmt::format("threads: {}\n", origin.threads);
  if (!table.roofs.empty())
    text +=
        "# Bytes a second when a vector is copied: from and to memory, and in the last-level "
        "cache.\nroofs:\n";
  for (const MeasuredRoof& roof : table.roofs) {
    text += fmt::format("  - {{space: {}, memory: {:.4e}", to_string(roof.space), roof.memory);
    if (roof.cache > 0) text += fmt::format(", cache: {:.4e}, cache_bytes: {}", roof.cache, roof.cache_bytes);
    text += "}\n";
  }
  text += fmt::format("matrices:{}\n", table.matrices.empty() ? " []" : "");
  for (const MeasuredMatrix& matrix : table.matrices) {
    text += fmt::format("  - matrix: {}\n    space: {}\n    rows: {}\n    nonzeros: {}\n",
                        yaml_quoted(matrix.matrix), to_string(matrix.space), matrix.rows, matrix.nonzeros);
    if (matrix.row_changes >= 0) text += fmt::format("    row_changes: {:.3f}\n", matrix.row_changes);
    text += "    formats:\n";
    for (const MeasuredFormat& f : matrix.formats)
      text += fmt::format("      - [{}, {}, {:.5e}, {:.5e}]\n",
                          is_plain(f.format) ? f.format : yaml_quoted(f.format), f.bytes, f.product_seconds,
                          f.convert_seconds);
  }
  return text;
}

const MeasuredRoof* roof_of(const TunedMachine& table, Space space) {
  for (const MeasuredRoof& roof : table.roofs)
    if (roof.space == space) return &roof;
  return nullptr;
}

std::optional<double> days_since(const std::string& date) {
  std::tm day{};
  int end = 0;
  constexpr int characters = 10;
  if (date.size() != characters ||
      std::sscanf(date.c_str(), "%4d-%2d-%2d%n", &day.tm_year, &day.tm_mon, &day.tm_mday, &end) != 3 ||
      end != characters)
    return {};
  const int month = day.tm_mon, of_month = day.tm_mday;
  day.tm_year -= 1900, day.tm_mon -= 1;
  const std::time_t begin = timegm(&day);  // brings days that no month has into the next one
  if (begin < 0 || day.tm_mon + 1 != month || day.tm_mday != of_month) return {};
  constexpr double seconds = 24 * 3600;
  return std::difftime(std::time(nullptr), begin) / seconds;
}

TunedMachine parse_machine(std::string_view text, const std::string& file) {
  const Node root = parse_yaml(text, file);
  const Section section(root, "the machine table",
                        {"machine", "processor", "gpu", "threads", "version", "date", "roofs", "matrices"});
  if (!section.has("matrices"))
    fail(root.place,
         "this is not a machine table: the key 'matrices' is missing; `protean tune -o FILE` writes one");
  TunedMachine table;
  table.machine = section.text("machine", "");
  constexpr std::int64_t most_threads = 1 << 20;
  table.origin = {section.text("processor", ""), section.text("gpu", ""),
                  static_cast<int>(section.integer("threads", 0, 1, most_threads)),
                  section.text("version", ""), section.text("date", "")};
  if (section.has("date") && !days_since(table.origin.date))
    fail(section.find("date")->place,
         fmt::format("date is '{}'; it must be a day such as 2026-11-29", excerpt(table.origin.date)));
  if (section.has("roofs")) {
    const Node& roofs = *section.find("roofs");
    if (roofs.kind != Node::Kind::list) fail(roofs.place, "roofs must be a list");
    for (std::size_t i = 0; i < roofs.items.size(); ++i) {
      const MeasuredRoof roof = read_roof(roofs.items[i], fmt::format("roofs[{}]", i));
      if (roof_of(table, roof.space))
        fail(roofs.items[i].place, fmt::format("roofs has two of the {}", to_string(roof.space)));
      table.roofs.push_back(roof);
    }
  }
  const Node& matrices = *section.find("matrices");
  if (matrices.kind != Node::Kind::list) fail(matrices.place, "matrices must be a list");
  for (std::size_t i = 0; i < matrices.items.size(); ++i)
    table.matrices.push_back(read_measured(matrices.items[i], fmt::format("matrices[{}]", i)));
  return table;
}

TunedMachine read_machine(const std::string& file) {
  if (io_detail::kind_of(file) == io_detail::FileKind::missing)
    throw BadFile(file, 0, 0, "there is no such machine table; `protean tune -o FILE` writes one");
  return parse_machine(io_detail::read_text(file, io_detail::most_whole_file), file);
}

}  // namespace protean::apps
