// A YAML text as a plain tree in which every value knows where it came from, and a strict reader for it.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace protean::apps {

// Where a value was written: a file with line and column, or "--set key=value" with neither.
struct Place {
  std::shared_ptr<const std::string> file;
  std::int64_t line = 0, column = 0;
};

struct Node {
  enum class Kind : unsigned char { nothing, scalar, list, map };
  struct Entry;

  Kind kind = Kind::nothing;
  bool quoted = false;  // "7" is a word, 7 a number
  std::string text;
  std::vector<Node> items;
  std::vector<Entry> entries;  // in the order of the file, keys distinct
  Place place;

  const Entry* find(std::string_view key) const noexcept;
};

struct Node::Entry {
  std::string key;
  Place place;  // of the key
  Node value;
};

// Throws BadFile, message preceded by file:line:column.
[[noreturn]] void fail(const Place& place, const std::string& message);

// One document. Throws BadFile for broken YAML, duplicate keys, keys that are no plain words, anchors,
// aliases and tags, a second document, or nesting deeper than 32.
Node parse_yaml(std::string_view text, const std::string& file);

// Puts the value of "solver.method=cg" into the tree; the maps on the way to it are made, and take the place
// of a scalar that is there. The value is YAML. Throws BadFile with `--set ...` as the place.
void set_value(Node& root, const std::string& assignment);

// A map that may hold these keys and no other; made of another kind of node or with another key it throws
// BadFile that names the keys allowed and the nearest. Every getter takes one of the keys, and says in its
// errors what was expected.
class Section {
 public:
  Section(const Node& node, std::string path, std::initializer_list<std::string_view> keys);
  Section(const Node& node, std::string path, const std::vector<std::string_view>& keys);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  const Node* find(std::string_view key) const;
  const Place& place() const noexcept { return node_.place; }
  const Node& node() const noexcept { return node_; }
  // "solver.restart"
  std::string path_of(std::string_view key) const;

  // An absent key gives the default.
  double number(std::string_view key, double otherwise, double smallest, double largest) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise, std::int64_t smallest,
                       std::int64_t largest) const;
  std::string word(std::string_view key, std::string_view otherwise,
                   const std::vector<std::string_view>& choices) const;
  std::string text(std::string_view key, std::string_view otherwise) const;

 private:
  void check() const;
  const Node& node_;
  std::string path_;
  std::vector<std::string_view> keys_;
};

// A scalar as a number or text; BadFile naming `path` otherwise.
double read_number(const Node& node, const std::string& path, double smallest, double largest);
std::int64_t read_integer(const Node& node, const std::string& path, std::int64_t smallest,
                          std::int64_t largest);
std::string read_text(const Node& node, const std::string& path);

}  // namespace protean::apps
