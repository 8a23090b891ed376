// Gmsh's ASCII mesh files, versions 2.x and 4.1: https://gmsh.info/doc/texinfo/gmsh.html#MSH-file-format
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unordered_map>

#include "apps/fem/mesh.hpp"
#include "core/error.hpp"
#include "core/io/input_file.hpp"

namespace protean::apps::fem {
namespace {

constexpr int tetrahedron_type = 4;

class GmshReader {
 public:
  explicit GmshReader(const std::string& path) : path_(path) {
    const io_detail::InputFile readable(path);  // refuses folders, devices and named pipes
    file_.open(path);
    if (!file_) throw BadFile(path, 0, 0, fmt::format("cannot read the mesh: {}", std::strerror(errno)));
  }

  Mesh read() {
    bool nodes = false, elements = false;
    while (next_line(true)) {
      if (text_.empty() || text_[0] != '$') continue;
      const std::string section = text_.substr(1);
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
        fail(fmt::format("'{}' instead of $End{}", text_.substr(0, 60), section));
      // Other sections (names, entities, ...) are ignored.
      while (text_ != "$End" + section) next_line();
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
    while (std::getline(file_, text_)) {
      ++line_;
      const std::size_t first = text_.find_first_not_of(" \t\r");
      if (first == std::string::npos) continue;
      text_ = text_.substr(first, text_.find_last_not_of(" \t\r") - first + 1);
      return true;
    }
    if (!may_end) fail("the file ends inside a section");
    return false;
  }

  // Reads the numbers of the next line, which must be at least `count`.
  template <class N>
  std::vector<N> numbers(std::size_t count) {
    next_line();
    std::istringstream words(text_);
    std::vector<N> list;
    for (N value; words >> value;) list.push_back(value);
    if (list.size() < count || !words.eof())
      fail(fmt::format("'{}': {} numbers are needed here", text_.substr(0, 60), count));
    return list;
  }
  std::int64_t count_of(std::int64_t value, const char* what) const {
    if (value < 0 || value > 2147483647) fail(fmt::format("{} {}", value, what));
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
    if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(z)) fail("a coordinate is not finite");
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

  std::string path_, text_;
  std::ifstream file_;
  std::int64_t line_ = 0;
  double version_ = 0;
  std::unordered_map<std::int64_t, std::int32_t> node_of_;
  Mesh mesh_;
};

}  // namespace

Mesh read_gmsh(const std::string& path) { return GmshReader(path).read(); }

}  // namespace protean::apps::fem
