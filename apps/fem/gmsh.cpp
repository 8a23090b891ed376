// Gmsh's ASCII mesh files, versions 2.x and 4.1: https://gmsh.info/doc/texinfo/gmsh.html#MSH-file-format
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "apps/fem/mesh.hpp"
#include "core/error.hpp"
#include "core/io/text_source.hpp"

namespace protean::apps::fem {
namespace {

constexpr int tetrahedron_type = 4;

class GmshReader {
 public:
  explicit GmshReader(const std::string& path) : path_(path), lines_(path, io_detail::open_text(path)) {
    // A mesh may have other sections of any size, of which nothing is kept.
    lines_.allow(std::numeric_limits<std::size_t>::max(), "");
  }

  Mesh read() {
    bool nodes = false, elements = false;
    while (next_line(true)) {
      if (text_.empty() || text_[0] != '$') continue;
      const std::string section(text_.substr(1));
      if (section == "MeshFormat") {
        read_format();
      } else if (section == "Nodes" || section == "Elements") {
        if (version_ == 0) fail("$MeshFormat must come first");
        if (section == "Nodes")
          version_ < 3 ? read_nodes_2() : read_nodes_4(), nodes = true;
        else if (!nodes)
          fail("$Elements before $Nodes");
        else
          version_ < 3 ? read_elements_2() : read_elements_4(), elements = true;
      }
      const bool known = section == "MeshFormat" || section == "Nodes" || section == "Elements";
      if (known && text_ != "$End" + section)
        fail(fmt::format("'{}' instead of $End{}", shown(text_), section));
      // Other sections (names, entities, ...) are ignored.
      for (const std::string end = "$End" + section; text_ != end;) next_line();
    }
    if (!nodes || !elements) fail("there are no $Nodes or no $Elements");
    if (mesh_.connectivity.empty())
      fail("there are no tetrahedra of four nodes (element type 4); save a volume mesh of order 1");
    finish();
    return std::move(mesh_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw BadFile(path_, line_, 0, message); }

  // Reads the next line that is not empty, without blanks at its ends. Returns false at the end of the file
  // if may_end is true, and throws there otherwise.
  bool next_line(bool may_end = false) {
    while (rest_ || next_piece()) {
      const auto* const end =
          static_cast<const char*>(std::memchr(rest_, '\n', static_cast<std::size_t>(piece_.end() - rest_)));
      text_ = trimmed({rest_, static_cast<std::size_t>(end - rest_)});
      ++line_;
      rest_ = end + 1 == piece_.end() ? nullptr : end + 1;
      if (!text_.empty()) return true;
    }
    if (!may_end) fail("the file ends inside a section");
    return false;
  }
  bool next_piece() {
    if (!lines_.next(piece_)) return false;
    rest_ = piece_.begin();
    return true;
  }
  static std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(blanks);
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(blanks) - first + 1);
  }

  // Reads the numbers of the next line, which must be at least `count`.
  template <class N>
  std::vector<N> numbers(std::size_t count) {
    next_line();
    std::vector<N> list;
    for (std::string_view rest = text_; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find_first_of(blanks));
      const bool plus = word.size() > 1 && word[0] == '+' && word[1] != '-';
      N value{};
      const auto [end, error] =
          std::from_chars(word.data() + (plus ? 1 : 0), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size() || !is_finite(value)) too_few(count);
      list.push_back(value);
      rest = trimmed(rest.substr(word.size()));
    }
    if (list.size() < count) too_few(count);
    return list;
  }
  template <class N>
  static bool is_finite(N value) {
    return std::isfinite(static_cast<double>(value));
  }
  [[noreturn]] void too_few(std::size_t count) const {
    fail(fmt::format("'{}': {} numbers are needed here", shown(text_), count));
  }
  // A part of a line for a message.
  static std::string shown(std::string_view text) {
    std::string part(text.substr(0, 60));
    for (char& c : part)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return part;
  }
  std::int64_t count_of(std::int64_t value, const char* what) const {
    if (value < 0 || value > most) fail(fmt::format("{} {}; allowed is 0 to {}", value, what, most));
    return value;
  }

  void read_format() {
    const auto format = numbers<double>(3);
    version_ = format[0];
    if (format[1] != 0) fail("a binary file; save the mesh as ASCII (gmsh -format msh41 -bin 0)");
    if (!(version_ >= 2 && version_ < 3) && version_ != 4.1)
      fail(fmt::format("version {} of the format; versions 2.x and 4.1 are read (gmsh -format msh41)",
                       version_));
    next_line();
  }

  void add_node(std::int64_t tag, double x, double y, double z) {
    if (mesh_.nodes.size() == static_cast<std::size_t>(most)) fail(fmt::format("more than {} nodes", most));
    if (!node_of_.emplace(tag, static_cast<std::int32_t>(mesh_.nodes.size())).second)
      fail(fmt::format("node {} is there twice", tag));
    mesh_.nodes.push_back({x, y, z});
  }
  void add_tetrahedron(const std::int64_t* tags) {
    for (int a = 0; a < 4; ++a) {
      const auto found = node_of_.find(tags[a]);
      if (found == node_of_.end()) fail(fmt::format("there is no node {}", tags[a]));
      mesh_.connectivity.push_back(found->second);
    }
  }

  void read_nodes_2() {
    const std::int64_t count = count_of(numbers<std::int64_t>(1)[0], "nodes");
    for (std::int64_t k = 0; k < count; ++k) {
      const auto node = numbers<double>(4);
      constexpr double exact = 0x1p53;
      if (node[0] != std::floor(node[0]) || std::fabs(node[0]) > exact)
        fail(fmt::format("the number of the node is {}, which is not a whole number below 2^53", node[0]));
      add_node(static_cast<std::int64_t>(node[0]), node[1], node[2], node[3]);
    }
    next_line();
  }
  void read_elements_2() {
    const std::int64_t count = count_of(numbers<std::int64_t>(1)[0], "elements");
    for (std::int64_t k = 0; k < count; ++k) {
      const auto element = numbers<std::int64_t>(4);  // number, type, number of tags, tags, nodes
      if (element[1] != tetrahedron_type) continue;
      if (element[2] < 0 || element.size() != static_cast<std::size_t>(element[2]) + 7)
        fail("a tetrahedron needs its number, 4, its tags and four nodes");
      add_tetrahedron(element.data() + element.size() - 4);
    }
    next_line();
  }

  void read_nodes_4() {
    const std::int64_t blocks = count_of(numbers<std::int64_t>(4)[0], "blocks of nodes");
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto head = numbers<std::int64_t>(4);  // dimension, entity, parametric, number of nodes
      const std::int64_t count = count_of(head[3], "nodes");
      std::vector<std::int64_t> tags;
      for (std::int64_t k = 0; k < count; ++k) tags.push_back(numbers<std::int64_t>(1)[0]);
      for (const std::int64_t tag : tags) {
        const auto at = numbers<double>(3);
        add_node(tag, at[0], at[1], at[2]);
      }
    }
    next_line();
  }
  void read_elements_4() {
    const std::int64_t blocks = count_of(numbers<std::int64_t>(4)[0], "blocks of elements");
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto head = numbers<std::int64_t>(4);  // dimension, entity, type, number of elements
      const std::int64_t count = count_of(head[3], "elements");
      for (std::int64_t k = 0; k < count; ++k) {
        const bool wanted = head[2] == tetrahedron_type;
        const auto element = numbers<std::int64_t>(wanted ? 5 : 1);
        if (wanted) add_tetrahedron(element.data() + 1);
      }
    }
    next_line();
  }

  // Removes nodes without a tetrahedron and finds the boundary: the faces that belong to one tetrahedron
  // only.
  void finish() {
    std::vector<std::int32_t> number(mesh_.nodes.size(), -1);
    for (const std::int32_t node : mesh_.connectivity) number[node] = 0;
    std::vector<Point> kept;
    for (std::size_t k = 0; k < number.size(); ++k)
      if (number[k] == 0) number[k] = static_cast<std::int32_t>(kept.size()), kept.push_back(mesh_.nodes[k]);
    mesh_.nodes = std::move(kept);
    std::vector<std::array<std::int32_t, 3>> faces;
    for (std::size_t e = 0; e < mesh_.connectivity.size(); e += 4) {
      std::int32_t* node = mesh_.connectivity.data() + e;
      for (int a = 0; a < 4; ++a) node[a] = number[node[a]];
      for (int without = 0; without < 4; ++without) {
        std::array<std::int32_t, 3> face{};
        for (int a = 0, k = 0; a < 4; ++a)
          if (a != without) face[k++] = node[a];
        std::sort(face.begin(), face.end());
        faces.push_back(face);
      }
    }
    std::sort(faces.begin(), faces.end());
    for (std::size_t f = 0; f < faces.size();) {
      std::size_t same = f + 1;
      while (same < faces.size() && faces[same] == faces[f]) ++same;
      if (same - f == 1) mesh_.boundary.insert(mesh_.boundary.end(), faces[f].begin(), faces[f].end());
      f = same;
    }
    std::sort(mesh_.boundary.begin(), mesh_.boundary.end());
    mesh_.boundary.erase(std::unique(mesh_.boundary.begin(), mesh_.boundary.end()), mesh_.boundary.end());
    mesh_.shape = Shape::tetrahedron, mesh_.degree = 1;
  }

  static constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  static constexpr std::string_view blanks = " \t\r";

  std::string path_;
  io_detail::LineSource lines_;
  io_detail::Piece piece_;
  const char* rest_ = nullptr;  // of the piece: the lines that follow; null behind the last one
  std::string_view text_;       // the line, within the piece
  std::int64_t line_ = 0;
  double version_ = 0;
  std::unordered_map<std::int64_t, std::int32_t> node_of_;
  Mesh mesh_;
};

}  // namespace

Mesh read_gmsh(const std::string& path) { return GmshReader(path).read(); }

}  // namespace protean::apps::fem
